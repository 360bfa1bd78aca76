//! A first kernel: compile CUDA C, move data in, run, read the result back, and say what each step did.
//!
//! `cargo run -p cuforge --example first_kernel` on a machine with a GPU and NVRTC, and
//! `cargo xtask sim -- cargo run -p cuforge --example first_kernel` on any machine.

use std::error::Error;
use std::process::ExitCode;

use cuforge::Session;
use cuforge::core::{Access, Arguments, Element, Extent, KernelSpec, Parameter, Request, Schedule};

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(const float *x, float *y, float a, unsigned n) {
    unsigned i = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"#;

const N: u32 = 100_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().slab_bytes(64 << 20).build()?;
    println!("device    {}", session.device().adapter().name);

    // SAFETY: the guard keeps every access within the `n` elements that both buffers have.
    let saxpy = unsafe {
        KernelSpec::cuda_c(
            "saxpy",
            "saxpy",
            SAXPY,
            vec![
                Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
                Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
                Parameter::scalar("a", Element::F32),
                Parameter::scalar("n", Element::U32),
            ],
        )
    };

    let bytes = u64::from(N) * 4;
    let x = session.allocate(&Request::new(bytes))?.bound_to(0, 0, Access::StorageRead)?;
    let y = session.allocate(&Request::new(bytes))?.bound_to(0, 1, Access::StorageReadWrite)?;
    let xs: Vec<u8> = (0..N).flat_map(|i| (i as f32).to_le_bytes()).collect();
    session.write(&x, &xs)?;
    session.write(&y, &1f32.to_le_bytes().repeat(N as usize))?;

    // By value come the scalars, in the order in which they were declared.
    let by_value = [2f32.to_le_bytes(), N.to_le_bytes()].concat();
    let arguments = Arguments { views: &[x, y], by_value: &by_value };
    let schedule = Schedule::new([256, 1, 1]);
    let time = session.run(&saxpy, &schedule, arguments, Extent::Elements(N.into()))?;

    let result: Vec<f32> = session.read_vec(&y)?;
    let wrong = result.iter().zip(0..N).filter(|(y, i)| **y != 2.0 * *i as f32 + 1.0).count();
    println!("saxpy     {N} elements in {:.1} us, {wrong} wrong", time.nanoseconds as f64 / 1e3);
    session.close()?;
    if wrong == 0 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}
