//! The exit codes of the command itself, as scripts see them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

#[allow(clippy::unwrap_used, reason = "a command that cannot be started fails the test that starts it")]
fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_the_command_line_does_not_know_is_named_with_the_usage_and_ends_with_64() {
    for (arguments, named) in [
        (&[][..], "no verb given"),
        (&["nonsense"][..], "nonsense"),
        (&["lint", "--quick"][..], "--quick"),
        (&["test", "--long=yes"][..], "yes"),
        (&["doctor", "word"][..], "word"),
        (&["doctor", "--json"][..], "--json"),
    ] {
        let output = xtask(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        assert!(said.contains(named) && said.contains("usage: cargo xtask"), "{arguments:?}: {said}");
    }
}

#[test]
fn help_ends_well_and_names_every_verb() {
    let output = xtask(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for verb in ["test", "doctor", "lint"] {
        assert!(text(&output.stdout).contains(&format!("\n  {verb}")), "{verb}");
    }
}

#[test]
fn doctor_ends_well_on_any_machine_and_writes_its_report_as_json() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("doctor.json");
    let output = xtask(&["doctor", "--json", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).unwrap_or_default()).unwrap_or_default();
    assert_eq!(report["schema"], "cuforge-doctor/1");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let output = xtask(&["doctor", "--json", "/no/such/folder/doctor.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/folder/doctor.json"));
}
