//! Result mutants: changes of the very outputs that were found right, which the case must notice.

use crate::case::Case;
use crate::check::{Checked, SECOND_POISON};
use crate::error::OracleError;
use crate::execute::all_agree;
use crate::format::{Format, power_of_two};
use crate::interface::{Buffer, Role};
use crate::number::{Number, Scalar, encode, floats};
use crate::verdict::{Fate, MutantReport};

/// Result mutants that every case must notice. The others may be right by chance (a shift of equal rows), or hide
/// within an honest bound (half of the digits of a sum that cancels), so they are counted and shown.
pub(crate) const REQUIRED: [&str; 4] = ["zero-output", "drop-tail", "previous-output", "skip-block"];

/// Shows the case every result mutant of each of its outputs.
pub(crate) fn result_mutants(
    case: &Case,
    checked: &Checked,
    seed: u64,
) -> Result<Vec<MutantReport>, OracleError> {
    // What the same kernel would have left behind from a run over other inputs.
    let previous = case.ideal(&case.contents(seed.wrapping_add(1))?)?;
    let ideal = case.ideal(&checked.contents)?;
    let stale = stale_values(case, &checked.contents)?;
    let mut gallery = Gallery { case, checked, mutants: Vec::new() };
    for (index, buffer) in case.buffers().iter().enumerate() {
        let Some(previous) = previous[index].as_ref().filter(|_| buffer.elements > 0) else { continue };
        let right = &checked.got[index];
        let name = &buffer.name;
        gallery.show(index, "zero-output", &format!("a zeroed `{name}`"), vec![0; right.len()]);
        gallery.show(index, "drop-tail", &format!("a dropped tail of `{name}`"), gallery.without_tail(index));
        let what = format!("what a run over other inputs left in `{name}`");
        gallery.show(index, "previous-output", &what, previous.clone());
        if let Some(skipped) = gallery.without_block(index) {
            gallery.show(index, "skip-block", &format!("a skipped block of `{name}`"), skipped);
        }
        if buffer.elements > 1 {
            let mut shifted = right.clone();
            shifted.rotate_right(buffer.element.size_bytes() as usize);
            gallery.show(index, "shift-output", &format!("a shift by one element of `{name}`"), shifted);
        }
        for (input, copied) in case.buffers().iter().zip(&checked.contents) {
            if input.role != Role::Output && input.element == buffer.element && copied.len() == right.len() {
                let what = format!("a copy of `{}` in `{name}`", input.name);
                gallery.show(index, "copy-input", &what, copied.clone());
            }
        }
        if let Some(coarse) = with_half_the_digits(buffer, right).filter(|coarse| coarse != right) {
            gallery.show(index, "lose-precision", &format!("half of the digits of `{name}`"), coarse);
        }
        for (value, outputs) in &stale {
            // Equal to what is right: the value has no part in this output.
            if let Some(left) = outputs[index].as_ref().filter(|left| left.len() == right.len())
                && Some(left) != ideal[index].as_ref()
            {
                let what = format!("`{name}` under another `{value}`");
                gallery.show(index, "stale-uniform", &what, left.clone());
            }
        }
    }
    Ok(gallery.mutants)
}

/// Mutants of the outputs of one check, each judged as it is shown.
struct Gallery<'a> {
    case: &'a Case,
    checked: &'a Checked,
    mutants: Vec<MutantReport>,
}

impl Gallery<'_> {
    fn show(&mut self, index: usize, operator: &str, description: &str, bytes: Vec<u8>) {
        let mut got = self.checked.got.clone();
        got[index] = bytes;
        let agrees = all_agree(self.case, &got, &self.checked.expected, self.checked.poison);
        self.mutants.push(MutantReport {
            operator: operator.to_owned(),
            description: description.to_owned(),
            fate: if agrees { Fate::Survives } else { Fate::Differs },
        });
    }

    /// The last sixteenth was never written.
    fn without_tail(&self, index: usize) -> Vec<u8> {
        let elements = self.elements(index);
        self.unwritten(index, elements - elements.div_ceil(16), elements)
    }

    /// A middle block never ran, if the output is cut into several by the blocks of the launch.
    fn without_block(&self, index: usize) -> Option<Vec<u8>> {
        let elements = self.elements(index);
        let blocks = usize::try_from(self.checked.check.blocks).ok().filter(|blocks| *blocks > 1)?;
        let each = elements.div_ceil(blocks);
        let start = (blocks / 2 * each).min(elements - 1);
        Some(self.unwritten(index, start, (start + each).min(elements)))
    }

    /// The right output with poison from one element to another. Where the right one looks like poison, other poison
    /// shows that it is missing.
    fn unwritten(&self, index: usize, start: usize, end: usize) -> Vec<u8> {
        let size = self.case.buffers()[index].element.size_bytes() as usize;
        let mut bytes = self.checked.got[index].clone();
        let gone = &mut bytes[start * size..end * size];
        let alike = gone.iter().all(|byte| *byte == self.checked.poison);
        gone.fill(if alike { SECOND_POISON } else { self.checked.poison });
        bytes
    }

    fn elements(&self, index: usize) -> usize {
        self.checked.got[index].len() / self.case.buffers()[index].element.size_bytes() as usize
    }
}

/// Every output under another value of one uniform field or scalar, as a launch that kept an earlier one would leave
/// it. Of integers, which are mostly sizes that the reference counts on, only those with a stated other value.
fn stale_values<'a>(case: &'a Case, contents: &[Vec<u8>]) -> Result<Vec<(&'a str, Outputs)>, OracleError> {
    let mut stale = Vec::new();
    for (name, value) in case.by_name() {
        let other = case.stale(name).or(match value {
            Scalar::F32(value) => Some(Scalar::F32(value * 0.75 + 0.125)),
            Scalar::F64(value) => Some(Scalar::F64(value * 0.75 + 0.125)),
            _ => None,
        });
        if let Some(other) = other.filter(|other| *other != value) {
            stale.push((name, case.ideal_with(contents, name, other)?));
        }
    }
    Ok(stale)
}

/// The bytes of every buffer that is written.
type Outputs = Vec<Option<Vec<u8>>>;

/// Each number rounded to half of its type's significant bits; none for integers.
fn with_half_the_digits(buffer: &Buffer, right: &[u8]) -> Option<Vec<u8>> {
    let format = Format::of(buffer.element)?;
    let coarser = power_of_two(format.precision_bits() / 2);
    let mut bytes = Vec::with_capacity(right.len());
    for value in floats(buffer.element, right) {
        let unit = format.ulp(value) * coarser;
        let coarse = if value.is_finite() { (value / unit).round_ties_even() * unit } else { value };
        encode(buffer.element, Number::Float(coarse), &mut bytes);
    }
    Some(bytes)
}
