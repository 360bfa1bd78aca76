//! Settings of the simulated driver reach it from the environment, each of them, and a program sees another machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

use cuforge_sim_driver::{Library, settings};
use cuforge_tests::c_program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

fn program() -> &'static (Library, PathBuf) {
    static PROGRAM: OnceLock<(Library, PathBuf)> = OnceLock::new();
    PROGRAM.get_or_init(|| c_program::prepared("settings", Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap())
}

/// What the program says of its machine under these settings, by the first words of each line.
fn machine(set: &[(&str, &str)]) -> impl Fn(&str) -> String + use<> {
    let (library, program) = program();
    let mut command = Command::new(program);
    settings().for_each(|(name, _)| {
        command.env_remove(name);
    });
    let set = set.iter().map(|(name, value)| (format!("CUFORGE_SIM_{name}"), *value));
    let output = command.envs(set).env("LD_LIBRARY_PATH", library.folder()).output().unwrap();
    assert!(output.status.success(), "{}", c_program::said(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    move |what| {
        let line = said.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("nothing of {what}: {said}")).to_owned()
    }
}

#[test]
fn without_settings_it_is_the_machine_that_is_told() {
    let is = machine(&[]);
    let told = ["init", "version", "devices", "name", "memory", "capability", "multiprocessors"].map(&is);
    assert_eq!(told, ["0", "13000", "1", "cuforge simulated device", "17179869184", "9.0", "132"]);
    let found = ["attribute 102", "cuMemMap", "cuFuncGetParamInfo", "fresh"].map(&is);
    assert_eq!(found, ["1", "found", "found", "7ff77ff7"]);
    let answers = ["first allocation", "second allocation", "too much", "turns", "race"].map(&is);
    assert_eq!(answers, ["0", "0", "0", "0", "719"], "3 GiB fit, and a hazard is found");
}

#[test]
fn every_trait_of_the_machine_can_be_set() {
    let is = machine(&[
        ("DEVICES", "2"),
        ("NAME", "another one"),
        ("CAPABILITY", "8.6"),
        ("MEMORY", "2G"),
        ("MULTIPROCESSORS", "84"),
        ("DRIVER_VERSION", "12.2"),
        ("ATTRIBUTES", "102=0"),
        ("HIDE", "cuMemMap"),
        ("POISON", "0"),
        ("THREADS", "1"),
        ("CHECKS", "bounds"),
    ]);
    let told = ["init", "version", "devices", "name", "memory", "capability", "multiprocessors"].map(&is);
    assert_eq!(told, ["0", "12020", "2", "another one", "2147483648", "8.6", "84"]);
    let found = ["attribute 102", "cuMemMap", "cuFuncGetParamInfo", "fresh"].map(&is);
    assert_eq!(found, ["0", "hidden", "too new", "00000000"]);
    assert_eq!(
        ["too much", "turns", "race"].map(&is),
        ["2", "0", "0"],
        "2 GiB are full, and no hazard is looked for"
    );
    assert_eq!(machine(&[("DEVICES", "0")])("init"), "100");
    assert_eq!(machine(&[("STEPS", "50")])("turns"), "702");
}

#[test]
fn calls_fail_take_longer_lose_the_device_and_are_written_down_as_the_environment_says() {
    let once = machine(&[("FAIL", "cuMemAlloc_v2@1=2"), ("CHECKS", "bounds")]);
    assert_eq!(["first allocation", "second allocation"].map(once), ["2", "0"]);
    let always = machine(&[("FAIL", "cuMemAlloc_v2@2+=4242")]);
    assert_eq!(["first allocation", "second allocation", "too much"].map(always), ["0", "4242", "4242"]);
    // The very first call of a process is planned like any other.
    assert_eq!(machine(&[("FAIL", "cuInit@1=999")])("init"), "999");
    let lost = machine(&[("LOSE", "cuEventCreate@1=214"), ("CHECKS", "bounds")]);
    assert_eq!(["race", "event"].map(lost), ["0", "214"]);
    let start = Instant::now();
    assert_eq!(machine(&[("DELAY", "cuEventCreate=400000")])("init"), "0");
    assert!(start.elapsed().as_millis() >= 400);
    let file = program().0.folder().join("trace");
    assert_eq!(machine(&[("TRACE", file.to_str().unwrap())])("init"), "0");
    let trace = std::fs::read_to_string(&file).unwrap();
    for line in ["cuInit(0x0) = 0", "cuMemAlloc_v2(", "the kernel turns", "the kernel race"] {
        assert!(trace.contains(line), "{line}: {trace}");
    }
}

/// Those that are set here, or in the tests of races, orders and views.
#[test]
fn no_setting_is_left_untested() {
    let here = include_str!("driver_settings.rs");
    let elsewhere =
        [include_str!("launch_races.rs"), include_str!("launch_order.rs"), include_str!("launch_marks.rs")];
    for (name, _) in settings() {
        let short = name.trim_start_matches("CUFORGE_SIM_");
        let tested =
            here.contains(&format!("(\"{short}\", ")) || elsewhere.iter().any(|text| text.contains(name));
        assert!(tested, "{name}");
    }
}
