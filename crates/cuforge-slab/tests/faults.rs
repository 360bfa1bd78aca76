//! The faults of a naive ring, and what was reported against other allocators: each has a test that fails if it returns.
#![allow(clippy::unwrap_used, reason = "in a test that is how a broken promise is told")]

use std::num::NonZeroU64;

use cuforge_core::{
    Access, Grant, Handle, Ledger, LedgerError, LedgerLimits, Lifetime, Misuse, QueueId, Refusal, Request,
    Scope, SlabAllocator, Stamp,
};
use cuforge_slab::{BuildError, RegionLayout, RegionSlab, RingSlab, ScopeSlab, SlabLimits, TlsfSlab};

const LIMITS: SlabLimits =
    SlabLimits { grants: 64, queues: 3, scopes: 8, granule_bytes: 1, base_align: 4096, reclaim_batch: 64 };

fn ring(capacity: u64) -> RingSlab {
    RingSlab::with_limits(capacity, LIMITS).unwrap()
}

fn general(capacity: u64) -> TlsfSlab {
    TlsfSlab::with_limits(capacity, LIMITS).unwrap()
}

fn regions(capacity: u64) -> RegionSlab {
    let layout = RegionLayout { transient_bytes: capacity / 4, read_only_bytes: 0 };
    RegionSlab::with_layout(capacity, layout, LIMITS).unwrap()
}

fn ledger(slab: impl SlabAllocator + Send + 'static) -> Ledger {
    let mut ledger = Ledger::new(Box::new(slab), LedgerLimits { grants: 64, queues: 3 });
    (0..3).for_each(|queue| assert_eq!(ledger.register_queue(), Ok(QueueId(queue))));
    ledger
}

fn bytes(len: u64) -> Request {
    Request::new(len).with_align(1).with_lifetime(Lifetime::Transient)
}

fn stamp(queue: u32, epoch: u64) -> Stamp {
    Stamp { queue: QueueId(queue), epoch }
}

/// Whether two grants, each beside its length, have a byte in common.
fn overlap((a, a_len): (Grant, u64), (b, b_len): (Grant, u64)) -> bool {
    a.offset < b.offset + b_len && b.offset < a.offset + a_len
}

// Fault 1.
#[test]
fn retiring_exactly_one_lap_empties_the_ring() {
    let mut ring = ring(1024);
    for epoch in 1..5 {
        let whole = ring.acquire(&bytes(1024)).unwrap();
        ring.release(whole.handle, &[stamp(0, epoch)]).unwrap();
        assert_eq!(ring.reclaim(&[epoch]), 1024);
        assert_eq!(ring.stats().live_bytes + ring.stats().pending_bytes, 0);
    }
}

// Fault 2: a late answer of a queue cannot wind the ring forward, and a future stamp only waits.
#[test]
fn stale_progress_frees_nothing_and_a_future_stamp_waits() {
    let mut ring = ring(1024);
    let old = ring.acquire(&bytes(512)).unwrap();
    ring.release(old.handle, &[stamp(0, 9)]).unwrap();
    let new = ring.acquire(&bytes(512)).unwrap();
    ring.release(new.handle, &[stamp(0, u64::MAX)]).unwrap();
    assert_eq!(ring.reclaim(&[9]), 512);
    assert_eq!(ring.reclaim(&[3]), 0, "progress that is behind what is known");
    assert!(matches!(ring.acquire(&bytes(600)), Err(Refusal::Full { pending: 512, .. })));
    assert_eq!(ring.reclaim(&[u64::MAX - 1]), 0);
    assert_eq!(ring.reclaim(&[u64::MAX]), 512);
}

// Fault 3.
#[test]
fn a_live_view_is_never_handed_out_twice_however_late_stamps_complete() {
    let mut ring = ring(1024);
    let held = ring.acquire(&bytes(700)).unwrap();
    for epoch in 1..200 {
        let len = 100 + epoch % 50;
        if let Ok(grant) = ring.acquire(&bytes(len)) {
            assert!(!overlap((held, 700), (grant, len)), "{held:?} {grant:?}");
            ring.release(grant.handle, &[stamp((epoch % 3) as u32, epoch)]).unwrap();
        }
        ring.reclaim(&[epoch / 2, epoch, epoch.saturating_sub(7)]);
    }
}

// Fault 4.
#[test]
fn a_scope_restored_in_flight_stays_pending_until_its_stamp_completes() {
    for mut slab in [Box::new(ring(1000)) as Box<dyn SlabAllocator>, Box::new(ScopeSlab::new(1000).unwrap())]
    {
        let scope = slab.push_scope().unwrap();
        let first = slab.acquire(&bytes(1000)).unwrap();
        slab.rewind(scope, &[stamp(0, 4)]).unwrap();
        let early = slab.acquire(&bytes(1000));
        assert!(
            matches!(early, Err(Refusal::Full { pending: 1000, oldest: Some(s), .. }) if s == stamp(0, 4))
        );
        slab.reclaim(&[4]);
        assert_eq!(slab.acquire(&bytes(1000)).unwrap().offset, first.offset);
    }
}

// Fault 5.
#[test]
fn no_transient_ever_meets_a_resident_grant_over_many_laps() {
    let mut slab = regions(64 << 10);
    let weights: Vec<Grant> =
        (0..6).map(|_| slab.acquire(&bytes(3000).with_lifetime(Lifetime::Resident)).unwrap()).collect();
    for epoch in 1..2000u64 {
        let len = 1 + epoch * 37 % 9000;
        if let Ok(grant) = slab.acquire(&bytes(len)) {
            assert!(weights.iter().all(|weight| !overlap((*weight, 3000), (grant, len))), "{grant:?}");
            slab.release(grant.handle, &[stamp(0, epoch)]).unwrap();
        }
        slab.reclaim(&[epoch.saturating_sub(3)]);
        if epoch % 100 == 0 {
            slab.clear(&[stamp(0, epoch)]).unwrap();
        }
    }
    weights.iter().for_each(|weight| slab.release(weight.handle, &[]).unwrap());
}

// Fault 6.
#[test]
fn a_stamp_taken_before_a_restore_frees_only_what_it_was_given_with() {
    let mut ring = ring(1024);
    let before = ring.acquire(&bytes(256)).unwrap();
    ring.release(before.handle, &[stamp(0, 1)]).unwrap();
    let scope = ring.push_scope().unwrap();
    ring.acquire(&bytes(512)).unwrap();
    ring.rewind(scope, &[stamp(0, 2)]).unwrap();
    let after = ring.acquire(&bytes(200)).unwrap();
    assert_eq!(ring.reclaim(&[1]), 256, "the early stamp fires after the restore");
    assert_eq!((ring.stats().live_grants, ring.stats().pending_bytes), (1, 512));
    ring.release(after.handle, &[]).unwrap();
}

// Faults 7 and 18.
#[test]
fn a_checkpoint_is_a_token_that_works_once_and_not_after_its_outer_one() {
    let slabs: [Box<dyn SlabAllocator>; 4] = [
        Box::new(ring(4096)),
        Box::new(general(4096)),
        Box::new(regions(4096)),
        Box::new(ScopeSlab::with_limits(4096, LIMITS).unwrap()),
    ];
    for mut slab in slabs {
        let outer = slab.push_scope().unwrap();
        let inner = slab.push_scope().unwrap();
        let kept = slab.acquire(&bytes(100)).unwrap();
        for foreign in [Scope(4196), Scope(u64::MAX), Scope(1 << 40)] {
            assert!(slab.rewind(foreign, &[]).is_err());
        }
        assert_eq!(slab.stats().live_grants, 1);
        slab.rewind(outer, &[]).unwrap();
        assert_eq!(slab.rewind(outer, &[]), Err(Misuse::StaleScope));
        assert_eq!(slab.rewind(inner, &[]), Err(Misuse::StaleScope));
        assert!(slab.release(kept.handle, &[]).is_err());
    }
}

// Fault 8.
#[test]
fn views_from_before_a_restore_are_stale() {
    let mut ledger = ledger(regions(64 << 10));
    let checkpoint = ledger.push_scope().unwrap();
    let view = ledger.acquire(&bytes(100)).unwrap();
    let rewound = ledger.rewind(checkpoint).unwrap();
    assert_eq!((rewound.grants, rewound.bytes), (1, 100));
    assert!(ledger.check(&view).is_err());
    assert!(matches!(ledger.release(view), Err(LedgerError::View(_))));
    assert!(ledger.pin(&view).is_err());
}

// Faults 9, 10 and 21.
#[test]
fn nothing_and_far_too_much_are_refused_each_in_its_own_words() {
    for mut slab in [Box::new(ring(1024)) as Box<dyn SlabAllocator>, Box::new(general(1024))] {
        let held = slab.acquire(&bytes(1000)).unwrap();
        assert_eq!(slab.acquire(&bytes(0)), Err(Refusal::Zero));
        for len in [1025, u64::MAX - 4095, u64::MAX] {
            for align in [1, 256, 4096] {
                let answer = slab.acquire(&bytes(len).with_align(align));
                assert_eq!(answer, Err(Refusal::NeverFits { max_bytes: 1024 }));
            }
        }
        assert!(matches!(slab.acquire(&bytes(1024)), Err(Refusal::Full { total_free: 24, .. })));
        slab.release(held.handle, &[]).unwrap();
        assert!(slab.acquire(&bytes(1024)).is_ok());
    }
}

// Fault 11.
#[test]
fn capacity_zero_is_an_error_at_construction() {
    let none = |error| matches!(error, BuildError::Capacity { capacity_bytes: 0, .. });
    assert!(none(RingSlab::new(0).unwrap_err()) && none(TlsfSlab::new(0).unwrap_err()));
    assert!(none(RegionSlab::new(0).unwrap_err()) && none(ScopeSlab::new(0).unwrap_err()));
}

// Fault 12.
#[test]
fn an_idle_ring_serves_its_whole_capacity_wherever_it_stopped() {
    for parked in 1..1000 {
        let mut ring = ring(1000);
        let grant = ring.acquire(&bytes(parked)).unwrap();
        ring.release(grant.handle, &[]).unwrap();
        assert_eq!(ring.acquire(&bytes(1000)).unwrap().offset, 0);
    }
}

// Fault 13: positions begin 2,048 bytes below 2^64 in every ring; this one crosses while grants are in flight.
#[test]
fn positions_that_count_past_their_type_hand_nothing_out_twice() {
    let mut ring = ring(768);
    let mut flight: Vec<(Grant, u64)> = Vec::new();
    for turn in 0..400 {
        let len = 1 + turn * 31 % 250;
        match ring.acquire(&bytes(len)) {
            Ok(grant) => {
                assert!(flight.iter().all(|other| !overlap(*other, (grant, len))), "turn {turn}");
                flight.push((grant, len));
            }
            Err(_) => ring.release(flight.remove(0).0.handle, &[]).unwrap(),
        }
    }
}

// Fault 14.
#[test]
fn every_lap_is_aligned_when_the_capacity_is_no_multiple_of_the_alignment() {
    for capacity in [1000, 1023, 1025, 4097] {
        let mut ring = ring(capacity);
        for _ in 0..50 {
            let grant = ring.acquire(&bytes(300).with_align(256)).unwrap();
            assert_eq!(grant.offset % 256, 0);
            assert!(grant.offset + 300 <= capacity);
            ring.release(grant.handle, &[]).unwrap();
        }
    }
    let limits = SlabLimits { granule_bytes: 256, ..LIMITS };
    assert_eq!(TlsfSlab::with_limits(1000, limits).unwrap().stats().capacity_bytes, 768, "usable, not given");
}

// Fault 15.
#[test]
fn requests_aligned_beyond_the_base_address_are_refused() {
    let limits = SlabLimits { base_align: 256, ..LIMITS };
    let slabs: [Box<dyn SlabAllocator>; 3] = [
        Box::new(RingSlab::with_limits(1 << 16, limits).unwrap()),
        Box::new(TlsfSlab::with_limits(1 << 16, limits).unwrap()),
        Box::new(ScopeSlab::with_limits(1 << 16, limits).unwrap()),
    ];
    for mut slab in slabs {
        assert!(slab.acquire(&bytes(64).with_align(256)).is_ok());
        assert_eq!(slab.acquire(&bytes(64).with_align(512)), Err(Refusal::NeverFits { max_bytes: 0 }));
    }
}

// Fault 16.
#[test]
fn a_refused_request_leaves_no_padding_behind() {
    let slabs: [Box<dyn SlabAllocator>; 3] =
        [Box::new(ring(2000)), Box::new(general(2000)), Box::new(ScopeSlab::new(2000).unwrap())];
    for mut slab in slabs {
        slab.acquire(&bytes(1001)).unwrap();
        let map = |slab: &dyn SlabAllocator| {
            let mut map = Vec::new();
            slab.inspect(&mut |segment| map.push(segment)).unwrap();
            map
        };
        let (stats, before) = (slab.stats(), map(&*slab));
        assert!(slab.acquire(&bytes(1000).with_align(512)).is_err());
        assert_eq!(map(&*slab), before);
        assert_eq!(slab.stats().live_bytes, stats.live_bytes);
    }
}

// Found by 200,000 random lists: growth that waited for the end of a lap took effect in a call that was refused.
#[test]
fn a_refused_request_never_changes_where_later_ones_lie_in_a_ring_that_grew() {
    let offset = |refused: bool| {
        let mut ring = ring(300);
        let first = ring.acquire(&bytes(200)).unwrap();
        let second = ring.acquire(&bytes(90)).unwrap();
        ring.release(first.handle, &[]).unwrap();
        let third = ring.acquire(&bytes(150)).unwrap();
        ring.grow(300).unwrap();
        ring.release(second.handle, &[]).unwrap();
        ring.release(third.handle, &[]).unwrap();
        if refused {
            ring.acquire(&bytes(0)).unwrap_err();
        }
        ring.acquire(&bytes(200)).unwrap().offset
    };
    assert_eq!(offset(true), offset(false));
}

// Fault 17.
#[test]
fn a_clear_in_flight_keeps_its_bytes_pending() {
    let slabs: [Box<dyn SlabAllocator>; 4] = [
        Box::new(ring(1000)),
        Box::new(general(1000)),
        Box::new(ScopeSlab::new(1000).unwrap()),
        Box::new(regions(1000)),
    ];
    for mut slab in slabs {
        let longest = if slab.acquire(&bytes(1000)).is_ok() { 1000 } else { 250 };
        slab.clear(&[]).unwrap();
        slab.acquire(&bytes(longest)).unwrap();
        assert_eq!(slab.clear(&[stamp(1, 2)]).unwrap().bytes, longest);
        assert_eq!(slab.stats().pending_bytes, longest);
        assert_eq!((slab.reclaim(&[9, 1]), slab.reclaim(&[9, 2])), (0, longest));
    }
}

// Fault 19.
#[test]
fn a_grant_that_holds_the_ring_back_shows_in_the_statistics_and_does_not_touch_other_regions() {
    let mut slab = regions(4096);
    let long = slab.acquire(&bytes(100)).unwrap();
    let short = slab.acquire(&bytes(500)).unwrap();
    let newest = slab.acquire(&bytes(100)).unwrap();
    slab.release(short.handle, &[]).unwrap();
    assert_eq!(slab.stats().pending_bytes, 500, "complete, but between two live grants");
    let elsewhere = slab.acquire(&bytes(900)).unwrap();
    assert!(!slab.transient_range().contains(&elsewhere.offset), "the ring has no room, the rest has");
    slab.release(long.handle, &[]).unwrap();
    assert_eq!(slab.stats().pending_bytes, 0);
    slab.release(newest.handle, &[]).unwrap();
}

// Fault 20.
#[test]
fn grants_of_different_access_never_share_a_binding_range_when_kept_apart() {
    let layout = RegionLayout { transient_bytes: 1024, read_only_bytes: 2048 };
    let mut slab = RegionSlab::with_layout(8192, layout, LIMITS).unwrap();
    let (read, write) = (slab.range_of(Access::StorageRead), slab.range_of(Access::StorageReadWrite));
    assert_eq!((read.clone(), write.clone()), (0..2048, 2048..8192));
    for turn in 0..40 {
        let lifetime = [Lifetime::Resident, Lifetime::General, Lifetime::Transient][turn % 3];
        for (access, range) in [(Access::StorageRead, &read), (Access::StorageReadWrite, &write)] {
            if let Ok(grant) = slab.acquire(&bytes(97).with_lifetime(lifetime).with_access(access)) {
                assert!(range.contains(&grant.offset) && grant.offset + 97 <= range.end);
            }
        }
    }
    slab.grow(4096).unwrap();
    assert_eq!(slab.range_of(Access::StorageRead), read, "growth leaves the read-only range alone");
}

// Fault 22.
#[test]
fn every_piece_of_a_pending_block_waits_for_the_blocks_own_stamp() {
    let mut slab = general(1024);
    let whole = slab.acquire(&bytes(1024)).unwrap();
    slab.release(whole.handle, &[stamp(0, 7)]).unwrap();
    for completed in 0..7 {
        slab.reclaim(&[completed]);
        assert!(slab.acquire(&bytes(256)).is_err(), "epoch 7 has not completed");
    }
    slab.reclaim(&[7]);
    assert_eq!((0..4).filter(|_| slab.acquire(&bytes(256)).is_ok()).count(), 4);
}

#[test]
fn stamps_of_three_queues_survive_the_merge_of_their_blocks() {
    let mut slab = general(768);
    let grants: Vec<Grant> = (0..3).map(|_| slab.acquire(&bytes(256)).unwrap()).collect();
    for (queue, grant) in (0..).zip(&grants) {
        slab.release(grant.handle, &[stamp(queue, 5)]).unwrap();
    }
    for completed in [[5, 5, 4], [4, 5, 5], [5, 4, 5]] {
        let mut other = general(768);
        let grants: Vec<Grant> = (0..3).map(|_| other.acquire(&bytes(256)).unwrap()).collect();
        (0..)
            .zip(&grants)
            .for_each(|(queue, grant)| other.release(grant.handle, &[stamp(queue, 5)]).unwrap());
        other.reclaim(&completed);
        assert!(other.acquire(&bytes(768)).is_err(), "one of three has not completed");
        assert_eq!(other.stats().pending_bytes, 256);
    }
    slab.reclaim(&[5, 5, 5]);
    assert!(slab.acquire(&bytes(768)).is_ok());
}

#[test]
fn memory_released_on_two_queues_in_turns_comes_back_in_one_piece() {
    let mut slab = general(4096);
    let grants: Vec<Grant> = (0..32).map(|_| slab.acquire(&bytes(128)).unwrap()).collect();
    for (turn, grant) in (0..).zip(&grants) {
        slab.release(grant.handle, &[stamp(turn % 2, u64::from(turn) + 1)]).unwrap();
    }
    slab.reclaim(&[100, 100]);
    assert!(slab.acquire(&bytes(4096)).is_ok());
}

#[test]
fn a_queue_that_is_stuck_for_ever_holds_back_its_own_bytes_only() {
    for mut slab in [Box::new(general(4096)) as Box<dyn SlabAllocator>, Box::new(regions(4096))] {
        let general = bytes(64).with_lifetime(Lifetime::General);
        let grants: Vec<Grant> = (0..32).map(|_| slab.acquire(&general).unwrap()).collect();
        for (turn, grant) in (0..).zip(&grants) {
            slab.release(grant.handle, &[stamp(turn % 2, u64::from(turn) + 1)]).unwrap();
        }
        assert_eq!(slab.reclaim(&[0, 100]), 16 * 64);
        assert_eq!(slab.stats().pending_bytes, 16 * 64);
    }
}

#[test]
fn a_pinned_grant_refuses_rewind_and_clear_until_its_lease_is_gone() {
    let mut ledger = ledger(regions(64 << 10));
    let checkpoint = ledger.push_scope().unwrap();
    let view = ledger.acquire(&bytes(100)).unwrap();
    let lease = ledger.pin(&view).unwrap();
    lease.mark_use(stamp(0, 3)).unwrap();
    let before = ledger.stats();
    assert_eq!(ledger.rewind(checkpoint), Err(LedgerError::Pinned { grants: 1 }));
    assert_eq!(ledger.clear(), Err(LedgerError::Pinned { grants: 1 }));
    assert_eq!(ledger.stats(), before);
    drop(lease);
    assert_eq!(ledger.rewind(checkpoint).unwrap().grants, 1);
    assert_eq!(ledger.stats().pending_bytes, 100, "the lease's use has not completed");
    assert_eq!(ledger.reclaim(&[3]), 100);
}

#[test]
fn a_checkpoint_works_after_growth_and_with_releases_pending_since() {
    for mut slab in
        [Box::new(general(4096)) as Box<dyn SlabAllocator>, Box::new(regions(4096)), Box::new(ring(4096))]
    {
        let kept = slab.acquire(&bytes(300)).unwrap();
        let scope = slab.push_scope().unwrap();
        let grants: Vec<Grant> = (0..4).map(|_| slab.acquire(&bytes(150)).unwrap()).collect();
        slab.release(grants[1].handle, &[stamp(0, 9)]).unwrap();
        slab.grow(4096).unwrap();
        assert_eq!(slab.rewind(scope, &[stamp(1, 9)]).unwrap().grants, 3);
        assert!(grants.iter().all(|grant| slab.release(grant.handle, &[]).is_err()), "old handles are inert");
        slab.release(kept.handle, &[]).unwrap();
        while slab.reclaim(&[9, 9]) > 0 {}
        assert_eq!(slab.stats().free_bytes(), 8192);
    }
}

#[test]
fn a_stamp_of_a_queue_that_is_not_ours_is_misuse() {
    let mut slab = general(1024);
    let grant = slab.acquire(&bytes(64)).unwrap();
    let foreign = [stamp(0, 1), stamp(3, 1)];
    assert_eq!(slab.release(grant.handle, &foreign), Err(Misuse::UnknownQueue { queue: QueueId(3) }));
    assert_eq!(slab.clear(&foreign), Err(Misuse::UnknownQueue { queue: QueueId(3) }));
    assert_eq!(slab.stats().live_grants, 1);
}

#[test]
fn a_use_marked_through_a_slice_keeps_the_whole_grant() {
    let mut ledger = ledger(general(1024));
    let view = ledger.acquire(&bytes(512)).unwrap();
    let slice = view.slice(100, 10).unwrap();
    ledger.pin(&slice).unwrap().mark_use(stamp(0, 4)).unwrap();
    ledger.release(view).unwrap();
    assert_eq!(ledger.stats().pending_bytes, 512);
    assert_eq!(ledger.reclaim(&[4]), 512);
}

#[test]
fn a_stale_handle_whose_node_was_reused_releases_nothing() {
    let mut slab = general(1024);
    let first = slab.acquire(&bytes(1024)).unwrap();
    slab.release(first.handle, &[]).unwrap();
    let second = slab.acquire(&bytes(1024)).unwrap();
    assert_eq!(slab.release(first.handle, &[]), Err(Misuse::StaleHandle));
    slab.clear(&[]).unwrap();
    let third = slab.acquire(&bytes(1024)).unwrap();
    assert_eq!(slab.release(second.handle, &[]), Err(Misuse::StaleHandle));
    assert!(slab.acquire(&bytes(1)).is_err(), "{third:?} is live");
    assert!(matches!(slab.release(Handle(NonZeroU64::MAX), &[]), Err(Misuse::UnknownHandle)));
}

#[test]
fn growth_frees_no_live_range() {
    let mut slab = general(1024);
    let tail = slab.acquire(&bytes(1024)).unwrap();
    slab.grow(1024).unwrap();
    let more = slab.acquire(&bytes(1024)).unwrap();
    assert!(!overlap((tail, 1024), (more, 1024)));
    assert!(slab.acquire(&bytes(1)).is_err());
}

#[test]
fn sizes_that_grow_a_byte_a_frame_have_a_bounded_peak() {
    let mut slab = regions(1 << 20);
    for frame in 1..2000u64 {
        let grant = slab.acquire(&bytes(10_000 + frame)).unwrap();
        slab.release(grant.handle, &[stamp(0, frame)]).unwrap();
        slab.reclaim(&[frame.saturating_sub(2)]);
    }
    let peak = slab.stats().peak_bytes;
    assert!(peak <= 6 * 12_000, "{peak}");
}

#[test]
fn a_drained_ring_ignores_what_is_reclaimed_late() {
    let mut ring = ring(1000);
    let grant = ring.acquire(&bytes(600)).unwrap();
    ring.release(grant.handle, &[stamp(0, 1)]).unwrap();
    assert_eq!(ring.reclaim(&[1]), 600);
    let whole = ring.acquire(&bytes(1000)).unwrap();
    assert_eq!((whole.offset, ring.reclaim(&[1]), ring.reclaim(&[0])), (0, 0, 0));
    assert!(ring.release(grant.handle, &[stamp(0, 1)]).is_err());
    assert_eq!(ring.stats().live_bytes, 1000);
}

#[test]
fn a_plan_that_is_acquired_again_lies_where_it_lay_before() {
    let mut stack = ScopeSlab::new(1 << 20).unwrap();
    stack.acquire(&bytes(777)).unwrap();
    let plan = |stack: &mut ScopeSlab| {
        let scope = stack.push_scope().unwrap();
        let offsets: Vec<u64> =
            (1..20).map(|step| stack.acquire(&bytes(step * 100).with_align(64)).unwrap().offset).collect();
        stack.rewind(scope, &[]).unwrap();
        offsets
    };
    let first = plan(&mut stack);
    assert!((0..10).all(|_| plan(&mut stack) == first));
}

#[test]
fn the_sum_of_grants_is_in_the_statistics_of_every_region() {
    let mut slab = regions(64 << 10);
    let mut sum = 0;
    for (turn, lifetime) in
        (0..60).zip([Lifetime::Resident, Lifetime::General, Lifetime::Transient].into_iter().cycle())
    {
        slab.acquire(&bytes(100 + turn).with_lifetime(lifetime)).unwrap();
        sum += 100 + turn;
        assert_eq!((slab.stats().live_bytes, slab.stats().live_grants), (sum, turn + 1));
    }
}

// `offset-allocator` makes one or two grants fewer than asked for.
#[test]
fn exactly_as_many_grants_as_asked_for_can_be_made() {
    for grants in [1, 2, 3, 40, 64, 65] {
        let limits = SlabLimits { grants, ..LIMITS };
        let layout = RegionLayout { transient_bytes: 512, read_only_bytes: 0 };
        let slabs: [Box<dyn SlabAllocator>; 4] = [
            Box::new(RingSlab::with_limits(4096, limits).unwrap()),
            Box::new(TlsfSlab::with_limits(4096, limits).unwrap()),
            Box::new(ScopeSlab::with_limits(4096, limits).unwrap()),
            Box::new(RegionSlab::with_layout(4096, layout, limits).unwrap()),
        ];
        for mut slab in slabs {
            for _ in 0..3 {
                // Transients, and so the region's ring and its general part together; the last are too many.
                let request = bytes(16).with_align(16).with_lifetime(Lifetime::Transient);
                let made: Vec<Grant> = (0..grants).map(|_| slab.acquire(&request).unwrap()).collect();
                for _ in 0..2 {
                    assert_eq!(slab.acquire(&request), Err(Refusal::OutOfNodes { capacity: grants }));
                }
                assert_eq!(slab.stats().live_grants, u64::from(grants));
                made.iter().for_each(|grant| slab.release(grant.handle, &[]).unwrap());
                // A stack takes down a batch a call, and the oldest came last.
                slab.reclaim(&[0]);
            }
        }
    }
}
