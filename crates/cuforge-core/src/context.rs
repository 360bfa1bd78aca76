//! A whole backend as the differential oracle sees it.

use crate::adapter::{Adapter, Constraints};
use crate::allocator::Request;
use crate::compute::{Arguments, Compute, Extent};
use crate::error::{ContextError, ContextErrorKind};
use crate::image::{Digest, ModuleImage};
use crate::kernel::KernelSpec;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::view::BufferView;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Pod;
use core::fmt;

/// How a kernel is built for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BuildOptions {
    /// What to build for; `None` is the adapter's own target.
    pub target: Option<Target>,
    /// Approximate functions, flush to zero, contraction.
    pub fast_math: bool,
    /// Contract multiply and add to FMA. CUDA's default is `true`.
    pub fmad: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { target: None, fast_math: false, fmad: true }
    }
}

/// How often a kernel is run for timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Runs before the first sample.
    pub warmups: u32,
    /// Timed runs.
    pub samples: u32,
}

/// The error bound of an approximate function where a kernel ran.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionBound {
    /// The function (`ex2.approx`, `expf`).
    pub function: &'static str,
    /// Largest error in units in the last place.
    pub max_ulp: f64,
}

/// Which document says how exact a backend's functions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Accuracy {
    /// NVIDIA's tables of CUDA C functions and PTX instructions.
    #[default]
    Cuda,
    /// WGSL's accuracy table, which every implementation keeps.
    Wgsl,
}

/// Which arithmetic a run used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// How exact functions are, apart from `bounds`.
    pub accuracy: Accuracy,
    /// Multiply and add may have been fused.
    pub fused: bool,
    /// Subnormals may have been flushed to zero.
    pub flush_to_zero: bool,
    /// Fast math was on.
    pub fast_math: bool,
    /// Functions whose bounds differ from the documented ones.
    pub bounds: Vec<FunctionBound>,
}

/// What ran: enough to judge its result and to find it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Which arithmetic ran.
    pub arithmetic: Arithmetic,
    /// Digest of the kernel's text.
    pub source: Digest,
    /// Digest of what was loaded.
    pub image: Digest,
    /// Name and version of the compiler.
    pub compiler: String,
    /// Name and version of the driver.
    pub driver: String,
}

/// A kernel built for one backend: ready to run, with the image and the evidence.
pub struct Prepared {
    /// What was built; its PTX is what the oracle mutates.
    pub image: Arc<ModuleImage>,
    /// What will run.
    pub evidence: Evidence,
    /// Runs it.
    pub kernel: Box<dyn Compute + Send>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("evidence", &self.evidence).finish_non_exhaustive()
    }
}

/// A backend that the oracle can run kernels on. Object safe; implement it to verify kernels on a device of your own.
pub trait OracleContext {
    /// Who the device is.
    fn adapter(&self) -> &Adapter;

    /// What it allows.
    fn constraints(&self) -> &Constraints;

    /// Whether times come from the device itself.
    fn timestamp_supported(&self) -> bool;

    /// Instructions that the latest run executed, each counted once for every thread that executed it; `None` where
    /// the backend does not count.
    fn instructions(&self) -> Option<u64> {
        None
    }

    /// The rate at which the device's multiprocessors run right now, in hertz; `None` where the backend cannot tell. May
    /// run a kernel of some microseconds to find out.
    ///
    /// # Errors
    /// Those of [`Compute::dispatch`].
    fn clock_hz(&mut self) -> Result<Option<u64>, ContextError> {
        Ok(None)
    }

    /// Device memory for `request`. What it holds is unspecified (poison, where the backend can).
    ///
    /// # Errors
    /// [`OutOfMemory`](ContextErrorKind::OutOfMemory), [`Misuse`](ContextErrorKind::Misuse).
    fn allocate(&mut self, request: &Request) -> Result<BufferView, ContextError>;

    /// Writes `bytes` to the start of `view`; fewer bytes than it has are fine, none too.
    ///
    /// # Errors
    /// [`Misuse`](ContextErrorKind::Misuse) for more bytes than the view has, or a stale or foreign view.
    fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), ContextError>;

    /// Sets every byte of `view`. Writes them from the host unless overridden.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn fill(&mut self, view: &BufferView, byte: u8) -> Result<(), ContextError> {
        // A view lies within device memory, which a backend on this host could address.
        let bytes = alloc::vec![byte; usize::try_from(view.len()).unwrap_or(usize::MAX)];
        self.write(view, &bytes)
    }

    /// Reads the start of `view` into `bytes`; as [`write`](Self::write).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), ContextError>;

    /// Ends all allocations but resident ones.
    ///
    /// # Errors
    /// [`Misuse`](ContextErrorKind::Misuse) while something pins them.
    fn clear(&mut self) -> Result<(), ContextError>;

    /// Builds a kernel.
    ///
    /// # Errors
    /// [`Kernel`](ContextErrorKind::Kernel) where the text is wrong, [`Misuse`](ContextErrorKind::Misuse) where the
    /// schedule is, [`Unsupported`](ContextErrorKind::Unsupported), [`Unavailable`](ContextErrorKind::Unavailable).
    fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Prepared, ContextError>;

    /// Runs a kernel: warm-ups, then samples, whose nanoseconds are pushed to `samples`. With no warm-up and one
    /// sample it runs exactly once.
    ///
    /// # Errors
    /// Those of [`Compute::dispatch`].
    fn run(
        &mut self,
        prepared: &mut Prepared,
        arguments: Arguments<'_>,
        extent: Extent,
        sampling: Sampling,
        samples: &mut Vec<u64>,
    ) -> Result<(), ContextError> {
        for _ in 0..sampling.warmups {
            prepared.kernel.dispatch(arguments, extent)?;
        }
        for _ in 0..sampling.samples {
            samples.push(prepared.kernel.dispatch(arguments, extent)?.nanoseconds);
        }
        Ok(())
    }

    /// [`prepare`](Self::prepare) and one [`run`](Self::run).
    ///
    /// # Errors
    /// Those of both.
    fn run_kernel(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<Prepared, ContextError> {
        let mut prepared = self.prepare(spec, schedule, options)?;
        let once = Sampling { warmups: 0, samples: 1 };
        self.run(&mut prepared, arguments, extent, once, &mut Vec::new())?;
        Ok(prepared)
    }
}

const _: fn(&dyn OracleContext) = |_| {};

/// Typed helpers over any [`OracleContext`].
pub trait OracleContextExt: OracleContext {
    /// Allocates as `request` says, but with the length of `values`, and writes them.
    ///
    /// # Errors
    /// Those of [`OracleContext::allocate`] and [`OracleContext::write`].
    fn allocate_and_write<T: Pod>(
        &mut self,
        request: &Request,
        values: &[T],
    ) -> Result<BufferView, ContextError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let view = self.allocate(&Request { len: bytes.len() as u64, ..*request })?;
        self.write(&view, bytes)?;
        Ok(view)
    }

    /// All elements of `view`.
    ///
    /// # Errors
    /// [`Misuse`](ContextErrorKind::Misuse) if the view does not hold whole elements; those of
    /// [`OracleContext::read`].
    fn read_vec<T: Pod>(&mut self, view: &BufferView) -> Result<Vec<T>, ContextError> {
        let size = size_of::<T>().max(1) as u64;
        let count = usize::try_from(view.len() / size).ok().filter(|_| view.len().is_multiple_of(size));
        let Some(count) = count else {
            let message = alloc::format!("{} bytes are not whole elements of {size} bytes", view.len());
            return Err(ContextError::new(ContextErrorKind::Misuse, "read", message));
        };
        let mut values = alloc::vec![T::zeroed(); count];
        self.read(view, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// All elements as f32.
    ///
    /// # Errors
    /// As [`read_vec`](Self::read_vec).
    fn read_f32(&mut self, view: &BufferView) -> Result<Vec<f32>, ContextError> {
        self.read_vec(view)
    }

    /// All elements as f64.
    ///
    /// # Errors
    /// As [`read_vec`](Self::read_vec).
    fn read_f64(&mut self, view: &BufferView) -> Result<Vec<f64>, ContextError> {
        self.read_vec(view)
    }

    /// All elements as u32.
    ///
    /// # Errors
    /// As [`read_vec`](Self::read_vec).
    fn read_u32(&mut self, view: &BufferView) -> Result<Vec<u32>, ContextError> {
        self.read_vec(view)
    }
}

impl<C: OracleContext + ?Sized> OracleContextExt for C {}
