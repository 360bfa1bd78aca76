//! The pinned toolchains under `target/cuda/`: NVRTC as a compiler, `ptxas` as a judge of PTX.

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use cuforge_compile::{Compiler, Nvrtc, SearchPaths};

/// The file that the fetch writes last into a complete folder.
const MARKER: &str = ".cuforge-toolchain";

/// A pinned NVRTC with its `ptxas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toolchain {
    number: &'static str,
}

/// NVRTC 12.9.86: the shipped PTX comes from it.
pub const OLDER: Toolchain = Toolchain { number: "12.9.86" };
/// NVRTC 13.5.37.
pub const NEWER: Toolchain = Toolchain { number: "13.5.37" };

impl Toolchain {
    /// The NVRTC version.
    #[must_use]
    pub const fn number(self) -> &'static str {
        self.number
    }

    /// A compiler that uses this NVRTC and nothing else of the machine.
    ///
    /// # Errors
    /// The folder is not complete, or its library does not load.
    pub fn compiler(self) -> Result<Compiler, Box<dyn Error>> {
        Ok(Compiler::with_nvrtc(Nvrtc::find(&SearchPaths::only([self.root()?]))?))
    }

    /// The library file of this NVRTC.
    ///
    /// # Errors
    /// The folder is not complete, or its library does not load.
    pub fn library(self) -> Result<PathBuf, Box<dyn Error>> {
        Ok(Nvrtc::find(&SearchPaths::only([self.root()?]))?.library().to_path_buf())
    }

    /// Assembles `ptx` for `sm_<sm>`. A warning is an error too.
    ///
    /// # Errors
    /// What `ptxas` said, or why it could not be run.
    pub fn assemble(self, ptx: &str, sm: u16) -> Result<(), Box<dyn Error>> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let stem = std::env::temp_dir().join(format!("cuforge-ptxas-{}-{serial}", std::process::id()));
        let (source, cubin) = (stem.with_extension("ptx"), stem.with_extension("cubin"));
        fs::write(&source, ptx)?;
        let output = Command::new(self.ptxas()?)
            .arg(format!("--gpu-name=sm_{sm}"))
            .arg(&source)
            .arg("--output-file")
            .arg(&cubin)
            .output();
        // Removed before anything can fail, so that a failing test leaves nothing behind.
        let made = fs::remove_file(&cubin).is_ok();
        fs::remove_file(&source)?;
        let output = output?;
        let said = [output.stdout, output.stderr].concat();
        if output.status.success() && made && said.is_empty() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        Err(format!("ptxas {} for sm_{sm} ended with {}: {said}", self.number, output.status).into())
    }

    fn ptxas(self) -> Result<PathBuf, Box<dyn Error>> {
        let root = self.root()?;
        let mut places =
            ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"].map(|p| root.join(p)).into_iter();
        places.find(|path| path.is_file()).ok_or_else(|| format!("no ptxas under {}", root.display()).into())
    }

    fn root(self) -> Result<PathBuf, Box<dyn Error>> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let root = workspace.join("target/cuda").join(format!("nvrtc-{}", self.number));
        if root.join(MARKER).is_file() {
            return Ok(root);
        }
        Err(format!("NVRTC {} is not in {}; `cargo xtask test` fetches it", self.number, root.display())
            .into())
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}", self.number)
    }
}

/// Whether tests run at full length: `CUFORGE_LONG=1`, which `cargo xtask test --long` sets.
#[must_use]
pub fn at_full_length() -> bool {
    std::env::var_os("CUFORGE_LONG").is_some_and(|value| value == "1")
}
