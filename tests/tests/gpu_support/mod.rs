//! What the GPU tests share: the kernels, a device with slab and stream, an allocation counter.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program's own support")]

#[path = "../../../crates/cuforge-launch/examples/support/first_fit.rs"]
mod first_fit;

use cuforge_core::{
    Access, BufferView, ComputeCapability, DeclaredBlock, Digest, Element, KernelSpec, ModuleImage,
    Parameter, Request, Schedule, SlabAllocator, Target,
};
use cuforge_launch::{Device, LaunchError, Pipeline, Slab, SlabOptions, Stream};
pub(crate) use first_fit::FirstFit;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PLAIN: &str = include_str!("../../kernels/plain.ptx");
pub(crate) const HOPPER: &str = include_str!("../../kernels/hopper.ptx");

/// Counts allocations of the calling thread.
pub(crate) struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: forwarded.
        unsafe { System.dealloc(at, layout) };
    }
}

/// Allocations of this thread while `f` runs.
pub(crate) fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

/// The first device, with a slab and a stream.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) slab: Slab,
    pub(crate) stream: Stream,
}

impl Rig {
    /// With a slab of so many MiB.
    pub(crate) fn new(mib: u64) -> Self {
        Self::with(mib, SlabOptions::default())
    }

    pub(crate) fn with(mib: u64, options: SlabOptions) -> Self {
        let device = Device::open(0).unwrap_or_else(|error| panic!("this test needs a GPU: {error}"));
        let slab = Slab::new(&device, FirstFit::boxed(mib << 20), options).unwrap();
        let stream = Stream::new(&device).unwrap();
        Self { device, slab, stream }
    }

    pub(crate) fn over(device: Device, allocator: Box<dyn SlabAllocator + Send>) -> Self {
        let slab = Slab::new(&device, allocator, SlabOptions::default()).unwrap();
        let stream = Stream::new(&device).unwrap();
        Self { device, slab, stream }
    }

    /// How much of something: as many on a GPU, fewer on the simulated device, which is thousands of times slower.
    pub(crate) fn rounds(&self, gpu: u32, simulated: u32) -> u32 {
        if self.device.driver().is_simulated() { simulated } else { gpu }
    }

    /// `words` 32-bit words, bound for reading and writing.
    pub(crate) fn words(&self, words: u64, binding: u32) -> BufferView {
        let view = self.slab.acquire(&Request::new(words * 4)).unwrap();
        view.bound_to(0, binding, Access::StorageReadWrite).unwrap()
    }

    pub(crate) fn read<T: bytemuck::Pod>(&mut self, view: &BufferView) -> Vec<T> {
        self.slab.read_vec(&mut self.stream, view).unwrap()
    }

    pub(crate) fn write<T: bytemuck::Pod>(&mut self, view: &BufferView, values: &[T]) {
        self.slab.write_from(&mut self.stream, view, values).unwrap();
    }

    /// A kernel of the test files with blocks of so many threads.
    pub(crate) fn kernel(
        &self,
        text: &'static str,
        entry: &'static str,
        threads: u32,
        takes: &[Take],
    ) -> Pipeline {
        self.try_kernel(text, entry, threads, takes).unwrap()
    }

    pub(crate) fn try_kernel(
        &self,
        text: &'static str,
        entry: &'static str,
        threads: u32,
        takes: &[Take],
    ) -> Result<Pipeline, LaunchError> {
        let parameters = (0..).zip(takes).map(|(at, take)| take.parameter(at)).collect();
        let block = DeclaredBlock { workgroup_size: [threads, 1, 1], items_per_invocation: 1 };
        // SAFETY: the kernels keep to the buffers that the tests bind, but for the one that is meant to stray, which
        // ends its process.
        let spec =
            unsafe { KernelSpec::ptx(entry, entry, text, parameters) }.with_declared_blocks(vec![block]);
        // SAFETY: the image is the specification's own text.
        unsafe { self.device.pipeline(&image(text), &spec, &Schedule::new([threads, 1, 1])) }
    }
}

/// A parameter in short.
#[derive(Clone, Copy)]
pub(crate) enum Take {
    Buffer,
    Read,
    Uniform(u32, u32),
    Scalar(Element),
}

impl Take {
    fn parameter(self, at: u32) -> Parameter {
        match self {
            Self::Buffer => Parameter::buffer(format!("p{at}"), at, Element::U32, Access::StorageReadWrite),
            Self::Read => Parameter::buffer(format!("p{at}"), at, Element::U32, Access::StorageRead),
            Self::Uniform(bytes, align) => Parameter::Uniform { bytes, align },
            Self::Scalar(element) => Parameter::scalar(format!("p{at}"), element),
        }
    }
}

/// How many rounds: fewer under a sanitizer, where each takes a hundred times as long.
pub(crate) fn unless_sanitized(rounds: u32, few: u32) -> u32 {
    if std::env::var_os("CUFORGE_SANITIZER").is_some() { rounds.min(few) } else { rounds }
}

/// Whether work on two streams may run at a time: initcheck ends each copy and kernel before the next begins, so that nothing is
/// seen running and no missing guard is seen missing.
pub(crate) fn side_by_side() -> bool {
    std::env::var_os("CUFORGE_SANITIZER").is_none_or(|tool| tool != "initcheck")
}

/// The device has `before` bytes free again but for less than `mib` MiB. Other processes use it too, so that one look says
/// little: within ten seconds is enough.
pub(crate) fn assert_comes_back(device: &Device, before: u64, mib: u64) {
    let mut after = 0;
    let back = (0..40).any(|look| {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(250));
        }
        after = device.memory_info().unwrap().0;
        after + (mib << 20) > before
    });
    assert!(back, "{} MiB are gone", (before - after) >> 20);
}

/// PTX text as an image.
pub(crate) fn image(text: &str) -> Arc<ModuleImage> {
    let mut digest = [0u8; 32];
    for (at, byte) in text.bytes().enumerate() {
        digest[at % 32] = digest[at % 32].wrapping_mul(31).wrapping_add(byte);
    }
    Arc::new(ModuleImage {
        cubin: None,
        ptx: Some(text.into()),
        entry_points: Vec::new(),
        lowered_names: Vec::new(),
        target: Target::new(ComputeCapability { major: 7, minor: 5 }),
        decision: "given".into(),
        compiler: "hand-written PTX".into(),
        log: String::new(),
        digest: Digest(digest),
    })
}

/// Scalars one after the other, as arguments want them.
pub(crate) fn pack(words: &[u32]) -> Vec<u8> {
    bytemuck::cast_slice(words).to_vec()
}

/// What a test of this program prints in a process of its own, in which `CUFORGE_CHILD` is set.
pub(crate) fn in_a_new_process(test: &str) -> String {
    let program = std::env::current_exe().expect("a test program has a path");
    let output = Command::new(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env("CUFORGE_CHILD", "1")
        .output()
        .expect("the test program starts");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
