//! Raw driver calls: the rivals of the launch bench, with nothing between them and the driver.

use std::error::Error;
use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::time::Instant;

/// Launches of one burst: few enough that the queue takes them all.
pub(super) const BURST: usize = 32;

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
type Synchronize = unsafe extern "system" fn(*mut c_void) -> c_int;
type Upload = unsafe extern "system" fn(u64, *const c_void, usize, *mut c_void) -> c_int;

/// The functions, resolved from the library that the launcher runs on.
pub(super) struct Raw {
    launch: Launch,
    synchronize: Synchronize,
    upload: Upload,
}

impl Raw {
    pub(super) fn open(library: &Path) -> Result<Self, Box<dyn Error>> {
        // SAFETY: the library is the driver, which is loaded already and never unloaded.
        let library = unsafe { libloading::Library::new(library) }?;
        // SAFETY: the driver's function of this name has this signature.
        let launch = *unsafe { library.get::<Launch>(b"cuLaunchKernel") }?;
        // SAFETY: as above.
        let synchronize = *unsafe { library.get::<Synchronize>(b"cuStreamSynchronize") }?;
        // SAFETY: as above.
        let upload = *unsafe { library.get::<Upload>(b"cuMemcpyHtoDAsync_v2") }?;
        std::mem::forget(library);
        Ok(Self { launch, synchronize, upload })
    }

    /// Nanoseconds of one call, in a burst into a drained stream.
    pub(super) fn burst(
        &self,
        stream: *mut c_void,
        mut call: impl FnMut() -> Result<(), Box<dyn Error>>,
    ) -> Result<f64, Box<dyn Error>> {
        self.wait(stream)?;
        let start = Instant::now();
        for _ in 0..BURST {
            call()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / BURST as f64)
    }

    /// Three pointers and two words, by an array of pointers to them.
    pub(super) fn launch_pointers(
        &self,
        function: *mut c_void,
        stream: *mut c_void,
        packed: &[u8],
    ) -> Result<(), Box<dyn Error>> {
        let at = |offset: usize| packed[offset..].as_ptr().cast_mut().cast::<c_void>();
        let mut parameters = [at(0), at(8), at(16), at(24), at(28)];
        // SAFETY: function and stream are alive, and each pointer leads to a parameter of the kernel's own layout.
        let code = unsafe {
            (self.launch)(function, 1, 1, 1, 128, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut())
        };
        judge("cuLaunchKernel", code)
    }

    /// The same in one packed buffer.
    pub(super) fn launch_packed(
        &self,
        function: *mut c_void,
        stream: *mut c_void,
        packed: &[u8],
    ) -> Result<(), Box<dyn Error>> {
        let mut bytes = packed.len();
        let mut extra: [*mut c_void; 5] = [
            ptr::without_provenance_mut(1),
            packed.as_ptr().cast_mut().cast(),
            ptr::without_provenance_mut(2),
            (&raw mut bytes).cast(),
            ptr::null_mut(),
        ];
        // SAFETY: as above, with the parameters packed as the kernel has them.
        let code = unsafe {
            (self.launch)(function, 1, 1, 1, 128, 1, 1, 0, stream, ptr::null_mut(), extra.as_mut_ptr())
        };
        judge("cuLaunchKernel", code)
    }

    /// The driver's own copy of ordinary memory, and the wait for it.
    pub(super) fn upload(&self, stream: *mut c_void, to: u64, from: &[u8]) -> Result<(), Box<dyn Error>> {
        // SAFETY: the target has as many bytes, and the source lives until the wait below.
        judge("cuMemcpyHtoDAsync", unsafe { (self.upload)(to, from.as_ptr().cast(), from.len(), stream) })?;
        self.wait(stream)
    }

    fn wait(&self, stream: *mut c_void) -> Result<(), Box<dyn Error>> {
        // SAFETY: the stream is alive.
        judge("cuStreamSynchronize", unsafe { (self.synchronize)(stream) })
    }
}

fn judge(call: &str, code: c_int) -> Result<(), Box<dyn Error>> {
    if code == 0 { Ok(()) } else { Err(format!("{call} answered {code}").into()) }
}
