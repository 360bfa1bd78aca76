//! The pinned toolchains of `target/cuda`, which `cargo xtask test` fetches.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;

use cuforge_compile::{CacheOptions, Candidate, Compiler, Nvrtc, SearchPaths};
use cuforge_core::{ComputeCapability, Target};

/// Every pinned NVRTC: name of the release, version, and the PTX version that it emits.
pub(crate) const VERSIONS: [(&str, (u32, u32), &str); 4] = [
    ("12.4.127", (12, 4), "8.4"),
    ("12.9.86", (12, 9), "8.8"),
    ("13.0.88", (13, 0), "9.0"),
    ("13.5.37", (13, 5), "9.5"),
];

pub(crate) fn root(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda").join(format!("nvrtc-{version}"))
}

pub(crate) fn candidate(version: &str) -> Candidate {
    SearchPaths::only([root(version)]).find().candidates.remove(0)
}

pub(crate) fn nvrtc(version: &str) -> Nvrtc {
    Nvrtc::find(&SearchPaths::only([root(version)])).unwrap()
}

/// Memory only: a test neither reads nor fills the cache of whoever runs it.
pub(crate) fn compiler(version: &str) -> Compiler {
    Compiler::with_nvrtc(nvrtc(version)).with_cache(CacheOptions::memory_only())
}

pub(crate) fn target(sm: u16) -> Target {
    Target::new(ComputeCapability::from_sm(sm))
}

pub(crate) fn long() -> bool {
    std::env::var_os("CUFORGE_LONG").is_some()
}

/// Assembles PTX with the real assembler of a release; its words if it refuses.
pub(crate) fn assemble(version: &str, ptx: &str, architecture: &str, folder: &Path) -> Result<(), String> {
    let tools = ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"].map(|tool| root(version).join(tool));
    let tool = tools.into_iter().find(|tool| tool.is_file()).expect("ptxas is in the toolchain");
    let (input, output) = (folder.join("in.ptx"), folder.join("out.cubin"));
    std::fs::write(&input, ptx).unwrap();
    let arguments = [format!("-arch={architecture}"), "-o".into(), output.to_str().unwrap().into()];
    let run = Command::new(tool).args(arguments).arg(&input).output().unwrap();
    if run.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&run.stderr).into_owned()) }
}
