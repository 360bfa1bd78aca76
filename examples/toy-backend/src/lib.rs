//! A whole backend for the oracle: a "device" whose kernels are Rust functions over one block of host memory. Real ones
//! differ in `prepare` and `dispatch`. The PTX that comes with a kernel is what is mutated, and run as the third leg.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cuforge::slab::ScopeSlab;
use cuforge_core::{
    Adapter, Arguments, Arithmetic, Backend, BufferView, BuildOptions, Compute, ComputeCapability,
    Constraints, ContextError, ContextErrorKind as Kind, DeviceType, Digest, Elapsed, ElapsedSource,
    Evidence, Extent, KernelSpec, Ledger, LedgerLimits, ModuleImage, OracleContext, Pins, Prepared, Request,
    Schedule, Target,
};

/// A kernel: the whole memory, the bytes of each bound buffer in binding order, the uniform block and scalars.
pub type Function = Arc<dyn Fn(&mut [u8], &[Range<usize>], &[u8]) + Send + Sync>;

type Memory = Arc<Mutex<Vec<u8>>>;
type Fallible<T> = Result<T, ContextError>;

fn misuse(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ContextError {
    ContextError::new(Kind::Misuse, "access", error)
}

fn bytes(memory: &Memory) -> MutexGuard<'_, Vec<u8>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device: what it is, who owns which bytes of its memory, and its kernels.
pub struct Toy {
    adapter: Adapter,
    constraints: Constraints,
    ledger: Ledger,
    memory: Memory,
    kernels: HashMap<String, Function>,
}

impl Toy {
    pub fn new(memory_bytes: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let memory = Arc::new(Mutex::new(vec![0; usize::try_from(memory_bytes)?]));
        let adapter = Adapter {
            name: "toy".to_owned(),
            backend: Backend::Other("toy"),
            device_type: DeviceType::Cpu,
            vendor_id: 0,
            device_id: 0,
            uuid: None,
            pci_address: None,
            driver: "toy 1".to_owned(),
            driver_version: None,
            compute_capability: None,
        };
        let constraints =
            Constraints { memory_bytes, max_buffer_bytes: memory_bytes, ..Constraints::default() };
        let ledger = Ledger::new(Box::new(ScopeSlab::new(memory_bytes)?), LedgerLimits::default());
        Ok(Self { adapter, constraints, ledger, memory, kernels: HashMap::new() })
    }

    pub fn with_kernel(mut self, id: &str, function: Function) -> Self {
        self.kernels.insert(id.to_owned(), function);
        self
    }

    fn range(&self, view: &BufferView, bytes: usize) -> Fallible<Range<usize>> {
        self.ledger.check(view).map_err(misuse)?;
        let view = view.slice(0, bytes as u64).map_err(misuse)?;
        Ok(view.offset() as usize..view.offset() as usize + bytes)
    }
}

impl OracleContext for Toy {
    fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn timestamp_supported(&self) -> bool {
        false
    }

    fn allocate(&mut self, request: &Request) -> Fallible<BufferView> {
        self.ledger
            .acquire(request)
            .map_err(|refusal| ContextError::new(Kind::OutOfMemory, "allocate", refusal))
    }

    fn write(&mut self, view: &BufferView, from: &[u8]) -> Fallible<()> {
        let range = self.range(view, from.len())?;
        bytes(&self.memory)[range].copy_from_slice(from);
        Ok(())
    }

    fn read(&mut self, view: &BufferView, to: &mut [u8]) -> Fallible<()> {
        let range = self.range(view, to.len())?;
        to.copy_from_slice(&bytes(&self.memory)[range]);
        Ok(())
    }

    fn clear(&mut self) -> Fallible<()> {
        self.ledger.clear().map(drop).map_err(misuse)
    }

    fn prepare(&mut self, spec: &KernelSpec, _: &Schedule, _: &BuildOptions) -> Fallible<Prepared> {
        let missing = || ContextError::new(Kind::Unsupported, "prepare", "the toy has no such kernel");
        let function = Arc::clone(self.kernels.get(spec.id()).ok_or_else(missing)?);
        let none = Digest([0; 32]);
        let image = ModuleImage {
            cubin: None,
            ptx: Some(Arc::from(&*spec.body().text)),
            entry_points: vec![spec.entry_point().to_owned()],
            lowered_names: Vec::new(),
            target: Target::new(ComputeCapability::from_sm(90)),
            decision: "a function of the toy".to_owned(),
            compiler: "rustc".to_owned(),
            log: String::new(),
            digest: none,
        };
        let (compiler, driver) = (image.compiler.clone(), self.adapter.driver.clone());
        let evidence =
            Evidence { arithmetic: Arithmetic::default(), source: none, image: none, compiler, driver };
        let kernel = ToyKernel { function, pins: self.ledger.pins(), memory: self.memory.clone() };
        Ok(Prepared { image: Arc::new(image), evidence, kernel: Box::new(kernel) })
    }
}

struct ToyKernel {
    function: Function,
    pins: Pins,
    memory: Memory,
}

impl Compute for ToyKernel {
    fn dispatch(&mut self, arguments: Arguments<'_>, _: Extent) -> Fallible<Elapsed> {
        arguments.views.iter().try_for_each(|view| self.pins.check(view)).map_err(misuse)?;
        let mut views = arguments.views.to_vec();
        views.sort_by_key(|view| (view.group(), view.binding()));
        let range = |view: &BufferView| view.offset() as usize..(view.offset() + view.len()) as usize;
        let ranges: Vec<Range<usize>> = views.iter().map(range).collect();
        let start = Instant::now();
        (self.function)(&mut bytes(&self.memory), &ranges, arguments.by_value);
        let nanoseconds = start.elapsed().as_nanos() as u64;
        Ok(Elapsed { nanoseconds, source: ElapsedSource::HostClock })
    }
}
