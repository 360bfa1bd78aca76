//! Backends that the oracle brings along, each a type of its own.

mod bump;
mod clock;
mod cuda;
mod sim;
#[cfg(feature = "wgpu")]
mod wgpu;

pub use cuda::CudaContext;
pub use sim::{SimContext, SimContextBuilder, SimError};
#[cfg(feature = "wgpu")]
pub use wgpu::{WgpuContext, WgpuContextBuilder, WgpuError};
