//! The promises that are tested one by one, beside the random lists: each a few calls with a known answer.

use crate::conformance::calls::list_of;
use crate::conformance::runner::{Build, play_and_shrink};
use crate::conformance::violation::{Violation, promise};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use cuforge_core::{
    Grant, Lifetime, Misuse, Progress, QueueId, Refusal, Request, Segment, SegmentState, SlabAllocator, Stamp,
};

const LIFETIMES: [Lifetime; 3] = [Lifetime::Transient, Lifetime::General, Lifetime::Resident];

fn stamp(queue: u32, epoch: u64) -> Stamp {
    Stamp { queue: QueueId(queue), epoch }
}

/// Allocators of the capacities from `first` on that can be built.
fn built(build: Build<'_>, capacities: &[u64]) -> Result<Vec<Box<dyn SlabAllocator>>, Violation> {
    let built: Vec<_> = capacities.iter().filter_map(|capacity| build(*capacity)).collect();
    promise(!built.is_empty(), "some capacity up to 64 KiB can be built", || {
        format!("none of {capacities:?}")
    })?;
    Ok(built)
}

/// Reclaims until nothing more comes back; a broken count does not make it go on for ever.
fn settle(slab: &mut dyn SlabAllocator, completed: &[u64]) {
    struct Queues<'a>(&'a [u64]);
    impl Progress for Queues<'_> {
        fn completed(&self, queue: QueueId) -> u64 {
            self.0.completed(queue)
        }
    }
    for _ in 0..1_000 {
        if slab.reclaim(&Queues(completed)) == 0 {
            break;
        }
    }
}

/// Acquires until refused, at most `most` times.
fn fill(slab: &mut dyn SlabAllocator, request: &Request, most: usize) -> (Vec<Grant>, Option<Refusal>) {
    let mut held = Vec::new();
    while held.len() < most {
        match slab.acquire(request) {
            Ok(grant) => held.push(grant),
            Err(refusal) => return (held, Some(refusal)),
        }
    }
    (held, None)
}

/// More pieces than fit when each has a hundredth of the capacity.
const MOST: usize = 100;

/// A lifetime that the allocator serves at all, and the longest request of it when idle.
fn served(slab: &mut dyn SlabAllocator, align: u64) -> Vec<(Lifetime, u64)> {
    let capacity = slab.stats().capacity_bytes;
    let longest = |slab: &mut dyn SlabAllocator, lifetime| {
        let request = Request::new(capacity).with_align(align).with_lifetime(lifetime);
        match slab.acquire(&request) {
            Ok(grant) => {
                let _ = slab.release(grant.handle, &[]);
                capacity
            }
            Err(Refusal::NeverFits { max_bytes }) => max_bytes,
            Err(Refusal::Limit { limit_bytes, .. }) => limit_bytes,
            Err(_) => 0,
        }
    };
    let all = LIFETIMES.iter().map(|lifetime| (*lifetime, longest(slab, *lifetime)));
    all.filter(|(_, longest)| *longest > 0).collect()
}

/// `lists` random lists of calls from `seed` on, against the byte-map model.
pub(crate) fn random_lists(build: Build<'_>, seed: u64, lists: u64) -> Result<(), Violation> {
    for seed in seed..seed + lists {
        let (setting, calls) = list_of(seed);
        play_and_shrink(build, setting, &calls).map_err(|violation| Violation {
            detail: format!("{} (seed {seed})", violation.detail),
            ..violation
        })?;
    }
    Ok(())
}

/// Every capacity up to 64 and every length; every length at 4,096. What fits when idle is granted, again and again.
pub(crate) fn exhaustive_small(build: Build<'_>) -> Result<(), Violation> {
    let mut capacities: Vec<u64> = (1..=64).collect();
    capacities.push(4096);
    for mut slab in built(build, &capacities)? {
        let capacity = slab.stats().capacity_bytes;
        for (lifetime, longest) in served(&mut *slab, 1) {
            for len in 1..=longest {
                let request = Request::new(len).with_align(1).with_lifetime(lifetime);
                for _ in 0..2 {
                    let grant = slab.acquire(&request);
                    let Ok(grant) = grant else {
                        return promise(false, "free space can be had again at its own size", || {
                            format!("{request:?} of an idle {capacity}: {grant:?}")
                        });
                    };
                    promise(grant.offset + len <= capacity, "a grant lies inside the capacity", || {
                        format!("{grant:?} of {capacity}")
                    })?;
                    let _ = slab.release(grant.handle, &[]);
                }
            }
            for len in [longest + 1, capacity + 1, u64::MAX / 2, u64::MAX] {
                let request = Request::new(len).with_align(1).with_lifetime(lifetime);
                let answer = slab.acquire(&request);
                let known = matches!(answer, Err(Refusal::NeverFits { max_bytes }) if max_bytes == longest)
                    || matches!(answer, Err(Refusal::Limit { .. }));
                promise(known, "what can never fit is told apart from what does not fit now", || {
                    format!("{request:?} of {capacity}: {answer:?}")
                })?;
            }
        }
    }
    Ok(())
}

/// Alignments 1 to 4096 over many laps, and alignments near 2^63.
pub(crate) fn alignments(build: Build<'_>) -> Result<(), Violation> {
    for mut slab in built(build, &[4100, 9000, 16384, 20480])? {
        for shift in 0..=12 {
            let align = 1u64 << shift;
            for (lifetime, longest) in served(&mut *slab, align) {
                let mut held: Vec<(Grant, u64)> = Vec::new();
                for turn in 0..200u64 {
                    let len = 1 + (turn * 37) % (longest / 3).max(1);
                    let request = Request::new(len).with_align(align).with_lifetime(lifetime);
                    match slab.acquire(&request) {
                        Ok(grant) => {
                            promise(
                                grant.offset.is_multiple_of(align),
                                "a grant is aligned as asked for",
                                || format!("{request:?} got {grant:?}"),
                            )?;
                            disjoint(&held, grant, len)?;
                            held.push((grant, len));
                        }
                        Err(refusal) => {
                            promise(!held.is_empty(), "an idle allocator serves what fits", || {
                                format!("{request:?}: {refusal:?}")
                            })?;
                        }
                    }
                    if held.len() > 2 {
                        let _ = slab.release(held.remove(0).0.handle, &[]);
                    }
                }
                for (grant, _) in held {
                    let _ = slab.release(grant.handle, &[]);
                }
            }
        }
        for align in [0, 3, 48, u64::MAX, (1 << 63) + 1] {
            let answer = slab.acquire(&Request::new(1).with_align(align));
            promise(matches!(answer, Err(Refusal::Alignment { .. })), "a bad alignment is refused", || {
                format!("{align}: {answer:?}")
            })?;
        }
        let answer = slab.acquire(&Request::new(1).with_align(1 << 63));
        promise(
            answer.is_err() || answer.is_ok_and(|grant| grant.offset == 0),
            "a huge alignment does not wrap",
            || format!("{answer:?}"),
        )?;
    }
    Ok(())
}

/// A new grant of `len` bytes has none of those held, each beside its length.
fn disjoint(held: &[(Grant, u64)], grant: Grant, len: u64) -> Result<(), Violation> {
    let overlaps = |(other, other_len): &&(Grant, u64)| {
        grant.offset < other.offset + other_len && other.offset < grant.offset + len
    };
    match held.iter().find(overlaps) {
        Some(other) => promise(false, "two live grants never overlap", || format!("{grant:?} and {other:?}")),
        None => Ok(()),
    }
}

/// Bytes wait for every stamp given with them, whatever their neighbours wait for.
pub(crate) fn pending_bytes_wait(build: Build<'_>) -> Result<(), Violation> {
    for mut slab in built(build, &[4096, 65_536])? {
        for (round, (lifetime, longest)) in (0..).zip(served(&mut *slab, 1)) {
            // Epochs are never used twice.
            let base = 100 * round;
            let request = Request::new((longest / 4).max(1)).with_align(1).with_lifetime(lifetime);
            let (held, _) = fill(&mut *slab, &request, MOST);
            // Neighbours wait for different queues and epochs; the last one for two queues.
            let stamps = |turn: usize| {
                if turn % 4 == 3 {
                    vec![stamp(0, base + 9), stamp(1, base + 9)]
                } else {
                    vec![stamp(turn as u32 % 2, base + 5 + turn as u64 % 4)]
                }
            };
            for (turn, grant) in held.iter().enumerate() {
                let released = slab.release(grant.handle, &stamps(turn));
                promise(released.is_ok(), "a live grant can be released", || format!("{released:?}"))?;
            }
            for completed in [[0u64, 0], [5, 0], [5, 6], [8, 6], [8, 8], [9, 8], [9, 9]] {
                let completed = completed.map(|epoch| base + epoch);
                settle(&mut *slab, &completed);
                // Small pieces, so that whatever has been cut or joined shows.
                let small = Request { len: (request.len / 3).max(1), ..request };
                let (again, _) = fill(&mut *slab, &small, MOST);
                for grant in &again {
                    for (turn, old) in held.iter().enumerate() {
                        let apart = grant.offset + small.len <= old.offset
                            || old.offset + request.len <= grant.offset;
                        let done = stamps(turn).iter().all(|stamp| stamp.is_complete(&completed));
                        promise(
                            apart || done,
                            "no byte is granted again before all of its stamps have completed",
                            || {
                                format!(
                                    "{grant:?} got bytes of {old:?} at {completed:?}, released after {:?}",
                                    stamps(turn)
                                )
                            },
                        )?;
                    }
                }
                for grant in again {
                    let _ = slab.release(grant.handle, &[]);
                }
            }
            settle(&mut *slab, &[base + 9, base + 9]);
            let stats = slab.stats();
            promise(
                stats.pending_bytes == 0 && stats.live_bytes == 0,
                "once all is completed, all is free again",
                || format!("{stats:?}"),
            )?;
        }
    }
    Ok(())
}

/// Rewinding or clearing work in flight makes its bytes pending, not free.
pub(crate) fn rewinds_in_flight_wait(build: Build<'_>) -> Result<(), Violation> {
    for clear in [false, true] {
        for mut slab in built(build, &[4096, 65_536])? {
            for (round, (lifetime, longest)) in (0..).zip(served(&mut *slab, 1)) {
                let base = 100 * round;
                let request = Request::new(longest).with_align(1).with_lifetime(lifetime);
                let scope = slab.push_scope();
                let granted = slab.acquire(&request);
                let after = [stamp(0, base + 3)];
                let ended = match (clear, scope) {
                    (true, _) => slab.clear(&after),
                    (false, Ok(scope)) => slab.rewind(scope, &after),
                    (false, Err(misuse)) => Err(misuse),
                };
                let resident = lifetime == Lifetime::Resident;
                if let Ok(ended) = ended {
                    let expected = u64::from(!resident && granted.is_ok());
                    promise(
                        ended.grants == expected,
                        "resident grants survive rewind and clear, others do not",
                        || format!("{request:?}: {ended:?}"),
                    )?;
                    slab.reclaim(&[base + 2]);
                    let early = slab.acquire(&request);
                    let waits = early.is_err();
                    promise(waits, "rewound bytes stay pending until their stamps complete", || {
                        format!("{early:?}")
                    })?;
                    settle(&mut *slab, &[base + 3]);
                    let late = slab.acquire(&request);
                    promise(
                        late.is_ok() != resident,
                        "rewound bytes come back once their stamps complete",
                        || format!("{request:?}: {late:?}"),
                    )?;
                    if let Ok(grant) = late {
                        let _ = slab.release(grant.handle, &[]);
                    }
                } else if let Err(misuse) = ended {
                    promise(
                        matches!(misuse, Misuse::Unsupported { .. }),
                        "an open scope can be rewound",
                        || format!("{misuse:?}"),
                    )?;
                }
                if let Ok(grant) = granted {
                    // Over after a rewind, live after an unsupported one or if resident.
                    let _ = slab.release(grant.handle, &[]);
                }
                settle(&mut *slab, &[base + 3]);
            }
        }
    }
    Ok(())
}

/// Growth moves nothing, frees nothing, and its bytes can be had.
pub(crate) fn growth(build: Build<'_>) -> Result<(), Violation> {
    for mut slab in built(build, &[4096, 65_536])? {
        let capacity = slab.stats().capacity_bytes;
        let request = Request::new(capacity / 4).with_align(1);
        let (held, _) = fill(&mut *slab, &request, MOST);
        let mut held: Vec<_> = held.into_iter().map(|grant| (grant, request.len)).collect();
        match slab.grow(capacity) {
            Err(Misuse::Unsupported { .. }) => continue,
            Err(misuse) => return promise(false, "growth within reason succeeds", || format!("{misuse:?}")),
            Ok(grown) => promise(
                grown >= capacity && grown <= 2 * capacity,
                "growth returns the new capacity",
                || format!("{grown} from {capacity} and {capacity} more"),
            )?,
        }
        let before = held.len();
        let (more, refusal) = fill(&mut *slab, &request, MOST);
        for grant in more {
            disjoint(&held, grant, request.len)?;
            held.push((grant, request.len));
        }
        let limited = matches!(refusal, Some(Refusal::Limit { .. } | Refusal::NeverFits { .. }));
        promise(held.len() > before || limited, "the bytes of growth can be had", || format!("{refusal:?}"))?;
        for (grant, _) in held {
            let released = slab.release(grant.handle, &[]);
            promise(released.is_ok(), "growth leaves grants valid", || format!("{released:?}"))?;
        }
    }
    Ok(())
}

/// A full allocator says how full, and a map drawn of it agrees.
pub(crate) fn full_is_honest(build: Build<'_>) -> Result<(), Violation> {
    for mut slab in built(build, &[4096, 65_536])? {
        for (round, (lifetime, longest)) in (0..).zip(served(&mut *slab, 1)) {
            let base = 100 * round;
            let request = Request::new((longest / 8).max(1)).with_align(1).with_lifetime(lifetime);
            let (held, refusal) = fill(&mut *slab, &request, MOST);
            promise(refusal.is_some(), "no more is granted than there is", || format!("{held:?}"))?;
            if let Some(Refusal::Full { pending, oldest, .. }) = refusal {
                promise(pending == 0 && oldest.is_none(), "a refusal says what is the case", || {
                    format!("{refusal:?}")
                })?;
            }
            for grant in held {
                let _ = slab.release(grant.handle, &[stamp(1, base + 4)]);
            }
            if let Err(Refusal::Full { pending, oldest, .. }) =
                slab.acquire(&Request { len: longest, ..request })
            {
                promise(
                    pending > 0 && oldest == Some(stamp(1, base + 4)),
                    "a refusal names the stamp to wait for",
                    || format!("pending {pending}, oldest {oldest:?}"),
                )?;
            }
            let mut free = 0;
            let mapped = slab.inspect(&mut |segment: Segment| {
                if segment.state == SegmentState::Free {
                    free += segment.len;
                }
            });
            promise(mapped.is_err() || free == slab.stats().free_bytes(), "the memory map adds up", || {
                format!("{free} free by the map, {:?}", slab.stats())
            })?;
            settle(&mut *slab, &[0, base + 4]);
        }
    }
    Ok(())
}

/// Handles and scopes stay unique over more uses than 16 bits count.
pub(crate) fn tokens_stay_unique(build: Build<'_>) -> Result<(), Violation> {
    const CYCLES: usize = 70_000;
    let Some(mut slab) = built(build, &[4096, 65_536])?.pop() else { return Ok(()) };
    let Some((lifetime, _)) = served(&mut *slab, 1).first().copied() else { return Ok(()) };
    let request = Request::new(1).with_align(1).with_lifetime(lifetime);
    let (mut handles, mut scopes) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..CYCLES {
        let scope = slab.push_scope();
        let Ok(grant) = slab.acquire(&request) else {
            return promise(false, "an idle allocator serves what fits", || format!("{request:?}"));
        };
        promise(handles.insert(grant.handle.number()), "a handle is never valid for two grants", || {
            format!("{grant:?}")
        })?;
        // Every other grant is ended by its scope, if there are scopes.
        if grant.handle.number().is_multiple_of(2) || scope.is_err() {
            let _ = slab.release(grant.handle, &[]);
        }
        if let Ok(scope) = scope {
            promise(scopes.insert(scope.0), "a scope is never valid for two checkpoints", || {
                format!("{scope:?}")
            })?;
            let _ = slab.rewind(scope, &[]);
            let _ = slab.release(grant.handle, &[]);
        }
    }
    Ok(())
}
