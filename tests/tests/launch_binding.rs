//! Pipelines and launches: what does not fit is named before anything runs, what fits computes.

#![allow(clippy::unwrap_used, clippy::type_complexity, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{
    Access, Arguments, BindError, ContextErrorKind, Element, Extent, KernelSpec, LaunchGeometry,
};
use cuforge_core::{DeclaredBlock, Parameter, Schedule, ScheduleError};
use cuforge_launch::{LaunchError, LaunchOptions, Pipeline};
use cuforge_tests::sim::Sim;
use launch_support::{Rig, SAXPY, image, saxpy};

fn run(rig: &mut Rig, launch: impl FnOnce(&mut Rig, Arguments<'_>)) -> Vec<f32> {
    let slab = rig.slab.clone();
    let (x, y) = (rig.x, rig.y);
    let count = rig.n as usize;
    slab.write_from(&mut rig.stream, &x, &(0..count).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    slab.write_from(&mut rig.stream, &y, &vec![1.0f32; count]).unwrap();
    let (views, values) = ([y, x], rig.values(2.0));
    launch(rig, Arguments { views: &views, by_value: &values });
    slab.read_vec(&mut rig.stream, &y).unwrap()
}

#[test]
fn every_launch_form_computes_the_same() {
    let mut rig = Rig::new(1000);
    let expected: Vec<f32> = (0..1000).map(|i| 1.0 + 2.0 * i as f32).collect();
    let pipeline = rig.pipeline.clone();
    let forms: [&dyn Fn(&mut Rig, Arguments<'_>); 5] = [
        &|rig, arguments| {
            let extent = rig.extent();
            pipeline.bind(&rig.slab, arguments, extent).unwrap().launch(&mut rig.stream).unwrap();
        },
        &|rig, arguments| {
            let reversed: Vec<_> = arguments.views.iter().rev().copied().collect();
            let arguments = Arguments { views: &reversed, ..arguments };
            let slab = rig.slab.clone();
            pipeline.launch(&mut rig.stream, &slab, arguments, Extent::Elements(1000)).unwrap();
        },
        &|rig, arguments| {
            let slab = rig.slab.clone();
            let time = pipeline.run(&mut rig.stream, &slab, arguments, Extent::Elements(1000)).unwrap();
            assert!(time.nanoseconds > 0);
        },
        &|rig, arguments| {
            let geometry = LaunchGeometry { grid: [8, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
            let mut bound = pipeline.bind(&rig.slab, arguments, Extent::Geometry(geometry)).unwrap();
            bound.run(&mut rig.stream).unwrap();
        },
        &|rig, arguments| {
            let mut bound = pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap();
            let options = LaunchOptions { cooperative: true, cluster: Some([2, 1, 1]), programmatic: false };
            let before = rig.sim.calls("cuLaunchKernelEx");
            bound.launch_with(&mut rig.stream, options).unwrap();
            assert_eq!(rig.sim.calls("cuLaunchKernelEx") - before, 1);
        },
    ];
    for form in forms {
        assert_eq!(run(&mut rig, form), expected);
    }
}

#[test]
fn values_can_be_replaced_between_launches() {
    let mut rig = Rig::new(4);
    let got = run(&mut rig, |rig, arguments| {
        let mut bound = rig.pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap();
        assert!(matches!(bound.set_values(&[0; 7]), Err(LaunchError::Bind(BindError::ByValue { .. }))));
        bound.set_values(&rig.values(10.0)).unwrap();
        bound.launch(&mut rig.stream).unwrap();
    });
    assert_eq!(got, [1.0, 11.0, 21.0, 31.0]);
}

#[test]
fn zero_elements_launch_nothing() {
    let mut rig = Rig::new(4);
    let before = rig.sim.launches();
    run(&mut rig, |rig, arguments| {
        let slab = rig.slab.clone();
        rig.pipeline.bind(&slab, arguments, Extent::Elements(0)).unwrap().launch(&mut rig.stream).unwrap();
        rig.pipeline.clone().launch(&mut rig.stream, &slab, arguments, Extent::Elements(0)).unwrap();
    });
    assert_eq!(rig.sim.launches(), before);
}

#[test]
fn arguments_and_geometries_that_do_not_fit_are_named_and_launch_nothing() {
    let mut rig = Rig::new(64);
    let (y, x, values) = (rig.y, rig.x, rig.values(1.0));
    let slab = rig.slab.clone();
    let bind = |views: &[_], by_value: &[u8], extent| {
        rig.pipeline.bind(&slab, Arguments { views, by_value }, extent).map(|_| ()).unwrap_err()
    };
    let elements = Extent::Elements(64);
    assert!(matches!(bind(&[y], &values, elements), LaunchError::Bind(BindError::Missing { .. })));
    let extra = x.bound_to(0, 7, Access::StorageRead).unwrap();
    assert!(matches!(bind(&[y, x, extra], &values, elements), LaunchError::Bind(BindError::Extra { .. })));
    assert!(matches!(bind(&[y, x], &values[1..], elements), LaunchError::Bind(BindError::ByValue { .. })));
    let geometry =
        |block, shared_bytes| Extent::Geometry(LaunchGeometry { grid: [1; 3], block, shared_bytes });
    let error = bind(&[y, x], &values, geometry([64, 1, 1], 0));
    assert!(matches!(error, LaunchError::BlockMismatch { .. }), "{error}");
    let error = bind(&[y, x], &values, geometry([128, 1, 1], 300_000));
    assert!(matches!(error, LaunchError::Schedule(ScheduleError::SharedMemory { .. })), "{error}");
    let error = bind(&[y, x], &values, Extent::Elements(u64::MAX));
    assert!(matches!(error, LaunchError::Schedule(ScheduleError::GridTooLarge { .. })), "{error}");
    assert_eq!(bind(&[y], &values, elements).kind(), ContextErrorKind::Misuse);
    let stale = slab.acquire(&cuforge_core::Request::new(256)).unwrap();
    let stale = stale.bound_to(0, 1, Access::StorageRead).unwrap();
    slab.release(stale).unwrap();
    assert!(matches!(bind(&[y, stale], &values, elements), LaunchError::View(_)));
    let unbound = rig.pipeline.clone().launch(
        &mut rig.stream,
        &slab,
        Arguments { views: &[y, stale], by_value: &values },
        elements,
    );
    assert!(matches!(unbound, Err(LaunchError::View(_))));
    assert_eq!(rig.sim.launches(), 0);
}

#[test]
fn shared_memory_beyond_48_kib_is_opted_into_once() {
    let mut rig = Rig::new(64);
    let (views, values) = ([rig.y, rig.x], rig.values(1.0));
    let slab = rig.slab.clone();
    let pipeline = rig.pipeline.clone();
    for shared_bytes in [100_000, 100_000, 50_000] {
        let geometry = LaunchGeometry { grid: [1; 3], block: [128, 1, 1], shared_bytes };
        let arguments = Arguments { views: &views, by_value: &values };
        pipeline.launch(&mut rig.stream, &slab, arguments, Extent::Geometry(geometry)).unwrap();
    }
    assert_eq!(rig.sim.calls("cuFuncSetAttribute"), 1);
    assert_eq!(pipeline.blocks_per_multiprocessor(0).unwrap(), 16);
    assert_eq!(pipeline.attributes().registers, 32);
}

fn pipeline(
    rig: &Rig,
    text: &'static str,
    entry: &'static str,
    parameters: Vec<Parameter>,
) -> Result<Pipeline, LaunchError> {
    let block = DeclaredBlock { workgroup_size: [128, 1, 1], items_per_invocation: 1 };
    // SAFETY: none of these kernels is launched.
    let spec = unsafe { KernelSpec::ptx(entry, entry, text, parameters) }.with_declared_blocks(vec![block]);
    // SAFETY: the image is the specification's own text.
    unsafe { rig.device.pipeline(&image(text), &spec, &Schedule::new([128, 1, 1])) }
}

#[test]
fn declared_parameters_are_held_against_the_compiled_kernel() {
    let rig = Rig::new(8);
    let y = || Parameter::buffer("y", 0, Element::F32, Access::StorageReadWrite);
    let x = || Parameter::buffer("x", 1, Element::F32, Access::StorageRead);
    let (a, n) = (|| Parameter::scalar("a", Element::F32), || Parameter::scalar("n", Element::U32));
    for wrong in [
        vec![y(), x(), a()],
        vec![y(), x(), a(), n(), n()],
        vec![y(), a(), x(), n()],
        vec![y(), x(), a(), Parameter::scalar("n", Element::U64)],
    ] {
        let error = pipeline(&rig, SAXPY, "saxpy", wrong).unwrap_err();
        assert!(matches!(error, LaunchError::ParameterMismatch { .. }), "{error}");
    }
    assert!(pipeline(&rig, SAXPY, "saxpy", vec![y(), x(), a(), n()]).is_ok());
}

#[test]
fn a_rejected_image_carries_the_drivers_log_and_both_versions() {
    let rig = Rig::new(8);
    let error = pipeline(&rig, ".version 99.0\n.target sm_70\n", "k", vec![]).unwrap_err();
    let LaunchError::ImageRejected(rejection) = &error else { panic!("{error}") };
    assert_eq!((rejection.form, rejection.ptx_version.as_deref()), ("PTX", Some("99.0")));
    assert!(rejection.log.contains("Unsupported .version 99.0; current version is '9.0'"), "{error}");
    let text = error.to_string();
    assert!(text.contains("CUDA 13.0") && text.contains("99.0") && text.contains("fatal"), "{text}");
    assert_eq!(error.kind(), ContextErrorKind::Kernel);
    let missing = pipeline(&rig, SAXPY, "sax", vec![]).unwrap_err();
    assert!(matches!(missing, LaunchError::NoSuchKernel { .. }), "{missing}");
    let odd = pipeline(&rig, SAXPY, "sax\0py", vec![]).unwrap_err();
    assert!(matches!(odd, LaunchError::NoSuchKernel { .. }), "{odd}");
}

#[test]
fn two_kernels_of_one_image_load_one_module() {
    const TWO: &str = ".version 7.8\n.target sm_70\n.address_size 64\n\
        .entry first(.param .u64 y)\n{ ret; }\n.entry second(.param .u64 y)\n{ ret; }\n";
    let rig = Rig::new(8);
    let before = rig.sim.calls("cuModuleLoadDataEx");
    let y = || vec![Parameter::buffer("y", 0, Element::F32, Access::StorageReadWrite)];
    let (first, second) =
        (pipeline(&rig, TWO, "first", y()).unwrap(), pipeline(&rig, TWO, "second", y()).unwrap());
    assert_eq!(rig.sim.calls("cuModuleLoadDataEx") - before, 1);
    assert_ne!(first.raw_function(), second.raw_function());
}

#[test]
fn a_driver_without_launch_attributes_launches_plainly_and_names_what_options_need() {
    let mut rig = Rig::on(Sim::without(&["cuLaunchKernelEx"]).unwrap(), 4);
    let got = run(&mut rig, |rig, arguments| {
        let mut bound = rig.pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        let options = LaunchOptions { cooperative: true, ..LaunchOptions::default() };
        let error = bound.launch_with(&mut rig.stream, options).unwrap_err();
        let missing = matches!(error, LaunchError::MissingSymbol { symbol: "cuLaunchKernelEx", .. });
        assert!(missing && error.to_string().contains("11.8"), "{error}");
    });
    assert_eq!(got, [1.0, 3.0, 5.0, 7.0]);
}

#[test]
fn a_driver_without_parameter_info_is_trusted_with_the_declared_layout() {
    let mut rig = Rig::on(Sim::without(&["cuFuncGetParamInfo"]).unwrap(), 4);
    let got = run(&mut rig, |rig, arguments| {
        rig.pipeline.bind(&rig.slab, arguments, rig.extent()).unwrap().launch(&mut rig.stream).unwrap();
    });
    assert_eq!(got, [1.0, 3.0, 5.0, 7.0]);
}

#[test]
fn a_kernel_keeps_the_most_shared_memory_that_the_pipelines_of_its_schedules_asked_for() {
    let rig = Rig::new(64);
    let blocks = [64, 128].map(|x| DeclaredBlock { workgroup_size: [x, 1, 1], items_per_invocation: 1 });
    let spec = saxpy().with_declared_blocks(blocks.to_vec());
    let pipelines =
        blocks.map(|block| rig.device.ptx_pipeline(&spec, &Schedule::new(block.workgroup_size)).unwrap());
    assert_eq!(pipelines[0].raw_function(), pipelines[1].raw_function(), "one kernel of one module");
    for (pipeline, shared_bytes) in
        [(&pipelines[0], 100_000), (&pipelines[1], 60_000), (&pipelines[1], 70_000)]
    {
        let block = pipeline.schedule().workgroup_size;
        let geometry = LaunchGeometry { grid: [1; 3], block, shared_bytes };
        pipeline.geometry(Extent::Geometry(geometry)).unwrap();
    }
    assert_eq!(rig.sim.calls("cuFuncSetAttribute"), 1, "less would take from the other pipeline");
}

#[test]
fn a_cluster_of_absurd_size_is_the_drivers_to_refuse_and_does_not_overflow() {
    let mut rig = Rig::new(64);
    let (views, values) = ([rig.y, rig.x], rig.values(1.0));
    let (slab, pipeline, extent) = (rig.slab.clone(), rig.pipeline.clone(), rig.extent());
    rig.sim.fail("cuLaunchKernelEx", 1, 912);
    let options = LaunchOptions { cluster: Some([u32::MAX; 3]), ..LaunchOptions::default() };
    let arguments = Arguments { views: &views, by_value: &values };
    let error = pipeline.launch_with(&mut rig.stream, &slab, arguments, extent, options).unwrap_err();
    assert!(error.to_string().contains("912"), "{error}");
}

#[test]
fn a_launch_bound_over_nothing_has_its_graph_made_with_the_first_extent_that_launches_something() {
    let mut rig = Rig::new(4);
    let slab = rig.slab.clone();
    let got = run(&mut rig, |rig, arguments| {
        let mut bound = rig.pipeline.bind(&slab, arguments, Extent::Elements(0)).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        bound.set_values(&rig.values(5.0)).unwrap();
        assert_eq!((rig.sim.launches(), rig.sim.calls("cuGraphCreate")), (0, 0));
        bound.set_extent(rig.extent()).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        assert_eq!((rig.sim.calls("cuGraphLaunch"), rig.sim.launches()), (1, 1), "the graph is launched");
        bound.set_extent(Extent::Elements(0)).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        bound.set_extent(rig.extent()).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        assert_eq!((rig.sim.calls("cuGraphLaunch"), rig.sim.calls("cuGraphCreate")), (2, 1));
        // One that was bound without a graph stays without.
        let mut plain = rig.pipeline.bind_plain(&slab, arguments, Extent::Elements(0)).unwrap();
        plain.set_extent(rig.extent()).unwrap();
        assert_eq!(rig.sim.calls("cuGraphCreate"), 1);
    });
    assert_eq!(got, [1.0, 11.0, 21.0, 31.0]);
}
