//! Kernels compiled ahead of time, for machines without NVRTC: made on one machine, run on another from one file.
//!
//! `cargo run -p cuforge --example ahead_of_time -- make kernels.cuforge` where NVRTC is (no GPU needed), then
//! `cargo run -p cuforge --example ahead_of_time -- run kernels.cuforge` where a GPU is (no NVRTC needed). On one machine
//! without a GPU: `cargo xtask sim -- cargo run -p cuforge --example ahead_of_time -- make kernels.cuforge`, then
//! `cargo xtask sim -- cargo run -p cuforge --example ahead_of_time -- run kernels.cuforge`.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuforge::Session;
use cuforge::compile::{CacheOptions, Compiler, SearchPaths};
use cuforge::core::{
    Access, Arguments, BuildOptions, CompileRequest, ComputeCapability, DriverVersion, Element, Extent,
    KernelSpec, Parameter, Request, Schedule, Target,
};

const SQUARE: &str = r#"
extern "C" __global__ void square(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    if (i < n) x[i] = x[i] * x[i];
}"#;

/// What to compile for: Turing, Ampere, Ada, Hopper, Blackwell.
const CAPABILITIES: [u16; 6] = [75, 80, 86, 89, 90, 100];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["make", file] => make(Path::new(file)),
        ["run", file] => run(Path::new(file)),
        _ => Err("make FILE, or run FILE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ahead_of_time: {error}");
            ExitCode::FAILURE
        }
    }
}

fn square() -> KernelSpec {
    let x = Parameter::buffer("x", 0, Element::U32, Access::StorageReadWrite);
    let n = Parameter::scalar("n", Element::U32);
    // SAFETY: the guard keeps every access within the `n` elements of the buffer.
    unsafe { KernelSpec::cuda_c("square", "square", SQUARE, vec![x, n]) }
}

fn schedule() -> Schedule {
    Schedule::new([128, 1, 1])
}

/// Compiles for every capability and writes the bundle.
fn make(file: &Path) -> Result<(), Box<dyn Error>> {
    let cache = env::temp_dir().join(format!("cuforge-ahead-of-time-{}", std::process::id()));
    let compiler = Compiler::find(&SearchPaths::default())?.with_cache(CacheOptions::in_folder(&cache));
    for sm in CAPABILITIES {
        let target =
            Target::new(ComputeCapability::from_sm(sm)).with_driver(DriverVersion { major: 13, minor: 0 });
        let request = CompileRequest::for_kernel(&square(), &schedule(), &BuildOptions::default(), target)?;
        println!("compiled  {}", compiler.image(&request)?.decision);
    }
    let report = compiler.export(file, &mut |_| true)?;
    std::fs::remove_dir_all(&cache)?;
    println!("bundle    {} images in {}", report.copied, file.display());
    Ok(())
}

/// Runs from the bundle alone.
fn run(file: &Path) -> Result<(), Box<dyn Error>> {
    let nowhere = SearchPaths::only::<PathBuf>([]);
    let mut session = Session::builder().slab_bytes(2 << 20).search_paths(nowhere).bundle(file).build()?;
    let x = session.allocate(&Request::new(4 * 1000))?.bound_to(0, 0, Access::StorageReadWrite)?;
    let words: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    session.write(&x, &words)?;
    let arguments = Arguments { views: &[x], by_value: &1000u32.to_le_bytes() };
    session.run(&square(), &schedule(), arguments, Extent::Elements(1000))?;
    let squares: Vec<u32> = session.read_vec(&x)?;
    let wrong = squares.iter().zip(0u32..).filter(|(square, i)| **square != i * i).count();
    println!("square    1000 elements without NVRTC, {wrong} wrong");
    if wrong == 0 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}
