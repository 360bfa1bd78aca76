//! `--archive DIR`: everything that a machine with a GPU needs and that has no Rust, no network and no repository.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::expected::{KNOWN_FAILURES, MANIFEST};
use super::{bundle, programs};
use crate::ending::{Ending, Stop};
use crate::{archive, process, simulated, workspace};

/// What an archive may weigh.
const LIMIT_BYTES: u64 = 48 << 20;
/// The build profile: optimised, stripped.
const PROFILE: &[&str] = &["--profile", "archive"];

/// Starts what the archive holds. The first word may be another verb; without one the GPU tests run.
const RUN: &str = r#"#!/bin/sh
# Runs the GPU tests of this archive: DIR/run.sh [OPTIONS of gpu-test]
# Other work: DIR/run.sh quickstart|verify|doctor|bench [OPTIONS]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export CUFORGE_ARCHIVE="$here"
case "${1:-}" in
    quickstart|verify|doctor|help) exec "$here/bin/xtask" "$@" ;;
    bench) shift; exec "$here/bin/cuforge-benches" "$@" ;;
    *) exec "$here/bin/xtask" gpu-test --from-archive "$here" "$@" ;;
esac
"#;

/// Builds everything into `folder`, which holds nothing else afterwards.
///
/// # Errors
///
/// Something does not build or cannot be copied, or the whole weighs too much.
pub(super) fn pack(folder: &Path) -> Result<Ending, Stop> {
    let root = workspace::root();
    let (bin, tests) = (folder.join("bin"), folder.join("tests"));
    clear(folder)?;
    for program in ["xtask", "cuforge-benches"] {
        copy(&built(program)?, &bin.join(program))?;
    }
    for program in programs::build(PROFILE)? {
        copy(&program, &tests.join(programs::stem(&program)))?;
    }
    simulated::lay(&simulated::built(PROFILE)?, &folder.join(simulated::FOLDER))?;
    for name in [MANIFEST, KNOWN_FAILURES] {
        copy(&root.join("tests").join(name), &folder.join(name))?;
    }
    copy_all(&root.join("benches/peers"), &folder.join("peers"))?;
    copy_all(&root.join("crates/cuforge-oracle/kernels"), &folder.join("kernels"))?;
    copy_all(&root.join("tests/kernels"), &folder.join("kernels/tests"))?;
    copy_all(&root.join("tests/defects"), &folder.join("defects"))?;
    println!("{}", bundle::write(&folder.join(archive::BUNDLE))?);
    let run = folder.join("run.sh");
    fs::write(&run, RUN).map_err(|error| Stop::failed(format!("{}: {error}", run.display())))?;
    make_executable(&run)?;
    let bytes = weigh(folder)?;
    println!("{} of {} MiB in {}", in_mib(bytes), LIMIT_BYTES >> 20, folder.display());
    if bytes > LIMIT_BYTES {
        return Err(Stop::failed(format!("the archive weighs more than {} MiB", LIMIT_BYTES >> 20)));
    }
    Ok(Ending::Good)
}

/// Removes what an earlier archive left; anything else in the folder is somebody's work and stays.
fn clear(folder: &Path) -> Result<(), Stop> {
    let failed = |error| Stop::failed(format!("{}: {error}", folder.display()));
    let here = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(failed)?.flatten().collect(),
    };
    if !here.is_empty() {
        if !folder.join("run.sh").is_file() {
            return Err(Stop::failed(format!("{} is no archive and not empty", folder.display())));
        }
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}

/// Builds a program of this workspace; where it lies.
fn built(package: &str) -> Result<PathBuf, Stop> {
    let mut command = process::cargo();
    command.args(["build", "--quiet", "--package", package]).args(PROFILE);
    let status =
        command.status().map_err(|error| Stop::failed(format!("cargo build cannot be run: {error}")))?;
    if !status.success() {
        return Err(Stop::failed(format!("{package} does not build")));
    }
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace::root().join("target"), PathBuf::from);
    Ok(target.join("archive").join(package))
}

fn copy(from: &Path, to: &Path) -> Result<(), Stop> {
    let failed = |error| Stop::failed(format!("copying {} to {}: {error}", from.display(), to.display()));
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::copy(from, to).map(|_| ()).map_err(failed)
}

/// Copies a folder with all below it.
fn copy_all(from: &Path, to: &Path) -> Result<(), Stop> {
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { copy_all(&path, &target)? } else { copy(&path, &target)? }
    }
    Ok(())
}

fn weigh(folder: &Path) -> Result<u64, Stop> {
    let mut bytes = 0;
    for path in entries(folder)? {
        bytes += if path.is_dir() { weigh(&path)? } else { fs::metadata(&path).map_or(0, |file| file.len()) };
    }
    Ok(bytes)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let listed = fs::read_dir(folder)
        .map_err(|error| Stop::failed(format!("listing {}: {error}", folder.display())))?;
    Ok(listed.flatten().map(|entry| entry.path()).collect())
}

fn in_mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn make_executable(path: &Path) -> Result<(), Stop> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode)
            .map_err(|error| Stop::failed(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_archive_is_left_alone() {
        let folder = env::temp_dir().join(format!("cuforge-archive-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        clear(&folder).unwrap();
        clear(&folder).unwrap();
        fs::write(folder.join("thesis.tex"), "years of work").unwrap();
        let stop = clear(&folder).unwrap_err();
        assert!(stop.to_string().contains("no archive"), "{stop}");
        assert!(folder.join("thesis.tex").is_file());
        fs::write(folder.join("run.sh"), RUN).unwrap();
        clear(&folder).unwrap();
        assert!(!folder.join("run.sh").exists() && folder.is_dir());
        assert_eq!(weigh(&folder).unwrap(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
