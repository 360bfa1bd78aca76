//! `cargo xtask release-check`: what must hold before the crates are published, beyond what lint asks of every change.

mod powerset;
mod tools;

use std::fs;
use std::io;
use std::process::Command;

use crate::arguments::{Arguments, Item};
use crate::ending::{Ending, Stop};
use crate::metadata::{self, Package};
use crate::process;

const USAGE: &str = "\
usage: cargo xtask release-check [STEP]

Proves that the crates can be published. Without STEP all run, cheap ones first:
features   every set of features of every crate checks
docs       every crate's documentation builds as docs.rs builds it, without CUDA
bindings   the launcher checks with cudarc's bindings of every CUDA version from 12.4 on
package    every crate packs, and builds from what was packed, in dependency order
alone      every crate's tests build and pass with nothing else of the workspace selected
minimal    everything checks with the oldest dependencies that the manifests allow (needs a nightly toolchain)
deny       licences, advisories, bans and sources of every dependency (cargo-deny, installed when absent)
semver     no break of the public interface since the published version (cargo-semver-checks, installed when absent)

Lint holds the rest: metadata and READMEs, the oldest compiler, docs without warnings, each crate alone.";

/// One step: its name, and what it found.
type Step = (&'static str, fn(&[Package]) -> Result<Vec<String>, Stop>);

const STEPS: &[Step] = &[
    ("features", features),
    ("docs", docs),
    ("bindings", bindings),
    ("package", package),
    ("alone", alone),
    ("minimal", minimal),
    ("deny", deny),
    ("semver", semver),
];

/// The CUDA versions from 12.4 on that cudarc has bindings for, as its build script takes them.
const BINDINGS: &[&str] =
    &["12040", "12050", "12060", "12080", "12090", "13000", "13010", "13020", "13030", "13040"];

/// Runs one step or all, and goes on after a failed one.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut options = arguments.options(USAGE);
    let mut only = None;
    while let Some(item) = options.next()? {
        match &item {
            Item::Word(name) if only.is_none() => only = Some(name.clone()),
            _ => return Err(options.unknown(&item)),
        }
    }
    if let Some(name) = &only
        && !STEPS.iter().any(|(step, _)| step == name)
    {
        return Err(options.refuse(format!("no step named {name}")));
    }
    let published: Vec<Package> = metadata::packages()?.into_iter().filter(Package::is_published).collect();
    let mut failed = 0;
    for (name, step) in STEPS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let findings = step(&published).unwrap_or_else(|stop| vec![stop.to_string()]);
        for finding in &findings {
            println!("  {finding}");
        }
        println!("{name:<12} {}", if findings.is_empty() { "ok" } else { "FAILED" });
        failed += usize::from(!findings.is_empty());
    }
    Ok(if failed == 0 { Ending::Good } else { Ending::Failed })
}

/// Features are additive: whatever others turn on, a crate checks.
fn features(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for package in packages {
        let absent = powerset::out_of_reach(&package.card.metadata);
        for (feature, needs) in &absent {
            println!("  {}: feature {feature} not checked, it needs {needs}", package.name);
        }
        for set in powerset::sets(&package.features) {
            if absent.iter().any(|(feature, _)| set.contains(&feature.as_str())) {
                continue;
            }
            let list = set.join(",");
            let mut command = process::cargo();
            command.args(["check", "--quiet", "--package", &package.name, "--no-default-features"]);
            command.args(["--features", &list]);
            findings.extend(ran(command, &format!("{} with features [{list}]", package.name)));
        }
    }
    Ok(findings)
}

/// As `[package.metadata.docs.rs]` says, with docs.rs' variable and without a CUDA toolkit in reach.
fn docs(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for package in packages {
        let mut command = process::cargo();
        command.args([
            "doc",
            "--quiet",
            "--no-deps",
            "--target-dir",
            "target/docs-rs",
            "--package",
            &package.name,
        ]);
        if package.card.metadata["docs"]["rs"]["all-features"] == true {
            let absent = powerset::out_of_reach(&package.card.metadata);
            let named = package.features.keys().map(String::as_str).filter(|name| *name != "default");
            let reached: Vec<&str> =
                named.filter(|name| absent.iter().all(|(feature, _)| feature != name)).collect();
            for (feature, needs) in &absent {
                println!("  {}: feature {feature} not documented, it needs {needs}", package.name);
            }
            command.args(["--features", &reached.join(",")]);
        }
        command.env("DOCS_RS", "1").env("RUSTDOCFLAGS", "-D warnings");
        for variable in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"] {
            command.env_remove(variable);
        }
        findings.extend(ran(command, &format!("{} as docs.rs builds it", package.name)));
    }
    Ok(findings)
}

/// What another crate of the workspace turns on or brings along must not be what makes a crate's tests pass.
fn alone(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for package in packages {
        let mut command = process::cargo();
        command.args(["test", "--quiet", "--package", &package.name]);
        findings.extend(ran(command, &format!("{} tested alone", package.name)));
    }
    Ok(findings)
}

/// Cudarc's build script takes the version out of the environment; the launcher must not notice which it is.
fn bindings(_: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for version in BINDINGS {
        let mut command = process::cargo();
        command.args(["check", "--quiet", "--target-dir", "target/bindings", "--package", "cuforge-launch"]);
        command.env("CUDARC_CUDA_VERSION", version);
        findings.extend(ran(command, &format!("cuforge-launch with the bindings of CUDA {version}")));
    }
    Ok(findings)
}

fn package(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let mut command = process::cargo();
    // Cargo sorts them by their dependencies, and builds each against the packed form of those before it.
    command.args(["package", "--quiet", "--allow-dirty"]);
    for package in packages {
        command.args(["--package", &package.name]);
    }
    Ok(ran(command, "cargo package").into_iter().collect())
}

/// In a copy of what git has staged or committed, so that the lock file of the repository stays as it is.
fn minimal(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let target = crate::workspace::root().join("target");
    let copy = target.join("minimal-source");
    match fs::remove_dir_all(&copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Stop::failed(format!("emptying {}: {error}", copy.display())));
        }
        _ => {}
    }
    let mut check_out = Command::new("git");
    check_out.args(["checkout-index", "--all", "--prefix=target/minimal-source/"]);
    let mut update = process::nightly();
    update.args(["update", "--quiet", "-Z", "direct-minimal-versions"]);
    let first = [(check_out, "copying what git has"), (update, "resolving the oldest versions")];
    for ((mut command, what), folder) in first.into_iter().zip([crate::workspace::root(), &copy]) {
        command.current_dir(folder);
        if let Some(finding) = ran(command, what) {
            return Ok(vec![finding]);
        }
    }
    let mut findings = Vec::new();
    for package in packages {
        let mut check = process::cargo();
        check.args(["check", "--quiet", "--locked", "--package", &package.name, "--target-dir"]);
        check.arg(target.join("minimal")).current_dir(&copy);
        findings.extend(ran(check, &format!("{} with the oldest versions", package.name)));
    }
    Ok(findings)
}

/// Advisories apart: their database comes from the network, and its absence must not hide the rest.
fn deny(_: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for checks in [&["bans", "licenses", "sources"][..], &["advisories"]] {
        let mut command = tools::command(&tools::DENY)?;
        command
            .args(["--all-features", "--log-level", "error", "check", "--hide-inclusion-graph"])
            .args(checks);
        findings.extend(ran(command, &format!("cargo deny check {}", checks.join(" "))));
    }
    Ok(findings)
}

fn semver(packages: &[Package]) -> Result<Vec<String>, Stop> {
    let mut findings = Vec::new();
    for package in packages {
        if !tools::is_published(&package.name)? {
            println!("  {}: never published, so there is nothing to break", package.name);
            continue;
        }
        let mut command = tools::command(&tools::SEMVER)?;
        command.args(["semver-checks", "--package", &package.name]);
        findings.extend(ran(command, &format!("{}: semver", package.name)));
    }
    Ok(findings)
}

/// Runs a command with its output shown; what went wrong, if it did not end well.
fn ran(mut command: Command, what: &str) -> Option<String> {
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{what}: {status}")),
        Err(error) => Some(format!("{what} cannot be run: {error}")),
    }
}
