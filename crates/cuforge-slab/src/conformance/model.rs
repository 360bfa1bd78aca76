//! The naive model: one entry a byte, one a grant, one a scope. Slow, and too simple to be wrong.

use crate::conformance::calls::QUEUES;
use crate::conformance::violation::{Violation, promise};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use cuforge_core::{Grant, Handle, Lifetime, Request, Rewound, Scope, Segment, SegmentState, Stamp, Stats};

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Live,
    Pending(Vec<Stamp>),
    Gone,
}

#[derive(Clone, Debug)]
struct Entry {
    grant: Grant,
    len: u64,
    lifetime: Lifetime,
    state: State,
}

/// What must be true of an allocator after the calls so far.
#[derive(Debug)]
pub(crate) struct Model {
    /// Which grant, live or pending, holds each byte.
    holders: Vec<Option<usize>>,
    /// All grants ever made, in order.
    entries: Vec<Entry>,
    handles: BTreeSet<u64>,
    scopes: Vec<(Scope, usize)>,
    dead_scopes: Vec<Scope>,
    scope_tokens: BTreeSet<u64>,
    refused: u64,
    peak: u64,
    /// Epochs sealed and completed, by queue.
    pub(crate) sealed: [u64; QUEUES as usize],
    pub(crate) completed: [u64; QUEUES as usize],
}

impl Model {
    pub(crate) fn new(capacity: u64, first_epoch: u64) -> Self {
        Self {
            holders: vec![None; capacity as usize],
            entries: Vec::new(),
            handles: BTreeSet::new(),
            scopes: Vec::new(),
            dead_scopes: Vec::new(),
            scope_tokens: BTreeSet::new(),
            refused: 0,
            peak: 0,
            sealed: [first_epoch; QUEUES as usize],
            completed: [first_epoch; QUEUES as usize],
        }
    }

    fn live(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.state == State::Live)
    }

    /// The `pick`-th live grant.
    pub(crate) fn pick_live(&self, pick: u32) -> Option<usize> {
        let count = self.live().count();
        self.live().nth(pick as usize % count.max(1)).map(|(index, _)| index)
    }

    /// A grant that is over.
    pub(crate) fn pick_dead(&self, pick: u32) -> Option<Handle> {
        let dead: Vec<_> = self.entries.iter().filter(|entry| entry.state != State::Live).collect();
        dead.get(pick as usize % dead.len().max(1)).map(|entry| entry.grant.handle)
    }

    pub(crate) fn handle(&self, index: usize) -> Handle {
        self.entries[index].grant.handle
    }

    /// Whether the allocator ever gave the handle out.
    pub(crate) fn knows(&self, handle: Handle) -> bool {
        self.handles.contains(&handle.number())
    }

    /// An open scope, outermost first.
    pub(crate) fn pick_scope(&self, pick: u32) -> Option<Scope> {
        self.scopes.get(pick as usize % self.scopes.len().max(1)).map(|(scope, _)| *scope)
    }

    pub(crate) fn pick_dead_scope(&self, pick: u32) -> Option<Scope> {
        self.dead_scopes.get(pick as usize % self.dead_scopes.len().max(1)).copied()
    }

    pub(crate) fn knows_scope(&self, scope: Scope) -> bool {
        self.scope_tokens.contains(&scope.0)
    }

    pub(crate) fn open_scopes(&self) -> usize {
        self.scopes.len()
    }

    /// Live and pending grants.
    pub(crate) fn held(&self) -> usize {
        self.entries.iter().filter(|entry| entry.state != State::Gone).count()
    }

    /// New work on the queues of `mask`, or work of the past.
    pub(crate) fn stamps(&mut self, mask: u8, older: bool) -> Vec<Stamp> {
        let queues = (0..QUEUES).filter(|queue| mask & 1 << queue != 0);
        queues
            .map(|queue| {
                let sealed = &mut self.sealed[queue as usize];
                if !older {
                    *sealed += 1;
                }
                Stamp {
                    queue: cuforge_core::QueueId(queue),
                    epoch: *sealed - u64::from(older && *sealed > 0),
                }
            })
            .collect()
    }

    /// A grant was made.
    pub(crate) fn granted(&mut self, request: &Request, grant: Grant) -> Result<(), Violation> {
        promise(grant.offset.is_multiple_of(request.align), "a grant is aligned as asked for", || {
            format!("{request:?} got {grant:?}")
        })?;
        let end = grant.offset.checked_add(request.len).filter(|end| *end <= self.holders.len() as u64);
        let Some(end) = end else {
            return promise(false, "a grant lies inside the capacity", || {
                format!("{request:?} got {grant:?}, capacity {}", self.holders.len())
            });
        };
        let index = self.entries.len();
        for byte in grant.offset..end {
            if let Some(holder) = self.holders[byte as usize] {
                let holder = &self.entries[holder];
                let word = if holder.state == State::Live {
                    "two live grants never overlap"
                } else {
                    "no byte is granted again before all of its stamps have completed"
                };
                return promise(false, word, || format!("{grant:?} got byte {byte} of {holder:?}"));
            }
            self.holders[byte as usize] = Some(index);
        }
        promise(
            self.handles.insert(grant.handle.number()),
            "a handle is never valid for two grants",
            || format!("{grant:?}"),
        )?;
        self.entries.push(Entry { grant, len: request.len, lifetime: request.lifetime, state: State::Live });
        Ok(())
    }

    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    /// A live grant ended.
    pub(crate) fn ended(&mut self, index: usize, after: &[Stamp]) {
        self.entries[index].state =
            State::Pending(after.iter().filter(|stamp| stamp.epoch > 0).copied().collect());
        if matches!(&self.entries[index].state, State::Pending(stamps) if stamps.is_empty()) {
            self.forget(index);
        }
    }

    fn forget(&mut self, index: usize) {
        let Entry { grant: Grant { offset, .. }, len, .. } = self.entries[index];
        self.entries[index].state = State::Gone;
        self.holders[offset as usize..(offset + len) as usize].fill(None);
    }

    /// The allocator was told how far the queues have come.
    pub(crate) fn reclaimed(&mut self) {
        for index in 0..self.entries.len() {
            if let State::Pending(stamps) = &self.entries[index].state
                && stamps.iter().all(|stamp| stamp.is_complete(&self.completed))
            {
                self.forget(index);
            }
        }
    }

    pub(crate) fn pushed(&mut self, scope: Scope) -> Result<(), Violation> {
        self.scopes.push((scope, self.entries.len()));
        promise(self.scope_tokens.insert(scope.0), "a scope is never valid for two checkpoints", || {
            format!("{scope:?}")
        })
    }

    /// All since `scope` was pushed (everything if none) ended; what the allocator has to answer.
    pub(crate) fn rewound(&mut self, scope: Option<Scope>, after: &[Stamp]) -> Rewound {
        let position = scope.and_then(|wanted| self.scopes.iter().position(|(open, _)| *open == wanted));
        let position = position.unwrap_or(0);
        let first =
            if scope.is_some() { self.scopes.get(position).map_or(0, |(_, first)| *first) } else { 0 };
        self.dead_scopes.extend(self.scopes.drain(position..).map(|(scope, _)| scope));
        let mut ended = Rewound::default();
        for index in first..self.entries.len() {
            let entry = &self.entries[index];
            if entry.state == State::Live && entry.lifetime != Lifetime::Resident {
                ended.grants += 1;
                ended.bytes += entry.len;
                self.ended(index, after);
            }
        }
        ended
    }

    pub(crate) fn grown(&mut self, capacity: u64) -> Result<(), Violation> {
        promise(capacity >= self.holders.len() as u64, "growth never shrinks the capacity", || {
            format!("from {} to {capacity}", self.holders.len())
        })?;
        self.holders.resize(capacity as usize, None);
        Ok(())
    }

    /// The counters agree with the model.
    pub(crate) fn check_stats(&mut self, stats: &Stats) -> Result<(), Violation> {
        let live: u64 = self.live().map(|(_, entry)| entry.len).sum();
        let pending = self.entries.iter().filter(|entry| matches!(entry.state, State::Pending(_)));
        let pending: u64 = pending.map(|entry| entry.len).sum();
        let held = stats.live_bytes.checked_add(stats.pending_bytes);
        let free = held.and_then(|held| stats.capacity_bytes.checked_sub(held));
        self.peak = self.peak.max(held.unwrap_or(0));
        let facts = [
            (stats.capacity_bytes == self.holders.len() as u64, "capacity as granted from"),
            (stats.live_grants == self.live().count() as u64, "live grants"),
            (stats.live_bytes >= live, "live bytes cover the live grants"),
            (stats.pending_bytes >= pending, "pending bytes cover what is pending"),
            (stats.live_grants > 0 || stats.live_bytes == 0, "no live bytes without a live grant"),
            (free.is_some_and(|free| stats.largest_free_bytes <= free), "live + pending + free = capacity"),
            (stats.peak_bytes >= self.peak, "peak"),
            (stats.acquired_total == self.entries.len() as u64, "acquired in total"),
            (stats.refused_total == self.refused, "refused in total"),
        ];
        for (holds, what) in facts {
            promise(holds, "the statistics agree with what happened", || {
                format!(
                    "{what}: {stats:?}; the model has {live} bytes live, {pending} pending, {} refusals",
                    self.refused
                )
            })?;
        }
        Ok(())
    }

    /// The memory map covers the capacity and agrees with the model and the counters.
    pub(crate) fn check_map(&self, map: &[Segment], stats: &Stats) -> Result<(), Violation> {
        let mut next = 0;
        let (mut live, mut pending) = (0, 0);
        for segment in map {
            promise(segment.offset == next && segment.len > 0, "the memory map has no gap", || {
                format!("{map:?}")
            })?;
            next += segment.len;
            let held = match segment.state {
                SegmentState::Live { .. } | SegmentState::Guard => {
                    live += segment.len;
                    Some(true)
                }
                SegmentState::Pending { .. } => {
                    pending += segment.len;
                    Some(false)
                }
                _ => None,
            };
            for byte in segment.offset..next.min(self.holders.len() as u64) {
                let holder = self.holders[byte as usize].map(|index| &self.entries[index]);
                let agrees = match holder {
                    Some(holder) => held == Some(holder.state == State::Live),
                    None => true,
                };
                promise(agrees, "the memory map agrees with the grants", || {
                    format!("byte {byte} of {holder:?} lies in {segment:?}")
                })?;
            }
        }
        let sums = next == stats.capacity_bytes && live == stats.live_bytes && pending == stats.pending_bytes;
        promise(sums, "the memory map adds up to the statistics", || format!("{map:?} against {stats:?}"))
    }
}
