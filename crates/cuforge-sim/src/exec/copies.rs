//! Copies from global to shared memory that run beside their thread.
//!
//! A copy reads its source when it starts and lands when its thread waits for it, the latest moment there is: who reads
//! shared memory without waiting gets what was there before, and the hazard detector names the place.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::addresses;
use crate::exec::flights::{Copies, Flight};
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
        self.check_shared(warp, mask, &target, bytes, (&copy.target, AccessKind::Write))?;
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
            let found = self
                .hazards
                .as_mut()
                .and_then(|shadow| shadow.start_copy(&self.clocks, at, bytes, thread, warp.pc));
            if let Some(found) = found {
                return Err(self.hazard(warp, lane, AccessKind::Write, found));
            }
            let group = self.copies.committed.get(thread as usize).copied().unwrap_or_default();
            let (number, pc) = (self.copies.started, warp.pc);
            self.copies.started += 1;
            self.copies.flights.push(Flight { number, thread, group, at, bytes, data, known, pc });
        }
        Ok(())
    }

    /// `cp.async.wait_group` of at most so many groups still on their way, or `cp.async.wait_all`.
    pub(crate) fn wait_for_copies(&mut self, warp: &Warp, mask: Mask, most: Option<u32>) {
        let groups = &self.copies.committed;
        let awaited = |flight: &Flight| {
            let (of, lane) = (flight.thread as usize / LANES, flight.thread as usize % LANES);
            let waits = Copies::is_awaited(groups, flight.thread, flight.group, most);
            of == warp.index && mask >> lane & 1 != 0 && waits
        };
        let (landing, left) = self.copies.flights.iter().partition(|flight| awaited(flight));
        self.copies.flights = left;
        let landing: Vec<Flight> = landing;
        landing.iter().for_each(|flight| self.land_copy(flight));
    }

    /// Puts what a copy brings in its place.
    pub(crate) fn land_copy(&mut self, flight: &Flight) {
        let first = flight.at as usize / 4;
        for (word, value) in
            self.bank.words[first..].iter_mut().zip(&flight.data[..flight.bytes as usize / 4])
        {
            *word = *value;
        }
        let known = self.bank.known.get_mut(first..).unwrap_or_default();
        for (old, bits) in known.iter_mut().zip(&flight.known[..flight.bytes as usize / 4]) {
            *old = *bits;
        }
        if let Some(hazards) = &mut self.hazards {
            hazards.end_copy(&self.clocks, flight.at, flight.bytes, flight.thread, flight.pc);
        }
    }
}
