//! The copies of a block that are on their way.

use crate::lanes::LANES;

/// A copy on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) thread: u32,
    /// Number of the group of its thread.
    pub(crate) group: u32,
    /// Where in shared memory it lands.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    pub(crate) data: [u32; 4],
    /// Which bytes of the data are written.
    pub(crate) known: [u8; 4],
    pub(crate) pc: usize,
}

/// The copies of a block on their way, and the groups that its threads have committed.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) flights: Vec<Flight>,
    pub(crate) committed: Vec<u32>,
}

impl Copies {
    /// Forgets all copies, for a block of so many threads.
    pub(crate) fn start_block(&mut self, threads: u32) {
        self.flights.clear();
        self.committed.clear();
        self.committed.resize((threads as usize).next_multiple_of(LANES), 0);
    }
}
