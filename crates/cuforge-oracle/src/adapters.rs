//! Backends that the oracle brings along, each a type of its own.

mod bump;
mod clock;
mod cuda;
mod sim;

pub use cuda::CudaContext;
pub use sim::{SimContext, SimContextBuilder, SimError};
