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
        (&["help", "me"][..], "\"me\""),
        (&["lint", "--quick"][..], "--quick"),
        (&["test", "--long=yes"][..], "yes"),
        (&["doctor", "word"][..], "word"),
        (&["doctor", "--json"][..], "--json"),
        (&["quickstart", "--device", "gpu"][..], "no device named gpu"),
        (&["quickstart", "--kernel", "gemm"][..], "--kernel"),
        (&["verify", "--kernel", "fft"][..], "no kernel named fft"),
        (&["verify", "--seed", "-1"][..], "-1"),
        (&["bench"][..], "no area given"),
        (&["bench", "slab", "--device", "rocm"][..], "no device named rocm"),
        (&["bench", "slab", "--from", "x.json"][..], "--from measures nothing"),
        (&["gpu-test", "--partition", "3/2"][..], "K/N"),
        (&["gpu-test", "--sanitizer", "leakcheck"][..], "leakcheck"),
        (&["gpu-test", "--archive", "a", "--from-archive", "b"][..], "exclude each other"),
        (&["gpu-test", "--device=sim", "--require-gpu"][..], "exclude each other"),
        (&["sim"][..], "no command given"),
        (&["sim", "cargo", "run"][..], "before --"),
        (&["release-check", "sermver"][..], "no step named sermver"),
        (&["bench", "everything"][..], "no area named everything"),
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
    for verb in
        ["quickstart", "verify", "bench", "test", "gpu-test", "sim", "doctor", "lint", "release-check"]
    {
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
    assert_eq!(report["schema"], "cuforge-doctor/2");
}

#[test]
fn a_kernel_is_verified_on_the_simulated_device_and_reported_as_json_and_junit() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (json, junit) = (folder.join("verify.json"), folder.join("verify.xml"));
    let (json_text, junit_text) = (json.display().to_string(), junit.display().to_string());
    let output =
        xtask(&["verify", "--device=sim", "--kernel=top_k", "--json", &json_text, "--junit", &junit_text]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("3 passed, 0 failed, 0 not run"), "{}", text(&output.stdout));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).unwrap_or_default()).unwrap_or_default();
    assert_eq!(report["cases"][0]["verdict"], "passed");
    assert!(fs::read_to_string(&junit).unwrap_or_default().contains("tests=\"3\" failures=\"0\""));
}

#[test]
fn a_required_gpu_that_cannot_be_used_ends_with_2_and_nothing_ran() {
    // Hides every device where there is a driver; where there is none it changes nothing.
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output =
        command.args(["quickstart", "--device", "cuda"]).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no CUDA device can be used") && said.contains("nothing ran"), "{said}");
    assert!(!text(&output.stdout).contains("passed"));
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let output = xtask(&["doctor", "--json", "/no/such/folder/doctor.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/folder/doctor.json"));
}

#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::unwrap_used, reason = "a machine without /dev/full fails the test")]
fn a_standard_output_that_takes_nothing_is_a_failure_and_no_panic() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("doctor").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
}
