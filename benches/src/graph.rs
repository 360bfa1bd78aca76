//! Graphs on a GPU: replays, patched slots, token loops and device loops beside raw driver calls, cudarc and `PyTorch`.
//!
//! Every pair runs interleaved. The CPU cost of a replay is taken in bursts of at most 32 into a drained stream.
#![allow(unsafe_code, reason = "the rivals are raw driver calls")]

mod loops;
mod raw;
mod replays;
mod rig;
mod tokens;
mod torch;

use crate::area::{Measured, Settings};
use rig::Bench;
use torch::Torch;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let mut bench = Bench::new()?;
    println!("  {} on {:?}", bench.device.adapter().name, bench.device.driver());
    let mut torch = match Torch::start() {
        Ok(torch) => {
            println!("  PyTorch {} in a process of its own", torch.version());
            Some(torch)
        }
        Err(why) => {
            println!("  no PyTorch: {why}");
            None
        }
    };
    let mut figures = Vec::new();
    for nodes in [1, 10, 100, 1000] {
        figures.extend(bench.replays(nodes, rounds, torch.as_mut())?);
    }
    figures.extend(bench.slots(rounds)?);
    figures.extend(bench.tokens(rounds, torch.as_mut())?);
    figures.extend(bench.loops(rounds)?);
    figures.extend(bench.edges(rounds)?);
    figures.extend(bench.making(rounds)?);
    Ok(figures)
}
