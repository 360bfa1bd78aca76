//! The conformance suite catches broken allocators: one for each kind of fault, and not the same allocator without.

use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Operation, Progress, QueueId, Refusal, Request, Rewound, Scope, Segment,
    SegmentState, SlabAllocator, Stamp, Stats,
};
use cuforge_slab::conformance::{Part, check};

/// What is wrong with an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    ReleaseOfAWholeLapFreesNothing,
    StampsAreIgnored,
    OnlyTheFirstStampCounts,
    OnlyTheLastStampCounts,
    EpochsAreComparedAcrossQueues,
    EpochsWrapAt32Bits,
    RewindInFlightFreesAtOnce,
    ClearInFlightFreesAtOnce,
    ClearEndsResidentGrants,
    RewindEndsResidentGrants,
    RewindEndsOlderGrants,
    RewindLeavesItsNewestGrant,
    ForeignScopesRewindAll,
    ScopesCanBeRewoundTwice,
    InnerScopesOutliveOuterOnes,
    ScopeTokensAreReused,
    HandlesAreReused,
    HandlesCountTo255,
    DoubleReleaseIsAccepted,
    UnknownHandlesAreAccepted,
    UnknownQueuesAreAccepted,
    ZeroIsGranted,
    HugeLengthsWrapToNothing,
    BadAlignmentsAreRounded,
    AlignmentIsAtMost256,
    TailBeyondCapacityIsGranted,
    LengthsAreRoundedDown,
    AnIdleAllocatorStaysParked,
    RefusalsMoveTheCursor,
    PendingIsNeverFreed,
    NeverFitsIsCalledFull,
    SplitDropsTheStamp,
    MergeDropsTheOlderStamp,
    GrowthFreesEverything,
    GrowthIsNotUsed,
    GrowthWraps,
    LiveBytesNeverSink,
    RefusalsAreNotCounted,
    FullHidesWhatIsPending,
    RewindMiscounts,
    ReclaimMiscounts,
    TheMapHasGaps,
}

const FAULTS: [Fault; 42] = {
    use Fault::*;
    [
        ReleaseOfAWholeLapFreesNothing,
        StampsAreIgnored,
        OnlyTheFirstStampCounts,
        OnlyTheLastStampCounts,
        EpochsAreComparedAcrossQueues,
        EpochsWrapAt32Bits,
        RewindInFlightFreesAtOnce,
        ClearInFlightFreesAtOnce,
        ClearEndsResidentGrants,
        RewindEndsResidentGrants,
        RewindEndsOlderGrants,
        RewindLeavesItsNewestGrant,
        ForeignScopesRewindAll,
        ScopesCanBeRewoundTwice,
        InnerScopesOutliveOuterOnes,
        ScopeTokensAreReused,
        HandlesAreReused,
        HandlesCountTo255,
        DoubleReleaseIsAccepted,
        UnknownHandlesAreAccepted,
        UnknownQueuesAreAccepted,
        ZeroIsGranted,
        HugeLengthsWrapToNothing,
        BadAlignmentsAreRounded,
        AlignmentIsAtMost256,
        TailBeyondCapacityIsGranted,
        LengthsAreRoundedDown,
        AnIdleAllocatorStaysParked,
        RefusalsMoveTheCursor,
        PendingIsNeverFreed,
        NeverFitsIsCalledFull,
        SplitDropsTheStamp,
        MergeDropsTheOlderStamp,
        GrowthFreesEverything,
        GrowthIsNotUsed,
        GrowthWraps,
        LiveBytesNeverSink,
        RefusalsAreNotCounted,
        FullHidesWhatIsPending,
        RewindMiscounts,
        ReclaimMiscounts,
        TheMapHasGaps,
    ]
};

#[derive(Clone, Debug)]
struct Held {
    offset: u64,
    len: u64,
    handle: Handle,
    lifetime: Lifetime,
    order: u64,
    /// Stamps, once released.
    after: Option<Vec<Stamp>>,
}

/// First fit over a sorted list: slow, plain, and right unless told otherwise.
#[derive(Debug)]
struct FirstFit {
    fault: Fault,
    capacity: u64,
    held: Vec<Held>,
    scopes: Vec<(Scope, u64)>,
    orders: u64,
    tokens: u64,
    cursor: u64,
    peak: u64,
    refused: u64,
    leaked: u64,
}

impl FirstFit {
    fn new(capacity: u64, fault: Fault) -> Self {
        Self {
            fault,
            capacity,
            held: Vec::new(),
            scopes: Vec::new(),
            orders: 0,
            tokens: 0,
            cursor: 0,
            peak: 0,
            refused: 0,
            leaked: 0,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn gaps(&self) -> Vec<(u64, u64)> {
        let ends = self.held.iter().map(|held| held.offset + held.len);
        let starts = std::iter::once(0).chain(ends);
        let next = self.held.iter().map(|held| held.offset).chain(std::iter::once(self.capacity));
        starts.zip(next).filter(|(start, end)| start < end).collect()
    }

    fn sum(&self, pending: bool) -> u64 {
        self.held.iter().filter(|held| held.after.is_some() == pending).map(|held| held.len).sum()
    }

    fn malformed(&self, request: &Request) -> Option<Refusal> {
        if request.len == 0 && !self.has(Fault::ZeroIsGranted) {
            return Some(Refusal::Zero);
        }
        if !request.align.is_power_of_two() && !self.has(Fault::BadAlignmentsAreRounded) {
            return Some(Refusal::Alignment { align: request.align });
        }
        if request.len > self.capacity
            && !self.has(Fault::NeverFitsIsCalledFull)
            && !(self.has(Fault::HugeLengthsWrapToNothing) && request.len > 1 << 63)
        {
            return Some(Refusal::NeverFits { max_bytes: self.capacity });
        }
        None
    }

    fn full(&self) -> Refusal {
        let largest_free = self.gaps().iter().map(|(start, end)| end - start).max().unwrap_or(0);
        let pending = self.sum(true);
        let oldest = self.held.iter().filter_map(|held| held.after.as_ref()).flatten().next().copied();
        let hidden = self.has(Fault::FullHidesWhatIsPending);
        Refusal::Full {
            total_free: self.stats().free_bytes(),
            largest_free,
            pending: if hidden { 0 } else { pending },
            oldest: if hidden { None } else { oldest },
        }
    }

    fn end(&mut self, index: usize, after: &[Stamp]) {
        let held = &mut self.held[index];
        let whole = held.len == self.capacity;
        let mut after: Vec<Stamp> = after.iter().copied().filter(|stamp| stamp.epoch > 0).collect();
        match self.fault {
            Fault::StampsAreIgnored => after.clear(),
            Fault::OnlyTheFirstStampCounts => after.truncate(1),
            Fault::OnlyTheLastStampCounts => after = after.pop().into_iter().collect(),
            Fault::EpochsWrapAt32Bits => {
                after.iter_mut().for_each(|stamp| stamp.epoch &= u64::from(u32::MAX));
            }
            Fault::ReleaseOfAWholeLapFreesNothing if whole && self.capacity > 64 => {
                self.leaked += held.len;
                after.push(Stamp { queue: QueueId(15), epoch: u64::MAX });
            }
            Fault::LiveBytesNeverSink => self.leaked += 1,
            _ => {}
        }
        if self.fault == Fault::SplitDropsTheStamp && held.len > 64 && !after.is_empty() {
            // The remainder of a cut block is free at once.
            held.len /= 2;
        }
        held.after = Some(after);
        if self.has(Fault::MergeDropsTheOlderStamp) && index > 0 {
            let (left, right) = self.held.split_at_mut(index);
            let (left, right) = (&mut left[index - 1], &right[0]);
            let merges = left.after.as_ref().is_some_and(|stamps| !stamps.is_empty());
            if merges && right.after.as_ref().is_some_and(|stamps| !stamps.is_empty()) {
                left.after.clone_from(&right.after);
            }
        }
        self.drop_free(&[0; 16]);
    }

    fn drop_free(&mut self, completed: &[u64; 16]) {
        let furthest = completed.iter().max().copied().unwrap_or(0);
        let (never, across) =
            (self.has(Fault::PendingIsNeverFreed), self.has(Fault::EpochsAreComparedAcrossQueues));
        self.held.retain(|held| {
            let done = |stamp: &Stamp| stamp.is_complete(completed) || across && furthest >= stamp.epoch;
            match &held.after {
                Some(stamps) if stamps.is_empty() => false,
                Some(stamps) => never || !stamps.iter().all(done),
                None => true,
            }
        });
    }

    fn end_from(&mut self, order: u64, after: &[Stamp], at_once: bool, residents: bool) -> Rewound {
        let mut ended = Rewound::default();
        let newest = self.orders.wrapping_sub(1);
        for index in (0..self.held.len()).rev() {
            let held = &self.held[index];
            let resident = held.lifetime == Lifetime::Resident && !residents;
            let left = self.has(Fault::RewindLeavesItsNewestGrant) && held.order == newest && !at_once;
            if held.after.is_none() && held.order >= order && !resident && !left {
                ended.grants += 1;
                ended.bytes += held.len;
                self.end(index, if at_once { &[] } else { after });
            }
        }
        if self.has(Fault::RewindMiscounts) {
            ended.grants += 1;
        }
        ended
    }
}

// SAFETY: sound only without a fault; it hands out no memory, only numbers to the tests of this file.
unsafe impl SlabAllocator for FirstFit {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if self.malformed(request).is_some() {
            self.refused += u64::from(!self.has(Fault::RefusalsAreNotCounted));
            return None;
        }
        let align = match self.fault {
            Fault::AlignmentIsAtMost256 => request.align.min(256),
            Fault::BadAlignmentsAreRounded => request.align.max(1).next_power_of_two(),
            _ => request.align,
        };
        let len = match self.fault {
            Fault::HugeLengthsWrapToNothing if request.len > 1 << 63 => 0,
            Fault::LengthsAreRoundedDown => (request.len & !3).max(1),
            _ => request.len,
        };
        let mut gaps = self.gaps();
        if self.has(Fault::TailBeyondCapacityIsGranted)
            && let Some(last) = gaps.last_mut()
            && last.1 == self.capacity
        {
            last.1 += 1;
        }
        let parked = self.has(Fault::AnIdleAllocatorStaysParked) || self.has(Fault::RefusalsMoveTheCursor);
        let cursor = if parked { self.cursor } else { 0 };
        let fitting = |start: u64, end: u64| {
            let start = start.max(if start < cursor && cursor < end { cursor } else { start });
            let start = start.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= end).then_some(start)
        };
        let place = gaps.iter().find_map(|(start, end)| fitting(*start, *end));
        let Some(offset) = place else {
            self.refused += u64::from(!self.has(Fault::RefusalsAreNotCounted));
            if self.has(Fault::RefusalsMoveTheCursor) && !self.held.is_empty() {
                self.cursor = (self.cursor + 1) % self.capacity.max(1);
            }
            return None;
        };
        if self.has(Fault::AnIdleAllocatorStaysParked) {
            self.cursor = offset + len;
        }
        if self.has(Fault::RefusalsMoveTheCursor) && self.held.is_empty() {
            self.cursor = 0;
        }
        let handle = match self.fault {
            Fault::HandlesAreReused => offset + 1,
            Fault::HandlesCountTo255 => ((self.orders + 250) & 255) + 1,
            _ => self.orders + (1 << 20),
        };
        let handle = Handle::new(handle)?;
        let at = self.held.partition_point(|held| held.offset < offset);
        let (order, lifetime) = (self.orders, request.lifetime);
        self.held.insert(at, Held { offset, len, handle, lifetime, order, after: None });
        self.orders += 1;
        self.peak = self.peak.max(self.sum(false) + self.sum(true));
        Some(Grant { handle, offset })
    }

    fn refusal(&self, request: &Request) -> Refusal {
        self.malformed(request).unwrap_or_else(|| self.full())
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let live = self.held.iter().position(|held| held.handle == handle && held.after.is_none());
        let Some(index) = live else {
            let known = (1 << 20..self.orders + (1 << 20)).contains(&handle.number());
            return match self.fault {
                Fault::DoubleReleaseIsAccepted if known => Ok(()),
                Fault::UnknownHandlesAreAccepted if !known => Ok(()),
                _ => Err(Misuse::StaleHandle),
            };
        };
        let unknown = after.iter().find(|stamp| stamp.queue.0 > 15);
        if let Some(stamp) = unknown.filter(|_| !self.has(Fault::UnknownQueuesAreAccepted)) {
            return Err(Misuse::UnknownQueue { queue: stamp.queue });
        }
        self.end(index, after);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let before = self.sum(true);
        self.drop_free(&std::array::from_fn(|queue| progress.completed(QueueId(queue as u32))));
        before - self.sum(true) + u64::from(self.has(Fault::ReclaimMiscounts) && before > 0)
    }

    fn stats(&self) -> Stats {
        let live = self.sum(false) + if self.has(Fault::LiveBytesNeverSink) { self.leaked } else { 0 };
        let gaps = self.gaps();
        Stats {
            capacity_bytes: self.capacity,
            live_bytes: live,
            pending_bytes: self.sum(true),
            largest_free_bytes: gaps.iter().map(|(start, end)| end - start).max().unwrap_or(0),
            peak_bytes: self.peak.max(live),
            live_grants: self.held.iter().filter(|held| held.after.is_none()).count() as u64,
            acquired_total: self.orders,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        match self.fault {
            Fault::GrowthWraps => self.capacity = self.capacity.wrapping_add(extra_bytes) % (1 << 40),
            Fault::GrowthIsNotUsed => return Ok(self.capacity + extra_bytes % (1 << 40)),
            _ => {
                let grown = self.capacity.checked_add(extra_bytes).filter(|bytes| *bytes < 1 << 60);
                let overflow = Misuse::Overflow { operation: Operation::Grow };
                self.capacity = grown.ok_or(overflow)?;
            }
        }
        if self.has(Fault::GrowthFreesEverything) {
            self.held.truncate(1);
        }
        Ok(self.capacity)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.scopes.clear();
        let at_once = self.has(Fault::ClearInFlightFreesAtOnce);
        Ok(self.end_from(0, after, at_once, self.has(Fault::ClearEndsResidentGrants)))
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        let token =
            if self.has(Fault::ScopeTokensAreReused) { self.scopes.len() as u64 } else { self.tokens };
        self.tokens += 1;
        self.scopes.push((Scope(token), self.orders));
        Ok(Scope(token))
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let order = match self.scopes.iter().position(|(open, _)| *open == scope) {
            Some(position) => {
                let order = self.scopes[position].1;
                match self.fault {
                    Fault::ScopesCanBeRewoundTwice => self.scopes.truncate(position + 1),
                    Fault::InnerScopesOutliveOuterOnes => drop(self.scopes.remove(position)),
                    _ => self.scopes.truncate(position),
                }
                order
            }
            None if self.has(Fault::ForeignScopesRewindAll) => 0,
            None => return Err(Misuse::StaleScope),
        };
        let order = order - u64::from(self.has(Fault::RewindEndsOlderGrants) && order > 0);
        let at_once = self.has(Fault::RewindInFlightFreesAtOnce);
        Ok(self.end_from(order, after, at_once, self.has(Fault::RewindEndsResidentGrants)))
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let mut segments: Vec<Segment> = self
            .gaps()
            .iter()
            .map(|(start, end)| Segment { offset: *start, len: end - start, state: SegmentState::Free })
            .chain(self.held.iter().map(|held| {
                let state = match &held.after {
                    Some(stamps) => SegmentState::Pending { waits_for: stamps.first().copied() },
                    None => SegmentState::Live { lifetime: held.lifetime },
                };
                Segment { offset: held.offset, len: held.len, state }
            }))
            .collect();
        segments.sort_by_key(|segment| segment.offset);
        let gaps = self.has(Fault::TheMapHasGaps);
        segments.iter().skip(usize::from(gaps && segments.len() > 2)).for_each(|segment| visit(*segment));
        Ok(())
    }
}

fn first_violation(fault: Fault) -> Option<String> {
    Part::all(400).into_iter().find_map(|part| {
        check(|capacity| Some(FirstFit::new(capacity, fault)), part)
            .err()
            .map(|violation| violation.to_string())
    })
}

#[test]
fn the_suite_passes_the_allocator_without_a_fault() {
    assert_eq!(first_violation(Fault::None), None);
}

#[test]
fn the_suite_catches_every_fault() {
    let missed: Vec<Fault> = FAULTS
        .into_iter()
        .filter(|fault| {
            let violation = first_violation(*fault);
            println!("{fault:?}: {}", violation.as_deref().unwrap_or("MISSED"));
            violation.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn random_lists_alone_catch_most_faults_and_print_few_calls() {
    let caught: Vec<_> = FAULTS
        .into_iter()
        .filter_map(|fault| {
            let part = Part::RandomLists { seed: 0, lists: 2_000 };
            check(|capacity| Some(FirstFit::new(capacity, fault)), part).err()
        })
        .collect();
    assert!(caught.len() >= 36, "random lists caught {} of {}", caught.len(), FAULTS.len());
    for violation in caught {
        assert!(violation.calls.lines().count() <= 12, "not shortened: {violation}");
    }
}
