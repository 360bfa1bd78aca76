//! Races between streams: work that nothing orders is found, and what the launcher orders is not.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{Access, Arguments, Request};
use cuforge_launch::{Device, DeviceOptions, LaunchError, Prefetcher, Stream};
use cuforge_tests::sim::Sim;
use launch_support::Rig;
use std::sync::atomic::{AtomicBool, Ordering};

const N: u32 = 1024;
const SEEDS: u32 = 20;

/// A rig on a driver that looks for races, its streams lingering as the seed says.
fn rig(seed: u32) -> Rig {
    let seed = seed.to_string();
    Rig::on(Sim::new(&[("CUFORGE_SIM_STREAM_RACES", "1"), ("CUFORGE_SIM_SEED", &seed)]).unwrap(), N)
}

/// Uploads into `x` again and again while a kernel of the other stream reads it, with or without the guard that lets the
/// copy wait for the reader; what the driver says of it.
fn uploads(seed: u32, guarded: bool) -> String {
    let mut rig = rig(seed);
    let slab = rig.slab.clone();
    let (views, values) = ([rig.y, rig.x], rig.values(1.0));
    let mut copies = Stream::new(&rig.device).unwrap();
    let mut source = Some(rig.device.pinned(N as usize * 4).unwrap());
    slab.write_from(&mut rig.stream, &rig.y, &vec![0f32; N as usize]).unwrap();
    for _ in 0..10 {
        let one_round =
            |rig: &mut Rig, copies: &mut Stream, source: &mut Option<_>| -> Result<(), LaunchError> {
                if guarded {
                    copies.wait_for(&mut rig.stream)?;
                }
                let taken = source.take().unwrap();
                let upload =
                    slab.upload(copies, &rig.x, taken, N as usize * 4).map_err(|unsent| unsent.error)?;
                rig.stream.wait_for(copies)?;
                let arguments = Arguments { views: &views, by_value: &values };
                let extent = rig.extent();
                rig.pipeline.launch(&mut rig.stream, &slab, arguments, extent)?;
                *source = Some(upload.wait()?);
                Ok(())
            };
        if one_round(&mut rig, &mut copies, &mut source).is_err() {
            break;
        }
    }
    // A lost device says so here too.
    let _ = rig.stream.synchronize();
    rig.sim.fault()
}

#[test]
fn a_copy_that_does_not_wait_for_its_reader_is_found_within_a_few_seeds_and_a_guarded_one_never() {
    let found: Vec<String> =
        (1..=SEEDS).map(|seed| uploads(seed, false)).filter(|said| !said.is_empty()).collect();
    assert!(!found.is_empty(), "no seed of {SEEDS} found it");
    for said in &found {
        assert!(
            said.contains("race between streams") && said.contains("saxpy") && said.contains("a copy"),
            "{said}"
        );
    }
    for seed in 1..=SEEDS {
        assert_eq!(uploads(seed, true), "", "seed {seed}");
    }
}

/// Prefetches behind compute; without the guard the prefetcher's copies do not wait for the kernels that read their buffers,
/// though the driver has told the launcher that they do. What the driver says of it.
fn prefetches(seed: u32, guarded: bool) -> String {
    let mut rig = rig(seed);
    let slab = rig.slab.clone();
    let values = rig.values(1.0);
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(u64::from(N) * 4), 2).unwrap();
    slab.write_from(&mut rig.stream, &rig.y, &vec![0f32; N as usize]).unwrap();
    for round in 0..12 {
        let one_round = |rig: &mut Rig, prefetcher: &mut Prefetcher| -> Result<(), LaunchError> {
            if !guarded {
                rig.sim.fail("cuStreamWaitEvent", 1, 0);
            }
            let pushed = prefetcher.push(N as usize * 4, |bytes| bytes.fill(round));
            rig.sim.fail("cuStreamWaitEvent", 0, 0);
            pushed?;
            let lease = prefetcher.take(&mut rig.stream)?.unwrap();
            let x = lease.view().bound_to(0, 1, Access::StorageRead).unwrap();
            let arguments = Arguments { views: &[rig.y, x], by_value: &values };
            let extent = rig.extent();
            rig.pipeline.launch(&mut rig.stream, &slab, arguments, extent)
        };
        if one_round(&mut rig, &mut prefetcher).is_err() {
            break;
        }
    }
    // A lost device says so here too.
    let _ = rig.stream.synchronize();
    rig.sim.fault()
}

#[test]
fn a_prefetcher_is_clean_under_every_seed_and_without_its_guard_it_is_found_within_a_few() {
    for seed in 1..=SEEDS {
        assert_eq!(prefetches(seed, true), "", "seed {seed}");
    }
    let found =
        (1..=SEEDS).map(|seed| prefetches(seed, false)).find(|said| !said.is_empty()).unwrap_or_default();
    assert!(
        found.contains("race between streams") && found.contains("saxpy") && found.contains("a copy"),
        "{SEEDS} seeds: {found}"
    );
}

/// Waits until `name` has been called `more` times beyond `before`.
fn called(sim: &Sim, name: &str, before: i64, more: i64) {
    while sim.calls(name) < before + more {
        std::thread::yield_now();
    }
}

#[test]
fn a_lease_dropped_by_another_thread_as_its_stream_begins_a_capture_leaves_its_mark_outside() {
    let mut rig = Rig::new(N);
    let (slab, y, bytes) = (rig.slab.clone(), rig.y, N as usize * 4);
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(bytes as u64), 1).unwrap();
    for round in 0..5 {
        prefetcher.push(bytes, |bytes| bytes.fill(round)).unwrap();
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        rig.stream.synchronize().unwrap();
        let records = rig.sim.calls("cuEventRecord");
        rig.sim.delay("cuEventRecord", 1, 1, 100_000);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(lease));
            called(&rig.sim, "cuEventRecord", records, 1);
            // The drop has looked, found no capture, and is about to record its event.
            let recording = rig.stream.capture(|scope| scope.fill(&slab, &y, 1)).unwrap();
            assert_eq!(recording.node_count(), 1);
        });
    }
    prefetcher.push(bytes, |bytes| bytes.fill(9)).unwrap();
    let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &lease.view()).unwrap(), vec![9; bytes]);
    assert_eq!(rig.sim.fault(), "");
}

#[test]
fn a_buffer_given_back_while_its_stream_is_forked_into_a_capture_is_not_filled_under_its_readers() {
    for seed in 1..=SEEDS / 4 {
        let mut rig = rig(seed);
        let (slab, y, x, bytes) = (rig.slab.clone(), rig.y, rig.x, N as usize * 4);
        let mut side = Stream::new(&rig.device).unwrap();
        let mut prefetcher = Prefetcher::new(&slab, &Request::new(bytes as u64), 1).unwrap();
        prefetcher.push(bytes, |bytes| bytes.fill(1)).unwrap();
        let mut lease = prefetcher.take(&mut side).unwrap();
        rig.stream.synchronize().unwrap();
        rig.sim.hold(true);
        // The side stream reads the buffer, and has not done so when it is forked: a fork drains nothing.
        slab.copy(&mut side, &lease.as_ref().unwrap().view(), &y).unwrap();
        let recording = rig.stream.capture(|scope| {
            let mut branch = scope.fork(&mut side)?;
            lease = None;
            branch.fill(&slab, &x, 0)?;
            scope.join(branch)
        });
        assert_eq!(recording.unwrap().node_count(), 1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (sim, done) = (&rig.sim, &done);
            scope.spawn(|| {
                prefetcher.push(bytes, |bytes| bytes.fill(2)).unwrap();
                done.store(true, Ordering::Release);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!done.load(Ordering::Acquire), "the buffer is still to be read");
            sim.hold(false);
        });
        assert_eq!(slab.read_vec::<u8>(&mut side, &y).unwrap(), vec![1; bytes]);
        assert_eq!(rig.sim.fault(), "", "seed {seed}");
    }
}

#[test]
fn a_wait_for_a_ticket_never_asks_a_stream_that_a_capture_takes_and_none_takes_it_meanwhile() {
    for event_seals in [false, true] {
        let sim = Sim::new(&[]).unwrap();
        let options = DeviceOptions { seal_by_events: event_seals, ..DeviceOptions::default() };
        let device = Device::open_with(sim.driver().unwrap(), 0, options).unwrap();
        let mut rig = Rig::with(sim, device, N);
        let (slab, y, x) = (rig.slab.clone(), rig.y, rig.x);
        let mut side = Stream::new(&rig.device).unwrap();
        slab.fill(&mut side, &x, 3).unwrap();
        side.synchronize().unwrap();
        rig.stream.synchronize().unwrap();
        rig.sim.hold(true);
        let ticket = slab.read_later(&mut side, &x).unwrap();
        let queries = rig.sim.calls("cuStreamQuery");
        rig.sim.delay("cuStreamQuery", 1, 1, 100_000);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| ticket.wait_vec::<u8>().unwrap());
            // The wait has seen no capture and is about to ask the stream: whoever captures it comes behind.
            called(&rig.sim, "cuStreamQuery", queries, 1);
            let recording = rig.stream.capture(|scope| {
                let mut branch = scope.fork(&mut side)?;
                branch.fill(&slab, &y, 1)?;
                let asked = rig.sim.calls("cuStreamQuery");
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert_eq!(rig.sim.calls("cuStreamQuery"), asked, "a captured stream was asked");
                scope.join(branch)
            });
            assert_eq!(recording.unwrap().node_count(), 1);
            rig.sim.hold(false);
            assert_eq!(waiter.join().unwrap(), vec![3; N as usize * 4]);
        });
    }
}
