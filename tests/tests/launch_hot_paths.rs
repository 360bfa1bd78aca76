//! Hot paths make the fewest driver calls there are and no host allocation, counted on a simulated driver.

mod launch_support;

use cuforge_core::{Arguments, Schedule};
use launch_support::{Counting, Rig, SAXPY, allocations, image, saxpy};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Driver calls and allocations of `f`.
fn cost(rig: &mut Rig, f: impl FnOnce(&mut Rig)) -> (i64, u64) {
    let before = rig.sim.calls("");
    let allocations = allocations(|| f(rig));
    (rig.sim.calls("") - before, allocations)
}

#[test]
fn a_bound_launch_is_one_driver_call_and_no_allocation() {
    let mut rig = Rig::new(1000);
    let views = [rig.y, rig.x];
    let values = rig.values(2.0);
    let mut bound =
        rig.pipeline.bind(&rig.slab, Arguments { views: &views, by_value: &values }, rig.extent()).unwrap();
    let launches = 1000;
    let (calls, allocations) = cost(&mut rig, |rig| {
        for _ in 0..launches {
            bound.launch(&mut rig.stream).unwrap();
        }
    });
    assert_eq!((calls, allocations), (launches, 0));
}

#[test]
fn a_long_run_of_launches_seals_an_epoch_with_one_call_each_4096() {
    let mut rig = Rig::new(8);
    let views = [rig.y, rig.x];
    let values = rig.values(0.0);
    let mut bound =
        rig.pipeline.bind(&rig.slab, Arguments { views: &views, by_value: &values }, rig.extent()).unwrap();
    let (calls, allocations) = cost(&mut rig, |rig| {
        for _ in 0..10_000 {
            bound.launch(&mut rig.stream).unwrap();
        }
    });
    assert_eq!((calls, allocations), (10_002, 0));
}

#[test]
fn an_unbound_launch_with_sorted_views_is_one_driver_call_and_no_allocation() {
    let mut rig = Rig::new(1000);
    let views = [rig.y, rig.x];
    let values = rig.values(2.0);
    let (pipeline, slab, extent) = (rig.pipeline.clone(), rig.slab.clone(), rig.extent());
    let arguments = Arguments { views: &views, by_value: &values };
    let cost = cost(&mut rig, |rig| pipeline.launch(&mut rig.stream, &slab, arguments, extent).unwrap());
    assert_eq!(cost, (1, 0));
}

#[test]
fn a_repeated_pipeline_request_makes_no_driver_call_and_no_allocation() {
    let mut rig = Rig::new(8);
    let (image, spec, schedule) = (image(SAXPY), saxpy(), Schedule::new([128, 1, 1]));
    // SAFETY: the image is the specification's own text.
    let ask = || unsafe { rig.device.clone().pipeline(&image, &spec, &schedule) }.unwrap();
    let first = ask();
    let device = rig.device.clone();
    let cost = cost(&mut rig, |_| {
        // SAFETY: as above.
        let again = unsafe { device.pipeline(&image, &spec, &schedule) }.unwrap();
        assert_eq!(again.raw_function(), first.raw_function());
    });
    assert_eq!(cost, (0, 0));
}

#[test]
fn a_view_write_is_one_driver_call_and_a_small_read_two_and_neither_allocates() {
    let mut rig = Rig::new(1000);
    let bytes = vec![3u8; 4000];
    let mut out = vec![0u8; 4000];
    let (slab, y) = (rig.slab.clone(), rig.y);
    slab.write(&mut rig.stream, &y, &bytes).unwrap();
    slab.read(&mut rig.stream, &y, &mut out).unwrap();
    assert_eq!(cost(&mut rig, |rig| slab.write(&mut rig.stream, &y, &bytes).unwrap()), (1, 0));
    assert_eq!(cost(&mut rig, |rig| slab.read(&mut rig.stream, &y, &mut out).unwrap()), (2, 0));
    assert_eq!(out, bytes);
}

#[test]
fn an_allocation_and_its_release_make_no_driver_call() {
    let mut rig = Rig::new(8);
    let slab = rig.slab.clone();
    let (calls, _) = cost(&mut rig, |_| {
        let view = slab.acquire(&cuforge_core::Request::new(4096)).unwrap();
        slab.release(view).unwrap();
    });
    assert_eq!(calls, 0);
}
