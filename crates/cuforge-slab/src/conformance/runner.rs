//! Plays a list of calls on an allocator, on a twin that is spared the refused ones, and on the model.

use crate::conformance::calls::{Call, QUEUES, Setting};
use crate::conformance::model::Model;
use crate::conformance::violation::{Violation, promise};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use cuforge_core::{
    Handle, Lifetime, Misuse, QueueId, Refusal, Request, Rewound, Scope, Segment, SlabAllocator, Stamp, Stats,
};

/// Makes the allocator under test for a capacity in bytes; `None` if it cannot manage so few.
pub(crate) type Build<'a> = &'a dyn Fn(u64) -> Option<Box<dyn SlabAllocator>>;

/// More calls of `reclaim` than any bounded implementation needs to settle a list's grants.
const SETTLING_CALLS: u32 = 2_000;

struct Run {
    subject: Box<dyn SlabAllocator>,
    twin: Box<dyn SlabAllocator>,
    twin_handles: Vec<Handle>,
    twin_scopes: BTreeMap<u64, Scope>,
    model: Model,
    maps: bool,
}

/// Plays `calls`; the first broken promise, if any. Nothing is tested if the capacity cannot be built.
pub(crate) fn play(build: Build<'_>, setting: Setting, calls: &[Call]) -> Result<(), Violation> {
    let (Some(subject), Some(twin)) = (build(setting.capacity), build(setting.capacity)) else {
        return Ok(());
    };
    let capacity = subject.stats().capacity_bytes;
    promise(capacity <= setting.capacity, "the capacity is at most what was given", || {
        format!("{capacity} of {}", setting.capacity)
    })?;
    let maps = subject.inspect(&mut |_| {}).is_ok();
    let model = Model::new(capacity, setting.first_epoch);
    let mut run = Run { subject, twin, twin_handles: Vec::new(), twin_scopes: BTreeMap::new(), model, maps };
    run.check()?;
    for call in calls {
        run.call(*call)?;
        run.check()?;
    }
    run.settle()
}

impl Run {
    fn check(&mut self) -> Result<(), Violation> {
        let stats = self.subject.stats();
        self.model.check_stats(&stats)?;
        if self.maps { self.model.check_map(&self.map(), &stats) } else { Ok(()) }
    }

    fn map(&self) -> Vec<Segment> {
        let mut map = Vec::new();
        if self.maps {
            // Supported once is supported always; a map that turns empty does not cover the capacity.
            let _ = self.subject.inspect(&mut |segment| map.push(segment));
        }
        map
    }

    fn call(&mut self, call: Call) -> Result<(), Violation> {
        match call {
            Call::Acquire { len, align, lifetime } => {
                self.acquire(&Request::new(len).with_align(align).with_lifetime(lifetime)).map(|_| ())
            }
            Call::Refused { kind } => self.refused(kind),
            Call::Release { pick, queues, older } => match self.model.pick_live(pick) {
                Some(index) => {
                    let after = self.model.stamps(queues, older);
                    self.release(index, &after)
                }
                None => Ok(()),
            },
            Call::ReleaseOldest { queues } => match self.model.pick_live(0) {
                Some(index) => {
                    let after = self.model.stamps(queues, false);
                    self.release(index, &after)
                }
                None => Ok(()),
            },
            Call::ReleaseDead { pick } => match self.model.pick_dead(pick) {
                Some(handle) => self.release_dead(handle),
                None => Ok(()),
            },
            Call::ReleaseUnknown { bits } => match Handle::new(bits).filter(|it| !self.model.knows(*it)) {
                Some(handle) => self.release_dead(handle),
                None => Ok(()),
            },
            Call::ReleaseUnknownQueue { pick } => self.release_unknown_queue(pick),
            Call::Complete { queue, part } => {
                let queue = queue as usize;
                let open = self.model.sealed[queue] - self.model.completed[queue];
                self.model.completed[queue] += u64::from(part) % (open + 1);
                Ok(())
            }
            Call::Reclaim => self.reclaim(),
            Call::PushScope => self.push_scope(),
            Call::Rewind { pick, queues } => match self.model.pick_scope(pick) {
                Some(scope) => self.rewind(scope, queues),
                None => Ok(()),
            },
            Call::RewindDead { pick } => match self.model.pick_dead_scope(pick) {
                Some(scope) => self.rewind_dead(scope),
                None => Ok(()),
            },
            Call::RewindUnknown { bits } if self.model.knows_scope(Scope(bits)) => Ok(()),
            Call::RewindUnknown { bits } => self.rewind_dead(Scope(bits)),
            Call::Clear { queues } => self.clear(queues),
            Call::Grow { bytes } => self.grow(bytes),
            Call::GrowTooFar => self.quietly("grow", |subject| match subject.grow(u64::MAX) {
                Err(Misuse::Overflow { .. } | Misuse::Unsupported { .. }) => None,
                other => Some(format!("growth by 2^64 - 1 bytes answered {other:?}")),
            }),
        }
    }

    /// A call that must be an error and leave no trace. `wrong` says what was answered instead.
    fn quietly(
        &mut self,
        what: &'static str,
        call: impl FnOnce(&mut dyn SlabAllocator) -> Option<alloc::string::String>,
    ) -> Result<(), Violation> {
        let (stats, map) = (self.subject.stats(), self.map());
        if let Some(wrong) = call(&mut *self.subject) {
            return promise(false, "misuse is an error", || wrong);
        }
        self.unchanged(what, stats, &map)
    }

    fn unchanged(&self, what: &'static str, stats: Stats, map: &[Segment]) -> Result<(), Violation> {
        promise(
            self.subject.stats() == stats && self.map() == *map,
            "state is unchanged after any refusal or misuse",
            || format!("{what}: from {stats:?} {map:?} to {:?} {:?}", self.subject.stats(), self.map()),
        )
    }

    fn acquire(&mut self, request: &Request) -> Result<bool, Violation> {
        let (stats, map) = (self.subject.stats(), self.map());
        match self.subject.acquire(request) {
            Ok(grant) => {
                self.model.granted(request, grant)?;
                let twin = self.twin.acquire(request);
                let same = twin.is_ok_and(|twin| twin.offset == grant.offset);
                if let Ok(twin) = twin {
                    self.twin_handles.push(twin.handle);
                }
                promise(
                    same,
                    "a refusal or misuse leaves no trace: later grants are the same without it",
                    || format!("{grant:?} here, {twin:?} without the refused calls"),
                )?;
                Ok(true)
            }
            Err(refusal) => {
                self.model.refused();
                self.unchanged("acquire", Stats { refused_total: stats.refused_total + 1, ..stats }, &map)?;
                self.check_refusal(request, refusal, &stats)?;
                Ok(false)
            }
        }
    }

    fn check_refusal(&self, request: &Request, refusal: Refusal, stats: &Stats) -> Result<(), Violation> {
        let used = stats.used_bytes();
        let honest = match refusal {
            Refusal::Zero => request.len == 0,
            Refusal::Alignment { align } => align == request.align && !align.is_power_of_two(),
            Refusal::NeverFits { max_bytes } => request.len > max_bytes && max_bytes <= stats.capacity_bytes,
            Refusal::Full { total_free, largest_free, pending, oldest } => {
                used > 0
                    && total_free == stats.free_bytes()
                    && largest_free <= total_free
                    && pending == stats.pending_bytes
                    && (oldest.is_none() || pending > 0)
            }
            Refusal::OutOfNodes { capacity } => {
                stats.pending_bytes > 0 || stats.live_grants == u64::from(capacity)
            }
            Refusal::Limit { limit_bytes, used_bytes } => {
                used_bytes == used && request.len > limit_bytes.saturating_sub(used_bytes)
            }
            _ => true,
        };
        promise(honest, "a refusal says what is the case", || {
            format!("{request:?}: {refusal:?} with {stats:?}")
        })
    }

    fn refused(&mut self, kind: u8) -> Result<(), Violation> {
        let request = match kind {
            0 => Request::new(0),
            1 => Request::new(64).with_align(0),
            2 => Request::new(64).with_align(48),
            _ => Request::new(u64::MAX - 7).with_align(1 << 12),
        };
        promise(!self.acquire(&request)?, "a request that cannot be meant is refused", || {
            format!("{request:?}")
        })
    }

    fn release(&mut self, index: usize, after: &[Stamp]) -> Result<(), Violation> {
        let outcome = self.subject.release(self.model.handle(index), after);
        promise(outcome.is_ok(), "a live grant can be released", || format!("{outcome:?}"))?;
        self.model.ended(index, after);
        // The twin has made the same grants, or the run would have ended.
        let _ = self.twin.release(self.twin_handles[index], after);
        Ok(())
    }

    fn release_dead(&mut self, handle: Handle) -> Result<(), Violation> {
        let after = [Stamp { queue: QueueId(0), epoch: self.model.sealed[0] }];
        self.quietly("release", |subject| match subject.release(handle, &after) {
            Err(Misuse::StaleHandle | Misuse::UnknownHandle) => None,
            other => Some(format!("release of {handle:?}, which names no live grant, answered {other:?}")),
        })
    }

    fn release_unknown_queue(&mut self, pick: u32) -> Result<(), Violation> {
        let Some(index) = self.model.pick_live(pick) else { return Ok(()) };
        let handle = self.model.handle(index);
        let after = [Stamp { queue: QueueId(u32::MAX), epoch: 1 }];
        self.quietly("release", |subject| match subject.release(handle, &after) {
            Err(Misuse::UnknownQueue { .. }) => None,
            other => Some(format!("a stamp of a queue that does not exist answered {other:?}")),
        })
    }

    fn reclaim(&mut self) -> Result<(), Violation> {
        let before = self.subject.stats();
        let freed = self.subject.reclaim(&self.model.completed);
        self.twin.reclaim(&self.model.completed);
        self.model.reclaimed();
        let after = self.subject.stats();
        let told = before.pending_bytes.checked_sub(after.pending_bytes) == Some(freed);
        promise(told && after.live_bytes == before.live_bytes, "reclaim returns what it freed", || {
            format!("{freed}, from {before:?} to {after:?}")
        })
    }

    fn push_scope(&mut self) -> Result<(), Violation> {
        let (stats, map) = (self.subject.stats(), self.map());
        match self.subject.push_scope() {
            Ok(scope) => {
                self.model.pushed(scope)?;
                if let Ok(twin) = self.twin.push_scope() {
                    self.twin_scopes.insert(scope.0, twin);
                }
                Ok(())
            }
            Err(misuse) => {
                let open = self.model.open_scopes();
                let honest = match misuse {
                    Misuse::Unsupported { .. } => open == 0,
                    Misuse::ScopeDepth { max_depth } => open == max_depth as usize,
                    _ => false,
                };
                promise(honest, "a refusal says what is the case", || {
                    format!("{misuse:?} with {open} open")
                })?;
                self.unchanged("push_scope", stats, &map)
            }
        }
    }

    fn rewind(&mut self, scope: Scope, queues: u8) -> Result<(), Violation> {
        let after = self.model.stamps(queues, false);
        let before = self.subject.stats();
        let rewound = self.subject.rewind(scope, &after);
        if let Some(twin) = self.twin_scopes.get(&scope.0) {
            let _ = self.twin.rewind(*twin, &after);
        }
        let Ok(rewound) = rewound else {
            return promise(false, "an open scope can be rewound", || format!("{rewound:?}"));
        };
        let expected = self.model.rewound(Some(scope), &after);
        self.check_rewound(rewound, expected, &before)
    }

    fn check_rewound(&self, rewound: Rewound, expected: Rewound, before: &Stats) -> Result<(), Violation> {
        let bytes = before.live_bytes.wrapping_sub(self.subject.stats().live_bytes);
        promise(
            rewound.grants == expected.grants && rewound.bytes >= expected.bytes && rewound.bytes == bytes,
            "a rewind ends exactly what was acquired since and is not resident, and says so",
            || format!("{rewound:?}, {expected:?} by the model, {bytes} bytes by the statistics"),
        )
    }

    fn rewind_dead(&mut self, scope: Scope) -> Result<(), Violation> {
        self.quietly("rewind", |subject| match subject.rewind(scope, &[]) {
            Err(Misuse::StaleScope | Misuse::UnknownScope | Misuse::Unsupported { .. }) => None,
            other => Some(format!("rewind of {scope:?}, which is not open, answered {other:?}")),
        })
    }

    fn clear(&mut self, queues: u8) -> Result<(), Violation> {
        let after = self.model.stamps(queues, false);
        let (before, map) = (self.subject.stats(), self.map());
        match self.subject.clear(&after) {
            Ok(rewound) => {
                let _ = self.twin.clear(&after);
                let expected = self.model.rewound(None, &after);
                self.check_rewound(rewound, expected, &before)
            }
            Err(Misuse::Unsupported { .. }) => self.unchanged("clear", before, &map),
            Err(other) => {
                promise(false, "clear ends everything but resident grants", || format!("{other:?}"))
            }
        }
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Violation> {
        let (before, map) = (self.subject.stats(), self.map());
        match self.subject.grow(bytes) {
            Ok(capacity) => {
                let _ = self.twin.grow(bytes);
                let told = self.subject.stats().capacity_bytes == capacity;
                // What an allocator could not use of its first bytes may come into use now.
                promise(told, "growth returns the new capacity", || format!("{capacity} from {before:?}"))?;
                self.model.grown(capacity)
            }
            Err(Misuse::Unsupported { .. }) => self.unchanged("grow", before, &map),
            Err(other) => promise(false, "growth within reason succeeds", || format!("{other:?}")),
        }
    }

    /// Ends everything, completes everything: all bytes must come back, in one piece.
    fn settle(&mut self) -> Result<(), Violation> {
        while let Some(index) = self.model.pick_live(0) {
            let after = self.model.stamps(1, false);
            self.release(index, &after)?;
        }
        self.model.completed = self.model.sealed;
        for _ in 0..SETTLING_CALLS {
            self.reclaim()?;
            if self.subject.stats().pending_bytes == 0 {
                break;
            }
        }
        self.check()?;
        let stats = self.subject.stats();
        promise(
            stats.live_bytes == 0 && stats.pending_bytes == 0 && self.model.held() == 0,
            "once all is released and completed, all is free again",
            || format!("{stats:?}"),
        )?;
        for lifetime in [Lifetime::Transient, Lifetime::General, Lifetime::Resident] {
            let whole = Request::new(stats.capacity_bytes).with_align(1).with_lifetime(lifetime);
            self.whole(&whole)?;
        }
        Ok(())
    }

    /// The longest request of its kind is served by an idle allocator.
    fn whole(&mut self, request: &Request) -> Result<(), Violation> {
        let stats = self.subject.stats();
        let mut request = *request;
        let mut longest = self.subject.acquire(&request);
        // Refusals that name a smaller length are taken at their word: adaptors may do so one after the other.
        for _ in 0..3 {
            let smaller = match longest {
                Err(Refusal::NeverFits { max_bytes }) => max_bytes,
                Err(Refusal::Limit { limit_bytes, .. }) => limit_bytes,
                _ => 0,
            };
            if smaller == 0 || smaller >= request.len {
                break;
            }
            self.model.refused();
            request.len = smaller;
            longest = self.subject.acquire(&request);
        }
        match longest {
            Ok(grant) => {
                self.model.granted(&request, grant)?;
                let index = self.model.pick_live(0).unwrap_or(0);
                let outcome = self.subject.release(self.model.handle(index), &[]);
                promise(outcome.is_ok(), "a live grant can be released", || format!("{outcome:?}"))?;
                self.model.ended(index, &[]);
                self.check()
            }
            Err(Refusal::NeverFits { max_bytes: 0 }) => {
                self.model.refused();
                Ok(())
            }
            Err(refusal) => promise(false, "an idle allocator serves the longest request it admits", || {
                format!("{request:?}: {refusal:?} with {stats:?}")
            }),
        }
    }
}

/// Plays `calls`, and if a promise breaks, leaves calls out as long as one still does.
pub(crate) fn play_and_shrink(build: Build<'_>, setting: Setting, calls: &[Call]) -> Result<(), Violation> {
    let Err(mut violation) = play(build, setting, calls) else { return Ok(()) };
    let mut calls = calls.to_vec();
    let mut chunk = calls.len().next_power_of_two() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < calls.len() {
            let end = (start + chunk).min(calls.len());
            let mut fewer = calls.clone();
            fewer.drain(start..end);
            match play(build, setting, &fewer) {
                Err(shorter) => {
                    violation = shorter;
                    calls = fewer;
                }
                Ok(()) => start = end,
            }
        }
        chunk /= 2;
    }
    violation.calls = calls.iter().map(|call| format!("    {call:?}\n")).collect();
    violation.detail = format!(
        "{} (capacity {}, epochs from {}, {QUEUES} queues)",
        violation.detail, setting.capacity, setting.first_epoch
    );
    Err(violation)
}
