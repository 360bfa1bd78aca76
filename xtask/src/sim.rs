//! `cargo xtask sim -- COMMAND..`: runs a program with the simulated driver where it looks for NVIDIA's.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use crate::arguments::Arguments;
use crate::ending::{Ending, Stop};
use crate::{probe, simulated, toolchain};

const USAGE: &str = "\
usage: cargo xtask sim -- COMMAND..

Runs COMMAND on the simulated device: the simulated driver is built, and the dynamic loader finds it first. Where the
pinned NVRTC is in target/cuda, CUFORGE_NVRTC points to it unless it is set. Ends as COMMAND ends.";

/// Builds the driver, says what the command meets, and runs it.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut words: Vec<OsString> = arguments.behind_the_dashes(USAGE)?.into();
    if words.is_empty() {
        return Err(Stop::usage(USAGE, "no command given"));
    }
    let program = words.remove(0);
    let variables = simulated::variables(None)?;
    let probe = probe::ask(&variables);
    if let Some(why) = probe.without_a_device() {
        let why = format!("the simulated device cannot be used: {why}; nothing ran");
        return Err(Stop::new(Ending::NothingRan, why));
    }
    eprintln!("simulated driver {}", probe.driver_line());
    let mut command = Command::new(&program);
    command.args(words).envs(variables);
    if env::var_os("CUFORGE_NVRTC").is_none()
        && let Some((name, folder)) = toolchain::variable()
    {
        command.env(name, folder);
    }
    let status = command
        .status()
        .map_err(|error| Stop::failed(format!("{} cannot be run: {error}", program.display())))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(Ending::Failed, Ending::OfCommand))
}
