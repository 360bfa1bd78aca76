//! Bulk copies between global and shared memory, and what mbarriers hear of copies.
//!
//! A bulk copy reads its source when it starts. When it lands is up to the schedule: with seed 0 as late as can be, when its
//! thread waits for it or nobody can run without it; with other seeds at any time before.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::addresses;
use crate::exec::bank::Bank;
use crate::exec::cluster::within;
use crate::exec::elements::{element, put, put_element};
use crate::exec::flights::{BulkFlight, Copies, Flight, Landing};
use crate::exec::known::note;
use crate::exec::machine::{Machine, named};
use crate::exec::random::Random;
use crate::exec::taint::WHOLE;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault, UndefinedUse};
use crate::form::{Access, AtomicKind, Space};
use crate::gate::{Bulk, Completion};
use crate::lanes::{L64, LANES, Mask, lanes_of};
use crate::meeting::MbarrierMisuse;

/// What addresses and sizes of bulk copies are multiples of.
const BULK_ALIGN: u32 = 16;

/// The words that a copy takes along, which of their bytes are written, and where in shared memory they come from.
type Cargo = (Vec<u32>, Vec<u8>, Option<u32>);

impl Machine<'_> {
    /// `cp.async.bulk` and `cp.reduce.async.bulk`
    pub(crate) fn start_bulk(&mut self, warp: &Warp, mask: Mask, bulk: &Bulk) -> Result<(), Box<Fault>> {
        let (target, source) = (addresses(&warp.regs, &bulk.target), addresses(&warp.regs, &bulk.source));
        let gates = match &bulk.completion {
            Completion::Gate(access) => Some(self.gate_addresses(warp, mask, access)?),
            Completion::Group => None,
        };
        self.check_alignment(warp, mask, &source, BULK_ALIGN, AccessKind::Read, bulk.source.space)?;
        self.check_alignment(warp, mask, &target, BULK_ALIGN, AccessKind::Write, bulk.target.space)?;
        for lane in lanes_of(mask) {
            let bytes = warp.regs.get32(bulk.bytes)[lane];
            if !bytes.is_multiple_of(BULK_ALIGN) {
                return Err(self.unsupported(
                    warp,
                    lane,
                    "cp.async.bulk of a size that is no multiple of 16",
                ));
            }
            if bytes == 0 {
                continue;
            }
            let cargo = self.load_up(warp, lane, &source, &bulk.source, bytes)?;
            match &gates {
                Some(gates) => {
                    let blocks = bulk.blocks.map(|blocks| warp.regs.get32(blocks)[lane]);
                    self.send_to_shared(warp, lane, bulk, (target[lane], gates[lane]), blocks, cargo)?;
                }
                None => self.send_to_global(warp, lane, bulk, &target, cargo)?,
            }
        }
        Ok(())
    }

    /// What one lane's copy takes along.
    fn load_up(
        &mut self,
        warp: &Warp,
        lane: usize,
        source: &L64,
        access: &Access,
        bytes: u32,
    ) -> Result<Cargo, Box<Fault>> {
        let (kind, mask) = (AccessKind::Read, 1 << lane);
        let access = Access { element_bytes: bytes, count: 1, ..*access };
        let count = bytes as usize / 4;
        if access.space == Space::Global {
            let located = self.locate(warp, mask, source, &access, kind)?;
            self.touch_global(warp, &located, mask, source, &access, kind)?;
            let (view, allocation) = (&self.shot.view, located.allocation(lane));
            let first = (source[lane].wrapping_sub(view.base(allocation)) / 4) as usize;
            let words = view.words(allocation)[first..first + count].iter();
            let known = match view.known(allocation) {
                Some(known) => known[first..first + count].iter().map(|bits| bits.load(Relaxed)).collect(),
                None => vec![WHOLE; count],
            };
            return Ok((words.map(|word| word.load(Relaxed)).collect(), known, None));
        }
        self.check_shared(warp, mask, source, bytes, (&access, kind))?;
        let at = source[lane] as u32;
        let thread = warp.thread(lane);
        let found = self
            .hazards
            .as_mut()
            .and_then(|hazards| hazards.start_reading(&self.clocks, at, bytes, thread, warp.pc));
        if let Some(found) = found {
            return Err(self.hazard(warp, lane, kind, found));
        }
        let first = at as usize / 4;
        let known = match self.bank.known.get(first..first + count) {
            Some(known) => known.to_vec(),
            None => vec![WHOLE; count],
        };
        Ok((self.bank.words[first..first + count].to_vec(), known, Some(at)))
    }

    fn send_to_shared(
        &mut self,
        warp: &Warp,
        lane: usize,
        bulk: &Bulk,
        (target, gate): (u64, u64),
        blocks: Option<u32>,
        (data, known, source): Cargo,
    ) -> Result<(), Box<Fault>> {
        let (kind, bytes, thread) = (AccessKind::Write, data.len() as u32 * 4, warp.thread(lane));
        let ranks: Vec<u64> = match blocks {
            None => vec![self.rank_of(target)],
            Some(blocks) => lanes_of(blocks).map(|rank| rank as u64).collect(),
        };
        let inside = [within(target); LANES];
        for rank in ranks {
            self.enter(rank, warp, lane, (kind, target, bytes))?;
            let checked = self.check_shared(warp, 1 << lane, &inside, bytes, (&bulk.target, kind));
            let at = inside[lane] as u32;
            let found = self.hazards.as_mut().filter(|_| checked.is_ok());
            let found =
                found.and_then(|hazards| hazards.start_copy(&self.clocks, at, bytes, thread, warp.pc));
            self.leave();
            checked?;
            if let Some(found) = found {
                return Err(self.hazard(warp, lane, kind, found));
            }
            let gate_rank = if blocks.is_some() { rank } else { self.rank_of(gate) };
            self.copies.bulk.push(BulkFlight {
                thread,
                pc: warp.pc,
                group: None,
                source,
                data: data.clone(),
                known: known.clone(),
                reduction: bulk.reduction,
                landing: Landing::Shared { rank, at, gate: (gate_rank, within(gate) as u32) },
            });
        }
        Ok(())
    }

    fn send_to_global(
        &mut self,
        warp: &Warp,
        lane: usize,
        bulk: &Bulk,
        target: &L64,
        (data, known, source): Cargo,
    ) -> Result<(), Box<Fault>> {
        let (mask, thread) = (1 << lane, warp.thread(lane));
        if known.iter().any(|bits| *bits != WHOLE) {
            let origin = Some((warp.pc as u32, named(Space::Shared)));
            self.undefined(warp, lane, UndefinedUse::Output, origin)?;
        }
        let kind = if bulk.reduction.is_some() { AccessKind::Atomic } else { AccessKind::Write };
        let access = Access { element_bytes: data.len() as u32 * 4, count: 1, ..bulk.target };
        let located = self.locate(warp, mask, target, &access, kind)?;
        self.touch_global(warp, &located, mask, target, &access, kind)?;
        let allocation = located.allocation(lane);
        let offset = target[lane].wrapping_sub(self.shot.view.base(allocation));
        let group = self.copies.bulk_committed.get(thread as usize).copied();
        self.copies.bulk.push(BulkFlight {
            thread,
            pc: warp.pc,
            group,
            source,
            data,
            known,
            reduction: bulk.reduction,
            landing: Landing::Global { allocation, offset },
        });
        Ok(())
    }

    /// `cp.async.bulk.wait_group` of at most so many groups still on their way; `.read` is given no more than that.
    pub(crate) fn wait_for_bulk(&mut self, warp: &Warp, mask: Mask, most: u32) -> Result<(), Box<Fault>> {
        let groups = std::mem::take(&mut self.copies.bulk_committed);
        let awaited = |flight: &BulkFlight| {
            let (of, lane) = (flight.thread as usize / LANES, flight.thread as usize % LANES);
            let waits = |group| Copies::is_awaited(&groups, flight.thread, group, Some(most));
            of == warp.index && mask >> lane & 1 != 0 && flight.group.is_some_and(waits)
        };
        let landed = self.land_those(awaited);
        self.copies.bulk_committed = groups;
        landed.map(|_| ())
    }

    /// `cp.async.mbarrier.arrive`
    pub(crate) fn arrive_after_copies(
        &mut self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        counts: bool,
    ) -> Result<(), Box<Fault>> {
        for lane in lanes_of(mask) {
            let at = address[lane] as u32;
            let expected = self.bank.on_gate(at, |barrier| {
                if counts { barrier.expect_arrival().map(|()| false) } else { Ok(false) }
            });
            expected.map_err(|misuse| self.gate_fault(warp, lane, at, misuse))?;
            self.copies.bulk.push(BulkFlight {
                thread: warp.thread(lane),
                pc: warp.pc,
                group: None,
                source: None,
                data: Vec::new(),
                known: Vec::new(),
                reduction: None,
                landing: Landing::Arrival { before: self.copies.started, at },
            });
        }
        Ok(())
    }

    /// Lands all that is on its way in bulk; false if nothing is.
    pub(crate) fn land_all(&mut self) -> Result<bool, Box<Fault>> {
        if self.copies.bulk.is_empty() { Ok(false) } else { self.land_those(|_| true) }
    }

    /// Lands some of it.
    pub(crate) fn land_some(&mut self, random: &mut Random) -> Result<(), Box<Fault>> {
        if self.copies.bulk.is_empty() {
            return Ok(());
        }
        self.land_those(|_| random.below(2) == 0).map(|_| ())
    }

    fn land_those(&mut self, mut f: impl FnMut(&BulkFlight) -> bool) -> Result<bool, Box<Fault>> {
        let (landing, left) = std::mem::take(&mut self.copies.bulk).into_iter().partition(|flight| f(flight));
        self.copies.bulk = left;
        let landing: Vec<BulkFlight> = landing;
        let any = !landing.is_empty();
        for flight in landing {
            self.land_bulk(flight)?;
        }
        Ok(any)
    }

    fn land_bulk(&mut self, flight: BulkFlight) -> Result<(), Box<Fault>> {
        let (thread, pc, bytes) = (flight.thread, flight.pc, flight.bytes());
        if let (Some(from), Some(hazards)) = (flight.source, &mut self.hazards) {
            hazards.end_reading(&self.clocks, from, bytes, thread, pc);
        }
        match flight.landing {
            Landing::Global { allocation, offset } => {
                let (words, known) = (self.shot.view.words(allocation), self.shot.view.known(allocation));
                let first = offset as usize;
                unload(
                    &flight,
                    |at, size| element(first + at, size, false, |word| words[word].load(Relaxed)),
                    |at, size, value| {
                        put_element(first + at, size, value, |word, value, bits| {
                            put(&words[word], value, bits);
                        });
                    },
                );
                if let Some(known) = known {
                    known[first / 4..][..flight.data.len()].iter().for_each(|known| note(known, WHOLE));
                }
            }
            Landing::Shared { rank, at, gate } => {
                if !self.visit(rank) {
                    return Err(self.gate_fault_at(thread, pc, gate.1, MbarrierMisuse::NotThere));
                }
                store(&mut self.bank, at, &flight);
                if let Some(hazards) = &mut self.hazards {
                    hazards.end_copy(&self.clocks, at, bytes, thread, pc);
                }
                self.leave();
                self.tell_landing(gate, thread, pc, |bank| {
                    bank.on_gate(gate.1, |barrier| barrier.receive(bytes))
                })?;
            }
            Landing::Arrival { before, at } => {
                let (landing, left) = std::mem::take(&mut self.copies.flights)
                    .into_iter()
                    .partition(|flight: &Flight| flight.thread == thread && flight.number < before);
                self.copies.flights = left;
                let landing: Vec<Flight> = landing;
                landing.iter().for_each(|flight| self.land_copy(flight));
                let gate = (u64::from(self.rank), at);
                self.tell_landing(gate, thread, pc, |bank| bank.on_gate(at, |barrier| barrier.arrive(1)))?;
            }
        }
        Ok(())
    }

    /// Tells an mbarrier what a thread's copies have written, and that they have.
    fn tell_landing(
        &mut self,
        (rank, at): (u64, u32),
        thread: u32,
        pc: usize,
        tell: impl FnOnce(&mut Bank) -> Result<(), MbarrierMisuse>,
    ) -> Result<(), Box<Fault>> {
        let grid = self.tell_order(thread as usize / LANES);
        let misuse = if self.visit(rank) {
            let at_home = self.visits.is_none();
            if let Some(barrier) = self.bank.mbarriers.get_mut(&at) {
                if at_home {
                    self.clocks.publish_copy(thread, &mut barrier.arriving.block);
                }
                if let Some(told) = grid {
                    barrier.arriving.grid.join(&told);
                }
            }
            tell(&mut self.bank)
        } else {
            Err(MbarrierMisuse::NotThere)
        };
        self.leave();
        misuse.map_err(|misuse| self.gate_fault_at(thread, pc, at, misuse))
    }
}

/// Puts words into shared memory.
fn store(bank: &mut Bank, at: u32, flight: &BulkFlight) {
    let first = at as usize / 4;
    let words = std::cell::RefCell::new(&mut bank.words[first..first + flight.data.len()]);
    unload(
        flight,
        |at, size| element(at, size, false, |word| words.borrow()[word]),
        |at, size, value| {
            put_element(at, size, value, |word, value, bits| {
                let old = &mut words.borrow_mut()[word];
                *old = *old & !bits | value & bits;
            });
        },
    );
    if let Some(known) = bank.known.get_mut(first..first + flight.data.len()) {
        known.iter_mut().zip(&flight.known).for_each(|(known, bits)| *known = *bits);
    }
}

/// Puts each element of a flight in its place, or what the reduction makes of it and of the one there.
fn unload(flight: &BulkFlight, old: impl Fn(usize, u32) -> u64, mut put: impl FnMut(usize, u32, u64)) {
    let size = flight.reduction.map_or(4, |(_, bytes)| bytes);
    for at in (0..flight.bytes() as usize).step_by(size as usize) {
        let value = element(at, size, false, |word| flight.data[word]);
        let value = match flight.reduction {
            None | Some((AtomicKind::Cas, _)) => value,
            Some((AtomicKind::Narrow(f), _)) => u64::from(f(old(at, size) as u32, value as u32)),
            Some((AtomicKind::Wide(f), _)) => f(old(at, size), value),
        };
        put(at, size, value);
    }
}
