//! `cargo xtask test`: all that can be tested without a GPU, closed by one line `N passed, N failed, N skipped`.
//!
//! A test that needs a GPU runs on the simulated device, unless it says what of the GPU it needs
//! (`needs a GPU: clusters`). A test that needs NVRTC says `#[ignore = "needs NVRTC"]`. It runs where NVRTC could be had and is counted as skipped,
//! with the reason, where not; so is one that needs Vulkan. A test that did not run is never counted as passed.

mod examples;
pub(crate) mod libtest;
pub(crate) mod programs;
mod tally;
mod vulkan;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest::Output;
use programs::Rules;
use tally::Tally;

use crate::arguments::{Arguments, Item};
use crate::ending::{Ending, Stop};
use crate::toolchain::{self, Version};
use crate::{process, simulated, workspace};

const USAGE: &str = "\
usage: cargo xtask test [--long]

Runs all that can be tested without a GPU, examples and those in the docs included; fetches NVRTC, its headers and ptxas into
target/cuda/ when absent. --long runs soaks and sweeps at full length.";

/// A test program that runs longer than this is stopped and has failed.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const LIMIT_LONG: Duration = Duration::from_secs(8 * 60 * 60);

/// Fetches, builds, runs and counts.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut options = arguments.options(USAGE);
    let mut long = false;
    while let Some(item) = options.next()? {
        match &item {
            Item::Option(name) if name == "long" => long = true,
            _ => return Err(options.unknown(&item)),
        }
    }
    let missing = fetch();
    let simulated = simulated::variables(None)?;
    let limit = if long { LIMIT_LONG } else { LIMIT };
    let nvrtc = toolchain::variable();
    let vulkan = vulkan::driver().is_some();
    let rules =
        Rules { without_nvrtc: &missing, nvrtc: nvrtc.as_ref(), vulkan, long, limit, simulated: &simulated };

    let mut total = Tally::default();
    built("test programs", (EVERYTHING, &[]), &rules, &mut total)?;
    built("tests of the Vulkan backend", (VULKAN, &[]), &rules, &mut total)?;
    built("model checks", (MODEL_CHECKS, MODEL_CHECK_VARIABLES), &rules, &mut total)?;
    every_example(&rules, &mut total)?;
    shown("doc examples", &mut total, || doc_examples(&rules));
    Ok(close(&total))
}

/// Builds the examples and runs each by its documented command.
fn every_example(rules: &Rules<'_>, total: &mut Tally) -> Result<(), Stop> {
    let Some(examples) = programs::build_examples()? else {
        total.fail("the build of the examples");
        return Ok(());
    };
    for example in &examples {
        let scratch = examples::scratch(&workspace::root().join("target"), &example.name);
        let name = format!("{} example {}", example.package, example.name);
        shown(&name, total, || examples::run(example, &scratch, rules));
    }
    Ok(())
}

/// Makes sure of every pinned toolchain; those that cannot be made, each with the reason for which tests are skipped.
fn fetch() -> Vec<(&'static str, String)> {
    let mut missing = Vec::new();
    for version in Version::ALL {
        match toolchain::ensure(&[version]) {
            Ok(made) => {
                let cost = made.first().and_then(|made| made.fetched).map_or_else(String::new, |cost| {
                    let (bytes, seconds) = (cost.download_bytes, cost.elapsed.as_secs_f64());
                    format!(" (fetched {} MB in {seconds:.0} s)", bytes / 1_000_000)
                });
                println!("NVRTC {}{cost}", version.number());
            }
            Err(error) => {
                println!("NVRTC {} is not to be had: {error}", version.number());
                println!("every test that needs it is counted as skipped");
                // What pip printed is shown once, above; the reason stands behind every test that is left out.
                let said = error.to_string();
                missing.push((version.number(), said.split(": ").next().unwrap_or(&said).to_owned()));
            }
        }
    }
    missing
}

/// Which programs a plain run is made of.
const EVERYTHING: &[&str] = &["--workspace"];
/// The tests of a backend that is a feature of its own.
const VULKAN: &[&str] = &[
    "--package=cuforge-oracle",
    "--package=cuforge-tests",
    "--features=cuforge-oracle/wgpu,cuforge-tests/vulkan",
    "--test=vulkan",
];
/// The model checks: other atomics, so a build of their own beside the usual one.
const MODEL_CHECKS: &[&str] =
    &["--package", "cuforge-core", "--test", "loom", "--release", "--target-dir", "target/loom"];
const MODEL_CHECK_VARIABLES: &[(&str, &str)] = &[
    ("RUSTFLAGS", "--cfg loom"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Builds what `selection` names, runs it, and counts; a build that fails is one failure.
fn built(
    what: &str,
    (selection, variables): (&[&str], &[(&str, &str)]),
    rules: &Rules<'_>,
    total: &mut Tally,
) -> Result<(), Stop> {
    let start = Instant::now();
    let Some(programs) = programs::build(selection, variables)? else {
        total.fail(format!("the build of the {what}"));
        return Ok(());
    };
    println!("{} {what} built in {:.1} s", programs.len(), start.elapsed().as_secs_f64());
    for program in &programs {
        shown(&program.name, total, || programs::run(program, rules));
    }
    Ok(())
}

fn doc_examples(rules: &Rules<'_>) -> (Tally, String) {
    let mut command: Command = process::cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--", "--color", "never"]);
    let captured = match process::capture(command, rules.limit) {
        Ok(captured) => captured,
        Err(error) => {
            return (
                Tally { failed: vec![format!("(cannot be run: {error})")], ..Tally::default() },
                String::new(),
            );
        }
    };
    let output = Output::read(&captured.stdout);
    // Rustdoc lists nothing beforehand without compiling twice, so what it told is what is expected.
    let told: BTreeSet<String> = output.outcomes.keys().cloned().collect();
    let reason = |why: &str| if why.is_empty() { "the example is marked `ignore`" } else { why }.to_owned();
    let mut tally = output.tally(&told, reason);
    if !captured.succeeded() && tally.failed.is_empty() {
        tally.fail(format!("(cargo test --doc: {})", captured.ending()));
    }
    (tally, captured.stdout + &captured.stderr)
}

/// Runs one part, shows a line for it (and its whole output if something failed), and counts it.
fn shown(name: &str, total: &mut Tally, part: impl FnOnce() -> (Tally, String)) {
    let start = Instant::now();
    let (tally, log) = part();
    if !tally.failed.is_empty() {
        println!("{}", log.trim_end());
    }
    println!("{name:<44} {tally} ({:.1} s)", start.elapsed().as_secs_f64());
    total.absorb(name, tally);
}

fn close(total: &Tally) -> Ending {
    println!();
    for (reason, names) in &total.skipped {
        println!("skipped, {reason}: {}", names.len());
        for name in names {
            println!("  {name}");
        }
    }
    for name in &total.failed {
        println!("FAILED {name}");
    }
    println!("{total}");
    if !total.failed.is_empty() {
        Ending::Failed
    } else if total.passed == 0 {
        Ending::NothingRan
    } else {
        Ending::Good
    }
}
