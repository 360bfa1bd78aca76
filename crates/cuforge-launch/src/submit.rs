//! Where launches go: launch code is written once, against this trait.

use crate::error::LaunchError;
use crate::ffi::RawStream;
use crate::gate::Gate;
use crate::stream::Stream;
use std::sync::Arc;

/// Something that takes launches: a [`Stream`]. Sealed.
pub trait Submit: sealed::Target {}

impl Submit for Stream {}

pub(crate) mod sealed {
    use super::{Arc, Gate, LaunchError, RawStream};

    /// The device that a launch's kernel and memory are on.
    #[derive(Clone, Copy, Debug)]
    pub struct Origin<'g>(pub(crate) &'g Arc<Gate>);

    /// A launch's place in the work of its queue.
    #[derive(Clone, Copy, Debug)]
    pub struct Place {
        pub(crate) stream: RawStream,
        pub(crate) queue: usize,
        pub(crate) epoch: u64,
        /// Whether the launch is recorded, not run: then it must be a kernel launch, which becomes a kernel node.
        pub(crate) captured: bool,
    }

    /// What a launch asks of where it goes.
    pub trait Target {
        /// Takes one submission, unless something is unusual: one relaxed load.
        fn admit(&mut self, origin: Origin<'_>) -> Result<Place, LaunchError>;
        /// The submission was made.
        fn submitted(&mut self);
    }
}

impl sealed::Target for Stream {
    #[inline]
    fn admit(&mut self, origin: sealed::Origin<'_>) -> Result<sealed::Place, LaunchError> {
        if !Arc::ptr_eq(self.device().gate(), origin.0) {
            return Err(LaunchError::OtherDevice { what: "stream" });
        }
        Self::admit(self)?;
        let (stream, queue, epoch) = (self.line().raw(), self.queue_number(), self.open_epoch());
        Ok(sealed::Place { stream, queue, epoch, captured: false })
    }

    #[inline]
    fn submitted(&mut self) {
        Self::submitted(self);
    }
}
