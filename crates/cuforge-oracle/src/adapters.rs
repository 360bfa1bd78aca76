//! Backends that the oracle brings along, each a type of its own.

mod bump;
mod sim;

pub use sim::{SimContext, SimContextBuilder, SimError};
