//! Pinned NVRTC, CUDA headers, `ptxas` and nvJitLink from `PyPI`, kept side by side under `target/cuda/`.
//!
//! One folder per NVRTC version, complete or absent: it is filled under a temporary name, gets its marker file last and
//! is renamed into place. A second process waits for the first at a lock file and then finds the folder there.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds `pip` may take for one version before it is stopped (the largest set is 190 MB).
const PIP_LIMIT: Duration = Duration::from_secs(900);
/// Written last, so a folder without it, or with another text in it, is not a finished toolchain.
const MARKER: &str = ".cuforge-toolchain";
/// Raise when the list of files left out changes, so that folders laid by older code are made anew.
const LAYOUT: &str = "layout 1";

/// A pinned toolchain version; its name is that of its NVRTC wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// NVRTC 12.4.127: PTX ISA 8.4, the oldest the compile tests use.
    V12_4,
    /// NVRTC 12.9.86: PTX ISA 8.8, the last one with Volta and Pascal targets.
    V12_9,
    /// NVRTC 13.0.88: PTX ISA 9.0; its wheel finds its builtins library only when that is loaded first.
    V13_0,
    /// NVRTC 13.5.37: PTX ISA 9.5, with bundled headers.
    V13_5,
}

impl Version {
    /// The two versions that the kernel corpus is built with.
    pub(crate) const CORPUS: [Self; 2] = [Self::V12_9, Self::V13_5];
    /// Every pinned version, oldest first.
    pub(crate) const ALL: [Self; 4] = [Self::V12_4, Self::V12_9, Self::V13_0, Self::V13_5];

    /// The NVRTC version, for example `12.9.86`; the folder is `nvrtc-` and this.
    pub(crate) const fn number(self) -> &'static str {
        match self {
            Self::V12_4 => "12.4.127",
            Self::V12_9 => "12.9.86",
            Self::V13_0 => "13.0.88",
            Self::V13_5 => "13.5.37",
        }
    }

    /// The wheels of this version, pinned.
    const fn wheels(self) -> &'static [&'static str] {
        match self {
            Self::V12_4 => &[
                "nvidia-cuda-nvrtc-cu12==12.4.127",
                "nvidia-cuda-runtime-cu12==12.4.127",
                "nvidia-cuda-nvcc-cu12==12.4.131",
                "nvidia-cuda-cccl-cu12==12.4.127.post1",
            ],
            Self::V12_9 => &[
                "nvidia-cuda-nvrtc-cu12==12.9.86",
                "nvidia-cuda-runtime-cu12==12.9.79",
                "nvidia-cuda-nvcc-cu12==12.9.86",
                "nvidia-cuda-cccl-cu12==12.9.27",
                "nvidia-nvjitlink-cu12==12.9.86",
            ],
            Self::V13_0 => &[
                "nvidia-cuda-nvrtc==13.0.88",
                "nvidia-cuda-runtime==13.0.96",
                "nvidia-cuda-crt==13.0.88",
                "nvidia-cuda-cccl==13.0.85",
            ],
            Self::V13_5 => &[
                "nvidia-cuda-nvrtc==13.5.37",
                "nvidia-cuda-runtime==13.5.37",
                "nvidia-cuda-crt==13.5.37",
                "nvidia-cuda-cccl==13.3.5.0.6",
                "nvidia-cuda-nvcc==13.5.37",
                "nvidia-nvjitlink==13.5.37",
            ],
        }
    }

    fn marker(self) -> String {
        format!("{LAYOUT}\n{}\n", self.wheels().join("\n"))
    }
}

/// One finished toolchain folder.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// Which pinned version it is.
    pub(crate) version: Version,
    /// The folder under which `nvidia/...` lies.
    pub(crate) root: PathBuf,
    /// `ptxas`, executable; absent from the 13.0 set.
    pub(crate) ptxas: Option<PathBuf>,
    /// What the fetch cost; `None` when the folder was there already.
    pub(crate) fetched: Option<Fetched>,
}

/// What one fetch cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// Bytes of the downloaded wheels.
    pub(crate) download_bytes: u64,
    /// Time for download and unpacking.
    pub(crate) elapsed: Duration,
}

/// Why a toolchain could not be made. Callers go on with the shipped PTX and say so.
#[derive(Debug)]
pub(crate) enum ToolchainError {
    /// There is no `python3` to run.
    PythonMissing(io::Error),
    /// `python3` has no module `pip`.
    PipMissing,
    /// `pip` did not reach a package index.
    Network { version: &'static str, detail: String },
    /// `pip` ended with an error of another kind (no wheel for this platform, for example).
    Pip { version: &'static str, detail: String },
    /// `pip` ran past its time limit and was stopped.
    TimedOut { version: &'static str, limit: Duration },
    /// The wheels came but the tree lacks what it is for.
    Incomplete { version: &'static str, missing: &'static str },
    /// A file operation failed.
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

impl fmt::Display for ToolchainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PythonMissing(source) => {
                write!(f, "python3 cannot be run ({source}), so NVRTC cannot be fetched")
            }
            Self::PipMissing => {
                f.write_str("python3 has no pip, so NVRTC cannot be fetched (try: python3 -m ensurepip)")
            }
            Self::Network { version, detail } => {
                write!(f, "no package index reached for NVRTC {version}: {detail}")
            }
            Self::Pip { version, detail } => write!(f, "pip could not fetch NVRTC {version}: {detail}"),
            Self::TimedOut { version, limit } => {
                write!(f, "pip took more than {} s for NVRTC {version} and was stopped", limit.as_secs())
            }
            Self::Incomplete { version, missing } => {
                write!(f, "the wheels of NVRTC {version} hold no {missing}")
            }
            Self::Io { doing, path, source } => write!(f, "{doing} {}: {source}", path.display()),
        }
    }
}

impl Error for ToolchainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::PythonMissing(source) | Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Makes sure of the given versions under `target/cuda/` of this workspace and returns them in the same order.
///
/// A few file reads when they are there; otherwise one `pip download` for each that is not (60 to 190 MB). Blocks while
/// another process fetches.
///
/// # Errors
///
/// The first version that cannot be made ends the call with its [`ToolchainError`]; earlier ones stay in place.
pub(crate) fn ensure(versions: &[Version]) -> Result<Vec<Toolchain>, ToolchainError> {
    ensure_under(&home(), versions)
}

/// The pinned toolchains that are there already, oldest first. Fetches nothing.
pub(crate) fn present_here() -> Vec<Toolchain> {
    Version::ALL.iter().filter_map(|&version| present(&home(), version)).collect()
}

/// The variable that makes a program use the pinned NVRTC 12.9, and its value; `None` where that is not there.
pub(crate) fn variable() -> Option<(&'static str, PathBuf)> {
    let made = present_here().into_iter().find(|made| made.version == Version::V12_9)?;
    Some(("CUFORGE_NVRTC", made.root.join("nvidia/cuda_nvrtc/lib")))
}

/// The toolchains of this workspace: `<workspace>/target/cuda`.
pub(crate) fn home() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).join("target").join("cuda")
}

fn ensure_under(home: &Path, versions: &[Version]) -> Result<Vec<Toolchain>, ToolchainError> {
    versions.iter().map(|&version| ensure_one(home, version)).collect()
}

fn ensure_one(home: &Path, version: Version) -> Result<Toolchain, ToolchainError> {
    if let Some(found) = present(home, version) {
        return Ok(found);
    }
    fs::create_dir_all(home).map_err(|source| io_error("creating", home, source))?;
    let lock_path = home.join(".lock");
    let lock = File::create(&lock_path).map_err(|source| io_error("creating", &lock_path, source))?;
    // Without working locks (some network file systems) two processes may both fetch; the rename keeps that correct.
    let locked = lock.lock().is_ok();
    if let Some(found) = present(home, version) {
        return Ok(found);
    }
    if locked {
        sweep(home);
    }
    let scratch = home.join(format!(".fetch-{}-{}", version.number(), std::process::id()));
    let result = fetch(home, version, &scratch);
    let _ = fs::remove_dir_all(&scratch);
    result
}

/// The folder of `version` if it is finished.
fn present(home: &Path, version: Version) -> Option<Toolchain> {
    let root = home.join(format!("nvrtc-{}", version.number()));
    let marker = fs::read_to_string(root.join(MARKER)).ok()?;
    if marker != version.marker() {
        return None;
    }
    let ptxas = ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"]
        .iter()
        .map(|p| root.join(p))
        .find(|p| p.is_file());
    Some(Toolchain { version, root, ptxas, fetched: None })
}

/// Removes what a stopped fetch left. Only called under the lock, so no live process owns it.
fn sweep(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".fetch-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn fetch(home: &Path, version: Version, scratch: &Path) -> Result<Toolchain, ToolchainError> {
    let start = Instant::now();
    let wheels = scratch.join("wheels");
    let tree = scratch.join("tree");
    for dir in [&wheels, &tree] {
        fs::create_dir_all(dir).map_err(|source| io_error("creating", dir, source))?;
    }
    download(version, scratch, &wheels)?;
    let download_bytes = unpack(version, scratch, &wheels, &tree)?;
    let marker = tree.join(MARKER);
    fs::write(&marker, version.marker()).map_err(|source| io_error("writing", &marker, source))?;

    let target = home.join(format!("nvrtc-{}", version.number()));
    if target.exists() {
        // Left by an older pin or laid by hand: it goes aside first, because a rename cannot replace a full folder.
        let aside = scratch.join("old");
        fs::rename(&target, &aside).map_err(|source| io_error("moving away", &target, source))?;
    }
    if let Err(source) = fs::rename(&tree, &target) {
        // Another process without the lock may have won the race.
        return present(home, version).ok_or(io_error("publishing", &target, source));
    }
    let fetched = Fetched { download_bytes, elapsed: start.elapsed() };
    let mut made = present(home, version)
        .ok_or(ToolchainError::Incomplete { version: version.number(), missing: "readable marker" })?;
    made.fetched = Some(fetched);
    Ok(made)
}

fn download(version: Version, scratch: &Path, wheels: &Path) -> Result<(), ToolchainError> {
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
    ])
    .args(["--no-input", "--retries", "1", "--timeout", "20", "--dest"])
    .arg(wheels)
    .args(version.wheels());
    let (ok, said) = run_limited(version, pip, scratch)?;
    if ok {
        return Ok(());
    }
    if said.contains("No module named pip") {
        return Err(ToolchainError::PipMissing);
    }
    let detail = tail(&said);
    let network =
        ["NewConnectionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError", "Name or service"];
    let version = version.number();
    Err(if network.iter().any(|mark| said.contains(mark)) {
        ToolchainError::Network { version, detail }
    } else {
        ToolchainError::Pip { version, detail }
    })
}

/// Leaves out what nothing here uses: static libraries, the alternative NVRTC build, the host compiler driver, libnvvm.
const UNPACK: &str = r#"
import os, sys, zipfile
source, target = sys.argv[1], sys.argv[2]
skip_ends = (".a", "/libnvvm.so", "/nvcc", "/cicc", "/nvlink", "/cudafe++", "/bin2c", "/libcudart.so.12", "/libcudart.so.13")
for wheel in sorted(os.listdir(source)):
    with zipfile.ZipFile(os.path.join(source, wheel)) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name.endswith(skip_ends) or ".alt.so" in name or "/.metadata/" in name:
                continue
            path = archive.extract(entry, target)
            if "/bin/" in name and os.path.isfile(path):
                os.chmod(path, 0o755)
"#;

/// Unpacks the wheels and returns their total size in bytes.
fn unpack(version: Version, scratch: &Path, wheels: &Path, tree: &Path) -> Result<u64, ToolchainError> {
    let listing = fs::read_dir(wheels).map_err(|source| io_error("listing", wheels, source))?;
    let bytes = listing.flatten().filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum();
    let mut python = Command::new("python3");
    python.args(["-c", UNPACK]).arg(wheels).arg(tree);
    let (ok, said) = run_limited(version, python, scratch)?;
    if !ok {
        return Err(ToolchainError::Pip { version: version.number(), detail: tail(&said) });
    }
    let nvrtc = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].iter().any(|p| tree.join(p).is_dir());
    if !nvrtc {
        return Err(ToolchainError::Incomplete { version: version.number(), missing: "nvrtc library" });
    }
    Ok(bytes)
}

/// Runs `command` with its output in a file, so that a full pipe cannot block it, and stops it at the limit.
fn run_limited(
    version: Version,
    mut command: Command,
    scratch: &Path,
) -> Result<(bool, String), ToolchainError> {
    let log = scratch.join("output.txt");
    let sink = File::create(&log).map_err(|source| io_error("creating", &log, source))?;
    let copy = sink.try_clone().map_err(|source| io_error("opening", &log, source))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(sink)
        .stderr(copy)
        .spawn()
        .map_err(ToolchainError::PythonMissing)?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() > PIP_LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(ToolchainError::TimedOut { version: version.number(), limit: PIP_LIMIT });
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(source) => return Err(io_error("waiting for python3 in", scratch, source)),
        }
    };
    let said = fs::read(&log).map_err(|source| io_error("reading", &log, source))?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// The last lines of what a command printed, on one line.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

fn io_error(doing: &'static str, path: &Path, source: io::Error) -> ToolchainError {
    ToolchainError::Io { doing, path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(home: &Path, version: Version, marker: &str) -> PathBuf {
        let root = home.join(format!("nvrtc-{}", version.number()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join(MARKER), marker).unwrap();
        root
    }

    fn scratch_home(name: &str) -> PathBuf {
        let home = std::env::temp_dir().join(format!("cuforge-toolchain-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).unwrap();
        home
    }

    #[test]
    fn a_finished_folder_is_taken_without_python() {
        let home = scratch_home("present");
        let root = finished(&home, Version::V12_9, &Version::V12_9.marker());
        let made = ensure_under(&home, &[Version::V12_9]).unwrap();
        assert_eq!(made[0].root, root);
        assert!(made[0].fetched.is_none());
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn a_folder_of_other_pins_is_not_taken() {
        let home = scratch_home("stale");
        finished(&home, Version::V13_5, "layout 0\nnvidia-cuda-nvrtc==13.4.92\n");
        assert!(present(&home, Version::V13_5).is_none());
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn a_sweep_removes_only_what_a_stopped_fetch_left() {
        let home = scratch_home("sweep");
        let kept = finished(&home, Version::V12_4, &Version::V12_4.marker());
        fs::create_dir_all(home.join(".fetch-12.9.86-1/wheels")).unwrap();
        sweep(&home);
        assert!(kept.exists());
        assert!(!home.join(".fetch-12.9.86-1").exists());
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_three_lines() {
        assert_eq!(tail("a\nb\n\nc\n d \n"), "b; c; d");
        assert_eq!(tail(""), "");
    }
}
