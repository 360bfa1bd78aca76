//! Cargo's helpers from crates.io, pinned, installed into `target/tools` when they are absent.

use std::process::Command;
use std::time::Duration;

use crate::ending::Stop;
use crate::{process, workspace};

/// A tool and the version that is used.
pub(super) struct Tool {
    package: &'static str,
    version: &'static str,
}

pub(super) const DENY: Tool = Tool { package: "cargo-deny", version: "0.20.2" };
pub(super) const SEMVER: Tool = Tool { package: "cargo-semver-checks", version: "0.51.0" };

/// A command that starts `tool` in the workspace root.
///
/// # Errors
///
/// It is not there and cannot be installed.
pub(super) fn command(tool: &Tool) -> Result<Command, Stop> {
    let home = workspace::root().join("target").join("tools");
    let program = home.join("bin").join(tool.package);
    if !program.is_file() {
        println!("installing {} {} into target/tools (minutes)", tool.package, tool.version);
        let mut install = process::cargo();
        install.args(["install", "--quiet", "--locked", tool.package, "--version", tool.version, "--root"]);
        let status = install
            .arg(&home)
            .status()
            .map_err(|error| Stop::failed(format!("cargo install cannot be run: {error}")))?;
        if !status.success() {
            return Err(Stop::failed(format!("{} cannot be installed: {status}", tool.package)));
        }
    }
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    Ok(command)
}

/// Whether a crate of that name is on crates.io.
///
/// # Errors
///
/// The registry cannot be asked.
pub(super) fn is_published(package: &str) -> Result<bool, Stop> {
    let mut command = process::cargo();
    command.args(["info", "--quiet", "--registry", "crates-io", package]);
    let captured = process::capture(command, Duration::from_secs(120))
        .map_err(|error| Stop::failed(format!("cargo info cannot be run: {error}")))?;
    if captured.succeeded() {
        return Ok(true);
    }
    if captured.stderr.contains("could not find") {
        return Ok(false);
    }
    Err(Stop::failed(format!("the registry does not tell of {package}: {}", captured.stderr.trim())))
}
