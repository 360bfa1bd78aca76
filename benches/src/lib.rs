//! What the benches share: figures with their spread, interleaved rounds, and the areas that `cargo xtask bench` runs.
//!
//! An area is a module here with a `run` function, and a line in [`AREAS`].
#![deny(unsafe_code)]

mod area;
mod areas;
mod chart;
mod comparison;
mod compile;
mod figure;
mod graph;
mod launch;
mod machine;
mod oracle;
mod peers;
mod record;
mod rounds;
mod sim;
mod slab;

pub use area::{Area, Measured, Settings};
pub use areas::AREAS;
pub use chart::{Chart, charts};
pub use comparison::{Change, Compared, compare_runs, missing};
pub use figure::{Bar, Figure, Spread};
pub use launch::as_child;
pub use machine::Machine;
pub use record::{Row, Run, SCHEMA};
pub use rounds::{Side, compare, ratios, repeat, together};
