//! cuda.core from `PyPI` in a process of its own, asked for disk hits over a pipe.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Pinned, so that figures of different days compare with the same peer.
const WHEELS: &[&str] = &["cuda-core==1.2.2", "cuda-bindings==13.5.0", "cuda-pathfinder==1.9.1", "numpy"];
const FOLDER: &str = "peer-cuda-core-1.2.2";

/// A running peer.
pub(super) struct CudaCore {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    about: String,
}

impl CudaCore {
    /// Fetches it into `home` if it is not there, and starts it on `source` with an empty or filled `cache`.
    pub(super) fn start(
        home: &Path,
        libraries: &Path,
        source: &Path,
        cache: &Path,
        arch: u16,
    ) -> Result<Self, Box<dyn Error>> {
        let folder = home.join(FOLDER);
        if !folder.is_dir() {
            fetch(home, &folder)?;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/cuda_core_cache.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([source, cache])
            .arg(format!("sm_{arch}"))
            .env("PYTHONPATH", &folder)
            .env("LD_LIBRARY_PATH", libraries)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut peer = Self { child, orders, answers, about: String::new() };
        let ready = peer.line()?;
        let told = ready.strip_prefix("ready ").ok_or_else(|| format!("it says {ready:?}"))?;
        let (version, cubin) = told.split_once(' ').ok_or("it says no size")?;
        peer.about = format!("cuda.core {version} on the same source, cubin {cubin} bytes");
        Ok(peer)
    }

    /// What it is.
    pub(super) fn about(&self) -> &str {
        &self.about
    }

    /// Nanoseconds of one disk hit out of `calls`.
    pub(super) fn hit_ns(&mut self, calls: u32) -> Result<f64, Box<dyn Error>> {
        writeln!(self.orders, "{calls}")?;
        Ok(self.line()?.parse()?)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("it ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for CudaCore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
