//! What the tests share: the stand-in driver, built by the system's C compiler, a plain allocator, an allocation counter.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program's own support")]

mod first_fit;

use cuforge_core::{
    Access, BufferView, DeclaredBlock, Digest, Element, Extent, KernelSpec, ModuleImage, Parameter, Request,
    Schedule, Target,
};
use cuforge_launch::{Device, Driver, LaunchError, Pipeline, Slab, SlabOptions, Stream};
pub(crate) use first_fit::FirstFit;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

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

/// The stand-in driver in a file of its own, with the handles that tests steer it by.
pub(crate) struct Fake {
    pub(crate) path: PathBuf,
    library: libloading::Library,
}

impl Fake {
    pub(crate) fn new(defines: &[&str]) -> Self {
        Self::load(&build(defines))
    }

    /// The stand-in without one of its functions.
    pub(crate) fn without(symbol: &str) -> Self {
        Self::load(&without_symbol(&build(&[]), symbol))
    }

    fn load(path: &Path) -> Self {
        // SAFETY: the library was built from the source in this folder and has no initialisers.
        let library = unsafe { libloading::Library::new(path) }.unwrap();
        Self { path: path.to_path_buf(), library }
    }

    pub(crate) fn driver(&self) -> Result<Driver, LaunchError> {
        // SAFETY: the library has the functions that `cuda.h` declares.
        unsafe { Driver::open(&self.path) }
    }

    pub(crate) fn device(&self) -> Device {
        Device::open_on(self.driver().unwrap(), 0).unwrap()
    }

    /// Calls of one function so far; of all for the empty name.
    pub(crate) fn calls(&self, name: &str) -> i64 {
        // SAFETY: the signature is that of the source in this folder.
        let ask = unsafe { self.library.get::<unsafe extern "C" fn(*const c_char) -> c_long>(b"fake_calls") };
        let text = CString::new(name).unwrap();
        let name = if name.is_empty() { std::ptr::null() } else { text.as_ptr() };
        // SAFETY: a C string or null, as the function takes.
        unsafe { ask.unwrap()(name) }
    }

    /// Launches so far, by whichever function.
    pub(crate) fn launches(&self) -> i64 {
        ["cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch"].iter().map(|name| self.calls(name)).sum()
    }

    /// Lets `name` answer `code` from its `from_call`-th next call on; 0 lets it work again.
    pub(crate) fn fail(&self, name: &str, from_call: i64, code: i32) {
        type Fail = unsafe extern "C" fn(*const c_char, c_long, c_int);
        // SAFETY: the signature is that of the source in this folder.
        let fail = unsafe { self.library.get::<Fail>(b"fake_fail") }.unwrap();
        let name = CString::new(name).unwrap();
        // SAFETY: a C string, as the function takes.
        unsafe { fail(name.as_ptr(), from_call, code) };
    }

    /// Holds back what the device would write, or lets it go.
    pub(crate) fn hold(&self, on: bool) {
        // SAFETY: the signature is that of the source in this folder.
        let hold = unsafe { self.library.get::<unsafe extern "C" fn(c_int)>(b"fake_hold") }.unwrap();
        // SAFETY: takes any integer.
        unsafe { hold(c_int::from(on)) };
    }

    /// Graphs, executable graphs and capturing streams that are about.
    pub(crate) fn graphs(&self) -> [i64; 3] {
        ["fake_graphs", "fake_execs", "fake_capturing"].map(|name| {
            // SAFETY: the signature is that of the source in this folder.
            let ask = unsafe { self.library.get::<unsafe extern "C" fn() -> c_long>(name.as_bytes()) };
            // SAFETY: takes nothing.
            unsafe { ask.unwrap()() }
        })
    }

    /// A function of the driver, for calls that go past the launcher.
    pub(crate) fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller names the function's own type.
        *unsafe { self.library.get::<T>(name.as_bytes()) }.unwrap()
    }

    /// Bytes mapped by virtual memory management.
    pub(crate) fn mapped(&self) -> i64 {
        // SAFETY: the signature is that of the source in this folder.
        let ask = unsafe { self.library.get::<unsafe extern "C" fn() -> c_long>(b"fake_mapped") }.unwrap();
        // SAFETY: takes nothing.
        unsafe { ask() }
    }
}

/// The stand-in in a file that no other test has; each form of it is compiled once.
pub(crate) fn build(defines: &[&str]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static BUILT: Mutex<Vec<(String, PathBuf)>> = Mutex::new(Vec::new());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let fresh = || {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        folder.join(format!("stand-in-{}-{number}.so", std::process::id()))
    };
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let form = defines.join(" ");
    if !built.iter().any(|(known, _)| *known == form) {
        let path = fresh();
        compile(defines, &path);
        built.push((form.clone(), path));
    }
    let path = fresh();
    let (_, original) = built.iter().find(|(known, _)| *known == form).unwrap();
    std::fs::copy(original, &path).unwrap();
    path
}

fn compile(defines: &[&str], path: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/driver.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-Bsymbolic"]);
    compiler.args(defines.iter().map(|define| format!("-D{define}"))).arg(source).arg("-o").arg(path);
    let built = compiler.status().expect("a C compiler, which Rust links with too");
    assert!(built.success(), "the stand-in driver does not build");
}

/// A copy of a built library that lacks one symbol: its name is spoilt in the file.
pub(crate) fn without_symbol(library: &Path, symbol: &str) -> PathBuf {
    let mut bytes = std::fs::read(library).unwrap();
    let needle = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let mut found = false;
    for at in 0..bytes.len() - needle.len() {
        if bytes[at..].starts_with(&needle) {
            bytes[at + 1] = b'x';
            found = true;
        }
    }
    assert!(found, "{symbol} is not in the library");
    let path = library.with_extension(format!("without-{symbol}.so"));
    std::fs::write(&path, bytes).unwrap();
    path
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

/// A device on the stand-in with a slab, a stream, a pipeline and two bound buffers of `n` floats.
pub(crate) struct Rig {
    pub(crate) fake: Fake,
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
        Self::on(Fake::new(&[]), n)
    }

    pub(crate) fn on(fake: Fake, n: u32) -> Self {
        let device = fake.device();
        let slab = Slab::new(&device, FirstFit::boxed(64 << 20), SlabOptions::default()).unwrap();
        let stream = Stream::new(&device).unwrap();
        let pipeline = saxpy_pipeline(&device);
        let floats = Request::new(u64::from(n) * 4);
        let y = slab.acquire(&floats).unwrap().bound_to(0, 0, Access::StorageReadWrite).unwrap();
        let x = slab.acquire(&floats).unwrap().bound_to(0, 1, Access::StorageRead).unwrap();
        Self { fake, device, slab, stream, pipeline, y, x, n }
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
