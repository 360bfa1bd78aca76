//! Whatever parses runs to an end, a fault or its budget, and a second run of the same ends in the same.
//!
//! `cargo +nightly fuzz run run fuzz/corpus/run fuzz/seeds -- -dict=fuzz/ptx.dict`, in `crates/cuforge-sim`.
#![no_main]

use cuforge_core::LaunchGeometry;
use cuforge_sim::ptx::Module;
use cuforge_sim::{Fault, LaunchOptions, LaunchReport, Memory, Program, launch};
use libfuzzer_sys::fuzz_target;

/// Bytes of each of the two buffers that parameters point to.
const BUFFER_BYTES: u64 = 4096;

fn run(program: &Program, name: &str, options: &LaunchOptions) -> Option<(Result<LaunchReport, Fault>, Vec<u8>)> {
    let kernel = program.kernel(name).ok()?;
    // Parameters are words that point to a buffer, then small numbers.
    let mut memory = Memory::new(1 << 20);
    let buffers = [memory.allocate(BUFFER_BYTES, 256).ok()?, memory.allocate(BUFFER_BYTES, 256).ok()?];
    memory.fill(buffers[0], BUFFER_BYTES, 1).ok()?;
    if kernel.param_bytes() > 4096 {
        return None;
    }
    let word = |at: u64| buffers.get(at as usize).copied().unwrap_or(7 + at);
    let mut params: Vec<u8> = (0..u64::from(kernel.param_bytes()).div_ceil(8)).flat_map(|at| word(at).to_le_bytes()).collect();
    params.truncate(kernel.param_bytes() as usize);
    let geometry = LaunchGeometry { grid: [2, 1, 1], block: [40, 1, 1], shared_bytes: 256 };
    let ended = launch(&kernel, &geometry, &params, &mut memory, options);
    let mut bytes = vec![0; BUFFER_BYTES as usize];
    memory.read(buffers[1], &mut bytes).ok()?;
    Some((ended, bytes))
}

fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    let Ok(program) = Program::load(&module) else { return };
    for name in program.kernel_names() {
        let options = LaunchOptions { threads: 1, seed: 3, step_budget: 2000, ..LaunchOptions::default() };
        let first = run(&program, &name, &options);
        let second = run(&program, &name, &LaunchOptions { threads: 2, ..options });
        match (&first, &second) {
            (Some((Ok(_), _)), _) | (_, Some((Ok(_), _))) => assert_eq!(first, second),
            // After a fault, memory holds what had been written so far.
            _ => assert_eq!(first.map(|(ended, _)| ended), second.map(|(ended, _)| ended)),
        }
    }
});
