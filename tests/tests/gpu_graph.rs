//! Captures and graphs on a real GPU: what was captured is what runs, again and again, and nothing of it goes away too soon.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program, its helpers included"
)]

mod gpu_support;

use cudarc::driver::sys;
use cuforge_core::{Arguments, BufferView, Element, Extent, LaunchGeometry, Request};
use cuforge_launch::{
    BoundLaunch, Condition, Graph, GraphError, LaunchError, LaunchOptions, MappedWords, NodeKind,
    ParameterBlock, Recording, ResultRing, Stream,
};
use gpu_support::{Counting, PLAIN, Rig, Take, allocations, image, in_a_new_process, pack, unless_sanitized};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

#[global_allocator]
static COUNTING: Counting = Counting;

const SCALAR: Take = Take::Scalar(Element::U32);

/// The kernels of the graph tests, as this device takes them.
fn text(rig: &Rig) -> &'static str {
    let newer = rig.device.adapter().compute_capability.is_some_and(|capability| capability.major >= 9);
    if newer { include_str!("../kernels/graph_sm90.ptx") } else { include_str!("../kernels/graph.ptx") }
}

/// A kernel of those over `views` and words, in one block of 32 threads, or as many as there are words.
fn bound(rig: &Rig, entry: &'static str, takes: &[Take], views: &[BufferView], words: &[u32]) -> BoundLaunch {
    let pipeline = rig.kernel(text(rig), entry, 32, takes);
    let geometry = LaunchGeometry { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
    let arguments = Arguments { views, by_value: &pack(words) };
    pipeline.bind(&rig.slab, arguments, Extent::Geometry(geometry)).unwrap()
}

fn increment(rig: &Rig, view: &BufferView) -> BoundLaunch {
    bound(rig, "increment", &[Take::Buffer, SCALAR], &[*view], &[(view.len() / 4) as u32])
}

fn step(rig: &Rig, view: &BufferView) -> BoundLaunch {
    bound(rig, "step", &[Take::Buffer, SCALAR], &[*view], &[(view.len() / 4) as u32])
}

fn set(rig: &Rig, view: &BufferView, value: u32) -> BoundLaunch {
    bound(rig, "set", &[Take::Buffer, SCALAR, SCALAR], &[*view], &[value, (view.len() / 4) as u32])
}

/// So many milliseconds on the device, then one more in the word.
fn late(rig: &Rig, view: &BufferView, milliseconds: u64) -> BoundLaunch {
    let pipeline = rig.kernel(text(rig), "late", 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
    let values = (milliseconds * u64::from(rig.rounds(1_000_000, 100_000))).to_le_bytes();
    let arguments = Arguments { views: &[*view], by_value: &values };
    pipeline.bind(&rig.slab, arguments, Extent::Elements(1)).unwrap()
}

/// The chain's value after so many steps from 0.
fn chain(steps: u32) -> u32 {
    (0..steps).fold(0u32, |x, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

fn graph_error(error: LaunchError) -> GraphError {
    match error {
        LaunchError::Graph(error) => error,
        other => panic!("{other}"),
    }
}

/// Runs `work` on a thread of its own and says what was waited for where it takes too long.
fn within<T: Send + 'static>(seconds: u64, what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = channel();
    let worker = std::thread::spawn(move || {
        let _ = done.send(work());
    });
    match outcome.recv_timeout(Duration::from_secs(seconds)) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("waited {seconds} s for {what}"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("a worker that sends nothing has panicked"))
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn an_increment_is_one_node_and_write_replay_and_read_allocate_nothing() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = increment(&rig, &word);
    let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    assert_eq!(recording.node_count(), 1);
    let mut graph = recording.instantiate().unwrap();
    graph.upload(&mut rig.stream).unwrap();
    graph.replay_times(&mut rig.stream, 2).unwrap();
    assert_eq!(rig.read::<u32>(&word), [2]);
    let (slab, mut out) = (rig.slab.clone(), [0u32; 1]);
    let made = allocations(|| {
        for round in 0..100u32 {
            slab.write_from(&mut rig.stream, &word, &[round]).unwrap();
            graph.replay(&mut rig.stream).unwrap();
            slab.read_into(&mut rig.stream, &word, &mut out).unwrap();
            assert_eq!(out, [round + 1]);
        }
    });
    assert_eq!(made, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn the_first_launch_of_a_kernel_may_be_in_a_capture_while_another_stream_is_busy() {
    let mut rig = Rig::new(2);
    let (word, other) = (rig.words(1, 0), rig.words(1, 0));
    let mut busy = Stream::new(&rig.device).unwrap();
    let (mut first, mut held) = (increment(&rig, &word), late(&rig, &other, 200));
    held.launch(&mut busy).unwrap();
    let recording = rig.stream.capture(|scope| first.launch(scope)).unwrap();
    assert!(!busy.is_idle().unwrap(), "capturing waits for no other stream");
    recording.instantiate().unwrap().replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [1]);
}

#[test]
#[ignore = "needs a GPU"]
fn every_kind_of_node_does_what_the_stream_would_have_done() {
    let mut rig = Rig::new(2);
    let (a, b, c) = (rig.words(8, 0), rig.words(8, 0), rig.words(8, 0));
    let (mut on_a, mut on_b) = (step(&rig, &a), step(&rig, &b));
    let mut source = rig.device.pinned(32).unwrap();
    source.as_mut_slice().copy_from_slice(&[7; 32]);
    let (slab, source) = (rig.slab.clone(), Arc::new(source));
    let child = rig.stream.capture(|scope| on_b.launch(scope)).unwrap();
    let recording = rig.stream.capture(|scope| {
        scope.timestamp("start")?;
        scope.fill(&slab, &a, 0)?;
        scope.upload(&slab, &b, &source, 32)?;
        on_a.launch(scope)?;
        scope.child(&child)?;
        scope.child(&child)?;
        scope.copy(&slab, &b, &c)?;
        scope.timestamp("end")
    });
    let recording = recording.unwrap();
    println!("{}", recording.table());
    let mut graph = recording.instantiate().unwrap();
    drop((recording, child, on_a, on_b));
    for _ in 0..3 {
        graph.replay(&mut rig.stream).unwrap();
        assert_eq!(rig.read::<u32>(&a), [chain(1); 8]);
        let seven = 0x0707_0707u32.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        assert_eq!(rig.read::<u32>(&c), [seven.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); 8]);
        let time = graph.nanoseconds_between("start", "end").unwrap();
        assert!(time > 0 && time < 1_000_000_000, "{time}");
    }
    assert_eq!(Arc::strong_count(&source), 2, "the graph keeps its source");
}

#[test]
#[ignore = "needs a GPU"]
fn every_forbidden_call_of_this_crate_is_refused_and_the_capture_goes_on() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = increment(&rig, &word);
    let (device, slab) = (rig.device.clone(), rig.slab.clone());
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        let refused = [
            device.pinned(64).map(|_| ()),
            device.memory_info().map(|_| ()),
            device.close().map(|_| ()),
            Stream::new(&device).map(|_| ()),
            slab.grow(64 << 20).map(|_| ()),
        ];
        for outcome in refused {
            assert!(matches!(graph_error(outcome.unwrap_err()), GraphError::Capturing { .. }));
        }
        assert_eq!(device.collect()?, 0);
        kernel.launch(scope)
    });
    recording.unwrap().instantiate().unwrap().replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [2]);
}

#[test]
#[ignore = "needs a GPU"]
fn a_capture_that_another_library_spoils_is_told_and_the_next_one_works() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = increment(&rig, &word);
    let raw: sys::CUstream = rig.stream.raw().cast();
    let context: sys::CUcontext = rig.device.raw_context().cast();
    // SAFETY: the device keeps its context.
    let _ = unsafe { sys::cuCtxPushCurrent_v2(context) };
    for spoil in 0..3 {
        for _ in 0..20 {
            let error = rig.stream.capture(|scope| {
                kernel.launch(scope)?;
                let mut address = 0;
                let answer = match spoil {
                    // SAFETY: the stream is alive.
                    0 => unsafe { sys::cuStreamSynchronize(raw) },
                    // SAFETY: the pointer is valid for one address.
                    1 => unsafe { sys::cuMemAlloc_v2(&raw mut address, 1 << 20) },
                    // SAFETY: the stream is alive.
                    _ => unsafe { sys::cuStreamQuery(raw) },
                };
                assert_ne!(answer, sys::cudaError_enum::CUDA_SUCCESS);
                kernel.launch(scope)
            });
            let GraphError::Invalidated { when } = graph_error(error.unwrap_err()) else { panic!() };
            assert!(when.contains("cuLaunchKernelEx"), "{when}");
        }
        let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
        recording.instantiate().unwrap().replay(&mut rig.stream).unwrap();
        assert_eq!(rig.read::<u32>(&word), [spoil + 1]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn another_thread_that_waits_for_the_context_spoils_the_capture_and_one_that_allocates_does_not() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = increment(&rig, &word);
    let context: sys::CUcontext = rig.device.raw_context().cast();
    let device = rig.device.clone();
    let elsewhere = |work: &(dyn Fn() + Sync)| {
        std::thread::scope(|threads| threads.spawn(work).join().expect("the other thread"));
    };
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        elsewhere(&|| {
            device.pinned(1 << 20).unwrap();
            let mut stream = Stream::new(&device).unwrap();
            stream.synchronize().unwrap();
            device.memory_info().unwrap();
            // A module of its own, that nobody has loaded yet.
            let fresh = format!("{PLAIN}\n// for this thread alone\n");
            let spec = saxpy();
            // SAFETY: the image is the specification's own text but for a comment.
            unsafe { device.pipeline(&image(&fresh), &spec, &cuforge_core::Schedule::new([32, 1, 1])) }
                .unwrap();
            assert!(matches!(device.close(), Err(LaunchError::Graph(GraphError::Capturing { .. }))));
        });
        kernel.launch(scope)
    });
    recording.unwrap().instantiate().unwrap().replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [2]);
    let error = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        let context = context as usize;
        elsewhere(&|| {
            // SAFETY: the device keeps its context.
            let _ = unsafe { sys::cuCtxPushCurrent_v2(context as sys::CUcontext) };
            // SAFETY: as above.
            let _ = unsafe { sys::cuCtxSynchronize() };
        });
        kernel.launch(scope)
    });
    assert!(matches!(graph_error(error.unwrap_err()), GraphError::Invalidated { .. }));
    let again = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    again.instantiate().unwrap().replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [3]);
}

fn saxpy() -> cuforge_core::KernelSpec {
    use cuforge_core::{Access, DeclaredBlock, KernelSpec, Parameter};
    let parameters = vec![
        Parameter::buffer("y", 0, Element::F32, Access::StorageReadWrite),
        Parameter::buffer("x", 1, Element::F32, Access::StorageRead),
        Parameter::scalar("a", Element::F32),
        Parameter::scalar("n", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [32, 1, 1], items_per_invocation: 1 };
    // SAFETY: with n at most the element count of both buffers, each thread touches its own element of them.
    unsafe { KernelSpec::ptx("saxpy", "saxpy", PLAIN, parameters) }.with_declared_blocks(vec![block])
}

#[test]
#[ignore = "needs a GPU"]
fn work_that_escapes_to_the_legacy_stream_is_missed_at_the_end() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let at = rig.slab.address_of(&word).unwrap();
    let mut kernel = increment(&rig, &word);
    let context: sys::CUcontext = rig.device.raw_context().cast();
    for (legacy, expected) in [(false, None), (true, Some((1, 0)))] {
        let outcome = rig.stream.capture(|scope| {
            let fill = |raw: *mut std::ffi::c_void| {
                let stream = if legacy { std::ptr::null_mut() } else { raw.cast() };
                let mut popped = std::ptr::null_mut();
                // SAFETY: the device keeps its context.
                let _ = unsafe { sys::cuCtxPushCurrent_v2(context) };
                // SAFETY: live memory, and a live stream.
                let filled = unsafe { sys::cuMemsetD32Async(at, 5, 1, stream) };
                // SAFETY: the pointer is valid for one handle.
                let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
                assert_eq!(filled, sys::cudaError_enum::CUDA_SUCCESS);
                Ok(())
            };
            // SAFETY: the slab outlives the graph.
            unsafe { scope.raw(&[(NodeKind::Fill, 1)], fill) }?;
            kernel.launch(scope)
        });
        match expected {
            None => {
                outcome.unwrap().instantiate().unwrap().replay(&mut rig.stream).unwrap();
                assert_eq!(rig.read::<u32>(&word), [6]);
            }
            Some((recorded, captured)) => {
                let error = graph_error(outcome.unwrap_err());
                assert_eq!(error, GraphError::Census { kind: NodeKind::Fill, recorded, captured });
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn errors_and_panics_in_a_capture_leave_the_stream_usable_a_thousand_times() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = increment(&rig, &word);
    for at in 0..1000usize {
        let stream = &mut rig.stream;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            stream.capture(|scope| {
                for _ in 0..at % 5 {
                    kernel.launch(scope)?;
                }
                if at % 2 == 0 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                Err(LaunchError::PrefetchFull { depth: at })
            })
        }));
        assert!(outcome.is_err() || outcome.is_ok_and(|inner| inner.is_err()));
    }
    kernel.launch(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [1]);
    assert_eq!(rig.device.close().unwrap().drop_errors, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn branches_run_beside_each_other_and_a_late_one_is_waited_for_where_it_is_joined() {
    let mut rig = Rig::new(2);
    let (a, b, c) = (rig.words(1, 0), rig.words(1, 0), rig.words(1, 0));
    let priorities = Stream::priorities(&rig.device).unwrap();
    let mut side = Stream::with_priority(&rig.device, *priorities.start()).unwrap();
    let (mut slow, mut quick, mut after) = (late(&rig, &a, 20), increment(&rig, &b), increment(&rig, &a));
    let (slab, pending) = (rig.slab.clone(), rig.words(1, 0));
    // The side stream may have work of its own under way.
    late(&rig, &pending, 30).launch(&mut side).unwrap();
    let recording = rig.stream.capture(|scope| {
        quick.launch(scope)?;
        let mut branch = scope.fork(&mut side)?;
        slow.launch(&mut branch)?;
        quick.launch(scope)?;
        scope.join(branch)?;
        after.launch(scope)?;
        scope.copy(&slab, &a, &c)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    for round in 1..=5u32 {
        graph.replay(&mut rig.stream).unwrap();
        assert_eq!(rig.read::<u32>(&c), [2 * round]);
        assert_eq!(rig.read::<u32>(&b), [2 * round]);
    }
    let unjoined = rig.stream.capture(|scope| {
        quick.launch(scope)?;
        slow.launch(&mut scope.fork(&mut side)?)
    });
    assert_eq!(graph_error(unjoined.unwrap_err()), GraphError::Unjoined { branches: 1 });
    quick.launch(&mut side).unwrap();
    side.synchronize().unwrap();
    assert_eq!(rig.read::<u32>(&b), [11]);
}

#[test]
#[ignore = "needs a GPU"]
fn a_graph_dropped_in_flight_goes_on_and_its_memory_goes_to_nobody_before_it_is_done() {
    let mut rig = Rig::new(1);
    // The slab is one view and a little, so that its bytes could be granted anew at once.
    let big = rig.slab.acquire(&Request::new(1_000_000)).unwrap();
    let word = big.slice(0, 4).unwrap().bound_to(0, 0, cuforge_core::Access::StorageReadWrite).unwrap();
    let mut kernel = late(&rig, &word, 100);
    let mut graph = rig.stream.capture(|scope| kernel.launch(scope)).unwrap().instantiate().unwrap();
    drop(kernel);
    assert!(rig.slab.release(big).is_err(), "the graph holds it");
    graph.replay(&mut rig.stream).unwrap();
    drop(graph);
    assert!(!rig.stream.is_idle().unwrap(), "dropping waits for nothing");
    rig.slab.release(big).unwrap();
    assert!(rig.slab.acquire(&Request::new(1_000_000)).is_err(), "its bytes are in use");
    let slab = rig.slab.clone();
    let again = slab.acquire_waiting(&mut [&mut rig.stream], &Request::new(1_000_000)).unwrap();
    assert_eq!(rig.read::<u32>(&again.slice(0, 4).unwrap()), [1], "the replay was completed before");
}

#[test]
#[ignore = "needs a GPU"]
fn a_view_patched_away_in_flight_keeps_its_bytes_until_the_replay_is_done() {
    let mut rig = Rig::new(2);
    let (old, new) = (rig.words(1, 0), rig.words(1, 0));
    let mut kernel = late(&rig, &old, 50);
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.mark_view("out", 0, 0)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    drop(kernel);
    let slot = graph.view_slot("out").unwrap();
    graph.replay(&mut rig.stream).unwrap();
    graph.set_view(slot, &new).unwrap();
    rig.slab.release(old).unwrap();
    assert_eq!(rig.slab.reclaim(), 0);
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&new), [1]);
    assert!(rig.slab.reclaim() > 0);
}

#[test]
#[ignore = "needs a GPU"]
fn a_thread_without_a_context_sets_slots_and_replays() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = set(&rig, &word, 1);
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.mark_scalar::<u32>("value", "p1")?;
        scope.mark_grid("grid")
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    let (slab, mut stream) = (rig.slab.clone(), Stream::new(&rig.device).unwrap());
    let handle = std::thread::spawn(move || {
        let grid = graph.grid_slot("grid").unwrap();
        for value in [5u32, 6, 7] {
            graph.set_scalar("value", value).unwrap();
            graph.set_grid(grid, [u32::from(value != 6), 1, 1]).unwrap();
            graph.replay(&mut stream).unwrap();
            let expected = if value == 6 { 5 } else { value };
            assert_eq!(slab.read_vec::<u32>(&mut stream, &word).unwrap(), [expected]);
        }
        graph
    });
    let mut graph = handle.join().expect("the other thread");
    graph.set_scalar("value", 9u32).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&word), [9]);
}

#[test]
#[ignore = "needs a GPU"]
fn replays_with_patched_slots_give_each_its_own_result() {
    each_replay_has_its_patched_value(unless_sanitized(2_000, 300));
}

#[test]
#[ignore = "needs a GPU: soak: 100,000 replays"]
fn a_hundred_thousand_replays_with_patched_slots_give_each_its_own_result() {
    each_replay_has_its_patched_value(100_000);
}

fn each_replay_has_its_patched_value(rounds: u32) {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let slab = rig.slab.clone();
    let mut ring = ResultRing::new(&mut rig.stream, &slab, 4, 64).unwrap();
    let (mut kernel, mut more) = (set(&rig, &word, 0), increment(&rig, &word));
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.mark_scalar::<u32>("value", "p1")?;
        more.launch(scope)?;
        scope.post(&ring, &slab, &word)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    let slot = graph.scalar_slot::<u32>("value").unwrap();
    let mut taken = 0u32;
    let made = allocations(|| {
        for round in 0..rounds {
            graph.set(slot, round.wrapping_mul(2_654_435_761)).unwrap();
            while let Err(LaunchError::Graph(GraphError::ResultsFull { .. })) = graph.replay(&mut rig.stream)
            {
                assert_eq!(
                    ring.wait_value::<u32>().unwrap(),
                    taken.wrapping_mul(2_654_435_761).wrapping_add(1)
                );
                taken += 1;
            }
        }
        while taken < rounds {
            assert_eq!(ring.wait_value::<u32>().unwrap(), taken.wrapping_mul(2_654_435_761).wrapping_add(1));
            taken += 1;
        }
    });
    assert_eq!(made, 0);
    assert!(ring.poll().is_none());
}

#[test]
#[ignore = "needs a GPU"]
fn a_parameter_block_refilled_at_once_gives_each_replay_its_own_values() {
    each_replay_takes_its_values_along(u64::from(unless_sanitized(1_500, 200)));
}

#[test]
#[ignore = "needs a GPU: soak: 20,000 replays"]
fn a_parameter_block_refilled_at_once_gives_twenty_thousand_replays_their_own_values() {
    each_replay_takes_its_values_along(20_000);
}

fn each_replay_takes_its_values_along(rounds: u64) {
    let mut rig = Rig::new(2);
    let (fed, out) = (rig.words(300, 1), rig.words(300, 0));
    let slab = rig.slab.clone();
    let mut block = ParameterBlock::new(&mut rig.stream, &slab, &fed).unwrap();
    let mut ring = ResultRing::new(&mut rig.stream, &slab, 1200, 1024).unwrap();
    let pipeline = rig.kernel(text(&rig), "move", 32, &[Take::Buffer, Take::Read, SCALAR]);
    let arguments = Arguments { views: &[out, fed], by_value: &pack(&[300]) };
    let mut kernel = pipeline.bind(&slab, arguments, Extent::Elements(300)).unwrap();
    let recording = rig.stream.capture(|scope| {
        scope.feed(&mut block)?;
        kernel.launch(scope)?;
        scope.post(&ring, &slab, &out)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    let values = |round: u64| -> [u32; 300] { std::array::from_fn(|i| (round * 300 + i as u64) as u32) };
    let mut taken = 0;
    let check = |ring: &mut ResultRing, taken: &mut u64| {
        let expected = values(*taken);
        assert_eq!(ring.wait().unwrap(), bytemuck::cast_slice::<u32, u8>(&expected), "replay {taken}");
        *taken += 1;
    };
    for round in 0..rounds {
        block.set_bytes(bytemuck::cast_slice(&values(round))).unwrap();
        while graph.replay(&mut rig.stream).is_err() {
            check(&mut ring, &mut taken);
        }
    }
    while taken < rounds {
        check(&mut ring, &mut taken);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_moving_position_gives_the_same_as_eager_launches() {
    const LENGTH: u32 = 256;
    let mut rig = Rig::new(2);
    let (eager, list, position) = (rig.words(256, 0), rig.words(256, 0), rig.words(1, 1));
    let slab = rig.slab.clone();
    let mut block = ParameterBlock::new(&mut rig.stream, &slab, &position).unwrap();
    let takes = [Take::Buffer, Take::Read, SCALAR];
    let pipeline = rig.kernel(text(&rig), "append", 1, &takes);
    let bind = |list: BufferView| {
        let arguments = Arguments { views: &[list, position], by_value: &pack(&[LENGTH]) };
        pipeline.bind(&slab, arguments, Extent::Elements(1)).unwrap()
    };
    let (mut plain, mut captured) = (bind(eager), bind(list));
    let recording = rig.stream.capture(|scope| {
        scope.feed(&mut block)?;
        captured.launch(scope)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    for at in 0..LENGTH {
        block.set(&at).unwrap();
        graph.replay(&mut rig.stream).unwrap();
    }
    for at in 0..LENGTH {
        slab.write_from(&mut rig.stream, &position, &[at]).unwrap();
        plain.launch(&mut rig.stream).unwrap();
    }
    assert_eq!(rig.read::<u32>(&list), rig.read::<u32>(&eager));
    assert!(
        rig.read::<u32>(&list)
            .iter()
            .zip(0u32..)
            .all(|(found, at)| *found == at.wrapping_mul(2_654_435_761) + 1)
    );
}

fn mixed(
    rig: &mut Rig,
    views: [BufferView; 3],
    value: u32,
    byte: u8,
    source: &Arc<cuforge_launch::PinnedBuffer>,
) -> Recording {
    let [a, b, c] = views;
    let (mut first, mut second) = (set(rig, &a, value), increment(rig, &a));
    let slab = rig.slab.clone();
    let recording = rig.stream.capture(|scope| {
        first.launch(scope)?;
        scope.fill(&slab, &b, byte)?;
        second.launch(scope)?;
        scope.copy(&slab, &a, &c)?;
        scope.upload(&slab, &a, source, 4)
    });
    recording.unwrap()
}

#[test]
#[ignore = "needs a GPU"]
fn an_update_changes_kernels_fills_and_copies_in_place() {
    let mut rig = Rig::new(2);
    let views: [BufferView; 6] = std::array::from_fn(|_| rig.words(4, 0));
    let pinned = |rig: &Rig, byte: u8| {
        let mut buffer = rig.device.pinned(16).unwrap();
        buffer.as_mut_slice().fill(byte);
        Arc::new(buffer)
    };
    let (old, new) = (pinned(&rig, 1), pinned(&rig, 2));
    let mut graph = mixed(&mut rig, [views[0], views[1], views[2]], 10, 0x11, &old).instantiate().unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&views[2]), [11; 4]);
    let other = mixed(&mut rig, [views[3], views[4], views[5]], 20, 0x22, &new);
    for difference in graph.differences(&other) {
        println!("{difference}");
    }
    assert_eq!(graph.update(&other).unwrap(), 5);
    drop((other, old));
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&views[5]), [21; 4]);
    assert_eq!(rig.read::<u32>(&views[4]), [0x2222_2222; 4]);
    assert_eq!(rig.read::<u32>(&views[3])[0], 0x0202_0202);
    assert_eq!(rig.read::<u32>(&views[1]), [0x1111_1111; 4], "what is no longer in the graph stays");
    let (word, slab) = (views[0], rig.slab.clone());
    let mut kernel = increment(&rig, &word);
    let smaller = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    assert!(matches!(graph_error(graph.update(&smaller).unwrap_err()), GraphError::Differs { .. }));
    slab.fill(&mut rig.stream, &views[5], 0).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(rig.read::<u32>(&views[5]), [21; 4]);
}

#[test]
#[ignore = "needs a GPU: soak: 10,000 captures"]
fn ten_thousand_captures_leave_no_memory_behind() {
    let rounds = 10_000;
    let resident = || -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = step(&rig, &word);
    let mut cycle = |rig: &mut Rig| {
        let recording = rig.stream.capture(|scope| (0..4).try_for_each(|_| kernel.launch(scope))).unwrap();
        let mut graph = recording.instantiate().unwrap();
        graph.replay(&mut rig.stream).unwrap();
    };
    for _ in 0..rounds / 10 {
        cycle(&mut rig);
    }
    rig.stream.synchronize().unwrap();
    let before = (rig.device.graph_memory().unwrap(), rig.device.memory_info().unwrap().0, resident());
    for _ in 0..rounds {
        cycle(&mut rig);
    }
    rig.stream.synchronize().unwrap();
    let after = (rig.device.graph_memory().unwrap(), rig.device.memory_info().unwrap().0, resident());
    println!("{before:?} {after:?}");
    assert_eq!(before.0, after.0, "graph memory of the device");
    assert!(after.1 + (32 << 20) > before.1, "device memory: {} became {}", before.1, after.1);
    assert!(after.2 < before.2 + (32 << 20), "host memory: {} became {}", before.2, after.2);
    assert_eq!(rig.device.close().unwrap().drop_errors, 0);
    assert_eq!(rig.read::<u32>(&word), [chain(4 * (rounds + rounds / 10))]);
}

#[test]
#[ignore = "needs a GPU"]
fn programmatic_edges_change_no_result() {
    let mut rig = Rig::new(2);
    let word = rig.words(32, 0);
    let mut kernel = step(&rig, &word);
    let plain_kernel = rig.kernel(PLAIN, "fill", 32, &[Take::Buffer, SCALAR, SCALAR]);
    let arguments = Arguments { views: &[word], by_value: &pack(&[1, 32]) };
    let mut plain = plain_kernel.bind(&rig.slab, arguments, Extent::Elements(32)).unwrap();
    let options = LaunchOptions { programmatic: true, ..LaunchOptions::default() };
    let refused = rig.stream.capture(|scope| plain.launch_with(scope, options)).unwrap_err();
    assert_eq!(graph_error(refused), GraphError::DoesNotWait { entry: "fill".to_owned() });
    if rig.device.adapter().compute_capability.is_none_or(|capability| capability.major < 9) {
        // Before 9.0 the kernels of this text do not wait either.
        assert!(rig.stream.capture(|scope| kernel.launch_with(scope, options)).is_err());
        return;
    }
    let slab = rig.slab.clone();
    let recording = rig.stream.capture(|scope| {
        scope.fill(&slab, &word, 0)?;
        kernel.launch(scope)?;
        (0..99).try_for_each(|_| kernel.launch_with(scope, options))
    });
    let recording = recording.unwrap();
    let early =
        recording.table().rows.iter().flat_map(|row| row.depends_on.clone()).filter(|edge| edge.1).count();
    assert_eq!(early, 99);
    let mut graph = recording.instantiate().unwrap();
    for _ in 0..unless_sanitized(rig.rounds(1_000, 20), 10) {
        graph.replay(&mut rig.stream).unwrap();
    }
    assert_eq!(rig.read::<u32>(&word), [chain(100); 32]);
}

#[test]
#[ignore = "needs a GPU: loops on the device"]
fn a_device_loop_posts_while_it_runs_and_stops_when_told() {
    within(120, "a device loop and its results", || {
        let mut rig = Rig::new(2);
        let (slab, word, value) = (rig.slab.clone(), rig.words(1, 0), rig.words(1, 0));
        let mut ring = ResultRing::new(&mut rig.stream, &slab, 4, 4096).unwrap();
        let mut advance = step(&rig, &value);
        let mut slow = late(&rig, &rig.words(1, 0), 1);
        let mut down = bound(&rig, "count_down", &[Take::Buffer], &[word], &[]);
        let looped = rig.stream.device_loop(&slab, &word, 1000, |body| {
            advance.launch(body)?;
            slow.launch(body)?;
            down.launch(body)?;
            body.post(&ring, &slab, &value)
        });
        let mut looped = looped.unwrap();
        println!("on the device: {}", looped.is_on_device());
        slab.write_from(&mut rig.stream, &word, &[100u32]).unwrap();
        looped.run(&mut rig.stream).unwrap();
        let first = ring.wait_value::<u32>().unwrap();
        if looped.is_on_device() {
            assert!(!rig.stream.is_idle().unwrap(), "99 ms are left");
        }
        assert_eq!(first, chain(1));
        for turn in 2..=100 {
            assert_eq!(ring.wait_value::<u32>().unwrap(), chain(turn));
        }
        assert_eq!(looped.iterations(&mut rig.stream).unwrap(), 100);
        assert!(ring.poll().is_none());
        // At most as often as it was made for, and again and again.
        let mut turns = 100;
        for run in 0..20u32 {
            slab.write_from(&mut rig.stream, &word, &[run + 1]).unwrap();
            looped.run(&mut rig.stream).unwrap();
            assert_eq!(looped.iterations(&mut rig.stream).unwrap(), u64::from(run) + 1);
            for _ in 0..=run {
                turns += 1;
                assert_eq!(ring.wait_value::<u32>().unwrap(), chain(turns));
            }
        }
        drop(looped);
        assert_eq!(rig.read::<u32>(&value), [chain(turns)]);
        let empty = rig.stream.device_loop(&slab, &word, 3, |_| Ok(()));
        assert_eq!(graph_error(empty.map(|_| ()).unwrap_err()), GraphError::Empty);
    });
}

#[test]
#[ignore = "needs a GPU"]
fn the_branch_runs_that_the_word_says_and_no_other() {
    within(120, "conditional graphs", || {
        let mut rig = Rig::new(2);
        let (slab, word, out) = (rig.slab.clone(), rig.words(1, 0), rig.words(1, 0));
        let condition = match Condition::new(&mut rig.stream, &slab, &word) {
            Ok(condition) => condition,
            Err(error) => {
                // A driver before 12.4 names what it lacks.
                assert!(matches!(error, LaunchError::ImageRejected(_)), "{error}");
                return;
            }
        };
        let bodies: Vec<Recording> = (0..3)
            .map(|value| {
                let mut kernel = set(&rig, &out, 100 + value);
                rig.stream.capture(|scope| kernel.launch(scope)).unwrap()
            })
            .collect();
        let mut after = increment(&rig, &out);
        let one = rig.stream.capture(|scope| {
            scope.if_else(&condition, &bodies[0], None)?;
            after.launch(scope)
        });
        let mut one = one.unwrap().instantiate().unwrap();
        for (value, expected) in [(0u32, 1), (1, 101), (0, 102), (9, 101)] {
            slab.write_from(&mut rig.stream, &word, &[value]).unwrap();
            one.replay(&mut rig.stream).unwrap();
            assert_eq!(rig.read::<u32>(&out), [expected]);
        }
        let (major, minor) = (rig.device.driver().version().major, rig.device.driver().version().minor);
        let many = rig.stream.capture(|scope| {
            scope.switch(&condition, &[&bodies[0], &bodies[1], &bodies[2]])?;
            scope.if_else(&condition, &bodies[2], Some(&bodies[1]))?;
            after.launch(scope)
        });
        if (major, minor) < (12, 8) {
            assert!(many.is_err());
            return;
        }
        let mut many = many.unwrap().instantiate().unwrap();
        for (value, expected) in [(0u32, 102), (1, 103), (2, 103)] {
            slab.write_from(&mut rig.stream, &word, &[value]).unwrap();
            many.replay(&mut rig.stream).unwrap();
            assert_eq!(rig.read::<u32>(&out), [expected], "{value}");
        }
    });
}

#[test]
#[ignore = "needs a GPU"]
fn two_graphs_on_two_streams_and_readbacks_beside_them_do_not_stall() {
    within(60, "two graphs with readbacks", || {
        let mut rig = Rig::new(2);
        let (a, b) = (rig.words(32, 0), rig.words(32, 0));
        let (mut on_a, mut on_b) = (step(&rig, &a), step(&rig, &b));
        let mut side = Stream::new(&rig.device).unwrap();
        let record = |stream: &mut Stream, kernel: &mut BoundLaunch| {
            stream
                .capture(|scope| (0..20).try_for_each(|_| kernel.launch(scope)))
                .unwrap()
                .instantiate()
                .unwrap()
        };
        let mut first = record(&mut rig.stream, &mut on_a);
        let mut second = record(&mut side, &mut on_b);
        let slab = rig.slab.clone();
        let rounds = unless_sanitized(500, 50);
        for round in 1..=rounds {
            first.replay(&mut rig.stream).unwrap();
            second.replay(&mut side).unwrap();
            let ticket = slab.read_later(&mut side, &b).unwrap();
            if round % 50 == 0 {
                assert_eq!(ticket.wait_vec::<u32>().unwrap(), [chain(20 * round); 32]);
            }
        }
        assert_eq!(rig.read::<u32>(&a), [chain(20 * rounds); 32]);
    });
}

#[test]
#[ignore = "needs a GPU"]
fn nodes_by_the_thousand_are_captured_drawn_and_replayed() {
    let mut rig = Rig::new(2);
    let word = rig.words(1, 0);
    let mut kernel = step(&rig, &word);
    let recording = rig.stream.capture(|scope| (0..1000).try_for_each(|_| kernel.launch(scope))).unwrap();
    assert_eq!(recording.node_count(), 1000);
    let table = recording.table();
    assert!(table.rows.iter().enumerate().skip(1).all(|(at, row)| row.depends_on == [(at - 1, false)]));
    assert!(table.to_dot().lines().count() > 1999 && table.to_svg().len() > 100_000);
    let mut graph = recording.instantiate().unwrap();
    graph.replay_times(&mut rig.stream, 3).unwrap();
    assert_eq!(rig.read::<u32>(&word), [chain(3000)]);
}

#[test]
#[ignore = "needs a GPU"]
fn kernels_that_know_mapped_words_take_from_the_host_and_tell_it_by_themselves() {
    within(60, "a word in mapped memory", || {
        let mut rig = Rig::new(2);
        let pair = rig.words(2, 0);
        let words = Arc::new(rig.device.mapped_words(2).unwrap());
        let bind = |entry: &'static str, address: u64| {
            let pipeline = rig.kernel(text(&rig), entry, 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
            let by_value = address.to_le_bytes();
            let arguments = Arguments { views: &[pair], by_value: &by_value };
            pipeline.bind(&rig.slab, arguments, Extent::Elements(1)).unwrap()
        };
        let at = words.device_address();
        let (mut first, mut last) = (bind("fetch", at), bind("finish", at + 8));
        let recording = rig.stream.capture(|scope| {
            scope.keep(&words)?;
            first.launch(scope)?;
            last.launch(scope)
        });
        let mut graph = recording.unwrap().instantiate().unwrap();
        for turn in 1..=u64::from(unless_sanitized(1000, 100)) {
            words.store(0, turn * 3).unwrap();
            graph.replay(&mut rig.stream).unwrap();
            while words.load(1).unwrap() >> 32 != turn {
                std::hint::spin_loop();
            }
            assert_eq!(words.load(1).unwrap() & 0xffff_ffff, turn * 3 + 1);
        }
    });
}

/// A graph whose first kernel waits so long for the first word, and whose last one tells the second.
fn awaiting(rig: &mut Rig, pair: &BufferView, words: &Arc<MappedWords>, patience_ns: u64) -> Graph {
    let (at, wide) = (words.device_address(), Take::Scalar(Element::U64));
    let bind = |entry: &'static str, takes: &[Take], values: &[u64]| {
        let pipeline = rig.kernel(text(rig), entry, 1, takes);
        let arguments = Arguments { views: &[*pair], by_value: bytemuck::cast_slice(values) };
        pipeline.bind(&rig.slab, arguments, Extent::Elements(1)).unwrap()
    };
    let mut first = bind("await", &[Take::Buffer, wide, wide], &[at, patience_ns]);
    let mut last = bind("finish", &[Take::Buffer, wide], &[at + 8]);
    let recording = rig.stream.capture(|scope| {
        scope.keep(words)?;
        first.launch(scope)?;
        last.launch(scope)
    });
    recording.unwrap().instantiate().unwrap()
}

#[test]
#[ignore = "needs a GPU"]
fn a_replay_launched_ahead_waits_for_its_value_and_not_for_ever() {
    within(60, "replays launched ahead of their values", || {
        let mut rig = Rig::new(2);
        let pair = rig.words(2, 0);
        let words = Arc::new(rig.device.mapped_words(2).unwrap());
        let mut graph = awaiting(&mut rig, &pair, &words, 20_000_000_000);
        let (rounds, mut early) = (u64::from(unless_sanitized(rig.rounds(1000, 50), 50)), 0);
        graph.replay(&mut rig.stream).unwrap();
        for turn in 1..=rounds {
            // Without its value the replay that is on the device already tells nothing.
            early += u32::from(words.load(1).unwrap() >> 32 >= turn);
            words.store(0, (turn << 32) | (turn * 3)).unwrap();
            if turn < rounds {
                graph.replay(&mut rig.stream).unwrap();
            }
            while words.load(1).unwrap() >> 32 != turn {
                std::hint::spin_loop();
            }
            assert_eq!(words.load(1).unwrap() & 0xffff_ffff, turn * 3 + 1);
        }
        assert_eq!(early, 0);
        drop(graph);
        // A value that never comes is not waited for without end: the replay takes what is there.
        let mut graph = awaiting(&mut rig, &pair, &words, 10_000_000);
        graph.replay(&mut rig.stream).unwrap();
        rig.stream.synchronize().unwrap();
        assert_eq!(words.load(1).unwrap(), (rounds + 1) << 32 | (rounds * 3 + 1));
    });
}

/// Two branches, each setting a word, with slots `low` and `high` for the values: a copy whose nodes were taken for each
/// other would swap them.
fn two_branches(rig: &mut Rig, low: &BufferView, high: &BufferView) -> Recording {
    let (mut first, mut second) = (set(rig, low, 1), set(rig, high, 2));
    let mut side = Stream::new(&rig.device).unwrap();
    let recording = rig.stream.capture(|scope| {
        let mut branch = scope.fork(&mut side)?;
        first.launch(scope)?;
        scope.mark_scalar::<u32>("low", "p1")?;
        second.launch(&mut branch)?;
        branch.mark_scalar::<u32>("high", "p1")?;
        scope.join(branch)
    });
    recording.unwrap()
}

#[test]
#[ignore = "needs a GPU"]
fn slots_and_timestamps_inside_children_and_branches_are_set_and_read_from_outside() {
    within(60, "graphs with slots inside", || {
        let mut rig = Rig::new(2);
        let (slab, word) = (rig.slab.clone(), rig.words(1, 0));
        let (low, high) = (rig.words(1, 0), rig.words(1, 0));
        let inner = two_branches(&mut rig, &low, &high);
        let mut more = increment(&rig, &low);
        let timed = rig.stream.capture(|scope| {
            more.launch(scope)?;
            scope.timestamp("inside")
        });
        let timed = timed.unwrap();
        let recording = rig.stream.capture(|scope| {
            scope.timestamp("start")?;
            scope.child(&inner)?;
            scope.child(&timed)
        });
        let recording = recording.unwrap();
        let mut graph = recording.instantiate().unwrap();
        for (a, b) in [(1u32, 2u32), (10, 20), (10, 30), (11, 30)] {
            graph.set_scalar("low", a).unwrap();
            graph.set_scalar("high", b).unwrap();
            graph.replay(&mut rig.stream).unwrap();
            assert_eq!((rig.read::<u32>(&low)[0], rig.read::<u32>(&high)[0]), (a + 1, b));
        }
        assert!(graph.nanoseconds_between("start", "inside").unwrap() > 0);
        assert_eq!(graph.update(&recording).unwrap(), 2, "what slots had set inside is taken back");
        graph.replay(&mut rig.stream).unwrap();
        assert_eq!((rig.read::<u32>(&low)[0], rig.read::<u32>(&high)[0]), (2, 2));
        let Ok(condition) = Condition::new(&mut rig.stream, &slab, &word) else { return };
        let chosen = rig.stream.capture(|scope| scope.if_else(&condition, &inner, None)).unwrap();
        let mut graph = chosen.instantiate().unwrap();
        slab.write_from(&mut rig.stream, &word, &[1u32]).unwrap();
        for (a, b) in [(5u32, 6u32), (7, 6), (7, 8)] {
            graph.set_scalar("low", a).unwrap();
            graph.set_scalar("high", b).unwrap();
            graph.replay(&mut rig.stream).unwrap();
            assert_eq!((rig.read::<u32>(&low)[0], rig.read::<u32>(&high)[0]), (a, b));
        }
    });
}

#[test]
#[ignore = "needs a GPU: loops on the device"]
fn slots_inside_a_device_loop_are_set_from_outside() {
    within(60, "device loops with slots inside", || {
        let mut rig = Rig::new(2);
        let (slab, word, sum) = (rig.slab.clone(), rig.words(1, 0), rig.words(1, 0));
        let (low, high) = (rig.words(1, 0), rig.words(1, 0));
        let inner = two_branches(&mut rig, &low, &high);
        let (mut more, mut start) = (increment(&rig, &sum), set(&rig, &low, 0));
        let mut looped = rig
            .stream
            .device_loop(&slab, &word, 5, |body| {
                more.launch(body)?;
                start.launch(body)?;
                body.mark_scalar::<u32>("start", "p1")?;
                body.child(&inner)
            })
            .unwrap();
        slab.write_from(&mut rig.stream, &word, &[1u32]).unwrap();
        for (turn, (a, b)) in (1u32..).zip([(1u32, 2u32), (10, 20), (11, 20)]) {
            looped.graph_mut().set_scalar("start", 0u32).unwrap();
            looped.graph_mut().set_scalar("low", a).unwrap();
            looped.graph_mut().set_scalar("high", b).unwrap();
            looped.run(&mut rig.stream).unwrap();
            assert_eq!(looped.iterations(&mut rig.stream).unwrap(), 5);
            assert_eq!((rig.read::<u32>(&low)[0], rig.read::<u32>(&high)[0]), (a, b));
            assert_eq!(rig.read::<u32>(&sum), [5 * turn]);
        }
    });
}

/// The device is lost to the process in which it faults, so that is a process of its own.
#[test]
#[ignore = "needs a GPU: faults on purpose"]
fn a_fault_inside_a_replay_is_final_and_its_graph_goes_in_peace() {
    if std::env::var_os("CUFORGE_CHILD").is_none() {
        let said = in_a_new_process("a_fault_inside_a_replay_is_final_and_its_graph_goes_in_peace");
        assert!(said.contains("dropped in peace"), "{said}");
        return;
    }
    let mut rig = Rig::new(2);
    let (out, word) = (rig.words(1, 0), rig.words(1, 0));
    let stray = rig.kernel(PLAIN, "stray", 32, &[Take::Buffer]);
    let mut stray =
        stray.bind(&rig.slab, Arguments { views: &[out], by_value: &[] }, Extent::Elements(32)).unwrap();
    let mut kernel = increment(&rig, &word);
    let (slab, mut ring) = (rig.slab.clone(), ResultRing::new(&mut rig.stream, &rig.slab, 4, 8).unwrap());
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.mark_scalar::<u32>("n", "p1")?;
        stray.launch(scope)?;
        scope.post(&ring, &slab, &word)
    });
    let recording = recording.unwrap();
    let mut graph = recording.instantiate().unwrap();
    graph.replay(&mut rig.stream).unwrap();
    // The result of a replay that faulted never comes: whoever waits for it is told.
    let error = ring.wait().map(|_| ()).unwrap_err();
    println!("{error}");
    let LaunchError::DeviceLost { first } = error else { panic!("{error}") };
    assert_eq!(first.code(), 700);
    graph.set_scalar("n", 0u32).unwrap();
    let later = [
        graph.replay(&mut rig.stream).unwrap_err(),
        graph.upload(&mut rig.stream).unwrap_err(),
        graph
            .update(&recording)
            .map(|_| ())
            .err()
            .unwrap_or_else(|| graph.replay(&mut rig.stream).unwrap_err()),
        recording.instantiate().map(|_| ()).unwrap_err(),
        rig.stream.capture(|scope| kernel.launch(scope)).map(|_| ()).unwrap_err(),
        rig.stream.synchronize().unwrap_err(),
    ];
    for error in later {
        assert!(matches!(&error, LaunchError::DeviceLost { first: same } if *same == first), "{error}");
    }
    drop((graph, recording, kernel, stray, ring, slab));
    rig.slab.release(out).unwrap();
    println!("dropped in peace");
}
