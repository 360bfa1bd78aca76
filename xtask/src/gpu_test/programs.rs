//! The programs that hold the GPU tests, and the tests that they list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ending::Stop;
use crate::process;
use crate::test::libtest::{Outcome, Output, listed};
use crate::test::programs;

/// The test programs of the tests package that need a GPU.
const SELECTION: &[&str] = &["--package", "cuforge-tests", "--test", "gpu_*"];
/// What `needs a GPU: soak` marks: minutes of work, hours under a sanitizer.
const SOAK: &str = "soak";
/// A program that takes longer to list its tests hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// One test, and the program that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// `program::test`.
    pub(super) name: String,
    /// The test as its program knows it.
    pub(super) test: String,
    pub(super) program: PathBuf,
    /// What follows `needs a GPU:` where the test says why it is special.
    pub(super) special: Option<String>,
}

impl Case {
    /// Whether it needs silicon: what it is about is not on the simulated device, or would take it hours.
    pub(super) fn needs_silicon(&self) -> bool {
        self.special.as_deref().is_some_and(|special| !programs::BARE.contains(&special))
    }

    /// Whether no run under a sanitizer is made of it: a soak, or a test of [`programs::BARE`].
    pub(super) fn is_none_for_a_sanitizer(&self) -> bool {
        let special = self.special.as_deref();
        special.is_some_and(|special| special.starts_with(SOAK) || programs::BARE.contains(&special))
    }
}

/// Builds the programs with `extra` arguments to cargo.
///
/// # Errors
///
/// The tests do not build.
pub(super) fn build(extra: &[&str]) -> Result<Vec<PathBuf>, Stop> {
    let selection: Vec<&str> = SELECTION.iter().chain(extra).copied().collect();
    let built =
        programs::build(&selection, &[])?.ok_or_else(|| Stop::failed("the GPU tests do not build"))?;
    Ok(built.into_iter().map(|program| program.executable).collect())
}

/// The programs in an archive's folder `tests`.
///
/// # Errors
///
/// There is no such folder.
pub(super) fn archived(archive: &Path) -> Result<Vec<PathBuf>, Stop> {
    let folder = archive.join("tests");
    let failed = |error| Stop::failed(format!("the archive's {}: {error}", folder.display()));
    let entries = fs::read_dir(&folder).map_err(failed)?;
    // A bare name would be looked for in PATH.
    let mut programs: Vec<PathBuf> =
        entries.flatten().map(|entry| fs::canonicalize(entry.path()).unwrap_or(entry.path())).collect();
    programs.sort();
    Ok(programs)
}

/// `gpu_launch` of `gpu_launch-0aea5aa3308b9855`.
pub(super) fn stem(program: &Path) -> String {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or(&name).to_owned()
}

/// The tests of `programs`, sorted by name; those that need no GPU are left to `cargo xtask test`.
///
/// A program that cannot list its tests is told by name in the second list.
pub(super) fn cases(programs: &[PathBuf]) -> (Vec<Case>, Vec<String>) {
    let (mut cases, mut broken) = (Vec::new(), Vec::new());
    for program in programs {
        match reasons(program) {
            Ok(tests) => cases.extend(tests.into_iter().filter_map(|(test, reason)| {
                let (need, special) = split(&reason);
                (need == "needs a GPU").then(|| Case {
                    name: format!("{}::{test}", stem(program)),
                    test,
                    program: program.clone(),
                    special,
                })
            })),
            Err(why) => broken.push(format!("{} ({why})", stem(program))),
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    (cases, broken)
}

/// Why each ignored test of a program is ignored.
fn reasons(program: &Path) -> Result<BTreeMap<String, String>, String> {
    let list = run(program, &["--list", "--ignored", "--format", "terse"])?;
    let names = listed(&list).ok_or("its list of tests is not understood")?;
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Asked for by name and not with `--ignored`, an ignored test tells its reason and does not run.
    let mut arguments = vec!["--exact", "--color", "never"];
    arguments.extend(names.iter().map(String::as_str));
    let told = Output::read(&run(program, &arguments)?);
    Ok(told
        .outcomes
        .into_iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Ignored(reason) => Some((name, reason)),
            Outcome::Passed | Outcome::Failed => None,
        })
        .collect())
}

fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let captured = process::capture_group(command, LIMIT).map_err(|error| error.to_string())?;
    if captured.succeeded() { Ok(captured.stdout) } else { Err(captured.ending()) }
}

/// `needs a GPU: WHY` in its two parts.
fn split(reason: &str) -> (&str, Option<String>) {
    match reason.split_once(':') {
        Some((need, special)) => (need.trim(), Some(special.trim().to_owned())),
        None => (reason, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_name_without_cargos_hash() {
        assert_eq!(stem(Path::new("/t/gpu_launch-0aea5aa3308b9855")), "gpu_launch");
        assert_eq!(stem(Path::new("/archive/tests/gpu_launch")), "gpu_launch");
    }

    #[test]
    fn a_mark_says_whether_a_sanitizer_and_whether_the_simulated_device_takes_a_test() {
        let case = |special: Option<&str>| Case {
            name: "p::a".into(),
            test: "a".into(),
            program: "/bin/true".into(),
            special: special.map(str::to_owned),
        };
        for (special, bare, silicon) in [
            (Some("soak"), true, true),
            (Some("soak: 9 rounds"), true, true),
            (Some("faults on purpose"), true, false),
            (Some("loops on the device"), true, false),
            (Some("processes of its own"), true, false),
            (Some("clusters"), false, true),
            (None, false, false),
        ] {
            let case = case(special);
            assert_eq!(
                (case.is_none_for_a_sanitizer(), case.needs_silicon()),
                (bare, silicon),
                "{special:?}"
            );
        }
    }

    #[test]
    fn a_need_may_say_why_it_is_special() {
        assert_eq!(split("needs a GPU"), ("needs a GPU", None));
        assert_eq!(
            split("needs a GPU: soak: 100,000 rounds"),
            ("needs a GPU", Some("soak: 100,000 rounds".into()))
        );
    }
}
