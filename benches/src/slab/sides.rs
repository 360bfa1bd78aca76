//! Two sides of a comparison, and how long one takes.

use std::error::Error;
use std::time::Instant;

use crate::area::Settings;
use crate::figure::{Bar, Figure};
use crate::rounds::compare;

/// What can fail in a bench.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// One side of a comparison: takes and ends grants.
pub(crate) trait Side {
    /// What names a grant.
    type Token: Copy;

    /// The offset of a new grant, and its name.
    fn take(&mut self, len: u64) -> Option<(u64, Self::Token)>;

    /// Whether the grant could be ended.
    fn end(&mut self, token: Self::Token) -> bool;
}

/// Slices of a round: its time is that of the median one, so that a moment in which the machine did something else
/// does not count for either side.
const SLICES: usize = 25;

/// Nanoseconds an operation: `work` does `operations` of them, once a slice.
pub(crate) fn ns_each(operations: usize, mut work: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut slices = [0.0; SLICES];
    for slice in &mut slices {
        let start = Instant::now();
        work()?;
        *slice = start.elapsed().as_nanos() as f64 / operations as f64;
    }
    slices.sort_by(f64::total_cmp);
    Ok(slices[SLICES / 2])
}

/// The ratio of two sides in turns, held to `bar`.
pub(crate) fn ratio(
    name: &str,
    settings: &Settings,
    bar: Option<Bar>,
    ours: impl FnMut() -> Outcome<f64>,
    theirs: impl FnMut() -> Outcome<f64>,
) -> Outcome<Figure> {
    let rounds = settings.rounds();
    let figure = Figure::new(name, "ratio", compare(rounds, ours, theirs)?, rounds);
    Ok(match bar {
        Some(bar) => figure.with_bar(bar),
        None => figure,
    })
}
