//! What the adaptors add: overruns are found and nothing else is, leaks have names, logs replay.
#![allow(clippy::unwrap_used, reason = "in a test that is how a broken promise is told")]

use cuforge_core::{Lifetime, QueueId, Request, SlabAllocator, Stamp};
use cuforge_slab::{
    Event, Fill, GuardMemory, Guarded, RegionSlab, RingSlab, SlabLimits, Snapshot, TlsfSlab, Traced, replay,
    timeline_svg,
};

struct Bytes(Vec<u8>);

const fn pattern(fill: Fill) -> u8 {
    match fill {
        Fill::Fresh => 0xCD,
        Fill::RedZone => 0xFD,
        Fill::Dead => 0xDD,
    }
}

impl GuardMemory for Bytes {
    fn fill(&mut self, offset: u64, len: u64, fill: Fill) {
        self.0[offset as usize..(offset + len) as usize].fill(pattern(fill));
    }

    fn holds(&mut self, offset: u64, len: u64, fill: Fill) -> bool {
        self.0[offset as usize..(offset + len) as usize].iter().all(|byte| *byte == pattern(fill))
    }
}

fn guarded(capacity: u64) -> Guarded<TlsfSlab, Bytes> {
    let slab = TlsfSlab::new(capacity).unwrap();
    Guarded::new(slab, Bytes(vec![0; capacity as usize]), 32, SlabLimits::default()).unwrap()
}

fn after(epoch: u64) -> [Stamp; 1] {
    [Stamp { queue: QueueId(0), epoch }]
}

#[test]
fn writes_just_outside_a_grant_are_found_when_its_work_has_completed() {
    for (place, before, behind) in [(-1i64, true, false), (100, false, true)] {
        let mut slab = guarded(1 << 14);
        let grant = slab.acquire(&Request::new(100)).unwrap();
        slab.release(grant.handle, &after(1)).unwrap();
        // A kernel in flight writes after the release.
        slab.memory_mut().0[(grant.offset as i64 + place) as usize] = 1;
        assert_eq!(slab.overruns(), 0);
        slab.reclaim(&[1]);
        let overrun = *slab.first_overrun().unwrap();
        assert_eq!((overrun.grant, overrun.before, overrun.behind), (grant, before, behind));
    }
}

#[test]
fn writes_inside_a_grant_are_no_overrun_and_live_bytes_are_never_poisoned() {
    let mut slab = guarded(1 << 16);
    let mut held = Vec::new();
    for epoch in 1..400u64 {
        let len = 1 + epoch * 37 % 3000;
        if let Ok(grant) = slab.acquire(&Request::new(len)) {
            let range = grant.offset as usize..(grant.offset + len) as usize;
            assert!(slab.memory_mut().0[range.clone()].iter().all(|byte| *byte == pattern(Fill::Fresh)));
            slab.memory_mut().0[range.clone()].fill(epoch as u8);
            held.push((grant, range, epoch as u8));
        }
        if held.len() > 12 {
            let (grant, range, value) = held.remove((epoch % 7) as usize);
            assert!(slab.memory_mut().0[range].iter().all(|byte| *byte == value), "poisoned while live");
            slab.release(grant.handle, &after(epoch)).unwrap();
        }
        slab.reclaim(&[epoch.saturating_sub(4)]);
    }
    assert_eq!((slab.check_live(), slab.overruns()), (0, 0));
}

#[test]
fn dead_bytes_are_poisoned_only_once_their_stamps_complete() {
    let mut slab = guarded(1 << 14);
    let scope = slab.push_scope().unwrap();
    let grant = slab.acquire(&Request::new(64)).unwrap();
    slab.rewind(scope, &after(5)).unwrap();
    slab.reclaim(&[4]);
    assert_eq!(slab.memory_mut().0[grant.offset as usize], pattern(Fill::Fresh), "a kernel may still use it");
    slab.reclaim(&[5]);
    assert_eq!(slab.memory_mut().0[grant.offset as usize], pattern(Fill::Dead));
}

fn traced_load(slab: &mut Traced<RegionSlab>) {
    slab.set_holder("weights");
    slab.acquire(&Request::new(9_000).with_lifetime(Lifetime::Resident)).unwrap();
    slab.set_holder("cache");
    let mut held = Vec::new();
    for epoch in 1..60 {
        let scope = slab.push_scope().unwrap();
        for step in 1..4 {
            let _ = slab.acquire(&Request::new(1_000 * step).with_lifetime(Lifetime::Transient));
        }
        slab.rewind(scope, &after(epoch)).unwrap();
        held.extend(slab.acquire(&Request::new(epoch * 97 % 5_000 + 1)));
        if held.len() > 6 {
            slab.release(held.swap_remove(2).handle, &after(epoch)).unwrap();
        }
        slab.reclaim(&[epoch - 1]);
    }
    slab.grow(4096).unwrap();
}

#[test]
fn a_log_replays_to_the_same_state_on_the_same_kind_of_allocator() {
    let fresh = || RegionSlab::new(1 << 17).unwrap();
    let mut slab = Traced::new(fresh(), 4_000, SlabLimits::default()).unwrap();
    traced_load(&mut slab);
    assert_eq!(slab.lost(), 0);
    let mut again = fresh();
    let replayed = replay(slab.log(), &mut again).unwrap();
    assert_eq!((replayed.moved, replayed.refused_now, replayed.granted_now), (0, 0, 0), "{replayed}");
    assert_eq!(Snapshot::of(&again).unwrap(), Snapshot::of(&slab).unwrap());
}

#[test]
fn a_log_replays_on_another_kind_of_allocator_and_counts_what_differs() {
    let mut slab = Traced::new(RegionSlab::new(1 << 17).unwrap(), 4_000, SlabLimits::default()).unwrap();
    traced_load(&mut slab);
    let replayed = replay(slab.log(), &mut TlsfSlab::new(1 << 18).unwrap()).unwrap();
    assert!(replayed.moved > 0 && replayed.refused_now == 0, "{replayed}");
    let begun = slab.log().iter().position(|event| matches!(event, Event::Released { .. })).unwrap();
    assert!(replay(&slab.log()[begun..], &mut RingSlab::new(1 << 17).unwrap()).is_err(), "no beginning");
}

#[test]
fn a_full_log_stops_and_counts_and_holders_are_known_all_the_same() {
    let mut slab = Traced::new(TlsfSlab::new(1 << 16).unwrap(), 5, SlabLimits::default()).unwrap();
    let handles: Vec<_> = (0..8).map(|_| slab.acquire(&Request::new(256)).unwrap().handle).collect();
    handles.iter().take(7).for_each(|handle| slab.release(*handle, &[]).unwrap());
    assert_eq!((slab.log().len(), slab.lost()), (5, 10));
    let holdings = slab.holdings();
    assert_eq!((holdings.len(), holdings[0].serial), (1, 7));
    replay(slab.log(), &mut TlsfSlab::new(1 << 16).unwrap()).unwrap();
}

#[test]
fn holders_agree_with_the_statistics_through_rewinds_clears_and_collisions() {
    let mut slab = Traced::new(TlsfSlab::new(1 << 20).unwrap(), 0, SlabLimits::default()).unwrap();
    let mut held = Vec::new();
    for turn in 0..5_000u64 {
        if turn % 90 == 0 {
            let scope = slab.push_scope().unwrap();
            for _ in 0..20 {
                let _ = slab.acquire(&Request::new(300));
            }
            slab.rewind(scope, &[]).unwrap();
        }
        held.extend(slab.acquire(&Request::new(1 + turn % 2_000)).map(|grant| grant.handle));
        if held.len() > 100 {
            slab.release(held.swap_remove((turn * 31 % 100) as usize), &[]).unwrap();
        }
        if turn == 2_500 {
            slab.clear(&[]).unwrap();
            held.clear();
        }
        assert_eq!(slab.holdings().len() as u64, slab.stats().live_grants, "turn {turn}");
    }
    assert!(slab.leak_report(3).lines().count() == 5);
}

#[test]
fn a_snapshot_is_one_line_of_json_whose_segments_add_up_and_pictures_are_well_formed() {
    let mut slab = Traced::new(RegionSlab::new(1 << 17).unwrap(), 4_000, SlabLimits::default()).unwrap();
    traced_load(&mut slab);
    let snapshot = Snapshot::of(&slab).unwrap();
    let json = snapshot.to_json();
    assert_eq!(json.lines().count(), 1);
    let lens: u64 = json
        .split("\"len\":")
        .skip(1)
        .map(|rest| rest.split([',', '}']).next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(lens, snapshot.stats.capacity_bytes);
    assert_eq!(json.matches('{').count(), json.matches('}').count());
    for svg in [snapshot.to_svg("a <map> & more"), timeline_svg(slab.log(), "a \"line\"")] {
        for tag in ["svg", "text", "title"] {
            assert_eq!(
                svg.matches(&format!("<{tag}")).count(),
                svg.matches(&format!("</{tag}>")).count(),
                "{tag}"
            );
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("\"-"), "a number went wrong");
    }
    assert!(timeline_svg(&[], "nothing").ends_with("</svg>\n"));
}
