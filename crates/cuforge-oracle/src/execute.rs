//! One run of a case on a backend: fresh buffers, poisoned outputs, and everything read back.

use cuforge_core::{
    Access, Arguments, BufferView, Compute, ContextError, ContextErrorKind, OracleContext, Prepared, Request,
    Sampling, ViewError,
};

use crate::case::Case;
use crate::compare::{Comparison, Expected, compare};
use crate::interface::{Buffer, Role};

/// The buffers of a case on a backend, with what they are filled with.
pub(crate) struct Stage<'a> {
    case: &'a Case,
    contents: &'a [Vec<u8>],
    /// Each buffer's memory as it was granted, at least one byte.
    whole: Vec<BufferView>,
    /// Each buffer as it is bound, of exactly its length.
    bound: Vec<BufferView>,
    poison: u8,
}

impl<'a> Stage<'a> {
    /// Allocates the case's buffers. Ends all earlier allocations of the backend but resident ones.
    pub(crate) fn new(
        context: &mut dyn OracleContext,
        case: &'a Case,
        contents: &'a [Vec<u8>],
        poison: u8,
    ) -> Result<Self, ContextError> {
        context.clear()?;
        let (mut whole, mut bound) = (Vec::new(), Vec::new());
        for buffer in case.buffers() {
            let access = match buffer.role {
                Role::Input => Access::StorageRead,
                Role::Output | Role::InOut => Access::StorageReadWrite,
            };
            // A grant has at least one byte; what is bound of an empty buffer has none.
            let request = Request::new(buffer.size_bytes().max(1)).with_access(access);
            let view = context.allocate(&request)?;
            let slice = view
                .slice(0, buffer.size_bytes())
                .and_then(|slice| slice.bound_to(buffer.group, buffer.binding, access))
                .map_err(|error: ViewError| ContextError::new(ContextErrorKind::Misuse, "bind", error))?;
            whole.push(view);
            bound.push(slice);
        }
        Ok(Self { case, contents, whole, bound, poison })
    }

    /// Fills inputs and poisons outputs.
    pub(crate) fn fill(&self, context: &mut dyn OracleContext) -> Result<(), ContextError> {
        for ((buffer, contents), view) in self.case.buffers().iter().zip(self.contents).zip(&self.whole) {
            match buffer.role {
                Role::Output => context.write(view, &vec![self.poison; buffer.size_bytes() as usize])?,
                Role::Input | Role::InOut => context.write(view, contents)?,
            }
        }
        Ok(())
    }

    /// Runs a prepared kernel; pushes the times of the samples.
    pub(crate) fn run(
        &self,
        context: &mut dyn OracleContext,
        prepared: &mut Prepared,
        sampling: Sampling,
        samples: &mut Vec<u64>,
    ) -> Result<(), ContextError> {
        context.run(prepared, self.arguments(), self.case.extent(), sampling, samples)
    }

    /// Runs a bare kernel once.
    pub(crate) fn dispatch(&self, kernel: &mut dyn Compute) -> Result<(), ContextError> {
        kernel.dispatch(self.arguments(), self.case.extent()).map(drop)
    }

    fn arguments(&self) -> Arguments<'_> {
        Arguments { views: &self.bound, by_value: self.case.by_value() }
    }

    /// Reads every buffer back.
    pub(crate) fn read(&self, context: &mut dyn OracleContext) -> Result<Vec<Vec<u8>>, ContextError> {
        let mut all = Vec::with_capacity(self.whole.len());
        for (buffer, view) in self.case.buffers().iter().zip(&self.whole) {
            let mut bytes = vec![0; buffer.size_bytes() as usize];
            context.read(view, &mut bytes)?;
            all.push(bytes);
        }
        Ok(all)
    }

    /// The byte that outputs are poisoned with.
    pub(crate) const fn poison(&self) -> u8 {
        self.poison
    }
}

/// How each output compares; inputs have no comparison.
pub(crate) fn compare_all<'a>(
    case: &'a Case,
    got: &'a [Vec<u8>],
    expected: &'a [Option<Expected>],
    poison: u8,
) -> impl Iterator<Item = (&'a Buffer, Comparison)> {
    let buffers = case.buffers().iter().zip(got).zip(expected);
    buffers.filter_map(move |((buffer, got), expected)| {
        let expected = expected.as_ref()?;
        // What an in-out buffer held before is no poison: no byte of it counts as unwritten.
        let unwritten = if buffer.role == Role::Output { Some(poison) } else { None };
        Some((buffer, compare(buffer.element, got, expected, unwritten, case.policy())))
    })
}

/// Whether all outputs agree.
pub(crate) fn all_agree(case: &Case, got: &[Vec<u8>], expected: &[Option<Expected>], poison: u8) -> bool {
    compare_all(case, got, expected, poison).all(|(_, comparison)| comparison.agrees())
}

/// Names of inputs that no longer hold what they were filled with.
pub(crate) fn changed_inputs(case: &Case, got: &[Vec<u8>], contents: &[Vec<u8>]) -> Vec<String> {
    let buffers = case.buffers().iter().zip(got).zip(contents);
    let changed = buffers.filter(|((buffer, got), before)| buffer.role == Role::Input && got != before);
    changed.map(|((buffer, _), _)| buffer.name.to_string()).collect()
}
