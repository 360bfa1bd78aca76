//! Other people's programs on the simulated driver: cudarc's own safe API, and a C program of the driver API.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};
use cuforge_launch::{Device, Stream};
use cuforge_sim_driver::Library;
use cuforge_tests::c_program::{self, said};
use cuforge_tests::toolchain::OLDER;
use std::path::{Path, PathBuf};
use std::process::Command;

const SAXPY: &str = include_str!("../kernels/plain.ptx");

/// A folder of this test with the driver under the names that programs look for.
fn driver(test: &str) -> Library {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{test}-{}", std::process::id()));
    Library::built().unwrap().install(&folder).unwrap()
}

/// Runs one test of this program again, in a process whose loader finds the simulated driver.
fn alone(test: &str) -> String {
    alone_beside(test, None)
}

/// As [`alone`], with another folder that the loader looks into.
fn alone_beside(test: &str, other: Option<&Path>) -> String {
    let library = driver(test);
    let folders = std::env::join_paths([library.folder()].into_iter().chain(other)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env("CUFORGE_CHILD", "1")
        .env("LD_LIBRARY_PATH", folders)
        .output()
        .unwrap();
    std::fs::remove_dir_all(library.folder()).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

#[test]
fn cudarcs_safe_api_runs_unchanged() {
    if std::env::var_os("CUFORGE_CHILD").is_some() {
        contexts_and_copies();
        launches_on_tracked_streams();
        graphs();
        println!("cudarc is content");
        return;
    }
    let said = alone("cudarcs_safe_api_runs_unchanged");
    assert!(said.contains("cudarc is content"), "{said}");
}

#[test]
fn cudarcs_default_stream_comes_in_with_a_queue_number_of_its_own() {
    if std::env::var_os("CUFORGE_CHILD").is_some() {
        let context = CudaContext::new(0).unwrap();
        let device = Device::from_cudarc(&context).unwrap();
        let mut theirs = Stream::from_cudarc(&device, &context.default_stream()).unwrap();
        assert!(theirs.raw().is_null(), "the legacy stream");
        let mut ours = Stream::new(&device).unwrap();
        assert_ne!(theirs.queue(), ours.queue());
        drop(device.pinned(64).unwrap());
        assert_eq!(device.collect().unwrap(), 1);
        theirs.synchronize().unwrap();
        ours.synchronize().unwrap();
        println!("both are counted");
        return;
    }
    let said = alone("cudarcs_default_stream_comes_in_with_a_queue_number_of_its_own");
    assert!(said.contains("both are counted"), "{said}");
}

fn contexts_and_copies() {
    assert_eq!(CudaContext::device_count().unwrap(), 1);
    let context = CudaContext::new(0).unwrap();
    assert_eq!(context.name().unwrap(), "cuforge simulated device");
    assert_eq!(context.compute_capability().unwrap(), (9, 0));
    let warp = context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap();
    let (free, total) = context.mem_get_info().unwrap();
    assert!(warp == 32 && free <= total && total == context.total_mem().unwrap());
    let stream = context.default_stream();
    let host: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let device = stream.clone_htod(&host).unwrap();
    let copied = stream.clone_dtod(&device).unwrap();
    assert_eq!(stream.clone_dtoh(&copied).unwrap(), host);
    assert_eq!(stream.clone_dtoh(&copied.slice(10..20)).unwrap(), host[10..20]);
    let mut zeros = stream.alloc_zeros::<u32>(64).unwrap();
    assert_eq!(stream.clone_dtoh(&zeros).unwrap(), [0; 64]);
    stream.memcpy_htod(&[7u32; 64], &mut zeros).unwrap();
    stream.memset_zeros(&mut zeros.slice_mut(32..)).unwrap();
    let mixed = stream.clone_dtoh(&zeros).unwrap();
    assert!(mixed[..32] == [7; 32] && mixed[32..] == [0; 32]);
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u32>(64) }.unwrap();
    pinned.as_mut_slice().unwrap().fill(9);
    stream.memcpy_htod(&pinned, &mut zeros).unwrap();
    stream.memcpy_dtoh(&zeros, &mut pinned).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [9; 64]);
    context.check_err().unwrap();
}

fn launches_on_tracked_streams() {
    const N: usize = 10_000;
    let context = CudaContext::new(0).unwrap();
    let module = context.load_module(Ptx::from_src(SAXPY)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    assert!(module.load_function("no_such").is_err());
    assert_eq!(saxpy.max_threads_per_block().unwrap(), 1024);
    let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let x = stream.clone_htod(&vec![2f32; N]).unwrap();
    let mut y = other.clone_htod(&vec![1f32; N]).unwrap();
    let start = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
    for _ in 0..3 {
        let mut launch = stream.launch_builder(&saxpy);
        let (a, n) = (10f32, N as u32);
        launch.arg(&mut y).arg(&x).arg(&a).arg(&n);
        // SAFETY: the arguments are those of the kernel, and it stays within n elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
    }
    let end = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
    // Read on the other stream: cudarc's events order it behind the launches.
    assert_eq!(other.clone_dtoh(&y).unwrap(), vec![61f32; N]);
    end.synchronize().unwrap();
    assert!(start.elapsed_ms(&end).unwrap() > 0.0 && end.is_complete());
    other.join(&stream).unwrap();
    let forked = stream.fork().unwrap();
    forked.synchronize().unwrap();
    context.synchronize().unwrap();
    context.check_err().unwrap();
}

fn graphs() {
    const N: usize = 512;
    let context = CudaContext::new(0).unwrap();
    // SAFETY: one stream uses each buffer.
    unsafe { context.disable_event_tracking() };
    let module = context.load_module(Ptx::from_src(SAXPY)).unwrap();
    let saxpy = module.load_function("saxpy").unwrap();
    let stream = context.new_stream().unwrap();
    let x = stream.clone_htod(&vec![1f32; N]).unwrap();
    let mut y = stream.clone_htod(&vec![0f32; N]).unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    for _ in 0..2 {
        let mut launch = stream.launch_builder(&saxpy);
        let (a, n) = (1f32, N as u32);
        launch.arg(&mut y).arg(&x).arg(&a).arg(&n);
        // SAFETY: as above.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
    }
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), vec![0f32; N], "a capture runs nothing");
    graph.upload().unwrap();
    for _ in 0..5 {
        graph.launch().unwrap();
    }
    assert_eq!(stream.clone_dtoh(&y).unwrap(), vec![10f32; N]);
    drop(graph);
    context.check_err().unwrap();
}

#[test]
fn a_c_program_of_the_driver_api_runs_unchanged() {
    let library = driver("c");
    let program = c_program::compile("driver_api", &library).unwrap();
    let output = c_program::run::<&str>(&program, &library, &[]).unwrap();
    std::fs::remove_dir_all(library.folder()).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("all as the manual says"), "{}", said(&output));
    assert!(said(&output).contains("out of bounds"), "the fault is told in words: {}", said(&output));
}

/// NVRTC with its cache on opens the driver and initialises it: here the simulated one.
#[test]
#[ignore = "needs NVRTC: 12.9.86"]
fn a_c_program_with_nvrtc_compiles_loads_launches_and_sees_its_assertion_fail() {
    // PTX of a newer one is refused by the driver of CUDA 13.0 that is played.
    let toolchain = OLDER;
    let library = driver("nvrtc");
    let program = c_program::compile("nvrtc", &library).unwrap();
    let output = c_program::run(&program, &library, &[toolchain.library().unwrap()]).unwrap();
    std::fs::remove_dir_all(library.folder()).unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.contains("compiled, loaded and launched"), "{toolchain}: {said}");
    assert!(
        said.contains("fold.cu:7: fold: block: [7,0,0], thread: [105,0,0] Assertion `at <= most`"),
        "{said}"
    );
}

/// cudarc's own way from CUDA C to a launch.
#[test]
#[ignore = "needs NVRTC"]
fn cudarcs_nvrtc_compiles_what_its_driver_loads() {
    if std::env::var_os("CUFORGE_CHILD").is_some() {
        let source = "extern \"C\" __global__ void triple(unsigned *out, unsigned n) {\n\
            unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n  if (at < n) out[at] = 3 * at;\n}\n";
        let options = CompileOptions { arch: Some("compute_80"), ..CompileOptions::default() };
        let ptx = compile_ptx_with_opts(source, options).unwrap();
        let context = CudaContext::new(0).unwrap();
        let triple = context.load_module(ptx).unwrap().load_function("triple").unwrap();
        let stream = context.new_stream().unwrap();
        let mut out = stream.alloc_zeros::<u32>(1000).unwrap();
        let n = 1000u32;
        let mut launch = stream.launch_builder(&triple);
        launch.arg(&mut out).arg(&n);
        // SAFETY: the arguments are those of the kernel, and it stays within n elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
        let expected: Vec<u32> = (0..1000).map(|at| 3 * at).collect();
        assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
        println!("cudarc has compiled it");
        return;
    }
    let library = OLDER.library().unwrap();
    let said = alone_beside("cudarcs_nvrtc_compiles_what_its_driver_loads", library.parent());
    assert!(said.contains("cudarc has compiled it"), "{said}");
}
