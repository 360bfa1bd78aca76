//! Copies that the host does not wait for: uploads, readback tickets, mailboxes, prefetch with both of its guards.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{ContextErrorKind, Request};
use cuforge_launch::{LaunchError, Mailbox, Prefetcher, Stream};
use launch_support::{Counting, Rig, allocations};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

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

#[test]
fn memory_of_another_device_object_is_refused_because_that_one_would_free_it() {
    let (mut rig, other) = (Rig::new(8), Rig::new(8));
    let view = rig.view(64);
    let slab = rig.slab.clone();
    let foreign = |error: &LaunchError| matches!(error, LaunchError::OtherDevice { what: "pinned memory" });
    let copies = |rig: &Rig| rig.sim.calls("cuMemcpyHtoDAsync_v2") + rig.sim.calls("cuMemcpyDtoHAsync_v2");
    let before = copies(&rig);
    let unsent = slab.upload(&mut rig.stream, &view, other.device.pinned(64).unwrap(), 64).unwrap_err();
    assert!(foreign(&unsent.error), "{unsent}");
    let mut mailbox = Mailbox::new(&other.device, 64).unwrap();
    let error = slab.post(&mut rig.stream, &view, &mut mailbox).unwrap_err();
    assert!(foreign(&error), "{error}");
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 1).unwrap();
    let unsent = prefetcher.push_pinned(unsent.source, 64).unwrap_err();
    assert!(foreign(&unsent.error), "{unsent}");
    assert_eq!(copies(&rig), before);
}

#[test]
fn a_source_comes_back_from_a_failure_only_when_nothing_reads_it() {
    let mut rig = Rig::new(8);
    let view = rig.view(64);
    let slab = rig.slab.clone();
    let waits = |rig: &Rig| rig.sim.calls("cuStreamSynchronize");
    let source = rig.device.pinned(64).unwrap();
    rig.sim.fail("cuStreamWriteValue64_v2", 1, 2);
    let before = waits(&rig);
    let unsent = slab.upload(&mut rig.stream, &view, source, 64).unwrap_err();
    assert_eq!(waits(&rig) - before, 1, "the copy was submitted before its epoch could not be sealed");
    let mut mailbox = Mailbox::new(&rig.device, 64).unwrap();
    assert!(slab.post(&mut rig.stream, &view, &mut mailbox).is_err());
    assert_eq!(waits(&rig) - before, 2);
    rig.sim.fail("cuStreamWriteValue64_v2", 0, 0);
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 1).unwrap();
    rig.sim.fail("cuEventRecord", 1, 2);
    let unsent = prefetcher.push_pinned(unsent.source, 64).unwrap_err();
    assert_eq!(waits(&rig) - before, 3);
    rig.sim.fail("cuEventRecord", 0, 0);
    assert!(prefetcher.push_pinned(unsent.source, 64).is_ok());
}

#[test]
fn an_epoch_that_cannot_be_sealed_ends_and_the_next_seal_covers_it() {
    let mut rig = Rig::new(8);
    let view = rig.view(64);
    let slab = rig.slab.clone();
    slab.fill(&mut rig.stream, &view, 1).unwrap();
    let open = |stream: &Stream| format!("{stream:?}");
    assert!(open(&rig.stream).contains("open_epoch: 1, unsealed: 1"), "{:?}", rig.stream);
    rig.sim.fail("cuStreamWriteValue64_v2", 1, 2);
    assert!(slab.read_later(&mut rig.stream, &view).is_err());
    rig.sim.fail("cuStreamWriteValue64_v2", 0, 0);
    assert!(open(&rig.stream).contains("open_epoch: 2, unsealed: 1"), "{:?}", rig.stream);
    slab.release(view).unwrap();
    assert_eq!(slab.reclaim(), 0);
    assert!(slab.read_later(&mut rig.stream, &rig.y).unwrap().wait_vec::<u8>().is_ok());
    assert_eq!(slab.reclaim(), 64, "the later seal speaks for the earlier epoch");
}

#[test]
fn a_prefetcher_gives_its_buffers_back_when_it_and_its_last_lease_are_gone() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let request = Request::new(20 << 20);
    for _ in 0..4 {
        drop(Prefetcher::new(&slab, &request, 2).unwrap());
    }
    let mut prefetcher = Prefetcher::new(&slab, &request, 2).unwrap();
    prefetcher.push(4096, |bytes| bytes.fill(7)).unwrap();
    let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    drop(prefetcher);
    let mut streams = [&mut rig.stream];
    for _ in 0..2 {
        slab.acquire_waiting(&mut streams, &request).unwrap();
    }
    assert!(slab.acquire_waiting(&mut streams, &request).is_err(), "the lease keeps its buffer");
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &lease.view()).unwrap(), vec![7; 4096]);
    drop(lease);
    slab.acquire_waiting(&mut [&mut rig.stream], &request).unwrap();
}

#[test]
fn a_prefetcher_deeper_than_the_slab_is_refused_and_keeps_nothing() {
    let rig = Rig::new(8);
    let request = Request::new(8 << 20);
    let error = Prefetcher::new(&rig.slab, &request, usize::MAX).map(|_| ()).unwrap_err();
    assert!(matches!(error, LaunchError::Refused(_)), "{error}");
    for _ in 0..7 {
        rig.slab.acquire(&request).unwrap();
    }
}

/// A source whose second look, which is the courier's, waits for a word and may then panic.
struct Slow {
    looks: AtomicU32,
    go: Mutex<Receiver<()>>,
    panics: bool,
}

impl Slow {
    fn new(panics: bool) -> (Self, Sender<()>) {
        let (go, wait) = channel();
        (Self { looks: AtomicU32::new(0), go: Mutex::new(wait), panics }, go)
    }
}

impl AsRef<[u8]> for Slow {
    fn as_ref(&self) -> &[u8] {
        if self.looks.fetch_add(1, Ordering::Relaxed) > 0 {
            self.go.lock().unwrap().recv().unwrap();
            assert!(!self.panics, "as the test wants it");
        }
        &[5; 64]
    }
}

#[test]
fn a_source_that_panics_fails_alone_and_nobody_waits_for_it_forever() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let (bad, good) = (slab.acquire(&Request::new(60 << 20)).unwrap(), rig.view(64));
    let (source, go) = Slow::new(true);
    let first = slab.upload_owned(&mut rig.stream, &bad, source).unwrap();
    let second = slab.upload_owned(&mut rig.stream, &good, vec![6u8; 64]).unwrap();
    go.send(()).unwrap();
    assert!(matches!(first.wait(), Err(LaunchError::UploadFailed)));
    assert_eq!(second.wait().unwrap(), [6; 64]);
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &good).unwrap(), [6; 64]);
    slab.release(bad).unwrap();
    slab.acquire_waiting(&mut [&mut rig.stream], &Request::new(60 << 20)).unwrap();
    // With nothing behind it: its own epoch is sealed, so the bytes come free.
    let (source, go) = Slow::new(true);
    let last = rig.view(4096);
    let alone = slab.upload_owned(&mut rig.stream, &last, source).unwrap();
    go.send(()).unwrap();
    assert!(alone.wait().is_err());
    slab.release(last).unwrap();
    let freed = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        slab.reclaim() == 4096
    });
    assert!(freed, "nobody sealed the epoch of the upload that panicked");
}

#[test]
fn a_write_that_must_not_wait_is_refused_while_an_owned_upload_is_being_submitted() {
    let mut rig = Rig::new(8);
    let view = rig.view(64);
    let slab = rig.slab.clone();
    let (source, go) = Slow::new(false);
    let upload = slab.upload_owned(&mut rig.stream, &view, source).unwrap();
    let refused = slab.try_write(&mut rig.stream, &view, &[1]).unwrap_err();
    assert!(matches!(refused, LaunchError::StagingFull { bytes: 1 }), "{refused}");
    go.send(()).unwrap();
    upload.wait().map(|_| ()).unwrap();
    slab.try_write(&mut rig.stream, &view, &[1]).unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &view).unwrap()[..2], [1, 5]);
}

#[test]
fn a_refused_pinned_push_gives_its_source_back_and_keeps_the_one_before_it() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(64), 1).unwrap();
    let filled = |byte: u8, bytes: usize| {
        let mut source = rig.device.pinned(bytes).unwrap();
        source.as_mut_slice().fill(byte);
        source
    };
    let (first, second, third) = (filled(1, 64), filled(2, 100), filled(3, 8));
    assert!(prefetcher.push_pinned(first, 64).unwrap().is_none());
    drop(prefetcher.take(&mut rig.stream).unwrap().unwrap());
    // More than the buffer has, more than the source has, and a copy that the driver refuses.
    let unsent = prefetcher.push_pinned(second, 65).unwrap_err();
    assert!(matches!(unsent.error, LaunchError::TooLong { bytes: 65, view_bytes: 64 }), "{unsent}");
    let short = prefetcher.push_pinned(third, 9).unwrap_err();
    assert!(matches!(short.error, LaunchError::TooLong { bytes: 9, view_bytes: 8 }), "{short}");
    rig.sim.fail("cuMemcpyHtoDAsync_v2", 1, 2);
    let unsent = prefetcher.push_pinned(unsent.source, 64).unwrap_err();
    assert_eq!((unsent.error.kind(), unsent.source.len()), (ContextErrorKind::OutOfMemory, 100));
    rig.sim.fail("cuMemcpyHtoDAsync_v2", 0, 0);
    assert!(prefetcher.take(&mut rig.stream).unwrap().is_none(), "nothing was pushed");
    let back = prefetcher.push_pinned(unsent.source, 64).unwrap().unwrap().wait().unwrap();
    assert_eq!((back.len(), back.as_slice()[0]), (64, 1), "the first source comes back all the same");
    let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &lease.view()).unwrap(), [2; 64]);
}
