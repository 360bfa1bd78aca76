//! Where launches go: launch code is written once, against this trait.

use crate::error::LaunchError;
use crate::stream::Stream;
use std::sync::Arc;

/// Something that takes launches: a [`Stream`], or a scope of a capture. Sealed.
pub trait Submit: sealed::Target {}

impl Submit for Stream {}

pub(crate) mod sealed {
    use crate::error::LaunchError;
    use crate::ffi::RawStream;
    use crate::gate::Gate;
    use crate::held::Held;
    use crate::options::LaunchOptions;
    use crate::stream::Stream;
    use cuforge_core::LaunchGeometry;
    use std::fmt;
    use std::sync::Arc;

    /// The device that a launch's kernel and memory are on.
    #[derive(Clone, Copy, Debug)]
    pub struct Origin<'g>(pub(crate) &'g Arc<Gate>);

    /// Where a launch is made.
    #[derive(Clone, Copy, Debug)]
    pub struct Place {
        pub(crate) stream: RawStream,
        pub(crate) queue: usize,
        /// Whether the launch is recorded, not run: then it must be a kernel launch, which becomes a kernel node.
        pub(crate) captured: bool,
    }

    /// A launch that was made.
    #[derive(Clone, Copy)]
    pub struct Launched<'a> {
        pub(crate) held: &'a Held,
        pub(crate) geometry: LaunchGeometry,
        pub(crate) packed: &'a [u8],
        pub(crate) options: LaunchOptions,
    }

    impl fmt::Debug for Launched<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Launched").field("geometry", &self.geometry).finish_non_exhaustive()
        }
    }

    /// What a launch asks of where it goes.
    pub trait Target {
        /// Takes one submission, unless something is unusual: one relaxed load.
        fn admit(&mut self, origin: Origin<'_>) -> Result<Place, LaunchError>;
        /// The launch was made.
        fn submitted(&mut self, launched: Launched<'_>) -> Result<(), LaunchError>;
        /// The stream, if that is what it is: unbound launches have a shorter way there.
        fn as_stream(&mut self) -> Option<&mut Stream>;
    }
}

impl sealed::Target for Stream {
    #[inline]
    fn admit(&mut self, origin: sealed::Origin<'_>) -> Result<sealed::Place, LaunchError> {
        if !Arc::ptr_eq(self.device().gate(), origin.0) {
            return Err(LaunchError::OtherDevice { what: "stream" });
        }
        Self::admit(self)?;
        Ok(sealed::Place { stream: self.line().raw(), queue: self.queue_number(), captured: false })
    }

    #[inline]
    fn submitted(&mut self, launched: sealed::Launched<'_>) -> Result<(), LaunchError> {
        launched.held.used(self.queue_number(), self.open_epoch());
        Self::submitted(self);
        Ok(())
    }

    #[inline]
    fn as_stream(&mut self) -> Option<&mut Stream> {
        Some(self)
    }
}
