//! A simulated driver of one's own: a copy of the library file, and the handles by which a test steers it.

use cuforge_launch::{Device, Driver, LaunchError};
use cuforge_sim_driver::{Library, LibraryError};
use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A copy of the simulated driver that no other test has, loaded.
#[derive(Debug)]
pub struct Sim {
    /// The file.
    pub path: PathBuf,
    library: libloading::Library,
}

/// Why there is no simulated driver to steer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The file.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It does not load.
    #[error(transparent)]
    Loading(#[from] libloading::Error),
    /// A setting that there is none of.
    #[error("{name} is no setting of the simulated driver")]
    Setting {
        /// Its name.
        name: String,
    },
}

impl Sim {
    /// A driver with these settings (`CUFORGE_SIM_..`, value).
    ///
    /// # Errors
    /// [`SimError`].
    pub fn new(settings: &[(&str, &str)]) -> Result<Self, SimError> {
        Self::load(&Library::built()?.copy(&Self::fresh_path())?, settings)
    }

    /// A driver that lacks some functions.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn without(symbols: &[&str]) -> Result<Self, SimError> {
        Self::load(&Library::built()?.copy_without(symbols, &Self::fresh_path())?, &[])
    }

    /// A path that no other driver of any test has.
    pub fn fresh_path() -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join("cuforge-sim-drivers");
        // Where it cannot be made, the copy says so.
        let _ = std::fs::create_dir_all(&folder);
        folder.join(format!("driver-{}-{number}.so", std::process::id()))
    }

    fn load(file: &Library, settings: &[(&str, &str)]) -> Result<Self, SimError> {
        // SAFETY: the library is the simulated driver, which has no initialisers.
        let library = unsafe { libloading::Library::new(file.path()) }?;
        let sim = Self { path: file.path().to_path_buf(), library };
        for (name, value) in settings {
            if sim.set(name, value) != 0 {
                return Err(SimError::Setting { name: (*name).to_owned() });
            }
        }
        Ok(sim)
    }

    fn set(&self, name: &str, value: &str) -> c_int {
        type Set = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
        self.ask(
            |set: Set, [name, value]| {
                // SAFETY: two C strings, as the function takes.
                unsafe { set(name.as_ptr(), value.as_ptr()) }
            },
            b"cuforgeSimSet",
            [name, value],
        )
        .unwrap_or(1)
    }

    /// Calls an extension of the simulated driver with strings; absent if there is none of that name.
    fn ask<F: Copy, T, const N: usize>(
        &self,
        call: impl FnOnce(F, [CString; N]) -> T,
        name: &[u8],
        texts: [&str; N],
    ) -> Option<T> {
        // SAFETY: `F` is what the extension of that name is declared as; each caller names both.
        let function = unsafe { self.library.get::<F>(name) }.ok()?;
        Some(call(*function, texts.map(|text| CString::new(text).unwrap_or_default())))
    }

    /// The driver, opened.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn driver(&self) -> Result<Driver, LaunchError> {
        Self::open(&self.path)
    }

    /// The driver in a file that was copied here.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn open(path: &Path) -> Result<Driver, LaunchError> {
        // SAFETY: the file is the simulated driver, which has the functions that `cuda.h` declares.
        unsafe { Driver::open(path) }
    }

    /// Its first device, opened.
    ///
    /// # Errors
    /// As [`Device::open_on`].
    pub fn device(&self) -> Result<Device, LaunchError> {
        Device::open_on(self.driver()?, 0)
    }

    /// Calls of one function so far; of all for the empty name.
    pub fn calls(&self, name: &str) -> i64 {
        type Calls = unsafe extern "C" fn(*const c_char) -> i64;
        let count = self.ask(
            |calls: Calls, [text]| {
                let pointer = if name.is_empty() { std::ptr::null() } else { text.as_ptr() };
                // SAFETY: a C string or null, as the function takes.
                unsafe { calls(pointer) }
            },
            b"cuforgeSimCalls",
            [name],
        );
        count.unwrap_or(-1)
    }

    /// Launches so far, by whichever function.
    pub fn launches(&self) -> i64 {
        ["cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch"].iter().map(|name| self.calls(name)).sum()
    }

    /// Lets `name` answer `code` from its `from_call`-th next call on; 0 lets it work again.
    pub fn fail(&self, name: &str, from_call: u64, code: i32) {
        type Fail = unsafe extern "C" fn(*const c_char, u64, u64, c_int) -> c_int;
        let done = self.ask(
            |fail: Fail, [name]| {
                // SAFETY: a C string and numbers, as the function takes.
                unsafe { fail(name.as_ptr(), from_call, 0, code) }
            },
            b"cuforgeSimFail",
            [name],
        );
        assert_eq!(done, Some(0), "{name} is no function of the simulated driver");
    }

    /// Lets `count` calls of `name` from its `from_call`-th next one on take longer.
    pub fn delay(&self, name: &str, from_call: u64, count: u64, microseconds: u64) {
        type Delay = unsafe extern "C" fn(*const c_char, u64, u64, u64) -> c_int;
        let done = self.ask(
            |delay: Delay, [name]| {
                // SAFETY: a C string and numbers, as the function takes.
                unsafe { delay(name.as_ptr(), from_call, count, microseconds) }
            },
            b"cuforgeSimDelay",
            [name],
        );
        assert_eq!(done, Some(0), "{name} is no function of the simulated driver");
    }

    /// Holds back what streams would begin, or lets it go and waits until it is done.
    pub fn hold(&self, on: bool) {
        type Hold = unsafe extern "C" fn(c_int);
        let done = self.ask(
            |hold: Hold, []| {
                // SAFETY: takes any integer.
                unsafe { hold(c_int::from(on)) };
            },
            b"cuforgeSimHold",
            [],
        );
        assert!(done.is_some(), "no simulated driver");
    }

    /// Graphs that captures made, what was instantiated from them, and captures that are going on.
    pub fn graphs(&self) -> [i64; 3] {
        ["captured_graphs", "captured_execs", "captures"].map(|what| self.count(what))
    }

    /// A function of the driver, for calls that go past the launcher; absent if it has none of that name. To call it
    /// is unsafe; `F` must be its own type.
    pub fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: only the address is taken; whoever calls it answers for its type.
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// How many there are of something (`streams`, `mapped_bytes`, ..).
    pub fn count(&self, what: &str) -> i64 {
        type Count = unsafe extern "C" fn(*const c_char) -> i64;
        let count = self.ask(
            |count: Count, [what]| {
                // SAFETY: a C string, as the function takes.
                unsafe { count(what.as_ptr()) }
            },
            b"cuforgeSimCount",
            [what],
        );
        count.unwrap_or(-1)
    }

    /// What ended the device, in words; empty while nothing has.
    pub fn fault(&self) -> String {
        type Fault = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        let mut room = vec![0u8; 4096];
        let told = self.ask(
            |fault: Fault, []| {
                // SAFETY: the room is as long as is said.
                unsafe { fault(room.as_mut_ptr().cast(), room.len()) }
            },
            b"cuforgeSimFault",
            [],
        );
        room.truncate(told.unwrap_or(0));
        String::from_utf8_lossy(&room).into_owned()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // The copy is loaded for good; its name is not needed any more.
        let _ = std::fs::remove_file(&self.path);
    }
}
