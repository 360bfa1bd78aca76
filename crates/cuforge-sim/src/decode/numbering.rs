//! Numbers of registers that nothing writes: known for good once all written ones are counted.

use crate::form::{Pred, R32, R64};
use crate::operands::Visit;

/// Constants and special values are numbered from here until all written registers are counted.
pub(crate) const READ_ONLY: u32 = 1 << 31;

/// Gives constants and special values their final numbers, behind the written registers.
pub(crate) struct Renumber {
    pub(crate) written32: u32,
    pub(crate) written64: u32,
}

impl Visit for Renumber {
    fn narrow(&mut self, reg: &mut R32) {
        if reg.0 >= READ_ONLY {
            reg.0 = reg.0 - READ_ONLY + self.written32;
        }
    }

    fn wide(&mut self, reg: &mut R64) {
        if reg.0 >= READ_ONLY {
            reg.0 = reg.0 - READ_ONLY + self.written64;
        }
    }

    fn pred(&mut self, _: &mut Pred) {}
}
