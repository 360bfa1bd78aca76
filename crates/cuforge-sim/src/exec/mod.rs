//! Execution: a launch runs blocks on host threads, a block runs its warps, a warp runs decoded instructions.

mod access;
mod atomics;
mod barrier;
mod block;
mod copies;
mod elements;
mod exchange;
mod launch;
mod machine;
mod matrix;
mod options;
mod perform;
mod step;
mod sync;
mod view;
mod warp;

pub use launch::{LaunchReport, launch};
pub use options::{Checks, ExitedThreads, LaunchOptions};
