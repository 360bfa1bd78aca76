//! Launching on a real GPU: what is computed is right, what does not fit is named, a fault is final.

#![allow(clippy::expect_used, reason = "a test program, its helpers included")]

mod gpu_support;

use cuforge_core::{
    Access, Arguments, DeclaredBlock, Element, Extent, KernelSpec, LaunchGeometry, Parameter, Schedule,
};
use cuforge_launch::{Device, LaunchError, LaunchOptions, Stream};
use gpu_support::{
    Counting, HOPPER, PLAIN, Rig, Take, allocations, assert_comes_back, image, in_a_new_process, pack,
    unless_sanitized,
};

#[global_allocator]
static COUNTING: Counting = Counting;

const SCALAR: Take = Take::Scalar(Element::U32);

#[test]
#[ignore = "needs a GPU"]
fn the_device_says_who_it_is_and_what_it_allows() {
    let rig = Rig::new(2);
    let (adapter, limits) = (rig.device.adapter(), rig.device.constraints());
    println!("{adapter:?}\n{limits:?}\n{:?}\n{:?}", rig.device.capabilities(), rig.device.driver());
    println!("priorities {:?}", Stream::priorities(&rig.device).unwrap());
    let (free, total) = rig.device.memory_info().unwrap();
    assert!(free <= total && total <= limits.memory_bytes + (1 << 30));
    assert!(adapter.uuid.is_some_and(|uuid| uuid != [0; 16]));
    assert_eq!(limits.warp_size, 32);
    assert_eq!(adapter.vendor_id, 0x10de);
    assert!(!adapter.name.is_empty() && adapter.pci_address.as_ref().is_some_and(|text| text.contains(':')));
    assert!(adapter.driver_version.is_some() && adapter.driver.contains("NVIDIA"));
    assert!(adapter.compute_capability.is_some_and(|capability| capability.major >= 7));
    assert!(limits.max_threads_per_block >= 1024 && limits.max_block.iter().all(|size| *size >= 64));
    assert!(limits.max_grid.iter().all(|size| *size >= 65_535) && limits.multiprocessors > 0);
    assert!(limits.max_shared_bytes >= 49_152 && limits.max_shared_bytes_opt_in >= limits.max_shared_bytes);
    let more = rig.device.capabilities();
    assert!(more.max_threads_per_multiprocessor >= limits.max_threads_per_block && more.subgroups);
    assert!(more.shared_bytes_per_multiprocessor >= limits.max_shared_bytes && more.l2_bytes > 0);
    assert!(more.registers_per_multiprocessor >= more.max_registers_per_block && more.cooperative_launch);
    assert!(more.unified_addressing && more.ray_tracing_cores.is_none());
    assert!(rig.device.driver().library().is_absolute());
    assert!(Device::open(9_999).is_err());
}

#[test]
#[ignore = "needs a GPU"]
fn every_launch_form_computes_the_same_bits() {
    const N: u32 = 100_003;
    let mut rig = Rig::new(8);
    let (y, x) = (rig.words(u64::from(N), 0), rig.words(u64::from(N), 1));
    let kernel =
        rig.kernel(PLAIN, "saxpy", 256, &[Take::Buffer, Take::Read, Take::Scalar(Element::F32), SCALAR]);
    println!("{:?}", kernel.attributes());
    let xs: Vec<f32> = (0..N).map(|i| i as f32 * 0.37 - 11.0).collect();
    let ys: Vec<f32> = (0..N).map(|i| 5.0 - i as f32 * 0.11).collect();
    let a = 1.7f32;
    let expected: Vec<f32> = xs.iter().zip(&ys).map(|(x, y)| a.mul_add(*x, *y)).collect();
    let values = pack(&[a.to_bits(), N]);
    let (sorted, reversed) = ([y, x], [x, y]);
    let arguments = Arguments { views: &sorted, by_value: &values };
    let extent = Extent::Elements(u64::from(N));
    let grid = [N.div_ceil(256), 1, 1];
    let geometry = LaunchGeometry { grid, block: [256, 1, 1], shared_bytes: 0 };
    for form in 0..6 {
        rig.write(&x, &xs);
        rig.write(&y, &ys);
        let (slab, stream) = (rig.slab.clone(), &mut rig.stream);
        match form {
            0 => kernel.bind(&slab, arguments, extent).unwrap().launch(stream).unwrap(),
            1 => kernel.launch(stream, &slab, arguments, extent).unwrap(),
            2 => kernel.launch(stream, &slab, Arguments { views: &reversed, ..arguments }, extent).unwrap(),
            3 => {
                let time = kernel.run(stream, &slab, arguments, extent).unwrap();
                assert!(time.nanoseconds > 0);
            }
            4 => {
                let mut bound = kernel.bind(&slab, arguments, Extent::Geometry(geometry)).unwrap();
                assert!(bound.run(stream).unwrap().nanoseconds > 0);
            }
            _ => {
                let options = LaunchOptions { cooperative: true, ..LaunchOptions::default() };
                kernel.launch_with(stream, &slab, arguments, extent, options).unwrap();
            }
        }
        let got: Vec<f32> = rig.read(&y);
        assert!(got.iter().zip(&expected).all(|(g, e)| g.to_bits() == e.to_bits()), "form {form}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_bound_launch_follows_its_values_and_extent_on_every_stream() {
    const N: u32 = 4_096;
    let mut rig = Rig::new(8);
    let out = rig.words(u64::from(N), 0);
    let fill = rig.kernel(PLAIN, "fill", 256, &[Take::Buffer, SCALAR, SCALAR]);
    let at = |seed: u32, i: u32| seed.wrapping_mul(2_654_435_761).wrapping_add(i);
    let values = pack(&[0, N]);
    let arguments = Arguments { views: &[out], by_value: &values };
    let slab = rig.slab.clone();
    let mut bound = fill.bind(&slab, arguments, Extent::Elements(u64::from(N))).unwrap();
    let mut others: Vec<_> = (0..3).map(|_| Stream::new(&rig.device).unwrap()).collect();
    for seed in 1..40u32 {
        // Fewer elements than before, none, and more; launches in flight keep what they had.
        let n = [N, 100, 0, N / 2][seed as usize % 4];
        slab.fill(&mut rig.stream, &out, 0xff).unwrap();
        rig.stream.synchronize().unwrap();
        bound.set_values(&pack(&[seed, n])).unwrap();
        bound.set_extent(Extent::Elements(u64::from(n))).unwrap();
        let on = match seed as usize % 5 {
            4 => &mut rig.stream,
            _ => &mut others[seed as usize % 3],
        };
        bound.launch(on).unwrap();
        on.synchronize().unwrap();
        let got = rig.read::<u32>(&out);
        let right = |(i, word): (u32, &u32)| *word == if i < n { at(seed, i) } else { u32::MAX };
        assert!((0..).zip(&got).all(right), "seed {seed}");
    }
    assert!(bound.set_values(&[0; 3]).is_err());
    let kernel = rig.kernel(PLAIN, "shared_sum", 256, &[Take::Buffer, SCALAR]);
    let geometry = |bytes| LaunchGeometry { grid: [1; 3], block: [256, 1, 1], shared_bytes: bytes };
    let values = pack(&[4_096]);
    let arguments = Arguments { views: &[out], by_value: &values };
    let mut bound = kernel.bind(&slab, arguments, Extent::Geometry(geometry(16_384))).unwrap();
    bound.launch(&mut rig.stream).unwrap();
    let most = rig.device.constraints().max_shared_bytes_opt_in;
    bound.set_extent(Extent::Geometry(geometry(most))).unwrap();
    bound.set_values(&pack(&[most / 4])).unwrap();
    bound.launch(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&out)[0], (0..most / 4).fold(0u32, u32::wrapping_add));
}

#[test]
#[ignore = "needs a GPU"]
fn bound_launches_come_and_go_while_their_kernels_run_and_leave_nothing_behind() {
    let mut rig = Rig::new(8);
    let (count, word) = (rig.words(1, 0), rig.words(1, 0));
    let spin = rig.kernel(PLAIN, "spin", 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
    let fill = rig.kernel(PLAIN, "fill", 32, &[Take::Buffer, SCALAR, SCALAR]);
    let slab = rig.slab.clone();
    let late = 20_000_000u64.to_le_bytes();
    let spinning = Arguments { views: &[count], by_value: &late };
    let values = pack(&[3, 1]);
    let filling = Arguments { views: &[word], by_value: &values };
    let round = |rig: &mut Rig| {
        let mut launches: Vec<_> =
            (0..64).map(|_| fill.bind(&slab, filling, Extent::Elements(1)).unwrap()).collect();
        spin.launch(&mut rig.stream, &slab, spinning, Extent::Elements(1)).unwrap();
        // Bound without a graph, nothing waits for the kernel that runs.
        launches.push(fill.bind_plain(&slab, filling, Extent::Elements(1)).unwrap());
        for launch in &mut launches {
            launch.launch(&mut rig.stream).unwrap();
            launch.set_values(&values).unwrap();
        }
        drop(launches);
        assert!(!rig.stream.is_idle().unwrap(), "something waited for the kernel");
        rig.stream.synchronize().unwrap();
    };
    round(&mut rig);
    let (before, _) = rig.device.memory_info().unwrap();
    (0..20).for_each(|_| round(&mut rig));
    assert_comes_back(&rig.device, before, 32);
    assert_eq!(rig.read::<u32>(&word), [3u32.wrapping_mul(2_654_435_761)]);
    assert_eq!(rig.device.close().unwrap().drop_errors, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn hot_paths_allocate_nothing_with_the_real_driver() {
    let mut rig = Rig::new(8);
    let (y, x) = (rig.words(1000, 0), rig.words(1000, 1));
    let kernel =
        rig.kernel(PLAIN, "saxpy", 128, &[Take::Buffer, Take::Read, Take::Scalar(Element::F32), SCALAR]);
    let (views, values) = ([y, x], pack(&[1.0f32.to_bits(), 1000]));
    let arguments = Arguments { views: &views, by_value: &values };
    let mut bound = kernel.bind(&rig.slab, arguments, Extent::Elements(1000)).unwrap();
    let (slab, mut bytes) = (rig.slab.clone(), vec![0u8; 4000]);
    slab.write(&mut rig.stream, &x, &bytes).unwrap();
    bound.run(&mut rig.stream).unwrap();
    slab.read(&mut rig.stream, &y, &mut bytes).unwrap();
    let made = allocations(|| {
        for _ in 0..100 {
            slab.write(&mut rig.stream, &x, &bytes).unwrap();
            bound.launch(&mut rig.stream).unwrap();
            kernel.launch(&mut rig.stream, &slab, arguments, Extent::Elements(1000)).unwrap();
            bound.run(&mut rig.stream).unwrap();
            slab.read(&mut rig.stream, &y, &mut bytes).unwrap();
        }
    });
    assert_eq!(made, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn arguments_of_every_size_arrive_where_the_kernel_looks() {
    let mut rig = Rig::new(2);
    let out = rig.words(2, 0);
    let takes = [
        Take::Buffer,
        Take::Uniform(8000, 4),
        Take::Scalar(Element::U8),
        Take::Scalar(Element::F64),
        Take::Scalar(Element::U16),
    ];
    let kernel = rig.kernel(PLAIN, "wide", 1, &takes);
    let words: Vec<u32> = (0..2000).map(|i| i * 7 + 1).collect();
    let mut values = pack(&words);
    values.push(3);
    values.resize(8008, 0);
    values.extend(0.5f64.to_le_bytes());
    values.extend(40_000u16.to_le_bytes());
    let slab = rig.slab.clone();
    let arguments = Arguments { views: &[out], by_value: &values };
    kernel.launch(&mut rig.stream, &slab, arguments, Extent::Elements(1)).unwrap();
    let sum: f64 = words.iter().map(|w| f64::from(*w)).sum::<f64>() + 3.0 + 0.5 + 40_000.0;
    assert_eq!(rig.read::<f64>(&out), [sum]);
}

#[test]
#[ignore = "needs a GPU"]
fn parameters_that_differ_from_the_compiled_kernel_are_refused() {
    let rig = Rig::new(2);
    let f32s = Take::Scalar(Element::F32);
    for takes in [
        &[Take::Buffer, Take::Read, f32s][..],
        &[Take::Buffer, Take::Read, f32s, SCALAR, SCALAR],
        &[Take::Buffer, f32s, Take::Read, SCALAR],
        &[Take::Buffer, Take::Read, f32s, Take::Scalar(Element::U64)],
    ] {
        let error = rig.try_kernel(PLAIN, "saxpy", 128, takes).unwrap_err();
        assert!(matches!(error, LaunchError::ParameterMismatch { .. }), "{error}");
    }
    let missing = rig.try_kernel(PLAIN, "no_such", 128, &[]).unwrap_err();
    assert!(matches!(missing, LaunchError::NoSuchKernel { .. }), "{missing}");
}

#[test]
#[ignore = "needs a GPU"]
fn images_that_the_driver_does_not_take_come_back_with_its_log_and_leave_the_device_well() {
    let mut rig = Rig::new(2);
    const NEWER: &str = ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
    const BROKEN: &str =
        ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k() { frobnicate; }\n";
    for (text, word) in [(NEWER, "99.0"), (BROKEN, "frobnicate")] {
        let error = rig.try_kernel(text, "k", 1, &[]).unwrap_err();
        println!("{error}");
        let LaunchError::ImageRejected(rejection) = &error else { panic!("{error}") };
        assert!(rejection.ptx_version.is_some() && error.to_string().contains(word), "{error}");
    }
    let mut cut = (*image(PLAIN)).clone();
    cut.cubin = Some(
        b"\x7fELF no cubin at all, but long enough to have a header that says nonsense......"
            .as_slice()
            .into(),
    );
    // The PTX beside a bad cubin serves.
    let spec_from = rig.kernel(PLAIN, "five", 128, &[Take::Buffer, Take::Read, Take::Read, SCALAR, SCALAR]);
    let cut = std::sync::Arc::new(cut);
    // SAFETY: the PTX in the image is the specification's own text.
    let served = unsafe { rig.device.pipeline(&cut, spec_from.spec(), spec_from.schedule()) };
    assert!(served.is_ok(), "{served:?}");
    rig.stream.synchronize().unwrap();
}

#[test]
#[ignore = "needs a GPU"]
fn plain_ptx_is_loaded_by_one_safe_call_and_kept() {
    let mut rig = Rig::new(2);
    let out = rig.words(100, 0);
    let parameters = || {
        vec![
            Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite),
            Parameter::scalar("seed", Element::U32),
            Parameter::scalar("n", Element::U32),
        ]
    };
    let block = DeclaredBlock { workgroup_size: [64, 1, 1], items_per_invocation: 1 };
    // SAFETY: with n at most the elements of the buffer, the kernel stays inside it.
    let spec = unsafe { KernelSpec::ptx("fill", "fill", PLAIN, parameters()) };
    let spec = spec.with_declared_blocks(vec![block]);
    let schedule = Schedule::new([64, 1, 1]);
    let first = rig.device.ptx_pipeline(&spec, &schedule).unwrap();
    let mut again = None;
    assert_eq!(allocations(|| again = rig.device.ptx_pipeline(&spec, &schedule).ok()), 0);
    assert_eq!(again.unwrap().raw_function(), first.raw_function());
    let values = pack(&[5, 100]);
    let arguments = Arguments { views: &[out], by_value: &values };
    let slab = rig.slab.clone();
    first.run(&mut rig.stream, &slab, arguments, Extent::Elements(100)).unwrap();
    let got = rig.read::<u32>(&out);
    assert!((0..).zip(&got).all(|(i, word)| *word == 5u32.wrapping_mul(2_654_435_761).wrapping_add(i)));
    assert!(rig.device.ptx_pipeline(&spec, &Schedule::new([32, 1, 1])).is_err());
    // SAFETY: it is never run.
    let other = unsafe { KernelSpec::cuda_c("fill", "fill", "", parameters()) };
    let refused = rig.device.ptx_pipeline(&other, &schedule).unwrap_err();
    assert!(matches!(refused, LaunchError::Unsupported { .. }), "{refused}");
}

#[test]
#[ignore = "needs a GPU"]
fn dynamic_shared_memory_beyond_48_kib_runs() {
    let mut rig = Rig::new(2);
    let out = rig.words(1, 0);
    let kernel = rig.kernel(PLAIN, "shared_sum", 256, &[Take::Buffer, SCALAR]);
    let most = rig.device.constraints().max_shared_bytes_opt_in;
    let slab = rig.slab.clone();
    for shared_bytes in [16 * 1024, 64 * 1024, most] {
        let words = shared_bytes / 4;
        let geometry = LaunchGeometry { grid: [1; 3], block: [256, 1, 1], shared_bytes };
        let values = pack(&[words]);
        let arguments = Arguments { views: &[out], by_value: &values };
        kernel.launch(&mut rig.stream, &slab, arguments, Extent::Geometry(geometry)).unwrap();
        assert_eq!(rig.read::<u32>(&out), [(0..words).fold(0u32, u32::wrapping_add)], "{shared_bytes} bytes");
    }
    assert!(kernel.blocks_per_multiprocessor(most).unwrap() >= 1);
    let geometry = LaunchGeometry { grid: [1; 3], block: [256, 1, 1], shared_bytes: most + 1 };
    assert!(kernel.geometry(Extent::Geometry(geometry)).is_err());
}

#[test]
#[ignore = "needs a GPU: blocks that wait for each other"]
fn the_blocks_of_a_cooperative_launch_run_all_at_once() {
    let mut rig = Rig::new(2);
    let kernel = rig.kernel(PLAIN, "together", 128, &[Take::Buffer, Take::Buffer]);
    let blocks = kernel.blocks_per_multiprocessor(0).unwrap() * rig.device.constraints().multiprocessors;
    let (arrived, seen) = (rig.words(1, 0), rig.words(u64::from(blocks), 1));
    let geometry = LaunchGeometry { grid: [blocks, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
    let options = LaunchOptions { cooperative: true, ..LaunchOptions::default() };
    let slab = rig.slab.clone();
    let arguments = Arguments { views: &[arrived, seen], by_value: &[] };
    kernel.launch_with(&mut rig.stream, &slab, arguments, Extent::Geometry(geometry), options).unwrap();
    assert!(rig.read::<u32>(&seen).iter().all(|count| *count == blocks));
    let more = LaunchGeometry { grid: [blocks + 1, 1, 1], ..geometry };
    let more_seen = rig.words(u64::from(blocks) + 1, 1);
    let arguments = Arguments { views: &[arrived, more_seen], by_value: &[] };
    let error =
        kernel.launch_with(&mut rig.stream, &slab, arguments, Extent::Geometry(more), options).unwrap_err();
    println!("{error}");
    rig.stream.synchronize().unwrap();
}

#[test]
#[ignore = "needs a GPU: clusters of more than one block"]
fn clusters_have_the_shape_that_was_asked_for() {
    let mut rig = Rig::new(2);
    if !rig.device.capabilities().cluster_launch {
        panic!("this test needs a GPU with clusters");
    }
    let (rank, size) = (rig.words(32, 0), rig.words(32, 1));
    let kernel = rig.kernel(HOPPER, "ranks", 32, &[Take::Buffer, Take::Buffer]);
    let geometry = LaunchGeometry { grid: [32, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
    let slab = rig.slab.clone();
    for blocks in [1, 4, 8, 16] {
        let options = LaunchOptions { cluster: Some([blocks, 1, 1]), ..LaunchOptions::default() };
        let arguments = Arguments { views: &[rank, size], by_value: &[] };
        let mut bound = kernel.bind(&slab, arguments, Extent::Geometry(geometry)).unwrap();
        bound.launch_with(&mut rig.stream, options).unwrap();
        assert!(rig.read::<u32>(&size).iter().all(|s| *s == blocks));
        assert!((0u32..).zip(rig.read::<u32>(&rank)).all(|(block, r)| r == block % blocks));
    }
    println!("clusters of 8 at once: {}", kernel.active_clusters([8, 1, 1], 0).unwrap());
    let bad = LaunchOptions { cluster: Some([3, 1, 1]), ..LaunchOptions::default() };
    let arguments = Arguments { views: &[rank, size], by_value: &[] };
    let error =
        kernel.launch_with(&mut rig.stream, &slab, arguments, Extent::Geometry(geometry), bad).unwrap_err();
    assert!(matches!(error, LaunchError::Driver(_)), "{error}");
}

#[test]
#[ignore = "needs a GPU"]
fn a_chain_of_programmatic_launches_keeps_its_order() {
    const N: u32 = 50_000;
    let mut rig = Rig::new(2);
    let out = rig.words(u64::from(N), 0);
    let kernel = rig.kernel(HOPPER, "after", 256, &[Take::Buffer, SCALAR]);
    let values = pack(&[N]);
    let arguments = Arguments { views: &[out], by_value: &values };
    let mut bound = kernel.bind(&rig.slab, arguments, Extent::Elements(u64::from(N))).unwrap();
    rig.write(&out, &vec![0u32; N as usize]);
    let options = LaunchOptions { programmatic: true, ..LaunchOptions::default() };
    let launches = rig.rounds(unless_sanitized(2_000, 200), 40);
    for _ in 0..launches {
        bound.launch_with(&mut rig.stream, options).unwrap();
    }
    assert!(rig.read::<u32>(&out).iter().all(|count| *count == launches));
}

#[test]
#[ignore = "needs a GPU: faults on purpose"]
fn a_stray_write_loses_the_device_for_good_and_a_new_process_is_well() {
    let (names_fault, well) = (in_a_new_process("stray_writes"), in_a_new_process("a_healthy_process"));
    println!("{names_fault}\n{well}");
    assert!(names_fault.contains("fault was final"), "{names_fault}");
    assert!(well.contains("healthy"), "{well}");
}

#[test]
#[ignore = "needs a GPU"]
fn a_healthy_process() {
    let mut rig = Rig::new(2);
    rig.stream.synchronize().unwrap();
    println!("healthy");
}

/// Meant for a process of its own: alone it starts one.
#[test]
#[ignore = "needs a GPU: faults on purpose"]
fn stray_writes() {
    if std::env::var_os("CUFORGE_CHILD").is_none() {
        assert!(in_a_new_process("stray_writes").contains("fault was final"));
        return;
    }
    let mut rig = Rig::new(2);
    let out = rig.words(1, 0);
    let kernel = rig.kernel(PLAIN, "stray", 32, &[Take::Buffer]);
    let arguments = Arguments { views: &[out], by_value: &[] };
    let mut bound = kernel.bind(&rig.slab, arguments, Extent::Elements(32)).unwrap();
    bound.launch(&mut rig.stream).unwrap();
    let error = rig.stream.synchronize().unwrap_err();
    println!("{error}\n{error:?}");
    let LaunchError::DeviceLost { first } = error else { panic!("{error}") };
    assert_eq!((first.call(), first.code()), ("cuStreamSynchronize", 700));
    let slab = rig.slab.clone();
    let later = [
        bound.launch(&mut rig.stream).unwrap_err(),
        slab.write(&mut rig.stream, &out, &[0; 4]).unwrap_err(),
        Stream::new(&rig.device).map(|_| ()).unwrap_err(),
        rig.device.close().map(|_| ()).unwrap_err(),
    ];
    for error in later {
        assert!(matches!(error, LaunchError::DeviceLost { first: same } if same == first), "{error}");
    }
    drop((bound, kernel, slab, rig));
    println!("reopened: {:?}", Device::open(0).map(|_| ()));
    println!("fault was final");
}
