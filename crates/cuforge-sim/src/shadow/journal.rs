//! What words of global memory held before a launch wrote them, so that the launch can be undone.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Words in one lazily made piece.
const CHUNK_LOG2: u32 = 10;

/// Set in an entry that holds something.
const KEPT: u64 = 1 << 63;

/// Where the bits of written bytes stand in an entry.
const KNOWN_SHIFT: u32 = 32;

type Chunk = OnceLock<Box<[AtomicU64]>>;

/// Old words of all allocations.
#[derive(Debug)]
pub(crate) struct Journal {
    allocations: Vec<Vec<Chunk>>,
}

impl Journal {
    /// A journal over allocations of these sizes in bytes.
    pub(crate) fn new(sizes: impl Iterator<Item = u64>) -> Self {
        let chunks = |bytes: u64| (0..bytes.div_ceil(4 << CHUNK_LOG2)).map(|_| Chunk::new()).collect();
        Self { allocations: sizes.map(chunks).collect() }
    }

    /// Keeps what the words of a range hold, unless that is done already. Everybody calls this before writing, so what is
    /// kept first was there before anybody wrote.
    #[inline(always)]
    pub(crate) fn keep(
        &self,
        allocation: usize,
        offset: u64,
        bytes: u32,
        words: &[AtomicU32],
        known: Option<&[AtomicU8]>,
    ) {
        let Some(chunks) = self.allocations.get(allocation) else { return };
        for word in offset / 4..=(offset + u64::from(bytes) - 1) / 4 {
            let Some(chunk) = chunks.get((word >> CHUNK_LOG2) as usize) else { return };
            let entries = chunk.get_or_init(|| (0..1 << CHUNK_LOG2).map(|_| AtomicU64::new(0)).collect());
            let entry = &entries[(word & ((1 << CHUNK_LOG2) - 1)) as usize];
            if entry.load(Relaxed) != 0 {
                continue;
            }
            let word = word as usize;
            let known = known.map_or(0xf, |known| known[word].load(Relaxed));
            let kept = KEPT | u64::from(known) << KNOWN_SHIFT | u64::from(words[word].load(Relaxed));
            // The order of a read-modify-write makes sure that no later write of this word comes before.
            let _ = entry.compare_exchange(0, kept, std::sync::atomic::Ordering::SeqCst, Relaxed);
        }
    }

    /// Gives allocation, index, old value and old bits of every word that was kept.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, usize, u32, u8)> {
        self.allocations.iter().enumerate().flat_map(|(allocation, chunks)| {
            chunks.iter().enumerate().flat_map(move |(number, chunk)| {
                let entries = chunk.get().map(|entries| &entries[..]).unwrap_or_default();
                entries.iter().enumerate().filter_map(move |(index, entry)| {
                    let kept = entry.load(Relaxed);
                    let word = number << CHUNK_LOG2 | index;
                    let known = (kept >> KNOWN_SHIFT) as u8 & 0xf;
                    (kept != 0).then_some((allocation, word, kept as u32, known))
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_every_word_is_kept() {
        let words: Vec<AtomicU32> = (0..4000).map(AtomicU32::new).collect();
        let known: Vec<AtomicU8> = (0..4000).map(|_| AtomicU8::new(3)).collect();
        let journal = Journal::new([16, 16_000].into_iter());
        for round in 0..2 {
            journal.keep(1, 5998, 4, &words, Some(&known));
            journal.keep(1, 0, 1, &words, None);
            words.iter().for_each(|word| word.store(round, Relaxed));
        }
        let kept: Vec<_> = journal.entries().collect();
        assert_eq!(kept, [(1, 0, 0, 0xf), (1, 1499, 1499, 3), (1, 1500, 1500, 3)]);
    }
}
