//! `cargo xtask verify`: the oracle over the kernel corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::report::{to_json, to_junit};

use crate::arguments::{Arguments, Item, Options};
use crate::device::{self, Wish};
use crate::ending::{Ending, Stop};
use crate::judge::{self, Code};

const USAGE: &str = "\
usage: cargo xtask verify [--device auto|cuda|sim] [--kernel NAME] [--seed N] [--junit FILE] [--json FILE]

Verifies every kernel of the corpus at its real size, in CUDA C and, where it is there, in hand-written PTX.
--kernel NAME  only this kernel
--seed N       the seed of inputs and mutants; 1 unless given
--junit FILE   also writes JUnit XML
--json FILE    also writes JSON";

#[derive(Debug, Default)]
struct Wanted {
    device: Wish,
    kernel: Option<CorpusKernel>,
    seed: Option<u64>,
    junit: Option<PathBuf>,
    json: Option<PathBuf>,
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
    let mut judged = Vec::new();
    for kernel in corpus::ALL {
        if wanted.kernel.is_some_and(|only| only.name() != kernel.name()) {
            continue;
        }
        for form in [Form::CudaC, Form::WrittenPtx] {
            if kernel.spec(form).is_some() {
                judged.push(judge::judge(&kernel, form, &mut *context, seed));
            }
        }
    }
    judge::show(&judged);
    println!("{} in {:.1} s", judge::count(&judged), start.elapsed().as_secs_f64());
    write(wanted.json.as_deref(), || to_json(&judge::reports(&judged)))?;
    write(wanted.junit.as_deref(), || to_junit("cuforge verify", &judge::reports(&judged)))?;
    Ok(judge::ending(&judged))
}

fn read(mut options: Options) -> Result<Wanted, Stop> {
    let mut wanted = Wanted::default();
    while let Some(item) = options.next()? {
        let Item::Option(name) = &item else { return Err(options.unknown(&item)) };
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
            "junit" => wanted.junit = Some(options.path()?),
            "json" => wanted.json = Some(options.path()?),
            _ => return Err(options.unknown(&item)),
        }
    }
    Ok(wanted)
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Stop> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|error| Stop::failed(format!("writing {}: {error}", path.display())))
}
