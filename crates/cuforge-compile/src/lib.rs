//! CUDA C through NVRTC, and PTX, to module images; found, loaded and cached so that nothing is served wrong.
#![deny(unsafe_code)]

mod build_id;
mod engine;
mod error;
mod ffi;
mod includes;
mod locate;
mod nvrtc;

pub use engine::{CancelToken, Engine, Identity, Job, Limits, Output};
pub use error::CompileError;
pub use locate::{Candidate, Found, Looked, Origin, SearchPaths};
pub use nvrtc::Nvrtc;
