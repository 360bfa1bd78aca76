//! `cargo xtask tune`: the fastest right schedule of each corpus kernel, each candidate run in a process of its own kind.

mod worker;

use std::fs;
use std::path::PathBuf;

use cuforge_core::{Adapter, TuneKey, TuneRecord};
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::{Standing, TuneOptions, Tuned, source_digest, tune};
use serde::Serialize;

use crate::arguments::{Arguments, Item, Options};
use crate::device::{self, Wish};
use crate::ending::{Ending, Stop};
use crate::judge::{self, Code};
use crate::workspace;

pub(crate) use worker::VERB as WORKER;
pub(crate) use worker::run as run_worker;

const USAGE: &str = "\
usage: cargo xtask tune [KERNEL] [--device auto|cuda|sim] [--seed N] [--out FOLDER] [--json FILE]

Searches the schedules of a corpus kernel, or of all, at its real size: what is wrong is never timed, the slower half
leaves each round, and a candidate that crashes or hangs costs only itself. Winners are kept for
`Session::builder().tuned_folder(FOLDER)`.
--seed N      the seed of inputs and order; 1 unless given
--out FOLDER  where winners are kept; target/tuned unless given
--json FILE   also writes every candidate as JSON";

#[derive(Debug, Default)]
struct Wanted {
    kernel: Option<CorpusKernel>,
    device: Wish,
    seed: Option<u64>,
    out: Option<PathBuf>,
    json: Option<PathBuf>,
}

/// Tunes and keeps the winners.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let wanted = read(arguments.options(USAGE))?;
    let seed = wanted.seed.unwrap_or(1);
    let choice = device::choose(wanted.device)?;
    // Only asked who it is: candidates run in the workers' own contexts.
    let adapter = judge::context(&choice, &Code::find())?.adapter().clone();
    let device = if choice.device.is_some() { "cuda" } else { "sim" };
    println!("device    {} ({})", adapter.name, choice.why);
    if device == "sim" {
        println!("          times are the simulation's on this host: they say nothing of a GPU");
    }
    println!();
    let folder = wanted.out.unwrap_or_else(|| workspace::root().join("target/tuned"));
    let mut entries = Vec::new();
    for kernel in corpus::ALL {
        if wanted.kernel.is_none_or(|only| only.name() == kernel.name()) {
            entries.push(tune_one(&kernel, device, &adapter, seed, &folder)?);
        }
    }
    if let Some(file) = &wanted.json {
        let document = Document { schema: "cuforge.tune.1", device: &adapter.name, kernels: &entries };
        let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
        fs::write(file, text)
            .map_err(|error| Stop::failed(format!("writing {}: {error}", file.display())))?;
    }
    let won = entries.iter().all(|entry| entry.winner.is_some());
    Ok(if won { Ending::Good } else { Ending::Failed })
}

fn read(mut options: Options) -> Result<Wanted, Stop> {
    let mut wanted = Wanted::default();
    while let Some(item) = options.next()? {
        match &item {
            Item::Word(name) if wanted.kernel.is_none() => {
                let unknown = || options.refuse(format!("no kernel named {name} in the corpus"));
                wanted.kernel = Some(corpus::find(name).ok_or_else(unknown)?);
            }
            Item::Option(name) if name == "device" => wanted.device = options.value()?,
            Item::Option(name) if name == "seed" => wanted.seed = Some(options.value()?),
            Item::Option(name) if name == "out" => wanted.out = Some(options.path()?),
            Item::Option(name) if name == "json" => wanted.json = Some(options.path()?),
            _ => return Err(options.unknown(&item)),
        }
    }
    Ok(wanted)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    device: &'a str,
    kernels: &'a [KernelEntry],
}

#[derive(Serialize)]
struct KernelEntry {
    kernel: &'static str,
    shape: String,
    winner: Option<String>,
    speedup: Option<f64>,
    candidates: Vec<CandidateEntry>,
}

#[derive(Serialize)]
struct CandidateEntry {
    schedule: String,
    median_ns: Option<u64>,
    samples: u32,
    round: u32,
    rejected: Option<&'static str>,
    why: Option<String>,
}

fn tune_one(
    kernel: &CorpusKernel,
    device: &str,
    adapter: &Adapter,
    seed: u64,
    folder: &std::path::Path,
) -> Result<KernelEntry, Stop> {
    let schedules = kernel.schedules(Form::CudaC);
    let mut workers = worker::Workers::new(kernel.name(), device, seed);
    let tuned = tune(&schedules, &mut workers, &TuneOptions { seed, ..TuneOptions::default() });
    println!("{} {}", kernel.name(), kernel.real_shape());
    for (index, candidate) in tuned.candidates.iter().enumerate() {
        let mark = if tuned.winner == Some(index) { "*" } else { " " };
        println!("  {mark} {candidate}");
    }
    if let Some(speedup) = tuned.speedup() {
        println!("    {speedup:.3} times as fast as the default");
    }
    keep(kernel, &tuned, adapter, folder)?;
    Ok(entry(kernel, &tuned))
}

/// Writes the winner's record.
fn keep(
    kernel: &CorpusKernel,
    tuned: &Tuned,
    adapter: &Adapter,
    folder: &std::path::Path,
) -> Result<(), Stop> {
    let (Some(winner), Some(spec)) = (tuned.winner, kernel.spec(Form::CudaC)) else { return Ok(()) };
    let timed = |index: usize| match tuned.candidates[index].standing {
        Standing::Timed { median_ns, samples, .. } => (median_ns, samples),
        Standing::Rejected(..) => (0, 0),
    };
    let ((median_ns, samples), (default_median_ns, _)) = (timed(winner), timed(0));
    let shape = kernel.real_shape().to_string();
    let record = TuneRecord {
        key: TuneKey::new(adapter, &spec, source_digest(&spec), &shape),
        schedule: tuned.candidates[winner].schedule.clone(),
        median_ns,
        default_median_ns,
        samples,
        candidates: tuned.candidates.len() as u32,
    };
    let file = folder.join(record.key.file_name());
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, record.to_string()));
    written.map_err(|error| Stop::failed(format!("writing {}: {error}", file.display())))?;
    println!("    kept in {}\n", file.display());
    Ok(())
}

fn entry(kernel: &CorpusKernel, tuned: &Tuned) -> KernelEntry {
    let candidates = tuned.candidates.iter().map(|candidate| {
        let schedule = candidate.schedule.to_string();
        match &candidate.standing {
            Standing::Timed { median_ns, samples, round } => CandidateEntry {
                schedule,
                median_ns: Some(*median_ns),
                samples: *samples,
                round: *round,
                rejected: None,
                why: None,
            },
            Standing::Rejected(rejection, why) => CandidateEntry {
                schedule,
                median_ns: None,
                samples: 0,
                round: 0,
                rejected: Some(rejection.word()),
                why: Some(why.clone()),
            },
        }
    });
    KernelEntry {
        kernel: kernel.name(),
        shape: kernel.real_shape().to_string(),
        winner: tuned.winner.map(|index| tuned.candidates[index].schedule.to_string()),
        speedup: tuned.speedup(),
        candidates: candidates.collect(),
    }
}
