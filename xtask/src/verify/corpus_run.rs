//! The corpus under several schedules, in an order that the seed picks.

use cuforge_core::{OracleContext, Schedule};
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::{MeasureOptions, MutantOptions, Random, VerifyOptions};

use crate::judge::{self, Judged};

/// Verifies every kernel, or only `kernel`, under so many schedules: the first with all its mutants and other inputs,
/// the others with as many mutants as show that each of them can fail; what passes is measured as `timing` says. Reports stand in the corpus' order.
pub(crate) fn run(
    kernel: Option<CorpusKernel>,
    seed: u64,
    schedules: usize,
    timing: Option<MeasureOptions>,
    context: &mut dyn OracleContext,
) -> Vec<Judged> {
    let mut jobs = Vec::new();
    for known in corpus::ALL {
        if kernel.is_some_and(|only| only.name() != known.name()) {
            continue;
        }
        for form in [Form::CudaC, Form::WrittenPtx] {
            let picked = pick(known.schedules(form), seed, schedules).into_iter().enumerate();
            jobs.extend(picked.map(|(place, schedule)| (known, form, place, schedule)));
        }
    }
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // A kernel that lives on what another left behind must not always follow the same one.
    Random::stream(seed, "order of kernels").shuffle(&mut order);
    let mut judged: Vec<Option<Judged>> = jobs.iter().map(|_| None).collect();
    for index in order {
        let (kernel, form, place, schedule) = &jobs[index];
        judged[index] =
            Some(judge::judge_under(kernel, *form, schedule, context, &options(*place, seed, timing)));
    }
    judged.into_iter().flatten().collect()
}

fn options(place: usize, seed: u64, timing: Option<MeasureOptions>) -> VerifyOptions {
    let first = VerifyOptions { timing, ..VerifyOptions::default() }.with_seed(seed);
    if place == 0 {
        return first;
    }
    let mutants = MutantOptions { limit: 8, ..MutantOptions::default() };
    VerifyOptions { mutants, other_inputs: false, ..first }
}

/// The first schedule and others by chance.
fn pick(schedules: Vec<Schedule>, seed: u64, count: usize) -> Vec<Schedule> {
    let mut all = schedules.into_iter();
    let first = all.next();
    let mut others: Vec<Schedule> = all.collect();
    Random::stream(seed, "schedules").shuffle(&mut others);
    first.into_iter().chain(others).take(count).collect()
}
