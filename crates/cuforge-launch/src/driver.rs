//! The driver library: looked for, opened once and kept for good, its functions resolved before anything calls them.

use crate::error::{DriverError, LaunchError, Tried};
use crate::ffi::{Status, Table, code};
use crate::marking::Marking;
use cuforge_core::DriverVersion;
use parking_lot::Mutex;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

/// What `cuforge-sim-driver` exports and no NVIDIA driver does.
const SIMULATED: &[u8] = b"cuforgeSimVersion";

/// The oldest driver that this crate works with.
const OLDEST: DriverVersion = DriverVersion { major: 12, minor: 0 };

#[cfg(windows)]
const LIBRARIES: &[&str] = &["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// A CUDA driver: found, initialised, and new enough. `Copy`, `Send`, `Sync`; the library stays loaded until the process ends.
///
/// ```
/// use cuforge_launch::{Driver, LaunchError};
/// match Driver::load() {
///     Ok(driver) => println!("{} supports CUDA {}", driver.library().display(), driver.version()),
///     Err(LaunchError::NoDriver { tried }) => println!("no driver, {} names tried", tried.len()),
///     Err(other) => println!("{other}"),
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Driver {
    loaded: &'static Loaded,
}

struct Loaded {
    table: Table,
    version: DriverVersion,
    library: PathBuf,
    build: Option<String>,
    simulated: bool,
    marking: Option<Marking>,
}

/// Drivers opened so far. A driver is never unloaded: it keeps threads and exit handlers of its own.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

impl Driver {
    /// The system's driver, as the dynamic loader finds it. The first call loads and initialises it (`cuInit`, 0.1 s);
    /// later ones look it up.
    ///
    /// # Errors
    /// [`LaunchError::NoDriver`], [`LaunchError::MissingSymbol`], [`LaunchError::DriverTooOld`],
    /// [`LaunchError::NoDevice`], [`LaunchError::Driver`].
    pub fn load() -> Result<Self, LaunchError> {
        let mut tried = Vec::new();
        for name in LIBRARIES {
            // SAFETY: libraries of these names are CUDA drivers.
            match unsafe { Self::open(Path::new(name)) } {
                Err(LaunchError::NoDriver { tried: mut one }) => tried.append(&mut one),
                other => return other,
            }
        }
        Err(LaunchError::NoDriver { tried })
    }

    /// The driver in one library: a path, or a file name that the dynamic loader looks up.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Safety
    /// The library, if there is one of that name, is a CUDA driver or stands in for one: its initialisers run, and its
    /// functions are called as `cuda.h` declares them.
    pub unsafe fn open(library: &Path) -> Result<Self, LaunchError> {
        let mut opened = LOADED.lock();
        let none = |reason: String| LaunchError::NoDriver {
            tried: vec![Tried { library: library.display().to_string(), reason }],
        };
        // SAFETY: the caller promises a CUDA driver, whose initialisers may run in any process.
        let handle = unsafe { libloading::Library::new(library) }.map_err(|error| none(whole(&error)))?;
        // SAFETY: only the address is taken, nothing is called.
        let init = unsafe { handle.get::<unsafe extern "system" fn()>(b"cuInit") };
        let Ok(init) = init.map(|symbol| *symbol as usize) else {
            return Err(none("it has no cuInit".to_owned()));
        };
        // SAFETY: as above.
        let simulated = unsafe { handle.get::<unsafe extern "system" fn()>(SIMULATED) }.is_ok();
        let path = file_of(init).unwrap_or_else(|| library.to_path_buf());
        if let Some(loaded) = opened.iter().find(|loaded| loaded.library == path) {
            return Ok(Self { loaded });
        }
        // SAFETY: the library has `cuInit` and is leaked below or never called again.
        let table = unsafe { Table::resolve(&handle, &path) }?;
        let handle = std::mem::ManuallyDrop::new(handle);
        // SAFETY: no pointer is passed.
        match unsafe { table.init(0) } {
            Status { code: code::SUCCESS, .. } => {}
            Status { code: code::NO_DEVICE, .. } => return Err(LaunchError::NoDevice { library: path }),
            Status { code: code::STUB_LIBRARY, .. } => {
                return Err(none("it is the stub that programs are linked with".to_owned()));
            }
            status => return Err(LaunchError::Driver(describe(&table, status))),
        }
        let mut number: c_int = 0;
        // SAFETY: the pointer is valid for a c_int.
        let status = unsafe { table.driver_get_version(&raw mut number) };
        if status.code != code::SUCCESS {
            return Err(LaunchError::Driver(describe(&table, status)));
        }
        let version = version_of(number);
        if version < OLDEST {
            return Err(LaunchError::DriverTooOld { found: version, needed: OLDEST, library: path });
        }
        let build = build_of(&path);
        // SAFETY: a driver, initialised above, and leaked.
        let marking = if simulated { unsafe { Marking::resolve(&handle) } } else { None };
        let loaded: &'static Loaded =
            Box::leak(Box::new(Loaded { table, version, library: path, build, simulated, marking }));
        opened.push(loaded);
        Ok(Self { loaded })
    }

    /// The CUDA version that the driver supports.
    pub fn version(&self) -> DriverVersion {
        self.loaded.version
    }

    /// The driver library by its real path, symbolic links resolved.
    pub fn library(&self) -> &'static Path {
        &self.loaded.library
    }

    /// The driver's build (such as `580.159.04`), where its file name or the kernel module tells.
    pub fn build(&self) -> Option<&'static str> {
        self.loaded.build.as_deref()
    }

    /// Whether it is the simulated driver of this project and not NVIDIA's.
    pub fn is_simulated(&self) -> bool {
        self.loaded.simulated
    }

    /// How many devices it sees.
    ///
    /// # Errors
    /// [`LaunchError::Driver`].
    pub fn device_count(&self) -> Result<u32, LaunchError> {
        let mut count: c_int = 0;
        // SAFETY: the pointer is valid for a c_int.
        let status = unsafe { self.table().device_get_count(&raw mut count) };
        self.judge(status)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Every driver function that this crate calls, by the name it is looked up under first.
    pub const fn functions() -> &'static [&'static str] {
        Table::NAMES
    }

    #[inline]
    pub(crate) fn table(&self) -> &'static Table {
        &self.loaded.table
    }

    /// What the driver is told of views, if it checks them.
    pub(crate) fn marking(&self) -> Option<&'static Marking> {
        self.loaded.marking.as_ref()
    }

    /// Success, or the error with the driver's words for it.
    pub(crate) fn judge(&self, status: Status) -> Result<(), LaunchError> {
        if status.code == code::SUCCESS { Ok(()) } else { Err(LaunchError::Driver(self.describe(status))) }
    }

    pub(crate) fn describe(&self, status: Status) -> DriverError {
        describe(self.table(), status)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("library", &self.library())
            .field("version", &self.version())
            .field("build", &self.build())
            .finish()
    }
}

fn describe(table: &Table, status: Status) -> DriverError {
    let word = |ask: &dyn Fn(*mut *const c_char) -> Status| {
        let mut text: *const c_char = ptr::null();
        let known = ask(&raw mut text).code == code::SUCCESS && !text.is_null();
        // SAFETY: on success the driver points at a string constant of its own, and the library stays loaded.
        known.then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok())
    };
    // SAFETY: the pointer is valid for one pointer.
    let name = word(&|out| unsafe { table.get_error_name(status.code, out) });
    // SAFETY: as above.
    let text = word(&|out| unsafe { table.get_error_string(status.code, out) });
    DriverError::unnamed(status.call, status.code).named(name, text)
}

/// An error with its cause: the loader's own words stand there.
fn whole(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn version_of(number: c_int) -> DriverVersion {
    let part = |n: c_int| u16::try_from(n).unwrap_or(0);
    DriverVersion { major: part(number / 1000), minor: part(number % 1000 / 10) }
}

/// The real path of the file that holds the code at `address`, where the system tells.
fn file_of(address: usize) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| mapped_file(line, address))?;
    Some(fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path)))
}

fn mapped_file(line: &str, address: usize) -> Option<&str> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let inside = (number(start)?..number(end)?).contains(&address);
    inside.then(|| rest.find('/').map(|at| &rest[at..])).flatten()
}

fn build_of(library: &Path) -> Option<String> {
    let in_name = library
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("libcuda.so."))
        .filter(|version| version.contains('.'));
    match in_name {
        Some(version) => Some(version.to_owned()),
        None => fs::read_to_string("/sys/module/nvidia/version").ok().map(|text| text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_address_is_read_from_the_line_whose_range_holds_it() {
        let line = "7f10-7f20 r-xp 00000000 fd:00 12 /usr/lib/lib cuda.so.1";
        assert_eq!(mapped_file(line, 0x7f18), Some("/usr/lib/lib cuda.so.1"));
        assert_eq!(mapped_file(line, 0x7f20), None);
        assert_eq!(mapped_file("7f10-7f20 rw-p 00000000 00:00 0", 0x7f18), None);
    }

    #[test]
    fn the_version_number_is_a_thousand_majors_and_ten_minors() {
        assert_eq!(version_of(13_000), DriverVersion { major: 13, minor: 0 });
        assert_eq!(version_of(12_040), DriverVersion { major: 12, minor: 4 });
    }

    #[test]
    fn the_build_is_in_the_real_file_name_and_a_soname_is_none() {
        assert_eq!(build_of(Path::new("/x/libcuda.so.580.159.04")), Some("580.159.04".to_owned()));
    }

    #[test]
    fn a_library_that_is_no_driver_is_named_with_the_reason() {
        // SAFETY: there is no such library.
        let missing = unsafe { Driver::open(Path::new("libno-such-driver.so.1")) }.unwrap_err();
        let LaunchError::NoDriver { tried } = missing else { panic!("{missing}") };
        assert_eq!(tried[0].library, "libno-such-driver.so.1");
        #[cfg(target_os = "linux")]
        {
            // SAFETY: the C library's initialisers have run already, and it is found to be no driver.
            let other = unsafe { Driver::open(Path::new("libc.so.6")) }.unwrap_err();
            assert!(other.to_string().contains("it has no cuInit"), "{other}");
        }
    }
}
