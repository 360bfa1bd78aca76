//! nvJitLink's function table and one safe call that turns PTX into a cubin without a driver.
//!
//! Source of the signatures: `nvJitLink.h` of CUDA 13.5. The unversioned names used here exist since 12.0.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use super::{OpenError, lookup, open};

const SUCCESS: c_int = 0;
/// `NVJITLINK_INPUT_PTX`.
const INPUT_PTX: c_int = 2;

type Handle = *mut c_void;
type VersionFn = unsafe extern "C" fn(*mut u32, *mut u32) -> c_int;
type CreateFn = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type DestroyFn = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddFn = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type CompleteFn = unsafe extern "C" fn(Handle) -> c_int;
type SizeFn = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type BytesFn = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// The functions of one loaded nvJitLink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    create: CreateFn,
    destroy: DestroyFn,
    add: AddFn,
    complete: CompleteFn,
    cubin_size: SizeFn,
    cubin: BytesFn,
    error_size: SizeFn,
    error: BytesFn,
    info_size: SizeFn,
    info: BytesFn,
    version: (u32, u32),
}

/// What a link left behind.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    /// 0, or nvJitLink's result code.
    pub(crate) code: i32,
    /// The call that gave `code`.
    pub(crate) call: &'static str,
    pub(crate) cubin: Vec<u8>,
    pub(crate) log: Vec<u8>,
}

impl Table {
    /// Loads `library` and asks for its version.
    pub(crate) fn load(library: &Path) -> Result<Self, OpenError> {
        let lib = open(library)?;
        let missing = |name| OpenError::Symbol { path: library.to_path_buf(), name };
        macro_rules! get {
            ($name:literal) => {{
                // SAFETY: the field's type is the signature that `nvJitLink.h` gives this function.
                unsafe { lookup(lib, $name) }.ok_or_else(|| missing($name))?
            }};
        }
        let version: VersionFn = get!("nvJitLinkVersion");
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for a write during the call.
        let code = unsafe { version(&raw mut major, &raw mut minor) };
        if code != SUCCESS {
            return Err(OpenError::Query { path: library.to_path_buf(), call: "nvJitLinkVersion", code });
        }
        Ok(Self {
            create: get!("nvJitLinkCreate"),
            destroy: get!("nvJitLinkDestroy"),
            add: get!("nvJitLinkAddData"),
            complete: get!("nvJitLinkComplete"),
            cubin_size: get!("nvJitLinkGetLinkedCubinSize"),
            cubin: get!("nvJitLinkGetLinkedCubin"),
            error_size: get!("nvJitLinkGetErrorLogSize"),
            error: get!("nvJitLinkGetErrorLog"),
            info_size: get!("nvJitLinkGetInfoLogSize"),
            info: get!("nvJitLinkGetInfoLog"),
            version: (major, minor),
        })
    }

    /// Major and minor version.
    pub(crate) const fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Assembles `ptx` with the given options (`-arch=sm_90`, ...).
    pub(crate) fn link(&self, name: &CStr, ptx: &CStr, options: &[CString]) -> Linked {
        let mut linked = Linked::default();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
        let mut handle = ptr::null_mut();
        // SAFETY: `pointers` holds `count` pointers to NUL-terminated text; the out pointer is valid for a write.
        let code = unsafe { (self.create)(&raw mut handle, count, pointers.as_ptr()) };
        if linked.failed("nvJitLinkCreate", code) {
            return linked;
        }
        self.link_created(handle, name, ptx, &mut linked);
        // SAFETY: the handle is the one created above and is not used again.
        let _ = unsafe { (self.destroy)(&raw mut handle) };
        linked
    }

    fn link_created(&self, handle: Handle, name: &CStr, ptx: &CStr, linked: &mut Linked) {
        let text = ptx.to_bytes();
        // SAFETY: the handle is live; text and name outlive the handle, which the caller destroys before they go.
        let code = unsafe { (self.add)(handle, INPUT_PTX, text.as_ptr().cast(), text.len(), name.as_ptr()) };
        let mut failed = linked.failed("nvJitLinkAddData", code);
        if !failed {
            // SAFETY: the handle is live.
            let code = unsafe { (self.complete)(handle) };
            failed = linked.failed("nvJitLinkComplete", code);
        }
        linked.log = self.bytes(handle, self.error_size, self.error).unwrap_or_default();
        linked.log.extend(self.bytes(handle, self.info_size, self.info).unwrap_or_default());
        if !failed {
            match self.bytes(handle, self.cubin_size, self.cubin) {
                Ok(cubin) => linked.cubin = cubin,
                Err(code) => {
                    linked.failed("nvJitLinkGetLinkedCubin", code);
                }
            }
        }
    }

    fn bytes(&self, handle: Handle, size: SizeFn, fetch: BytesFn) -> Result<Vec<u8>, i32> {
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

impl Linked {
    fn failed(&mut self, call: &'static str, code: i32) -> bool {
        self.code = code;
        self.call = call;
        code != SUCCESS
    }
}
