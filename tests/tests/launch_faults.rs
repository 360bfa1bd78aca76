//! A lost device answers at once and names what saw it first; a drop keeps its failure to itself.

mod launch_support;

use cuforge_core::{Arguments, ContextErrorKind, Request};
use cuforge_launch::{Device, LaunchError, Slab, SlabOptions, Stream};
use launch_support::{FirstFit, Rig};

fn lost_by(error: &LaunchError) -> Option<&'static str> {
    match error {
        LaunchError::DeviceLost { first } => Some(first.call()),
        _ => None,
    }
}

#[test]
fn a_fault_seen_by_a_synchronize_loses_the_device_and_every_later_call_says_so_without_asking_the_driver() {
    let mut rig = Rig::new(64);
    let views = [rig.y, rig.x];
    let values = rig.values(1.0);
    let arguments = Arguments { views: &views, by_value: &values };
    let mut bound = rig.pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap();
    bound.launch(&mut rig.stream).unwrap();
    rig.sim.fail("cuStreamSynchronize", 1, 700);
    let error = rig.stream.synchronize().unwrap_err();
    assert_eq!(error.kind(), ContextErrorKind::DeviceLost);
    assert!(
        error.to_string().contains("cuStreamSynchronize answered CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        "{error}"
    );
    assert!(error.to_string().contains("start a new one"), "{error}");

    let before = rig.sim.calls("");
    let mut bytes = [0; 4];
    let (slab, device, y, extent) = (rig.slab.clone(), rig.device.clone(), rig.y, rig.extent());
    let later: Vec<LaunchError> = vec![
        bound.launch(&mut rig.stream).unwrap_err(),
        bound.run(&mut rig.stream).unwrap_err(),
        rig.pipeline.launch(&mut rig.stream, &slab, arguments, extent).unwrap_err(),
        rig.pipeline.bind(&slab, arguments, rig.extent()).map(|_| ()).unwrap_err(),
        rig.stream.synchronize().unwrap_err(),
        rig.stream.is_idle().map(|_| ()).unwrap_err(),
        slab.write(&mut rig.stream, &y, &bytes).unwrap_err(),
        slab.read(&mut rig.stream, &y, &mut bytes).unwrap_err(),
        slab.fill(&mut rig.stream, &y, 0).unwrap_err(),
        slab.acquire(&Request::new(1)).map(|_| ()).unwrap_err(),
        slab.grow(1).map(|_| ()).unwrap_err(),
        device.pinned(1).map(|_| ()).unwrap_err(),
        device.memory_info().map(|_| ()).unwrap_err(),
        device.collect().map(|_| ()).unwrap_err(),
        device.close().map(|_| ()).unwrap_err(),
        Stream::new(&device).map(|_| ()).unwrap_err(),
        Slab::new(&device, FirstFit::boxed(1), SlabOptions::default()).map(|_| ()).unwrap_err(),
    ];
    for error in &later {
        assert_eq!(lost_by(error), Some("cuStreamSynchronize"), "{error}");
    }
    assert_eq!(rig.sim.calls("") - before, 0, "a lost device is not asked again");
    assert_eq!(device.lost().map(|first| first.code()), Some(700));
}

#[test]
fn a_sticky_code_of_any_call_loses_the_device_and_an_ordinary_one_does_not() {
    let mut rig = Rig::new(64);
    let (slab, y) = (rig.slab.clone(), rig.y);
    rig.sim.fail("cuMemcpyHtoDAsync_v2", 1, 2);
    let full = slab.write(&mut rig.stream, &y, &[1]).unwrap_err();
    assert_eq!(full.kind(), ContextErrorKind::OutOfMemory);
    assert!(rig.device.lost().is_none());
    rig.sim.fail("cuMemcpyHtoDAsync_v2", 1, 719);
    let fault = slab.write(&mut rig.stream, &y, &[1]).unwrap_err();
    assert_eq!(lost_by(&fault), Some("cuMemcpyHtoDAsync_v2"));
}

#[test]
fn a_wait_that_answers_an_unknown_code_loses_the_device() {
    let mut rig = Rig::new(64);
    rig.sim.fail("cuStreamSynchronize", 1, 4242);
    assert_eq!(lost_by(&rig.stream.synchronize().unwrap_err()), Some("cuStreamSynchronize"));
}

#[test]
fn a_wait_for_an_epoch_ends_when_the_stream_has_faulted() {
    let mut rig = Rig::new(64);
    rig.sim.hold(true);
    let view = rig.slab.acquire(&Request::new(60 << 20)).unwrap();
    rig.slab.fill(&mut rig.stream, &view, 1).unwrap();
    rig.slab.release(view).unwrap();
    rig.sim.fail("cuStreamQuery", 1, 700);
    let error = rig.slab.acquire_waiting(&mut [&mut rig.stream], &Request::new(60 << 20)).unwrap_err();
    assert_eq!(lost_by(&error), Some("cuStreamQuery"));
}

#[test]
fn a_failing_drop_is_counted_and_reported_by_close_and_disturbs_nobody() {
    let rig = Rig::new(64);
    rig.sim.fail("cuStreamDestroy_v2", 1, 999);
    drop(Stream::new(&rig.device).unwrap());
    let mut other = Stream::new(&rig.device).unwrap();
    other.synchronize().unwrap();
    rig.sim.fail("cuStreamDestroy_v2", 0, 0);
    let closed = rig.device.close().unwrap();
    assert_eq!(closed.drop_errors, 1);
}

#[test]
fn devices_do_not_share_their_faults_or_their_objects() {
    let (mut here, there) = (Rig::new(8), Rig::new(8));
    here.sim.fail("cuStreamSynchronize", 1, 700);
    here.stream.synchronize().unwrap_err();
    assert!(there.device.lost().is_none());
    let healthy = Device::open_on(there.sim.driver().unwrap(), 0).unwrap();
    let mut stream = Stream::new(&healthy).unwrap();
    let error = there.slab.write(&mut stream, &there.y, &[1]).unwrap_err();
    assert!(matches!(error, LaunchError::OtherDevice { what: "stream" }), "{error}");
    let error =
        there.pipeline.bind(&here.slab, Arguments::default(), there.extent()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LaunchError::OtherDevice { what: "slab" }), "{error}");
}

#[test]
fn a_driver_that_has_shut_down_is_no_fault_of_the_device_and_no_failure_of_a_drop() {
    let Rig { sim, device, slab, stream, pipeline, .. } = Rig::new(8);
    drop(device.pinned(64).unwrap());
    let freeing = [
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressFree",
        "cuMemFreeHost",
        "cuModuleUnload",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuDevicePrimaryCtxRelease_v2",
    ];
    for name in freeing {
        sim.fail(name, 1, 4);
    }
    drop((slab, stream, pipeline));
    let closed = device.close().unwrap();
    assert_eq!((closed.drop_errors, device.lost()), (0, None));
    sim.fail("cuStreamCreateWithPriority", 1, 4);
    let error = Stream::new(&device).map(|_| ()).unwrap_err();
    assert!(matches!(error, LaunchError::Driver(gone) if gone.code() == 4), "{error}");
    sim.fail("cuCtxSynchronize", 1, 4);
    assert!(matches!(device.close(), Err(LaunchError::Driver(gone)) if gone.code() == 4));
    assert!(device.lost().is_none());
}
