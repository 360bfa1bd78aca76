//! Shapes of corpus cases: one number an axis, written `256x192x320`; and the launches that cover them.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use cuforge_core::{Extent, LaunchGeometry, Schedule};

/// The sizes of a case, one number an axis of its kernel.
///
/// ```
/// use cuforge_oracle::corpus::Shape;
/// let shape: Shape = "16x509x768".parse()?;
/// assert_eq!((shape.axes(), shape.to_string().as_str()), (&[16, 509, 768][..], "16x509x768"));
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(Vec<u32>);

impl Shape {
    /// From one number an axis.
    #[must_use]
    pub fn new(axes: &[u32]) -> Self {
        Self(axes.to_vec())
    }

    /// One number an axis.
    #[must_use]
    pub fn axes(&self) -> &[u32] {
        &self.0
    }

    /// The number of one axis, 0 for one that it does not have.
    pub(super) fn axis(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// The product of two axes: the elements of a matrix.
    pub(super) fn area(&self, first: usize, second: usize) -> u64 {
        u64::from(self.axis(first)) * u64::from(self.axis(second))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, axis) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "x" };
            write!(f, "{separator}{axis}")?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split('x').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// A launch of `x` times `y` blocks of `schedule`.
pub(super) fn blocks(schedule: &Schedule, x: u32, y: u32) -> Extent {
    grid(schedule, [x, y, 1], 0)
}

/// A launch of a grid of blocks of `schedule`, each with so many `f32` of dynamic shared memory.
pub(super) fn grid(schedule: &Schedule, grid: [u32; 3], shared_floats: u32) -> Extent {
    let shared_bytes = shared_floats.saturating_mul(4);
    Extent::Geometry(LaunchGeometry { grid, block: schedule.workgroup_size, shared_bytes })
}

/// A one-dimensional block with so many elements a thread.
pub(super) fn flat(threads: u32, items: u32) -> Schedule {
    Schedule::new([threads, 1, 1]).with_items_per_invocation(items)
}

/// A block of rows of threads with so many elements a thread.
pub(super) fn rows(threads: u32, rows: u32, items: u32) -> Schedule {
    Schedule::new([threads, rows, 1]).with_items_per_invocation(items)
}

/// The longest chain of additions that a term passes through when `threads` threads share a sum of `terms` terms:
/// `accumulators` of each thread, then five steps within the warp, then one after the other over the warps.
pub(super) fn depth_of_sum(terms: u32, threads: u32, accumulators: u32) -> u64 {
    let (threads, accumulators) = (threads.max(1), accumulators.max(1));
    let own = u64::from(terms).div_ceil(u64::from(threads) * u64::from(accumulators));
    own + u64::from(accumulators - 1) + 5 + u64::from(threads.div_ceil(32))
}

/// An integer constant of a schedule, 1 if it has none of that name.
pub(super) fn constant(schedule: &Schedule, name: &str) -> u32 {
    schedule.int(name).and_then(|value| u32::try_from(value).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_reads_what_it_writes_and_nothing_else() {
        for text in ["1", "16x509x768", "4294967295x0"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for text in ["", "x", "1x", "-1", "4294967296", "1X2"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_depth_of_a_sum_counts_thread_warp_and_block() {
        // 1,023 terms over 128 threads: 8 each, 5 within a warp, 4 warps.
        assert_eq!(depth_of_sum(1023, 128, 1), 8 + 5 + 4);
        // Four accumulators a thread hold 2 terms each and take 3 additions to join.
        assert_eq!(depth_of_sum(1023, 128, 4), 2 + 3 + 5 + 4);
    }
}
