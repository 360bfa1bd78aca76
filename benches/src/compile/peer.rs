//! Caches of other projects, each in a Python process of its own that is asked for disk hits over a pipe.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::peers::{self, Python};

/// Pinned, so that figures of different days compare with the same peer.
const WHEELS: &[&str] = &["cuda-core==1.2.2", "cuda-bindings==13.5.0", "cuda-pathfinder==1.9.1", "numpy"];
const FOLDER: &str = "peer-cuda-core-1.2.2";

/// A running peer.
pub(super) struct Peer {
    process: Python,
    about: String,
}

impl Peer {
    /// cuda.core on `source` with an empty or filled `cache`: the pinned one, fetched into `home` if it is not there,
    /// or where that cannot be the installed one.
    pub(super) fn cuda_core(
        home: &Path,
        libraries: &Path,
        source: &Path,
        cache: &Path,
        arch: u16,
    ) -> Result<Self, Box<dyn Error>> {
        let folder = home.join(FOLDER);
        let fetched = if folder.is_dir() { Ok(()) } else { fetch(home, &folder) };
        let mut command = python("cuda_core_cache.py", libraries);
        command.args([source, cache]).arg(format!("sm_{arch}"));
        if fetched.is_ok() {
            command.env("PYTHONPATH", &folder);
        }
        match (Self::start("cuda.core", command), fetched) {
            (Err(_), Err(why)) => Err(why),
            (started, _) => started,
        }
    }

    /// The `CuPy` that is installed, with the device that it finds, on `source` with an empty or filled `cache`.
    pub(super) fn cupy(libraries: &Path, source: &Path, cache: &Path) -> Result<Self, Box<dyn Error>> {
        let mut command = python("cupy_cache.py", libraries);
        command.args([source, cache]);
        Self::start("CuPy", command)
    }

    fn start(name: &str, command: Command) -> Result<Self, Box<dyn Error>> {
        let mut process = Python::start(command)?;
        let said = process.line()?;
        if let Some(why) = said.strip_prefix("absent ") {
            return Err(why.into());
        }
        let told = said.strip_prefix("ready ").ok_or_else(|| format!("it says {said:?}"))?;
        let (version, cubin) = told.split_once(' ').ok_or("it says no size")?;
        let about = format!("{name} {version} on the same source, cubin {cubin} bytes");
        Ok(Self { process, about })
    }

    /// What it is.
    pub(super) fn about(&self) -> &str {
        &self.about
    }

    /// Nanoseconds of one disk hit, by an order that its script knows.
    pub(super) fn hit_ns(&mut self, order: &str) -> Result<f64, Box<dyn Error>> {
        self.process.ask(order)
    }
}

/// Python with one of the scripts and the NVRTC that we use ourselves, before any other.
fn python(script: &str, libraries: &Path) -> Command {
    let mut search = libraries.as_os_str().to_owned();
    if let Some(more) = env::var_os("LD_LIBRARY_PATH") {
        search.push(":");
        search.push(more);
    }
    let mut command = peers::python(script);
    command.env("LD_LIBRARY_PATH", search);
    command
}

fn fetch(home: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(home)?;
    let scratch = home.join(format!(".fetch-{FOLDER}-{}", std::process::id()));
    let output = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            "--retries",
            "1",
        ])
        .arg("--target")
        .arg(&scratch)
        .args(WHEELS)
        .output()?;
    if !output.status.success() {
        let _ = fs::remove_dir_all(&scratch);
        let said =
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no reason given").to_owned();
        return Err(format!("pip could not fetch it: {said}").into());
    }
    if fs::rename(&scratch, folder).is_err() {
        // Another process was faster.
        let _ = fs::remove_dir_all(&scratch);
    }
    Ok(())
}
