//! Slab memory: fresh bytes are zero, growth moves nothing, memory in use is never granted again, nothing is freed early.

mod launch_support;

use cuforge_core::{Arguments, LedgerError, Misuse, Operation, Refusal, Request, ViewError};
use cuforge_launch::{
    Device, DeviceOptions, GraphCache, LaunchError, Mailbox, Prefetcher, ResultRing, Slab, SlabOptions,
    Stream,
};
use cuforge_tests::sim::Sim;
use launch_support::{FirstFit, Rig};

const MIB: u64 = 1 << 20;

#[test]
fn fresh_bytes_are_zero_also_after_growth_and_nothing_moves() {
    // With virtual memory management, and on a device that says it has none.
    for settings in [&[][..], &[("CUFORGE_SIM_ATTRIBUTES", "102=0")][..]] {
        let sim = Sim::new(settings).unwrap();
        let device = sim.device().unwrap();
        let options = SlabOptions { reserve_bytes: Some(64 * MIB), ..SlabOptions::default() };
        let slab = Slab::new(&device, FirstFit::boxed(3 * MIB), options).unwrap();
        let mut stream = Stream::new(&device).unwrap();
        let first = slab.acquire(&Request::new(3 * MIB)).unwrap();
        assert!(slab.read_vec::<u8>(&mut stream, &first).unwrap().iter().all(|byte| *byte == 0));
        slab.fill(&mut stream, &first, 9).unwrap();
        let address = slab.address_of(&first).unwrap();
        if settings.is_empty() {
            assert_eq!(slab.grow(5 * MIB).unwrap(), 8 * MIB);
            assert_eq!(sim.count("mapped_bytes"), 8 << 20);
            let second = slab.acquire(&Request::new(5 * MIB)).unwrap();
            assert!(slab.read_vec::<u8>(&mut stream, &second).unwrap().iter().all(|byte| *byte == 0));
        } else {
            assert!(matches!(slab.grow(1), Err(LaunchError::CannotGrow { .. })));
        }
        assert_eq!(slab.address_of(&first).unwrap(), address);
        assert!(slab.read_vec::<u8>(&mut stream, &first).unwrap().iter().all(|byte| *byte == 9));
    }
}

#[test]
fn poison_fills_fresh_bytes_where_it_is_asked_for() {
    let device = Sim::new(&[]).unwrap().device().unwrap();
    let options = SlabOptions { poison: Some(0xcd), ..SlabOptions::default() };
    let slab = Slab::new(&device, FirstFit::boxed(MIB), options).unwrap();
    let mut stream = Stream::new(&device).unwrap();
    let view = slab.acquire(&Request::new(64)).unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut stream, &view).unwrap(), [0xcd; 64]);
}

#[test]
fn growth_beyond_the_reservation_is_refused_with_what_is_there() {
    let device = Sim::new(&[]).unwrap().device().unwrap();
    let options = SlabOptions { reserve_bytes: Some(4 * MIB), ..SlabOptions::default() };
    let slab = Slab::new(&device, FirstFit::boxed(2 * MIB), options).unwrap();
    let error = slab.grow(3 * MIB).unwrap_err();
    assert!(
        matches!(error, LaunchError::CannotGrow { mapped, reserved, .. } if (mapped, reserved) == (2 * MIB, 4 * MIB)),
        "{error}"
    );
    assert!(matches!(slab.grow(u64::MAX), Err(LaunchError::CannotGrow { .. })));
    assert_eq!(slab.grow(2 * MIB).unwrap(), 4 * MIB);
}

#[test]
fn a_map_that_fails_gives_its_memory_back() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    let options = SlabOptions { reserve_bytes: Some(64 * MIB), ..SlabOptions::default() };
    let slab = Slab::new(&device, FirstFit::boxed(2 * MIB), options).unwrap();
    sim.fail("cuMemSetAccess", 1, 2);
    assert!(slab.grow(2 * MIB).is_err());
    assert_eq!((sim.count("mapped_bytes"), sim.calls("cuMemRelease")), (2 << 20, 1));
    sim.fail("cuMemSetAccess", 0, 0);
    assert_eq!(slab.grow(2 * MIB).unwrap(), 4 * MIB);
}

#[test]
fn memory_that_work_in_flight_uses_is_not_granted_again_until_that_work_is_done() {
    let mut rig = Rig::new(64);
    let whole = Request::new(60 * MIB);
    rig.sim.hold(true);
    let view = rig.slab.acquire(&whole).unwrap();
    rig.slab.fill(&mut rig.stream, &view, 1).unwrap();
    rig.slab.release(view).unwrap();
    for _ in 0..3 {
        let error = rig.slab.acquire(&whole).unwrap_err();
        assert!(matches!(error, LaunchError::Refused(Refusal::Full { .. })), "{error}");
        // The refusal asked for a seal; the next submission makes it, and it stays in flight.
        rig.slab.fill(&mut rig.stream, &rig.y, 0).unwrap();
    }
    rig.sim.hold(false);
    rig.slab.acquire(&whole).unwrap();
}

#[test]
fn a_waiting_request_gets_the_memory_of_its_own_stream() {
    let mut rig = Rig::new(64);
    let whole = Request::new(60 * MIB);
    for round in 0..5 {
        let view = rig.slab.acquire_waiting(&mut [&mut rig.stream], &whole).unwrap();
        rig.slab.fill(&mut rig.stream, &view, round).unwrap();
        rig.slab.release(view).unwrap();
    }
}

#[test]
fn a_bound_launch_pins_its_views_and_its_end_leaves_them_pending_on_what_it_submitted() {
    let mut rig = Rig::new(64);
    let views = [rig.y, rig.x];
    let values = rig.values(1.0);
    let arguments = Arguments { views: &views, by_value: &values };
    let mut bound = rig.pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap();
    let pinned = rig.slab.release(rig.y).unwrap_err();
    assert!(matches!(pinned, LaunchError::Ledger(LedgerError::Pinned { grants: 1 })), "{pinned}");
    rig.sim.hold(true);
    bound.launch(&mut rig.stream).unwrap();
    drop(bound);
    rig.slab.release(rig.y).unwrap();
    rig.slab.reclaim();
    assert_eq!(rig.slab.reclaim(), 0, "the launch may still write it");
    // The dropped lease asked for a seal.
    rig.slab.fill(&mut rig.stream, &rig.x, 0).unwrap();
    rig.sim.hold(false);
    assert_eq!(rig.slab.reclaim(), 256);
}

#[test]
fn stale_foreign_and_sliced_views_are_named_and_nothing_is_done() {
    let mut rig = Rig::new(64);
    let other = Slab::new(&rig.device, FirstFit::boxed(MIB), SlabOptions::default()).unwrap();
    let foreign = other.acquire(&Request::new(64)).unwrap();
    let stale = rig.slab.acquire(&Request::new(64)).unwrap();
    rig.slab.release(stale).unwrap();
    let slab = rig.slab.clone();
    let before = rig.sim.calls("cuMemcpyHtoDAsync_v2");
    let error = slab.write(&mut rig.stream, &foreign, &[1]).unwrap_err();
    assert!(matches!(error, LaunchError::View(ViewError::Foreign { .. })), "{error}");
    let error = slab.write(&mut rig.stream, &stale, &[1]).unwrap_err();
    assert!(matches!(error, LaunchError::View(ViewError::Stale { .. })), "{error}");
    let error = slab.release(rig.y.slice(0, 4).unwrap()).unwrap_err();
    assert!(matches!(error, LaunchError::Ledger(LedgerError::Slice { .. })), "{error}");
    assert_eq!(rig.sim.calls("cuMemcpyHtoDAsync_v2"), before);
}

#[test]
fn an_allocator_without_scopes_answers_unsupported() {
    let rig = Rig::new(8);
    for error in [rig.slab.clear().map(|_| ()).unwrap_err(), rig.slab.checkpoint().map(|_| ()).unwrap_err()] {
        let unsupported = LedgerError::Allocator(Misuse::Unsupported { operation: Operation::Clear });
        let same = matches!(&error, LaunchError::Ledger(LedgerError::Allocator(Misuse::Unsupported { .. })));
        assert!(same, "{error}, not like {unsupported}");
    }
}

#[test]
fn what_waits_for_kernels_is_freed_when_the_device_is_idle_and_not_before() {
    let Rig { sim, device, slab, mut stream, pipeline, y, .. } = Rig::new(8);
    let freeing = ["cuMemFreeHost", "cuModuleUnload", "cuMemUnmap", "cuMemAddressFree"];
    let freed = |sim: &Sim| freeing.map(|name| sim.calls(name));
    drop(device.pinned(4096).unwrap());
    sim.hold(true);
    slab.fill(&mut stream, &y, 1).unwrap();
    drop((slab, pipeline));
    assert_eq!(device.trim_pipelines(), 1);
    assert_eq!(device.collect().unwrap(), 0);
    assert_eq!(freed(&sim), [0; 4], "work is in flight");
    drop(stream);
    // Lets the stream's last seal through too, and waits for it.
    sim.hold(false);
    assert_eq!(device.collect().unwrap(), 3);
    assert_eq!(freed(&sim), [1; 4]);
    assert_eq!((device.close().unwrap().freed, sim.count("mapped_bytes")), (0, 0));
}

#[test]
fn a_queue_number_rests_until_the_work_of_its_last_stream_is_done() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    let slab = Slab::new(&device, FirstFit::boxed(MIB), SlabOptions::default()).unwrap();
    let view = slab.acquire(&Request::new(64)).unwrap();
    sim.hold(true);
    let mut first = Stream::new(&device).unwrap();
    let number = first.queue();
    slab.fill(&mut first, &view, 1).unwrap();
    drop(first);
    assert_ne!(Stream::new(&device).unwrap().queue(), number);
    sim.hold(false);
    assert_eq!(Stream::new(&device).unwrap().queue(), number);
    let all: Vec<Stream> = std::iter::from_fn(|| Stream::new(&device).ok()).collect();
    assert_eq!(all.len(), cuforge_core::MAX_QUEUES);
    assert!(matches!(Stream::new(&device), Err(LaunchError::TooManyStreams { .. })));
}

#[test]
fn growth_whose_fill_failed_is_filled_by_the_next_attempt() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    let options = SlabOptions { reserve_bytes: Some(64 * MIB), poison: Some(0xcd), ..SlabOptions::default() };
    let slab = Slab::new(&device, FirstFit::boxed(2 * MIB), options).unwrap();
    sim.fail("cuMemsetD8Async", 1, 2);
    assert!(slab.grow(2 * MIB).is_err());
    sim.fail("cuMemsetD8Async", 0, 0);
    assert_eq!(slab.grow(2 * MIB).unwrap(), 4 * MIB);
    let mut stream = Stream::new(&device).unwrap();
    for _ in 0..2 {
        let view = slab.acquire(&Request::new(2 * MIB)).unwrap();
        assert!(slab.read_vec::<u8>(&mut stream, &view).unwrap().iter().all(|byte| *byte == 0xcd));
    }
}

#[test]
fn a_write_that_seals_epochs_on_its_way_holds_its_memory_until_its_last_piece_is_done() {
    let mut rig = Rig::new(64);
    let (slab, y) = (rig.slab.clone(), rig.y);
    // Work in flight, so that the write takes the ring, and turns it.
    rig.sim.hold(true);
    slab.fill(&mut rig.stream, &y, 0).unwrap();
    let view = rig.view(3 * MIB);
    slab.write(&mut rig.stream, &view, &vec![1; 3 << 20]).unwrap();
    slab.release(view).unwrap();
    rig.sim.hold(false);
    assert_eq!(slab.reclaim(), 0, "the first piece is done, and nothing is known of the others");
    rig.stream.synchronize().unwrap();
    assert_eq!(slab.reclaim(), 3 * MIB);
}

#[test]
fn a_stream_dropped_behind_a_write_keeps_its_number_until_the_last_piece_is_done() {
    let mut rig = Rig::new(64);
    let (slab, y) = (rig.slab.clone(), rig.y);
    rig.sim.hold(true);
    slab.fill(&mut rig.stream, &y, 0).unwrap();
    let view = rig.view(MIB);
    slab.write(&mut rig.stream, &view, &vec![1; 1 << 20]).unwrap();
    // The epoch that the turn of the ring sealed is done; the last piece is not.
    rig.sim.hold(false);
    rig.sim.hold(true);
    let number = rig.stream.queue();
    drop(rig.stream);
    assert_ne!(Stream::new(&rig.device).unwrap().queue(), number);
    rig.sim.hold(false);
    assert_eq!(Stream::new(&rig.device).unwrap().queue(), number);
}

#[test]
fn what_cannot_be_freed_now_is_freed_later() {
    let (rig, mut other) = (Rig::new(8), Rig::new(8));
    drop(rig.device.pinned(64).unwrap());
    let recorded = other.stream.capture(|_| {
        assert!(rig.device.collect().is_err(), "this thread captures");
        Ok(())
    });
    drop(recorded);
    assert_eq!(rig.device.collect().unwrap(), 1);
    assert_eq!(rig.sim.calls("cuMemFreeHost"), 1);
}

#[test]
fn what_is_retired_behind_a_look_at_the_streams_is_not_freed_by_that_look() {
    for (asks, free) in [
        ("cuStreamQuery", (|device| assert!(device.collect().is_ok())) as fn(&Device)),
        ("cuCtxSynchronize", |device| assert!(device.close().is_ok())),
    ] {
        let mut rig = Rig::new(64);
        let (slab, y) = (rig.slab.clone(), rig.y);
        let source = rig.device.pinned(64).unwrap();
        drop(rig.device.pinned(64).unwrap());
        rig.sim.delay(asks, 1, 1, 300_000);
        let asked = rig.sim.calls(asks);
        std::thread::scope(|scope| {
            scope.spawn(|| free(&rig.device));
            while rig.sim.calls(asks) == asked {
                std::thread::yield_now();
            }
            // The look at the streams has begun; this upload may be in flight when it ends.
            drop(slab.upload(&mut rig.stream, &y, source, 64).unwrap());
        });
        assert!(rig.sim.calls("cuMemFreeHost") <= 1, "the second buffer may still be read");
        rig.stream.synchronize().unwrap();
        free(&rig.device);
        assert_eq!(rig.sim.calls("cuMemFreeHost"), 2);
    }
}

#[test]
fn asking_events_how_far_streams_are_spoils_no_capture() {
    let sim = Sim::new(&[]).unwrap();
    let options = DeviceOptions { seal_by_events: true, ..DeviceOptions::default() };
    let device = Device::open_with(sim.driver().unwrap(), 0, options).unwrap();
    let slab = Slab::new(&device, FirstFit::boxed(MIB), SlabOptions::default()).unwrap();
    let (mut stream, mut side) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (view, other) = (slab.acquire(&Request::new(64)).unwrap(), slab.acquire(&Request::new(64)).unwrap());
    let ticket = slab.read_later(&mut side, &view).unwrap();
    slab.release(view).unwrap();
    let recording = stream.capture(|scope| {
        let freed = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            slab.reclaim() == 64
        });
        assert!(freed, "the answer is never yes");
        assert!(ticket.is_done());
        scope.fill(&slab, &other, 1)
    });
    assert_eq!(recording.unwrap().node_count(), 1);
}

#[test]
fn a_slab_is_made_and_grown_though_every_queue_number_is_taken() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    let mut streams: Vec<Stream> = std::iter::from_fn(|| Stream::new(&device).ok()).collect();
    assert_eq!(streams.len(), cuforge_core::MAX_QUEUES);
    let options = SlabOptions { reserve_bytes: Some(64 * MIB), poison: Some(0xcd), ..SlabOptions::default() };
    let slab = Slab::new(&device, FirstFit::boxed(2 * MIB), options).unwrap();
    assert_eq!(slab.grow(2 * MIB).unwrap(), 4 * MIB);
    for _ in 0..2 {
        let view = slab.acquire(&Request::new(2 * MIB)).unwrap();
        assert!(slab.read_vec::<u8>(&mut streams[0], &view).unwrap().iter().all(|byte| *byte == 0xcd));
    }
    assert_eq!(sim.count("streams"), streams.len() as i64, "the stream of the fill is gone");
}

#[test]
fn memory_whose_fill_was_not_seen_to_end_is_not_given_back_under_it() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    sim.hold(true);
    // An answer about the call itself: the device goes on, and so does the fill.
    sim.fail("cuStreamSynchronize", 1, 1);
    assert!(Slab::new(&device, FirstFit::boxed(2 * MIB), SlabOptions::default()).is_err());
    sim.fail("cuStreamSynchronize", 0, 0);
    device.collect().unwrap();
    assert_eq!(sim.count("mapped_bytes"), 2 << 20);
    sim.hold(false);
    assert_eq!(device.close().unwrap().drop_errors, 0);
    assert_eq!(sim.fault(), "");
}

#[test]
fn counts_that_no_host_has_memory_for_are_refused_before_it_is_asked() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    for grants in [u32::MAX, u32::MAX - 1, (1 << 24) + 1] {
        let options = SlabOptions { grants, ..SlabOptions::default() };
        let before = sim.calls("");
        let error = Slab::new(&device, FirstFit::boxed(MIB), options).unwrap_err();
        let asked_for = u64::from(grants);
        let same = matches!(error, LaunchError::TooMany { asked, most, .. } if (asked, most) == (asked_for, 1 << 24));
        assert!(same, "{error}");
        assert_eq!(sim.calls(""), before);
    }
    let slab = Slab::new(&device, FirstFit::boxed(8 * MIB), SlabOptions::default()).unwrap();
    let mut stream = Stream::new(&device).unwrap();
    for bytes in [usize::MAX, usize::MAX - 7, usize::MAX / 2, 1 << 60] {
        assert!(device.pinned(bytes).is_err(), "{bytes}");
        assert!(device.mapped_words(bytes).is_err(), "{bytes}");
        assert!(Mailbox::new(&device, bytes).is_err(), "{bytes}");
        let whole_words = bytes & !3;
        assert!(ResultRing::new(&mut stream, &slab, whole_words, 2).is_err(), "{bytes}");
        assert!(ResultRing::new(&mut stream, &slab, 4, bytes).is_err(), "{bytes}");
        assert!(Prefetcher::new(&slab, &Request::new(4096), bytes).is_err(), "{bytes}");
        drop(GraphCache::<u32>::new(bytes));
    }
    // A size that the words of its kernel cannot say.
    let error = ResultRing::new(&mut stream, &slab, 1 << 33, 2).unwrap_err();
    assert!(matches!(error, LaunchError::TooMany { .. }), "{error}");
    assert_eq!(slab.stats().live_grants, 0, "nothing of all that is kept");
}

#[test]
fn a_stream_that_could_not_mark_its_end_gives_number_and_memory_back_when_it_is_idle() {
    let sim = Sim::new(&[]).unwrap();
    let device = sim.device().unwrap();
    let slab = Slab::new(&device, FirstFit::boxed(4 * MIB), SlabOptions::default()).unwrap();
    for owned in [false, true] {
        let mut stream = Stream::new(&device).unwrap();
        let (number, streams) = (stream.queue(), sim.count("streams"));
        let view = slab.acquire(&Request::new(MIB)).unwrap();
        sim.hold(true);
        if owned {
            // Its letter seals the epoch.
            sim.fail("cuStreamWriteValue64_v2", 1, 2);
            let ticket = slab.upload_owned(&mut stream, &view, vec![1; 4096]).unwrap();
            assert!(ticket.wait().is_err());
        } else {
            slab.fill(&mut stream, &view, 1).unwrap();
            sim.fail("cuStreamWriteValue64_v2", 1, 2);
        }
        slab.release(view).unwrap();
        drop(stream);
        sim.fail("cuStreamWriteValue64_v2", 0, 0);
        let other = Stream::new(&device).unwrap();
        assert_ne!(other.queue(), number, "its work is in flight");
        assert_eq!(slab.reclaim(), 0);
        sim.hold(false);
        assert_eq!(slab.reclaim(), MIB, "the stream is idle");
        assert_eq!(Stream::new(&device).unwrap().queue(), number);
        drop(other);
        assert_eq!(sim.count("streams"), streams - 1, "it is destroyed");
    }
    // The same for who asks by closing.
    let mut stream = Stream::new(&device).unwrap();
    let view = slab.acquire(&Request::new(MIB)).unwrap();
    slab.fill(&mut stream, &view, 1).unwrap();
    sim.fail("cuStreamWriteValue64_v2", 1, 2);
    drop(stream);
    sim.fail("cuStreamWriteValue64_v2", 0, 0);
    device.close().unwrap();
    assert_eq!(sim.count("streams"), 0);
}
