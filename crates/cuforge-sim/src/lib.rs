//! A simulated CUDA device as a library: parses, runs and mutates PTX, with detectors
#![forbid(unsafe_code)]

pub mod mutate;
pub mod ptx;
