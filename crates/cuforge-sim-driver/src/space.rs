//! The address space of all devices: which bytes lie where, who may reach them, and how much is in use.

use cuforge_sim::{Backing, Memory};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::addresses::{Arena, Reservation};
use crate::codes::{Answer, Code};
use crate::marks::{Marks, Submitted};
use crate::physical::{Physical, Window};

/// What a range of addresses came from, and so what ends it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    /// `cuMemAlloc`.
    Device,
    /// A pool, by its handle: `cuMemAllocAsync`.
    Pool(u64),
    /// `cuMemHostAlloc`, with its flags.
    Host(u32),
    /// `cuMemHostRegister`, with its flags.
    Registered(u32),
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemMap`.
    Mapped,
    /// A variable of a module.
    Variable,
}

impl Owner {
    /// Whether the host reaches the bytes at the same address.
    pub(crate) fn is_seen_by_host(self) -> bool {
        matches!(self, Self::Host(_) | Self::Registered(_) | Self::Managed)
    }
}

/// Bytes of a device that are in use; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl Charge {
    /// Takes bytes of a device with that many; `OUT_OF_MEMORY` where they are not there.
    pub(crate) fn take(used: &Arc<AtomicU64>, bytes: u64, capacity: u64) -> Answer<Arc<Self>> {
        let fits = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= capacity);
        used.fetch_update(Relaxed, Relaxed, fits).map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(Arc::new(Self { used: Arc::clone(used), bytes }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// A range of addresses with bytes behind it.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) window: Window,
    pub(crate) owner: Owner,
    /// The device that has the bytes; of host memory, the one it was made on.
    pub(crate) device: usize,
    /// Handle of the context it goes with.
    pub(crate) context: u64,
    /// Whether access has been allowed, as mapped memory needs.
    pub(crate) accessible: bool,
    #[expect(dead_code, reason = "given back when dropped")]
    pub(crate) charge: Option<Arc<Charge>>,
    /// Number of the allocation, never used twice.
    pub(crate) id: u64,
}

impl Range {
    /// Whether kernels of a device may reach it.
    fn is_seen_by(&self, device: usize) -> bool {
        self.accessible && (self.device == device || self.owner.is_seen_by_host())
    }

    fn end(&self) -> u64 {
        self.base + self.bytes
    }
}

/// All addresses.
#[derive(Debug, Default)]
pub(crate) struct Space {
    table: RwLock<Table>,
    pub(crate) arena: Arena,
    pub(crate) marks: Marks,
    next_id: AtomicU64,
    /// Addresses whose memory comes with the launch of a graph: starts and bytes.
    promised: RwLock<BTreeMap<u64, u64>>,
}

#[derive(Debug, Default)]
struct Table {
    ranges: BTreeMap<u64, Range>,
    reservations: BTreeMap<u64, Reservation>,
}

impl Table {
    fn around(&self, address: u64) -> Option<&Range> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end()).then_some(range)
    }

    /// Whether any range has a byte of these.
    fn overlaps(&self, base: u64, bytes: u64) -> bool {
        let end = base.saturating_add(bytes);
        self.ranges.range(..end).next_back().is_some_and(|(_, range)| range.end() > base)
    }
}

impl Space {
    /// A number for an allocation.
    pub(crate) fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed) + 1
    }

    /// Makes a range known; `INVALID_VALUE` where one lies already.
    pub(crate) fn add(&self, range: Range) -> Answer {
        let mut table = self.table.write();
        if table.overlaps(range.base, range.bytes) {
            return Err(Code::INVALID_VALUE);
        }
        table.ranges.insert(range.base, range);
        Ok(())
    }

    /// Ends the range that begins at the address, if it fits.
    pub(crate) fn remove(&self, base: u64, fits: impl Fn(&Range) -> bool) -> Answer<Range> {
        let mut table = self.table.write();
        if !table.ranges.get(&base).is_some_and(fits) {
            return Err(Code::INVALID_VALUE);
        }
        let range = table.ranges.remove(&base).ok_or(Code::INVALID_VALUE)?;
        self.marks.forget(range.base..range.end());
        Ok(range)
    }

    /// Ends all ranges that fit.
    pub(crate) fn remove_where(&self, fits: impl Fn(&Range) -> bool) {
        self.table.write().ranges.retain(|_, range| !fits(range));
    }

    /// The range that holds an address.
    pub(crate) fn around(&self, address: u64) -> Option<Range> {
        self.table.read().around(address).cloned()
    }

    /// Whether any range has a byte of these.
    pub(crate) fn overlaps(&self, base: u64, bytes: u64) -> bool {
        self.table.read().overlaps(base, bytes)
    }

    /// What lies behind bytes that may be copied or filled, piece by piece: all of one range, or of mapped ranges that
    /// follow each other. `INVALID_VALUE` unless every byte is there.
    pub(crate) fn pieces(&self, address: u64, bytes: u64) -> Answer<Vec<Window>> {
        let mut pieces = Vec::with_capacity(1);
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let table = self.table.read();
        let mut at = address;
        while at < end {
            let range = table.around(at).filter(|range| range.accessible).ok_or(Code::INVALID_VALUE)?;
            let count = range.end().min(end) - at;
            pieces.push(range.window.part((at - range.base) as usize, count as usize));
            at += count;
        }
        Ok(pieces)
    }

    /// Device memory as kernels of a device see it now, with what is marked for work submitted at that time.
    pub(crate) fn snapshot(&self, device: usize, submitted: Option<&Submitted>) -> Memory {
        let mut memory = Memory::new(0);
        let mut attached = Vec::new();
        for range in self.table.read().ranges.values().filter(|range| range.is_seen_by(device)) {
            // Registered host memory may begin inside a word.
            let odd = range.base % 4;
            let window = Window {
                physical: Arc::clone(&range.window.physical),
                offset: range.window.offset - odd as usize,
                bytes: range.window.bytes + odd as usize,
            };
            let done = memory.attach(range.base - odd, range.bytes + odd, Arc::new(window));
            debug_assert!(done.is_ok(), "{range:?}: {done:?}");
            if submitted.is_some() {
                attached.push(range.base - odd..range.end());
            }
        }
        if let Some(submitted) = submitted {
            submitted.apply(&mut memory, &attached);
        }
        memory
    }

    /// Addresses to which a graph will bring memory: work on them may be queued before.
    pub(crate) fn promise(&self, base: u64, bytes: u64) {
        self.promised.write().insert(base, bytes);
    }

    /// Whether the addresses lie inside of one such promise.
    pub(crate) fn is_promised(&self, address: u64, bytes: u64) -> bool {
        let promised = self.promised.read();
        let around = promised.range(..=address).next_back();
        around.is_some_and(|(base, room)| bytes <= room.saturating_sub(address - base))
    }

    /// Reserves addresses.
    pub(crate) fn reserve(&self, bytes: u64, align: u64) -> Answer<u64> {
        let reservation = Reservation::new(bytes, align)?;
        let base = reservation.base;
        self.table.write().reservations.insert(base, reservation);
        Ok(base)
    }

    /// Gives reserved addresses back; nothing may be mapped there.
    pub(crate) fn unreserve(&self, base: u64, bytes: u64) -> Answer {
        let mut table = self.table.write();
        let whole = table.reservations.get(&base).is_some_and(|reservation| reservation.bytes == bytes);
        if !whole || table.overlaps(base, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        table.reservations.remove(&base);
        self.marks.forget(base..base + bytes);
        Ok(())
    }

    /// Whether the addresses lie inside one reservation.
    pub(crate) fn is_reserved(&self, base: u64, bytes: u64) -> bool {
        let table = self.table.read();
        let around = table.reservations.range(..=base).next_back();
        around.is_some_and(|(_, reservation)| {
            base - reservation.base <= reservation.bytes
                && bytes <= reservation.bytes - (base - reservation.base)
        })
    }

    /// Changes mapped ranges that make up exactly these addresses; `INVALID_VALUE` unless they do.
    fn mapped(&self, base: u64, bytes: u64, mut change: impl FnMut(&mut Table, u64)) -> Answer {
        let end = base.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let mut table = self.table.write();
        let (mut at, mut found) = (base, Vec::new());
        while at < end {
            let range = table.ranges.get(&at).filter(|range| range.owner == Owner::Mapped);
            let range = range.ok_or(Code::INVALID_VALUE)?;
            found.push(at);
            at = range.end();
        }
        if at != end || found.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        found.into_iter().for_each(|base| change(&mut table, base));
        Ok(())
    }

    /// Allows or forbids access to mapped memory.
    pub(crate) fn set_access(&self, base: u64, bytes: u64, accessible: bool) -> Answer {
        self.mapped(base, bytes, |table, base| {
            if let Some(range) = table.ranges.get_mut(&base) {
                range.accessible = accessible;
            }
        })
    }

    /// Unmaps memory; reserved addresses without any are no error, as measured.
    pub(crate) fn unmap(&self, base: u64, bytes: u64) -> Answer {
        if bytes > 0 && self.is_reserved(base, bytes) && !self.overlaps(base, bytes) {
            return Ok(());
        }
        self.mapped(base, bytes, |table, base| {
            table.ranges.remove(&base);
        })
    }

    /// Bytes that are mapped.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        let table = self.table.read();
        table.ranges.values().filter(|range| range.owner == Owner::Mapped).map(|range| range.bytes).sum()
    }

    /// Bytes of one owner on a device.
    pub(crate) fn bytes_of(&self, device: usize, owner: Owner) -> u64 {
        let table = self.table.read();
        let ours = table.ranges.values().filter(|range| range.device == device && range.owner == owner);
        ours.map(|range| range.bytes).sum()
    }
}

/// A new range over fresh pages at an address.
pub(crate) fn fresh_range(base: u64, bytes: u64, physical: Arc<Physical>, owner: Owner, id: u64) -> Range {
    let window = Window::whole(physical, bytes as usize);
    Range { base, bytes, window, owner, device: 0, context: 0, accessible: true, charge: None, id }
}

// A window is what a simulated launch works on.
const _: fn(&Window) -> &[std::sync::atomic::AtomicU32] = |window| window.words();

#[cfg(test)]
mod tests {
    use super::*;

    fn range(space: &Space, base: u64, bytes: u64, owner: Owner) -> Range {
        fresh_range(base, bytes, Physical::fresh(bytes, false).unwrap(), owner, space.fresh_id())
    }

    #[test]
    fn pieces_span_mapped_neighbours_and_nothing_with_a_hole() {
        let space = Space::default();
        for base in [0x10_0000, 0x11_0000, 0x13_0000] {
            space.add(range(&space, base, 0x1_0000, Owner::Mapped)).unwrap();
        }
        let sizes = |at, bytes| {
            space.pieces(at, bytes).map(|list| list.iter().map(|piece| piece.bytes).collect::<Vec<_>>())
        };
        assert_eq!(sizes(0x10_fff0, 0x20), Ok(vec![0x10, 0x10]));
        assert_eq!(sizes(0x11_0000, 0), Ok(vec![]));
        for (at, bytes) in [(0x11_fff0, 0x20), (0x12_0000, 1), (0xf_ffff, 1), (u64::MAX, 2)] {
            assert_eq!(sizes(at, bytes), Err(Code::INVALID_VALUE), "{at:#x}");
        }
        space.set_access(0x11_0000, 0x1_0000, false).unwrap();
        assert!(sizes(0x11_0000, 1).is_err());
        assert!(space.unmap(0x10_0000, 0x1_8000).is_err(), "half a mapping");
        space.unmap(0x10_0000, 0x2_0000).unwrap();
        assert_eq!(space.mapped_bytes(), 0x1_0000);
    }

    #[test]
    fn overlapping_ranges_are_refused() {
        let space = Space::default();
        space.add(range(&space, 0x1000, 0x100, Owner::Device)).unwrap();
        for base in [0xff8, 0x1000, 0x10ff] {
            assert!(space.add(range(&space, base, 0x10, Owner::Device)).is_err(), "{base:#x}");
        }
        assert!(space.remove(0x1004, |_| true).is_err());
        assert!(space.remove(0x1000, |range| range.owner == Owner::Managed).is_err());
        space.remove(0x1000, |_| true).unwrap();
    }

    #[test]
    fn a_charge_is_given_back_and_never_exceeds_the_capacity() {
        let used = Arc::new(AtomicU64::new(0));
        let first = Charge::take(&used, 60, 100).unwrap();
        assert_eq!(Charge::take(&used, 41, 100).unwrap_err(), Code::OUT_OF_MEMORY);
        drop(first);
        assert!(Charge::take(&used, 100, 100).is_ok() && Charge::take(&used, u64::MAX, 100).is_err());
    }
}
