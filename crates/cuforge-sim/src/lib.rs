//! A simulated CUDA device as a library: parses, runs and mutates PTX, with detectors

pub mod ptx;
