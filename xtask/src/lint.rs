//! `cargo xtask lint`: formatting, clippy, rustdoc, arrows between crates, each crate alone, tidy.

mod arrows;
mod floors;
mod imports;
mod links;
mod promises;
mod publishing;
mod tidy;
mod tokens;
mod variables;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::arguments::Arguments;
use crate::ending::{Ending, Stop};
use crate::metadata::{self, Package};
use crate::{process, workspace};

const USAGE: &str = "usage: cargo xtask lint\n\nProves what CI asks of the source; takes no options.";

/// Runs every step, cheap ones first, and goes on after a failed one so that one run shows all there is to mend.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    arguments.options(USAGE).none()?;
    let packages = metadata::packages()?;
    let mut failed = Vec::new();
    let mut step = |name: &str, findings: Findings| {
        if !findings() {
            failed.push(name.to_owned());
        }
    };
    step("tidy", Box::new(|| timed("tidy", || tidy_findings(&packages))));
    step("publishing", Box::new(|| timed("publishing", || publishing_findings(&packages))));
    step("arrows", Box::new(|| timed("arrows", || arrow_findings(&packages))));
    step("fmt", Box::new(|| cargo("fmt", &["fmt", "--all", "--check"], None)));
    let clippy = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    step("clippy", Box::new(move || cargo("clippy", &clippy, None)));
    let doc = ["doc", "--quiet", "--workspace", "--no-deps"];
    step("rustdoc", Box::new(move || cargo("rustdoc", &doc, Some(("RUSTDOCFLAGS", "-D warnings")))));
    for package in &packages {
        let alone = format!("{} alone", package.name);
        step(&alone, Box::new(|| cargo(&alone, &["check", "--quiet", "--package", &package.name], None)));
    }
    if failed.is_empty() {
        println!("lint: all good");
        return Ok(Ending::Good);
    }
    println!("lint: failed: {}", failed.join(", "));
    Ok(Ending::Failed)
}

type Findings<'a> = Box<dyn FnOnce() -> bool + 'a>;

fn cargo(name: &str, arguments: &[&str], variable: Option<(&str, &str)>) -> bool {
    let mut command: Command = process::cargo();
    command.args(arguments);
    if let Some((key, value)) = variable {
        command.env(key, value);
    }
    timed(name, || match command.status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(status) => vec![format!("cargo {}: {status}", arguments.join(" "))],
        Err(error) => vec![format!("cargo {} cannot be run: {error}", arguments.join(" "))],
    })
}

/// Runs a step, shows its findings and its time, and tells whether it is clean.
fn timed(name: &str, step: impl FnOnce() -> Vec<String>) -> bool {
    let start = Instant::now();
    let findings = step();
    for finding in &findings {
        println!("  {finding}");
    }
    let verdict = if findings.is_empty() { "ok" } else { "FAILED" };
    println!("{name:<24} {verdict:<6} {:6.1} s", start.elapsed().as_secs_f64());
    findings.is_empty()
}

fn tidy_findings(packages: &[Package]) -> Vec<String> {
    let root = workspace::root();
    let files = tidy::files(root);
    let mut findings: Vec<String> = files.iter().flat_map(tidy::findings).collect();
    findings.extend(variables::findings(&files));
    findings.extend(links::findings(root, &files));
    match files.iter().find(|file| file.path == Path::new("ARCHITECTURE.md")) {
        Some(page) => findings.extend(promises::findings(page)),
        None => findings.push("ARCHITECTURE.md is missing".to_owned()),
    }
    for page in files.iter().filter(|file| file.path.extension().is_some_and(|extension| extension == "md")) {
        findings.extend(promises::gone(page, &files));
    }
    for package in packages {
        for target in &package.targets {
            let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path);
            let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
            findings.extend(imports::rings(path, &read));
            let library = target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "cdylib" | "bin"));
            if library
                && let (Some(room), Some(text)) = (floors::room(floors::HOUSE, &package.name), read(path))
            {
                findings.extend(tidy::root_findings(room, path, &text));
            }
        }
    }
    findings
}

fn publishing_findings(packages: &[Package]) -> Vec<String> {
    let read = |path: &str| {
        fs::read_to_string(workspace::root().join(path))
            .map_err(|error| format!("{path} cannot be read: {error}"))
    };
    match (read("rust-toolchain.toml"), read("docs/reference/features.md")) {
        (Ok(toolchain), Ok(page)) => {
            let mut findings = publishing::findings(packages, &toolchain, &|path| path.is_file());
            findings.extend(publishing::features_without_a_row(packages, &page));
            findings
        }
        (toolchain, page) => [toolchain.err(), page.err()].into_iter().flatten().collect(),
    }
}

fn arrow_findings(packages: &[Package]) -> Vec<String> {
    let mut findings = arrows::wrong(floors::HOUSE, packages);
    match fs::read_to_string(workspace::root().join("Cargo.lock")) {
        Ok(text) => {
            findings.extend(arrows::hidden(floors::HOUSE, packages, &arrows::Lock::parse(&text), "cudarc"));
        }
        Err(error) => findings.push(format!("Cargo.lock cannot be read: {error}")),
    }
    findings
}
