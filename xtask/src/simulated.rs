//! The simulated driver library, put where the dynamic loader of a test's process finds it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use crate::ending::Stop;
use crate::{process, workspace};

/// The package that builds the library.
pub(crate) const PACKAGE: &str = "cuforge-sim-driver";
/// The name under which programs look for the CUDA driver.
pub(crate) const LIBRARY: &str = "libcuda.so.1";
/// The folder of an archive that holds it.
pub(crate) const FOLDER: &str = "sim";

/// Variables that make a program find the simulated driver: the one of `archive`, else one that is built now.
///
/// # Errors
///
/// It does not build, or is not in the archive.
pub(crate) fn variables(archive: Option<&Path>) -> Result<Vec<(String, String)>, Stop> {
    let folder = match archive {
        Some(archive) => archive.join(FOLDER),
        None => {
            let folder = workspace::root().join("target").join("sim-driver");
            lay(&built(&[])?, &folder)?;
            folder
        }
    };
    let folder = fs::canonicalize(&folder)
        .map_err(|error| Stop::failed(format!("the simulated driver in {}: {error}", folder.display())))?;
    if !folder.join(LIBRARY).is_file() {
        return Err(Stop::failed(format!("there is no {LIBRARY} in {}", folder.display())));
    }
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = env::join_paths([folder].into_iter().chain(env::split_paths(&before)))
        .map_err(|error| Stop::failed(format!("LD_LIBRARY_PATH: {error}")))?;
    Ok(vec![("LD_LIBRARY_PATH".to_owned(), path.to_string_lossy().into_owned())])
}

/// Builds the library with `extra` arguments to cargo; where it lies.
///
/// # Errors
///
/// It does not build.
pub(crate) fn built(extra: &[&str]) -> Result<PathBuf, Stop> {
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        filenames: Vec<PathBuf>,
    }
    let mut command = process::cargo();
    command.args(["build", "--quiet", "--package", PACKAGE, "--message-format=json-render-diagnostics"]);
    let output = command
        .args(extra)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::failed(format!("cargo build cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(Stop::failed("the simulated driver does not build"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let made = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let stem = format!("lib{}.", PACKAGE.replace('-', "_"));
    made.flat_map(|message| message.filenames)
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&stem)
                && path.extension().is_some_and(|extension| extension == env::consts::DLL_EXTENSION)
        })
        .ok_or_else(|| Stop::failed(format!("{PACKAGE} builds no library")))
}

/// Copies the library into `folder` under the name that programs look for.
///
/// # Errors
///
/// The folder cannot be written.
pub(crate) fn lay(library: &Path, folder: &Path) -> Result<(), Stop> {
    let failed = |error| Stop::failed(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    // Under a name of its own first: a program that has the old one loaded keeps it.
    let scratch = folder.join(format!(".{LIBRARY}.{}", std::process::id()));
    fs::copy(library, &scratch).map_err(failed)?;
    fs::rename(&scratch, folder.join(LIBRARY)).map_err(failed)
}
