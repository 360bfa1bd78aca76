//! `cargo xtask bench`: starts the benches in the release profile, in a program of their own.
//!
//! The peers that figures are compared with are dependencies of the benches alone: no other verb builds them.

use std::ffi::OsString;
use std::path;

use crate::arguments::{Arguments, Item, Options};
use crate::device::Wish;
use crate::ending::{Ending, Stop};
use crate::{probe, process, simulated};

const USAGE: &str = "\
usage: cargo xtask bench AREA [--device auto|cuda|sim] [--quick] [--compare FILE]
           [--json FILE] [--markdown FILE] [--charts DIR]
       cargo xtask bench --from FILE [--compare FILE] [--markdown FILE] [--charts DIR]

Measures AREA and shows medians with quartiles; a figure with a bar holds if its median does.
AREA             slab, compile, launch, graph, staging, sim, oracle, or all there are
--device D       cuda: a GPU is required; sim: areas that need a GPU run on the simulated one, and no bar is judged
--quick          few rounds: shows that the bench works, and judges no bar
--compare FILE   beside the JSON of an earlier run: what is worse by more than both runs' noise fails
--from FILE      measures nothing: shows the JSON of an earlier run in another form
--json FILE      also writes JSON
--markdown FILE  also writes tables in Markdown
--charts DIR     also draws charts as SVG";

const AREAS: &[&str] = &["slab", "compile", "launch", "graph", "staging", "sim", "oracle", "all"];

/// Checks the command line before anything is built, then builds and measures.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let (words, wish) = read(arguments.options(USAGE))?;
    let variables = match wish {
        Wish::Auto => Vec::new(),
        Wish::Sim => simulated::variables(None)?,
        Wish::Cuda => {
            let probe = probe::ask(&[]);
            if let Some(why) = probe.without_silicon() {
                let why = format!("no CUDA device can be used: {why}; nothing ran");
                return Err(Stop::new(Ending::NothingRan, why));
            }
            Vec::new()
        }
    };
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "cuforge-benches", "--"]).args(words);
    let status = command
        .envs(variables)
        .status()
        .map_err(|error| Stop::failed(format!("cargo run cannot be run: {error}")))?;
    let endings = [Ending::Good, Ending::NothingRan, Ending::DeviceFault, Ending::Usage];
    let ending = endings.into_iter().find(|ending| status.code() == Some(i32::from(ending.code())));
    Ok(ending.unwrap_or(Ending::Failed))
}

/// The words for the benches, and the device.
fn read(mut options: Options) -> Result<(Vec<OsString>, Wish), Stop> {
    let mut words: Vec<OsString> = Vec::new();
    let (mut area, mut from, mut wish) = (None, false, Wish::default());
    while let Some(item) = options.next()? {
        match &item {
            Item::Option(name) if name == "quick" => words.push("--quick".into()),
            Item::Option(name) if name == "device" => wish = options.value()?,
            Item::Option(name)
                if matches!(name.as_str(), "json" | "markdown" | "charts" | "compare" | "from") =>
            {
                from |= name == "from";
                // The benches start in the workspace root, the path is meant from here.
                let path = path::absolute(options.path()?)
                    .map_err(|error| options.refuse(format!("the path of --{name}: {error}")))?;
                words.extend([format!("--{name}").into(), path.into()]);
            }
            Item::Word(name) if area.is_none() => area = Some(name.clone()),
            _ => return Err(options.unknown(&item)),
        }
    }
    match area {
        None if from => {}
        None => return Err(options.refuse("no area given")),
        Some(name) if from => return Err(options.refuse(format!("--from measures nothing, so no {name}"))),
        Some(name) if !AREAS.contains(&name.as_str()) => {
            return Err(options.refuse(format!("no area named {name}")));
        }
        Some(name) => words.push(name.into()),
    }
    Ok((words, wish))
}
