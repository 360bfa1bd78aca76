//! `cargo xtask gpu-test`: the tests that need a GPU, each in a process of its own, here or out of an archive.
//!
//! Six outcomes are told apart and none is mixed up with another; what was left out is in the report with its reason.

mod bundle;
mod expected;
mod outcome;
mod pack;
mod partition;
mod programs;
mod record;
mod report;
mod runner;
mod sanitizer;
mod slots;
mod wanted;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::device::Wish;
use crate::ending::{Ending, Stop};
use crate::probe::{self, Probe};
use crate::{simulated, workspace};
use expected::{Expected, Ground};
use record::Record;
use report::{LeftOut, Report, SCHEMA};
use runner::Rules;
use slots::Slot;
use wanted::Wanted;

/// What the tests run on.
struct Device {
    probe: Probe,
    /// Why it is the simulated one, if it is.
    simulated_because: Option<String>,
    /// Variables of the processes that use it.
    variables: Vec<(String, String)>,
}

/// Says what there is to run on, then builds or finds the programs, runs their tests, counts.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let wanted = Wanted::read(arguments)?;
    if let Some(folder) = &wanted.archive {
        return pack::pack(folder);
    }
    let device = device(&wanted)?;
    let (programs, lists) = match &wanted.from_archive {
        Some(folder) => (programs::archived(folder)?, folder.clone()),
        None => (programs::build(&[])?, workspace::root().join("tests")),
    };
    let expected = Expected::read(&lists)?;
    let (cases, broken) = programs::cases(&programs);
    let listed: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    let (left_out, chosen): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .enumerate()
        .filter(|(place, _)| wanted.partition.holds(*place))
        .map(|(_, case)| case)
        .filter(|case| wanted.filter.as_deref().is_none_or(|text| case.name.contains(text)))
        .partition(|case| wanted.sanitizer.is_some() && case.is_none_for_a_sanitizer());
    let left_out: Vec<LeftOut> = left_out
        .into_iter()
        .map(|case| LeftOut { name: case.name, reason: case.special.unwrap_or_default() })
        .collect();
    let scratch = Scratch::new()?;
    let sanitizer = match wanted.sanitizer {
        None => None,
        Some(tool) => {
            let program = sanitizer::find().ok_or_else(|| {
                Stop::new(
                    Ending::NothingRan,
                    "there is no compute-sanitizer in PATH or in /usr/local/cuda; nothing ran",
                )
            })?;
            Some((tool, program))
        }
    };
    let rules = Rules {
        limit: wanted.limit(),
        sanitizer,
        simulated: device.simulated_because.is_some(),
        variables: &device.variables,
        scratch: &scratch.folder,
        well: &|slot| is_well(slot, &device.variables),
        told: &tell,
    };
    let mut records = runner::run(&chosen, &slots::slots(&device.probe), &rules);
    let ground = Ground {
        simulated: rules.simulated,
        build: device.probe.build.as_deref(),
        cuda: device.probe.cuda.as_deref(),
    };
    for record in &mut records {
        record.known_failure = expected.known_failure(record, ground).map(str::to_owned);
    }
    let stale: Vec<String> = records
        .iter()
        .filter(|record| expected.is_stale(record, ground))
        .map(|record| record.name.clone())
        .collect();
    let report = Report {
        schema: SCHEMA,
        probe: &device.probe,
        simulated_because: device.simulated_because.clone(),
        sanitizer: wanted.sanitizer.map(sanitizer::Tool::name),
        require_gpu: wanted.require_gpu,
        tests: &records,
        left_out: &left_out,
        vanished: &expected.vanished(&listed),
        unlisted: &expected.unlisted(&listed),
        stale: &stale,
        broken: &broken,
    };
    write(wanted.json.as_deref(), || report.json())?;
    write(wanted.junit.as_deref(), || Ok(report.junit()))?;
    println!();
    print!("{}", report.closing());
    Ok(report.ending())
}

/// The device report, which comes first, and the decision.
fn device(wanted: &Wanted) -> Result<Device, Stop> {
    let because = match wanted.wish() {
        Wish::Sim => "asked for with --device sim".to_owned(),
        wish => {
            let probe = probe::ask(&[]);
            let why = if wish == Wish::Cuda {
                probe.without_silicon()
            } else {
                probe.without_a_device().map(str::to_owned)
            };
            match why {
                None => {
                    let simulated =
                        probe.simulated.then(|| "the loader finds the simulated driver".to_owned());
                    return Ok(shown(Device { probe, simulated_because: simulated, variables: Vec::new() }));
                }
                Some(why) if wish == Wish::Cuda => {
                    println!("no GPU: {why}");
                    let why = "no CUDA device can be used; nothing ran";
                    return Err(Stop::new(Ending::NothingRan, why));
                }
                Some(why) => why,
            }
        }
    };
    println!("no GPU: {because}; the tests run on the simulated device");
    let variables = simulated::variables(wanted.from_archive.as_deref())?;
    let probe = probe::ask(&variables);
    if let Some(why) = probe.without_a_device() {
        return Err(Stop::new(
            Ending::NothingRan,
            format!("the simulated device cannot be used: {why}; nothing ran"),
        ));
    }
    Ok(shown(Device { probe, simulated_because: Some(because), variables }))
}

fn shown(device: Device) -> Device {
    for found in &device.probe.devices {
        println!("device    {}", found.line());
    }
    println!("driver    {}", device.probe.driver_line());
    if let Some(trouble) = &device.probe.trouble {
        println!("trouble   {trouble}");
    }
    println!();
    device
}

fn is_well(slot: &Slot, variables: &[(String, String)]) -> bool {
    let mut variables = variables.to_vec();
    variables.extend(slot.visible.iter().map(|visible| ("CUDA_VISIBLE_DEVICES".to_owned(), visible.clone())));
    probe::ask(&variables).without_a_device().is_none()
}

fn tell(record: &Record) {
    let word = record.outcome.word();
    println!("{:<96} {word} ({:.1} s)", record.name, record.seconds);
    if !record.log.is_empty() {
        println!("{}", record.log.trim_end());
    }
}

fn write(path: Option<&Path>, text: impl FnOnce() -> Result<String, Stop>) -> Result<(), Stop> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()?).map_err(|error| Stop::failed(format!("writing {}: {error}", path.display())))
}

/// A folder of this run alone, removed at its end.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self, Stop> {
        let folder = env::temp_dir().join(format!("cuforge-gpu-test-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .map_err(|error| Stop::failed(format!("creating {}: {error}", folder.display())))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind costs a few kilobytes of a temporary folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
