//! NVRTC's function table and one safe call that runs a whole compilation.
//!
//! Source of the signatures: `nvrtc.h` of CUDA 13.5; the optional ones came with 11.1 (cubin), 12.8 (flow callback)
//! and 13.3 (bundled headers).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{OpenError, lookup, open};
use crate::engine::CancelToken;

/// `NVRTC_SUCCESS`.
pub(crate) const SUCCESS: i32 = 0;
/// `NVRTC_ERROR_CANCELLED`.
pub(crate) const CANCELLED: i32 = 16;

type Program = *mut c_void;
type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type VersionFn = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type ArchsFn = unsafe extern "C" fn(*mut c_int) -> c_int;
type ErrorStringFn = unsafe extern "C" fn(c_int) -> *const c_char;
type CreateFn = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type DestroyFn = unsafe extern "C" fn(*mut Program) -> c_int;
type CompileFn = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type SizeFn = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type BytesFn = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type NameFn = unsafe extern "C" fn(Program, *const c_char) -> c_int;
type LoweredFn = unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> c_int;
type FlowFn = unsafe extern "C" fn(Program, Callback, *mut c_void) -> c_int;
type InstallFn = unsafe extern "C" fn(*const c_char, u32, *mut *const c_char) -> c_int;

/// The functions of one loaded NVRTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    version: VersionFn,
    arch_count: ArchsFn,
    archs: ArchsFn,
    error_string: ErrorStringFn,
    create: CreateFn,
    destroy: DestroyFn,
    compile: CompileFn,
    ptx_size: SizeFn,
    ptx: BytesFn,
    cubin_size: SizeFn,
    cubin: BytesFn,
    log_size: SizeFn,
    log: BytesFn,
    add_name: NameFn,
    lowered_name: LoweredFn,
    flow: Option<FlowFn>,
    install_headers: Option<InstallFn>,
}

/// All that one compilation takes, already in C's form.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) source: &'a CStr,
    /// In-memory headers: the name as written in the include directive, and the text.
    pub(crate) headers: &'a [(CString, CString)],
    pub(crate) options: &'a [CString],
    pub(crate) name_expressions: &'a [CString],
    pub(crate) stop: Option<&'a Stop>,
}

/// Asks a running compilation to end; NVRTC looks at it between its phases.
#[derive(Debug)]
pub(crate) struct Stop {
    deadline: Option<Instant>,
    cancel: Option<CancelToken>,
    latched: AtomicBool,
}

impl Stop {
    /// A stop that comes by itself at `deadline`, or when `cancel` is set.
    pub(crate) const fn new(deadline: Option<Instant>, cancel: Option<CancelToken>) -> Self {
        Self { deadline, cancel, latched: AtomicBool::new(false) }
    }

    /// NVRTC demands that the answer, once 1, stays 1 for the rest of the compilation.
    fn wanted(&self) -> bool {
        if self.latched.load(Ordering::Relaxed) {
            return true;
        }
        let cancelled = self.cancel.as_ref().is_some_and(CancelToken::is_cancelled);
        let now = cancelled || self.deadline.is_some_and(|at| Instant::now() >= at);
        if now {
            self.latched.store(true, Ordering::Relaxed);
        }
        now
    }
}

/// What a compilation left behind. `code` is [`SUCCESS`] or NVRTC's result code.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    /// The call that gave `code`.
    pub(crate) call: &'static str,
    pub(crate) log: Vec<u8>,
    pub(crate) ptx: Vec<u8>,
    pub(crate) cubin: Vec<u8>,
    /// Lowered names in the order of the name expressions.
    pub(crate) lowered: Vec<String>,
}

impl Table {
    /// Loads `library`, with its builtins library first: some wheels have no run path, so NVRTC finds its builtins
    /// only when they are in the process already.
    pub(crate) fn load(library: &Path, builtins: Option<&Path>) -> Result<Self, OpenError> {
        if let Some(builtins) = builtins {
            open(builtins)?;
        }
        let lib = open(library)?;
        let missing = |name| OpenError::Symbol { path: library.to_path_buf(), name };
        macro_rules! get {
            ($name:literal) => {{
                // SAFETY: the field's type is the signature that `nvrtc.h` gives this function.
                unsafe { lookup(lib, $name) }
            }};
        }
        Ok(Self {
            version: get!("nvrtcVersion").ok_or_else(|| missing("nvrtcVersion"))?,
            arch_count: get!("nvrtcGetNumSupportedArchs")
                .ok_or_else(|| missing("nvrtcGetNumSupportedArchs"))?,
            archs: get!("nvrtcGetSupportedArchs").ok_or_else(|| missing("nvrtcGetSupportedArchs"))?,
            error_string: get!("nvrtcGetErrorString").ok_or_else(|| missing("nvrtcGetErrorString"))?,
            create: get!("nvrtcCreateProgram").ok_or_else(|| missing("nvrtcCreateProgram"))?,
            destroy: get!("nvrtcDestroyProgram").ok_or_else(|| missing("nvrtcDestroyProgram"))?,
            compile: get!("nvrtcCompileProgram").ok_or_else(|| missing("nvrtcCompileProgram"))?,
            ptx_size: get!("nvrtcGetPTXSize").ok_or_else(|| missing("nvrtcGetPTXSize"))?,
            ptx: get!("nvrtcGetPTX").ok_or_else(|| missing("nvrtcGetPTX"))?,
            cubin_size: get!("nvrtcGetCUBINSize").ok_or_else(|| missing("nvrtcGetCUBINSize"))?,
            cubin: get!("nvrtcGetCUBIN").ok_or_else(|| missing("nvrtcGetCUBIN"))?,
            log_size: get!("nvrtcGetProgramLogSize").ok_or_else(|| missing("nvrtcGetProgramLogSize"))?,
            log: get!("nvrtcGetProgramLog").ok_or_else(|| missing("nvrtcGetProgramLog"))?,
            add_name: get!("nvrtcAddNameExpression").ok_or_else(|| missing("nvrtcAddNameExpression"))?,
            lowered_name: get!("nvrtcGetLoweredName").ok_or_else(|| missing("nvrtcGetLoweredName"))?,
            flow: get!("nvrtcSetFlowCallback"),
            install_headers: get!("nvrtcInstallBundledHeaders"),
        })
    }

    /// Major and minor version.
    pub(crate) fn version(&self) -> Result<(u32, u32), i32> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for a write during the call.
        let code = unsafe { (self.version)(&raw mut major, &raw mut minor) };
        if code != SUCCESS {
            return Err(code);
        }
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    /// The supported base architectures (`90` for `sm_90`), in the library's order.
    pub(crate) fn supported_archs(&self) -> Result<Vec<u32>, i32> {
        let mut count = 0;
        // SAFETY: the pointer is valid for a write during the call.
        let code = unsafe { (self.arch_count)(&raw mut count) };
        if code != SUCCESS {
            return Err(code);
        }
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has room for the count that the library has just given.
        let code = unsafe { (self.archs)(list.as_mut_ptr()) };
        if code != SUCCESS {
            return Err(code);
        }
        Ok(list.into_iter().map(c_int::unsigned_abs).collect())
    }

    /// The library's own text for a result code.
    pub(crate) fn error_text(&self, code: i32) -> String {
        // SAFETY: the function takes any integer and answers a static string.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return format!("code {code}");
        }
        // SAFETY: not null, and the library promises a NUL-terminated string that lives as long as it does.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }

    /// Whether a running compilation can be asked to end.
    pub(crate) const fn can_stop(&self) -> bool {
        self.flow.is_some()
    }

    /// Whether the library carries CUDA's headers in itself.
    pub(crate) const fn has_bundled_headers(&self) -> bool {
        self.install_headers.is_some()
    }

    /// Unpacks the bundled headers into `folder` unless they are there already.
    pub(crate) fn install_headers(&self, folder: &CStr) -> Result<(), (i32, String)> {
        let Some(install) = self.install_headers else { return Err((-1, String::new())) };
        let mut why = ptr::null();
        // SAFETY: the path is NUL-terminated and the out pointer is valid for a write; flag 0 is "skip if present".
        let code = unsafe { install(folder.as_ptr(), 0, &raw mut why) };
        if code == SUCCESS {
            return Ok(());
        }
        if why.is_null() {
            return Err((code, self.error_text(code)));
        }
        // SAFETY: not null; the library keeps the text until the next call of this thread, and it is copied now.
        let why = unsafe { CStr::from_ptr(why) };
        Err((code, why.to_string_lossy().into_owned()))
    }

    /// Compiles, and collects the log and all outputs.
    pub(crate) fn run(&self, program: &Job<'_>) -> Outcome {
        let contents: Vec<_> = program.headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let names: Vec<_> = program.headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let options: Vec<_> = program.options.iter().map(|option| option.as_ptr()).collect();
        let too_many = |what| Outcome { code: -1, call: what, ..Outcome::default() };
        let Ok(header_count) = c_int::try_from(names.len()) else { return too_many("header count") };
        let Ok(option_count) = c_int::try_from(options.len()) else { return too_many("option count") };

        let mut outcome = Outcome::default();
        let mut handle = ptr::null_mut();
        let (source, name) = (program.source.as_ptr(), program.name.as_ptr());
        // SAFETY: every pointer is to NUL-terminated text or to an array of `header_count` such pointers, and all
        // outlive the program, which is destroyed below.
        let code = unsafe {
            (self.create)(&raw mut handle, source, name, header_count, contents.as_ptr(), names.as_ptr())
        };
        if outcome.failed("nvrtcCreateProgram", code) {
            return outcome;
        }
        self.compile_created(handle, program, &options, option_count, &mut outcome);
        // SAFETY: the handle is the one created above and is not used again.
        let _ = unsafe { (self.destroy)(&raw mut handle) };
        outcome
    }

    fn compile_created(
        &self,
        handle: Program,
        program: &Job<'_>,
        options: &[*const c_char],
        option_count: c_int,
        outcome: &mut Outcome,
    ) {
        for expression in program.name_expressions {
            // SAFETY: the handle is live and the expression NUL-terminated; NVRTC copies it.
            let code = unsafe { (self.add_name)(handle, expression.as_ptr()) };
            if outcome.failed("nvrtcAddNameExpression", code) {
                return;
            }
        }
        if let (Some(flow), Some(stop)) = (self.flow, program.stop) {
            let payload = ptr::from_ref(stop).cast_mut().cast();
            // SAFETY: `stop` outlives the compile call, the only time at which the callback runs, and the callback
            // only reads it through a shared reference to a `Sync` type.
            let code = unsafe { flow(handle, asked_to_stop, payload) };
            if outcome.failed("nvrtcSetFlowCallback", code) {
                return;
            }
        }
        // SAFETY: the handle is live and `options` holds `option_count` pointers to NUL-terminated text.
        let code = unsafe { (self.compile)(handle, option_count, options.as_ptr()) };
        let failed = outcome.failed("nvrtcCompileProgram", code);
        outcome.log = self.bytes(handle, self.log_size, self.log).unwrap_or_default();
        if failed {
            return;
        }
        match self.bytes(handle, self.ptx_size, self.ptx) {
            Ok(ptx) => outcome.ptx = ptx,
            Err(code) => {
                outcome.failed("nvrtcGetPTX", code);
                return;
            }
        }
        // A build for a virtual target has no cubin: size 0 with success, or an error on some versions.
        outcome.cubin = self.bytes(handle, self.cubin_size, self.cubin).unwrap_or_default();
        for expression in program.name_expressions {
            let mut lowered = ptr::null();
            // SAFETY: the handle is live, the expression is one added above, the out pointer is valid for a write.
            let code = unsafe { (self.lowered_name)(handle, expression.as_ptr(), &raw mut lowered) };
            if outcome.failed("nvrtcGetLoweredName", code) || lowered.is_null() {
                return;
            }
            // SAFETY: not null; the text is NUL-terminated and lives until the program is destroyed.
            let lowered = unsafe { CStr::from_ptr(lowered) };
            outcome.lowered.push(lowered.to_string_lossy().into_owned());
        }
    }

    /// Size query and fetch of one output.
    fn bytes(&self, handle: Program, size: SizeFn, fetch: BytesFn) -> Result<Vec<u8>, i32> {
        let mut len = 0;
        // SAFETY: the handle is live and the out pointer is valid for a write.
        let code = unsafe { size(handle, &raw mut len) };
        if code != SUCCESS {
            return Err(code);
        }
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0_u8; len];
        // SAFETY: the buffer has the length that the library has just asked for.
        let code = unsafe { fetch(handle, bytes.as_mut_ptr().cast()) };
        if code == SUCCESS { Ok(bytes) } else { Err(code) }
    }
}

impl Outcome {
    fn failed(&mut self, call: &'static str, code: i32) -> bool {
        self.code = code;
        self.call = call;
        code != SUCCESS
    }
}

/// NVRTC's flow callback: 1 ends the compilation.
unsafe extern "C" fn asked_to_stop(payload: *mut c_void, _reserved: *mut c_void) -> c_int {
    // SAFETY: the payload is the `Stop` registered in `compile_created`, which outlives the compile call.
    let stop = unsafe { payload.cast::<Stop>().as_ref() };
    c_int::from(stop.is_some_and(Stop::wanted))
}
