//! Devices: opened by number or brought in, with what they are, what they allow, and what they share.

use crate::driver::Driver;
use crate::error::{DriverError, LaunchError};
use crate::events::EventPool;
use crate::ffi::RawContext;
use crate::gate::{Gate, Keeper};
use crate::graph_error::GraphError;
use crate::module::Module;
use crate::movers::Movers;
use crate::pinned::PinnedBuffer;
use crate::pipeline::{Pipeline, PipelineCache};
use crate::properties::{self, Capabilities};
use crate::queues::Queues;
use crate::timeline::Timeline;
use cuforge_core::{Adapter, Constraints, Digest, KernelSpec, Language, ModuleImage, Schedule, Target};
use sha2::{Digest as _, Sha256};
use std::ffi::c_int;
use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// A CUDA device, with its primary context retained. `Clone` (a reference count), `Send`, `Sync`.
///
/// Dropping the last clone waits for nothing: the memory of dropped slabs is given back if all work has completed by then,
/// and the rest goes back with the context, which other holders may keep alive. [`close`](Self::close) waits, frees
/// everything, and reports.
///
/// ```
/// use cuforge_launch::{Device, LaunchError};
/// match Device::open(0) {
///     Ok(device) => println!("{} with {:?}", device.adapter().name, device.constraints()),
///     // Without a driver this is a typed answer, never a panic.
///     Err(error) => println!("{error} ({:?})", error.kind()),
/// }
/// ```
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    // Dropped in this order: what the driver made goes before the gate that holds the context.
    pipelines: PipelineCache,
    events: Arc<EventPool>,
    timeline: Arc<Timeline>,
    queues: Queues,
    adapter: Adapter,
    constraints: Arc<Constraints>,
    capabilities: Capabilities,
    ordinal: u32,
    /// Copying threads of its own, where their number was asked for.
    movers: Option<(u32, OnceLock<Option<Movers>>)>,
    gate: Arc<Gate>,
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Whether streams tell how far they are by events although they could write words. Default no: asking costs a driver
    /// call with events and a load with words. For a driver in which such writes are slow or at fault.
    pub seal_by_events: bool,
    /// Threads that fill pinned memory for large pageable writes and uploads of owned memory, the caller included, at most
    /// 64; 1 leaves such copies to the driver. Default: up to eight where the machine has eight cores, shared by all devices
    /// of the process, else the driver. More where the host's memory is faster than eight fill, fewer to leave cores to
    /// others. They are started by the first such copy.
    pub copy_threads: Option<u32>,
}

/// What [`Device::close`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Driver objects freed that had waited for the device to be idle.
    pub freed: usize,
    /// Failures that drops met since the device was opened; each was logged.
    pub drop_errors: u64,
}

impl Device {
    /// The device of that number, on the system's driver. Loads the driver at first (0.1 s) and makes the primary
    /// context (0.1 s) unless somebody holds it already.
    ///
    /// # Errors
    /// Those of [`Driver::load`], [`LaunchError::NoSuchDevice`], [`LaunchError::Unsupported`].
    pub fn open(ordinal: u32) -> Result<Self, LaunchError> {
        Self::open_on(Driver::load()?, ordinal)
    }

    /// The device of that number, on a given driver.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(driver: Driver, ordinal: u32) -> Result<Self, LaunchError> {
        Self::open_with(driver, ordinal, DeviceOptions::default())
    }

    /// As [`open_on`](Self::open_on), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(driver: Driver, ordinal: u32, options: DeviceOptions) -> Result<Self, LaunchError> {
        let device = Self::handle(driver, ordinal)?;
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        driver.judge(unsafe { driver.table().primary_retain(&raw mut context, device) })?;
        Self::with_gate(Gate::new(driver, device, context, Keeper::Primary), ordinal, options)
    }

    /// On a context that somebody else keeps alive.
    pub(crate) fn on_context(
        driver: Driver,
        ordinal: u32,
        context: RawContext,
        keeper: Keeper,
    ) -> Result<Self, LaunchError> {
        let device = Self::handle(driver, ordinal)?;
        Self::with_gate(Gate::new(driver, device, context, keeper), ordinal, DeviceOptions::default())
    }

    fn handle(driver: Driver, ordinal: u32) -> Result<c_int, LaunchError> {
        let count = driver.device_count()?;
        let missing = LaunchError::NoSuchDevice { ordinal, count };
        let Some(number) = c_int::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            return Err(missing);
        };
        let mut device: c_int = 0;
        // SAFETY: the pointer is valid for a c_int.
        driver.judge(unsafe { driver.table().device_get(&raw mut device, number) })?;
        Ok(device)
    }

    fn with_gate(gate: Gate, ordinal: u32, options: DeviceOptions) -> Result<Self, LaunchError> {
        let gate = Arc::new(gate);
        let found = properties::read(gate.driver(), gate.device())?;
        let events = Arc::new(EventPool::new(&gate));
        let timeline = if options.seal_by_events || !found.capabilities.stream_write_64 {
            Timeline::events(&events)
        } else {
            Timeline::words(&gate)?
        };
        let shared = Shared {
            pipelines: PipelineCache::default(),
            events,
            timeline: Arc::new(timeline),
            queues: Queues::new(),
            adapter: found.adapter,
            constraints: Arc::new(found.constraints),
            capabilities: found.capabilities,
            ordinal,
            movers: options.copy_threads.map(|threads| (threads, OnceLock::new())),
            gate,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Who the device is.
    pub fn adapter(&self) -> &Adapter {
        &self.shared.adapter
    }

    /// What it allows.
    pub fn constraints(&self) -> &Constraints {
        &self.shared.constraints
    }

    /// What else it can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// Whether streams tell how far they are by events, each question a driver call, instead of by words that the device
    /// writes: by [`DeviceOptions::seal_by_events`], or because they cannot write ([`Capabilities::stream_write_64`]).
    pub fn seals_by_events(&self) -> bool {
        self.timeline().is_by_events()
    }

    /// The number that it was opened by.
    pub fn ordinal(&self) -> u32 {
        self.shared.ordinal
    }

    /// The driver that runs it.
    pub fn driver(&self) -> Driver {
        self.shared.gate.driver()
    }

    /// What to compile for: its capability, with the driver's CUDA version and its own UUID.
    pub fn target(&self) -> Target {
        let capability = self.adapter().compute_capability;
        let capability = capability.unwrap_or(cuforge_core::ComputeCapability { major: 0, minor: 0 });
        let target = Target::new(capability).with_driver(self.driver().version());
        Target { adapter: self.adapter().uuid, ..target }
    }

    /// Free and total device memory in bytes, of all processes.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn memory_info(&self) -> Result<(u64, u64), LaunchError> {
        let _context = self.gate().enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for a usize each.
        self.gate().check(unsafe { self.gate().api().mem_get_info(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Pinned host memory of `bytes`, zeroed. About 0.4 ms a MiB.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn pinned(&self, bytes: usize) -> Result<PinnedBuffer, LaunchError> {
        PinnedBuffer::new(self.gate(), bytes)
    }

    /// The pipeline for `spec` under `schedule`, with the code in `image`.
    ///
    /// Modules and pipelines are kept by image: a repeated request makes no allocation and no driver call. The first
    /// one loads the module, which waits for running kernels. Declared parameters are held against the compiled
    /// kernel's own layout (drivers from CUDA 12.4 on).
    ///
    /// # Errors
    /// [`LaunchError::ImageRejected`] with the JIT log, [`LaunchError::NoSuchKernel`],
    /// [`LaunchError::ParameterMismatch`], [`LaunchError::Schedule`], [`LaunchError::Bind`], and those of the driver.
    ///
    /// # Safety
    /// The image is what a compiler makes of `spec` under `schedule`, or of its text as it stands for PTX: launches
    /// rely on the promise that `spec` was made with.
    pub unsafe fn pipeline(
        &self,
        image: &Arc<ModuleImage>,
        spec: &KernelSpec,
        schedule: &Schedule,
    ) -> Result<Pipeline, LaunchError> {
        self.gate().alive()?;
        let cache = &self.shared.pipelines;
        if let Some(pipeline) = cache.find(image, spec, schedule) {
            return Ok(pipeline);
        }
        let module = match cache.module(image) {
            Some(module) => module,
            None => Arc::new(Module::load(self.gate(), image, spec.entry_point())?),
        };
        let pipeline = Pipeline::build(self.gate(), &self.shared.constraints, module, spec, schedule)?;
        cache.keep(&pipeline);
        Ok(pipeline)
    }

    /// The pipeline for a kernel whose text is PTX, loaded as it stands. Safe, because the image is the specification's own
    /// text. A repeated request compares specifications and makes no allocation and no driver call.
    ///
    /// # Errors
    /// [`LaunchError::Unsupported`] for another language; those of [`pipeline`](Self::pipeline).
    pub fn ptx_pipeline(&self, spec: &KernelSpec, schedule: &Schedule) -> Result<Pipeline, LaunchError> {
        self.gate().alive()?;
        if spec.body().language != Language::Ptx {
            return Err(LaunchError::Unsupported {
                what: "a kernel that is not PTX",
                why: "it has to be compiled first",
            });
        }
        if let Some(pipeline) = self.shared.pipelines.find_text(spec, schedule) {
            return Ok(pipeline);
        }
        let text = &*spec.body().text;
        let digest = Digest(Sha256::digest(text.as_bytes()).into());
        let image = Arc::new(ModuleImage::hand_written(Arc::from(text), self.target(), digest));
        // SAFETY: the image is the specification's own text.
        unsafe { self.pipeline(&image, spec, schedule) }
    }

    /// Forgets pipelines that nothing refers to; how many. Their modules are unloaded when the device is idle.
    pub fn trim_pipelines(&self) -> usize {
        self.shared.pipelines.trim()
    }

    /// Frees what waits for the device to be idle, if it is idle now; never waits. How many things were freed: none
    /// while a stream of the device captures.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`].
    pub fn collect(&self) -> Result<usize, LaunchError> {
        self.gate().alive()?;
        let retired = self.gate().take_retired();
        if retired.is_empty() {
            return Ok(0);
        }
        // Asking a capturing stream how far it is would spoil the capture.
        let Some(_quiet) = self.gate().quiet() else { return Ok(0) };
        // The legacy stream, if it was brought in, is that of the current context.
        let _context = self.gate().enter()?;
        if !self.queues().are_idle(self.gate(), self.timeline())? {
            return Ok(0);
        }
        // SAFETY: every stream of this device was idle after these had been retired, and what is retired is out of
        // everybody's reach, so no later work can use it.
        unsafe { retired.free() }
    }

    /// Waits for all work of the context, frees what waited for that, and reports what drops could not.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`], [`LaunchError::Driver`]; [`GraphError::Capturing`] while a stream captures.
    pub fn close(&self) -> Result<Closed, LaunchError> {
        let Some(_quiet) = self.gate().quiet() else {
            return Err(GraphError::Capturing { what: "the device" }.into());
        };
        self.shared.pipelines.trim();
        let retired = self.gate().take_retired();
        {
            let _context = self.gate().enter()?;
            // SAFETY: the context is current.
            self.gate().check_wait(unsafe { self.gate().api().ctx_synchronize() })?;
            self.queues().rouse_quietly(self.gate(), self.timeline())?;
        }
        // SAFETY: nothing of the context ran after these had been retired, and what is retired is out of everybody's reach.
        let freed = unsafe { retired.free() }?;
        Ok(Closed { freed, drop_errors: self.gate().drop_errors() })
    }

    /// The first fault, if the device is lost.
    pub fn lost(&self) -> Option<DriverError> {
        match self.gate().alive() {
            Err(LaunchError::DeviceLost { first }) => Some(first),
            _ => None,
        }
    }

    /// The `CUcontext`, for calls that this crate does not make. Alive as long as any clone of the device.
    pub fn raw_context(&self) -> *mut std::ffi::c_void {
        self.gate().context()
    }

    #[inline]
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.shared.gate
    }

    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.shared.timeline
    }

    pub(crate) fn events(&self) -> &Arc<EventPool> {
        &self.shared.events
    }

    /// The threads that fill pinned memory for large copies, if they are not left to the driver.
    pub(crate) fn movers(&self) -> Option<&Movers> {
        match &self.shared.movers {
            None => Movers::of_this_machine(),
            Some((threads, movers)) => movers.get_or_init(|| Movers::of(*threads)).as_ref(),
        }
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.shared.queues
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Every stream held the device, so all are gone; what the driver still runs shows in their last epochs.
        if self.queues.are_done(&self.timeline) {
            self.gate.all_done();
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("ordinal", &self.ordinal())
            .field("name", &self.adapter().name)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
