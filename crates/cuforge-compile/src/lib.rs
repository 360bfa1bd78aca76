//! CUDA C through NVRTC, and PTX, to module images; found, loaded and cached so that nothing is served wrong.
//!
//! [`Compiler`] is the whole in one: it takes a `cuforge_core::CompileRequest` and gives a `ModuleImage`, from memory,
//! from disk, or made now. The parts can be used alone:
//!
//! - [`SearchPaths`] finds NVRTC, nvJitLink and CUDA's headers; [`Nvrtc`] loads a library by absolute path, several
//!   versions side by side; [`Linker`] is nvJitLink.
//! - [`Engine`] is the seam between cache and compiler: [`Nvrtc`] in this process, [`HelperPool`] in others, or yours.
//! - [`CacheOptions`] bounds memory and disk; [`Bundle`] carries compiled kernels to machines without a compiler.
//! - [`PtxHeader`] checks hand-written PTX, [`newest_ptx_for`] says what a driver loads, [`kernel_resources`] what a
//!   kernel takes of a multiprocessor.
//!
//! This crate knows no driver and needs no GPU: the target's compute capability and the driver's version come in the
//! request.
//!
//! | variable | meaning |
//! |---|---|
//! | `CUFORGE_NVRTC` | the NVRTC library, or a folder with it, before every other place but the search option |
//! | `CUFORGE_CACHE` | the default cache folder, or `off` |
//!
//! # Example: the cache before a compiler of one's own
//!
//! ```
//! use std::sync::Arc;
//! use cuforge_compile::{CompileError, Compiler, Engine, Identity, Job, Limits, Output};
//! use cuforge_core::{CompileRequest, ComputeCapability, Target};
//!
//! #[derive(Debug)]
//! struct Stub(Identity);
//! impl Engine for Stub {
//!     fn identity(&self) -> &Identity { &self.0 }
//!     fn supported_archs(&self) -> &[u32] { &[80, 90] }
//!     fn run(&self, job: &Job, _: &Limits) -> Result<Output, CompileError> {
//!         let ptx = format!(".version 7.8\n.target sm_90\n// {}\n.visible .entry k() {{ ret; }}\n", job.name);
//!         Ok(Output { ptx: Some(ptx), ..Output::default() })
//!     }
//! }
//!
//! let stub = Stub(Identity { kind: "stub".into(), version: (1, 0), build: "1".into() });
//! let compiler = Compiler::with_engine(Arc::new(stub), Vec::new());
//! let request = CompileRequest::cuda_c("k.cu", "", Target::new(ComputeCapability { major: 9, minor: 0 }));
//! let (first, second) = (compiler.image(&request)?, compiler.image(&request)?);
//! assert!(Arc::ptr_eq(&first, &second));
//! assert_eq!(compiler.stats().to_string(), "1 memory hits, 1 misses, 1 compiled");
//! # Ok::<(), CompileError>(())
//! ```
#![deny(unsafe_code)]

mod artifact;
mod build_id;
mod bytes;
mod cache;
mod compiler;
mod deferred;
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
