//! Copies that the host does not wait for: uploads, readback tickets, mailboxes, prefetch with both of its guards.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::Request;
use cuforge_launch::{LaunchError, Mailbox, Prefetcher, Stream};
use launch_support::{Counting, Rig, allocations};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn an_upload_gives_its_source_back_when_it_is_done_and_a_refused_one_at_once() {
    let mut rig = Rig::new(8);
    let view = rig.view(64);
    let slab = rig.slab.clone();
    let mut source = rig.device.pinned(128).unwrap();
    source.as_mut_slice().fill(5);
    let refused = slab.upload(&mut rig.stream, &view, source, 65).unwrap_err();
    assert!(matches!(refused.error, LaunchError::TooLong { bytes: 65, view_bytes: 64 }), "{refused}");
    let short = rig.device.pinned(8).unwrap();
    assert!(slab.upload(&mut rig.stream, &view, short, 9).is_err());
    rig.sim.hold(true);
    let upload = slab.upload(&mut rig.stream, &view, refused.source, 64).unwrap();
    assert!(!upload.is_done());
    rig.sim.hold(false);
    assert!(upload.is_done());
    assert_eq!(upload.wait().unwrap().len(), 128);
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &view).unwrap(), [5; 64]);
}

#[test]
fn a_readback_ticket_keeps_the_bytes_of_its_moment() {
    let mut rig = Rig::new(8);
    let view = rig.view(256 * 1024);
    let slab = rig.slab.clone();
    let small = view.slice(0, 16).unwrap();
    let mut tickets = Vec::new();
    // More tickets than the pool has slots, small ones and one too long for a slot.
    for round in 0..20u8 {
        slab.fill(&mut rig.stream, &view, round).unwrap();
        tickets.push((
            round,
            slab.read_later(&mut rig.stream, if round == 7 { &view } else { &small }).unwrap(),
        ));
    }
    slab.fill(&mut rig.stream, &view, 0xee).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (round, ticket) in tickets {
                let len = ticket.len();
                assert_eq!(ticket.wait_vec::<u8>().unwrap(), vec![round; len]);
            }
        });
    });
    let mut prefix = [0; 3];
    slab.read_later(&mut rig.stream, &small).unwrap().wait_into(&mut prefix).unwrap();
    assert_eq!(prefix, [0xee; 3]);
    let ticket = slab.read_later(&mut rig.stream, &small).unwrap();
    assert!(matches!(ticket.wait_into(&mut [0; 17]), Err(LaunchError::TooLong { .. })));
}

#[test]
fn a_dropped_ticket_leaves_its_slot_to_the_copy_until_that_is_done() {
    let mut rig = Rig::new(8);
    let view = rig.view(16);
    let slab = rig.slab.clone();
    rig.sim.hold(true);
    drop((0..16).map(|_| slab.read_later(&mut rig.stream, &view).unwrap()).collect::<Vec<_>>());
    let pinned = rig.sim.calls("cuMemHostAlloc");
    drop(slab.read_later(&mut rig.stream, &view).unwrap());
    assert_eq!(rig.sim.calls("cuMemHostAlloc") - pinned, 1, "no slot is free while copies are in flight");
    rig.sim.hold(false);
    drop(slab.read_later(&mut rig.stream, &view).unwrap());
    assert_eq!(rig.sim.calls("cuMemHostAlloc") - pinned, 1, "every slot is free again");
}

#[test]
fn a_mailbox_shows_a_post_once_it_has_arrived_and_once() {
    let mut rig = Rig::new(8);
    let view = rig.view(8);
    let slab = rig.slab.clone();
    let mut mailbox = Mailbox::new(&rig.device, 8).unwrap();
    assert!(mailbox.poll().is_none() && mailbox.wait().unwrap().is_empty());
    slab.fill(&mut rig.stream, &view, 3).unwrap();
    rig.sim.hold(true);
    slab.post(&mut rig.stream, &view, &mut mailbox).unwrap();
    assert!(mailbox.poll().is_none());
    rig.sim.hold(false);
    assert_eq!(mailbox.poll(), Some(&[3; 8][..]));
    assert_eq!(mailbox.poll(), None);
    let large = rig.view(9);
    assert!(matches!(slab.post(&mut rig.stream, &large, &mut mailbox), Err(LaunchError::TooLong { .. })));
    slab.post(&mut rig.stream, &view.slice(0, 4).unwrap(), &mut mailbox).unwrap();
    assert_eq!(mailbox.wait().unwrap(), [3; 4]);
}

#[test]
fn tickets_mailboxes_and_prefetch_allocate_nothing_once_they_are_warm() {
    let mut rig = Rig::new(8);
    let view = rig.view(4096);
    let slab = rig.slab.clone();
    let mut mailbox = Mailbox::new(&rig.device, 4096).unwrap();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(4096), 2).unwrap();
    let mut out = [0; 4096];
    let mut round = |rig: &mut Rig| {
        slab.read_later(&mut rig.stream, &view).unwrap().wait_into(&mut out).unwrap();
        slab.post(&mut rig.stream, &view, &mut mailbox).unwrap();
        while mailbox.poll().is_none() {
            std::thread::yield_now();
        }
        prefetcher.push(4096, |bytes| bytes.fill(1)).unwrap();
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        slab.copy(&mut rig.stream, &lease.view(), &view).unwrap();
    };
    (0..4).for_each(|_| round(&mut rig));
    assert_eq!(allocations(|| (0..100).for_each(|_| round(&mut rig))), 0);
}

#[test]
fn prefetch_waits_on_the_device_in_both_directions_and_never_on_the_host() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 2).unwrap();
    let waits = |rig: &Rig| rig.sim.calls("cuStreamWaitEvent");
    let before = waits(&rig);
    prefetcher.push(64, |bytes| bytes.fill(1)).unwrap();
    prefetcher.push(32, |bytes| bytes.fill(2)).unwrap();
    assert_eq!(waits(&rig) - before, 0, "nobody has read these buffers");
    let full = prefetcher.push(64, |_| unreachable!("a full prefetcher fills nothing")).unwrap_err();
    assert!(matches!(full, LaunchError::PrefetchFull { depth: 2 }), "{full}");
    let first = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    assert_eq!(waits(&rig) - before, 1, "compute waits for the copy");
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &first.view()).unwrap(), [1; 64]);
    assert!(prefetcher.push(1, |_| ()).is_err(), "the buffer is leased");
    drop(first);
    prefetcher.push(64, |bytes| bytes.fill(3)).unwrap();
    assert_eq!(waits(&rig) - before, 2, "the copy waits for the compute that read the buffer");
    for expected in [vec![2; 32], vec![3; 64]] {
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &lease.view()).unwrap(), expected);
    }
    assert!(prefetcher.take(&mut rig.stream).unwrap().is_none());
    let error = slab.release(slab.acquire(&Request::new(1)).unwrap());
    assert!(error.is_ok());
}

#[test]
fn a_pinned_source_goes_in_and_comes_back_a_turn_later() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 1).unwrap();
    let mut source = rig.device.pinned(64).unwrap();
    source.as_mut_slice().fill(9);
    assert!(prefetcher.push_pinned(source, 64).unwrap().is_none());
    let second = rig.device.pinned(100).unwrap();
    let unsent = prefetcher.push_pinned(second, 64).unwrap_err();
    assert!(matches!(unsent.error, LaunchError::PrefetchFull { .. }));
    drop(prefetcher.take(&mut rig.stream).unwrap().unwrap());
    let back = prefetcher.push_pinned(unsent.source, 64).unwrap().unwrap().wait().unwrap();
    assert_eq!((back.len(), back.as_slice()[63]), (64, 9));
}

#[test]
fn joining_waits_only_where_something_was_prefetched() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 2).unwrap();
    let mut other = Stream::new(&rig.device).unwrap();
    let before = rig.sim.calls("");
    prefetcher.join(&mut other).unwrap();
    assert_eq!(rig.sim.calls(""), before);
    prefetcher.push(64, |bytes| bytes.fill(1)).unwrap();
    prefetcher.join(&mut other).unwrap();
    assert_eq!(rig.sim.calls("cuStreamWaitEvent"), 1);
    rig.stream.synchronize().unwrap();
}

#[test]
fn a_lease_whose_end_cannot_be_recorded_keeps_its_buffer_from_being_filled_again() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 1).unwrap();
    prefetcher.push(64, |bytes| bytes.fill(1)).unwrap();
    let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    rig.sim.fail("cuEventRecord", 1, 999);
    drop(lease);
    rig.sim.fail("cuEventRecord", 0, 0);
    assert!(matches!(prefetcher.push(64, |_| ()), Err(LaunchError::PrefetchFull { .. })));
}
