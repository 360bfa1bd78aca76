//! Whether a case can fail: changes of its outputs and of its kernel's PTX that it must notice.

use cuforge_core::{ContextError, ContextErrorKind, Element, Extent, KernelSpec, OracleContext, Schedule};
use cuforge_sim::mutate::{self, Mutation};
use cuforge_sim::ptx::{Edit, Module};
use cuforge_sim::{Checks, Fault, LaunchOptions};

use crate::adapters::SimContext;
use crate::case::Case;
use crate::check::{Checked, SECOND_POISON};
use crate::compare::Expected;
use crate::error::OracleError;
use crate::execute::{Stage, all_agree, changed_inputs};
use crate::interface::Role;
use crate::number::{Number, encode};
use crate::random::Random;
use crate::verdict::{Discrimination, Fate, MutantReport};

/// How many mutants a case is shown.
///
/// ```
/// use cuforge_oracle::MutantOptions;
/// assert_eq!(MutantOptions::default().required, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutantOptions {
    /// PTX mutants at most, taken evenly from all operators. Default 24.
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
    let Some(ptx) = &checked.ptx else {
        found.vacuous.get_or_insert_with(|| "its image has no PTX to mutate".to_owned());
        return Ok(found);
    };
    ptx_mutants(case, checked, ptx, seed, options, &mut found)?;
    let (killed, ran) = found.kill_score();
    if killed < options.required {
        found.vacuous.get_or_insert_with(|| {
            format!("it kills {killed} of {ran} PTX mutants, {} kills are required", options.required)
        });
    }
    Ok(found)
}

/// Result mutants that every case must notice.
const REQUIRED: [&str; 3] = ["zero-output", "drop-tail", "previous-output"];

/// Changes of the very outputs that were found right.
fn result_mutants(case: &Case, checked: &Checked, seed: u64) -> Result<Vec<MutantReport>, OracleError> {
    let contents = case.contents(seed)?;
    // What the same kernel would have left behind from a run over other inputs.
    let others = case.contents(seed.wrapping_add(1))?;
    let previous = case.expected(&others, &checked.model)?;
    let mut mutants = Vec::new();
    for (index, buffer) in case.buffers().iter().enumerate() {
        let Some(previous) = previous[index].as_ref().filter(|_| buffer.elements > 0) else { continue };
        let mut show = |operator: &str, what: &str, bytes: Vec<u8>| {
            let mut got = checked.got.clone();
            got[index] = bytes;
            let agrees = all_agree(case, &got, &checked.expected, checked.poison);
            mutants.push(MutantReport {
                operator: operator.to_owned(),
                description: format!("{what} `{}`", buffer.name),
                fate: if agrees { Fate::Survives } else { Fate::Differs },
            });
        };
        let size = buffer.element.size_bytes() as usize;
        let right = &checked.got[index];
        show("zero-output", "a zeroed", vec![0; right.len()]);
        let tail = right.len() - (buffer.elements as usize).div_ceil(16) * size;
        let mut dropped = right.clone();
        // Where the right tail looks like poison, other poison shows that it was dropped.
        let alike = right[tail..].iter().all(|byte| *byte == checked.poison);
        dropped[tail..].fill(if alike { SECOND_POISON } else { checked.poison });
        show("drop-tail", "a dropped tail of", dropped);
        show("previous-output", "what a run over other inputs left in", bytes_of(buffer.element, previous));
        if buffer.elements > 1 {
            let mut shifted = right.clone();
            shifted.rotate_right(size);
            show("shift-output", "a shift by one element of", shifted);
        }
        for (input, copied) in case.buffers().iter().zip(&contents) {
            if input.role != Role::Output && input.element == buffer.element && copied.len() == right.len() {
                show("copy-input", &format!("a copy of `{}` in", input.name), copied.clone());
            }
        }
    }
    Ok(mutants)
}

fn bytes_of(element: Element, expected: &Expected) -> Vec<u8> {
    match expected {
        Expected::Exact(bytes) => bytes.clone(),
        Expected::Bounded { values, .. } => {
            let mut bytes = Vec::with_capacity(values.len() * element.size_bytes() as usize);
            values.iter().for_each(|value| encode(element, Number::Float(*value), &mut bytes));
            bytes
        }
    }
}

/// Runs mutants of the PTX over the reduced cases on simulated devices of their own.
fn ptx_mutants(
    case: &Case,
    checked: &Checked,
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
        benches.push(Bench::new(reduced, checked, &module, seed)?);
    }
    let mutations = mutate::enumerate(&module, checked.ran.0.entry_point());
    found.ptx_sites = mutations.len();
    for mutation in sample(mutations, seed, options.limit) {
        let fate = match mutation.apply(&module) {
            Ok(mutant) => match fate_of(&mutant, &benches)? {
                Fate::Survives if !is_reached(&module, &mutation, &benches)? => Fate::Unreached,
                fate => fate,
            },
            Err(_) => Fate::Stillborn,
        };
        found.ptx.push(MutantReport {
            operator: mutation.operator().to_string(),
            description: format!("line {}: {}", mutation.line(), mutation.description()),
            fate,
        });
    }
    Ok(())
}

/// What becomes of a mutant: the first bench that notices decides.
fn fate_of(mutant: &Module, benches: &[Bench<'_>]) -> Result<Fate, OracleError> {
    let mut fate = Fate::Stillborn;
    for bench in benches {
        fate = match bench.run(mutant)?.0 {
            Ok(fate) => fate,
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
        if bench.run(&trapped)?.0.is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What mutants are run on: one reduced case, its inputs and what is right for them.
struct Bench<'a> {
    case: &'a Case,
    ran: &'a (KernelSpec, Schedule),
    contents: Vec<Vec<u8>>,
    expected: Vec<Option<Expected>>,
    step_budget: u64,
}

impl<'a> Bench<'a> {
    /// Shows that the original passes, and how many steps it takes.
    fn new(case: &'a Case, checked: &'a Checked, module: &Module, seed: u64) -> Result<Self, Unfit> {
        let contents = case.contents(seed)?;
        let expected = case.expected(&contents, &checked.model)?;
        let step_budget = LaunchOptions::default().step_budget;
        let mut bench = Self { case, ran: &checked.ran, contents, expected, step_budget };
        match bench.run(module)? {
            (Ok(Fate::Survives), instructions) => {
                bench.step_budget = budget(case, instructions);
                Ok(bench)
            }
            (Ok(_), _) => {
                let why = format!("its reduced case `{}` fails without any mutant", case.shape());
                Err(Unfit::ReducedFails(why))
            }
            (Err(error), _) if out_of_steps(&error) => Err(Unfit::TooLong(format!(
                "vacuous: its reduced case `{}` is too long: {error}",
                case.shape()
            ))),
            (Err(error), _) => {
                Err(Unfit::ReducedFails(format!("its reduced case `{}` fails: {error}", case.shape())))
            }
        }
    }

    /// Runs one module; what became of it, or the backend's error, and the instructions of the run.
    fn run(&self, module: &Module) -> Result<(Result<Fate, ContextError>, u64), OracleError> {
        let checks = Checks::default();
        let options = LaunchOptions { step_budget: self.step_budget, checks, ..LaunchOptions::default() };
        let bytes: u64 = self.case.buffers().iter().map(|buffer| buffer.size_bytes() + 4096).sum();
        let mut context = SimContext::builder().memory_bytes(bytes + 4096).launch_options(options).build()?;
        let mut kernel = match context.load(module, &self.ran.0, &self.ran.1) {
            Ok(kernel) => kernel,
            Err(error) => return Ok((Err(error), 0)),
        };
        let stage = Stage::new(&mut context, self.case, &self.contents, SECOND_POISON)?;
        stage.fill(&mut context)?;
        if let Err(error) = stage.dispatch(&mut *kernel) {
            return Ok((Err(error), 0));
        }
        let got = stage.read(&mut context)?;
        let same = all_agree(self.case, &got, &self.expected, SECOND_POISON)
            && changed_inputs(self.case, &got, &self.contents).is_empty();
        let fate = if same { Fate::Survives } else { Fate::Differs };
        Ok((Ok(fate), context.instructions().unwrap_or(0)))
    }
}

/// Whether a launch ended for its length alone.
fn out_of_steps(error: &ContextError) -> bool {
    let source = std::error::Error::source(error);
    matches!(source.and_then(|source| source.downcast_ref()), Some(Fault::StepBudget { .. }))
}

fn is_fault(error: &ContextError) -> bool {
    error.kind() == ContextErrorKind::Fault
}

/// Warp instructions that a block of a mutant may run: several times what one of the original runs, so that endless
/// loops end soon.
fn budget(case: &Case, instructions: u64) -> u64 {
    let blocks = match case.extent() {
        Extent::Geometry(geometry) => geometry.blocks(),
        Extent::Elements(elements) => {
            let schedule = case.schedule();
            let threads: u128 = schedule.workgroup_size.iter().map(|n| u128::from(*n)).product();
            let tile = threads * u128::from(schedule.items_per_invocation);
            u128::from(elements).div_ceil(tile.max(1))
        }
    };
    // Instructions are counted per thread, the budget per warp: the quotient alone is up to 32 times the average.
    let average = u128::from(instructions) / blocks.max(1);
    u64::try_from(average).unwrap_or(u64::MAX).saturating_mul(4).min(instructions).saturating_add(1 << 13)
}

/// A seeded sample that takes from every operator in turn.
fn sample(mutations: Vec<Mutation>, seed: u64, limit: usize) -> Vec<Mutation> {
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
    while chosen.len() < limit && operators.iter().any(|(_, sites)| !sites.is_empty()) {
        for (_, sites) in &mut operators {
            if chosen.len() < limit
                && let Some(mutation) = sites.pop()
            {
                chosen.push(mutation);
            }
        }
    }
    chosen
}
