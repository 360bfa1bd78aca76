//! The commands of the cuforge repository: one file per verb, this one only picks the verb.
#![forbid(unsafe_code)]

mod archive;
mod arguments;
mod bench;
mod device;
mod doctor;
mod ending;
mod gpu_test;
mod judge;
mod lint;
mod metadata;
mod probe;
mod process;
mod quickstart;
mod release;
mod replay;
mod sim;
mod simulated;
mod test;
mod toolchain;
mod tune;
mod verify;
mod workspace;

use std::panic;
use std::process::{self as host, ExitCode};

use arguments::Arguments;
use ending::{Ending, Stop};

const USAGE: &str = "\
usage: cargo xtask VERB [OPTIONS]

  quickstart [--device auto|cuda|sim]
          the main job: compile, run and verify the kernels of the corpus on the best device there is
  verify [--device auto|cuda|sim] [--kernel NAME] [--seed N] [--fuzz N] [--certify FILE] [--certificate FILE]
         [--junit FILE] [--json FILE] [--svg FILE] [CASE..]
          the oracle over the kernel corpus, random kernels, case files, or a certificate
  tune [KERNEL] [--device auto|cuda|sim] [--json FILE]
          searches schedules, correctness first, and keeps the winners
  bench AREA [--device auto|cuda|sim] [--quick] [--compare FILE] [--json FILE] [--markdown FILE] [--charts DIR]
          measures AREA, with quartiles and bars; --compare flags what became worse
  test [--long]
          all that can be tested without a GPU; closes with `N passed, N failed, N skipped`
  gpu-test [--device auto|cuda|sim] [--require-gpu] [--sanitizer TOOL] [--archive DIR | --from-archive DIR]
           [--junit FILE] [--json FILE] [--partition K/N] [--limit SECONDS] [FILTER]
          the tests that need a GPU, each in a process of its own; an archive runs without Rust
  sim -- COMMAND..
          runs a program on the simulated device
  doctor [--json FILE]
          driver, devices, NVRTC, headers, PTX ISA ceiling; what is missing and how to get it
  lint    fmt, clippy, rustdoc, arrows between crates, each crate alone, tidy
  release-check [features|docs|bindings|package|alone|minimal|deny|semver]
          what must hold before the crates are published
  help    this text

exit codes: 0 all good, 1 something failed, 2 the required device was not there or nothing ran,
3 the device faulted, 64 usage
";

fn main() -> ExitCode {
    end_when_nobody_reads();
    match run() {
        Ok(ending) => ending.into(),
        Err(stop) => {
            eprintln!("error: {stop}");
            stop.ending().into()
        }
    }
}

/// A closed or full standard output ends a verb as a failure: what cannot be reported is not all good.
fn end_when_nobody_reads() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|said| said.starts_with("failed printing to stdout")) {
            host::exit(Ending::Failed.code().into());
        }
        usual(panic);
    }));
}

fn run() -> Result<Ending, Stop> {
    let mut arguments = Arguments::from_command_line();
    let verb = arguments.verb(USAGE)?;
    match verb.as_str() {
        "quickstart" => quickstart::run(arguments),
        "verify" => verify::run(arguments),
        "tune" => tune::run(arguments),
        tune::WORKER => tune::run_worker(arguments),
        "bench" => bench::run(arguments),
        "test" => test::run(arguments),
        "gpu-test" => gpu_test::run(arguments),
        "doctor" => doctor::run(arguments),
        "sim" => sim::run(arguments),
        "lint" => lint::run(arguments),
        "release-check" => release::run(arguments),
        replay::VERB => replay::run(arguments),
        probe::VERB => probe::run(arguments),
        "help" => {
            arguments.options(USAGE).none()?;
            print!("{USAGE}");
            Ok(Ending::Good)
        }
        other => Err(Stop::usage(USAGE, format!("no verb named {other}"))),
    }
}
