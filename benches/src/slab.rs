//! The allocators beside hand-written and published ones: a ring's laps, random sizes, the tail, utilisation, frames.
//!
//! One operation is an allocation and the end of one. Sizes are log-uniform from 256 B to 4 MiB in steps of 256 B.

mod frames;
mod in_band;
mod random;
mod ring;
mod sides;
mod sizes;
mod tail;
mod utilisation;

use crate::area::{Measured, Settings};

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let mut figures = ring::figures(settings)?;
    figures.extend(random::figures(settings)?);
    figures.extend(tail::figures(settings)?);
    figures.extend(utilisation::figures()?);
    figures.extend(frames::figures(settings)?);
    Ok(figures)
}
