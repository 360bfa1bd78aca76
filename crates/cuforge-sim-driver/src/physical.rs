//! Bytes behind the simulated memory: pages of the host, looked at as atomic words because kernels, copies and, for
//! mapped memory, the host itself reach them at the same time.

use cuforge_sim::{Backing, POISON_WORD};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::codes::{Answer, Code};

/// Fresh memory up to this size is poisoned; beyond it stays zero, or a large allocation would take all of the host's
/// memory at once.
const MOST_POISONED_BYTES: usize = 256 << 20;

/// Bytes that pass through a copy at a time.
const CHUNK_BYTES: usize = 4096;

/// Pages of the host, its own or lent by the program.
pub(crate) struct Physical {
    at: *mut u8,
    /// Bytes from `at` on, a multiple of 4.
    bytes: usize,
    owned: bool,
}

// SAFETY: the pages are only reached as atomic words.
unsafe impl Send for Physical {}
// SAFETY: as above.
unsafe impl Sync for Physical {}

impl fmt::Debug for Physical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:?}", self.bytes, self.at)
    }
}

impl Physical {
    /// Fresh pages; costs nothing until they are touched, unless they are poisoned.
    pub(crate) fn fresh(bytes: u64, poison: bool) -> Answer<Arc<Self>> {
        let bytes = usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        let bytes = bytes.max(1).checked_next_multiple_of(4096).ok_or(Code::OUT_OF_MEMORY)?;
        let at = crate::addresses::map(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        let physical = Self { at, bytes, owned: true };
        if poison && bytes <= MOST_POISONED_BYTES {
            physical.words().iter().for_each(|word| word.store(POISON_WORD, Relaxed));
        }
        Ok(Arc::new(physical))
    }

    /// Memory of the program from an address on; the caller of the driver keeps it until it takes it back. `at` may be
    /// odd: the words around it are taken.
    pub(crate) fn lent(at: usize, bytes: usize) -> Answer<Arc<Self>> {
        let first = at & !3;
        let end = at.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(4));
        let end = end.filter(|_| at != 0 && bytes != 0).ok_or(Code::INVALID_VALUE)?;
        let at = std::ptr::with_exposed_provenance_mut(first);
        Ok(Arc::new(Self { at, bytes: end - first, owned: false }))
    }

    /// Where the pages lie in the host.
    pub(crate) fn host_address(&self) -> usize {
        self.at.expose_provenance()
    }

    pub(crate) fn words(&self) -> &[AtomicU32] {
        // SAFETY: `at` is aligned to 4 and valid for `bytes`, a multiple of 4: mapped by this library for as long as
        // the object lives, or lent by the program under the contract of `cuMemHostRegister`. Atomic words allow
        // other access at the same time.
        unsafe { std::slice::from_raw_parts(self.at.cast::<AtomicU32>(), self.bytes / 4) }
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if self.owned {
            crate::addresses::unmap(self.at, self.bytes);
        }
    }
}

/// A stretch of pages.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) physical: Arc<Physical>,
    /// First byte.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Backing for Window {
    /// The words of the stretch, which begins at a word.
    fn words(&self) -> &[AtomicU32] {
        let first = self.offset / 4;
        self.physical.words().get(first..first + self.bytes.div_ceil(4)).unwrap_or_default()
    }
}

impl Window {
    /// All of some pages.
    pub(crate) fn whole(physical: Arc<Physical>, bytes: usize) -> Self {
        Self { physical, offset: 0, bytes }
    }

    /// A part of it.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Self {
        Self { physical: Arc::clone(&self.physical), offset: self.offset + offset, bytes }
    }

    /// Copies all bytes to a place of the program.
    pub(crate) fn copy_out(&self, to: usize) {
        let mut done = 0;
        while done < self.bytes {
            let count = CHUNK_BYTES.min(self.bytes - done);
            let mut chunk = [0; CHUNK_BYTES];
            self.load(done, &mut chunk[..count]);
            let to = std::ptr::with_exposed_provenance_mut::<u8>(to + done);
            // SAFETY: the program gave a place for that many bytes to a copy function, and keeps it until the copy is
            // done, as `cuda.h` asks.
            unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), to, count) };
            done += count;
        }
    }

    /// Copies all bytes from a place of the program.
    pub(crate) fn copy_in(&self, from: usize) {
        let mut done = 0;
        while done < self.bytes {
            let count = CHUNK_BYTES.min(self.bytes - done);
            let mut chunk = [0; CHUNK_BYTES];
            let from = std::ptr::with_exposed_provenance::<u8>(from + done);
            // SAFETY: as in `copy_out`, the other way round.
            unsafe { std::ptr::copy_nonoverlapping(from, chunk.as_mut_ptr(), count) };
            self.store(done, &chunk[..count]);
            done += count;
        }
    }

    /// Copies all bytes from as long a stretch.
    pub(crate) fn copy_from(&self, from: &Self) {
        let mut done = 0;
        while done < self.bytes.min(from.bytes) {
            let count = CHUNK_BYTES.min(self.bytes.min(from.bytes) - done);
            let mut chunk = [0; CHUNK_BYTES];
            from.load(done, &mut chunk[..count]);
            self.store(done, &chunk[..count]);
            done += count;
        }
    }

    /// Reads bytes at an offset.
    pub(crate) fn load(&self, at: usize, into: &mut [u8]) {
        let words = self.physical.words();
        let first = self.offset + at;
        let mut done = 0;
        while done < into.len() {
            let (word, inside) = ((first + done) / 4, (first + done) % 4);
            if inside == 0 && into.len() - done >= 4 {
                let whole = (into.len() - done) / 4;
                let (to, from) = (&mut into[done..done + whole * 4], &words[word..word + whole]);
                for (bytes, word) in to.chunks_exact_mut(4).zip(from) {
                    bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                }
                done += whole * 4;
                continue;
            }
            let count = (4 - inside).min(into.len() - done);
            let value = words[word].load(Relaxed).to_le_bytes();
            into[done..done + count].copy_from_slice(&value[inside..inside + count]);
            done += count;
        }
    }

    /// Writes bytes at an offset; those beside them keep what anybody writes to them meanwhile.
    pub(crate) fn store(&self, at: usize, bytes: &[u8]) {
        let words = self.physical.words();
        let first = self.offset + at;
        let mut done = 0;
        while done < bytes.len() {
            let (word, inside) = ((first + done) / 4, (first + done) % 4);
            if inside == 0 && bytes.len() - done >= 4 {
                let whole = (bytes.len() - done) / 4;
                let (from, to) = (&bytes[done..done + whole * 4], &words[word..word + whole]);
                for (bytes, word) in from.chunks_exact(4).zip(to) {
                    word.store(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), Relaxed);
                }
                done += whole * 4;
                continue;
            }
            let count = (4 - inside).min(bytes.len() - done);
            let (mut value, mut mask) = ([0; 4], [0; 4]);
            value[inside..inside + count].copy_from_slice(&bytes[done..done + count]);
            mask[inside..inside + count].fill(0xff);
            let (value, mask) = (u32::from_le_bytes(value), u32::from_le_bytes(mask));
            let mixed = |old: u32| Some(old & !mask | value & mask);
            // The closure always gives a value.
            let _ = words[word].fetch_update(Relaxed, Relaxed, mixed);
            done += count;
        }
    }

    /// Fills it with a pattern of 1, 2 or 4 bytes.
    pub(crate) fn fill(&self, pattern: &[u8]) {
        let mut chunk = [0; CHUNK_BYTES];
        chunk.chunks_exact_mut(pattern.len()).for_each(|place| place.copy_from_slice(pattern));
        let mut done = 0;
        while done < self.bytes {
            let count = CHUNK_BYTES.min(self.bytes - done);
            self.store(done, &chunk[..count]);
            done += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_odd_places_go_in_and_out_and_leave_their_neighbours_alone() {
        let physical = Physical::fresh(64, true).unwrap();
        let whole = Window::whole(physical, 64);
        let part = whole.part(3, 11);
        let bytes: Vec<u8> = (1..=11).collect();
        part.store(0, &bytes);
        let mut back = [0; 64];
        whole.load(0, &mut back);
        assert_eq!(back[3..14], bytes[..]);
        let poison = POISON_WORD.to_le_bytes();
        assert_eq!((&back[..3], &back[14..16]), (&poison[..3], &poison[2..]));
        whole.part(20, 9).fill(&[0xee]);
        whole.load(0, &mut back);
        assert_eq!((back[19], back[20], back[28], back[29]), (poison[3], 0xee, 0xee, poison[1]));
    }

    #[test]
    fn copies_reach_the_places_of_the_program() {
        let window = Window::whole(Physical::fresh(10_000, false).unwrap(), 9_001);
        let bytes: Vec<u8> = (0..9_001).map(|at| (at * 7 % 251) as u8).collect();
        let mut back = vec![0; 9_001];
        window.copy_in(bytes.as_ptr().expose_provenance());
        window.copy_out(back.as_mut_ptr().expose_provenance());
        assert!(bytes == back);
        let other = Window::whole(Physical::fresh(10_000, false).unwrap(), 9_001);
        other.copy_from(&window);
        other.load(5_000, &mut back[..100]);
        assert_eq!(back[..100], bytes[5_000..5_100]);
    }

    #[test]
    fn lent_memory_takes_in_whole_words() {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let at = words.as_ptr().expose_provenance();
        let lent = Physical::lent(at + 1, 4).unwrap();
        assert_eq!((lent.host_address(), lent.bytes), (at, 8));
        assert!(Physical::lent(0, 8).is_err() && Physical::lent(at, 0).is_err());
        assert!(Physical::lent(at, usize::MAX).is_err());
    }
}
