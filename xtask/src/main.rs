//! The commands of the cuforge repository: one file per verb, this one only picks the verb.
#![forbid(unsafe_code)]

mod arguments;
mod doctor;
mod ending;
mod lint;
mod metadata;
mod process;
mod test;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use arguments::Arguments;
use ending::{Ending, Stop};

const USAGE: &str = "\
usage: cargo xtask VERB [OPTIONS]

  test [--long]
          all that can be tested without a GPU; closes with `N passed, N failed, N skipped`
  doctor [--json FILE]
          driver, devices, NVRTC, headers, PTX ISA ceiling; what is missing and how to get it
  lint    fmt, clippy, rustdoc, arrows between crates, each crate alone, tidy
  help    this text

exit codes: 0 all good, 1 something failed, 2 nothing ran, 64 usage
";

fn main() -> ExitCode {
    match run() {
        Ok(ending) => ending.into(),
        Err(stop) => {
            eprintln!("error: {stop}");
            stop.ending().into()
        }
    }
}

fn run() -> Result<Ending, Stop> {
    let mut arguments = Arguments::from_command_line();
    let verb = arguments.verb(USAGE)?;
    match verb.as_str() {
        "test" => test::run(arguments),
        "doctor" => doctor::run(arguments),
        "lint" => lint::run(arguments),
        "help" => {
            print!("{USAGE}");
            Ok(Ending::Good)
        }
        other => Err(Stop::usage(USAGE, format!("no verb named {other}"))),
    }
}
