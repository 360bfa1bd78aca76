//! The simulated CUDA device as a backend of the oracle, in this process.

mod error;
mod kernel;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cuforge_core::{
    Accuracy, Adapter, Arithmetic, Backend, BufferView, BuildOptions, CompileRequest, Compute,
    ComputeCapability, Constraints, ContextError, ContextErrorKind, DeviceType, Digest, Evidence,
    FunctionBound, KernelCompiler, KernelSpec, Language, Ledger, LedgerError, LedgerLimits, ModuleImage,
    OracleContext, ParameterLayout, Prepared, Refusal, Request, Schedule, Target,
};
use cuforge_sim::ptx::Module;
use cuforge_sim::{LaunchOptions, LoadError, Memory, Program};
use sha2::{Digest as _, Sha256};

use super::bump::Bump;
use error::{bind_error, memory_error, schedule_error};

pub(super) use error::compile_error;
use kernel::{Device, SimKernel};

pub use error::SimError;

/// Configures a [`SimContext`].
///
/// ```
/// use cuforge_core::{ComputeCapability, OracleContext};
/// use cuforge_oracle::SimContext;
/// let turing = ComputeCapability { major: 7, minor: 5 };
/// let context = SimContext::builder().capability(turing).memory_bytes(1 << 16).build()?;
/// assert_eq!(context.adapter().name, "simulated sm_75");
/// # Ok::<(), cuforge_core::ContextError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct SimContextBuilder {
    capability: ComputeCapability,
    memory_bytes: u64,
    options: LaunchOptions,
    compiler: Option<Arc<dyn KernelCompiler>>,
}

impl fmt::Debug for SimContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimContextBuilder")
            .field("capability", &self.capability)
            .field("memory_bytes", &self.memory_bytes)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl SimContextBuilder {
    /// The compute capability to play (default 9.0).
    pub fn capability(mut self, capability: ComputeCapability) -> Self {
        self.capability = capability;
        self
    }

    /// Device memory in bytes (default 64 MiB), taken from the host at once.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How launches run: host threads, order of warps, step budget, checks.
    pub fn launch_options(mut self, options: LaunchOptions) -> Self {
        self.options = options;
        self
    }

    /// The compiler for kernels in CUDA C (default none: such kernels are then unavailable).
    pub fn compiler(mut self, compiler: Arc<dyn KernelCompiler>) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// The context.
    ///
    /// # Errors
    /// [`OutOfMemory`](ContextErrorKind::OutOfMemory) if the host does not have the memory.
    pub fn build(self) -> Result<SimContext, ContextError> {
        // Variables of modules lie beside the slab.
        let mut memory = Memory::new(self.memory_bytes.saturating_add(MODULE_BYTES));
        let base = memory
            .allocate(self.memory_bytes, Request::DEFAULT_ALIGN)
            .map_err(|error| memory_error("allocate", error))?;
        // A mark of no bytes: from here on only what a launch marks may be touched.
        memory.mark(base, 0).map_err(|error| memory_error("allocate", error))?;
        let ledger =
            Ledger::new(Box::new(Bump::new(self.memory_bytes)), LedgerLimits { grants: 1024, queues: 1 });
        let sm = self.capability.sm();
        let adapter = Adapter {
            name: format!("simulated sm_{sm}"),
            backend: Backend::Simulated,
            device_type: DeviceType::Cpu,
            vendor_id: 0,
            device_id: 0,
            uuid: None,
            pci_address: None,
            driver: DRIVER.to_owned(),
            driver_version: None,
            compute_capability: Some(self.capability),
        };
        let constraints = Constraints {
            memory_bytes: self.memory_bytes,
            max_buffer_bytes: self.memory_bytes,
            max_shared_bytes_opt_in: shared_opt_in_bytes(self.capability),
            ..Constraints::default()
        };
        Ok(SimContext {
            adapter,
            constraints,
            capability: self.capability,
            ledger,
            device: Arc::new(Device {
                memory: Mutex::new(memory),
                base,
                options: self.options,
                instructions: AtomicU64::new(0),
            }),
            compiler: self.compiler,
        })
    }
}

/// Room for the variables of modules.
const MODULE_BYTES: u64 = 16 << 20;

const DRIVER: &str = concat!("cuforge-sim ", env!("CARGO_PKG_VERSION"));

/// The simulated CUDA device as an [`OracleContext`]: runs PTX in this process, compiles CUDA C if given a compiler.
///
/// Views come from a [`Ledger`] over a bump allocator with red zones between grants. During a launch only the bytes
/// of the bound views may be touched: one byte beyond any of them is an out-of-bounds fault that names both. Times
/// are the host's, of the simulation; they say nothing of a GPU.
///
/// ```
/// use cuforge_core::{OracleContext, Request};
/// use cuforge_oracle::SimContext;
/// let mut context = SimContext::builder().memory_bytes(1 << 20).build()?;
/// let view = context.allocate(&Request::new(64))?;
/// context.write(&view, &[7; 64])?;
/// let mut bytes = [0; 64];
/// context.read(&view, &mut bytes)?;
/// assert_eq!(bytes, [7; 64]);
/// # Ok::<(), cuforge_core::ContextError>(())
/// ```
pub struct SimContext {
    adapter: Adapter,
    constraints: Constraints,
    capability: ComputeCapability,
    ledger: Ledger,
    device: Arc<Device>,
    compiler: Option<Arc<dyn KernelCompiler>>,
}

impl fmt::Debug for SimContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimContext")
            .field("adapter", &self.adapter)
            .field("ledger", &self.ledger)
            .field("compiler", &self.compiler.is_some())
            .finish_non_exhaustive()
    }
}

impl SimContext {
    /// Configures a context.
    pub fn builder() -> SimContextBuilder {
        SimContextBuilder {
            capability: ComputeCapability { major: 9, minor: 0 },
            memory_bytes: 64 << 20,
            options: LaunchOptions::default(),
            compiler: None,
        }
    }

    /// Makes a parsed module ready to run as `spec`'s kernel under `schedule`: how mutants are run.
    pub(crate) fn load(
        &self,
        module: &Module,
        spec: &KernelSpec,
        schedule: &Schedule,
    ) -> Result<Box<dyn Compute + Send>, ContextError> {
        let layout =
            ParameterLayout::new(spec.parameters()).map_err(|source| bind_error("prepare", spec, source))?;
        let kernel = spec.id().to_owned();
        let failed = |source: LoadError| {
            let error = match source {
                LoadError::NoKernel { name, known } => {
                    SimError::NoEntry { kernel: kernel.clone(), entry: name, found: known }
                }
                source => SimError::Load { kernel: kernel.clone(), source },
            };
            ContextError::new(ContextErrorKind::Kernel, "load", error)
        };
        let program = Program::load(module).map_err(failed)?;
        let entry = program.kernel(spec.entry_point()).map_err(failed)?;
        let taken = entry.param_bytes() as usize;
        if taken != layout.packed_bytes() {
            let declared = layout.packed_bytes();
            let error = SimError::ParameterBytes { kernel, declared, taken };
            return Err(ContextError::new(ContextErrorKind::Misuse, "load", error));
        }
        Ok(Box::new(SimKernel {
            id: spec.id().to_owned(),
            entry,
            packed: vec![0; layout.packed_bytes()],
            layout,
            spec: spec.clone(),
            schedule: schedule.clone(),
            constraints: self.constraints.clone(),
            pins: self.ledger.pins(),
            device: Arc::clone(&self.device),
        }))
    }

    fn image(
        &self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Arc<ModuleImage>, ContextError> {
        let kernel = || spec.id().to_owned();
        let target = options.target.unwrap_or(Target::new(self.capability));
        match spec.body().language {
            Language::Ptx => {
                spec.defines(schedule).map_err(|error| schedule_error("prepare", error))?;
                Ok(Arc::new(hand_written(&spec.body().text, target)))
            }
            Language::CudaC => {
                let Some(compiler) = &self.compiler else {
                    let error = SimError::NoCompiler { kernel: kernel() };
                    return Err(ContextError::new(ContextErrorKind::Unavailable, "prepare", error));
                };
                let request = CompileRequest::for_kernel(spec, schedule, options, target)
                    .map_err(|error| schedule_error("prepare", error))?;
                compiler.compile(&request).map_err(compile_error)
            }
            language => {
                let error = SimError::Language { kernel: kernel(), language };
                Err(ContextError::new(ContextErrorKind::Unsupported, "prepare", error))
            }
        }
    }

    fn check_target(&self, spec: &KernelSpec, module: &Module) -> Result<(), ContextError> {
        let target = module.header().target.to_string();
        let digits: String = target.chars().filter(char::is_ascii_digit).collect();
        let device = self.capability.sm();
        if digits.parse::<u16>().is_ok_and(|needed| needed > device) {
            let error = SimError::Target { kernel: spec.id().to_owned(), target, device };
            return Err(ContextError::new(ContextErrorKind::Unsupported, "prepare", error));
        }
        Ok(())
    }

    /// The device address of a live view with room for so many bytes.
    fn address(&self, operation: &'static str, view: &BufferView, bytes: u64) -> Result<u64, ContextError> {
        self.ledger
            .check(view)
            .map_err(|error| ContextError::new(ContextErrorKind::Misuse, operation, error))?;
        if bytes > view.len() {
            let error = SimError::ViewBytes { bytes, view_bytes: view.len() };
            return Err(ContextError::new(ContextErrorKind::Misuse, operation, error));
        }
        Ok(self.device.base + view.offset())
    }
}

impl OracleContext for SimContext {
    fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn timestamp_supported(&self) -> bool {
        false
    }

    fn instructions(&self) -> Option<u64> {
        Some(self.device.instructions.load(Ordering::Relaxed))
    }

    fn allocate(&mut self, request: &Request) -> Result<BufferView, ContextError> {
        let view = self.ledger.acquire(request).map_err(|refusal| {
            let kind = match refusal {
                Refusal::Zero | Refusal::Alignment { .. } => ContextErrorKind::Misuse,
                _ => ContextErrorKind::OutOfMemory,
            };
            ContextError::new(kind, "allocate", refusal)
        })?;
        let address = self.device.base + view.offset();
        self.device.memory().poison(address, view.len()).map_err(|error| memory_error("allocate", error))?;
        Ok(view)
    }

    fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), ContextError> {
        let address = self.address("write", view, bytes.len() as u64)?;
        self.device.memory().write(address, bytes).map_err(|error| memory_error("write", error))
    }

    fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), ContextError> {
        let address = self.address("read", view, bytes.len() as u64)?;
        self.device.memory().read(address, bytes).map_err(|error| memory_error("read", error))
    }

    fn clear(&mut self) -> Result<(), ContextError> {
        let pinned = |error: LedgerError| ContextError::new(ContextErrorKind::Misuse, "clear", error);
        self.ledger.clear().map(drop).map_err(pinned)
    }

    fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Prepared, ContextError> {
        // The geometry of one element shows whether the device takes the schedule at all.
        schedule
            .geometry(1, spec.shared_memory(), &self.constraints)
            .map_err(|error| schedule_error("prepare", error))?;
        let image = self.image(spec, schedule, options)?;
        let kernel = || spec.id().to_owned();
        let Some(ptx) = image.ptx.as_deref() else {
            let error = SimError::NoPtx { kernel: kernel() };
            return Err(ContextError::new(ContextErrorKind::Unsupported, "prepare", error));
        };
        let module = Module::parse(ptx).map_err(|source| {
            let error = SimError::Malformed { kernel: kernel(), source };
            ContextError::new(ContextErrorKind::Kernel, "prepare", error)
        })?;
        self.check_target(spec, &module)?;
        let compute = self.load(&module, spec, schedule)?;
        let written = spec.body().language == Language::Ptx;
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
            driver: DRIVER.to_owned(),
        };
        Ok(Prepared { image, evidence, kernel: compute })
    }
}

/// Most shared memory of a block; CUDA C++ Programming Guide 12.9, technical specifications per compute capability.
fn shared_opt_in_bytes(capability: ComputeCapability) -> u32 {
    let kib = match capability.sm() {
        0..75 => 96,
        75 => 64,
        80 | 87 => 163,
        76..90 | 120.. => 99,
        _ => 227,
    };
    kib << 10
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

fn hand_written(text: &str, target: Target) -> ModuleImage {
    ModuleImage {
        // A text that does not parse is refused right after this.
        entry_points: Module::parse(text)
            .map(|module| module.entries().map(|entry| entry.name.to_string()).collect())
            .unwrap_or_default(),
        ..ModuleImage::hand_written(Arc::from(text), target, digest(text.as_bytes()))
    }
}

/// Whether ordinary arithmetic of a PTX text flushes subnormals. The `.ftz` of the approximate exponential and
/// logarithm is covered by their limits.
pub(super) fn flushes(ptx: &str) -> bool {
    ptx.lines().any(|line| {
        line.contains(".ftz") && !line.contains("ex2.approx.ftz") && !line.contains("lg2.approx.ftz")
    })
}

/// What hand-written PTX may do less exactly than the default arithmetic does; PTX ISA 8.8, floating point
/// instructions. A relative error of 2^-k is at most 2^(24 - k) units in the last place.
pub(super) fn approximations(ptx: &str) -> Vec<FunctionBound> {
    let looser = [
        ("div.approx.f32", "divide", 2.0),
        ("div.full.f32", "divide", 2.0),
        ("rcp.approx.f32", "divide", 2.0),
        ("sqrt.approx.f32", "sqrt", 2.0),
        ("tanh.approx.f32", "tanh", 8192.0),
    ];
    let unflushed = ptx.replace(".ftz", "");
    looser
        .into_iter()
        .filter(|(form, ..)| unflushed.contains(form))
        .map(|(_, function, max_ulp)| FunctionBound { function, max_ulp })
        .collect()
}
