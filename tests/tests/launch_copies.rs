//! Copies touch what they are told and nothing else, through staging that never hands out bytes still in use.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::ContextErrorKind;
use cuforge_launch::{Device, DeviceOptions, LaunchError};
use cuforge_tests::sim::Sim;
use launch_support::Rig;
use std::sync::atomic::{AtomicBool, Ordering};

const SEGMENT: usize = 512 * 1024;

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + salt) as u8).collect()
}

/// As much of a pattern as is wanted, quickly made: again and again, with a prime number of bytes in between.
fn large(len: usize, salt: usize) -> Vec<u8> {
    let piece = pattern(65_521, salt);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&piece[..piece.len().min(len - bytes.len())]);
    }
    bytes
}

#[test]
fn every_size_arrives_whole_in_both_directions() {
    let mut rig = Rig::new(8);
    let target = rig.view(20 << 20);
    let slab = rig.slab.clone();
    for len in [1, 63, 4096, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 7, 8 * SEGMENT, 20 << 20] {
        let bytes = pattern(len, len);
        slab.write(&mut rig.stream, &target, &bytes).unwrap();
        let mut out = vec![0; len];
        slab.read(&mut rig.stream, &target, &mut out).unwrap();
        assert!(out == bytes, "{len} bytes differ");
    }
}

#[test]
fn shorter_copies_touch_a_prefix_empty_ones_nothing_and_longer_ones_are_refused_untouched() {
    let mut rig = Rig::new(8);
    let target = rig.view(8);
    let slab = rig.slab.clone();
    slab.write(&mut rig.stream, &target, &[9; 8]).unwrap();
    slab.write(&mut rig.stream, &target, &[1, 2]).unwrap();
    let before = rig.sim.calls("");
    slab.write(&mut rig.stream, &target, &[]).unwrap();
    slab.read(&mut rig.stream, &target, &mut []).unwrap();
    for error in [
        slab.write(&mut rig.stream, &target, &[7; 9]).unwrap_err(),
        slab.try_write(&mut rig.stream, &target, &[7; 9]).unwrap_err(),
        slab.read(&mut rig.stream, &target, &mut [0; 9]).unwrap_err(),
    ] {
        assert!(matches!(error, LaunchError::TooLong { bytes: 9, view_bytes: 8 }), "{error}");
    }
    assert_eq!(rig.sim.calls(""), before);
    let mut prefix = [0; 3];
    slab.read(&mut rig.stream, &target, &mut prefix).unwrap();
    assert_eq!(prefix, [1, 2, 9]);
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &target).unwrap(), [1, 2, 9, 9, 9, 9, 9, 9]);
}

#[test]
fn elements_must_be_whole_and_aligned() {
    let mut rig = Rig::new(8);
    let target = rig.view(64);
    let slab = rig.slab.clone();
    slab.write_from(&mut rig.stream, &target, &[1.5f64, -2.5]).unwrap();
    let two = target.slice(0, 16).unwrap();
    assert_eq!(slab.read_vec::<f64>(&mut rig.stream, &two).unwrap(), [1.5, -2.5]);
    let odd = target.slice(2, 8).unwrap();
    assert!(matches!(slab.read_vec::<u32>(&mut rig.stream, &odd), Err(LaunchError::NotWholeElements { .. })));
    assert!(slab.write_from(&mut rig.stream, &odd, &[1u32]).is_err());
    let ragged = target.slice(0, 7).unwrap();
    assert!(matches!(
        slab.read_vec::<u32>(&mut rig.stream, &ragged),
        Err(LaunchError::NotWholeElements { .. })
    ));
}

#[test]
fn a_full_ring_makes_writes_wait_and_is_counted_and_the_trying_form_refuses() {
    let mut rig = Rig::new(8);
    let target = rig.view(SEGMENT as u64);
    let slab = rig.slab.clone();
    let bytes = pattern(SEGMENT, 1);
    rig.sim.hold(true);
    for _ in 0..8 {
        slab.try_write(&mut rig.stream, &target, &bytes).unwrap();
    }
    let before = rig.sim.calls("cuMemcpyHtoDAsync_v2");
    let error = slab.try_write(&mut rig.stream, &target, &bytes).unwrap_err();
    assert!(matches!(error, LaunchError::StagingFull { .. }), "{error}");
    assert_eq!((rig.sim.calls("cuMemcpyHtoDAsync_v2"), rig.stream.staging_waits()), (before, 0));
    std::thread::scope(|scope| {
        let sim = &rig.sim;
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            sim.hold(false);
        });
        slab.write(&mut rig.stream, &target, &bytes).unwrap();
    });
    assert_eq!(rig.stream.staging_waits(), 1);
}

#[test]
fn copies_and_fills_on_the_device_stay_inside_their_views() {
    let mut rig = Rig::new(8);
    let whole = rig.view(256);
    let slab = rig.slab.clone();
    slab.write(&mut rig.stream, &whole, &pattern(256, 3)).unwrap();
    let (from, to) = (whole.slice(0, 64).unwrap(), whole.slice(128, 96).unwrap());
    slab.copy(&mut rig.stream, &from, &to).unwrap();
    slab.fill(&mut rig.stream, &whole.slice(64, 32).unwrap(), 0xff).unwrap();
    let mut expected = pattern(256, 3);
    expected.copy_within(0..64, 128);
    expected[64..96].fill(0xff);
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &whole).unwrap(), expected);
    let short = whole.slice(0, 8).unwrap();
    assert!(matches!(slab.copy(&mut rig.stream, &from, &short), Err(LaunchError::TooLong { .. })));
}

#[test]
fn a_ring_whose_epoch_could_not_be_sealed_does_not_turn_to_a_segment_that_is_still_read() {
    let mut rig = Rig::new(8);
    let target = rig.view(SEGMENT as u64);
    let slab = rig.slab.clone();
    let bytes = pattern(SEGMENT, 1);
    rig.sim.hold(true);
    for _ in 0..8 {
        slab.write(&mut rig.stream, &target, &bytes).unwrap();
    }
    rig.sim.fail("cuStreamWriteValue64_v2", 1, 2);
    assert!(slab.write(&mut rig.stream, &target, &bytes).is_err());
    rig.sim.fail("cuStreamWriteValue64_v2", 0, 0);
    let refused = slab.try_write(&mut rig.stream, &target, &bytes).unwrap_err();
    assert!(matches!(refused, LaunchError::StagingFull { .. }), "{refused}");
}

/// A rig whose large writes go through so many threads.
fn moved(threads: u32) -> Rig {
    let sim = Sim::new(&[]).unwrap();
    let options = DeviceOptions { copy_threads: Some(threads), ..DeviceOptions::default() };
    let device = Device::open_with(sim.driver().unwrap(), 0, options).unwrap();
    Rig::with(sim, device, 8)
}

#[test]
fn large_writes_go_through_chunks_that_several_threads_fill_and_arrive_whole() {
    const CHUNK: usize = 8 << 20;
    for threads in [2, 5] {
        let mut rig = moved(threads);
        let target = rig.view(30 << 20);
        let slab = rig.slab.clone();
        for len in [8 * SEGMENT, CHUNK + 1, 3 * CHUNK + 4097] {
            let (bytes, before) = (large(len, len), rig.sim.calls("cuMemcpyHtoDAsync_v2"));
            slab.write(&mut rig.stream, &target, &bytes).unwrap();
            let copies = rig.sim.calls("cuMemcpyHtoDAsync_v2") - before;
            assert_eq!(copies, len.div_ceil(CHUNK) as i64, "a copy a chunk");
            let mut out = vec![0; len];
            slab.read(&mut rig.stream, &target, &mut out).unwrap();
            assert!(out == bytes, "{len} bytes, {threads} threads");
            let (owned, before) = (large(len, len + 1), rig.sim.calls("cuMemcpyHtoDAsync_v2"));
            let back = slab.upload_owned(&mut rig.stream, &target, owned.clone()).unwrap().wait().unwrap();
            assert_eq!(rig.sim.calls("cuMemcpyHtoDAsync_v2") - before, copies);
            slab.read(&mut rig.stream, &target, &mut out).unwrap();
            assert!(out == owned && back == owned, "{len} owned bytes, {threads} threads");
        }
        let pinned = rig.sim.calls("cuMemHostAlloc");
        slab.write(&mut rig.stream, &target, &large(20 << 20, 3)).unwrap();
        assert_eq!(rig.sim.calls("cuMemHostAlloc"), pinned, "the chunks are kept");
    }
    let mut rig = moved(1);
    let (target, slab) = (rig.view(20 << 20), rig.slab.clone());
    slab.write(&mut rig.stream, &target, &large(20 << 20, 0)).unwrap();
    assert_eq!(rig.sim.calls("cuMemcpyHtoDAsync_v2"), 1, "one thread leaves it to the driver");
}

#[test]
fn a_chunk_is_not_filled_again_while_it_is_read_and_a_large_write_holds_its_memory_to_the_end() {
    let mut rig = moved(3);
    let target = rig.view(32 << 20);
    let slab = rig.slab.clone();
    let bytes = large(32 << 20, 7);
    let done = AtomicBool::new(false);
    rig.sim.hold(true);
    std::thread::scope(|scope| {
        let (sim, done) = (&rig.sim, &done);
        let stream = &mut rig.stream;
        scope.spawn(|| {
            slab.write(stream, &target, &bytes).unwrap();
            done.store(true, Ordering::Release);
        });
        while sim.calls("cuMemcpyHtoDAsync_v2") < 3 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(
            (sim.calls("cuMemcpyHtoDAsync_v2"), done.load(Ordering::Acquire)),
            (3, false),
            "all are read"
        );
        sim.hold(false);
    });
    assert!(slab.read_vec::<u8>(&mut rig.stream, &target).unwrap() == bytes);
    // Whatever is released in the middle of a write that seals epochs stays until its last piece is done.
    rig.sim.hold(true);
    slab.write(&mut rig.stream, &target, &bytes[..20 << 20]).unwrap();
    slab.release(target).unwrap();
    assert_eq!(slab.reclaim(), 0);
    rig.sim.hold(false);
    assert_eq!(slab.reclaim(), 32 << 20);
}

#[test]
fn a_large_write_that_fails_half_way_is_told_and_the_next_one_is_whole() {
    let mut rig = moved(4);
    let target = rig.view(20 << 20);
    let slab = rig.slab.clone();
    for failing in ["cuMemcpyHtoDAsync_v2", "cuStreamWriteValue64_v2"] {
        rig.sim.fail(failing, 2, 2);
        assert_eq!(
            slab.write(&mut rig.stream, &target, &large(20 << 20, 1)).unwrap_err().kind(),
            ContextErrorKind::OutOfMemory
        );
        let unsent = slab.upload_owned(&mut rig.stream, &target, large(20 << 20, 2)).map(|t| t.wait());
        assert!(!matches!(unsent, Ok(Ok(_))), "{failing}");
        rig.sim.fail(failing, 0, 0);
        let bytes = large(20 << 20, 5);
        slab.write(&mut rig.stream, &target, &bytes).unwrap();
        assert!(slab.read_vec::<u8>(&mut rig.stream, &target).unwrap() == bytes, "{failing}");
    }
}

#[test]
fn when_an_owned_upload_is_told_as_sent_its_thread_holds_nothing_of_the_device() {
    for round in 0..8 {
        let Rig { sim, device, slab, mut stream, pipeline, .. } = moved(2);
        let view = slab.acquire(&cuforge_core::Request::new(9 << 20)).unwrap();
        let tickets = [0, 1].map(|salt| slab.upload_owned(&mut stream, &view, large(9 << 20, salt)).unwrap());
        let early = (round % 2 == 0).then(|| drop(stream));
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        drop((early, device, slab, pipeline));
        let released = || sim.calls("cuDevicePrimaryCtxRelease_v2");
        if round % 2 == 0 {
            assert_eq!(released(), 1, "somebody else still holds the device");
        }
    }
}
