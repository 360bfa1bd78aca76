//! Whether a case can fail: changes of its outputs and of its kernel's PTX that it must notice.

use cuforge_sim::mutate::{self, Mutation};
use cuforge_sim::ptx::{Edit, Module};

use crate::build::Build;
use crate::case::Case;
use crate::check::Checked;
use crate::cores::{cores, on_all_cores};
use crate::error::OracleError;
use crate::random::Random;
use crate::result_mutants::{REQUIRED, result_mutants};
use crate::simulate::{Bench, is_fault, out_of_steps};
use crate::verdict::{Discrimination, Fate, MutantReport};

/// How many mutants a case is shown.
///
/// ```
/// use cuforge_oracle::MutantOptions;
/// assert_eq!(MutantOptions::default().required, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutantOptions {
    /// PTX mutants, taken evenly from all operators; more where too few of these are reached. Default 24.
    pub limit: usize,
    /// PTX mutants that must be killed. Default 4.
    pub required: usize,
}

impl Default for MutantOptions {
    fn default() -> Self {
        Self { limit: 24, required: 4 }
    }
}

/// Why mutants say nothing: the case fails without any.
pub(crate) enum Unfit {
    /// The reduced case's outputs differ though nothing was mutated.
    ReducedFails(String),
    /// A reduced case runs longer than mutants may: it says nothing, and a smaller one is needed.
    TooLong(String),
    /// A fault of the case or the machine.
    Error(OracleError),
}

impl<E: Into<OracleError>> From<E> for Unfit {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Shows the case its mutants.
pub(crate) fn discriminate(
    case: &Case,
    checked: &Checked,
    build: &Build,
    seed: u64,
    options: &MutantOptions,
) -> Result<Discrimination, Unfit> {
    let mut found =
        Discrimination { results: result_mutants(case, checked, seed)?, ..Discrimination::default() };
    found.vacuous = found
        .results
        .iter()
        .find(|mutant| mutant.fate == Fate::Survives && REQUIRED.contains(&mutant.operator.as_str()))
        .map(|mutant| format!("it does not notice {}", mutant.description));
    let Some(ptx) = build.ptx() else {
        found.vacuous.get_or_insert_with(|| "its image has no PTX to mutate".to_owned());
        return Ok(found);
    };
    ptx_mutants(case, build, &ptx, seed, options, &mut found)?;
    let (killed, ran) = found.kill_score();
    if killed < options.required {
        found.vacuous.get_or_insert_with(|| {
            format!("it kills {killed} of {ran} PTX mutants, {} kills are required", options.required)
        });
    }
    Ok(found)
}

/// Runs mutants of the PTX over the reduced cases on simulated devices of their own.
fn ptx_mutants(
    case: &Case,
    build: &Build,
    ptx: &str,
    seed: u64,
    options: &MutantOptions,
    found: &mut Discrimination,
) -> Result<(), Unfit> {
    let module = match Module::parse(ptx) {
        Ok(module) => module,
        Err(error) => {
            found.vacuous.get_or_insert_with(|| format!("its PTX does not parse: {error}"));
            return Ok(());
        }
    };
    let mut benches = Vec::new();
    for reduced in case.reduced() {
        benches.push(sound_bench(reduced, build, &module, seed)?);
    }
    let mutations = mutate::enumerate(&module, build.ran.0.entry_point());
    found.ptx_sites = mutations.len();
    let mutations = shuffled(mutations, seed);
    let most = options.limit.saturating_mul(MOST_SAMPLES).min(mutations.len());
    // Where many places are never reached, the sample goes on until enough mutants could be killed.
    let enough = |tried: usize, found: &Discrimination| {
        tried >= most || (tried >= options.limit && found.kill_score().0 >= options.required)
    };
    let mut tried = 0;
    while !enough(tried, found) {
        let wave = if tried < options.limit { options.limit - tried } else { cores() };
        let wave = &mutations[tried..(tried + wave).min(most)];
        let fates = on_all_cores(wave, |mutation| fate_of(mutation, &module, &benches));
        for (mutation, fate) in wave.iter().zip(fates) {
            // What ran ahead of the last one that is needed does not count: reports do not depend on the host.
            if enough(tried, found) {
                break;
            }
            found.ptx.push(MutantReport {
                operator: mutation.operator().to_string(),
                description: format!("line {}: {}", mutation.line(), mutation.description()),
                fate: fate?,
            });
            tried += 1;
        }
    }
    Ok(())
}

/// A bench over a reduced case on which the original is shown to pass, and how many steps it takes.
fn sound_bench<'a>(case: &'a Case, build: &'a Build, module: &Module, seed: u64) -> Result<Bench<'a>, Unfit> {
    let mut bench = Bench::new(case, &build.ran, &build.model, seed)?;
    let shape = case.shape();
    match bench.run(module)? {
        Ok(original) if original.agrees => {
            bench.ready_for_mutants(original.instructions);
            Ok(bench)
        }
        Ok(_) => Err(Unfit::ReducedFails(format!("its reduced case `{shape}` fails without any mutant"))),
        Err(error) if out_of_steps(&error) => {
            Err(Unfit::TooLong(format!("vacuous: its reduced case `{shape}` is too long: {error}")))
        }
        Err(error) => Err(Unfit::ReducedFails(format!("its reduced case `{shape}` fails: {error}"))),
    }
}

/// What becomes of a mutant.
fn fate_of(mutation: &Mutation, module: &Module, benches: &[Bench<'_>]) -> Result<Fate, OracleError> {
    let Ok(mutant) = mutation.apply(module) else { return Ok(Fate::Stillborn) };
    match noticed(&mutant, benches)? {
        Fate::Survives if !is_reached(module, mutation, benches)? => Ok(Fate::Unreached),
        fate => Ok(fate),
    }
}

/// The first bench that notices decides.
fn noticed(mutant: &Module, benches: &[Bench<'_>]) -> Result<Fate, OracleError> {
    let mut fate = Fate::Stillborn;
    for bench in benches {
        fate = match bench.run(mutant)? {
            Ok(ran) if ran.agrees => Fate::Survives,
            Ok(_) => Fate::Differs,
            Err(error) if is_fault(&error) => Fate::Faults,
            Err(_) => Fate::Stillborn,
        };
        if fate != Fate::Survives {
            break;
        }
    }
    Ok(fate)
}

/// Whether any bench comes to the place of a mutation: found out by a trap there.
fn is_reached(module: &Module, mutation: &Mutation, benches: &[Bench<'_>]) -> Result<bool, OracleError> {
    let Ok(trapped) = module.with_edits(&[Edit::new(mutation.span(), "trap;")]) else { return Ok(true) };
    for bench in benches {
        if bench.run(&trapped)?.is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many times the limit a sample may grow to.
const MOST_SAMPLES: usize = 8;

/// All mutations in an order that the seed picks and that takes from every operator in turn.
fn shuffled(mutations: Vec<Mutation>, seed: u64) -> Vec<Mutation> {
    let mut operators: Vec<(String, Vec<Mutation>)> = Vec::new();
    for mutation in mutations {
        let operator = mutation.operator().to_string();
        match operators.iter_mut().find(|(known, _)| *known == operator) {
            Some((_, sites)) => sites.push(mutation),
            None => operators.push((operator, vec![mutation])),
        }
    }
    let mut random = Random::stream(seed, "mutants");
    operators.iter_mut().for_each(|(_, sites)| random.shuffle(sites));
    let mut chosen = Vec::new();
    while operators.iter().any(|(_, sites)| !sites.is_empty()) {
        chosen.extend(operators.iter_mut().filter_map(|(_, sites)| sites.pop()));
    }
    chosen
}
