//! Kernels on the simulated device: what they compute, and what its detectors find.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod atomics;
mod barriers;
mod bounds;
mod calls;
mod clusters;
mod conflicts;
mod conformance;
mod determinism;
mod flow;
mod forms;
mod gates;
mod harness;
mod hazards;
mod launches;
mod nvrtc;
mod planted;
mod robustness;
mod spaces;
mod tiles;
mod undefined;
