//! CUDA C through NVRTC, and PTX, to module images; found, loaded and cached so that nothing is served wrong.
#![deny(unsafe_code)]

mod artifact;
mod build_id;
mod bytes;
mod cache;
mod compiler;
mod engine;
mod error;
mod failure;
mod ffi;
mod headers;
mod image;
mod includes;
mod job;
mod linker;
mod locate;
mod nvrtc;
mod options;
mod places;
mod policy;
#[cfg(unix)]
mod pool;
mod ptx_floor;
mod ptx_header;
mod record;
mod resources;
mod store;
#[cfg(unix)]
mod wire;

pub use cache::CacheOptions;
pub use compiler::{Compiler, PreparedRequest};
pub use engine::{CancelToken, Engine, Identity, Job, Limits, Output};
pub use error::CompileError;
pub use headers::HeaderCheck;
pub use linker::Linker;
pub use locate::{Candidate, Found, Looked, SearchPaths};
pub use nvrtc::Nvrtc;
pub use places::Origin;
pub use policy::newest_ptx_for;
#[cfg(unix)]
pub use pool::{HelperPool, serve};
pub use ptx_header::{PtxHeader, PtxVersion};
pub use resources::{KernelResources, kernel_resources};
pub use store::bundle::{Bundle, BundleReport, EntryInfo};
pub use store::stats::CacheStats;
pub use store::sweep::Swept;
