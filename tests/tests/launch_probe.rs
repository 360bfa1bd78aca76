//! What the machine lacks is a typed error from the first call: no driver, no device, an old driver, a missing function.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use cuforge_core::{ContextErrorKind, DriverVersion};
use cuforge_launch::{Device, Driver, LaunchError};
use cuforge_tests::sim::Sim;

fn sim(settings: &[(&str, &str)]) -> Sim {
    Sim::new(settings).unwrap()
}

#[test]
fn a_machine_without_a_driver_answers_every_way_in_with_a_typed_error_that_prints() {
    // Runs everywhere: where there is a driver the calls succeed or say what is missing.
    let errors = [
        Driver::load().err().map(|e| (e.kind(), format!("{e} {e:?}"))),
        Device::open(0).err().map(|e| (e.kind(), format!("{e} {e:?}"))),
        Device::open(u32::MAX).err().map(|e| (e.kind(), format!("{e} {e:?}"))),
    ];
    for (kind, text) in errors.into_iter().flatten() {
        assert_eq!(kind, ContextErrorKind::Unavailable, "{text}");
    }
    assert!(Device::open(u32::MAX).is_err());
}

#[test]
fn a_driver_is_known_by_real_path_and_version() {
    let sim = sim(&[("CUFORGE_SIM_DRIVER_VERSION", "12.8")]);
    let driver = sim.driver().unwrap();
    assert_eq!(driver.version(), DriverVersion { major: 12, minor: 8 });
    assert_eq!(driver.library(), sim.path.canonicalize().unwrap());
    assert_eq!(driver.device_count().unwrap(), 1);
}

#[test]
fn a_driver_too_old_says_what_it_is_and_what_is_needed() {
    let error = sim(&[("CUFORGE_SIM_DRIVER_VERSION", "11.8")]).driver().unwrap_err();
    let LaunchError::DriverTooOld { found, needed, .. } = &error else { panic!("{error}") };
    assert_eq!((found.to_string().as_str(), needed.to_string().as_str()), ("11.8", "12.0"));
    assert_eq!(error.kind(), ContextErrorKind::Unavailable);
}

#[test]
fn no_device_and_no_such_device_are_told_apart() {
    let none = sim(&[("CUFORGE_SIM_DEVICES", "0")]).driver().unwrap_err();
    assert!(matches!(none, LaunchError::NoDevice { .. }), "{none}");
    let sim = sim(&[("CUFORGE_SIM_DEVICES", "2")]);
    assert!(Device::open_on(sim.driver().unwrap(), 1).is_ok(), "any ordinal");
    let third = Device::open_on(sim.driver().unwrap(), 2).unwrap_err();
    assert!(matches!(third, LaunchError::NoSuchDevice { ordinal: 2, count: 2 }), "{third}");
}

#[test]
fn every_function_may_be_missing_and_each_is_named() {
    let mut optional = Vec::new();
    for symbol in Driver::functions() {
        // Some have an older name that would serve.
        let older = symbol.trim_end_matches("_v2");
        let both = [symbol, older];
        let there = cuforge_sim_driver::functions().any(|function| function.name == older);
        let gone = if there && older != *symbol { &both[..] } else { &both[..1] };
        match Sim::without(gone).unwrap().driver() {
            Ok(_) => optional.push(*symbol),
            Err(LaunchError::MissingSymbol { symbol: named, .. }) => assert_eq!(named, *symbol),
            // A library without the first function is no driver at all.
            Err(LaunchError::NoDriver { .. }) => assert_eq!(*symbol, "cuInit"),
            Err(other) => panic!("{symbol}: {other}"),
        }
    }
    let expected = [
        "cuMemAddressReserve",
        "cuMemAddressFree",
        "cuMemCreate",
        "cuMemRelease",
        "cuMemMap",
        "cuMemUnmap",
        "cuMemSetAccess",
        "cuMemGetAllocationGranularity",
        "cuStreamWriteValue64_v2",
        "cuThreadExchangeStreamCaptureMode",
        "cuGraphCreate",
        "cuGraphDestroy",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuFuncLoad",
        "cuFuncGetParamInfo",
        "cuLaunchKernelEx",
        "cuOccupancyMaxActiveClusters",
        "cuCtxGetCurrent",
        "cuStreamGetFlags",
        "cuStreamGetPriority",
        "cuEventRecordWithFlags",
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuStreamGetCaptureInfo_v3",
        "cuStreamGetCaptureInfo_v2",
        "cuStreamUpdateCaptureDependencies_v2",
        "cuStreamUpdateCaptureDependencies",
        "cuGraphUpload",
        "cuGraphGetNodes",
        "cuGraphGetEdges_v2",
        "cuGraphGetEdges",
        "cuGraphNodeGetType",
        "cuGraphAddChildGraphNode",
        "cuGraphChildGraphNodeGetGraph",
        "cuGraphAddNode_v2",
        "cuGraphConditionalHandleCreate",
        "cuGraphMemsetNodeGetParams",
        "cuGraphMemcpyNodeGetParams",
        "cuGraphNodeSetEnabled",
        "cuGraphExecMemsetNodeSetParams",
        "cuGraphExecMemcpyNodeSetParams",
        "cuDeviceGetGraphMemAttribute",
    ];
    assert_eq!(optional, expected);
}

#[test]
fn an_older_name_of_a_function_serves_where_the_newer_is_missing() {
    let without = |symbols: &[&str]| Sim::without(symbols).unwrap().driver();
    assert!(without(&["cuDeviceGetUuid_v2"]).is_ok());
    let error = without(&["cuDeviceGetUuid_v2", "cuDeviceGetUuid"]).unwrap_err();
    assert!(matches!(error, LaunchError::MissingSymbol { symbol: "cuDeviceGetUuid_v2", .. }), "{error}");
}

#[test]
fn a_code_that_nobody_knows_is_kept_as_its_number() {
    let sim = sim(&[]);
    let driver = sim.driver().unwrap();
    sim.fail("cuDevicePrimaryCtxRetain", 1, 4242);
    let error = Device::open_on(driver, 0).unwrap_err();
    let LaunchError::Driver(inner) = &error else { panic!("{error}") };
    assert_eq!((inner.call(), inner.code(), inner.name()), ("cuDevicePrimaryCtxRetain", 4242, None));
    assert!(error.to_string().contains("4242"), "{error}");
}

#[test]
fn identity_and_limits_are_what_the_driver_says() {
    let device = sim(&[]).device().unwrap();
    let (adapter, limits) = (device.adapter(), device.constraints());
    assert_eq!(
        (adapter.name.as_str(), adapter.uuid),
        ("cuforge simulated device", Some(*b"cuforge-sim-\0\0\0\0"))
    );
    assert_eq!(adapter.compute_capability.map(|c| c.sm()), Some(90));
    assert_eq!((limits.max_shared_bytes_opt_in, limits.max_parameter_bytes), (232_448, 32_764));
    assert_eq!(limits.max_grid, [2_147_483_647, 65_535, 65_535]);
    assert!(device.capabilities().cluster_launch && device.capabilities().tensor_cores);
}
