//! Every NVRTC that a compile could use on this machine, by file names alone: none is opened.

use std::path::PathBuf;

use cuforge_compile::{Candidate, Origin, SearchPaths, newest_ptx_for};
use cuforge_core::DriverVersion;
use serde::Serialize;

use crate::toolchain;

/// One NVRTC library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Nvrtc {
    /// Its CUDA version, where file names tell.
    pub(crate) cuda: Option<String>,
    /// The newest PTX ISA that this version writes.
    pub(crate) ptx_isa: Option<String>,
    /// The library, symbolic links resolved.
    pub(crate) library: PathBuf,
    /// How it was found.
    pub(crate) origin: String,
    /// CUDA's headers that belong to it.
    pub(crate) headers: Vec<PathBuf>,
    /// nvJitLink beside it.
    pub(crate) nvjitlink: Option<PathBuf>,
}

/// Those in `target/cuda` first, newest first, then what the system offers.
pub(crate) fn find() -> Vec<Nvrtc> {
    let roots: Vec<PathBuf> = toolchain::present_here().into_iter().rev().map(|made| made.root).collect();
    SearchPaths::first(roots).find().candidates.into_iter().map(describe).collect()
}

/// The newest PTX ISA that a driver for `cuda` (such as `13.0`) loads.
pub(crate) fn ptx_isa(cuda: &str) -> Option<String> {
    let (major, minor) = cuda.split_once('.')?;
    let version = DriverVersion { major: major.parse().ok()?, minor: minor.parse().ok()? };
    newest_ptx_for(version).map(|isa| isa.to_string())
}

fn describe(candidate: Candidate) -> Nvrtc {
    let cuda = candidate.version.map(|(major, minor)| format!("{major}.{minor}"));
    Nvrtc {
        ptx_isa: cuda.as_deref().and_then(ptx_isa),
        cuda,
        library: candidate.library,
        origin: if candidate.origin == Origin::Option {
            "target/cuda".to_owned()
        } else {
            candidate.origin.to_string()
        },
        headers: candidate.includes,
        nvjitlink: candidate.nvjitlink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_isa_of_a_cuda_version_comes_from_the_table_and_not_from_arithmetic() {
        assert_eq!(ptx_isa("12.6").as_deref(), Some("8.5"));
        assert_eq!(ptx_isa("13.0").as_deref(), Some("9.0"));
        assert_eq!(ptx_isa("unknown"), None);
    }
}
