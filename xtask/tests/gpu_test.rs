//! The GPU test runner itself: each way in which a test or a machine can go wrong gives the right outcome and exit code,
//! and the other tests still run.
//!
//! This program is its own subject: the tests marked `needs a GPU` misbehave on purpose, and are run out of an archive that
//! holds a copy of this program beside the simulated driver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use cuforge::Session;
use cuforge_compile::{Compiler, SearchPaths};
use cuforge_core::{
    Access, Arguments, DeclaredBlock, Element, Extent, KernelSpec, Parameter, Request, Schedule,
};
use serde_json::Value;

/// Writes where nothing is mapped.
const STRAY: &str = "
.version 7.8
.target sm_75
.address_size 64
.visible .entry stray(.param .u64 out)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    add.s64 %rd1, %rd1, 1125899906842624;
    st.global.u32 [%rd1], 5;
    ret;
}";

mod subject {
    use super::*;

    #[test]
    #[ignore = "needs a GPU"]
    fn holds() {
        let mut session = Session::builder().slab_bytes(2 << 20).build().unwrap();
        session.synchronize().unwrap();
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn panics() {
        assert_eq!(2 + 2, 5, "arithmetic is off");
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn crashes() {
        let this = std::process::id().to_string();
        // The first one meets the handler that Rust's runtime puts there, which takes itself away and waits for the next.
        for _ in 0..2 {
            Command::new("kill").args(["-SEGV", &this]).status().unwrap();
        }
        thread::sleep(Duration::from_secs(600));
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn hangs() {
        let mut session = Session::builder().slab_bytes(2 << 20).build().unwrap();
        session.synchronize().unwrap();
        thread::sleep(Duration::from_secs(600));
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn leaks_a_sticky_error() {
        let mut session = Session::builder().slab_bytes(2 << 20).build().unwrap();
        let out = session.allocate(&Request::new(4)).unwrap();
        let out = out.bound_to(0, 0, Access::StorageReadWrite).unwrap();
        let block = DeclaredBlock { workgroup_size: [1, 1, 1], items_per_invocation: 1 };
        let parameter = Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite);
        // SAFETY: it strays on purpose, on a simulated device or in a process that ends with this test.
        let stray = unsafe { KernelSpec::ptx("stray", "stray", STRAY, vec![parameter]) };
        let stray = stray.with_declared_blocks(vec![block]);
        let arguments = Arguments { views: &[out], by_value: &[] };
        // The fault is swallowed, as a careless test would.
        let _ = session.run(&stray, &Schedule::new([1, 1, 1]), arguments, Extent::Elements(1));
        std::mem::forget(session);
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn is_unsupported() {
        panic!("unsupported here: clusters of blocks");
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn lacks_nvrtc() {
        // Nowhere to look: what a machine without NVRTC is to a test that compiles.
        let found = Compiler::find(&SearchPaths::only::<PathBuf>([]));
        let why = found.map(|_| ()).unwrap_err().to_string();
        panic!("skipped here: {}", why.lines().next().unwrap_or_default());
    }
}

/// What a run said and how it ended.
struct Ran {
    output: Output,
    report: Value,
}

impl Ran {
    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn said(&self) -> String {
        let Output { stdout, stderr, .. } = &self.output;
        format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.output.stdout).lines().map(str::to_owned).collect()
    }

    /// Outcome and reason of the subject of that name.
    fn outcome(&self, name: &str) -> (String, String) {
        let name = format!("gpu_subjects::subject::{name}");
        let tests = self.report["tests"].as_array().cloned().unwrap_or_default();
        let test = tests.into_iter().find(|test| test["name"] == name.as_str()).unwrap_or_default();
        let text = |key: &str| test[key].as_str().unwrap_or_default().to_owned();
        (text("outcome"), text("reason"))
    }
}

/// A command of the project, told nothing by the environment of this test.
fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env_remove("CUFORGE_BREADCRUMBS")
        .env_remove("CUFORGE_ARCHIVE");
    command
}

fn folder(name: &str) -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("gpu-test-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder with the simulated driver, built once.
fn simulated() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let output = xtask().args(["sim", "--", "printenv", "LD_LIBRARY_PATH"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(said.trim().split(':').next().unwrap_or_default())
    })
}

/// An archive that holds this program under the name `gpu_subjects`, with these lists.
fn archive(name: &str, manifest: &str, known_failures: &str) -> PathBuf {
    let archive = folder(name);
    fs::create_dir_all(archive.join("tests")).unwrap();
    fs::copy(env::current_exe().unwrap(), archive.join("tests/gpu_subjects")).unwrap();
    fs::create_dir_all(archive.join("sim")).unwrap();
    fs::copy(simulated().join("libcuda.so.1"), archive.join("sim/libcuda.so.1")).unwrap();
    fs::write(archive.join("gpu-tests.txt"), manifest).unwrap();
    fs::write(archive.join("gpu-known-failures.txt"), known_failures).unwrap();
    archive
}

fn run(archive: &Path, options: &[&str], prepare: impl FnOnce(&mut Command)) -> Ran {
    let json = archive.join("report.json");
    let mut command = xtask();
    command.args(["gpu-test", "--from-archive"]).arg(archive).arg("--json").arg(&json).args(options);
    prepare(&mut command);
    let output = command.output().unwrap();
    let report =
        fs::read(&json).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    Ran { output, report }
}

/// Runs the subjects on the simulated device.
fn on_the_simulated_device(archive: &Path, options: &[&str]) -> Ran {
    let mut all = vec!["--device", "sim"];
    all.extend(options);
    run(archive, &all, |_| {})
}

#[test]
fn a_crash_a_hang_a_sticky_error_and_a_skip_are_told_apart_and_the_others_still_run() {
    let archive = archive("outcomes", "", "");
    let ran = on_the_simulated_device(&archive, &["--limit", "20"]);
    assert_eq!(ran.code(), Some(3), "{}", ran.said());
    let outcome = |name| ran.outcome(name);
    assert_eq!(outcome("holds").0, "passed", "{}", ran.said());
    assert_eq!(outcome("panics").0, "failed");
    assert!(outcome("panics").1.contains("arithmetic is off"), "{:?}", outcome("panics"));
    let (crashed, why) = outcome("crashes");
    assert!(crashed == "failed" && why.contains("signal: 11"), "{crashed}: {why}");
    let (hung, why) = outcome("hangs");
    assert!(
        hung == "failed" && why.contains("time limit") && why.contains("cuStreamSynchronize"),
        "{hung}: {why}"
    );
    let (leaked, why) = outcome("leaks_a_sticky_error");
    assert!(leaked == "fault" && why.contains("700"), "{leaked}: {why}");
    assert_eq!(outcome("is_unsupported"), ("unsupported".into(), "clusters of blocks".into()));
    let (lacking, why) = outcome("lacks_nvrtc");
    assert!(lacking == "skipped" && why.to_lowercase().contains("nvrtc"), "{lacking}: {why}");
}

#[test]
fn a_run_without_a_gpu_says_so_in_its_first_and_last_line() {
    let archive = archive("lines", "gpu_subjects::subject::holds\n", "");
    let ran = on_the_simulated_device(&archive, &["subject::holds"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let lines = ran.lines();
    assert!(lines[0].starts_with("no GPU: "), "{lines:?}");
    assert!(
        lines
            .last()
            .is_some_and(|line| line.starts_with("1 passed, 0 failed") && line.contains("no GPU was used"))
    );
}

#[test]
fn a_hidden_gpu_and_a_broken_driver_library_are_absence_with_a_reason() {
    let archive = archive("absent", "", "");
    let hidden = run(&archive, &["--require-gpu"], |command| {
        command.env("CUDA_VISIBLE_DEVICES", "");
    });
    assert_eq!(hidden.code(), Some(2), "{}", hidden.said());
    assert!(
        hidden.lines()[0].starts_with("no GPU: ") && hidden.said().contains("nothing ran"),
        "{}",
        hidden.said()
    );

    let broken = archive.join("broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("libcuda.so.1"), "this is no library").unwrap();
    let with = |options: &[&str]| {
        run(&archive, options, |command| {
            command.env("LD_LIBRARY_PATH", &broken);
        })
    };
    let required = with(&["--device", "cuda"]);
    assert_eq!(required.code(), Some(2), "{}", required.said());
    assert!(required.said().contains("libcuda.so.1"), "{}", required.said());
    let fallen_back = with(&["subject::holds"]);
    assert_eq!(fallen_back.code(), Some(0), "{}", fallen_back.said());
    assert_eq!(fallen_back.outcome("holds").0, "passed");
}

#[test]
fn the_simulated_driver_is_no_gpu() {
    let archive = archive("posing", "", "");
    let ran = run(&archive, &["--device", "cuda"], |command| {
        command.env("LD_LIBRARY_PATH", simulated());
    });
    assert_eq!(ran.code(), Some(2), "{}", ran.said());
    assert!(ran.said().contains("simulated driver"), "{}", ran.said());
}

#[test]
fn a_vanished_test_fails_the_run_and_a_known_failure_that_passes_does_too() {
    let gone = archive("gone", "gpu_subjects::subject::holds\ngpu_subjects::subject::was_here\n", "");
    let ran = on_the_simulated_device(&gone, &["subject::holds"]);
    assert_eq!(ran.code(), Some(1), "{}", ran.said());
    assert_eq!(ran.report["vanished"][0], "gpu_subjects::subject::was_here");

    let known = "gpu_subjects::subject::panics | sim | * | arithmetic is off | it is a subject\n";
    let ran = on_the_simulated_device(&archive("known", "", known), &["subject::pan"]);
    assert_eq!(ran.code(), Some(2), "a known failure is no pass, and nothing else ran: {}", ran.said());
    assert_eq!(ran.report["tests"][0]["known_failure"], "it is a subject");

    let stale = "gpu_subjects::subject::holds | sim | * | it fails | it is no more\n";
    let ran = on_the_simulated_device(&archive("stale", "", stale), &["subject::holds"]);
    assert_eq!(ran.code(), Some(1), "{}", ran.said());
    assert_eq!(ran.report["stale"][0], "gpu_subjects::subject::holds");
}

#[test]
fn parts_of_a_run_together_are_the_whole() {
    let archive = archive("parts", "", "");
    let names = |part: &str| {
        let ran = on_the_simulated_device(&archive, &["--partition", part, "--limit", "5", "is_unsupported"]);
        ran.report["tests"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(names("1/2") + names("2/2"), 1);
}
