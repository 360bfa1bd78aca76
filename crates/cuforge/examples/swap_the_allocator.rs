//! The allocator swapped in ten lines: the session's slab behind a general free list with a cap and red zones.
//!
//! `cargo run -p cuforge --example swap_the_allocator` on a machine with a GPU, and
//! `cargo xtask sim -- cargo run -p cuforge --example swap_the_allocator` on any machine.

use std::error::Error;
use std::process::ExitCode;

use cuforge::Session;
use cuforge::core::Request;
use cuforge::slab::{Limited, TlsfSlab};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("swap_the_allocator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // Any `Box<dyn SlabAllocator + Send>` will do: one of these, a wrapper around one, or your own.
    let general = TlsfSlab::new(64 << 20)?;
    let capped = Limited::new(general, 16 << 20);
    let mut session = Session::builder().allocator(Box::new(capped)).build()?;

    let view = session.allocate(&Request::new(8 << 20))?;
    session.write(&view, &[7; 1024])?;
    println!("allocated {} MiB on {}", view.len() >> 20, session.device().adapter().name);
    match session.allocate(&Request::new(12 << 20)) {
        Err(error) => println!("refused   12 MiB more: {error}"),
        Ok(_) => return Err("the cap of 16 MiB was not kept".into()),
    }
    session.retire(view)?;
    session.close()?;
    Ok(())
}
