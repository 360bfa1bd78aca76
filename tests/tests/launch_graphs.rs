//! Captures and graphs on a simulated driver: what is recorded is what runs, what does not fit is named, nothing leaks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program, its helpers included"
)]

mod launch_support;

use cuforge_core::{Access, Arguments, BufferView, Extent, LaunchGeometry};
use cuforge_launch::{
    BoundLaunch, Condition, Graph, GraphCache, GraphError, LaunchError, NodeKind, ParameterBlock, Recording,
    ResultRing, Slab, Stream,
};
use cuforge_tests::sim::Sim;
use launch_support::{Counting, Rig, allocations};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Every float is raised by its own `x`.
fn increment(rig: &Rig) -> BoundLaunch {
    bind(rig, &[rig.y, rig.x], 1.0)
}

fn bind(rig: &Rig, views: &[BufferView], a: f32) -> BoundLaunch {
    let values = rig.values(a);
    rig.pipeline.bind(&rig.slab, Arguments { views, by_value: &values }, rig.extent()).unwrap()
}

/// A rig whose `y` is 0 and whose `x` is 1 everywhere.
fn rig(n: u32) -> Rig {
    let mut rig = Rig::new(n);
    let (slab, y, x) = (rig.slab.clone(), rig.y, rig.x);
    slab.write_from(&mut rig.stream, &y, &vec![0f32; n as usize]).unwrap();
    slab.write_from(&mut rig.stream, &x, &vec![1f32; n as usize]).unwrap();
    rig
}

fn read(rig: &mut Rig, view: &BufferView) -> Vec<f32> {
    let slab = rig.slab.clone();
    slab.read_vec(&mut rig.stream, view).unwrap()
}

/// What `y` holds.
fn sums(rig: &mut Rig) -> Vec<f32> {
    let y = rig.y;
    read(rig, &y)
}

fn graph_error(error: LaunchError) -> GraphError {
    match error {
        LaunchError::Graph(error) => error,
        other => panic!("{other}"),
    }
}

/// The stream works, nothing is capturing, and no graph is left.
fn all_is_well(rig: &mut Rig) {
    assert_eq!(rig.sim.graphs(), [0, 0, 0]);
    let mut kernel = increment(rig);
    let before = rig.sim.launches();
    kernel.launch(&mut rig.stream).unwrap();
    rig.stream.synchronize().unwrap();
    assert_eq!(rig.sim.launches(), before + 1);
    assert_eq!(rig.device.close().unwrap().drop_errors, 0);
}

#[test]
fn an_increment_is_one_node_and_two_replays_give_two_without_an_allocation() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    assert_eq!(recording.node_count(), 1);
    let mut graph = recording.instantiate().unwrap();
    assert_eq!(sums(&mut rig), [0.0; 4], "a capture runs nothing");
    let (slab, y, mut out) = (rig.slab.clone(), rig.y, [0f32; 1]);
    let before = rig.sim.calls("");
    let made = allocations(|| {
        graph.replay(&mut rig.stream).unwrap();
        graph.replay(&mut rig.stream).unwrap();
    });
    assert_eq!((rig.sim.calls("") - before, made), (2, 0), "one driver call a replay");
    let made = allocations(|| {
        slab.read_into(&mut rig.stream, &y, &mut out).unwrap();
        assert_eq!(out, [2.0]);
        slab.write_from(&mut rig.stream, &y, &[10f32]).unwrap();
        graph.replay(&mut rig.stream).unwrap();
        slab.read_into(&mut rig.stream, &y, &mut out).unwrap();
    });
    assert_eq!((out, made), ([11.0], 0), "a write is ordered before the next replay");
}

#[test]
fn launch_code_is_the_same_for_a_stream_and_a_scope_bound_or_not() {
    fn all(
        on: &mut impl cuforge_launch::Submit,
        rig: (&cuforge_launch::Pipeline, &Slab, [BufferView; 2], &[u8]),
    ) {
        let (pipeline, slab, views, by_value) = rig;
        let arguments = Arguments { views: &views, by_value };
        pipeline.bind(slab, arguments, Extent::Elements(4)).unwrap().launch(on).unwrap();
        pipeline.launch(on, slab, arguments, Extent::Elements(4)).unwrap();
        pipeline.launch(on, slab, arguments, Extent::Elements(0)).unwrap();
    }
    let mut rig = rig(4);
    let (pipeline, slab, views, values) =
        (rig.pipeline.clone(), rig.slab.clone(), [rig.y, rig.x], rig.values(1.0));
    let parts = (&pipeline, &slab, views, &values[..]);
    all(&mut rig.stream, parts);
    let recording = rig.stream.capture(|scope| {
        all(scope, parts);
        Ok(())
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    assert_eq!(graph.node_count(), 2, "an empty extent launches nothing");
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [4.0; 4]);
}

#[test]
fn an_empty_capture_is_an_error_and_the_stream_goes_on() {
    let mut rig = rig(4);
    assert_eq!(graph_error(rig.stream.capture(|_| Ok(())).unwrap_err()), GraphError::Empty);
    all_is_well(&mut rig);
}

#[test]
fn errors_and_panics_at_any_launch_end_the_capture_and_leave_nothing() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    for round in 0..200 {
        for at in 0..3 {
            let error = rig.stream.capture(|scope| {
                for _ in 0..at {
                    kernel.launch(scope)?;
                }
                Err(LaunchError::PrefetchFull { depth: at })
            });
            assert!(matches!(error, Err(LaunchError::PrefetchFull { depth }) if depth == at));
            let stream = &mut rig.stream;
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                stream.capture(|scope| {
                    for _ in 0..at {
                        kernel.launch(scope)?;
                    }
                    std::panic::resume_unwind(Box::new("on purpose"))
                })
            }));
            assert!(panicked.is_err());
        }
        assert_eq!(rig.sim.graphs(), [0, 0, 0], "round {round}");
    }
    all_is_well(&mut rig);
}

#[test]
fn a_driver_that_refuses_a_launch_or_the_end_leaves_nothing() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    for (call, at) in [
        ("cuLaunchKernelEx", 2),
        ("cuStreamBeginCapture_v2", 1),
        ("cuStreamEndCapture", 1),
        ("cuGraphGetNodes", 1),
        ("cuGraphGetEdges_v2", 1),
        ("cuStreamGetCaptureInfo_v3", 2),
    ] {
        rig.sim.fail(call, at, 2);
        let error = rig.stream.capture(|scope| {
            kernel.launch(scope)?;
            kernel.launch(scope)
        });
        rig.sim.fail(call, 0, 0);
        assert!(matches!(error, Err(LaunchError::Driver(inner)) if inner.code() == 2), "{call}: {error:?}");
        assert_eq!(rig.sim.graphs(), [0, 0, 0], "{call}");
    }
    let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    rig.sim.fail("cuGraphInstantiateWithFlags", 1, 2);
    assert!(recording.instantiate().is_err());
    rig.sim.fail("cuGraphInstantiateWithFlags", 0, 0);
    drop(recording);
    all_is_well(&mut rig);
}

#[test]
fn what_a_capture_does_not_allow_is_refused_before_the_driver_hears_of_it_and_the_capture_goes_on() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let (device, slab, x) = (rig.device.clone(), rig.slab.clone(), rig.x);
    let mut other = Stream::new(&device).unwrap();
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        let refused = [
            device.pinned(64).map(|_| ()).unwrap_err(),
            device.memory_info().map(|_| ()).unwrap_err(),
            device.close().map(|_| ()).unwrap_err(),
            Stream::new(&device).map(|_| ()).unwrap_err(),
            slab.grow(64 << 20).map(|_| ()).unwrap_err(),
            Slab::new(&device, launch_support::FirstFit::boxed(4096), Default::default())
                .map(|_| ())
                .unwrap_err(),
            // The ring of a stream is made by its first write.
            slab.write(&mut other, &x, &[0; 4]).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, LaunchError::Graph(GraphError::Capturing { .. })), "{error}");
        }
        assert_eq!(device.collect()?, 0);
        kernel.launch(scope)
    });
    assert_eq!(recording.unwrap().node_count(), 2);
    all_is_well(&mut rig);
}

#[test]
fn a_call_of_another_library_that_spoils_the_capture_is_told_with_its_place_and_the_next_capture_works() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let synchronize =
        rig.sim.function::<unsafe extern "C" fn(*mut c_void) -> c_int>("cuStreamSynchronize").unwrap();
    let raw = rig.stream.raw();
    let error = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { synchronize(raw) }, 900);
        kernel.launch(scope)
    });
    let GraphError::Invalidated { when } = graph_error(error.unwrap_err()) else { panic!() };
    assert!(when.contains("cuLaunchKernelEx"), "{when}");
    let error = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        // SAFETY: as above.
        unsafe { synchronize(raw) };
        Ok(())
    });
    let GraphError::Invalidated { when } = graph_error(error.unwrap_err()) else { panic!() };
    assert!(when.contains("the end of node 1"), "{when}");
    let error = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        // SAFETY: as above.
        unsafe { synchronize(raw) };
        scope.fill(&rig.slab, &rig.x, 0)
    });
    let GraphError::Invalidated { when } = graph_error(error.unwrap_err()) else { panic!() };
    assert!(when.contains("a fill of node 1"), "{when}");
    all_is_well(&mut rig);
}

type Fill = unsafe extern "C" fn(u64, u8, usize, *mut c_void) -> c_int;

#[test]
fn work_of_another_library_is_counted_and_what_escapes_or_strays_is_named() {
    let mut rig = rig(4);
    let fill = rig.sim.function::<Fill>("cuMemsetD8Async").unwrap();
    let at = rig.slab.address_of(&rig.x).unwrap();
    let elsewhere = Stream::new(&rig.device).unwrap();
    let record = |rig: &mut Rig, expected: usize, here: usize, there: usize| {
        rig.stream.capture(|scope| {
            let submit = |raw| {
                for _ in 0..here {
                    // SAFETY: live memory, and a live stream.
                    assert_eq!(unsafe { fill(at, 1, 4, raw) }, 0);
                }
                for _ in 0..there {
                    // SAFETY: as above.
                    assert_eq!(unsafe { fill(at, 1, 4, elsewhere.raw()) }, 0);
                }
                Ok(())
            };
            // SAFETY: the slab outlives the graph.
            unsafe { scope.raw(&[(NodeKind::Fill, expected)], submit) }
        })
    };
    assert_eq!(record(&mut rig, 2, 2, 0).unwrap().node_count(), 2);
    let census = |recorded, captured| GraphError::Census { kind: NodeKind::Fill, recorded, captured };
    assert_eq!(graph_error(record(&mut rig, 2, 1, 1).unwrap_err()), census(2, 1), "one escaped");
    assert_eq!(graph_error(record(&mut rig, 1, 2, 0).unwrap_err()), census(1, 2), "one strayed in");
    drop(elsewhere);
    all_is_well(&mut rig);
}

#[test]
fn forks_run_beside_each_other_and_one_that_is_not_joined_is_an_error() {
    let mut rig = rig(4);
    let (mut kernel, mut beside) = (increment(&rig), bind(&rig, &[rig.y, rig.x], 10.0));
    let mut side = Stream::new(&rig.device).unwrap();
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        let mut branch = scope.fork(&mut side)?;
        beside.launch(&mut branch)?;
        kernel.launch(scope)?;
        scope.join(branch)?;
        kernel.launch(scope)
    });
    let mut graph = recording.unwrap().instantiate().unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [13.0; 4]);
    let unjoined = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        beside.launch(&mut scope.fork(&mut side)?)
    });
    assert_eq!(graph_error(unjoined.unwrap_err()), GraphError::Unjoined { branches: 1 });
    beside.launch(&mut side).unwrap();
    side.synchronize().unwrap();
    drop((graph, side));
    all_is_well(&mut rig);
}

#[test]
fn a_branch_that_outlives_its_capture_takes_nothing_more_and_its_stream_is_free() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let mut side = Stream::new(&rig.device).unwrap();
    let mut kept = None;
    let outcome = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        kept = Some(scope.fork(&mut side)?);
        Ok(())
    });
    // A branch without a node leaves nothing to join.
    drop(outcome);
    let late = kernel.launch(kept.as_mut().unwrap()).unwrap_err();
    assert_eq!(graph_error(late), GraphError::Ended);
    drop(kept);
    kernel.launch(&mut side).unwrap();
    drop(side);
    all_is_well(&mut rig);
}

#[test]
fn a_stream_that_was_forked_takes_nothing_else_until_the_capture_ends() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let mut side = Stream::new(&rig.device).unwrap();
    let (slab, x) = (rig.slab.clone(), rig.x);
    let outcome = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        drop(scope.fork(&mut side)?);
        let capturing = |error: LaunchError| {
            assert_eq!(graph_error(error), GraphError::Capturing { what: "the stream" });
        };
        capturing(side.synchronize().unwrap_err());
        capturing(side.is_idle().map(|_| ()).unwrap_err());
        capturing(kernel.launch(&mut side).unwrap_err());
        capturing(slab.fill(&mut side, &x, 0).unwrap_err());
        Ok(())
    });
    assert_eq!(outcome.unwrap().node_count(), 1);
    side.synchronize().unwrap();
    drop(side);
    all_is_well(&mut rig);
}

#[test]
fn tickets_of_before_are_waited_for_during_a_capture_without_harm() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let mut side = Stream::new(&rig.device).unwrap();
    let (slab, x) = (rig.slab.clone(), rig.x);
    side.wait_for(&mut rig.stream).unwrap();
    let ticket = slab.read_later(&mut side, &x).unwrap();
    let recording = rig.stream.capture(|scope| {
        let mut branch = scope.fork(&mut side)?;
        kernel.launch(&mut branch)?;
        assert_eq!(ticket.wait_vec::<f32>()?, [1.0; 4]);
        scope.join(branch)
    });
    assert_eq!(recording.unwrap().node_count(), 1);
}

#[test]
fn fills_copies_uploads_children_and_timestamps_are_nodes_too() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let inner = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    let mut source = rig.device.pinned(16).unwrap();
    source.as_mut_slice().copy_from_slice(bytemuck::bytes_of(&[5f32; 4]));
    let (source, slab, y, x) = (Arc::new(source), rig.slab.clone(), rig.y, rig.x);
    let z = rig.view(16);
    let recording = rig.stream.capture(|scope| {
        scope.timestamp("start")?;
        scope.fill(&slab, &y, 0)?;
        scope.upload(&slab, &x, &source, 16)?;
        scope.child(&inner)?;
        scope.child(&inner)?;
        scope.copy(&slab, &y, &z)?;
        scope.timestamp("end")?;
        assert!(scope.timestamp("end").is_err(), "a name is taken once");
        assert!(matches!(scope.upload(&slab, &x, &source, 17), Err(LaunchError::TooLong { .. })));
        Ok(())
    });
    let recording = recording.unwrap();
    assert_eq!(recording.node_count(), 7);
    let mut graph = recording.instantiate().unwrap();
    assert_eq!(Arc::strong_count(&source), 3, "recording and graph own the source");
    drop((recording, inner, kernel));
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &z), [10.0; 4]);
    assert!(graph.nanoseconds_between("start", "end").unwrap() > 0);
    let missing = graph.nanoseconds_between("start", "stop").unwrap_err();
    assert_eq!(graph_error(missing), GraphError::NoSuchTimestamp { name: "stop".to_owned() });
    drop(graph);
    assert_eq!(Arc::strong_count(&source), 1);
    all_is_well(&mut rig);
}

#[test]
fn a_graph_owns_its_views_its_module_and_its_stream_and_lets_go_when_its_last_replay_is_done() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let mut graph = rig.stream.capture(|scope| kernel.launch(scope)).unwrap().instantiate().unwrap();
    drop(kernel);
    let pinned = |rig: &Rig| matches!(rig.slab.release(rig.y), Err(LaunchError::Ledger(_)));
    assert!(pinned(&rig), "the graph pins its views");
    assert_eq!(rig.device.trim_pipelines(), 0);
    let stream = std::mem::replace(&mut rig.stream, Stream::new(&rig.device).unwrap());
    drop(stream);
    rig.sim.hold(true);
    graph.replay(&mut rig.stream).unwrap();
    drop(graph);
    assert_eq!(rig.sim.graphs(), [0, 0, 0], "destroyed at once, in flight");
    rig.slab.release(rig.y).unwrap();
    assert_eq!(rig.slab.reclaim(), 0, "still in use by the replay");
    rig.sim.hold(false);
    rig.stream.synchronize().unwrap();
    assert_eq!(rig.slab.reclaim(), 16);
}

#[test]
fn a_graph_is_replayed_from_another_thread() {
    fn send<T: Send>(_: &T) {}
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    send(&recording);
    let mut graph = recording.instantiate().unwrap();
    let mut stream = Stream::new(&rig.device).unwrap();
    let mut graph = std::thread::spawn(move || {
        graph.replay_times(&mut stream, 3).unwrap();
        stream.synchronize().unwrap();
        graph
    })
    .join()
    .unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [4.0; 4]);
}

#[test]
fn many_captures_leave_no_graph_and_no_handle() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let rounds = if std::env::var_os("CUFORGE_LONG").is_some() { 10_000 } else { 500 };
    let mut made = Vec::new();
    for _ in 0..rounds {
        let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
        let mut graph = recording.instantiate().unwrap();
        graph.replay(&mut rig.stream).unwrap();
        made.push(rig.sim.graphs());
    }
    assert!(made.iter().all(|live| *live == [1, 1, 0]));
    drop(kernel);
    all_is_well(&mut rig);
}

/// A graph of `count` kernels, the scalar `a` of each one slot, the grid another, both views too.
fn slotted(rig: &mut Rig, count: usize) -> (Recording, Graph) {
    let mut kernel = increment(rig);
    let recording = rig.stream.capture(|scope| {
        for _ in 0..count {
            kernel.launch(scope)?;
            scope.mark_scalar::<f32>("a", "a")?;
            scope.mark_grid("grid")?;
            scope.mark_view("y", 0, 0)?;
            scope.mark_view("x", 0, 1)?;
        }
        Ok(())
    });
    let recording = recording.unwrap();
    let graph = recording.instantiate().unwrap();
    (recording, graph)
}

#[test]
fn a_slot_is_patched_once_where_it_changed_and_without_an_allocation() {
    let mut rig = rig(4);
    let (_recording, mut graph) = slotted(&mut rig, 3);
    let slot = graph.scalar_slot::<f32>("a").unwrap();
    let mut cost = |value: f32, replays: usize| {
        let before = (rig.sim.calls(""), rig.sim.calls("cuGraphExecKernelNodeSetParams_v2"));
        let made = allocations(|| {
            graph.set(slot, value).unwrap();
            graph.replay_times(&mut rig.stream, replays).unwrap();
        });
        let patches = rig.sim.calls("cuGraphExecKernelNodeSetParams_v2") - before.1;
        (rig.sim.calls("") - before.0, patches, made)
    };
    assert_eq!(cost(1.0, 1), (1, 0, 0), "the same value");
    // Three more calls have the context current, which the driver wants.
    assert_eq!(cost(2.0, 1), (7, 3, 0), "three kernels have it");
    assert_eq!(cost(2.0, 2), (2, 0, 0));
    assert_eq!(cost(0.5, 2), (8, 3, 0));
    assert_eq!(sums(&mut rig), [3.0 + 6.0 + 12.0 + 3.0; 4]);
}

#[test]
fn slots_are_checked_against_the_kernel_and_misuse_is_named() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let slab = rig.slab.clone();
    let x = rig.x;
    let recording = rig.stream.capture(|scope| {
        let nothing = graph_error(scope.mark_grid("g").unwrap_err());
        assert_eq!(nothing, GraphError::NothingToMark { slot: "g".to_owned() });
        kernel.launch(scope)?;
        let text = |outcome: Result<(), LaunchError>| outcome.unwrap_err().to_string();
        assert_eq!(text(scope.mark_scalar::<f32>("a", "b")), "slot `a`: kernel `saxpy` has no scalar `b`");
        assert_eq!(text(scope.mark_scalar::<u32>("a", "a")), "slot `a` is a scalar f32, not u32");
        let none = text(scope.mark_view("v", 0, 7));
        assert_eq!(none, "slot `v`: kernel `saxpy` has no buffer at group 0 binding 7");
        let block = text(scope.mark_uniform::<u64>("u"));
        assert_eq!(block, "slot `u`: kernel `saxpy` has no uniform block");
        scope.mark_scalar::<f32>("a", "a")?;
        assert_eq!(text(scope.mark_grid("a")), "slot `a` is a scalar f32, not a grid");
        scope.fill(&slab, &x, 0)?;
        assert!(matches!(scope.mark_grid("g"), Err(LaunchError::Graph(GraphError::NothingToMark { .. }))));
        Ok(())
    });
    let recording = recording.unwrap();
    let (mut graph, other) = (recording.instantiate().unwrap(), slotted(&mut rig, 1).1);
    assert!(matches!(graph.scalar_slot::<f32>("b"), Err(GraphError::NoSuchSlot { .. })));
    assert!(matches!(graph.scalar_slot::<u32>("a"), Err(GraphError::SlotType { .. })));
    assert!(matches!(graph.view_slot("a"), Err(GraphError::SlotType { .. })));
    let foreign = graph.set(other.scalar_slot::<f32>("a").unwrap(), 1.0).unwrap_err();
    assert_eq!(graph_error(foreign), GraphError::ForeignSlot);
    graph.set_scalar("a", 2f32).unwrap();
}

#[test]
fn a_grid_slot_is_checked_and_an_empty_grid_runs_nothing() {
    let mut rig = rig(300);
    let (_recording, mut graph) = slotted(&mut rig, 1);
    let grid = graph.grid_slot("grid").unwrap();
    assert!(matches!(graph.set_grid(grid, [1, 70_000, 1]), Err(LaunchError::Schedule(_))));
    graph.set_grid(grid, [1, 1, 1]).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    let total = |rig: &mut Rig| sums(rig).iter().sum::<f32>();
    assert_eq!(total(&mut rig), 128.0);
    graph.set_grid(grid, [0, 1, 1]).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(total(&mut rig), 128.0);
    graph.set_grid(grid, [3, 1, 1]).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(total(&mut rig), 428.0);
    let geometry = LaunchGeometry { grid: [3, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
    assert!(rig.pipeline.geometry(Extent::Geometry(geometry)).is_ok());
}

#[test]
fn a_view_slot_moves_the_lease_and_the_old_view_stays_until_its_replays_are_done() {
    let mut rig = rig(4);
    let (recording, mut graph) = slotted(&mut rig, 2);
    drop(recording);
    let slot = graph.view_slot("y").unwrap();
    let new = rig.view(16);
    let (slab, mut out) = (rig.slab.clone(), [0f32; 4]);
    slab.fill(&mut rig.stream, &new, 0).unwrap();
    rig.sim.hold(true);
    graph.replay(&mut rig.stream).unwrap();
    let made = allocations(|| graph.set_view(slot, &new).unwrap());
    assert_eq!(made, 0);
    slab.release(rig.y).unwrap();
    assert_eq!(slab.reclaim(), 0, "the old view is in use by the replay in flight");
    assert!(slab.release(new).is_err(), "the new one is pinned");
    rig.sim.hold(false);
    graph.replay(&mut rig.stream).unwrap();
    slab.read_into(&mut rig.stream, &new, &mut out).unwrap();
    assert_eq!(out, [2.0; 4]);
    assert_eq!(slab.reclaim(), 16);
    // What does not fit changes nothing.
    let small = rig.view(6);
    assert!(matches!(graph.set_view(slot, &small), Err(LaunchError::Bind(_))));
    let read_only = rig.x.bound_to(0, 1, Access::StorageRead).unwrap();
    assert!(matches!(graph.set_view(slot, &read_only), Err(LaunchError::View(_))));
    graph.replay(&mut rig.stream).unwrap();
    slab.read_into(&mut rig.stream, &new, &mut out).unwrap();
    assert_eq!(out, [4.0; 4]);
}

#[test]
fn a_failed_patch_is_tried_again_before_the_next_replay() {
    let mut rig = rig(4);
    let (_recording, mut graph) = slotted(&mut rig, 2);
    graph.set_scalar("a", 5f32).unwrap();
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 2, 2);
    assert!(graph.replay(&mut rig.stream).is_err());
    assert_eq!(sums(&mut rig), [0.0; 4], "nothing ran");
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 0, 0);
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [10.0; 4]);
}

#[test]
fn a_replay_on_a_stream_of_another_device_or_in_a_capture_is_refused() {
    let mut rig = rig(4);
    let (_recording, mut graph) = slotted(&mut rig, 1);
    let other = Sim::new(&[]).unwrap().device().unwrap();
    let mut stream = Stream::new(&other).unwrap();
    assert!(matches!(graph.replay(&mut stream), Err(LaunchError::OtherDevice { .. })));
    let mut side = Stream::new(&rig.device).unwrap();
    let mut kernel = increment(&rig);
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        let branch = scope.fork(&mut side)?;
        scope.join(branch)?;
        let refused = graph_error(graph.replay(&mut side).unwrap_err());
        assert_eq!(refused, GraphError::Capturing { what: "the stream" });
        Ok(())
    });
    assert!(recording.is_ok());
    graph.replay(&mut rig.stream).unwrap();
}

#[test]
fn a_driver_without_graphs_says_which_function_it_lacks() {
    let mut rig = Rig::on(Sim::without(&["cuStreamBeginCapture_v2"]).unwrap(), 4);
    let error = rig.stream.capture(|_| Ok(())).unwrap_err();
    assert!(matches!(error, LaunchError::MissingSymbol { symbol: "cuStreamBeginCapture_v2", .. }), "{error}");
    rig.stream.synchronize().unwrap();
}

#[test]
fn older_functions_serve_where_the_newer_are_missing() {
    for symbol in ["cuStreamGetCaptureInfo_v3", "cuGraphGetEdges_v2", "cuStreamUpdateCaptureDependencies_v2"]
    {
        let mut rig = Rig::on(Sim::without(&[symbol]).unwrap(), 4);
        let mut kernel = increment(&rig);
        let inner = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
        let recording = rig.stream.capture(|scope| {
            kernel.launch(scope)?;
            scope.child(&inner)
        });
        assert_eq!(recording.unwrap().node_count(), 2, "{symbol}");
    }
}

/// Two kernels, a fill and a copy; what differs is given.
fn mixed(rig: &mut Rig, a: f32, byte: u8, to: &BufferView) -> Recording {
    let (mut first, mut second) = (bind(rig, &[rig.y, rig.x], a), increment(rig));
    let (slab, y) = (rig.slab.clone(), rig.y);
    let recording = rig.stream.capture(|scope| {
        scope.fill(&slab, &y, byte)?;
        first.launch(scope)?;
        second.launch(scope)?;
        scope.copy(&slab, &y, to)
    });
    recording.unwrap()
}

#[test]
fn an_update_hands_over_what_differs_and_nothing_else() {
    let mut rig = rig(4);
    let (z, w) = (rig.view(16), rig.view(16));
    let old = mixed(&mut rig, 1.0, 0, &z);
    let mut graph = old.instantiate().unwrap();
    let new = mixed(&mut rig, 3.0, 0, &w);
    let words: Vec<String> = graph.differences(&new).iter().map(ToString::to_string).collect();
    assert_eq!(words[0], "node 1: kernel `saxpy`: argument `a` was 1, is 3");
    assert!(words[1].starts_with("node 3: copy to 16 bytes at "), "{words:?}");
    assert_eq!(words.len(), 2);
    assert!(old.differences(&old).is_empty());
    let before = rig.sim.calls("");
    assert_eq!(graph.update(&new).unwrap(), 2);
    assert_eq!(
        rig.sim.calls("") - before,
        6,
        "one call for the kernel, two for the copy, three for the context"
    );
    assert_eq!(graph.update(&new).unwrap(), 0);
    drop((old, new));
    assert!(rig.slab.release(w).is_err(), "the graph owns the new view");
    rig.slab.release(z).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &w), [4.0; 4]);
    let filled = mixed(&mut rig, 3.0, 0x3f, &w);
    graph.update(&filled).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &w), [f32::from_bits(0x3f3f_3f3f) + 4.0; 4]);
}

#[test]
fn an_update_over_another_topology_names_the_first_difference_and_the_old_graph_still_works() {
    let mut rig = rig(4);
    let z = rig.view(16);
    let mut graph = mixed(&mut rig, 1.0, 0, &z).instantiate().unwrap();
    let (slab, y) = (rig.slab.clone(), rig.y);
    let mut kernel = increment(&rig);
    let mut side = Stream::new(&rig.device).unwrap();
    let others = [
        (rig.stream.capture(|scope| kernel.launch(scope)), "4 nodes became 1"),
        (
            rig.stream.capture(|scope| {
                kernel.launch(scope)?;
                kernel.launch(scope)?;
                kernel.launch(scope)?;
                scope.copy(&slab, &y, &z)
            }),
            "node 0: fill became kernel",
        ),
        (
            rig.stream.capture(|scope| {
                scope.fill(&slab, &y, 0)?;
                let mut branch = scope.fork(&mut side)?;
                kernel.launch(scope)?;
                kernel.launch(&mut branch)?;
                scope.join(branch)?;
                scope.copy(&slab, &y, &z)
            }),
            "the edge 1 -> 2 is gone",
        ),
        (
            rig.stream.capture(|scope| {
                scope.fill(&slab, &y, 0)?;
                kernel.launch(scope)?;
                kernel.launch(scope)?;
                scope.mark_grid("grid")?;
                scope.copy(&slab, &y, &z)
            }),
            "the slots [] became [`grid` (a grid)]",
        ),
    ];
    for (other, words) in others {
        let GraphError::Differs { difference } = graph_error(graph.update(&other.unwrap()).unwrap_err())
        else {
            panic!()
        };
        assert_eq!(difference, words);
        graph.replay(&mut rig.stream).unwrap();
        assert_eq!(read(&mut rig, &z), [2.0; 4]);
    }
}

#[test]
fn an_update_that_the_driver_refuses_half_way_is_taken_back() {
    let mut rig = rig(4);
    let (z, w) = (rig.view(16), rig.view(16));
    let mut graph = mixed(&mut rig, 1.0, 0, &z).instantiate().unwrap();
    let new = mixed(&mut rig, 5.0, 0x3f, &w);
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 1, 2);
    assert!(graph.update(&new).is_err());
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 0, 0);
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &z), [2.0; 4]);
    assert!(rig.slab.release(z).is_err(), "the graph still owns the old view");
    drop(new);
    rig.slab.release(w).unwrap();
}

#[test]
fn a_source_that_is_updated_away_or_dropped_takes_nothing_from_the_graph() {
    // The driver's executable graph does not own what its source owns.
    let mut rig = rig(4);
    let z = rig.view(16);
    let old = mixed(&mut rig, 1.0, 0, &z);
    let mut graph = old.instantiate().unwrap();
    let new = mixed(&mut rig, 2.0, 0, &z);
    graph.update(&new).unwrap();
    drop((old, new));
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &z), [3.0; 4]);
}

#[test]
fn slots_work_after_an_update_by_the_same_handles() {
    let mut rig = rig(4);
    let (_old, mut graph) = slotted(&mut rig, 2);
    let a = graph.scalar_slot::<f32>("a").unwrap();
    graph.set(a, 7.0).unwrap();
    let (new, _) = slotted(&mut rig, 2);
    assert_eq!(graph.update(&new).unwrap(), 2, "back to 1");
    graph.replay(&mut rig.stream).unwrap();
    graph.set(a, 4.0).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [10.0; 4]);
}

#[test]
fn the_least_recently_used_graph_makes_room() {
    let mut rig = rig(4);
    let mut cache = GraphCache::new(2);
    let mut made = Vec::new();
    let mut kernel = increment(&rig);
    for key in [1, 2, 1, 3, 1, 2] {
        let stream = &mut rig.stream;
        let graph = cache.find_or_make(key, |key| {
            made.push(*key);
            stream.capture(|scope| kernel.launch(scope))?.instantiate()
        });
        graph.unwrap().replay(stream).unwrap();
    }
    assert_eq!(made, [1, 2, 3, 2], "1 was used again before 3 came");
    assert_eq!((cache.len(), cache.hits_and_misses()), (2, (2, 4)));
    let failed = cache.find_or_make(9, |_| Err(LaunchError::PrefetchFull { depth: 1 }));
    assert!(failed.is_err() && cache.find(&1).is_some() && cache.find(&2).is_some());
    let before = rig.sim.calls("");
    let made = allocations(|| assert!(cache.find(&1).is_some()));
    assert_eq!((made, rig.sim.calls("") - before), (0, 0));
    assert!(cache.remove(&1).is_some() && cache.remove(&1).is_none());
    drop((cache, kernel));
    all_is_well(&mut rig);
}

#[test]
fn the_table_and_the_drawings_say_what_each_node_does() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let inner = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    let (slab, y, z) = (rig.slab.clone(), rig.y, rig.view(16));
    let mut side = Stream::new(&rig.device).unwrap();
    let recording = rig.stream.capture(|scope| {
        scope.fill(&slab, &y, 0x40)?;
        let mut branch = scope.fork(&mut side)?;
        kernel.launch(scope)?;
        scope.mark_scalar::<f32>("a", "a")?;
        branch.child(&inner)?;
        scope.join(branch)?;
        scope.copy(&slab, &y, &z)
    });
    let table = recording.unwrap().table();
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("node  kind         name         grid"), "{text}");
    assert!(lines[1].contains("fill") && lines[1].ends_with("byte=0x40"), "{text}");
    assert!(
        lines[2].contains("saxpy")
            && lines[2].contains("1x1x1  128x1x1  0")
            && lines[2].ends_with("a=1, n=4")
    );
    assert_eq!(
        (table.rows[3].depends_on.clone(), table.rows[1].depends_on.clone()),
        (vec![(1, false), (2, false)], vec![(0, false)])
    );
    assert_eq!(table.rows[1].slots, ["a"]);
    assert_eq!(table.rows[2].inside[0].rows[0].name, "saxpy");
    assert!(text.contains("inside node 2 (child graph), graph 0:"), "{text}");
    let dot = table.to_dot();
    assert!(
        dot.starts_with("digraph") && dot.contains("n1 -> n3;") && dot.contains("subgraph cluster_n2_0_"),
        "{dot}"
    );
    let svg = table.to_svg();
    assert_eq!(svg.matches("<rect").count(), 5, "a background and four boxes");
    assert_eq!(svg.matches("marker-end").count(), 4);
    assert!(svg.contains(">1  saxpy<") && svg.contains(">slots: a<") && !svg.contains("NaN"), "{svg}");
}

/// `y += a * x` with x fed by a parameter block and y posted: what comes out of each replay.
fn fed(rig: &mut Rig) -> (ParameterBlock, ResultRing, Graph) {
    let (slab, y, fed) = (rig.slab.clone(), rig.y, rig.view(16));
    let mut block = ParameterBlock::new(&mut rig.stream, &slab, &fed).unwrap();
    let ring = ResultRing::new(&mut rig.stream, &slab, 16, 8).unwrap();
    let mut kernel = bind(rig, &[y, fed.bound_to(0, 1, Access::StorageRead).unwrap()], 1.0);
    let recording = rig.stream.capture(|scope| {
        scope.fill(&slab, &y, 0)?;
        scope.feed(&mut block)?;
        // The addresses that the crate's own kernels take are not for others to set.
        assert!(scope.mark_scalar::<u64>("page", "page").is_err() && scope.mark_view("out", 0, 0).is_err());
        kernel.launch(scope)?;
        scope.post(&ring, &slab, &y)?;
        assert!(scope.mark_scalar::<u64>("page", "page").is_err());
        Ok(())
    });
    let recording = recording.unwrap();
    let graph = recording.instantiate().unwrap();
    let second = recording.instantiate().unwrap_err();
    assert_eq!(graph_error(second), GraphError::BlockTaken);
    let nested = rig.stream.capture(|scope| scope.child(&recording)).unwrap_err();
    assert!(matches!(graph_error(nested), GraphError::NotNestable { .. }));
    (block, ring, graph)
}

#[test]
fn a_parameter_block_and_a_result_ring_cost_one_driver_call_a_replay_and_no_allocation() {
    let mut rig = rig(4);
    let (block, mut ring, mut graph) = fed(&mut rig);
    assert!(ring.poll().is_none());
    assert_eq!(graph_error(ring.wait().map(|_| ()).unwrap_err()), GraphError::NoResult);
    for turn in 0..1000u32 {
        let before = rig.sim.calls("");
        let value = [turn as f32; 4];
        let made = allocations(|| {
            block.set(&value).unwrap();
            graph.replay(&mut rig.stream).unwrap();
        });
        let calls = rig.sim.calls("") - before;
        // A wait that takes long asks the driver whether the stream is well.
        let waited = allocations(|| assert_eq!(ring.wait_value::<[f32; 4]>().unwrap(), value));
        assert_eq!((calls, made, waited), (1, 0, 0), "turn {turn}");
    }
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(ring.wait_value::<[f32; 4]>().unwrap(), [999.0; 4], "what was set last stays");
    assert!(matches!(block.set(&[0u8; 17]), Err(LaunchError::TooLong { bytes: 17, view_bytes: 16 })));
}

#[test]
fn a_replay_that_would_write_over_results_is_refused() {
    let mut rig = rig(4);
    let (block, mut ring, mut graph) = fed(&mut rig);
    for turn in 0..8u32 {
        block.set(&[turn as f32; 4]).unwrap();
        graph.replay(&mut rig.stream).unwrap();
    }
    assert_eq!(graph_error(graph.replay(&mut rig.stream).unwrap_err()), GraphError::ResultsFull { slots: 8 });
    assert_eq!(ring.wait_value::<[f32; 4]>().unwrap(), [0.0; 4]);
    graph.replay(&mut rig.stream).unwrap();
    for turn in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0] {
        assert_eq!(ring.wait_value::<[f32; 4]>().unwrap(), [turn; 4]);
    }
    assert!(ring.poll().is_none());
}

#[test]
fn blocks_rings_and_conditions_give_their_bytes_back_when_the_last_graph_has_gone() {
    let mut rig = rig(4);
    let live = rig.slab.stats().live_grants;
    let word = rig.view(4);
    let condition = Condition::new(&mut rig.stream, &rig.slab, &word).unwrap();
    let (block, ring, graph) = fed(&mut rig);
    assert_eq!(rig.slab.stats().live_grants, live + 5, "word, fed view, three counters");
    drop((block, ring, condition));
    assert_eq!(rig.slab.stats().live_grants, live + 4, "the graph holds two counters");
    drop(graph);
    assert_eq!(rig.slab.stats().live_grants, live + 2);
    rig.slab.release(word).unwrap();
    all_is_well(&mut rig);
}

/// A loop that adds 1 to `y` while `word` holds, on a driver with or without conditional nodes.
fn loops(rig: &mut Rig, most: u32) {
    let (slab, word) = (rig.slab.clone(), rig.view(4));
    let mut ring = ResultRing::new(&mut rig.stream, &slab, 16, 64).unwrap();
    let mut kernel = increment(rig);
    let y = rig.y;
    let mut looped = rig
        .stream
        .device_loop(&slab, &word, most, |body| {
            kernel.launch(body)?;
            body.post(&ring, &slab, &y)
        })
        .unwrap();
    slab.write_from(&mut rig.stream, &word, &[1u32]).unwrap();
    looped.run(&mut rig.stream).unwrap();
    assert_eq!(looped.iterations(&mut rig.stream).unwrap(), u64::from(most));
    for turn in 1..=most {
        assert_eq!(ring.wait_value::<[f32; 4]>().unwrap(), [turn as f32; 4]);
    }
    slab.write_from(&mut rig.stream, &word, &[0u32]).unwrap();
    for _ in 0..100 {
        looped.run(&mut rig.stream).unwrap();
        assert_eq!(looped.iterations(&mut rig.stream).unwrap(), 1, "the word is read after the first");
        ring.wait().unwrap();
        assert!(ring.poll().is_none());
    }
}

#[test]
fn a_device_loop_runs_until_its_word_is_0_or_its_limit_and_posts_while_it_runs() {
    let mut rig = rig(4);
    loops(&mut rig, 5);
    let (slab, word) = (rig.slab.clone(), rig.view(4));
    let mut kernel = increment(&rig);
    let looped = rig.stream.device_loop(&slab, &word, 3, |body| kernel.launch(body)).unwrap();
    assert!(looped.is_on_device());
    assert_eq!(looped.graph().table().rows[0].name, "while, at most 3 times");
    assert_eq!(looped.graph().table().rows[0].inside[0].rows[0].name, "saxpy");
}

#[test]
fn without_conditional_nodes_the_host_runs_the_same_loop() {
    let mut rig = Rig::on(Sim::without(&["cuGraphConditionalHandleCreate"]).unwrap(), 4);
    let (slab, y, x) = (rig.slab.clone(), rig.y, rig.x);
    slab.write_from(&mut rig.stream, &y, &[0f32; 4]).unwrap();
    slab.write_from(&mut rig.stream, &x, &[1f32; 4]).unwrap();
    loops(&mut rig, 5);
}

#[test]
fn branches_of_a_condition_run_as_the_word_says() {
    let mut rig = rig(4);
    let (slab, word, x) = (rig.slab.clone(), rig.view(4), rig.x);
    let condition = Condition::new(&mut rig.stream, &slab, &word).unwrap();
    let cases: Vec<Recording> = [1.0, 10.0, 100.0]
        .map(|a| {
            let mut kernel = bind(&rig, &[rig.y, x], a);
            rig.stream.capture(|scope| kernel.launch(scope)).unwrap()
        })
        .into();
    let chosen = rig.stream.capture(|scope| {
        scope.if_else(&condition, &cases[0], Some(&cases[1]))?;
        scope.switch(&condition, &[&cases[0], &cases[1], &cases[2]])
    });
    let chosen = chosen.unwrap();
    assert_eq!(chosen.node_count(), 4);
    let mut graph = chosen.instantiate().unwrap();
    let mut total = 0.0;
    for (value, more) in [(0u32, 10.0 + 1.0), (1, 1.0 + 10.0), (2, 1.0 + 100.0), (7, 1.0)] {
        slab.write_from(&mut rig.stream, &word, &[value]).unwrap();
        graph.replay(&mut rig.stream).unwrap();
        total += more;
        assert_eq!(sums(&mut rig), [total; 4], "{value}");
    }
    let nested = rig.stream.capture(|scope| scope.child(&chosen)).unwrap_err();
    assert_eq!(graph_error(nested), GraphError::NotNestable { what: "a conditional node" });
    let looped = rig.stream.capture(|scope| scope.repeat_while(&condition, 2, &cases[0])).unwrap();
    // A graph that the driver did not make leaves the condition to the next one.
    rig.sim.fail("cuGraphInstantiateWithFlags", 1, 2);
    assert!(looped.instantiate().is_err());
    rig.sim.fail("cuGraphInstantiateWithFlags", 0, 0);
    let first = looped.instantiate();
    let taken = [
        looped.instantiate().map(|_| ()).unwrap_err(),
        rig.stream.capture(|scope| scope.repeat_while(&condition, 2, &cases[0])).map(|_| ()).unwrap_err(),
    ];
    assert!(first.is_ok() && taken.into_iter().all(|error| graph_error(error) == GraphError::ConditionTaken));
    let none = rig.stream.capture(|scope| scope.switch(&condition, &[])).unwrap_err();
    assert_eq!(graph_error(none), GraphError::Empty);
    let wide = rig.view(8);
    assert!(Condition::new(&mut rig.stream, &slab, &wide).is_err());
}

#[test]
fn a_programmatic_launch_of_a_kernel_that_does_not_wait_is_refused() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let options = cuforge_launch::LaunchOptions { programmatic: true, ..Default::default() };
    let refused = GraphError::DoesNotWait { entry: "saxpy".to_owned() };
    assert_eq!(graph_error(kernel.launch_with(&mut rig.stream, options).unwrap_err()), refused);
    let captured = rig.stream.capture(|scope| kernel.launch_with(scope, options)).unwrap_err();
    assert_eq!(graph_error(captured), refused);
    all_is_well(&mut rig);
}

#[test]
fn words_that_kernels_know_by_their_address_are_kept_by_the_graph() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let words = Arc::new(rig.device.mapped_words(2).unwrap());
    assert_eq!((words.store(1, u64::MAX), words.store(2, 1), words.len()), (Some(()), None, 2));
    assert_eq!([0, 1, 2, usize::MAX].map(|at| words.load(at)), [Some(0), Some(u64::MAX), None, None]);
    let recording = rig.stream.capture(|scope| {
        scope.keep(&words)?;
        kernel.launch(scope)
    });
    let graph = recording.unwrap().instantiate().unwrap();
    assert_eq!(Arc::strong_count(&words), 2);
    drop(graph);
    assert_eq!(Arc::strong_count(&words), 1);
}

extern "C" fn nothing(_: *mut c_void) {}

#[test]
fn memory_nodes_and_stream_values_of_another_library_are_strays_of_their_kind() {
    type Allocate = unsafe extern "C" fn(*mut u64, usize, *mut c_void) -> c_int;
    type Call = unsafe extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void) -> c_int;
    type WriteValue = unsafe extern "C" fn(*mut c_void, u64, u32, u32) -> c_int;
    let mut rig = rig(4);
    let allocate = rig.sim.function::<Allocate>("cuMemAllocAsync").unwrap();
    let call = rig.sim.function::<Call>("cuLaunchHostFunc").unwrap();
    let write = rig.sim.function::<WriteValue>("cuStreamWriteValue32_v2").unwrap();
    let at = rig.slab.address_of(&rig.x).unwrap();
    let mut kernel = increment(&rig);
    for kind in [NodeKind::Memory, NodeKind::Host, NodeKind::StreamValue] {
        let error = rig.stream.capture(|scope| {
            kernel.launch(scope)?;
            let submit = |raw| {
                let mut address = 0;
                let answered = match kind {
                    // SAFETY: the stream is alive, and the pointer is valid for an address.
                    NodeKind::Memory => unsafe { allocate(&raw mut address, 4, raw) },
                    // SAFETY: the stream is alive, and the function takes anything.
                    NodeKind::Host => unsafe { call(raw, nothing, std::ptr::null_mut()) },
                    // SAFETY: the stream and the memory are alive.
                    _ => unsafe { write(raw, at, 1, 0) },
                };
                assert_eq!(answered, 0);
                Ok(())
            };
            // SAFETY: what is added is never run.
            unsafe { scope.raw(&[], submit) }?;
            kernel.launch(scope)
        });
        assert_eq!(graph_error(error.unwrap_err()), GraphError::Census { kind, recorded: 0, captured: 1 });
    }
    all_is_well(&mut rig);
}

#[test]
fn a_fault_that_a_replay_meets_loses_the_device_and_graphs_are_dropped_in_peace() {
    let mut rig = rig(4);
    let mut kernel = increment(&rig);
    let recording = rig.stream.capture(|scope| kernel.launch(scope)).unwrap();
    let mut graph = recording.instantiate().unwrap();
    graph.replay(&mut rig.stream).unwrap();
    rig.sim.fail("cuStreamSynchronize", 1, 700);
    assert!(matches!(rig.stream.synchronize(), Err(LaunchError::DeviceLost { .. })));
    let before = rig.sim.calls("");
    for error in [
        graph.replay(&mut rig.stream).unwrap_err(),
        graph.upload(&mut rig.stream).unwrap_err(),
        recording.instantiate().map(|_| ()).unwrap_err(),
        rig.stream.capture(|scope| kernel.launch(scope)).map(|_| ()).unwrap_err(),
    ] {
        let LaunchError::DeviceLost { first } = error else { panic!("{error}") };
        assert_eq!((first.call(), first.code()), ("cuStreamSynchronize", 700));
    }
    assert_eq!(rig.sim.calls(""), before, "the driver is not asked again");
    drop((graph, recording, kernel));
}

#[test]
fn a_prefetched_buffer_given_back_during_a_capture_adds_nothing_to_it() {
    let mut rig = rig(4);
    let request = cuforge_core::Request::new(16);
    let mut prefetcher = cuforge_launch::Prefetcher::new(&rig.slab, &request, 1).unwrap();
    let fill = |bytes: &mut [u8]| bytes.copy_from_slice(bytemuck::bytes_of(&[1f32; 4]));
    prefetcher.push(16, fill).unwrap();
    let mut lease = prefetcher.take(&mut rig.stream).unwrap();
    let mut kernel = increment(&rig);
    let recording = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        lease = None;
        kernel.launch(scope)
    });
    assert_eq!(recording.unwrap().node_count(), 2);
    prefetcher.push(16, fill).unwrap();
    assert!(prefetcher.take(&mut rig.stream).unwrap().is_some(), "it is filled again");
}

/// A recording of two branches: `y += a * x`, and `y[2..] += b * x[2..]` beside it, with slots `a` and `b`.
fn branched(rig: &mut Rig) -> Recording {
    let half = |view: &BufferView, binding: u32, access| {
        view.slice(8, 8).unwrap().bound_to(0, binding, access).unwrap()
    };
    let (low_y, low_x) = (rig.y.slice(0, 8).unwrap(), rig.x.slice(0, 8).unwrap());
    let low = [
        low_y.bound_to(0, 0, Access::StorageReadWrite).unwrap(),
        low_x.bound_to(0, 1, Access::StorageRead).unwrap(),
    ];
    let high = [half(&rig.y, 0, Access::StorageReadWrite), half(&rig.x, 1, Access::StorageRead)];
    let values = [1f32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    let bind = |views: &[BufferView]| {
        let arguments = Arguments { views, by_value: &values };
        rig.pipeline.bind(&rig.slab, arguments, Extent::Elements(2)).unwrap()
    };
    let (mut first, mut second) = (bind(&low), bind(&high));
    let mut side = Stream::new(&rig.device).unwrap();
    let recording = rig.stream.capture(|scope| {
        let mut branch = scope.fork(&mut side)?;
        first.launch(scope)?;
        scope.mark_scalar::<f32>("a", "a")?;
        second.launch(&mut branch)?;
        branch.mark_scalar::<f32>("b", "a")?;
        branch.mark_view("high", 0, 0)?;
        scope.join(branch)
    });
    recording.unwrap()
}

#[test]
fn slots_and_timestamps_of_a_child_are_those_of_the_graph_around_it() {
    let mut rig = rig(4);
    let inner = branched(&mut rig);
    let mut own = increment(&rig);
    let timed = rig.stream.capture(|scope| {
        own.launch(scope)?;
        scope.timestamp("inside")
    });
    let timed = timed.unwrap();
    let recording = rig.stream.capture(|scope| {
        scope.timestamp("start")?;
        scope.child(&inner)?;
        own.launch(scope)?;
        // The same name once more: one slot, set at all its places.
        scope.mark_scalar::<f32>("a", "a")?;
        scope.child(&inner)?;
        scope.child(&timed)?;
        let again = scope.child(&timed).unwrap_err();
        assert!(matches!(graph_error(again), GraphError::SlotType { slot, .. } if slot == "inside"));
        own.launch(scope)?;
        scope.mark_grid("b grid")
    });
    let recording = recording.unwrap();
    let mut clash = rig.stream.begin_capture().unwrap();
    own.launch(clash.scope()).unwrap();
    clash.scope().mark_grid("b").unwrap();
    let refused = clash.scope().child(&inner).unwrap_err();
    assert!(matches!(graph_error(refused), GraphError::SlotType { slot, .. } if slot == "b"));
    clash.abort();
    let mut graph = recording.instantiate().unwrap();
    let (a, b) = (graph.scalar_slot::<f32>("a").unwrap(), graph.scalar_slot::<f32>("b").unwrap());
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [5.0; 4], "two children, and three kernels of its own or of the third");
    assert!(graph.nanoseconds_between("start", "inside").unwrap() > 0);
    let before = rig.sim.calls("cuGraphExecKernelNodeSetParams_v2");
    let made = allocations(|| {
        graph.set(a, 10.0).unwrap();
        graph.set(b, 100.0).unwrap();
        graph.replay(&mut rig.stream).unwrap();
    });
    assert_eq!((rig.sim.calls("cuGraphExecKernelNodeSetParams_v2") - before, made), (5, 0));
    // 2 * 10 from the children and 10 from the kernel that has the slot too; the other two kernels add 1 each.
    let expected = |a: f32, b: f32| [3.0 * a + 2.0, 3.0 * a + 2.0, 2.0 * b + a + 2.0, 2.0 * b + a + 2.0];
    let sum: Vec<f32> = expected(10.0, 100.0).iter().map(|more| 5.0 + more).collect();
    assert_eq!(sums(&mut rig), sum);
    // A view inside moves its lease as one outside does.
    let (slab, other) = (rig.slab.clone(), rig.view(8));
    slab.fill(&mut rig.stream, &other, 0).unwrap();
    let high = graph.view_slot("high").unwrap();
    graph.set_view(high, &other).unwrap();
    assert!(slab.release(other).is_err(), "the graph holds it");
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(read(&mut rig, &other), [200.0; 2]);
    // An update reaches what is inside, too: the recording's own values and view.
    let differences = graph.differences(&recording);
    assert!(differences.iter().all(|difference| difference.in_place), "{differences:?}");
    assert_eq!(graph.update(&recording).unwrap(), 5);
    slab.fill(&mut rig.stream, &rig.y, 0).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [5.0; 4]);
    assert_eq!(read(&mut rig, &other), [200.0; 2], "the view that it had is out of it");
    rig.stream.synchronize().unwrap();
    assert!(slab.release(other).is_ok());
    graph.set(b, 3.0).unwrap();
    slab.fill(&mut rig.stream, &rig.y, 0).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [5.0, 5.0, 9.0, 9.0], "found by the same handle after an update");
    // A driver that refuses one of the nodes inside leaves the graph as it was.
    let other = rig.stream.capture(|scope| {
        scope.timestamp("start")?;
        scope.child(&inner)?;
        own.launch(scope)?;
        scope.mark_scalar::<f32>("a", "a")?;
        scope.child(&inner)?;
        scope.child(&timed)?;
        own.launch(scope)?;
        scope.mark_grid("b grid")
    });
    let other = other.unwrap();
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 2, 1);
    assert!(matches!(graph.update(&other), Err(LaunchError::Driver(_))));
    rig.sim.fail("cuGraphExecKernelNodeSetParams_v2", 0, 0);
    slab.fill(&mut rig.stream, &rig.y, 0).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [5.0, 5.0, 9.0, 9.0]);
    assert!(graph.nanoseconds_between("start", "inside").unwrap() > 0);
}

#[test]
fn slots_in_the_body_of_a_loop_and_in_branches_are_set_from_outside() {
    let mut rig = rig(4);
    let (slab, word) = (rig.slab.clone(), rig.view(4));
    let inner = branched(&mut rig);
    let mut kernel = increment(&rig);
    let mut looped = rig
        .stream
        .device_loop(&slab, &word, 3, |body| {
            kernel.launch(body)?;
            body.mark_scalar::<f32>("step", "a")?;
            // A child inside the body.
            body.child(&inner)
        })
        .unwrap();
    slab.write_from(&mut rig.stream, &word, &[1u32]).unwrap();
    for (step, b, total) in [(1.0f32, 1.0f32, 6.0), (2.0, 1.0, 15.0), (2.0, 0.0, 21.0)] {
        looped.graph_mut().set_scalar("step", step).unwrap();
        looped.graph_mut().set_scalar("b", b).unwrap();
        looped.run(&mut rig.stream).unwrap();
        assert_eq!(looped.iterations(&mut rig.stream).unwrap(), 3);
        assert_eq!(sums(&mut rig)[3], total);
    }
    let condition = Condition::new(&mut rig.stream, &slab, &word).unwrap();
    let branch = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.mark_scalar::<f32>("step", "a")
    });
    let branch = branch.unwrap();
    let chosen = rig.stream.capture(|scope| scope.if_else(&condition, &branch, Some(&inner))).unwrap();
    let mut graph = chosen.instantiate().unwrap();
    slab.fill(&mut rig.stream, &rig.y, 0).unwrap();
    graph.set_scalar("step", 7f32).unwrap();
    graph.set_scalar("a", 4f32).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [7.0; 4]);
    slab.write_from(&mut rig.stream, &word, &[0u32]).unwrap();
    graph.replay(&mut rig.stream).unwrap();
    assert_eq!(sums(&mut rig), [11.0, 11.0, 8.0, 8.0]);
    // The driver records no events where a condition decides.
    let timed = rig.stream.capture(|scope| {
        kernel.launch(scope)?;
        scope.timestamp("inside")
    });
    let refused = rig.stream.capture(|scope| scope.if_else(&condition, &timed.unwrap(), None)).unwrap_err();
    assert_eq!(graph_error(refused), GraphError::NotNestable { what: "a timestamp" });
}

#[test]
fn a_thread_without_a_current_context_patches_what_changed() {
    let mut rig = rig(4);
    let (_recording, mut graph) = slotted(&mut rig, 2);
    let slot = graph.scalar_slot::<f32>("a").unwrap();
    let mut stream = Stream::new(&rig.device).unwrap();
    // The simulated driver refuses what a real one dies of: a patch by a thread whose current context is none.
    std::thread::scope(|scope| {
        let patched = scope.spawn(|| {
            graph.set(slot, 3.0).unwrap();
            graph.upload(&mut stream).unwrap();
            graph.set(slot, 5.0).unwrap();
            graph.replay(&mut stream).unwrap();
            stream.synchronize()
        });
        patched.join().unwrap().unwrap();
    });
    assert_eq!(sums(&mut rig), [10.0; 4]);
}
