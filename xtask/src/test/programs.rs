//! The test programs that cargo builds: found by cargo's own messages, run one after the other.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::libtest::{self, Outcome, Output};
use super::tally::Tally;
use crate::ending::Stop;
use crate::process::{self, Captured};
use crate::toolchain::Version;

/// One test program of a package.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Package and target, for people.
    pub(crate) name: String,
    /// The program itself.
    pub(crate) executable: PathBuf,
    folder: PathBuf,
    package: String,
}

impl Program {
    /// Whether it is one of the programs that `cargo xtask gpu-test` runs.
    fn holds_gpu_tests(&self) -> bool {
        self.name.starts_with("tests tests/gpu_")
    }
}

/// One example of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// Its name.
    pub(crate) name: String,
    /// The package, by its folder.
    pub(crate) package: String,
    /// Its source file.
    pub(crate) source: PathBuf,
    /// The program itself.
    pub(crate) executable: PathBuf,
}

/// Builds the test programs that `selection` names to cargo, with `variables` set; `None` when the build failed, after
/// cargo has said why.
///
/// # Errors
///
/// Cargo could not be run, or its messages are not understood.
pub(crate) fn build(selection: &[&str], variables: &[(&str, &str)]) -> Result<Option<Vec<Program>>, Stop> {
    let mut command = process::cargo();
    command.args(["test", "--no-run"]).args(selection).envs(variables.iter().copied());
    Ok(messages(command)?.map(|messages| programs(&messages)))
}

/// Builds every example of the workspace; `None` when the build failed, after cargo has said why.
///
/// # Errors
///
/// As [`build`].
pub(crate) fn build_examples() -> Result<Option<Vec<Example>>, Stop> {
    let mut command = process::cargo();
    command.args(["build", "--workspace", "--examples"]);
    Ok(messages(command)?.map(|messages| examples(&messages)))
}

/// What cargo says of what it built; `None` when it could not build.
fn messages(mut command: Command) -> Result<Option<Vec<Message>>, Stop> {
    command.args(["--quiet", "--message-format=json-render-diagnostics"]);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::failed(format!("cargo cannot be run: {error}")))?;
    if !output.status.success() {
        return Ok(None);
    }
    read(&String::from_utf8_lossy(&output.stdout)).map(Some)
}

fn read(messages: &str) -> Result<Vec<Message>, Stop> {
    let lines = messages.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            serde_json::from_str(line)
                .map_err(|error| Stop::failed(format!("a message of cargo is not understood: {error}")))
        })
        .collect()
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    #[serde(default)]
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Message {
    /// Its program, what cargo calls it, and whether it is a test program; `None` if it tells of no program.
    fn program(&self) -> Option<(&PathBuf, &Target, bool)> {
        let (executable, target, profile) =
            (self.executable.as_ref()?, self.target.as_ref()?, self.profile.as_ref()?);
        (self.reason == "compiler-artifact").then_some((executable, target, profile.test))
    }

    /// The folder of its package, and that folder's name.
    fn package(&self) -> (PathBuf, String) {
        let folder = self.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        (folder, name)
    }
}

fn examples(messages: &[Message]) -> Vec<Example> {
    let mut examples: Vec<Example> = messages
        .iter()
        .filter_map(|message| {
            let (executable, target, _) = message.program()?;
            target.kind.iter().any(|kind| kind == "example").then(|| Example {
                name: target.name.clone(),
                package: message.package().1,
                source: target.src_path.clone(),
                executable: executable.clone(),
            })
        })
        .collect();
    examples.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    examples
}

fn programs(messages: &[Message]) -> Vec<Program> {
    let mut programs = Vec::new();
    for message in messages {
        let Some((executable, target, true)) = message.program() else { continue };
        let (folder, package) = message.package();
        let kind = target.kind.first().map_or("", String::as_str);
        let name = match kind {
            "test" => format!("{package} tests/{}", target.name),
            "bin" | "example" => format!("{package} {kind} {}", target.name),
            _ => package.clone(),
        };
        programs.push(Program { name, executable: executable.clone(), folder, package });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// What decides which ignored tests run, and for how long anything may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// The pinned NVRTC versions that are not to be had, each with why.
    pub(crate) without_nvrtc: &'a [(&'static str, String)],
    /// The variable that names the pinned NVRTC to a program, and its value; `None` when there is none.
    pub(crate) nvrtc: Option<&'a (&'static str, PathBuf)>,
    /// Whether there is a Vulkan driver.
    pub(crate) vulkan: bool,
    /// Whether tests that are only run at full length do run.
    pub(crate) long: bool,
    /// When a test program is stopped.
    pub(crate) limit: Duration,
    /// What makes a program find the simulated driver; nothing when there is none.
    pub(crate) simulated: &'a [(String, String)],
}

/// What `needs a GPU: WHY` says of tests that run on every device, the simulated one too, and not under a sanitizer. It
/// would report a fault on purpose; it does not follow the body of a loop on the device; and it looks into no process that a
/// test starts, so that a test which leaves all work to such processes shows it nothing.
pub(crate) const BARE: [&str; 3] = ["faults on purpose", "loops on the device", "processes of its own"];

/// Whether a test that is ignored for `reason` runs on the simulated device as well; one that says something else of the
/// GPU that it needs is for silicon.
fn is_for_any_gpu(reason: &str) -> bool {
    let why = reason.strip_prefix("needs a GPU");
    why.is_some_and(|why| why.is_empty() || why.strip_prefix(": ").is_some_and(|why| BARE.contains(&why)))
}

impl Rules<'_> {
    /// Whether a test that is ignored for `reason` can run here after all.
    fn allow(&self, reason: &str) -> bool {
        match reason.split(':').next().unwrap_or(reason) {
            "needs NVRTC" => self.missing(reason).is_none(),
            "needs Vulkan" => self.vulkan && (!reason.contains("NVRTC") || self.missing(reason).is_none()),
            "long" => self.long,
            "needs a recording" => env::var_os("CUFORGE_SIM_VECTORS").is_some(),
            _ => false,
        }
    }

    /// The first version that is missing of those that `reason` names behind its colon; of all if it names none.
    fn missing(&self, reason: &str) -> Option<&(&'static str, String)> {
        let named = Version::ALL.iter().any(|version| reason.contains(version.number()));
        self.without_nvrtc.iter().find(|(version, _)| !named || reason.contains(version))
    }

    /// A skip's reason, as the report says it.
    fn reason(&self, reason: &str) -> String {
        match (reason.split(':').next().unwrap_or(reason), self.missing(reason)) {
            ("", _) => "ignored without a reason".to_owned(),
            ("needs NVRTC", Some((version, why))) => format!("{reason} (no {version}: {why})"),
            ("needs Vulkan", _) if !self.vulkan => {
                format!("{reason} (no driver; Debian's mesa-vulkan-drivers brings one for CPUs)")
            }
            ("long", _) => format!("{reason} (run with --long)"),
            ("needs a GPU", _) => format!("{reason} (cargo xtask gpu-test runs them)"),
            _ => reason.to_owned(),
        }
    }
}

/// Runs one program: first all that is not ignored, then the ignored tests whose need is met, then those for a GPU on the
/// simulated device, each in a process of its own as a fault ends the device for its process.
pub(crate) fn run(program: &Program, rules: &Rules<'_>) -> (Tally, String) {
    let mut log = String::new();
    let mut start = |arguments: &[&str], variables: &[(String, String)]| -> Result<Captured, String> {
        let mut command = Command::new(&program.executable);
        command.args(arguments).current_dir(&program.folder);
        command.env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if rules.long {
            command.env("CUFORGE_LONG", "1");
        }
        let captured = process::capture(command, rules.limit).map_err(|error| error.to_string())?;
        log.push_str(&captured.stdout);
        log.push_str(&captured.stderr);
        Ok(captured)
    };
    // Only what `cargo xtask gpu-test` runs too: the subjects of the runner's own tests misbehave on purpose.
    let simulated = if program.holds_gpu_tests() { rules.simulated } else { &[] };
    let tally = run_with(&Rules { simulated, ..*rules }, &mut start);
    (tally, log)
}

/// Starts a test program with arguments and variables.
type Start<'a> = dyn FnMut(&[&str], &[(String, String)]) -> Result<Captured, String> + 'a;

fn run_with(rules: &Rules<'_>, start: &mut Start<'_>) -> Tally {
    let expected = match list(start) {
        Ok(expected) => expected,
        Err(why) => return Tally { failed: vec![why], ..Tally::default() },
    };
    if expected.is_empty() {
        return Tally::default();
    }
    let mut died = Vec::new();
    let mut output = told(start(&["--color", "never"], &[]), &mut died);
    let wanted: Vec<String> = output
        .outcomes
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Outcome::Ignored(reason) if rules.allow(reason)))
        .map(|(name, _)| name.clone())
        .collect();
    if !wanted.is_empty() {
        let mut arguments = vec!["--color", "never", "--ignored", "--exact"];
        arguments.extend(wanted.iter().map(String::as_str));
        let second = told(start(&arguments, &[]), &mut died);
        for name in &wanted {
            // One that the second run did not tell must not keep the outcome of the first.
            output.outcomes.remove(name);
        }
        output.outcomes.extend(second.outcomes);
        output.closed &= second.closed;
    }
    let for_a_gpu = |outcome: &Outcome| matches!(outcome, Outcome::Ignored(reason) if is_for_any_gpu(reason));
    let mut simulated: Vec<String> = Vec::new();
    if !rules.simulated.is_empty() {
        let found = output.outcomes.iter().filter(|(_, outcome)| for_a_gpu(outcome));
        simulated.extend(found.map(|(name, _)| name.clone()));
    }
    for name in &simulated {
        let arguments = ["--color", "never", "--ignored", "--exact", name];
        let one = told(start(&arguments, rules.simulated), &mut died);
        output.outcomes.remove(name);
        output.outcomes.extend(one.outcomes);
        output.closed &= one.closed;
    }
    let mut tally = output.tally(&expected, |reason| rules.reason(reason));
    tally.failed.extend(died);
    tally
}

fn list(start: &mut Start<'_>) -> Result<BTreeSet<String>, String> {
    let captured = start(&["--list", "--format", "terse"], &[])?;
    if !captured.succeeded() {
        return Err(format!("(listing the tests: {})", captured.ending()));
    }
    libtest::listed(&captured.stdout).ok_or_else(|| "(its list of tests is not understood)".to_owned())
}

/// The outcomes of a run. A program that ends badly without naming a failed test goes to `died`.
fn told(captured: Result<Captured, String>, died: &mut Vec<String>) -> Output {
    match captured {
        Ok(captured) => {
            let output = Output::read(&captured.stdout);
            let named = output.outcomes.values().any(|outcome| *outcome == Outcome::Failed);
            if !captured.succeeded() && !named {
                died.push(format!("(the test program: {})", captured.ending()));
            }
            output
        }
        Err(error) => {
            died.push(error);
            Output::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a test program: what it prints and its exit code, by its first argument after `--color never`.
    fn played(rules: Rules<'_>, list: &str, plain: (&str, i32), ignored: (&str, i32)) -> Tally {
        run_with(&rules, &mut |arguments, _| {
            let (said, code) = match arguments {
                ["--list", ..] => (list, 0),
                [_, _, "--ignored", ..] => ignored,
                _ => plain,
            };
            let mut command = Command::new("sh");
            command.args(["-c", "printf '%s' \"$1\"; exit $2", "sh", said, &code.to_string()]);
            process::capture(command, Duration::from_secs(60)).map_err(|error| error.to_string())
        })
    }

    const LIST: &str = "a: test\nb: test\n";
    const PLAIN: &str = "running 2 tests\ntest a ... ok\ntest b ... ignored, needs NVRTC\ntest result: ok.\n";

    fn rules<'a>(without: &'a [(&'static str, String)]) -> Rules<'a> {
        Rules {
            without_nvrtc: without,
            nvrtc: None,
            vulkan: false,
            long: false,
            limit: Duration::from_secs(60),
            simulated: &[],
        }
    }

    #[test]
    fn a_test_whose_need_is_not_met_is_skipped_with_the_reason_and_never_passed() {
        let tally = played(rules(&[("12.4.127", "no pip".to_owned())]), LIST, (PLAIN, 0), ("", 1));
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 1 skipped");
        assert_eq!(tally.skipped["needs NVRTC (no 12.4.127: no pip)"], ["b"]);
    }

    #[test]
    fn a_version_that_is_missing_leaves_out_the_tests_that_need_it_and_no_other() {
        let without = [("12.4.127", "no network".to_owned())];
        let rules = rules(&without);
        assert!(rules.allow("needs NVRTC: 13.5.37") && rules.allow("needs NVRTC: 12.9.86 and 13.5.37"));
        assert!(!rules.allow("needs NVRTC: 12.4.127 and 13.5.37") && !rules.allow("needs NVRTC"));
        assert_eq!(rules.reason("needs NVRTC: 12.4.127"), "needs NVRTC: 12.4.127 (no 12.4.127: no network)");
    }

    #[test]
    fn a_test_whose_need_is_met_runs_and_counts_by_what_it_did() {
        let ok = "running 1 test\ntest b ... ok\ntest result: ok.\n";
        assert_eq!(
            played(rules(&[]), LIST, (PLAIN, 0), (ok, 0)).to_string(),
            "2 passed, 0 failed, 0 skipped"
        );
        let bad = "running 1 test\ntest b ... FAILED\ntest result: FAILED.\n";
        assert_eq!(
            played(rules(&[]), LIST, (PLAIN, 0), (bad, 101)).to_string(),
            "1 passed, 1 failed, 0 skipped"
        );
        // A second run that tells nothing about the test leaves it failed, not skipped.
        let silent = "running 0 tests\ntest result: ok.\n";
        assert_eq!(played(rules(&[]), LIST, (PLAIN, 0), (silent, 0)).failed.len(), 1);
    }

    #[test]
    fn tests_for_a_gpu_run_on_the_simulated_device_one_by_one_and_those_that_need_silicon_do_not() {
        let plain = "running 3 tests\ntest a ... ignored, needs a GPU\n\
                     test b ... ignored, needs a GPU: faults on purpose\n\
                     test c ... ignored, needs a GPU: clusters\ntest result: ok.\n";
        let simulated = [("LD_LIBRARY_PATH".to_owned(), "sim".to_owned())];
        let mut alone = Vec::new();
        let mut say = |arguments: &[&str], variables: &[(String, String)]| {
            let said = match arguments {
                ["--list", ..] => "a: test\nb: test\nc: test\n".to_owned(),
                [_, _, "--ignored", "--exact", name] if variables == simulated => {
                    alone.push((*name).to_owned());
                    let outcome = if *name == "a" { "ok" } else { "FAILED" };
                    format!("running 1 test\ntest {name} ... {outcome}\ntest result: ok.\n")
                }
                _ => plain.to_owned(),
            };
            let mut command = Command::new("printf");
            command.args(["%s", &said]);
            process::capture(command, Duration::from_secs(60)).map_err(|error| error.to_string())
        };
        let tally = run_with(&Rules { simulated: &simulated, ..rules(&[]) }, &mut say);
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(alone, ["a", "b"]);
    }

    #[test]
    fn a_program_that_dies_half_way_fails_with_the_tests_it_did_not_tell() {
        let tally = played(rules(&[]), LIST, ("running 2 tests\ntest a ... ok\n", 134), ("", 0));
        assert_eq!(tally.passed, 1);
        assert!(tally.failed.iter().any(|name| name.starts_with("b ")), "{:?}", tally.failed);
        assert!(tally.failed.iter().any(|name| name.contains("134")), "{:?}", tally.failed);
    }

    #[test]
    fn a_bad_exit_code_after_good_outcomes_is_a_failure() {
        let all_ok = "running 2 tests\ntest a ... ok\ntest b ... ok\ntest result: ok.\n";
        assert_eq!(played(rules(&[]), LIST, (all_ok, 1), ("", 0)).failed.len(), 1);
    }

    #[test]
    fn only_test_artifacts_of_cargo_are_programs() {
        let messages = [
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/x/Cargo.toml","target":{"name":"x","kind":["lib"]},"profile":{"test":true},"executable":"/t/x-1"}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/w/xtask/Cargo.toml","target":{"name":"xtask","kind":["bin"]},"profile":{"test":false},"executable":"/t/xtask"}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/x/Cargo.toml","target":{"name":"defects","kind":["test"]},"profile":{"test":true},"executable":"/t/d-1"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]
        .join("\n");
        let names: Vec<String> =
            programs(&read(&messages).unwrap()).into_iter().map(|program| program.name).collect();
        assert_eq!(names, ["x", "x tests/defects"]);
    }

    #[test]
    fn examples_are_told_with_their_package_and_their_source() {
        let messages = [
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/x/Cargo.toml","target":{"name":"x","kind":["lib"],"src_path":"/w/crates/x/src/lib.rs"},"profile":{"test":false},"executable":null}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/x/Cargo.toml","target":{"name":"first","kind":["example"],"src_path":"/w/crates/x/examples/first.rs"},"profile":{"test":false},"executable":"/t/first"}"#,
        ]
        .join("\n");
        let first = Example {
            name: "first".to_owned(),
            package: "x".to_owned(),
            source: "/w/crates/x/examples/first.rs".into(),
            executable: "/t/first".into(),
        };
        assert_eq!(examples(&read(&messages).unwrap()), [first]);
        assert!(read("{ no message }").is_err());
    }
}
