//! Simulated device memory: allocations, marked ranges, poison, and access from the host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::backing::Words;
use crate::touched::AccessLog;

/// What fresh memory holds, word by word: a NaN as `f64`, `f32`, `bf16` and `f16`, and a large number as an integer.
pub const POISON_WORD: u32 = 0x7ff7_7ff7;

/// First address ever handed out; everything below belongs to the other state spaces.
const FIRST_ADDRESS: u64 = 0x7_0000_0000;

/// Least distance between two allocations, so that running off one never lands in another.
const GAP_BYTES: u64 = 4096;

/// What every allocation is aligned to at least, as by the CUDA driver.
const MIN_ALIGN_BYTES: u64 = 256;

/// A wrong request to [`Memory`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Fewer bytes are free than were asked for.
    #[error("out of simulated memory: {requested} bytes requested, {free} of {capacity} free")]
    OutOfMemory {
        /// Bytes that were asked for.
        requested: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes in all.
        capacity: u64,
    },
    /// The simulated device would have the bytes, but the host has not.
    #[error("the host has no memory for {requested} bytes of the simulated device")]
    HostMemory {
        /// Bytes that were asked for.
        requested: u64,
    },
    /// Zero bytes, or an alignment that is no power of two.
    #[error("an allocation of {len} bytes aligned to {align} cannot be made")]
    BadRequest {
        /// Bytes that were asked for.
        len: u64,
        /// Alignment that was asked for.
        align: u64,
    },
    /// No allocation starts at the address.
    #[error("no allocation starts at {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// The range is not inside one allocation.
    #[error("{len} bytes at {address:#x} are not inside one allocation")]
    OutOfRange {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The range was not marked.
    #[error("{len} bytes at {address:#x} bear no mark")]
    NotMarked {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// The global memory of a simulated device.
///
/// Addresses are never 0 and never used twice, so an access to freed memory is always found. Fresh memory holds
/// [`POISON_WORD`]. Host access works on any range inside one allocation and ignores marks.
///
/// ```
/// use cuforge_sim::Memory;
///
/// let mut memory = Memory::new(1 << 20);
/// let address = memory.allocate(16, 16)?;
/// memory.write(address + 4, &7u32.to_le_bytes())?;
/// let mut bytes = [0; 8];
/// memory.read(address, &mut bytes)?;
/// assert!(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).is_nan());
/// assert_eq!(bytes[4..], [7, 0, 0, 0]);
/// memory.free(address)?;
/// assert!(memory.read(address, &mut bytes).is_err());
/// # Ok::<(), cuforge_sim::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    capacity_bytes: u64,
    used_bytes: u64,
    next: u64,
    allocations: BTreeMap<u64, Allocation>,
    freed: BTreeMap<u64, u64>,
    modules: BTreeMap<u64, Vec<u64>>,
    printed: Vec<u8>,
    log: Option<Arc<AccessLog>>,
}

/// One allocation and the marks inside it.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) len: u64,
    pub(crate) words: Words,
    /// How often each range (start, length) is marked.
    pub(crate) marks: BTreeMap<(u64, u64), u32>,
    /// Which bytes are written: four bits for each word. Absent once the host has written all of them.
    pub(crate) known: Option<Vec<AtomicU8>>,
}

/// All bytes of a word are written.
const WHOLE: u8 = 0xf;

impl Allocation {
    /// Which bytes are written, four bits for each word; absent if all are.
    pub(crate) fn known(&self) -> Option<&[AtomicU8]> {
        self.known.as_deref().or_else(|| self.words.known())
    }

    /// Says of a range that it is written, or that it is not.
    fn set_known(&mut self, offset: usize, len: usize, known: bool) {
        let whole = offset == 0 && len as u64 == self.len;
        match &mut self.known {
            None if known => {}
            Some(_) if known && whole => self.known = None,
            None if matches!(self.words, Words::Own(_)) => {
                self.known = Some(self.words.iter().map(|_| AtomicU8::new(WHOLE)).collect());
                self.set_known(offset, len, false);
            }
            None => {}
            Some(words) => {
                for (index, byte) in split_words(offset, len) {
                    let bits = byte.in_word.fold(0, |bits, at| bits | 1u8 << at);
                    let word = words[index].get_mut();
                    *word = if known { *word | bits } else { *word & !bits };
                }
            }
        }
    }
}

impl Memory {
    /// Memory of that many bytes; costs nothing until allocated.
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            used_bytes: 0,
            next: FIRST_ADDRESS,
            allocations: BTreeMap::new(),
            freed: BTreeMap::new(),
            modules: BTreeMap::new(),
            printed: Vec::new(),
            log: None,
        }
    }

    /// Bytes in all.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes in allocations.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes left to allocate.
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes - self.used_bytes
    }

    /// Allocates `len` bytes (at least 1), aligned to `align` (a power of two; at least 256 is given), poisoned.
    ///
    /// Costs one pass over the bytes.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`], [`MemoryError::HostMemory`] and [`MemoryError::BadRequest`].
    pub fn allocate(&mut self, len: u64, align: u64) -> Result<u64, MemoryError> {
        if len == 0 || !align.is_power_of_two() || align > 1 << 40 {
            return Err(MemoryError::BadRequest { len, align });
        }
        if len > self.free_bytes() {
            return Err(MemoryError::OutOfMemory {
                requested: len,
                free: self.free_bytes(),
                capacity: self.capacity_bytes,
            });
        }
        let base = self.next.next_multiple_of(align.max(MIN_ALIGN_BYTES));
        let unavailable = || MemoryError::HostMemory { requested: len };
        let count = usize::try_from(len.div_ceil(4)).map_err(|_| unavailable())?;
        let next =
            base.checked_add(len).and_then(|end| end.checked_add(GAP_BYTES)).ok_or_else(unavailable)?;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| unavailable())?;
        words.resize_with(count, || AtomicU32::new(POISON_WORD));
        let mut known = Vec::new();
        known.try_reserve_exact(count).map_err(|_| unavailable())?;
        known.resize_with(count, AtomicU8::default);
        let (words, known) = (Words::Own(words), Some(known));
        self.allocations.insert(base, Allocation { base, len, words, marks: BTreeMap::new(), known });
        self.used_bytes += len;
        self.next = next;
        Ok(base)
    }

    /// Gives an allocation back; its address stays dead for ever.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no allocation starts there.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let allocation = self.allocations.remove(&address).ok_or(MemoryError::NotAllocated { address })?;
        self.used_bytes -= allocation.len;
        self.freed.insert(address, allocation.len);
        Ok(())
    }

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.range_mut(address, bytes.len() as u64)?;
        for (index, byte) in split_words(offset, bytes.len()) {
            let word = &allocation.words[index];
            let mut whole = word.load(Relaxed).to_le_bytes();
            whole[byte.in_word.clone()].copy_from_slice(&bytes[byte.in_bytes]);
            word.store(u32::from_le_bytes(whole), Relaxed);
        }
        allocation.set_known(offset, bytes.len(), true);
        Ok(())
    }

    /// Copies bytes from the device.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.range(address, bytes.len() as u64)?;
        for (index, byte) in split_words(offset, bytes.len()) {
            let whole = allocation.words[index].load(Relaxed).to_le_bytes();
            bytes[byte.in_bytes].copy_from_slice(&whole[byte.in_word]);
        }
        Ok(())
    }

    /// Sets every byte of the range.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn fill(&mut self, address: u64, len: u64, byte: u8) -> Result<(), MemoryError> {
        self.fill_pattern(address, len, [byte; 4], true)
    }

    /// Makes the range look as if never written.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn poison(&mut self, address: u64, len: u64) -> Result<(), MemoryError> {
        self.fill_pattern(address, len, POISON_WORD.to_le_bytes(), false)
    }

    /// Copies from one range to another, which may overlap; what was never written stays so.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless each range lies inside one allocation.
    pub fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), MemoryError> {
        let count = usize::try_from(len).map_err(|_| MemoryError::OutOfRange { address: from, len })?;
        let mut bytes = vec![0; count];
        self.read(from, &mut bytes)?;
        let (source, offset) = self.range(from, len)?;
        let known = |at: usize| {
            let known = source.known();
            known.is_none_or(|words| words[(offset + at) / 4].load(Relaxed) >> ((offset + at) % 4) & 1 != 0)
        };
        let unknown: Vec<usize> = (0..count).filter(|at| !known(*at)).collect();
        self.write(to, &bytes)?;
        let (target, offset) = self.range_mut(to, len)?;
        unknown.into_iter().for_each(|at| target.set_known(offset + at, 1, false));
        Ok(())
    }

    /// The first address of the range that neither host nor kernel has written.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn first_unwritten(&self, address: u64, len: u64) -> Result<Option<u64>, MemoryError> {
        let (allocation, offset) = self.range(address, len)?;
        let Some(words) = allocation.known() else { return Ok(None) };
        let unwritten = |at: &u64| {
            let at = offset as u64 + at;
            words[(at / 4) as usize].load(Relaxed) >> (at % 4) & 1 == 0
        };
        Ok((0..len).find(unwritten).map(|at| address + at))
    }

    /// Marks a range inside one allocation. From the first mark on, a kernel's access to that allocation must lie
    /// wholly within one of its marks. Marks may overlap; a range marked twice must be unmarked twice.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the range lies inside one allocation.
    pub fn mark(&mut self, address: u64, len: u64) -> Result<(), MemoryError> {
        let (allocation, _) = self.range_mut(address, len)?;
        *allocation.marks.entry((address, len)).or_default() += 1;
        Ok(())
    }

    /// Takes one mark of exactly this range away.
    ///
    /// # Errors
    /// [`MemoryError::NotMarked`] if there is none; [`MemoryError::OutOfRange`] as for [`Memory::mark`].
    pub fn unmark(&mut self, address: u64, len: u64) -> Result<(), MemoryError> {
        let (allocation, _) = self.range_mut(address, len)?;
        let count =
            allocation.marks.get_mut(&(address, len)).ok_or(MemoryError::NotMarked { address, len })?;
        *count -= 1;
        if *count == 0 {
            allocation.marks.remove(&(address, len));
        }
        Ok(())
    }

    /// What kernels have printed since the last call, with the texts of failed assertions: block after block, thread after
    /// thread where warps run together. The device's buffer for it has no end here.
    pub fn take_printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed)
    }

    /// Adds to what kernels have printed.
    pub(crate) fn print(&mut self, text: &[u8]) {
        self.printed.extend(text);
    }

    /// All allocations, lowest first.
    pub(crate) fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.values()
    }

    /// The freed range that holds the address.
    pub(crate) fn freed_around(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &len) = self.freed.range(..=address).next_back()?;
        (address - start < len).then_some((start, len))
    }

    /// Where the variables of a loaded module lie.
    pub(crate) fn module(&self, id: u64) -> Option<&[u64]> {
        self.modules.get(&id).map(Vec::as_slice)
    }

    /// Puts an allocation where none lies.
    pub(crate) fn insert(&mut self, allocation: Allocation) -> Result<(), MemoryError> {
        let (address, len) = (allocation.base, allocation.len);
        let below = self.allocations.range(..address + len).next_back();
        if below.is_some_and(|(base, below)| base + below.len > address) {
            return Err(MemoryError::OutOfRange { address, len });
        }
        self.allocations.insert(address, allocation);
        Ok(())
    }

    /// Where launches note what they touch.
    pub(crate) fn log(&self) -> Option<&AccessLog> {
        self.log.as_deref()
    }

    pub(crate) fn set_log(&mut self, log: Arc<AccessLog>) {
        self.log = Some(log);
    }

    /// Remembers where the variables of a module lie.
    pub(crate) fn set_module(&mut self, id: u64, addresses: Vec<u64>) {
        self.modules.insert(id, addresses);
    }

    fn fill_pattern(
        &mut self,
        address: u64,
        len: u64,
        pattern: [u8; 4],
        known: bool,
    ) -> Result<(), MemoryError> {
        let (allocation, offset) = self.range_mut(address, len)?;
        let len = usize::try_from(len).map_err(|_| MemoryError::OutOfRange { address, len })?;
        for (index, byte) in split_words(offset, len) {
            let word = &allocation.words[index];
            let mut whole = word.load(Relaxed).to_le_bytes();
            whole[byte.in_word.clone()].copy_from_slice(&pattern[byte.in_word]);
            word.store(u32::from_le_bytes(whole), Relaxed);
        }
        allocation.set_known(offset, len, known);
        Ok(())
    }

    fn range(&self, address: u64, len: u64) -> Result<(&Allocation, usize), MemoryError> {
        let wrong = MemoryError::OutOfRange { address, len };
        let (_, allocation) = self.allocations.range(..=address).next_back().ok_or(wrong.clone())?;
        let offset = address - allocation.base;
        if offset > allocation.len || len > allocation.len - offset {
            return Err(wrong);
        }
        usize::try_from(offset).map(|offset| (allocation, offset)).map_err(|_| wrong)
    }

    fn range_mut(&mut self, address: u64, len: u64) -> Result<(&mut Allocation, usize), MemoryError> {
        let wrong = MemoryError::OutOfRange { address, len };
        let (_, allocation) = self.allocations.range_mut(..=address).next_back().ok_or(wrong.clone())?;
        let offset = address - allocation.base;
        if offset > allocation.len || len > allocation.len - offset {
            return Err(wrong);
        }
        usize::try_from(offset).map(|offset| (allocation, offset)).map_err(|_| wrong)
    }
}

/// The part of a byte range that lies in one word.
struct Piece {
    in_word: std::ops::Range<usize>,
    in_bytes: std::ops::Range<usize>,
}

fn split_words(offset: usize, len: usize) -> impl Iterator<Item = (usize, Piece)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done;
        let first = at % 4;
        let count = (4 - first).min(len - done);
        let piece = Piece { in_word: first..first + count, in_bytes: done..done + count };
        done += count;
        Some((at / 4, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_copies_reach_any_byte_range() {
        let mut memory = Memory::new(4096);
        let address = memory.allocate(100, 1).unwrap();
        let bytes: Vec<u8> = (0..53).collect();
        for offset in 0..8 {
            memory.fill(address, 100, 0xee).unwrap();
            memory.write(address + offset, &bytes).unwrap();
            let mut back = vec![0; 53];
            memory.read(address + offset, &mut back).unwrap();
            assert_eq!(back, bytes);
            let mut edge = [0];
            memory.read(address + offset + 53, &mut edge).unwrap();
            assert_eq!(edge, [0xee]);
        }
    }

    #[test]
    fn capacity_is_counted_and_addresses_never_return() {
        let mut memory = Memory::new(1000);
        let first = memory.allocate(600, 256).unwrap();
        assert!(matches!(memory.allocate(600, 256), Err(MemoryError::OutOfMemory { free: 400, .. })));
        memory.free(first).unwrap();
        let second = memory.allocate(1000, 4096).unwrap();
        assert!(second > first && second.is_multiple_of(4096));
        assert_eq!(memory.freed_around(first + 599), Some((first, 600)));
        assert_eq!(memory.free(first), Err(MemoryError::NotAllocated { address: first }));
    }

    #[test]
    fn a_range_over_the_end_is_refused() {
        let mut memory = Memory::new(1000);
        let address = memory.allocate(10, 1).unwrap();
        assert!(memory.write(address + 8, &[0; 3]).is_err());
        assert!(memory.read(address - 1, &mut [0]).is_err());
        assert!(memory.mark(address, 11).is_err());
        assert!(memory.write(address + 10, &[]).is_ok());
        assert!(memory.read(u64::MAX, &mut [0]).is_err());
    }

    #[test]
    fn marks_count_how_often_they_were_set() {
        let mut memory = Memory::new(1000);
        let address = memory.allocate(64, 1).unwrap();
        memory.mark(address, 32).unwrap();
        memory.mark(address, 32).unwrap();
        memory.unmark(address, 32).unwrap();
        assert_eq!(memory.allocations().next().unwrap().marks.len(), 1);
        memory.unmark(address, 32).unwrap();
        assert!(matches!(memory.unmark(address, 32), Err(MemoryError::NotMarked { .. })));
    }

    #[test]
    fn poison_is_not_a_number_in_any_float_format() {
        assert!(f32::from_bits(POISON_WORD).is_nan());
        assert!(half::f16::from_bits(POISON_WORD as u16).is_nan());
        assert!(half::bf16::from_bits(POISON_WORD as u16).is_nan());
        assert!(f64::from_bits(u64::from(POISON_WORD) << 32 | u64::from(POISON_WORD)).is_nan());
    }
}
