//! Copies touch what they are told and nothing else, through staging that never hands out bytes still in use.

mod launch_support;

use cuforge_launch::LaunchError;
use launch_support::Rig;

const SEGMENT: usize = 512 * 1024;

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + salt) as u8).collect()
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
