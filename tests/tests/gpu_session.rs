//! The session on a real GPU: warm starts load no compiler, rejected images go back to it, prefetch feeds its stream.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

mod gpu_support;

use cuforge::compile::SearchPaths;
use cuforge::{Session, SessionError};
use cuforge_core::{
    Access, Arguments, BuildOptions, CompileFailure, CompileRequest, Digest, Element, Extent, KernelCompiler,
    KernelSpec, ModuleImage, Parameter, Request, Schedule,
};
use cuforge_launch::LaunchError;
use gpu_support::{Counting, PLAIN, image, pack};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

#[global_allocator]
static COUNTING: Counting = Counting;

const FILL: &str = "extern \"C\" __global__ void fill(unsigned *out, unsigned seed, unsigned n) {\n\
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) out[i] = seed * 2654435761u + i;\n}\n";

/// The kernel `fill` in CUDA C, of which the tests' file holds the PTX.
fn fill() -> KernelSpec {
    let parameters = vec![
        Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite),
        Parameter::scalar("seed", Element::U32),
        Parameter::scalar("n", Element::U32),
    ];
    // SAFETY: with n at most the elements of the buffer, the kernel stays inside it.
    unsafe { KernelSpec::cuda_c("fill", "fill", FILL, parameters) }
}

const N: u32 = 1_000;

/// Runs the kernel and looks at every word.
fn fills(session: &mut Session, seed: u32) -> Result<(), SessionError> {
    let view = session.allocate(&Request::new(u64::from(N) * 4))?;
    let bound = view.bound_to(0, 0, Access::StorageReadWrite).unwrap();
    let values = pack(&[seed, N]);
    let arguments = Arguments { views: &[bound], by_value: &values };
    session.run(&fill(), &Schedule::new([128, 1, 1]), arguments, Extent::Elements(u64::from(N)))?;
    let got = session.read_vec::<u32>(&view)?;
    assert!((0..).zip(&got).all(|(i, word)| *word == seed.wrapping_mul(2_654_435_761).wrapping_add(i)));
    session.retire(view)
}

/// Set for the process that starts warm or cold, with its cache folder.
const CHILD: &str = "CUFORGE_TEST_SESSION_CACHE";

/// The pinned NVRTC first, where it was fetched.
fn search_paths() -> SearchPaths {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cuda/nvrtc-12.9.86");
    SearchPaths::first(root.is_dir().then_some(root))
}

#[test]
#[ignore = "needs a GPU: processes of its own"]
fn a_warm_start_reaches_its_first_result_without_nvrtc() {
    if let Some(cache) = std::env::var_os(CHILD) {
        let builder = Session::builder().cache_folder(cache).search_paths(search_paths());
        let mut session = builder.slab_bytes(1 << 20).build().unwrap();
        fills(&mut session, 7).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        println!("nvrtc {}", maps.contains("libnvrtc") || maps.contains("libnvJitLink"));
        return;
    }
    let cache: PathBuf = std::env::temp_dir().join(format!("cuforge-session-{}", std::process::id()));
    let start = || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_warm_start_reaches_its_first_result_without_nvrtc"])
            .args(["--include-ignored", "--nocapture"])
            .env(CHILD, &cache)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said.contains("nvrtc true")
    };
    let (cold, warm) = (start(), start());
    std::fs::remove_dir_all(&cache).unwrap();
    assert!(cold && !warm, "loaded when cold: {cold}, when warm: {warm}");
}

/// Offers images in turn: the next one once the one before was rejected.
struct Offers {
    images: Vec<ModuleImage>,
    rejected: Mutex<Vec<Digest>>,
}

impl KernelCompiler for Offers {
    fn compile(&self, _: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure> {
        let rejected = self.rejected.lock().unwrap().len();
        Ok(Arc::new(self.images[rejected.min(self.images.len() - 1)].clone()))
    }
    fn reject(&self, image: &ModuleImage, why: &str) {
        println!("rejected {}: {why}", image.digest);
        self.rejected.lock().unwrap().push(image.digest);
    }
}

/// A session over a compiler that offers these; with the PTX of the tests' file where `good`, machine code where `code`.
fn over(offers: &Arc<Offers>) -> Session {
    // SAFETY: what loads of the images is the PTX that NVRTC made of the kernel, or refused.
    let builder = unsafe { Session::builder().compiler(offers.clone()) };
    builder.slab_bytes(1 << 20).build().unwrap()
}

fn offered(number: u8, code: bool, good: bool) -> ModuleImage {
    const NEWER: &str = ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry fill() { ret; }\n";
    let garbage = b"\x7fELF no cubin at all, but long enough to have a header that says nonsense......";
    ModuleImage {
        cubin: code.then(|| garbage.as_slice().into()),
        digest: Digest([number; 32]),
        ..(*image(if good { PLAIN } else { NEWER })).clone()
    }
}

fn offers(images: Vec<ModuleImage>) -> Arc<Offers> {
    Arc::new(Offers { images, rejected: Mutex::new(Vec::new()) })
}

#[test]
#[ignore = "needs a GPU"]
fn rejected_machine_code_goes_back_to_the_compiler_though_the_ptx_serves() {
    let offers = offers(vec![offered(1, true, true), offered(2, false, true)]);
    fills(&mut over(&offers), 1).unwrap();
    assert_eq!(*offers.rejected.lock().unwrap(), [Digest([1; 32])]);
    // The next session is offered the PTX alone, and has nothing to reject.
    let mut session = over(&offers);
    fills(&mut session, 2).unwrap();
    let schedule = Schedule::new([128, 1, 1]);
    let pipeline = session.prepare(&fill(), &schedule, &BuildOptions::default()).unwrap();
    assert!(pipeline.rejection().is_none() && pipeline.image().digest == Digest([2; 32]));
    assert_eq!(offers.rejected.lock().unwrap().len(), 1);
}

#[test]
#[ignore = "needs a GPU"]
fn every_form_that_the_driver_rejects_goes_back_until_one_serves_or_none_is_left() {
    let some = offers(vec![offered(1, true, false), offered(2, false, false), offered(3, false, true)]);
    fills(&mut over(&some), 1).unwrap();
    assert_eq!(*some.rejected.lock().unwrap(), [Digest([1; 32]), Digest([2; 32])]);
    let none = offers(vec![offered(1, false, false)]);
    let error = fills(&mut over(&none), 1).unwrap_err();
    assert!(matches!(error, SessionError::Launch(LaunchError::ImageRejected(_))), "{error}");
    assert_eq!(*none.rejected.lock().unwrap(), [Digest([1; 32])]);
}

#[test]
#[ignore = "needs a GPU"]
fn a_session_computes_on_what_its_prefetcher_brings() {
    const BYTES: usize = 64 * 1024;
    let offers = offers(vec![offered(1, false, true)]);
    // SAFETY: the image is the PTX that NVRTC made of the kernel.
    let builder = unsafe { Session::builder().compiler(offers) };
    let mut session = builder.slab_bytes(4 << 20).prefetch_depth(3).build().unwrap();
    let mut prefetcher = session.prefetcher(&Request::new(BYTES as u64)).unwrap();
    assert_eq!(prefetcher.depth(), 3);
    let sums = session.allocate(&Request::new(BYTES as u64)).unwrap();
    let mut tickets = Vec::new();
    for round in 0..40u8 {
        tickets.push(prefetcher.push_owned(vec![round; BYTES]).map_err(|unsent| unsent.error).unwrap());
        let lease = session.take(&mut prefetcher).unwrap().unwrap();
        let slab = session.slab().clone();
        slab.copy(session.stream(), &lease.view(), &sums).unwrap();
        drop(lease);
        assert!(session.read_vec::<u8>(&sums).unwrap() == vec![round; BYTES]);
    }
    assert!(session.take(&mut prefetcher).unwrap().is_none());
    for (round, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), vec![round; BYTES]);
    }
    drop(prefetcher);
    let closed = session.close().unwrap();
    assert_eq!(closed.drop_errors, 0);
}
