//! What the warps of a block know of each other: happens-before by vector clocks.
//!
//! Every warp has a clock and knows, of every other warp, up to which clock it is ordered before itself. Barriers
//! raise what a warp knows; `bar.warp.sync` of all lanes does so for the warp itself, one of some lanes for those
//! lanes; who arrives at an mbarrier publishes what it knows to those who wait there. An earlier access is ordered before
//! a later one if the same thread made it, or if its clock is below what the later thread's warp, or the later lane, knows
//! of its warp, lane or thread.

use std::collections::BTreeMap;

use crate::lanes::{Mask, lanes_of};

/// Most warps of a block.
pub(crate) const MAX_WARPS: usize = 32;

const STRONG: u64 = 1 << 10;
const PC_SHIFT: u32 = 11;
const PC_MAX: u64 = (1 << 21) - 1;
const CLOCK_SHIFT: u32 = 32;

/// One access: clock, place in the code, strength and thread in one word; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Touch(u64);

impl Touch {
    #[inline(always)]
    fn new(thread: u32, pc: usize, strong: bool, clock: u32) -> Self {
        let pc = (pc as u64).min(PC_MAX);
        let strong = if strong { STRONG } else { 0 };
        Self(u64::from(clock) << CLOCK_SHIFT | pc << PC_SHIFT | strong | u64::from(thread))
    }

    /// Linear index of the thread in its block.
    #[inline(always)]
    pub(crate) fn thread(self) -> u32 {
        (self.0 & 0x3ff) as u32
    }

    /// Index of the instruction.
    pub(crate) fn pc(self) -> usize {
        (self.0 >> PC_SHIFT & PC_MAX) as usize
    }

    /// Whether it is a plain access right before a strong one of the same thread: what conflicts with the strong one
    /// conflicts with it too.
    #[inline(always)]
    fn hides(self, later: Self) -> bool {
        self.0 >> CLOCK_SHIFT == later.0 >> CLOCK_SHIFT
            && self.thread() == later.thread()
            && self.0 & STRONG == 0
            && later.0 & STRONG != 0
    }

    #[inline(always)]
    fn conflicts(self, later: Self, known: Known) -> bool {
        !self.is_ordered(later, known) && self.0 & later.0 & STRONG == 0
    }

    #[inline(always)]
    fn is_ordered(self, later: Self, known: Known) -> bool {
        let clock = (self.0 >> CLOCK_SHIFT) as u32;
        clock < known.warps[(self.thread() >> 5) as usize]
            || self.thread() == later.thread()
            || self.is_ordered_apart(clock, later, known)
    }

    /// By what lanes know of each other, and warps of single threads.
    #[inline(always)]
    fn is_ordered_apart(self, clock: u32, later: Self, known: Known) -> bool {
        let among_lanes = known.lanes.is_some_and(|lanes| {
            self.thread() >> 5 == later.thread() >> 5
                && clock < lanes[(later.thread() & 31) as usize][(self.thread() & 31) as usize]
        });
        among_lanes || known.threads.get(&self.thread()).is_some_and(|below| clock < *below)
    }
}

/// Of the lanes of one warp: `[a][b]` is the clock below which accesses of lane `b` are ordered before lane `a`.
type LaneClocks = [[u32; 32]; 32];

/// Clocks below which accesses of single threads are known.
type ThreadClocks = BTreeMap<u32, u32>;

/// What a warp knows, and what its lanes know of each other, if they ever met without the others.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    warps: &'a [u32; MAX_WARPS],
    lanes: Option<&'a LaneClocks>,
    threads: &'a ThreadClocks,
}

/// What arrivals have made known to who waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    warps: [u32; MAX_WARPS],
    threads: ThreadClocks,
}

/// The clocks of one block's warps.
#[derive(Debug)]
pub(crate) struct Clocks {
    clocks: [u32; MAX_WARPS],
    /// `known[w][v]`: accesses of warp `v` below this clock are ordered before what warp `w` does.
    known: Box<[[u32; MAX_WARPS]; MAX_WARPS]>,
    /// Clocks of lanes, for warps some lanes of which met alone.
    lanes: Vec<Option<Box<LaneClocks>>>,
    /// What each warp knows of single threads, beyond what it knows of their warps.
    threads: Vec<ThreadClocks>,
}

fn raise<const N: usize>(known: &mut [u32; N], by: &[u32; N]) {
    for (known, clock) in known.iter_mut().zip(by) {
        *known = (*known).max(*clock);
    }
}

fn raise_threads(known: &mut ThreadClocks, by: &ThreadClocks) {
    for (thread, clock) in by {
        let known = known.entry(*thread).or_default();
        *known = (*known).max(*clock);
    }
}

impl Clocks {
    /// Clocks of a block that has done nothing.
    pub(crate) fn new() -> Self {
        let mut clocks = Self {
            clocks: [0; MAX_WARPS],
            known: Box::new([[0; MAX_WARPS]; MAX_WARPS]),
            lanes: vec![None; MAX_WARPS],
            threads: vec![ThreadClocks::new(); MAX_WARPS],
        };
        clocks.start_block();
        clocks
    }

    /// Orders all that was before what comes now; true if what was noted of it must be forgotten, as clocks start anew.
    pub(crate) fn start_block(&mut self) -> bool {
        let latest = self.clocks.iter().copied().max().unwrap_or_default();
        let anew = latest > u32::MAX / 2;
        let first = if anew { 1 } else { latest + 1 };
        self.lanes.fill(None);
        self.threads.iter_mut().for_each(BTreeMap::clear);
        self.clocks = [first; MAX_WARPS];
        *self.known = [[first; MAX_WARPS]; MAX_WARPS];
        anew
    }

    /// An access of now, and what it is ordered after.
    #[inline(always)]
    pub(crate) fn now(&self, thread: u32, pc: usize, strong: bool) -> (Touch, Known<'_>) {
        let warp = (thread >> 5) as usize;
        let known = Known {
            warps: &self.known[warp],
            lanes: self.lanes[warp].as_deref(),
            threads: &self.threads[warp],
        };
        (Touch::new(thread, pc, strong, self.clocks[warp]), known)
    }

    /// `bar.warp.sync` of the lanes `members`: orders their accesses so far before their later ones.
    pub(crate) fn warp_sync(&mut self, warp: usize, members: Mask) {
        self.clocks[warp] += 1;
        if members == Mask::MAX {
            self.known[warp][warp] = self.clocks[warp];
            return;
        }
        let clocks = self.lanes[warp].get_or_insert_with(|| Box::new([[0; 32]; 32]));
        let mut joined = [0; 32];
        lanes_of(members).for_each(|lane| raise(&mut joined, &clocks[lane]));
        lanes_of(members).for_each(|lane| joined[lane] = self.clocks[warp]);
        lanes_of(members).for_each(|lane| clocks[lane] = joined);
    }

    /// A barrier that the warps `waiting` waited at, and that `arrived` (which did not wait) reached when their
    /// clocks were as given.
    pub(crate) fn barrier(&mut self, waiting: &[usize], arrived: &[(usize, u32)]) {
        let mut joined = Published::default();
        for &warp in waiting.iter().chain(arrived.iter().map(|(warp, _)| warp)) {
            raise(&mut joined.warps, &self.known[warp]);
            raise_threads(&mut joined.threads, &self.threads[warp]);
        }
        for &warp in waiting {
            self.clocks[warp] += 1;
            joined.warps[warp] = joined.warps[warp].max(self.clocks[warp]);
        }
        for &(warp, clock) in arrived {
            joined.warps[warp] = joined.warps[warp].max(clock);
        }
        for &warp in waiting {
            self.known[warp] = joined.warps;
            self.threads[warp].clone_from(&joined.threads);
        }
    }

    /// `bar.arrive`: the clock that a later waiter of the barrier is ordered after.
    pub(crate) fn arrive(&mut self, warp: usize) -> u32 {
        self.clocks[warp] += 1;
        self.clocks[warp]
    }

    /// Adds what these lanes of a warp know, their own past included, to what is published. All that `live` lanes did is
    /// part of it if they all publish at once.
    pub(crate) fn publish(&mut self, warp: usize, lanes: Mask, live: Mask, into: &mut Published) {
        let clock = self.arrive(warp);
        raise(&mut into.warps, &self.known[warp]);
        raise_threads(&mut into.threads, &self.threads[warp]);
        if lanes & live == live {
            into.warps[warp] = clock;
        } else {
            lanes_of(lanes).for_each(|lane| self.publish_thread((warp * 32 + lane) as u32, clock, into));
        }
    }

    /// Adds what a copy beside its thread has written to what is published.
    pub(crate) fn publish_copy(&mut self, thread: u32, into: &mut Published) {
        let clock = self.arrive((thread >> 5) as usize);
        self.publish_thread(thread, clock, into);
    }

    #[allow(clippy::unused_self, reason = "a clock means something only to those it belongs to")]
    fn publish_thread(&self, thread: u32, clock: u32, into: &mut Published) {
        into.threads.insert(thread, clock);
    }

    /// A warp knows from now on what was published.
    pub(crate) fn learn(&mut self, warp: usize, published: &Published) {
        raise(&mut self.known[warp], &published.warps);
        raise_threads(&mut self.threads[warp], &published.threads);
    }
}

/// The last writer of a granule, and up to two different threads that read it since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    writer: Touch,
    reader: Touch,
    second: Touch,
}

/// What a cell makes of a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Read {
    Noted,
    /// An earlier write is not ordered before it.
    Conflict(Touch),
    /// Both readers are others that are not ordered before it.
    Full(Touch),
}

impl Cell {
    /// A cell that one access has written.
    pub(crate) fn written(writer: Touch) -> Self {
        Self { writer, ..Self::default() }
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, touch: Touch, known: Known) -> Read {
        if self.writer.conflicts(touch, known) {
            return Read::Conflict(self.writer);
        }
        if self.reader.is_ordered(touch, known) {
            self.reader = touch;
        } else if self.second.is_ordered(touch, known) {
            self.second = touch;
        } else {
            return Read::Full(touch);
        }
        Read::Noted
    }

    /// Notes a write, unless an earlier access is not ordered before it: that one.
    #[inline(always)]
    pub(crate) fn write(&mut self, touch: Touch, known: Known) -> Option<Touch> {
        for earlier in [self.writer, self.reader, self.second] {
            if earlier.conflicts(touch, known) {
                return Some(earlier);
            }
        }
        *self = Self::written(if self.writer.hides(touch) { self.writer } else { touch });
        None
    }
}

/// Readers of a granule beyond the two of its cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers(Vec<Touch>);

impl Readers {
    /// Notes one more, in the place of one that is ordered before it if there is one.
    pub(crate) fn add(&mut self, touch: Touch, known: Known) {
        match self.0.iter_mut().find(|other| other.is_ordered(touch, known)) {
            Some(other) => *other = touch,
            None => self.0.push(touch),
        }
    }

    /// The first that is not ordered before a write.
    pub(crate) fn conflict(self, touch: Touch, known: Known) -> Option<Touch> {
        self.0.into_iter().find(|other| other.conflicts(touch, known))
    }
}
