//! Execution: a launch runs blocks on host threads, a block runs its warps, a warp runs decoded instructions.

mod access;
mod atomics;
mod barrier;
mod block;
mod checks;
mod copies;
mod elements;
mod exchange;
mod flights;
mod known;
mod launch;
mod machine;
mod matrix;
mod options;
mod ordered;
mod perform;
mod print;
mod propagate;
mod random;
mod schedule;
mod step;
mod sync;
mod taint;
mod view;
mod warp;

pub use launch::{LaunchReport, launch};
pub use options::{Checks, ExitedThreads, LaunchOptions};
