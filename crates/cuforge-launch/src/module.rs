//! Modules loaded into a context: an image's machine code or PTX, with the driver's log when it refuses.

use crate::error::{LaunchError, Rejection};
use crate::ffi::{RawFunction, RawModule, code};
use crate::function;
use crate::gate::{Gate, Retired};
use crate::ranges::range;
use cuforge_core::ModuleImage;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// `CU_JIT_INFO_LOG_BUFFER`, its size, `CU_JIT_ERROR_LOG_BUFFER`, its size.
const LOG_OPTIONS: [c_int; 4] = [3, 4, 5, 6];

/// Bytes for each of the two logs.
const LOG_BYTES: usize = 16 * 1024;

/// A loaded module. Dropping it retires it: unloading would wait for running kernels.
pub(crate) struct Module {
    gate: Arc<Gate>,
    raw: RawModule,
    image: Arc<ModuleImage>,
    /// Why the image's machine code was not taken, where its PTX was loaded instead.
    rejection: Option<Box<Rejection>>,
    /// Kernels that were opted into more dynamic shared memory, with the bytes: the driver keeps one number for a kernel,
    /// and the pipelines of all its schedules share it.
    shared_allowed: Mutex<HashMap<usize, u32>>,
}

// SAFETY: module handles may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the image's machine code, or its PTX where there is none or the driver does not take it. Waits for
    /// running kernels (the driver does).
    pub(crate) fn load(gate: &Arc<Gate>, image: &Arc<ModuleImage>, entry: &str) -> Result<Self, LaunchError> {
        range!("load module");
        let _context = gate.enter()?;
        let missing = LaunchError::EmptyImage { entry: entry.to_owned() };
        let (raw, rejection) = match (image.cubin.as_deref(), image.ptx.as_deref()) {
            (Some(bytes), text) => match (load_bytes(gate, bytes, "cubin", None), text) {
                (Err(LaunchError::ImageRejected(why)), Some(text)) => (load_text(gate, text)?, Some(why)),
                (loaded, _) => (loaded?, None),
            },
            (None, Some(text)) => (load_text(gate, text)?, None),
            (None, None) => return Err(missing),
        };
        Ok(Self {
            gate: gate.clone(),
            raw,
            image: image.clone(),
            rejection,
            shared_allowed: Mutex::default(),
        })
    }

    pub(crate) fn rejection(&self) -> Option<&Rejection> {
        self.rejection.as_deref()
    }

    pub(crate) fn image(&self) -> &Arc<ModuleImage> {
        &self.image
    }

    /// The kernel of that name.
    pub(crate) fn function(&self, entry: &str) -> Result<RawFunction, LaunchError> {
        let missing = || LaunchError::NoSuchKernel { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| missing())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with NUL, the pointer is valid for one handle.
        let status =
            unsafe { self.gate.api().module_get_function(&raw mut function, self.raw, name.as_ptr()) };
        if status.code == code::NOT_FOUND {
            return Err(missing());
        }
        self.gate.check(status).map(|()| function)
    }

    /// Lets blocks of one of its kernels have at least `bytes` of dynamic shared memory; never fewer than before. Wants the
    /// context current.
    pub(crate) fn allow_shared(&self, function: RawFunction, bytes: u32) -> Result<(), LaunchError> {
        let mut allowed = self.shared_allowed.lock();
        let most = allowed.entry(function as usize).or_default();
        if bytes > *most {
            function::allow_dynamic_shared(&self.gate, function, bytes)?;
            *most = bytes;
        }
        Ok(())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.gate.retire(Retired::Module(self.raw));
    }
}

fn load_text(gate: &Gate, text: &str) -> Result<RawModule, LaunchError> {
    // PTX goes to the driver as a C string: text behind a NUL would be lost without a word.
    let Ok(text) = CString::new(text) else {
        return Err(LaunchError::Unsupported {
            what: "PTX text with a NUL byte",
            why: "the driver reads up to it",
        });
    };
    let version = text.to_str().ok().and_then(ptx_version);
    load_bytes(gate, text.as_bytes_with_nul(), "PTX", version)
}

fn load_bytes(
    gate: &Gate,
    bytes: &[u8],
    form: &'static str,
    ptx_version: Option<String>,
) -> Result<RawModule, LaunchError> {
    let mut raw = ptr::null_mut();
    let (mut info, mut errors) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    let mut options = LOG_OPTIONS;
    let size = ptr::without_provenance_mut::<c_void>(LOG_BYTES);
    let mut values = [info.as_mut_ptr().cast(), size, errors.as_mut_ptr().cast(), size];
    // SAFETY: a cubin carries its own length and PTX ends with NUL, both as the driver reads them; the four options
    // have the values that `cuda.h` gives them, and both logs live until the call returns.
    let status = unsafe {
        gate.api().module_load(
            &raw mut raw,
            bytes.as_ptr().cast::<c_void>(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match gate.check(status) {
        Ok(()) => Ok(raw),
        Err(LaunchError::Driver(error)) if is_about_the_image(error.code()) => {
            Err(LaunchError::ImageRejected(Box::new(Rejection {
                form,
                ptx_version,
                driver: gate.driver().version(),
                error,
                log: [errors, info].map(|log| text_of(&log)).join(""),
            })))
        }
        Err(other) => Err(other),
    }
}

/// Invalid image, no binary for this device, and the PTX errors; invalid value is what a truncated cubin answers.
fn is_about_the_image(code: i32) -> bool {
    matches!(code, code::INVALID_VALUE | 200 | 209 | 218 | 220..=224 | 300..=303)
}

fn text_of(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

/// The `.version` of PTX text.
fn ptx_version(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(".version"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_version_is_read_from_its_directive() {
        assert_eq!(ptx_version("// head\n.version 9.1\n.target sm_90\n"), Some("9.1".to_owned()));
        assert_eq!(ptx_version("no directive"), None);
    }

    #[test]
    fn a_log_ends_at_its_first_nul() {
        assert_eq!(text_of(b"line 1\nline 2\0\0junk"), "line 1\nline 2");
        assert_eq!(text_of(b""), "");
    }
}
