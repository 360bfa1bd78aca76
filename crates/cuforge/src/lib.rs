//! Driver-level CUDA from Rust: a [`Session`] wires slab, compiler and launcher together, and hides none of them.
//!
//! ```
//! use cuforge::{Session, SessionError};
//! fn work() -> Result<(), SessionError> {
//!     let mut session = Session::builder().slab_bytes(64 << 20).build()?;
//!     let view = session.allocate(&cuforge::core::Request::new(1024))?;
//!     session.write(&view, &[1; 1024])?;
//!     Ok(())
//! }
//! match work() {
//!     Ok(()) => println!("done"),
//!     Err(error) => println!("no GPU here: {error}"),
//! }
//! ```
//!
//! The parts are re-exported whole: [`core`] (words and traits), [`slab`] (allocators), [`compile`] (NVRTC and the
//! cache), [`launch`] (devices, streams, pipelines). Everything that a session does can be done with them.
#![deny(unsafe_code)]

mod builder;
mod code;
mod error;
mod session;
mod tuned;

pub use builder::SessionBuilder;
pub use error::SessionError;
pub use session::Session;

pub use cuforge_compile as compile;
pub use cuforge_core as core;
pub use cuforge_launch as launch;
pub use cuforge_slab as slab;
