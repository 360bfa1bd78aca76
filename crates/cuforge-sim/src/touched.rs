//! Which bytes of global memory launches read and write, for whoever orders launches against each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that one bit mask tells of, and that one lazily made piece does.
const WORD_BYTES: u64 = 64;
const PIECE_WORDS: usize = 512;
const PIECE_BYTES: u64 = WORD_BYTES * PIECE_WORDS as u64;

/// How bytes were accessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Touch {
    /// By plain loads.
    Read,
    /// By plain stores.
    Written,
    /// By atomics, and other accesses that are ordered with those of all threads of the device.
    Atomic,
}

/// A stretch of bytes that a launch touched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TouchedRange {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// How.
    pub touch: Touch,
}

/// What a launch on a [`Memory`](crate::Memory) touches once [`watch`](crate::Memory::watch) has been told of this. Costs a bit for each byte touched and kind of
/// touch, and some of the speed.
#[derive(Debug, Default)]
pub struct AccessLog {
    allocations: OnceLock<Vec<Touched>>,
}

/// What was touched of one allocation.
#[derive(Debug)]
pub(crate) struct Touched {
    base: u64,
    pieces: Vec<OnceLock<Box<Piece>>>,
}

/// A bit for each byte: read, written, atomic.
type Piece = [[AtomicU64; PIECE_WORDS]; 3];

impl AccessLog {
    /// All bytes that were touched, by kind and then by address.
    pub fn ranges(&self) -> Vec<TouchedRange> {
        let allocations = self.allocations.get().map(Vec::as_slice).unwrap_or_default();
        let mut ranges = Vec::new();
        for (kind, touch) in [Touch::Read, Touch::Written, Touch::Atomic].into_iter().enumerate() {
            allocations.iter().for_each(|touched| touched.collect(kind, touch, &mut ranges));
        }
        ranges
    }

    /// Makes room for what is touched of allocations with these first bytes and lengths; those of the first launch stay.
    pub(crate) fn over(&self, allocations: impl Iterator<Item = (u64, u64)>) -> &[Touched] {
        self.allocations.get_or_init(|| {
            let one = |(base, len): (u64, u64)| Touched {
                base,
                pieces: (0..len.div_ceil(PIECE_BYTES)).map(|_| OnceLock::new()).collect(),
            };
            allocations.map(one).collect()
        })
    }
}

impl Touched {
    /// Notes an access at a byte offset; one that crosses a mask is noted in both.
    #[inline]
    pub(crate) fn note(&self, offset: u64, bytes: u32, touch: Touch) {
        let kind = touch as usize;
        let (mut at, end) = (offset, offset + u64::from(bytes));
        while at < end {
            let count = (WORD_BYTES - at % WORD_BYTES).min(end - at);
            let Some(piece) = self.pieces.get((at / PIECE_BYTES) as usize) else { return };
            let piece = piece.get_or_init(|| {
                Box::new(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
            });
            let mask = u64::MAX >> (WORD_BYTES - count) << (at % WORD_BYTES);
            let word = &piece[kind][(at % PIECE_BYTES / WORD_BYTES) as usize];
            // Most accesses find their bits set already.
            if word.load(Relaxed) & mask != mask {
                word.fetch_or(mask, Relaxed);
            }
            at += count;
        }
    }

    fn collect(&self, kind: usize, touch: Touch, ranges: &mut Vec<TouchedRange>) {
        let mut open: Option<TouchedRange> = None;
        for (number, piece) in self.pieces.iter().enumerate() {
            let Some(piece) = piece.get() else { continue };
            for (word, bits) in piece[kind].iter().enumerate() {
                let mut bits = bits.load(Relaxed);
                let base = self.base + number as u64 * PIECE_BYTES + word as u64 * WORD_BYTES;
                while bits != 0 {
                    let first = u64::from(bits.trailing_zeros());
                    let len = u64::from((bits >> first).trailing_ones());
                    let address = base + first;
                    bits &= if first + len == WORD_BYTES { 0 } else { u64::MAX << (first + len) };
                    match &mut open {
                        Some(range) if range.address + range.len == address => range.len += len,
                        other => ranges.extend(other.replace(TouchedRange { address, len, touch })),
                    }
                }
            }
        }
        ranges.extend(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_join_across_masks_and_pieces_and_kinds_stay_apart() {
        let pieces = (0..3).map(|_| OnceLock::new()).collect();
        let touched = Touched { base: 0x1000, pieces };
        touched.note(60, 8, Touch::Written);
        touched.note(68, 4, Touch::Written);
        touched.note(PIECE_BYTES - 16, 16, Touch::Read);
        touched.note(PIECE_BYTES, 1, Touch::Read);
        touched.note(PIECE_BYTES + 3, 1, Touch::Read);
        touched.note(0, 64, Touch::Atomic);
        touched.note(3 * PIECE_BYTES, 4, Touch::Atomic);
        let log = AccessLog::default();
        log.allocations.set(vec![touched]).unwrap();
        let range = |address, len, touch| TouchedRange { address: 0x1000 + address, len, touch };
        assert_eq!(
            log.ranges(),
            [
                range(PIECE_BYTES - 16, 17, Touch::Read),
                range(PIECE_BYTES + 3, 1, Touch::Read),
                range(60, 12, Touch::Written),
                range(0, 64, Touch::Atomic),
            ]
        );
    }
}
