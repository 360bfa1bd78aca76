//! Copies from global to shared memory that run beside their thread.
//!
//! A copy reads its source when it starts and lands when its thread waits for it, the latest moment there is: who reads
//! shared memory without waiting gets what was there before, and the hazard detector names the place.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::addresses;
use crate::exec::flights::Flight;
use crate::exec::machine::Machine;
use crate::exec::taint::WHOLE;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault};
use crate::form::{Access, AsyncCopy, CopySource, Space};
use crate::lanes::{LANES, Mask, lanes_of};

impl Machine<'_> {
    /// `cp.async`
    pub(crate) fn start_copy(&mut self, warp: &Warp, mask: Mask, copy: &AsyncCopy) -> Result<(), Box<Fault>> {
        let (target, source) = (addresses(&warp.regs, &copy.target), addresses(&warp.regs, &copy.source));
        let bytes = copy.target.bytes();
        self.check_alignment(warp, mask, &target, bytes, AccessKind::Write, Space::Shared)?;
        self.check_shared(warp, mask, &target, bytes, AccessKind::Write)?;
        for lane in lanes_of(mask) {
            let taken = match copy.part {
                CopySource::Whole => bytes,
                CopySource::Bytes(reg) => warp.regs.get32(reg)[lane],
                CopySource::Unless(ignore) => {
                    if warp.regs.test(ignore) >> lane & 1 != 0 {
                        0
                    } else {
                        bytes
                    }
                }
            };
            if taken > bytes {
                return Err(self.unsupported(warp, lane, "cp.async of more bytes than it has"));
            }
            let (mut data, mut known) = ([0; 4], [WHOLE; 4]);
            if taken > 0 {
                self.check_alignment(warp, 1 << lane, &source, bytes, AccessKind::Read, Space::Global)?;
                let access = Access { element_bytes: taken, count: 1, ..copy.source };
                let located = self.locate(warp, 1 << lane, &source, &access, AccessKind::Read)?;
                self.touch_global(warp, &located, 1 << lane, &source, &access, AccessKind::Read)?;
                let allocation = located.allocation(lane);
                let view = &self.shot.view;
                let first = (source[lane].wrapping_sub(view.base(allocation)) / 4) as usize;
                let words = &view.words(allocation)[first..];
                for (index, (word, from)) in data.iter_mut().zip(words).enumerate() {
                    let left = taken.saturating_sub(index as u32 * 4).min(4);
                    let cut = ((1u64 << (left * 8)) - 1) as u32;
                    *word = from.load(Relaxed) & cut;
                }
                if let Some(written) = view.known(allocation) {
                    for (index, (bits, from)) in known.iter_mut().zip(&written[first..]).enumerate() {
                        // What is filled up is zeros, which are known.
                        let left = taken.saturating_sub(index as u32 * 4).min(4);
                        *bits = from.load(Relaxed) | WHOLE << left & WHOLE;
                    }
                }
            }
            let (at, thread) = (target[lane] as u32, warp.thread(lane));
            let found =
                self.hazards.as_mut().and_then(|shadow| shadow.start_copy(at, bytes, thread, warp.pc));
            if let Some(found) = found {
                return Err(self.hazard(warp, lane, AccessKind::Write, found));
            }
            let group = self.copies.committed.get(thread as usize).copied().unwrap_or_default();
            self.copies.flights.push(Flight { thread, group, at, bytes, data, known, pc: warp.pc });
        }
        Ok(())
    }

    /// `cp.async.commit_group`
    pub(crate) fn commit_copies(&mut self, warp: &Warp, mask: Mask) {
        for lane in lanes_of(mask) {
            if let Some(count) = self.copies.committed.get_mut(warp.thread(lane) as usize) {
                *count += 1;
            }
        }
    }

    /// `cp.async.wait_group` of at most so many groups still on their way, or `cp.async.wait_all`.
    pub(crate) fn wait_for_copies(&mut self, warp: &Warp, mask: Mask, most: Option<u32>) {
        let mut flights = std::mem::take(&mut self.copies.flights);
        flights.retain(|flight| {
            let (of, lane) = (flight.thread as usize / LANES, flight.thread as usize % LANES);
            let committed = self.copies.committed.get(flight.thread as usize).copied().unwrap_or_default();
            let waits = match most {
                None => true,
                Some(most) => u64::from(flight.group) + u64::from(most) < u64::from(committed),
            };
            if of != warp.index || mask >> lane & 1 == 0 || !waits {
                return true;
            }
            let first = flight.at as usize / 4;
            for (word, value) in
                self.shared[first..].iter_mut().zip(&flight.data[..flight.bytes as usize / 4])
            {
                *word = *value;
            }
            let known = self.shared_known.get_mut(first..).unwrap_or_default();
            for (old, bits) in known.iter_mut().zip(&flight.known[..flight.bytes as usize / 4]) {
                *old = *bits;
            }
            if let Some(hazards) = &mut self.hazards {
                hazards.end_copy(flight.at, flight.bytes, flight.thread, flight.pc);
            }
            false
        });
        self.copies.flights = flights;
    }
}
