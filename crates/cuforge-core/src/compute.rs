//! Running a compiled kernel: arguments, extents, elapsed time and the trait.

use crate::error::ContextError;
use crate::geometry::LaunchGeometry;
use crate::view::BufferView;

/// What a kernel is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments<'a> {
    /// Bound views, in any order; sorted by (group, binding) is fastest.
    pub views: &'a [BufferView],
    /// The uniform block, then the scalars in the order of declaration, each naturally aligned, little endian.
    pub by_value: &'a [u8],
}

/// How much a kernel is launched over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// So many elements: the schedule gives a one-dimensional grid. 0 launches nothing.
    Elements(u64),
    /// This geometry; its block must be the schedule's.
    Geometry(LaunchGeometry),
}

/// What a time was taken with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElapsedSource {
    /// Events or timestamps of the device.
    Device,
    /// The host's clock around the run and the wait for it.
    HostClock,
}

/// How long a run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    /// Nanoseconds.
    pub nanoseconds: u64,
    /// What they were taken with.
    pub source: ElapsedSource,
}

/// A compiled kernel of any backend. Stateless towards memory: it only sees views that exist already.
pub trait Compute {
    /// Runs the kernel and waits for it.
    ///
    /// # Errors
    /// [`Misuse`](crate::ContextErrorKind::Misuse) where arguments or extent do not fit (nothing has run then),
    /// [`Fault`](crate::ContextErrorKind::Fault) or [`DeviceLost`](crate::ContextErrorKind::DeviceLost) where the
    /// run failed.
    fn dispatch(&mut self, arguments: Arguments<'_>, extent: Extent) -> Result<Elapsed, ContextError>;
}

const _: fn(&dyn Compute) = |_| {};
