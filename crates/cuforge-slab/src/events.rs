//! The log of an allocator's calls, and playing it again on another.

use core::fmt;
use cuforge_core::{
    Handle, Misuse, Progress, QueueId, Refusal, Request, Rewound, Scope, SlabAllocator, Stamp,
};

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One entry of a log. `After` and `Completed` belong to the next call behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A grant was made.
    Acquired {
        /// What was asked for.
        request: Request,
        /// The grant's name.
        handle: Handle,
        /// Where it lies.
        offset: u64,
        /// Who asked, as set by [`Traced::set_holder`](crate::Traced::set_holder).
        holder: &'static str,
    },
    /// A request was refused.
    Refused {
        /// What was asked for.
        request: Request,
        /// Why not.
        refusal: Refusal,
    },
    /// The next release, rewind or clear waits for this stamp too.
    After(Stamp),
    /// A grant was released.
    Released {
        /// Its name.
        handle: Handle,
    },
    /// The next reclaim found that a queue had come this far.
    Completed(Stamp),
    /// Memory was reclaimed.
    Reclaimed {
        /// Bytes that came free.
        bytes: u64,
    },
    /// The capacity was extended.
    Grown {
        /// By how many bytes.
        extra_bytes: u64,
    },
    /// A scope was opened.
    Pushed {
        /// Its name.
        scope: Scope,
    },
    /// A scope was rewound.
    Rewound {
        /// Its name.
        scope: Scope,
        /// What it ended.
        ended: Rewound,
    },
    /// Everything but resident grants was ended.
    Cleared {
        /// What it ended.
        ended: Rewound,
    },
}

/// What replaying a log came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Calls made.
    pub calls: u64,
    /// Grants that lie elsewhere than in the log.
    pub moved: u64,
    /// Requests that were granted in the log and refused now.
    pub refused_now: u64,
    /// Requests that were refused in the log and granted now (and released at once, to keep to the log).
    pub granted_now: u64,
}

/// Why a log cannot be replayed on an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log names a grant or scope that it never made: its beginning is missing.
    #[error("event {event} names something that the log never made")]
    Unknown {
        /// Index of the event in the log.
        event: usize,
    },
    /// The allocator cannot do what the log asks for.
    #[error("event {event}: {misuse}")]
    Misuse {
        /// Index of the event in the log.
        event: usize,
        /// What the allocator answered.
        misuse: Misuse,
    },
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, moved, refused_now, granted_now } = self;
        write!(f, "{calls} calls: {moved} grants moved, {refused_now} refused now, {granted_now} granted now")
    }
}

struct Queues(BTreeMap<u32, u64>);

impl Progress for Queues {
    fn completed(&self, queue: QueueId) -> u64 {
        self.0.get(&queue.0).copied().unwrap_or(0)
    }
}

/// Makes the calls of a log on `slab`, an allocator in the state that the log began in. Another kind of allocator
/// may answer otherwise: what differs is counted. O(events) expected, and what the calls take; allocates.
///
/// # Errors
/// [`ReplayError`]; the calls before the event were made.
pub fn replay(log: &[Event], slab: &mut dyn SlabAllocator) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed::default();
    // `None` for a grant that was refused this time.
    let mut handles: BTreeMap<u64, Option<Handle>> = BTreeMap::new();
    let mut scopes = BTreeMap::new();
    let mut queues = Queues(BTreeMap::new());
    let mut after: Vec<Stamp> = Vec::new();
    for (event, entry) in log.iter().enumerate() {
        let failed = |misuse| ReplayError::Misuse { event, misuse };
        match *entry {
            Event::After(stamp) => {
                after.push(stamp);
                continue;
            }
            Event::Completed(stamp) => {
                queues.0.insert(stamp.queue.0, stamp.epoch);
                continue;
            }
            Event::Acquired { request, handle, offset, .. } => {
                let grant = slab.acquire(&request).ok();
                replayed.refused_now += u64::from(grant.is_none());
                replayed.moved += u64::from(grant.is_some_and(|grant| grant.offset != offset));
                handles.insert(handle.number(), grant.map(|grant| grant.handle));
            }
            Event::Refused { request, .. } => {
                if let Ok(grant) = slab.acquire(&request) {
                    replayed.granted_now += 1;
                    slab.release(grant.handle, &[]).map_err(failed)?;
                }
            }
            Event::Released { handle } => {
                let now = handles.remove(&handle.number()).ok_or(ReplayError::Unknown { event })?;
                now.map_or(Ok(()), |now| slab.release(now, &after)).map_err(failed)?;
            }
            Event::Reclaimed { .. } => {
                slab.reclaim(&queues);
            }
            Event::Grown { extra_bytes } => {
                slab.grow(extra_bytes).map_err(failed)?;
            }
            Event::Pushed { scope } => {
                scopes.insert(scope.0, slab.push_scope().map_err(failed)?);
            }
            Event::Rewound { scope, .. } => {
                let now = scopes.remove(&scope.0).ok_or(ReplayError::Unknown { event })?;
                slab.rewind(now, &after).map_err(failed)?;
            }
            Event::Cleared { .. } => {
                slab.clear(&after).map_err(failed)?;
            }
        }
        after.clear();
        replayed.calls += 1;
    }
    Ok(replayed)
}
