//! Runs areas of benches, shows each figure with its quartiles, and holds it to its bar; `cargo xtask bench` starts it.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuforge_benches::{AREAS, Area, Change, Machine, Row, Run, Settings, charts, compare_runs, missing};
use cuforge_core::ContextErrorKind;
use cuforge_launch::LaunchError;
use lexopt::{Arg, Parser, ValueExt};

#[derive(Default)]
struct Wanted {
    areas: Vec<&'static Area>,
    settings: Settings,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    charts: Option<PathBuf>,
    compare: Option<PathBuf>,
    from: Option<PathBuf>,
}

fn main() -> ExitCode {
    // One of the processes whose start is measured.
    if let Some(started) = cuforge_benches::as_child() {
        return started.map_or_else(
            |error| {
                println!("{error}");
                ExitCode::from(1)
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let wanted = match read(env::args_os().skip(1).collect()) {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(64);
        }
    };
    match work(&wanted) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

/// Measures or reads, writes and compares; the exit code is 1 if a bar is missed, an area could not be measured though
/// its device is there, or a figure is worse than before; 2 if nothing was measured.
fn work(wanted: &Wanted) -> Result<u8, Box<dyn Error>> {
    // Read before anything is measured: a wrong path should not cost an hour.
    let before = wanted.compare.as_deref().map(run_in).transpose()?;
    let (run, failed) = match &wanted.from {
        Some(path) => (run_in(path)?, false),
        None => measure(wanted),
    };
    if let Some(path) = &wanted.json {
        write(path, &run.to_json()?)?;
    }
    if let Some(path) = &wanted.markdown {
        write(path, &run.to_markdown())?;
    }
    if let Some(folder) = &wanted.charts {
        fs::create_dir_all(folder).map_err(|error| format!("creating {}: {error}", folder.display()))?;
        for chart in charts(&run) {
            write(&folder.join(&chart.file), &chart.svg)?;
        }
    }
    let worse = before.is_some_and(|before| is_worse(&before, &run));
    Ok(ending(&run, failed || worse))
}

/// Measures and shows; whether an area failed for another reason than an absent device.
fn measure(wanted: &Wanted) -> (Run, bool) {
    let mut run = Run::new(Machine::here(), wanted.settings.quick);
    for (at, line) in run.machine.lines().iter().enumerate() {
        println!("{:<9} {line}", if at == 0 { "machine" } else { "device" });
    }
    let judged = !wanted.settings.quick && !run.machine.simulated;
    let mut failed = false;
    for area in &wanted.areas {
        println!("\n{}: {}", area.name, area.about);
        match (area.run)(&wanted.settings) {
            Ok(figures) => {
                for figure in figures {
                    let row = Row::new(area.name, figure, judged);
                    println!("  {}", row.line());
                    run.figures.push(row);
                }
            }
            Err(error) => {
                println!("  could not be measured: {error}");
                failed |= !is_absence(&*error);
                run.errors.push(format!("{}: {error}", area.name));
            }
        }
    }
    (run, failed)
}

/// Whether an area could not be measured because the device that it needs is not there.
fn is_absence(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<LaunchError>().is_some_and(|error| error.kind() == ContextErrorKind::Unavailable)
}

/// Shows how the figures changed since `before`, and whether one is worse or gone.
fn is_worse(before: &Run, run: &Run) -> bool {
    let compared = compare_runs(before, run);
    let gone = missing(before, run);
    println!("\nbeside the run of {}:", before.machine.date.as_deref().unwrap_or("an unknown day"));
    for compared in &compared {
        println!("  {}", compared.line());
    }
    for name in &gone {
        println!("  GONE        {name}");
    }
    let count = |change| compared.iter().filter(|compared| compared.change == change).count();
    println!(
        "{} same, {} better, {} worse, {} not judged, {} gone",
        count(Change::Same),
        count(Change::Better),
        count(Change::Worse),
        count(Change::NotJudged),
        gone.len()
    );
    count(Change::Worse) + gone.len() > 0
}

fn ending(run: &Run, failed: bool) -> u8 {
    if failed || run.figures.iter().any(|row| row.holds == Some(false)) {
        1
    } else if run.figures.is_empty() {
        2
    } else {
        0
    }
}

fn run_in(path: &Path) -> Result<Run, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Run::from_json(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, text).map_err(|error| format!("writing {}: {error}", path.display()).into())
}

fn read(words: Vec<OsString>) -> Result<Wanted, Box<dyn Error>> {
    let mut parser = Parser::from_args(words);
    let mut wanted = Wanted::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("quick") => wanted.settings.quick = true,
            Arg::Long("json") => wanted.json = Some(parser.value()?.into()),
            Arg::Long("markdown") => wanted.markdown = Some(parser.value()?.into()),
            Arg::Long("charts") => wanted.charts = Some(parser.value()?.into()),
            Arg::Long("compare") => wanted.compare = Some(parser.value()?.into()),
            Arg::Long("from") => wanted.from = Some(parser.value()?.into()),
            Arg::Value(word) if wanted.areas.is_empty() => wanted.areas = areas(&word.string()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    if wanted.areas.is_empty() && wanted.from.is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_benches::{Bar, Figure, Spread};

    fn run_with(medians: &[f64]) -> Run {
        let row = |median: &f64| {
            let spread = Spread { lower: *median, median: *median, upper: *median };
            Row::new("sim", Figure::new("speed", "ratio", spread, 30).with_bar(Bar::AtLeast(15.0)), true)
        };
        Run { figures: medians.iter().map(row).collect(), ..Run::new(Machine::default(), false) }
    }

    #[test]
    fn a_missed_bar_a_failed_area_and_no_figures_do_not_end_well() {
        assert_eq!(ending(&run_with(&[16.0]), false), 0);
        assert_eq!(ending(&run_with(&[14.0]), false), 1);
        assert_eq!(ending(&run_with(&[16.0]), true), 1);
        assert_eq!(ending(&run_with(&[]), false), 2);
    }

    #[test]
    fn an_absent_device_is_no_failure_of_an_area_and_any_other_error_is() {
        let absent: Box<dyn Error> = Box::new(LaunchError::NoDriver { tried: Vec::new() });
        assert!(is_absence(&*absent));
        let other: Box<dyn Error> = "a peer died".into();
        assert!(!is_absence(&*other));
    }

    #[test]
    fn a_figure_that_is_worse_or_gone_is_a_regression() {
        assert!(is_worse(&run_with(&[16.0]), &run_with(&[15.5])));
        assert!(!is_worse(&run_with(&[16.0]), &run_with(&[17.0])));
    }

    #[test]
    fn what_is_no_area_or_no_option_is_named() {
        let read = |words: &[&str]| read(words.iter().map(OsString::from).collect()).map(|_| ());
        assert!(read(&["compile", "--quick"]).is_ok() && read(&["all"]).is_ok());
        assert!(read(&["--from", "run.json"]).is_ok());
        for (words, named) in [(&["fft"][..], "fft"), (&[], "no area"), (&["all", "--quik"], "--quik")] {
            assert!(read(words).unwrap_err().to_string().contains(named));
        }
    }
}
