//! Parsed PTX over a case on a simulated device of its own: how mutants and the simulated leg are run.

use cuforge_core::{ContextError, ContextErrorKind, KernelSpec, OracleContext as _, Schedule};
use cuforge_sim::ptx::Module;
use cuforge_sim::{Fault, LaunchOptions};

use crate::adapters::SimContext;
use crate::case::Case;
use crate::check::SECOND_POISON;
use crate::compare::Expected;
use crate::error::OracleError;
use crate::execute::{RED_ZONE_BYTES, Stage, all_agree, blocks, changed_inputs};
use crate::model::ErrorModel;

/// One case with its inputs and what is right for them, to run modules over.
pub(crate) struct Bench<'a> {
    pub(crate) case: &'a Case,
    /// The kernel and schedule that the modules stand for.
    ran: &'a (KernelSpec, Schedule),
    contents: Vec<Vec<u8>>,
    expected: Vec<Option<Expected>>,
    step_budget: u64,
    /// Host threads of a run; 0 means one a core.
    threads: usize,
    seed: u64,
}

/// What one run on the simulated device left behind.
pub(crate) struct Simulated {
    pub(crate) got: Vec<Vec<u8>>,
    /// Whether all outputs agree and no input was changed. Writes outside of buffers are faults here.
    pub(crate) agrees: bool,
    /// Counted per thread.
    pub(crate) instructions: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        case: &'a Case,
        ran: &'a (KernelSpec, Schedule),
        model: &ErrorModel,
        seed: u64,
    ) -> Result<Self, OracleError> {
        let contents = case.contents(seed)?;
        let expected = case.expected(&contents, model)?;
        let step_budget = LaunchOptions::default().step_budget;
        Ok(Self { case, ran, contents, expected, step_budget, threads: 0, seed })
    }

    /// From now on, blocks may run several times the warp instructions that one of a run of so many instructions
    /// does: endless loops of mutants end soon. Runs take one thread each, because mutants run side by side.
    pub(crate) fn ready_for_mutants(&mut self, instructions: u64) {
        self.threads = 1;
        // Instructions are counted per thread, the budget per warp: the quotient alone is up to 32 times the average.
        let average = u128::from(instructions) / blocks(self.case.extent(), self.case.schedule()).max(1);
        let average = u64::try_from(average).unwrap_or(u64::MAX);
        self.step_budget = average.saturating_mul(4).min(instructions).saturating_add(1 << 13);
    }

    /// Runs one module; the inner error is the simulated device's.
    pub(crate) fn run(&self, module: &Module) -> Result<Result<Simulated, ContextError>, OracleError> {
        let options = LaunchOptions {
            step_budget: self.step_budget,
            threads: self.threads,
            seed: self.seed,
            ..LaunchOptions::default()
        };
        // Red zones of the stage and of the device, and room to align.
        let room = 2 * RED_ZONE_BYTES + 4096;
        let bytes: u64 = self.case.buffers().iter().map(|buffer| buffer.size_bytes() + room).sum();
        let mut context = SimContext::builder().memory_bytes(bytes + room).launch_options(options).build()?;
        let mut kernel = match context.load(module, &self.ran.0, &self.ran.1) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Err(error)),
        };
        let stage = Stage::new(&mut context, self.case, self.seed)?;
        stage.fill(&mut context, &self.contents, SECOND_POISON)?;
        if let Err(error) = stage.dispatch(&mut *kernel) {
            return Ok(Err(error));
        }
        let got = stage.read(&mut context)?.buffers;
        let agrees = all_agree(self.case, &got, &self.expected, SECOND_POISON)
            && changed_inputs(self.case, &got, &self.contents).is_empty();
        Ok(Ok(Simulated { got, agrees, instructions: context.instructions().unwrap_or(0) }))
    }
}

/// Whether a launch ended for its length alone.
pub(crate) fn out_of_steps(error: &ContextError) -> bool {
    let source = std::error::Error::source(error);
    matches!(source.and_then(|source| source.downcast_ref()), Some(Fault::StepBudget { .. }))
}

/// Whether the simulated device caught the kernel at something illegal.
pub(crate) fn is_fault(error: &ContextError) -> bool {
    error.kind() == ContextErrorKind::Fault
}
