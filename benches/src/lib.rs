//! What the benches share: figures with their spread, interleaved rounds, and the areas that `cargo xtask bench` runs.
//!
//! An area is a module here with a `run` function, and a line in [`AREAS`].
#![deny(unsafe_code)]

mod area;
mod areas;
mod compile;
mod figure;
mod launch;
mod oracle;
mod rounds;
mod sim;
mod slab;

pub use area::{Area, Measured, Settings};
pub use areas::AREAS;
pub use figure::{Bar, Figure, Spread};
pub use rounds::{compare, repeat};
