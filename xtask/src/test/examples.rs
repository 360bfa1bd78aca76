//! The examples, run as their own first lines say: with the documented command, on the simulated device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::programs::{Example, Rules};
use super::tally::Tally;
use crate::process;

/// An example is something to look at: one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);
/// How a documented command begins that needs no GPU.
const SIMULATED: &str = "cargo xtask sim -- cargo run ";
/// How one begins that runs anywhere.
const PLAIN: &str = "cargo run ";
/// The line of an example that only silicon can run: this, and why.
const SILICON: &str = "needs a GPU: ";

/// What the head of an example says about running it.
#[derive(Debug, PartialEq, Eq)]
enum Documented {
    /// The arguments of each command, in order, and whether they meet the simulated device.
    Commands { arguments: Vec<Vec<String>>, simulated: bool, needs_nvrtc: bool },
    /// Only silicon can run it, for this reason.
    Silicon(String),
}

/// Runs one example in `scratch`, a folder of its own, made here and removed afterwards.
pub(super) fn run(example: &Example, scratch: &Path, rules: &Rules<'_>) -> (Tally, String) {
    let mut tally = Tally::default();
    let mut log = String::new();
    let source = fs::read_to_string(&example.source).map_err(|error| error.to_string());
    match source.and_then(|source| documented(&source, &example.package, &example.name)) {
        Err(why) => tally.fail(format!("({why})")),
        Ok(Documented::Silicon(why)) => tally.skip(format!("{SILICON}{why}"), &example.name),
        Ok(Documented::Commands { needs_nvrtc: true, .. }) if rules.nvrtc.is_none() => {
            tally.skip("needs NVRTC (no 12.9.86)", &example.name);
        }
        Ok(Documented::Commands { arguments, simulated, .. }) => {
            let ran = fs::create_dir_all(scratch).map_err(|error| error.to_string()).and_then(|()| {
                arguments
                    .iter()
                    .try_for_each(|arguments| one(example, arguments, simulated, scratch, rules, &mut log))
            });
            // What stays behind is some kilobytes below `target`.
            let _ = fs::remove_dir_all(scratch);
            match ran {
                Ok(()) => tally.passed += 1,
                Err(why) => tally.fail(format!("({why})")),
            }
        }
    }
    (tally, log)
}

fn one(
    example: &Example,
    arguments: &[String],
    simulated: bool,
    scratch: &Path,
    rules: &Rules<'_>,
    log: &mut String,
) -> Result<(), String> {
    let mut command = Command::new(&example.executable);
    command.args(arguments).current_dir(scratch);
    if simulated {
        command.envs(rules.simulated.iter().map(|(name, value)| (name, value)));
    }
    if let Some((name, folder)) = &rules.nvrtc {
        command.env(name, folder);
    }
    let captured = process::capture_group(command, LIMIT).map_err(|error| error.to_string())?;
    log.push_str(&captured.stdout);
    log.push_str(&captured.stderr);
    let words = arguments.join(" ");
    if captured.succeeded() { Ok(()) } else { Err(format!("with {words:?}: {}", captured.ending())) }
}

/// Reads the `//!` lines at the top of `source`.
///
/// # Errors
///
/// They give no command, or one that runs something else.
fn documented(source: &str, package: &str, name: &str) -> Result<Documented, String> {
    let lines: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    if let Some(why) = lines.iter().find_map(|line| line.strip_prefix(SILICON)) {
        return Ok(Documented::Silicon(why.to_owned()));
    }
    // A command may be broken over two lines.
    let head = lines.join(" ");
    let commands = || head.split('`').skip(1).step_by(2);
    let mut chosen: Vec<&str> = commands().filter_map(|command| command.strip_prefix(SIMULATED)).collect();
    let simulated = !chosen.is_empty();
    if !simulated {
        chosen = commands().filter_map(|command| command.strip_prefix(PLAIN)).collect();
    }
    if chosen.is_empty() {
        return Err("its first lines give no command that runs it".to_owned());
    }
    let arguments = chosen.into_iter().map(|command| {
        let (cargo, own) = command.split_once(" -- ").unwrap_or((command, ""));
        let words: Vec<&str> = cargo.split_whitespace().filter(|word| *word != "--release").collect();
        if words != ["-p", package, "--example", name] {
            return Err(format!("its first lines run something else: {PLAIN}{command}"));
        }
        Ok(own.split_whitespace().map(str::to_owned).collect())
    });
    Ok(Documented::Commands {
        arguments: arguments.collect::<Result<_, _>>()?,
        simulated,
        needs_nvrtc: head.contains("NVRTC"),
    })
}

/// A folder for an example of that name, below `home`.
pub(super) fn scratch(home: &Path, name: &str) -> PathBuf {
    home.join(format!("example-{name}-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(head: &str) -> Result<Documented, String> {
        documented(&format!("{head}\n\nfn main() {{}} // `cargo run -p p --example e -- no`\n"), "p", "e")
    }

    fn commands(arguments: &[&[&str]], simulated: bool, needs_nvrtc: bool) -> Result<Documented, String> {
        let arguments =
            arguments.iter().map(|words| words.iter().map(|&word| word.to_owned()).collect()).collect();
        Ok(Documented::Commands { arguments, simulated, needs_nvrtc })
    }

    #[test]
    fn the_command_for_the_simulated_device_is_taken_before_one_that_needs_a_gpu() {
        let head = "//! An example.\n//!\n//! `cargo run -p p --example e` with a GPU and NVRTC, and\n\
                    //! `cargo xtask sim -- cargo run --release -p p --example e -- 3 out` on any machine.";
        assert_eq!(said(head), commands(&[&["3", "out"]], true, true));
        assert_eq!(
            said("//! `cargo run -p p --example e`, and `cargo test -p p`"),
            commands(&[&[]], false, false)
        );
        let two = "//! `cargo xtask sim -- cargo run -p p --example e -- make x`, then\n\
                   //! `cargo xtask sim -- cargo run -p p --example e -- run x`";
        assert_eq!(said(two), commands(&[&["make", "x"], &["run", "x"]], true, false));
    }

    #[test]
    fn what_only_silicon_runs_says_so_in_a_line_of_its_own() {
        let silicon = said("//! An example.\n//!\n//! needs a GPU: clusters of blocks");
        assert_eq!(silicon, Ok(Documented::Silicon("clusters of blocks".to_owned())));
    }

    #[test]
    fn no_command_and_a_command_for_something_else_are_findings() {
        assert!(said("//! An example.").unwrap_err().contains("no command"));
        for wrong in ["cargo run -p p --example other", "cargo run -p q --example e", "cargo run --example e"]
        {
            assert!(said(&format!("//! `{wrong}`")).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_example_passes_by_ending_well_and_runs_in_a_folder_of_its_own() {
        let folder = scratch(&std::env::temp_dir(), "test");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("e.rs");
        let example = |script: &str| {
            // The shell is the example; the documented arguments are its script.
            fs::write(&source, format!("//! `cargo run -p p --example e -- -c {script}`\n")).unwrap();
            Example {
                name: "e".to_owned(),
                package: "p".to_owned(),
                source: source.clone(),
                executable: "/bin/sh".into(),
            }
        };
        let rules = Rules {
            without_nvrtc: &[],
            nvrtc: None,
            vulkan: false,
            long: false,
            limit: LIMIT,
            simulated: &[],
        };
        let place = folder.join("place");
        let (tally, _) = run(&example("pwd>out"), &place, &rules);
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 0 skipped");
        assert!(!place.exists());
        let (tally, _) = run(&example("false"), &place, &rules);
        assert_eq!(tally.failed.len(), 1, "{tally:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
