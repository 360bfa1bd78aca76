//! Runs areas of benches, shows each figure with its quartiles, and holds it to its bar; `cargo xtask bench` starts it.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cuforge_benches::{AREAS, Area, Figure, Settings};
use lexopt::{Arg, Parser, ValueExt};
use serde::Serialize;

struct Wanted {
    areas: Vec<&'static Area>,
    settings: Settings,
    json: Option<PathBuf>,
}

/// The JSON form of a run. Its keys are stable under one `schema`.
#[derive(Serialize)]
struct Run {
    schema: &'static str,
    machine: Machine,
    quick: bool,
    figures: Vec<Row>,
    errors: Vec<String>,
}

/// Where the figures come from.
#[derive(Serialize)]
struct Machine {
    processor: String,
    cores: usize,
    system: String,
    compiler: String,
    commit: Option<String>,
}

#[derive(Serialize)]
struct Row {
    area: &'static str,
    name: String,
    unit: &'static str,
    median: f64,
    lower_quartile: f64,
    upper_quartile: f64,
    rounds: usize,
    bar: Option<String>,
    holds: Option<bool>,
}

fn main() -> ExitCode {
    let wanted = match read(env::args_os().skip(1).collect()) {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(64);
        }
    };
    match measure(&wanted) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

/// Measures and shows; the exit code is 1 if a bar is missed or an area could not be measured, 2 if nothing was.
fn measure(wanted: &Wanted) -> Result<u8, Box<dyn Error>> {
    let machine = Machine::here();
    let Machine { processor, cores, system, compiler, .. } = &machine;
    println!("machine   {processor}, {cores} cores, {system}; {compiler}");
    let mut run = Run {
        schema: "cuforge-bench/1",
        machine,
        quick: wanted.settings.quick,
        figures: Vec::new(),
        errors: Vec::new(),
    };
    for area in &wanted.areas {
        println!("\n{}: {}", area.name, area.about);
        match (area.run)(&wanted.settings) {
            Ok(figures) => {
                for figure in figures {
                    let row = row(area.name, figure, wanted.settings.quick);
                    println!("  {}", row.line());
                    run.figures.push(row);
                }
            }
            Err(error) => {
                println!("  could not be measured: {error}");
                run.errors.push(format!("{}: {error}", area.name));
            }
        }
    }
    if let Some(path) = &wanted.json {
        let text = serde_json::to_string_pretty(&run)?;
        fs::write(path, text + "\n").map_err(|error| format!("writing {}: {error}", path.display()))?;
    }
    Ok(ending(&run))
}

fn ending(run: &Run) -> u8 {
    if !run.errors.is_empty() || run.figures.iter().any(|row| row.holds == Some(false)) {
        1
    } else if run.figures.is_empty() {
        2
    } else {
        0
    }
}

fn read(words: Vec<OsString>) -> Result<Wanted, Box<dyn Error>> {
    let mut parser = Parser::from_args(words);
    let mut wanted = Wanted { areas: Vec::new(), settings: Settings::default(), json: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("quick") => wanted.settings.quick = true,
            Arg::Long("json") => wanted.json = Some(parser.value()?.into()),
            Arg::Value(word) if wanted.areas.is_empty() => wanted.areas = areas(&word.string()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    if wanted.areas.is_empty() {
        return Err(format!("no area given: {}", known()).into());
    }
    Ok(wanted)
}

fn areas(name: &str) -> Result<Vec<&'static Area>, Box<dyn Error>> {
    let chosen: Vec<&Area> = AREAS.iter().filter(|area| name == "all" || area.name == name).collect();
    if chosen.is_empty() { Err(format!("no area named {name} yet: {}", known()).into()) } else { Ok(chosen) }
}

fn known() -> String {
    let names: Vec<&str> = AREAS.iter().map(|area| area.name).collect();
    format!("{} or all", names.join(", "))
}

fn row(area: &'static str, figure: Figure, quick: bool) -> Row {
    Row {
        area,
        holds: if quick { None } else { figure.holds() },
        bar: figure.bar.map(|bar| bar.to_string()),
        name: figure.name,
        unit: figure.unit,
        median: figure.spread.median,
        lower_quartile: figure.spread.lower,
        upper_quartile: figure.spread.upper,
        rounds: figure.rounds,
    }
}

impl Row {
    fn line(&self) -> String {
        let Self { name, unit, rounds, .. } = self;
        let [median, lower, upper] = [self.median, self.lower_quartile, self.upper_quartile].map(digits);
        let bar = match (&self.bar, self.holds) {
            (Some(bar), Some(true)) => format!(", bar {bar} holds"),
            (Some(bar), Some(false)) => format!(", bar {bar} MISSED"),
            (Some(bar), None) => format!(", bar {bar} not judged"),
            (None, _) => String::new(),
        };
        format!("{name:<44} {median} {unit} ({lower} .. {upper}, {rounds} rounds{bar})")
    }
}

/// Four significant digits, without an exponent.
fn digits(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}

impl Machine {
    fn here() -> Self {
        let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(": ")?.1.trim().to_owned())
        });
        Self {
            processor: processor.unwrap_or_else(|| env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: env::consts::OS.to_owned(),
            compiler: said("rustc", &["--version"]).unwrap_or_else(|| "unknown rustc".to_owned()),
            commit: said("git", &["rev-parse", "HEAD"]),
        }
    }
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_benches::{Bar, Spread};

    fn figure(median: f64) -> Figure {
        Figure::new("speed", "ratio", Spread { lower: median, median, upper: median }, 30)
            .with_bar(Bar::AtLeast(15.0))
    }

    fn run_with(figures: Vec<Row>, errors: Vec<String>) -> Run {
        Run { schema: "cuforge-bench/1", machine: Machine::here(), quick: false, figures, errors }
    }

    #[test]
    fn a_missed_bar_or_an_area_without_figures_does_not_end_well() {
        assert_eq!(ending(&run_with(vec![row("sim", figure(16.0), false)], Vec::new())), 0);
        assert_eq!(ending(&run_with(vec![row("sim", figure(14.0), false)], Vec::new())), 1);
        assert_eq!(ending(&run_with(vec![row("sim", figure(16.0), false)], vec!["slab: x".into()])), 1);
        assert_eq!(ending(&run_with(Vec::new(), Vec::new())), 2);
    }

    #[test]
    fn a_quick_run_judges_no_bar() {
        let row = row("sim", figure(1.0), true);
        assert_eq!(row.holds, None);
        assert!(row.line().ends_with("bar >= 15 not judged)"), "{}", row.line());
    }

    #[test]
    fn what_is_no_area_or_no_option_is_named() {
        let read = |words: &[&str]| read(words.iter().map(OsString::from).collect()).map(|_| ());
        assert!(read(&["compile", "--quick"]).is_ok() && read(&["all"]).is_ok());
        for (words, named) in [(&["fft"][..], "fft"), (&[], "no area"), (&["all", "--quik"], "--quik")] {
            assert!(read(words).unwrap_err().to_string().contains(named));
        }
    }

    #[test]
    fn figures_are_shown_with_four_digits() {
        assert_eq!(
            [0.0, 0.123_456, 1.0, 1234.5, 98_765.4].map(digits),
            ["0.000", "0.1235", "1.000", "1234", "98765"]
        );
    }
}
