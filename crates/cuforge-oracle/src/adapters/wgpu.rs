//! A Vulkan device as a backend of the oracle: the same WGSL as on the CUDA driver, through wgpu.

mod device;
mod error;
mod kernel;

use std::fmt;
use std::sync::Arc;

use cuforge_core::{
    Access, Accuracy, Adapter, Arithmetic, Backend, BufferView, BuildOptions, CompileRequest,
    ComputeCapability, Constraints, ContextError, ContextErrorKind, DeviceType, Evidence, KernelCompiler,
    KernelSpec, Language, Ledger, LedgerError, LedgerLimits, ModuleImage, OracleContext, Prepared, Refusal,
    Request, Schedule, Target,
};
use cuforge_wgsl::Portable;
use wgpu::{Backends, Features, Instance, InstanceDescriptor, Limits};

use super::bump::{Bump, RED_ZONE_BYTES};
use super::sim::{compile_error, digest};
use device::Device;
use error::schedule_error;
use kernel::{Shared, WgpuKernel};

pub use error::WgpuError;

/// What fresh allocations hold: as a float a NaN, as an integer nothing that a kernel is likely to write.
const POISON: u8 = 0xff;

/// What turns WGSL into what the Vulkan driver runs.
const COMPILER: &str = "wgpu 30";
/// What PTX is made for where nothing else is asked for: the simulated device's default.
const SIMULATED: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

/// Configures a [`WgpuContext`].
///
/// ```
/// use cuforge_core::OracleContext;
/// use cuforge_oracle::WgpuContext;
/// match WgpuContext::builder().memory_bytes(1 << 20).build() {
///     Ok(context) => println!("{}", context.adapter().name),
///     Err(error) => println!("no Vulkan here: {error}"),
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct WgpuContextBuilder {
    memory_bytes: u64,
    name: Option<String>,
    compiler: Option<Arc<dyn KernelCompiler>>,
}

impl fmt::Debug for WgpuContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuContextBuilder")
            .field("memory_bytes", &self.memory_bytes)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl WgpuContextBuilder {
    /// Device memory in bytes, once for storage that is only read and once for storage that is written (default 64 MiB).
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Only a device whose name contains this, in any case (default any; GPUs go before CPUs that play one).
    pub fn adapter_named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The compiler that makes the PTX of the same WGSL, emitted as CUDA C (default none): the PTX is what is mutated and
    /// what the simulated device runs as the third leg. Without it no verdict can be better than Vacuous.
    pub fn compiler(mut self, compiler: Arc<dyn KernelCompiler>) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// The context.
    ///
    /// # Errors
    /// [`Unavailable`](ContextErrorKind::Unavailable) without a Vulkan loader or such a device,
    /// [`OutOfMemory`](ContextErrorKind::OutOfMemory).
    pub fn build(self) -> Result<WgpuContext, ContextError> {
        self.open().map_err(|error| error.during("open"))
    }

    fn open(self) -> Result<WgpuContext, WgpuError> {
        let instance = Instance::new(InstanceDescriptor {
            backends: Backends::VULKAN,
            ..InstanceDescriptor::new_without_display_handle()
        });
        let mut found = pollster::block_on(instance.enumerate_adapters(Backends::VULKAN));
        // GPUs of their own before those that share the host's memory, and CPUs last.
        found.sort_by_key(|adapter| match adapter.get_info().device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::VirtualGpu => 1,
            wgpu::DeviceType::Other => 2,
            wgpu::DeviceType::Cpu => 3,
        });
        let names: Vec<String> = found.iter().map(|adapter| adapter.get_info().name).collect();
        let fits = |name: &String| {
            self.name.as_ref().is_none_or(|wanted| name.to_lowercase().contains(&wanted.to_lowercase()))
        };
        let Some(adapter) = names.iter().position(fits).map(|at| found.swap_remove(at)) else {
            return Err(WgpuError::NoAdapter { filter: self.name, known: names });
        };
        let info = adapter.get_info();
        let features = adapter.features() & wanted();
        let limits = adapter.limits();
        let opened = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("cuforge"),
            required_features: features,
            required_limits: limits.clone(),
            ..Default::default()
        }));
        let fails = |reason: String| WgpuError::Open { adapter: info.name.clone(), reason };
        let (device, queue) = opened.map_err(|error| fails(error.to_string()))?;
        let timestamps = features.contains(Features::TIMESTAMP_QUERY);
        let device = Arc::new(Device::new(device, queue, self.memory_bytes + RED_ZONE_BYTES)?);
        let slab = || {
            let limits = LedgerLimits { grants: 1024, queues: 1 };
            Ledger::new(Box::new(Bump::new(self.memory_bytes)), limits)
        };
        Ok(WgpuContext {
            adapter: who(info),
            constraints: allows(&limits, self.memory_bytes),
            timestamps,
            device,
            read: slab(),
            written: slab(),
            compiler: self.compiler,
        })
    }
}

/// A Vulkan device as an [`OracleContext`]: runs kernels in WGSL, and only those.
///
/// Every view is a binding of one of two slabs, since WebGPU lets a dispatch use a buffer for reading or for writing and
/// not for both: a buffer is bound as it was allocated. Times are the device's own where it has timestamps.
pub struct WgpuContext {
    adapter: Adapter,
    constraints: Constraints,
    timestamps: bool,
    device: Arc<Device>,
    read: Ledger,
    written: Ledger,
    compiler: Option<Arc<dyn KernelCompiler>>,
}

impl WgpuContext {
    /// Configures a context.
    pub fn builder() -> WgpuContextBuilder {
        WgpuContextBuilder { memory_bytes: 64 << 20, name: None, compiler: None }
    }

    /// The image that goes with a kernel: its PTX by way of CUDA C if there is a compiler, no code otherwise.
    fn image(
        &self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
        portable: &Portable,
    ) -> Result<Arc<ModuleImage>, ContextError> {
        let target = options.target.unwrap_or(Target::new(SIMULATED));
        let Some(compiler) = &self.compiler else {
            return Ok(Arc::new(ModuleImage {
                cubin: None,
                ptx: None,
                entry_points: vec![spec.entry_point().to_owned()],
                lowered_names: Vec::new(),
                target,
                decision: "WGSL, compiled by the Vulkan driver".to_owned(),
                compiler: COMPILER.to_owned(),
                log: String::new(),
                digest: digest(format!("{}\n{:?}", spec.body().text, portable.overrides).as_bytes()),
            }));
        };
        let emitted = cuforge_wgsl::emit(spec, schedule).map_err(refused)?;
        let request = CompileRequest::cuda_c(format!("{}.cu", spec.id()), emitted.cuda_c, target);
        compiler.compile(&request).map_err(compile_error)
    }

    /// What `view` was allocated as, if it is a live one with room for so many bytes.
    fn access(&self, operation: &'static str, view: &BufferView, bytes: u64) -> Result<Access, ContextError> {
        let (access, ledger) = if view.slab() == self.read.slab() {
            (Access::StorageRead, &self.read)
        } else {
            (Access::StorageReadWrite, &self.written)
        };
        ledger.check(view).map_err(|error| ContextError::new(ContextErrorKind::Misuse, operation, error))?;
        if bytes > view.len() {
            return Err(WgpuError::ViewBytes { bytes, view_bytes: view.len() }.during(operation));
        }
        Ok(access)
    }
}

impl OracleContext for WgpuContext {
    fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn timestamp_supported(&self) -> bool {
        self.timestamps
    }

    fn allocate(&mut self, request: &Request) -> Result<BufferView, ContextError> {
        let ledger = match request.access {
            Access::StorageRead => &mut self.read,
            Access::StorageReadWrite => &mut self.written,
        };
        let view = ledger.acquire(request).map_err(|refusal| {
            let kind = match refusal {
                Refusal::Zero | Refusal::Alignment { .. } => ContextErrorKind::Misuse,
                _ => ContextErrorKind::OutOfMemory,
            };
            ContextError::new(kind, "allocate", refusal)
        })?;
        self.fill(&view, POISON)?;
        Ok(view)
    }

    fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), ContextError> {
        let access = self.access("write", view, bytes.len() as u64)?;
        self.device.write(self.device.slab(access), view.offset(), bytes)
    }

    fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), ContextError> {
        let access = self.access("read", view, bytes.len() as u64)?;
        let read = self.device.read(self.device.slab(access), view.offset(), bytes.len() as u64)?;
        bytes.copy_from_slice(&read);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), ContextError> {
        let pinned = |error: LedgerError| ContextError::new(ContextErrorKind::Misuse, "clear", error);
        self.read.clear().map_err(pinned)?;
        self.written.clear().map(drop).map_err(pinned)
    }

    fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Prepared, ContextError> {
        let body = spec.body();
        if body.language != Language::Wgsl {
            let kernel = spec.id().to_owned();
            return Err(WgpuError::Language { kernel, language: body.language }.during("prepare"));
        }
        schedule
            .geometry(1, spec.shared_memory(), &self.constraints)
            .map_err(|error| schedule_error("prepare", error))?;
        let portable = cuforge_wgsl::portable(spec, schedule).map_err(refused)?;
        let shared = Shared {
            device: Arc::clone(&self.device),
            constraints: self.constraints.clone(),
            timestamps: self.timestamps,
            read: (self.read.slab(), self.read.pins()),
            written: (self.written.slab(), self.written.pins()),
        };
        let kernel = WgpuKernel::new(shared, spec, schedule, &portable)?;
        let image = self.image(spec, schedule, options, &portable)?;
        let evidence = Evidence {
            arithmetic: arithmetic(),
            source: digest(body.text.as_bytes()),
            image: image.digest,
            compiler: COMPILER.to_owned(),
            driver: self.adapter.driver.clone(),
        };
        Ok(Prepared { image, evidence, kernel: Box::new(kernel) })
    }
}

impl fmt::Debug for WgpuContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuContext").field("adapter", &self.adapter).finish_non_exhaustive()
    }
}

fn refused(error: cuforge_wgsl::EmitError) -> ContextError {
    let kind = match error {
        cuforge_wgsl::EmitError::Unsupported { .. } => ContextErrorKind::Unsupported,
        cuforge_wgsl::EmitError::Schedule(_) | cuforge_wgsl::EmitError::WorkgroupSize { .. } => {
            ContextErrorKind::Misuse
        }
        _ => ContextErrorKind::Kernel,
    };
    ContextError::new(kind, "prepare", error)
}

/// What kernels may use where the device has it.
fn wanted() -> Features {
    Features::TIMESTAMP_QUERY
        | Features::SHADER_F16
        | Features::SHADER_F64
        | Features::SHADER_INT64
        | Features::SUBGROUP
        | Features::SUBGROUP_BARRIER
}

/// WGSL lets an implementation fuse, and flush subnormals; its functions are as exact as its accuracy table says.
fn arithmetic() -> Arithmetic {
    Arithmetic {
        accuracy: Accuracy::Wgsl,
        fused: true,
        flush_to_zero: true,
        fast_math: false,
        bounds: Vec::new(),
    }
}

fn who(info: wgpu::AdapterInfo) -> Adapter {
    Adapter {
        name: info.name,
        backend: Backend::Vulkan,
        device_type: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => DeviceType::Discrete,
            wgpu::DeviceType::IntegratedGpu => DeviceType::Integrated,
            wgpu::DeviceType::Cpu => DeviceType::Cpu,
            _ => DeviceType::Other,
        },
        vendor_id: info.vendor,
        device_id: info.device,
        uuid: None,
        pci_address: Some(info.device_pci_bus_id).filter(|address| !address.is_empty()),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        driver_version: None,
        compute_capability: None,
    }
}

fn allows(limits: &Limits, memory_bytes: u64) -> Constraints {
    Constraints {
        max_threads_per_block: limits.max_compute_invocations_per_workgroup,
        max_block: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        max_grid: [limits.max_compute_workgroups_per_dimension; 3],
        max_shared_bytes: limits.max_compute_workgroup_storage_size,
        max_shared_bytes_opt_in: limits.max_compute_workgroup_storage_size,
        memory_bytes,
        max_buffer_bytes: memory_bytes.min(limits.max_storage_buffer_binding_size),
        min_buffer_align: u64::from(limits.min_storage_buffer_offset_alignment),
        ..Constraints::default()
    }
}
