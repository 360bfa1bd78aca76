//! `cargo xtask gpu-test`: the tests that need a GPU, each in a process of its own, here or out of an archive.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cuforge::launch::Device;

use crate::arguments::{Arguments, Item};
use crate::ending::{Ending, Stop};
use crate::process;
use crate::test::libtest::{Outcome, Output, listed};
use crate::test::programs;

const USAGE: &str = "\
usage: cargo xtask gpu-test [--require-gpu] [--archive DIR | --from-archive DIR] [FILTER]

Runs every test that needs a GPU, each in a process of its own, on the first CUDA device.
--require-gpu       a test that could not run is a failure
--archive DIR       runs nothing: puts the test programs and this command into DIR, for a machine without Rust
--from-archive DIR  runs the programs in DIR and builds nothing: DIR/xtask gpu-test --from-archive DIR
FILTER              only tests whose name holds this text";

/// The test programs of the tests package that need a GPU.
const SELECTION: &[&str] = &["--package", "cuforge-tests", "--test", "gpu_*"];

/// A test that takes longer is stopped and has failed.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A device fault that a test did not expect ends its process with these words.
const FAULT: &str = "the device is lost to this process";

#[derive(Debug, Default)]
struct Wanted {
    require_gpu: bool,
    archive: Option<PathBuf>,
    from_archive: Option<PathBuf>,
    filter: Option<String>,
}

/// Builds or finds the programs, runs their tests, counts.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let wanted = read(arguments)?;
    if let Some(folder) = &wanted.archive {
        return archive(folder);
    }
    match Device::open(0) {
        Ok(device) => {
            println!("device    {}", device.adapter().name);
            println!("driver    {} (CUDA {})", device.adapter().driver, device.driver().version());
        }
        Err(error) => {
            println!("no GPU: {error}");
            return Err(Stop::new(Ending::NothingRan, "no CUDA device can be used; nothing ran"));
        }
    }
    let programs = match &wanted.from_archive {
        Some(folder) => archived(folder)?,
        None => built()?,
    };
    let mut counts = Counts::default();
    for program in &programs {
        run_program(program, wanted.filter.as_deref(), &mut counts)?;
    }
    println!();
    for name in &counts.failed {
        println!("FAILED {name}");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed.len(), counts.skipped);
    Ok(counts.ending(wanted.require_gpu))
}

fn read(arguments: Arguments) -> Result<Wanted, Stop> {
    let mut options = arguments.options(USAGE);
    let mut wanted = Wanted::default();
    while let Some(item) = options.next()? {
        match &item {
            Item::Option(name) if name == "require-gpu" => wanted.require_gpu = true,
            Item::Option(name) if name == "archive" => wanted.archive = Some(options.path()?),
            Item::Option(name) if name == "from-archive" => wanted.from_archive = Some(options.path()?),
            Item::Word(text) if wanted.filter.is_none() => wanted.filter = Some(text.clone()),
            _ => return Err(options.unknown(&item)),
        }
    }
    if wanted.archive.is_some() && wanted.from_archive.is_some() {
        return Err(options.refuse("--archive and --from-archive exclude each other"));
    }
    Ok(wanted)
}

fn built() -> Result<Vec<PathBuf>, Stop> {
    let programs = programs::build(SELECTION, &[])?;
    let programs = programs.ok_or_else(|| Stop::failed("the GPU tests do not build"))?;
    Ok(programs.into_iter().map(|program| program.executable).collect())
}

/// Copies the programs and this command into `folder`.
fn archive(folder: &Path) -> Result<Ending, Stop> {
    let failed = |what: &Path, error| Stop::failed(format!("{}: {error}", what.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let this = env::current_exe().map_err(|error| failed(Path::new("this program"), error))?;
    let mut copies = vec![(this, folder.join("xtask"))];
    for program in built()? {
        let name = stem(&program);
        copies.push((program, folder.join(name)));
    }
    for (from, to) in &copies {
        fs::copy(from, to).map_err(|error| failed(to, error))?;
        println!("{}", to.display());
    }
    Ok(Ending::Good)
}

/// `gpu_launch` of `gpu_launch-0aea5aa3308b9855`.
fn stem(program: &Path) -> String {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or(&name).to_owned()
}

fn archived(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let entries = fs::read_dir(folder)
        .map_err(|error| Stop::failed(format!("the archive {}: {error}", folder.display())))?;
    let mut programs: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gpu_")))
        // A bare name would be looked for in PATH.
        .map(|path| fs::canonicalize(&path).unwrap_or(path))
        .collect();
    programs.sort();
    Ok(programs)
}

#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
    faulted: bool,
}

impl Counts {
    fn ending(&self, require_gpu: bool) -> Ending {
        if self.faulted {
            Ending::DeviceFault
        } else if !self.failed.is_empty() || (require_gpu && self.skipped > 0) {
            Ending::Failed
        } else if self.passed == 0 {
            Ending::NothingRan
        } else {
            Ending::Good
        }
    }
}

/// Runs each test of one program in a process of its own.
fn run_program(program: &Path, filter: Option<&str>, counts: &mut Counts) -> Result<(), Stop> {
    let start = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        process::capture(command, LIMIT)
            .map_err(|error| Stop::failed(format!("{} cannot be run: {error}", program.display())))
    };
    let told = start(&["--list", "--format", "terse"])?;
    let names: BTreeSet<String> = listed(&told.stdout).unwrap_or_default();
    if names.is_empty() {
        counts.failed.push(format!("{} (it lists no tests)", program.display()));
    }
    for name in names.iter().filter(|name| filter.is_none_or(|text| name.contains(text))) {
        let begun = Instant::now();
        let ran = start(&["--exact", name, "--include-ignored", "--nocapture", "--color", "never"])?;
        let outcome = outcome(name, &ran.stdout, ran.succeeded());
        println!("{name:<84} {} ({:.1} s)", outcome.word(), begun.elapsed().as_secs_f64());
        match outcome {
            Ran::Passed => counts.passed += 1,
            Ran::Skipped => counts.skipped += 1,
            Ran::Failed => {
                println!("{}{}", ran.stdout, ran.stderr);
                counts.failed.push(name.clone());
                counts.faulted |= ran.stderr.contains(FAULT);
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Passed,
    Failed,
    Skipped,
}

impl Ran {
    const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// What became of the one test of a process: passed only if the harness counted it as passed and ended well.
fn outcome(name: &str, stdout: &str, succeeded: bool) -> Ran {
    let output = Output::read(stdout);
    // What a test prints may stand in its line, so the closing count is what is believed.
    let closing = stdout.lines().rev().find(|line| line.starts_with("test result: "));
    match output.outcomes.get(name) {
        Some(Outcome::Ignored(_)) => Ran::Skipped,
        _ if succeeded
            && closing.is_some_and(|line| line.starts_with("test result: ok. 1 passed; 0 failed")) =>
        {
            Ran::Passed
        }
        _ => Ran::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "running 1 test\ntest a ... it says something\nok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.1s\n";

    #[test]
    fn only_a_counted_pass_of_a_program_that_ended_well_is_a_pass() {
        assert_eq!(outcome("a", PASSED, true), Ran::Passed);
        assert_eq!(outcome("a", PASSED, false), Ran::Failed);
        assert_eq!(outcome("a", "running 1 test\n", true), Ran::Failed);
        let nothing =
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out\n";
        assert_eq!(outcome("a", nothing, true), Ran::Failed);
    }

    #[test]
    fn a_fault_outweighs_a_failure_and_nothing_run_is_no_success() {
        let counts = |passed, failed: &[&str], skipped, faulted| Counts {
            passed,
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            skipped,
            faulted,
        };
        assert_eq!(counts(3, &["x"], 0, true).ending(false), Ending::DeviceFault);
        assert_eq!(counts(3, &["x"], 0, false).ending(false), Ending::Failed);
        assert_eq!(counts(3, &[], 1, false).ending(true), Ending::Failed);
        assert_eq!(counts(3, &[], 1, false).ending(false), Ending::Good);
        assert_eq!(counts(0, &[], 0, false).ending(false), Ending::NothingRan);
    }

    #[test]
    fn an_archived_program_keeps_its_name_without_cargos_hash() {
        assert_eq!(stem(Path::new("/t/gpu_launch-0aea5aa3308b9855")), "gpu_launch");
    }
}
