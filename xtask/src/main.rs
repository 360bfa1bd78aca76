//! The commands of the cuforge repository: one file per verb, this one only picks the verb.
#![forbid(unsafe_code)]

mod arguments;
mod ending;
mod lint;
mod process;
mod workspace;

use std::process::ExitCode;

use arguments::Arguments;
use ending::{Ending, Stop};

const USAGE: &str = "\
usage: cargo xtask VERB [OPTIONS]

  lint    fmt, clippy, rustdoc, arrows between crates, each crate alone, tidy
  help    this text

exit codes: 0 all good, 1 something failed, 2 the required device was not there or nothing ran,
3 the device faulted, 64 usage
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
        "lint" => lint::run(arguments),
        "help" => {
            print!("{USAGE}");
            Ok(Ending::Good)
        }
        other => Err(Stop::usage(USAGE, format!("no verb named {other}"))),
    }
}
