//! A CUDA device as a backend of the oracle, through a session of the facade.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuforge::Session;
use cuforge::launch::{LaunchError, Pipeline};
use cuforge_core::{
    Accuracy, Adapter, Arguments, Arithmetic, BufferView, BuildOptions, Compute, Constraints, ContextError,
    Elapsed, Evidence, Extent, KernelSpec, Language, OracleContext, Prepared, Request, Schedule,
};

use super::clock::ClockProbe;
use super::sim::{approximations, digest, flushes};

/// What fresh allocations hold: as a float a NaN, as an integer nothing that a kernel is likely to write.
const POISON: u8 = 0xff;

/// A CUDA device as an [`OracleContext`]: times are the device's own, between two events.
///
/// ```
/// use cuforge::Session;
/// use cuforge_core::OracleContext;
/// use cuforge_oracle::CudaContext;
/// match Session::builder().build() {
///     Ok(session) => println!("{}", CudaContext::new(session).adapter().name),
///     Err(error) => println!("no GPU here: {error}"),
/// }
/// ```
pub struct CudaContext {
    session: Arc<Mutex<Session>>,
    adapter: Adapter,
    constraints: Constraints,
    clock: ClockProbe,
}

impl CudaContext {
    /// On a session, whose slab and stream it uses.
    pub fn new(session: Session) -> Self {
        let (adapter, constraints) =
            (session.device().adapter().clone(), session.device().constraints().clone());
        Self { session: Arc::new(Mutex::new(session)), adapter, constraints, clock: ClockProbe::default() }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        locked(&self.session)
    }
}

/// The session; a panic elsewhere leaves it as sound as it was.
fn locked(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OracleContext for CudaContext {
    fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn timestamp_supported(&self) -> bool {
        true
    }

    fn clock_hz(&mut self) -> Result<Option<u64>, ContextError> {
        self.clock.hz(&mut locked(&self.session)).map_err(|error| error.during("read the clock"))
    }

    fn allocate(&mut self, request: &Request) -> Result<BufferView, ContextError> {
        let mut session = self.session();
        let view = session.allocate(request).map_err(|error| error.during("allocate"))?;
        let slab = session.slab().clone();
        let poisoned = slab.fill(session.stream(), &view, POISON);
        poisoned.map_err(|error: LaunchError| error.during("allocate"))?;
        Ok(view)
    }

    fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), ContextError> {
        self.session().write(view, bytes).map_err(|error| error.during("write"))
    }

    fn fill(&mut self, view: &BufferView, byte: u8) -> Result<(), ContextError> {
        let mut session = self.session();
        let slab = session.slab().clone();
        slab.fill(session.stream(), view, byte).map_err(|error| error.during("fill"))
    }

    fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), ContextError> {
        self.session().read(view, bytes).map_err(|error| error.during("read"))
    }

    fn clear(&mut self) -> Result<(), ContextError> {
        self.session().clear().map(drop).map_err(|error| error.during("clear"))
    }

    fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Prepared, ContextError> {
        let pipeline =
            self.session().prepare(spec, schedule, options).map_err(|error| error.during("prepare"))?;
        let image = Arc::clone(pipeline.image());
        let written = spec.body().language == Language::Ptx;
        let ptx = image.ptx.as_deref().unwrap_or_default();
        let evidence = Evidence {
            arithmetic: Arithmetic {
                accuracy: Accuracy::Cuda,
                fused: written || options.fmad || options.fast_math,
                flush_to_zero: if written { flushes(ptx) } else { options.fast_math },
                fast_math: options.fast_math && !written,
                bounds: if written { approximations(ptx) } else { Vec::new() },
            },
            source: digest(spec.body().text.as_bytes()),
            image: image.digest,
            compiler: image.compiler.clone(),
            driver: self.adapter.driver.clone(),
        };
        let kernel = CudaKernel { session: Arc::clone(&self.session), pipeline };
        Ok(Prepared { image, evidence, kernel: Box::new(kernel) })
    }
}

/// A loaded kernel, and the session whose stream it runs on.
struct CudaKernel {
    session: Arc<Mutex<Session>>,
    pipeline: Pipeline,
}

impl Compute for CudaKernel {
    fn dispatch(&mut self, arguments: Arguments<'_>, extent: Extent) -> Result<Elapsed, ContextError> {
        locked(&self.session)
            .run_pipeline(&self.pipeline, arguments, extent)
            .map_err(|error| error.during("dispatch"))
    }
}

impl fmt::Debug for CudaContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaContext").field("adapter", &self.adapter).finish_non_exhaustive()
    }
}
