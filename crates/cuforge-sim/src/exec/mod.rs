//! Execution: a launch runs blocks on host threads, a block runs its warps, a warp runs decoded instructions.

mod access;
mod atomics;
mod bank;
mod barrier;
mod block;
mod bulk;
mod checks;
mod cluster;
mod copies;
mod elements;
mod exchange;
mod flights;
mod gates;
mod known;
mod launch;
mod machine;
mod matrix;
mod mbarrier;
mod options;
mod ordered;
mod perform;
mod print;
mod propagate;
mod random;
mod runner;
mod schedule;
mod step;
mod sync;
mod taint;
mod view;
mod warp;

pub use launch::{LaunchReport, launch};
pub use options::{Checks, ExitedThreads, LaunchOptions};
