//! C programs of the driver API from `programs/`, compiled with the system's compiler and run on the simulated driver.

use cuforge_sim_driver::Library;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles `programs/<name>.c` into the folder of a driver library, with which it is linked, warnings being errors.
///
/// # Errors
/// There is no C compiler (Rust links with one too), or it refuses the program, with its words.
pub fn compile(name: &str, library: &Library) -> io::Result<PathBuf> {
    let program = library.folder().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name).with_extension("c");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library.folder())
        .args(["-lcuda", "-ldl", "-pthread"])
        .output()?;
    if compiled.status.success() { Ok(program) } else { Err(io::Error::other(said(&compiled))) }
}

/// The simulated driver and the program `programs/<name>.c` in a folder of theirs below `folder`.
///
/// # Errors
/// As [`compile`]; the driver is not built, or cannot be put there.
pub fn prepared(name: &str, folder: &Path) -> io::Result<(Library, PathBuf)> {
    let library =
        Library::built().and_then(|library| library.install(&folder.join(format!("driver-{name}"))));
    let library = library.map_err(io::Error::other)?;
    let program = compile(name, &library)?;
    Ok((library, program))
}

/// Runs a program whose loader finds that library.
///
/// # Errors
/// It cannot be started.
pub fn run<A: AsRef<OsStr>>(program: &Path, library: &Library, arguments: &[A]) -> io::Result<Output> {
    Command::new(program).args(arguments).env("LD_LIBRARY_PATH", library.folder()).output()
}

/// What a program printed, in words.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
