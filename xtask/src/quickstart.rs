//! `cargo xtask quickstart`: the main job in one command, on the best device there is.

use std::time::Instant;

use cuforge_oracle::corpus::{self, Form};

use crate::arguments::{Arguments, Item};
use crate::device::{self, Wish};
use crate::ending::{Ending, Stop};
use crate::judge::{self, Code, Judged};
use crate::replay::{self, Replayed};
use crate::{archive, simulated};

const USAGE: &str = "\
usage: cargo xtask quickstart [--device auto|cuda|sim]

Compiles the kernels of the corpus, runs them at real sizes on the best device there is, verifies every result against
a CPU reference, and shows the verdicts; captures launches into a graph, replays and patches it, and compares the bits. Without NVRTC the PTX shipped with the kernels runs.";

/// Chooses, compiles, runs, verifies, and says so.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut options = arguments.options(USAGE);
    let mut wish = Wish::default();
    while let Some(item) = options.next()? {
        match &item {
            Item::Option(name) if name == "device" => wish = options.value()?,
            _ => return Err(options.unknown(&item)),
        }
    }
    let start = Instant::now();
    let choice = device::choose(wish)?;
    let code = Code::find();
    let mut context = judge::context(&choice, &code)?;
    println!("device    {} ({})", context.adapter().name, context.adapter().driver);
    println!("because   {}", choice.why);
    println!("runs      {}", code.describe());
    println!(
        "does      per kernel: seeded inputs and poisoned outputs in device memory, a launch, each element held"
    );
    println!(
        "          against the error bound of a CPU reference; then mutants of the kernel, which must fail"
    );
    println!();
    let mut judged = Vec::new();
    for kernel in corpus::ALL {
        judged.push(judge::judge(&kernel, Form::CudaC, &mut *context, 1));
    }
    judge::show(&judged);
    let replayed = replayed(choice.device.is_none());
    match &replayed {
        Ok(done) => {
            println!("graph     {}", done.line());
            println!("          on {}", done.driver);
        }
        Err(why) => println!("graph     FAILED: {why}"),
    }
    println!("{} in {:.1} s", judge::count(&judged), start.elapsed().as_secs_f64());
    let all = judged.iter().all(Judged::passed) && replayed.is_ok_and(|done| done.wrong == 0);
    Ok(match judge::ending(&judged) {
        // A kernel that did not run, or a replay, would leave the main job undone.
        Ending::Good if !all => Ending::Failed,
        ending => ending,
    })
}

/// Launches captured into a graph and replayed: on the GPU, or through the simulated driver.
fn replayed(simulated: bool) -> Result<Replayed, String> {
    let variables = if simulated {
        simulated::variables(archive::here().as_deref()).map_err(|stop| stop.to_string())?
    } else {
        Vec::new()
    };
    replay::ask(&variables)
}
