//! A pipeline that hides copies behind compute: the next block of input is on its way while a kernel works on this one.
//!
//! `cargo run -p cuforge --example prefetch` on a machine with a GPU and NVRTC, and
//! `cargo xtask sim -- cargo run -p cuforge --example prefetch` on any machine.

use std::error::Error;
use std::process::ExitCode;

use cuforge::Session;
use cuforge::core::{
    Access, Arguments, BuildOptions, Element, Extent, KernelSpec, Parameter, Request, Schedule,
};
use cuforge::launch::Prefetcher;

/// Adds up each block of input into one word of `sums`.
const SUM: &str = r#"
extern "C" __global__ void sum(const unsigned *block, unsigned *sums, unsigned at, unsigned n) {
    unsigned i = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    if (i < n) atomicAdd(&sums[at], block[i]);
}"#;

const BLOCKS: u32 = 64;
const WORDS: u32 = 16 * 1024;
const BYTES: usize = WORDS as usize * 4;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prefetch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().slab_bytes(64 << 20).build()?;
    println!("device    {}", session.device().adapter().name);
    // SAFETY: the guard keeps reads within the block, and `at` is below the number of sums.
    let sum = unsafe {
        KernelSpec::cuda_c(
            "sum",
            "sum",
            SUM,
            vec![
                Parameter::buffer("block", 0, Element::U32, Access::StorageRead),
                Parameter::buffer("sums", 1, Element::U32, Access::StorageReadWrite),
                Parameter::scalar("at", Element::U32),
                Parameter::scalar("n", Element::U32),
            ],
        )
    };
    let pipeline = session.prepare(&sum, &Schedule::new([256, 1, 1]), &BuildOptions::default())?;
    let sums = session.allocate(&Request::new(u64::from(BLOCKS) * 4))?;
    let sums = sums.bound_to(0, 1, Access::StorageReadWrite)?;
    session.write(&sums, &[0; BLOCKS as usize * 4])?;

    let slab = session.slab().clone();
    let mut ahead = Prefetcher::new(&slab, &Request::new(BYTES as u64), 2)?;
    ahead.push(BYTES, |bytes| fill(0, bytes))?;
    for at in 0..BLOCKS {
        let block = ahead.take(session.stream())?.ok_or("nothing was pushed")?;
        if at + 1 < BLOCKS {
            // Fills pinned memory and starts the copy while the kernel of the block before may still run.
            ahead.push(BYTES, |bytes| fill(at + 1, bytes))?;
        }
        let view = block.view().bound_to(0, 0, Access::StorageRead)?;
        let by_value = [at.to_le_bytes(), WORDS.to_le_bytes()].concat();
        let arguments = Arguments { views: &[view, sums], by_value: &by_value };
        pipeline.launch(session.stream(), &slab, arguments, Extent::Elements(WORDS.into()))?;
    }
    let got: Vec<u32> = session.read_vec(&sums)?;
    let wrong = (0..BLOCKS).zip(&got).filter(|(at, sum)| expected(*at) != **sum).count();
    println!("prefetch  {BLOCKS} blocks of {BYTES} bytes, {wrong} wrong");
    if wrong == 0 { Ok(()) } else { Err("a block was read before it had arrived".into()) }
}

/// The words of block `at`.
fn fill(at: u32, bytes: &mut [u8]) {
    for (i, word) in (0u32..).zip(bytes.chunks_exact_mut(4)) {
        word.copy_from_slice(&at.wrapping_mul(31).wrapping_add(i % 7).to_le_bytes());
    }
}

fn expected(at: u32) -> u32 {
    (0..WORDS).fold(0u32, |sum, i| sum.wrapping_add(at.wrapping_mul(31).wrapping_add(i % 7)))
}
