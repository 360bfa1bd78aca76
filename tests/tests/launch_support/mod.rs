//! What the launcher's tests share: a device on a simulated driver of its own, a plain allocator, an allocation counter.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program's own support")]

#[path = "../../../crates/cuforge-launch/examples/support/first_fit.rs"]
mod first_fit;

use cuforge_core::{
    Access, BufferView, DeclaredBlock, Digest, Element, Extent, KernelSpec, ModuleImage, Parameter, Request,
    Schedule, Target,
};
use cuforge_launch::{Device, Pipeline, Slab, SlabOptions, Stream};
use cuforge_tests::sim::Sim;
pub(crate) use first_fit::FirstFit;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

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
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: forwarded.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Allocations of this thread while `f` runs.
pub(crate) fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

pub(crate) const SAXPY: &str = "
.version 7.8
.target sm_70
.address_size 64
.visible .entry saxpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [y];
    ld.param.u64 %d2, [x];
    ld.param.f32 %f1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p ret;
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mul.wide.u32 %d3, %r5, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d5];
    ld.global.f32 %f3, [%d4];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%d4], %f3;
    ret;
}
";

/// `y += a * x`, in PTX.
pub(crate) fn saxpy() -> KernelSpec {
    let parameters = vec![
        Parameter::buffer("y", 0, Element::F32, Access::StorageReadWrite),
        Parameter::buffer("x", 1, Element::F32, Access::StorageRead),
        Parameter::scalar("a", Element::F32),
        Parameter::scalar("n", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [128, 1, 1], items_per_invocation: 1 };
    // SAFETY: with n at most the element count of both buffers, each thread touches its own element of them.
    unsafe { KernelSpec::ptx("saxpy", "saxpy", SAXPY, parameters) }.with_declared_blocks(vec![block])
}

/// PTX text as an image, named by a digest of its own.
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
        target: Target::new(cuforge_core::ComputeCapability { major: 7, minor: 0 }),
        decision: "given".into(),
        compiler: "hand-written PTX".into(),
        log: String::new(),
        digest: Digest(digest),
    })
}

/// The saxpy pipeline of a device.
pub(crate) fn saxpy_pipeline(device: &Device) -> Pipeline {
    // SAFETY: the image is the specification's own text.
    unsafe { device.pipeline(&image(SAXPY), &saxpy(), &Schedule::new([128, 1, 1])) }.unwrap()
}

/// A device of a simulated driver with a slab, a stream, a pipeline and two bound buffers of `n` floats.
pub(crate) struct Rig {
    pub(crate) sim: Sim,
    pub(crate) device: Device,
    pub(crate) slab: Slab,
    pub(crate) stream: Stream,
    pub(crate) pipeline: Pipeline,
    pub(crate) y: BufferView,
    pub(crate) x: BufferView,
    pub(crate) n: u32,
}

impl Rig {
    pub(crate) fn new(n: u32) -> Self {
        Self::on(Sim::new(&[]).unwrap(), n)
    }

    pub(crate) fn on(sim: Sim, n: u32) -> Self {
        let device = sim.device().unwrap();
        Self::with(sim, device, n)
    }

    /// On a device of that driver that is open already.
    pub(crate) fn with(sim: Sim, device: Device, n: u32) -> Self {
        let slab = Slab::new(&device, FirstFit::boxed(64 << 20), SlabOptions::default()).unwrap();
        let stream = Stream::new(&device).unwrap();
        let pipeline = saxpy_pipeline(&device);
        let floats = Request::new(u64::from(n) * 4);
        let y = slab.acquire(&floats).unwrap().bound_to(0, 0, Access::StorageReadWrite).unwrap();
        let x = slab.acquire(&floats).unwrap().bound_to(0, 1, Access::StorageRead).unwrap();
        Self { sim, device, slab, stream, pipeline, y, x, n }
    }

    pub(crate) fn view(&self, len: u64) -> BufferView {
        self.slab.acquire(&Request::new(len)).unwrap()
    }

    pub(crate) fn values(&self, a: f32) -> Vec<u8> {
        [a.to_le_bytes(), self.n.to_le_bytes()].concat()
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent::Elements(u64::from(self.n))
    }
}
