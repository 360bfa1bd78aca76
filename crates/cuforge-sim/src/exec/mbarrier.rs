//! An mbarrier: the arrivals and bytes that its phase still waits for.

use crate::meeting::MbarrierMisuse;
use crate::shadow::{clocks, order};

/// Largest count of arrivals, and of bytes in either direction.
const MOST: u32 = (1 << 20) - 1;

/// Bytes that an mbarrier takes in shared memory, which are also its alignment.
pub(crate) const MBARRIER_BYTES: u32 = 8;

/// What arrivals have made known to those who wait: within the block, and among blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) block: clocks::Published,
    pub(crate) grid: order::Clocks,
}

/// One mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals of each phase.
    expected: u32,
    /// Arrivals that the current phase still waits for.
    pending: u32,
    /// Bytes that it still waits for.
    bytes: i64,
    /// Phases that are complete.
    phases: u64,
    /// What arrivals of the current phase, and of the one before, have told.
    pub(crate) arriving: Told,
    pub(crate) completed: Told,
}

impl Mbarrier {
    /// `mbarrier.init`
    pub(crate) fn new(count: u32) -> Result<Self, MbarrierMisuse> {
        if count == 0 || count > MOST {
            return Err(MbarrierMisuse::Count { count });
        }
        Ok(Self {
            expected: count,
            pending: count,
            bytes: 0,
            phases: 0,
            arriving: Told::default(),
            completed: Told::default(),
        })
    }

    /// The state as a program sees it: the parity of the phase, and the pending arrivals.
    pub(crate) fn state(&self) -> u64 {
        self.phases << 63 | u64::from(self.pending)
    }

    /// Parity of the phase that a state was taken in.
    pub(crate) fn parity_of(state: u64) -> u32 {
        (state >> 63) as u32
    }

    /// What the current phase still waits for: arrivals and bytes.
    pub(crate) fn left(&self) -> (u32, i64) {
        (self.pending, self.bytes)
    }

    /// Whether the phase of this parity, the current one or the one before, is complete.
    pub(crate) fn is_complete(&self, parity: u32) -> bool {
        self.phases & 1 != u64::from(parity & 1)
    }

    /// Waits for so many more bytes in this phase.
    pub(crate) fn expect(&mut self, bytes: u32) -> Result<(), MbarrierMisuse> {
        self.bytes += i64::from(bytes);
        self.check_bytes()
    }

    /// So many bytes have come; true if that completes the phase.
    pub(crate) fn receive(&mut self, bytes: u32) -> Result<bool, MbarrierMisuse> {
        self.bytes -= i64::from(bytes);
        self.check_bytes()?;
        Ok(self.settle())
    }

    fn check_bytes(&self) -> Result<(), MbarrierMisuse> {
        if self.bytes.unsigned_abs() > u64::from(MOST) {
            return Err(MbarrierMisuse::TooManyBytes { bytes: self.bytes });
        }
        Ok(())
    }

    /// One more arrival is expected of this phase.
    pub(crate) fn expect_arrival(&mut self) -> Result<(), MbarrierMisuse> {
        self.pending += 1;
        if self.pending > MOST { Err(MbarrierMisuse::Count { count: self.pending }) } else { Ok(()) }
    }

    /// Later phases wait for so many arrivals less.
    pub(crate) fn leave(&mut self, count: u32) -> Result<(), MbarrierMisuse> {
        let pending = self.pending;
        self.expected =
            self.expected.checked_sub(count).ok_or(MbarrierMisuse::TooManyArrivals { count, pending })?;
        Ok(())
    }

    /// So many arrivals; true if that completes the phase.
    pub(crate) fn arrive(&mut self, count: u32) -> Result<bool, MbarrierMisuse> {
        let pending = self.pending;
        if count == 0 || count > MOST {
            return Err(MbarrierMisuse::Count { count });
        }
        self.pending =
            pending.checked_sub(count).ok_or(MbarrierMisuse::TooManyArrivals { count, pending })?;
        Ok(self.settle())
    }

    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.bytes == 0;
        if complete {
            self.phases += 1;
            self.pending = self.expected;
            self.completed = std::mem::take(&mut self.arriving);
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::PENDING_MASK;

    #[test]
    fn a_phase_is_complete_when_all_have_arrived_and_all_bytes_have_come() {
        let mut barrier = Mbarrier::new(3).unwrap();
        assert!(!barrier.is_complete(0) && barrier.is_complete(1), "the phase before the first is complete");
        assert_eq!(barrier.arrive(1), Ok(false));
        let state = barrier.state();
        assert_eq!((state as u32 & PENDING_MASK, Mbarrier::parity_of(state)), (2, 0));
        barrier.expect(32).unwrap();
        assert_eq!(barrier.arrive(2), Ok(false));
        assert_eq!(
            (barrier.left(), barrier.receive(16), barrier.receive(16)),
            ((0, 32), Ok(false), Ok(true))
        );
        assert!(barrier.is_complete(0) && !barrier.is_complete(1));
        assert_eq!((barrier.phases, barrier.left()), (1, (3, 0)));
        assert_eq!(Mbarrier::parity_of(barrier.state()), 1);
    }

    #[test]
    fn bytes_may_come_before_they_are_expected() {
        let mut barrier = Mbarrier::new(1).unwrap();
        assert_eq!(barrier.receive(64), Ok(false));
        assert_eq!(barrier.expect(64), Ok(()));
        assert_eq!(barrier.arrive(1), Ok(true));
    }

    #[test]
    fn who_leaves_is_not_expected_again() {
        let mut barrier = Mbarrier::new(2).unwrap();
        barrier.leave(1).unwrap();
        assert_eq!((barrier.arrive(1), barrier.arrive(1)), (Ok(false), Ok(true)));
        assert_eq!(barrier.arrive(1), Ok(true));
    }

    #[test]
    fn counts_that_no_mbarrier_has_are_misuse() {
        assert_eq!(Mbarrier::new(0).err(), Some(MbarrierMisuse::Count { count: 0 }));
        assert_eq!(Mbarrier::new(1 << 20).err(), Some(MbarrierMisuse::Count { count: 1 << 20 }));
        let mut barrier = Mbarrier::new(2).unwrap();
        assert_eq!(barrier.arrive(3), Err(MbarrierMisuse::TooManyArrivals { count: 3, pending: 2 }));
        assert_eq!(barrier.expect(1 << 20), Err(MbarrierMisuse::TooManyBytes { bytes: 1 << 20 }));
    }
}
