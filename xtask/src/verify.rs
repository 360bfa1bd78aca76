//! `cargo xtask verify`: the oracle over the kernel corpus, over random kernels, over case files and certificates.

mod certify;
mod corpus_run;
mod fuzz_run;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuforge_oracle::corpus::{self, CorpusKernel};
use cuforge_oracle::report::{to_json, to_junit, to_svg};
use cuforge_oracle::{MeasureOptions, Stopping};

use crate::arguments::{Arguments, Item, Options};
use crate::device::{self, Wish};
use crate::ending::{Ending, Stop};
use crate::judge::{self, Code};

const USAGE: &str = "\
usage: cargo xtask verify [--device auto|cuda|sim] [--kernel NAME] [--seed N] [--schedules N]
                          [--certify FILE | --certificate FILE] [--junit FILE] [--json FILE] [--svg FILE]
       cargo xtask verify [--device ..] [--seed N] --fuzz N
       cargo xtask verify [--device ..] CASE..

Verifies every kernel of the corpus at its real size, in CUDA C and, where it is there, in hand-written PTX.
--kernel NAME       only this kernel
--seed N            the seed of inputs, mutants, order and random kernels; 1 unless given
--schedules N       so many schedules of each kernel, the default first; 3 unless given
--certify FILE      writes a certificate, if everything passed; measures each case, for at most a second
--certificate FILE  verifies what a certificate says again, and says what differs
--fuzz N            N random kernels, each in CUDA C and in PTX; what fails is made small and kept in target/fuzz
CASE..              such files again
--junit FILE        also writes JUnit XML
--json FILE         also writes JSON
--svg FILE          also writes pictures of errors and of where they are";

#[derive(Debug, Default)]
struct Wanted {
    device: Wish,
    kernel: Option<CorpusKernel>,
    seed: Option<u64>,
    schedules: Option<usize>,
    fuzz: Option<u64>,
    certify: Option<PathBuf>,
    certificate: Option<PathBuf>,
    junit: Option<PathBuf>,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
    cases: Vec<PathBuf>,
}

/// Verifies and reports.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let wanted = read(arguments.options(USAGE))?;
    let seed = wanted.seed.unwrap_or(1);
    let start = Instant::now();
    let choice = device::choose(wanted.device)?;
    let code = Code::find();
    let mut context = judge::context(&choice, &code)?;
    println!("device    {} ({})", context.adapter().name, choice.why);
    println!("driver    {}", context.adapter().driver);
    println!("runs      {}", code.describe());
    println!("seed      {seed}");
    println!();
    if !wanted.cases.is_empty() {
        return fuzz_run::replay(&wanted.cases, &mut *context);
    }
    if let Some(count) = wanted.fuzz {
        return fuzz_run::run(count, seed, &mut *context);
    }
    if let Some(file) = &wanted.certificate {
        return certify::again(file, &mut *context);
    }
    let schedules = wanted.schedules.unwrap_or(3);
    // A certificate says how fast a kernel is: that takes more than the few runs that are timed while they are checked.
    let timing = wanted.certify.is_some().then(quick);
    let judged = corpus_run::run(wanted.kernel, seed, schedules, timing, &mut *context);
    judge::show(&judged);
    println!("{} in {:.1} s", judge::count(&judged), start.elapsed().as_secs_f64());
    let reports = judge::reports(&judged);
    write(wanted.json.as_deref(), || to_json(&reports))?;
    write(wanted.junit.as_deref(), || to_junit("cuforge verify", &reports))?;
    write(wanted.svg.as_deref(), || to_svg(&reports))?;
    if let Some(file) = &wanted.certify {
        certify::write(file, &reports)?;
    }
    Ok(judge::ending(&judged))
}

fn quick() -> MeasureOptions {
    MeasureOptions { stopping: Stopping::quick(), ..MeasureOptions::default() }
}

fn read(mut options: Options) -> Result<Wanted, Stop> {
    let mut wanted = Wanted::default();
    while let Some(item) = options.next()? {
        let name = match &item {
            Item::Option(name) => name,
            Item::Word(word) => {
                wanted.cases.push(word.into());
                continue;
            }
        };
        match name.as_str() {
            "device" => wanted.device = options.value()?,
            "kernel" => {
                let name: String = options.value()?;
                let known = || corpus::ALL.map(|kernel| kernel.name()).join(", ");
                wanted.kernel = Some(corpus::find(&name).ok_or_else(|| {
                    options.refuse(format!("no kernel named {name} in the corpus: it has {}", known()))
                })?);
            }
            "seed" => wanted.seed = Some(options.value()?),
            "schedules" => wanted.schedules = Some(options.value()?),
            "fuzz" => wanted.fuzz = Some(options.value()?),
            "certify" => wanted.certify = Some(options.path()?),
            "certificate" => wanted.certificate = Some(options.path()?),
            "junit" => wanted.junit = Some(options.path()?),
            "json" => wanted.json = Some(options.path()?),
            "svg" => wanted.svg = Some(options.path()?),
            _ => return Err(options.unknown(&item)),
        }
    }
    // One thing at a time: an option that would be dropped in silence is refused.
    let reports = wanted.junit.is_some() || wanted.json.is_some() || wanted.svg.is_some();
    let narrowed =
        wanted.kernel.is_some() || wanted.schedules.is_some() || wanted.certify.is_some() || reports;
    let others = [wanted.fuzz.is_some(), wanted.certificate.is_some(), !wanted.cases.is_empty()];
    let chosen = others.into_iter().filter(|other| *other).count();
    if chosen > 1 || (chosen == 1 && narrowed) {
        return Err(options.refuse("--fuzz, --certificate and case files go with --device and --seed alone"));
    }
    Ok(wanted)
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Stop> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|error| Stop::failed(format!("writing {}: {error}", path.display())))
}
