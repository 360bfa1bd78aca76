//! How a session is made: device, slab, allocator, compiler, cache.

use crate::code::Code;
use crate::error::SessionError;
use crate::session::Session;
use cuforge_compile::SearchPaths;
use cuforge_core::{KernelCompiler, SlabAllocator};
use cuforge_launch::{Device, Slab, SlabOptions, Stream};
use cuforge_slab::RegionSlab;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of the slab unless asked otherwise: 256 MiB.
const SLAB_BYTES: u64 = 256 << 20;

/// Buffers of a prefetcher unless asked otherwise: one is filled while the other is read.
const PREFETCH_DEPTH: usize = 2;

/// Configures a [`Session`].
///
/// ```
/// use cuforge::Session;
/// let builder = Session::builder().ordinal(1).slab_bytes(1 << 30).cache_folder("target/kernels");
/// assert!(format!("{builder:?}").contains("target/kernels"));
/// ```
#[must_use]
pub struct SessionBuilder {
    device: Option<Device>,
    ordinal: u32,
    slab_bytes: u64,
    slab_options: SlabOptions,
    allocator: Option<Box<dyn SlabAllocator + Send>>,
    compiler: Option<Arc<dyn KernelCompiler>>,
    search_paths: SearchPaths,
    cache_folder: Option<PathBuf>,
    prefetch_depth: usize,
    bundle: Option<PathBuf>,
    tuned: Option<PathBuf>,
}

impl Session {
    /// Configures a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new()
    }
}

impl SessionBuilder {
    fn new() -> Self {
        Self {
            device: None,
            ordinal: 0,
            slab_bytes: SLAB_BYTES,
            slab_options: SlabOptions::default(),
            allocator: None,
            compiler: None,
            search_paths: SearchPaths::default(),
            cache_folder: None,
            prefetch_depth: PREFETCH_DEPTH,
            bundle: None,
            tuned: None,
        }
    }

    /// The device of that number (default 0).
    pub fn ordinal(mut self, ordinal: u32) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// A device that is open already, brought in from cudarc for example.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Bytes of the slab (default 256 MiB), where no allocator is given.
    pub fn slab_bytes(mut self, bytes: u64) -> Self {
        self.slab_bytes = bytes;
        self
    }

    /// How the slab is made beyond its size: reservation, grants, poison.
    pub fn slab_options(mut self, options: SlabOptions) -> Self {
        self.slab_options = options;
        self
    }

    /// An allocator of one's own; the slab has its capacity. The default is `cuforge_slab::RegionSlab`.
    pub fn allocator(mut self, allocator: Box<dyn SlabAllocator + Send>) -> Self {
        self.allocator = Some(allocator);
        self
    }

    /// A compiler of one's own, instead of NVRTC with the default cache, which is looked for when CUDA C is first met.
    ///
    /// # Safety
    /// Its images are what their sources say: kernels run on the promises that specifications were made with, and
    /// nothing checks the machine code against them.
    #[allow(unsafe_code, reason = "the promise is the caller's")]
    pub unsafe fn compiler(mut self, compiler: Arc<dyn KernelCompiler>) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Where the default compiler's NVRTC is looked for (default: where the system keeps such things).
    pub fn search_paths(mut self, paths: SearchPaths) -> Self {
        self.search_paths = paths;
        self
    }

    /// The folder of the default compiler's disk cache, instead of the user's cache folder.
    pub fn cache_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_folder = Some(folder.into());
        self
    }

    /// A bundle of kernels that were compiled elsewhere (`cuforge_compile::Bundle`): the default compiler asks it first,
    /// and where there is no NVRTC it is all there is. It is trusted as a cache folder is.
    pub fn bundle(mut self, file: impl Into<PathBuf>) -> Self {
        self.bundle = Some(file.into());
        self
    }

    /// A folder of schedules that a tuner found (`cargo xtask tune`), for [`Session::tuned_schedule`].
    pub fn tuned_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tuned = Some(folder.into());
        self
    }

    /// Buffers of each [`Session::prefetcher`] (default 2, at least 1). More let uploads run further ahead where they come
    /// in bursts; each takes as many bytes of the slab as is asked for, and as much pinned memory where pushes fill it.
    pub fn prefetch_depth(mut self, depth: usize) -> Self {
        self.prefetch_depth = depth;
        self
    }

    /// Opens the device and makes slab and stream. Loads the driver and makes its context where nobody has (0.2 s).
    ///
    /// # Errors
    /// [`SessionError::Launch`], [`SessionError::Allocator`].
    pub fn build(self) -> Result<Session, SessionError> {
        let device = match self.device {
            Some(device) => device,
            None => Device::open(self.ordinal)?,
        };
        let allocator = match self.allocator {
            Some(allocator) => allocator,
            None => Box::new(RegionSlab::new(self.slab_bytes)?),
        };
        let slab = Slab::new(&device, allocator, self.slab_options)?;
        let stream = Stream::new(&device)?;
        let code = Code::new(self.compiler, self.search_paths, self.cache_folder, self.bundle);
        Ok(Session::new(device, slab, stream, code, self.prefetch_depth, self.tuned))
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("device", &self.device)
            .field("ordinal", &self.ordinal)
            .field("slab_bytes", &self.slab_bytes)
            .field("slab_options", &self.slab_options)
            .field("allocator", &self.allocator.is_some())
            .field("compiler", &self.compiler.is_some())
            .field("cache_folder", &self.cache_folder)
            .field("bundle", &self.bundle)
            .field("tuned", &self.tuned)
            .field("prefetch_depth", &self.prefetch_depth)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_the_builder_answers_a_typed_error() {
        let error = Session::builder().ordinal(u32::MAX).build().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), cuforge_core::ContextErrorKind::Unavailable, "{error}");
        let too_small = Session::builder().slab_bytes(0).build().map(|_| ()).unwrap_err();
        assert!(!format!("{too_small} {too_small:?}").is_empty());
    }
}
