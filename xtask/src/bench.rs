//! `cargo xtask bench`: starts the benches in the release profile, in a program of their own.
//!
//! The peers that figures are compared with are dependencies of the benches alone: no other verb builds them.

use std::ffi::OsString;
use std::path;

use crate::arguments::{Arguments, Item};
use crate::ending::{Ending, Stop};
use crate::process;

const USAGE: &str = "\
usage: cargo xtask bench AREA [--quick] [--json FILE]

Measures AREA and shows medians with quartiles; a figure with a bar holds if its median does.
AREA           slab, compile, launch, graph, staging, sim, oracle, or all there are
--quick        few rounds: shows that the bench works, and judges no bar
--json FILE    also writes JSON";

const AREAS: &[&str] = &["slab", "compile", "launch", "graph", "staging", "sim", "oracle", "all"];

/// Checks the command line before anything is built, then builds and measures.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut words: Vec<OsString> = Vec::new();
    let mut options = arguments.options(USAGE);
    let mut area = None;
    while let Some(item) = options.next()? {
        match item {
            Item::Option(name) if name == "quick" => words.push("--quick".into()),
            Item::Option(name) if name == "json" => {
                // The benches start in the workspace root, the path is meant from here.
                let path = path::absolute(options.path()?)
                    .map_err(|error| options.refuse(format!("the path of --json: {error}")))?;
                words.extend(["--json".into(), path.into()]);
            }
            Item::Word(name) if area.is_none() => area = Some(name),
            other => return Err(options.unknown(&other)),
        }
    }
    match area {
        None => return Err(options.refuse("no area given")),
        Some(name) if !AREAS.contains(&name.as_str()) => {
            return Err(options.refuse(format!("no area named {name}")));
        }
        Some(name) => words.push(name.into()),
    }
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "cuforge-benches", "--"]).args(words);
    let status =
        command.status().map_err(|error| Stop::failed(format!("cargo run cannot be run: {error}")))?;
    let endings = [Ending::Good, Ending::NothingRan, Ending::DeviceFault, Ending::Usage];
    let ending = endings.into_iter().find(|ending| status.code() == Some(i32::from(ending.code())));
    Ok(ending.unwrap_or(Ending::Failed))
}
