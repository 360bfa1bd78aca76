//! One run of a case on a backend: fresh buffers between red zones, poisoned outputs, and everything read back.

use cuforge_core::{
    Access, Arguments, BufferView, Compute, ContextError, ContextErrorKind, Extent, OracleContext, Prepared,
    Request, Sampling, Schedule, ViewError,
};

use crate::case::Case;
use crate::compare::{Comparison, Expected, agrees, compare_rows};
use crate::interface::{Buffer, Role};
use crate::random::Random;

/// Bytes on either side of every buffer that no kernel may touch. A multiple of every alignment that views have, so a
/// buffer is aligned as its grant is.
pub(crate) const RED_ZONE_BYTES: u64 = 256;
/// What the red zones around a buffer hold: neither poison, and no likely result. Those of inputs hold something else:
/// a kernel that reads beyond its input and writes what it found there beyond its output would leave no trace.
const fn red_zone(buffer: &Buffer) -> u8 {
    match buffer.role {
        Role::Input => 0x3b,
        Role::Output | Role::InOut => 0x5c,
    }
}

/// A write outside of a buffer, found in the red zones around it.
///
/// ```
/// use cuforge_oracle::Trespass;
/// let trespass = Trespass { buffer: "y".into(), bytes_past_end: Some(3), bytes_before_start: None };
/// assert_eq!(trespass.to_string(), "wrote 4 bytes or more past the end of `y`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trespass {
    /// The buffer next to which it happened.
    pub buffer: String,
    /// The last changed byte behind the buffer, counted from its end.
    pub bytes_past_end: Option<u64>,
    /// The first changed byte before the buffer, counted backwards from its start.
    pub bytes_before_start: Option<u64>,
}

impl std::fmt::Display for Trespass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sides = [(self.bytes_before_start, "before the start"), (self.bytes_past_end, "past the end")];
        for (index, (byte, side)) in sides.iter().filter(|(byte, _)| byte.is_some()).enumerate() {
            let joint = if index == 0 { "wrote " } else { ", and " };
            write!(f, "{joint}{} bytes or more {side} of `{}`", byte.unwrap_or(0) + 1, self.buffer)?;
        }
        Ok(())
    }
}

/// The buffers of a case on a backend, each between its red zones.
pub(crate) struct Stage<'a> {
    case: &'a Case,
    /// Each buffer with the red zones before and behind it.
    whole: Vec<BufferView>,
    /// The buffers as they are bound.
    bound: Vec<BufferView>,
}

/// What a run left behind.
pub(crate) struct Left {
    /// The bytes of every buffer.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// What was written outside of the buffers since they were allocated.
    pub(crate) trespasses: Vec<Trespass>,
}

impl<'a> Stage<'a> {
    /// Allocates the case's buffers, in an order that `seed` picks, and fills the red zones. Ends all earlier
    /// allocations of the backend but resident ones.
    pub(crate) fn new(
        context: &mut dyn OracleContext,
        case: &'a Case,
        seed: u64,
    ) -> Result<Self, ContextError> {
        context.clear()?;
        let mut order: Vec<usize> = (0..case.buffers().len()).collect();
        Random::stream(seed, "allocation order").shuffle(&mut order);
        let mut whole = vec![None; order.len()];
        for index in order {
            let buffer = &case.buffers()[index];
            let request = Request::new(buffer.size_bytes() + 2 * RED_ZONE_BYTES).with_access(access(buffer));
            whole[index] = Some(context.allocate(&request)?);
        }
        let whole: Vec<BufferView> = whole.into_iter().flatten().collect();
        let mut bound = Vec::with_capacity(whole.len());
        for (buffer, view) in case.buffers().iter().zip(&whole) {
            let cut = |start, len| view.slice(start, len).map_err(misbound);
            let size = buffer.size_bytes();
            context.fill(&cut(0, RED_ZONE_BYTES)?, red_zone(buffer))?;
            context.fill(&cut(RED_ZONE_BYTES + size, RED_ZONE_BYTES)?, red_zone(buffer))?;
            let inner = cut(RED_ZONE_BYTES, size)?;
            bound.push(inner.bound_to(buffer.group, buffer.binding, access(buffer)).map_err(misbound)?);
        }
        Ok(Self { case, whole, bound })
    }

    /// Fills inputs with `contents` and outputs with poison.
    pub(crate) fn fill(
        &self,
        context: &mut dyn OracleContext,
        contents: &[Vec<u8>],
        poison: u8,
    ) -> Result<(), ContextError> {
        for ((buffer, contents), view) in self.case.buffers().iter().zip(contents).zip(&self.bound) {
            match buffer.role {
                Role::Output => context.fill(view, poison)?,
                Role::Input | Role::InOut => context.write(view, contents)?,
            }
        }
        Ok(())
    }

    /// Runs a prepared kernel once; its time in nanoseconds.
    pub(crate) fn run(
        &self,
        context: &mut dyn OracleContext,
        prepared: &mut Prepared,
    ) -> Result<u64, ContextError> {
        let mut samples = Vec::with_capacity(1);
        let once = Sampling { warmups: 0, samples: 1 };
        context.run(prepared, self.arguments(), self.case.extent(), once, &mut samples)?;
        Ok(samples.first().copied().unwrap_or(0))
    }

    /// Runs a bare kernel once.
    pub(crate) fn dispatch(&self, kernel: &mut dyn Compute) -> Result<(), ContextError> {
        kernel.dispatch(self.arguments(), self.case.extent()).map(drop)
    }

    fn arguments(&self) -> Arguments<'_> {
        Arguments { views: &self.bound, by_value: self.case.by_value() }
    }

    /// Reads every buffer back, in one piece with its red zones.
    pub(crate) fn read(&self, context: &mut dyn OracleContext) -> Result<Left, ContextError> {
        let mut left = Left { buffers: Vec::with_capacity(self.whole.len()), trespasses: Vec::new() };
        let zone = RED_ZONE_BYTES as usize;
        for (buffer, view) in self.case.buffers().iter().zip(&self.whole) {
            let mut bytes = vec![0; buffer.size_bytes() as usize + 2 * zone];
            context.read(view, &mut bytes)?;
            let changed = |byte: &u8| *byte != red_zone(buffer);
            let behind = bytes.split_off(bytes.len() - zone);
            let bytes_past_end = behind.iter().rposition(changed).map(|byte| byte as u64);
            let first = bytes[..zone].iter().position(changed);
            let bytes_before_start = first.map(|byte| RED_ZONE_BYTES - 1 - byte as u64);
            if bytes_past_end.is_some() || bytes_before_start.is_some() {
                let buffer = buffer.name.to_string();
                left.trespasses.push(Trespass { buffer, bytes_past_end, bytes_before_start });
            }
            bytes.drain(..zone);
            left.buffers.push(bytes);
        }
        Ok(left)
    }
}

const fn access(buffer: &Buffer) -> Access {
    match buffer.role {
        Role::Input => Access::StorageRead,
        Role::Output | Role::InOut => Access::StorageReadWrite,
    }
}

fn misbound(error: ViewError) -> ContextError {
    ContextError::new(ContextErrorKind::Misuse, "bind", error)
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
        let (expected, unwritten) = (expected.as_ref()?, unwritten(buffer, poison));
        let rows = buffer.row_elements;
        Some((buffer, compare_rows(buffer.element, got, expected, unwritten, case.policy(), rows)))
    })
}

/// Whether all outputs agree.
pub(crate) fn all_agree(case: &Case, got: &[Vec<u8>], expected: &[Option<Expected>], poison: u8) -> bool {
    let mut buffers = case.buffers().iter().zip(got).zip(expected);
    buffers.all(|((buffer, got), expected)| {
        let poison = unwritten(buffer, poison);
        expected.as_ref().is_none_or(|expected| agrees(buffer.element, got, expected, poison, case.policy()))
    })
}

/// What an in-out buffer held before is no poison: no byte of it counts as unwritten.
fn unwritten(buffer: &Buffer, poison: u8) -> Option<u8> {
    (buffer.role == Role::Output).then_some(poison)
}

/// Names of inputs that no longer hold what they were filled with.
pub(crate) fn changed_inputs(case: &Case, got: &[Vec<u8>], contents: &[Vec<u8>]) -> Vec<String> {
    let buffers = case.buffers().iter().zip(got).zip(contents);
    let changed = buffers.filter(|((buffer, got), before)| buffer.role == Role::Input && got != before);
    changed.map(|((buffer, _), _)| buffer.name.to_string()).collect()
}

/// The blocks that `extent` launches under `schedule`.
pub(crate) fn blocks(extent: Extent, schedule: &Schedule) -> u128 {
    match extent {
        Extent::Geometry(geometry) => geometry.blocks(),
        Extent::Elements(elements) => {
            let threads: u128 = schedule.workgroup_size.iter().map(|n| u128::from(*n)).product();
            let tile = threads * u128::from(schedule.items_per_invocation);
            u128::from(elements).div_ceil(tile.max(1))
        }
    }
}
