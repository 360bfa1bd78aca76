//! From process start to the first launched kernel: a session with a warm cache, beside raw driver calls.
//!
//! Each start is a process of its own, which says when it has a context and when its kernel is launched; the time is
//! taken by the process that started it.

use crate::area::Measured;
use crate::figure::{Bar, Figure, Spread};
use cuforge::Session;
use cuforge_core::{
    Access, Arguments, BuildOptions, Element, Extent, KernelSpec, Parameter, Request, Schedule,
};
use std::env;
use std::error::Error;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr;
use std::time::Instant;

/// Which start a process makes.
const SIDE: &str = "CUFORGE_BENCH_START";
/// The folder with the cache, and the machine code for the raw side.
const FOLDER: &str = "CUFORGE_BENCH_FOLDER";

const SOURCE: &str = "extern \"C\" __global__ void fill(unsigned *out, unsigned seed, unsigned n) {\n\
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) out[i] = seed * 2654435761u + i;\n}\n";

/// Makes the start that the environment asks for; `None` where it asks for none. For the program of the benches, which
/// starts itself.
///
/// # Errors
///
/// What the start met.
pub fn as_child() -> Option<Result<(), Box<dyn Error>>> {
    let side = env::var(SIDE).ok()?;
    let folder = PathBuf::from(env::var_os(FOLDER)?);
    Some(if side == "session" { session(&folder) } else { raw(&folder) })
}

/// Measures both sides in turns.
pub(super) fn measure(rounds: usize) -> Measured {
    let folder = env::temp_dir().join(format!("cuforge-start-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = in_folder(&folder, rounds);
    let _ = fs::remove_dir_all(&folder);
    measured
}

fn in_folder(folder: &Path, rounds: usize) -> Measured {
    // Cold: compiles, and leaves the machine code for the other side.
    let cold = start("session", folder)?;
    if !cold.said.contains("nvrtc true") {
        return Err("the first start did not compile".into());
    }
    let (mut contexts, mut raws, mut sessions, mut above) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let pair = || -> Result<_, Box<dyn Error>> {
            Ok(if round % 2 == 0 {
                let session = start("session", folder)?;
                (session, start("raw", folder)?)
            } else {
                let raw = start("raw", folder)?;
                (start("session", folder)?, raw)
            })
        };
        let (session, raw) = pair()?;
        if !session.said.contains("nvrtc false") {
            return Err(format!("a warm start loaded NVRTC: {}", session.said).into());
        }
        contexts.push(raw.context_ms);
        raws.push(raw.launched_ms);
        sessions.push(session.launched_ms);
        above.push(session.launched_ms - raw.context_ms);
    }
    let figure = |name: &str, samples: &[f64]| -> Result<Figure, Box<dyn Error>> {
        let spread = Spread::of(&samples[1..]).ok_or("no samples that are numbers")?;
        Ok(Figure::new(name, "ms", spread, rounds))
    };
    Ok(vec![
        figure("start to cuInit and context, raw", &contexts)?,
        figure("start to the first launch, raw", &raws)?,
        figure("start to the first launch, session, warm", &sessions)?,
        figure("warm session above cuInit and context", &above)?.with_bar(Bar::AtMost(10.0)),
    ])
}

/// One start.
struct Start {
    context_ms: f64,
    launched_ms: f64,
    said: String,
}

fn start(side: &str, folder: &Path) -> Result<Start, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.env(SIDE, side).env(FOLDER, folder).stdin(Stdio::null()).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut answers = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    let (mut context_ms, mut launched_ms, mut said) = (f64::NAN, f64::NAN, String::new());
    while let Some(line) = answers.next().transpose()? {
        let now = begun.elapsed().as_secs_f64() * 1e3;
        match line.as_str() {
            "context" => context_ms = now,
            "launched" => launched_ms = now,
            other => said.push_str(other),
        }
    }
    if child.wait()?.success() && !launched_ms.is_nan() {
        Ok(Start { context_ms, launched_ms, said })
    } else {
        Err(format!("the {side} start failed: {said}").into())
    }
}

fn say(line: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A session with its defaults, whose compiler is looked for where the system keeps such things.
fn session(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().cache_folder(folder.join("cache")).build()?;
    let parameters = vec![
        Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite),
        Parameter::scalar("seed", Element::U32),
        Parameter::scalar("n", Element::U32),
    ];
    // SAFETY: with n at most the elements of the buffer, the kernel stays inside it.
    let spec = unsafe { KernelSpec::cuda_c("fill", "fill", SOURCE, parameters) };
    let view = session.allocate(&Request::new(512))?.bound_to(0, 0, Access::StorageReadWrite)?;
    let pipeline = session.prepare(&spec, &Schedule::new([128, 1, 1]), &BuildOptions::default())?;
    let values = [7u32.to_le_bytes(), 128u32.to_le_bytes()].concat();
    let arguments = Arguments { views: &[view], by_value: &values };
    let mut bound = session.bind(&pipeline, arguments, Extent::Elements(128))?;
    bound.launch(session.stream())?;
    say("launched")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    say(&format!("nvrtc {}", maps.contains("libnvrtc") || maps.contains("libnvJitLink")))?;
    let code = folder.join("fill.cubin");
    if !code.exists() {
        fs::write(code, pipeline.image().cubin.as_deref().ok_or("no machine code")?)?;
    }
    if session.read_vec::<u32>(&view)?[..2]
        != [7u32.wrapping_mul(2_654_435_761), 7u32.wrapping_mul(2_654_435_761) + 1]
    {
        return Err("the kernel computed something else".into());
    }
    std::process::exit(0)
}

/// A driver function by name.
///
/// # Safety
/// `T` is the function's type.
unsafe fn function<T: Copy>(library: &libloading::Library, name: &str) -> Result<T, Box<dyn Error>> {
    // SAFETY: the caller vouches for the type.
    Ok(*unsafe { library.get::<T>(name.as_bytes()) }?)
}

fn judge(call: &str, code: c_int) -> Result<(), Box<dyn Error>> {
    if code == 0 { Ok(()) } else { Err(format!("{call} answered {code}").into()) }
}

/// `cuInit`, primary context, machine code, one buffer, one launch: nothing else.
fn raw(folder: &Path) -> Result<(), Box<dyn Error>> {
    type Launch = unsafe extern "system" fn(
        *mut c_void,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        *mut c_void,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> c_int;
    type Get = unsafe extern "system" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
    // SAFETY: the library of that name is the CUDA driver.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }?;
    macro_rules! get {
        ($name:literal, $type:ty) => {
            // SAFETY: the driver's function of this name has this signature (`cuda.h`).
            unsafe { function::<$type>(&driver, $name) }?
        };
    }
    let init = get!("cuInit", unsafe extern "system" fn(c_uint) -> c_int);
    let device_get = get!("cuDeviceGet", unsafe extern "system" fn(*mut c_int, c_int) -> c_int);
    let retain =
        get!("cuDevicePrimaryCtxRetain", unsafe extern "system" fn(*mut *mut c_void, c_int) -> c_int);
    let set = get!("cuCtxSetCurrent", unsafe extern "system" fn(*mut c_void) -> c_int);
    let load = get!("cuModuleLoadData", unsafe extern "system" fn(*mut *mut c_void, *const c_void) -> c_int);
    let get = get!("cuModuleGetFunction", Get);
    let allocate = get!("cuMemAlloc_v2", unsafe extern "system" fn(*mut u64, usize) -> c_int);
    let launch = get!("cuLaunchKernel", Launch);
    let (mut device, mut context, mut module, mut kernel, mut out) =
        (0, ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0u64);
    // SAFETY: takes no pointer.
    judge("cuInit", unsafe { init(0) })?;
    // SAFETY: the pointer is valid for an integer.
    judge("cuDeviceGet", unsafe { device_get(&raw mut device, 0) })?;
    // SAFETY: the pointer is valid for a handle.
    judge("cuDevicePrimaryCtxRetain", unsafe { retain(&raw mut context, device) })?;
    // SAFETY: the context is alive.
    judge("cuCtxSetCurrent", unsafe { set(context) })?;
    say("context")?;
    let code = fs::read(folder.join("fill.cubin"))?;
    // SAFETY: the machine code carries its own length.
    judge("cuModuleLoadData", unsafe { load(&raw mut module, code.as_ptr().cast()) })?;
    // SAFETY: the module is loaded and the name ends with NUL.
    judge("cuModuleGetFunction", unsafe { get(&raw mut kernel, module, c"fill".as_ptr()) })?;
    // SAFETY: the pointer is valid for an address.
    judge("cuMemAlloc", unsafe { allocate(&raw mut out, 512) })?;
    let (mut seed, mut n) = (7u32, 128u32);
    let mut parameters = [(&raw mut out).cast(), (&raw mut seed).cast(), (&raw mut n).cast()];
    // SAFETY: the pointers lead to the kernel's three parameters; the buffer has 128 elements.
    let launched = unsafe {
        launch(kernel, 1, 1, 1, 128, 1, 1, 0, ptr::null_mut(), parameters.as_mut_ptr(), ptr::null_mut())
    };
    judge("cuLaunchKernel", launched)?;
    say("launched")?;
    std::process::exit(0)
}
