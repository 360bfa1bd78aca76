//! Large pageable writes: pinned chunks in turn, filled by several threads while earlier ones travel.

use crate::error::LaunchError;
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use std::sync::Arc;

/// Bytes of one chunk; 1 MiB chunks were slower than the driver's own copy (H200, driver 580.159.04, 2026-12-01).
pub(crate) const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Chunks in turn.
const CHUNKS: usize = 3;

/// The chunks of one stream, made by its first large write: 24 MiB pinned in some 10 ms.
pub(crate) struct Bulk {
    memory: PinnedBuffer,
    /// The stream's epoch that reads each chunk last.
    epochs: [u64; CHUNKS],
    next: usize,
}

impl Bulk {
    pub(crate) fn new(gate: &Arc<Gate>) -> Result<Self, LaunchError> {
        Ok(Self { memory: PinnedBuffer::new(gate, CHUNKS * CHUNK_BYTES)?, epochs: [0; CHUNKS], next: 0 })
    }

    /// The next chunk in turn, and the epoch that must have completed before it is filled.
    pub(crate) fn turn(&mut self) -> (usize, u64) {
        let number = self.next;
        self.next = (number + 1) % CHUNKS;
        (number, self.epochs[number])
    }

    /// Its first `len` bytes.
    pub(crate) fn chunk(&mut self, number: usize, len: usize) -> &mut [u8] {
        let from = number * CHUNK_BYTES;
        &mut self.memory.as_mut_slice()[from..from + len]
    }

    /// The stream reads the chunk until `epoch`.
    pub(crate) fn left_to(&mut self, number: usize, epoch: u64) {
        self.epochs[number] = epoch;
    }
}
