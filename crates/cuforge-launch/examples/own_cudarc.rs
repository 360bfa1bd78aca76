//! Bring your own cudarc context: memory and launches of this crate beside cudarc's, on one context and one stream.
//!
//! `cargo run -p cuforge-launch --example own_cudarc` on a machine with a GPU, and
//! `cargo xtask sim -- cargo run -p cuforge-launch --example own_cudarc` on any machine.

use std::error::Error;
use std::process::ExitCode;

use cudarc::driver::CudaContext;
use cuforge_core::Request;
use cuforge_launch::{Device, Driver, Slab, SlabOptions, Stream};

#[path = "support/first_fit.rs"]
mod first_fit;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("own_cudarc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // cudarc panics where there is no driver, so this crate is asked first: it answers with an error.
    Driver::load()?;
    let context = CudaContext::new(0)?;
    let theirs = context.new_stream()?;

    let device = Device::from_cudarc(&context)?;
    let mut ours = Stream::from_cudarc(&device, &theirs)?;
    let slab = Slab::new(&device, first_fit::FirstFit::boxed(2 << 20), SlabOptions::default())?;
    let view = slab.acquire(&Request::new(64))?;
    slab.write(&mut ours, &view, &[7; 64])?;
    // One stream under two names: what was submitted through either is in order.
    theirs.synchronize()?;
    let back = slab.read_vec::<u8>(&mut ours, &view)?;
    println!("own_cudarc {} bytes on {}", back.len(), device.adapter().name);
    if back == [7; 64] { Ok(()) } else { Err("the bytes did not come back".into()) }
}
