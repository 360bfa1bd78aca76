//! CUDA C through NVRTC, and PTX, to module images; found, loaded and cached so that nothing is served wrong.
#![deny(unsafe_code)]

mod build_id;
mod compiler;
mod engine;
mod error;
mod ffi;
mod includes;
mod locate;
mod nvrtc;
mod options;
mod policy;
mod ptx_header;

pub use compiler::Compiler;
pub use engine::{CancelToken, Engine, Identity, Job, Limits, Output};
pub use error::CompileError;
pub use locate::{Candidate, Found, Looked, Origin, SearchPaths};
pub use nvrtc::Nvrtc;
pub use policy::newest_ptx_for;
pub use ptx_header::{PtxHeader, PtxVersion};
