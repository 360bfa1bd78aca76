//! A driver that lacks a function: what can be done without it is, and what cannot is refused by name and leaves nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{Arguments, ContextErrorKind, Request};
use cuforge_launch::{
    BoundLaunch, Condition, Driver, LaunchError, LaunchOptions, Mailbox, Prefetcher, Slab, SlabOptions,
    Stream,
};
use cuforge_tests::sim::Sim;
use launch_support::{FirstFit, Rig};

const MIB: u64 = 1 << 20;
const N: u32 = 4;

fn without(symbol: &str) -> Rig {
    Rig::on(Sim::without(&[symbol]).unwrap(), N)
}

fn bind(rig: &Rig) -> BoundLaunch {
    let (views, values) = ([rig.y, rig.x], rig.values(1.0));
    rig.pipeline.bind(&rig.slab, Arguments { views: &views, by_value: &values }, rig.extent()).unwrap()
}

/// Writes, launches and reads back, bound and unbound; waits for a ticket, a mailbox, a prefetch, an owned upload.
fn plain_work_is_right(rig: &mut Rig, lacking: &str) {
    let (slab, y, x) = (rig.slab.clone(), rig.y, rig.x);
    let (views, values, pipeline) = ([y, x], rig.values(1.0), rig.pipeline.clone());
    slab.write_from(&mut rig.stream, &y, &[0f32; 4]).unwrap();
    slab.upload_owned(&mut rig.stream, &x, bytemuck::bytes_of(&[1f32; 4]).to_vec()).unwrap().wait().unwrap();
    let mut bound = bind(rig);
    bound.launch(&mut rig.stream).unwrap();
    bound.set_values(&rig.values(3.0)).unwrap();
    bound.run(&mut rig.stream).unwrap();
    let arguments = Arguments { views: &views, by_value: &values };
    let extent = rig.extent();
    pipeline.launch(&mut rig.stream, &slab, arguments, extent).unwrap();
    let mut prefetcher = Prefetcher::new(&slab, &Request::new(16), 2).unwrap();
    prefetcher.push(16, |bytes| bytes.fill(7)).unwrap();
    let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut rig.stream, &lease.view()).unwrap(), [7; 16], "{lacking}");
    let ticket = slab.read_later(&mut rig.stream, &y).unwrap();
    let mut mailbox = Mailbox::new(&rig.device, 16).unwrap();
    slab.post(&mut rig.stream, &y, &mut mailbox).unwrap();
    assert_eq!(ticket.wait_vec::<f32>().unwrap(), [5.0; 4], "{lacking}");
    assert_eq!(mailbox.wait().unwrap(), bytemuck::bytes_of(&[5f32; 4]), "{lacking}");
    // No two fit at once.
    let half = Request::new(33 * MIB);
    for round in 0..2 {
        let view = slab.acquire_waiting(&mut [&mut rig.stream], &half).unwrap();
        slab.fill(&mut rig.stream, &view.slice(0, 4096).unwrap(), round).unwrap();
        slab.release(view).unwrap();
    }
}

type Feature = fn(&mut Rig) -> Result<(), LaunchError>;

/// What needs functions that not every driver has.
const FEATURES: &[(&str, Feature)] = &[
    ("a cooperative launch", |rig| {
        bind(rig)
            .launch_with(&mut rig.stream, LaunchOptions { cooperative: true, ..LaunchOptions::default() })
    }),
    ("active clusters", |rig| rig.pipeline.active_clusters([2, 1, 1], 0).map(|_| ())),
    ("the memory of graphs", |rig| rig.device.graph_memory().map(|_| ())),
    ("growth", |rig| {
        let options = SlabOptions { reserve_bytes: Some(8 * MIB), ..SlabOptions::default() };
        match Slab::new(&rig.device, FirstFit::boxed(2 * MIB), options)?.grow(2 * MIB) {
            Err(LaunchError::CannotGrow { .. }) if !rig.device.capabilities().virtual_memory => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }),
    ("a graph of every kind of node", |rig| {
        let (slab, y, z) = (rig.slab.clone(), rig.y, rig.view(16));
        let mut side = Stream::new(&rig.device)?;
        let (mut first, mut second) = (bind(rig), bind(rig));
        let recording = rig.stream.capture(|scope| {
            scope.fill(&slab, &y, 0)?;
            first.launch(scope)?;
            scope.mark_scalar::<f32>("a", "a")?;
            let mut branch = scope.fork(&mut side)?;
            second.launch(&mut branch)?;
            scope.join(branch)?;
            scope.copy(&slab, &y, &z)
        })?;
        let mut graph = recording.instantiate()?;
        graph.set_scalar("a", 2f32)?;
        graph.replay(&mut rig.stream)?;
        rig.stream.synchronize()?;
        graph.upload(&mut rig.stream)?;
        graph.replay(&mut rig.stream)
    }),
    ("a grid that becomes empty", |rig| {
        let mut kernel = bind(rig);
        let recording = rig.stream.capture(|scope| {
            kernel.launch(scope)?;
            scope.mark_grid("grid")
        })?;
        let mut graph = recording.instantiate()?;
        let slot = graph.grid_slot("grid")?;
        graph.set_grid(slot, [0, 1, 1])?;
        graph.replay(&mut rig.stream)
    }),
    ("timestamps", |rig| {
        let mut kernel = bind(rig);
        let recording = rig.stream.capture(|scope| {
            scope.timestamp("start")?;
            kernel.launch(scope)?;
            scope.timestamp("end")
        })?;
        let mut graph = recording.instantiate()?;
        graph.replay(&mut rig.stream)?;
        graph.nanoseconds_between("start", "end").map(|_| ())
    }),
    ("a child and an update", |rig| {
        let (slab, y, z) = (rig.slab.clone(), rig.y, rig.view(16));
        let mut kernel = bind(rig);
        let inner = rig.stream.capture(|scope| kernel.launch(scope))?;
        rig.stream.capture(|scope| scope.child(&inner))?.instantiate()?.replay(&mut rig.stream)?;
        let mut mixed = |byte| {
            rig.stream.capture(|scope| {
                scope.fill(&slab, &y, byte)?;
                scope.copy(&slab, &y, if byte == 0 { &y } else { &z })
            })
        };
        let (old, new) = (mixed(0)?, mixed(1)?);
        let mut graph = old.instantiate()?;
        graph.update(&new)?;
        graph.replay(&mut rig.stream)
    }),
    ("a condition", |rig| {
        let (slab, word) = (rig.slab.clone(), rig.view(4));
        let condition = Condition::new(&mut rig.stream, &slab, &word)?;
        let mut kernel = bind(rig);
        let then = rig.stream.capture(|scope| kernel.launch(scope))?;
        let both = rig.stream.capture(|scope| {
            kernel.launch(scope)?;
            scope.if_else(&condition, &then, None)
        })?;
        both.instantiate()?.replay(&mut rig.stream)
    }),
    ("a loop", |rig| {
        let (slab, word) = (rig.slab.clone(), rig.view(4));
        slab.write_from(&mut rig.stream, &word, &[0u32])?;
        let mut kernel = bind(rig);
        let mut looped = rig.stream.device_loop(&slab, &word, 3, |scope| kernel.launch(scope))?;
        looped.run(&mut rig.stream)?;
        assert_eq!(looped.iterations(&mut rig.stream)?, 1);
        Ok(())
    }),
];

#[test]
fn every_optional_function_may_be_missing_plain_work_goes_on_and_what_needs_it_is_refused_by_its_name() {
    let mut refused = 0;
    for symbol in Driver::functions() {
        let sim = Sim::without(&[symbol]).unwrap();
        if sim.driver().is_err() {
            continue;
        }
        let mut rig = Rig::on(sim, N);
        plain_work_is_right(&mut rig, symbol);
        for (feature, of) in FEATURES {
            match of(&mut rig) {
                Ok(()) => {}
                Err(error) => {
                    let named = matches!(
                        &error,
                        LaunchError::MissingSymbol { symbol: named, required: false, .. } if named == symbol
                    );
                    assert!(named, "{feature} without {symbol}: {error}");
                    assert_eq!(error.kind(), ContextErrorKind::Unsupported, "{error}");
                    refused += 1;
                }
            }
            rig.stream.synchronize().unwrap();
            assert_eq!(rig.sim.graphs(), [0, 0, 0], "{feature} without {symbol} leaves something");
        }
        plain_work_is_right(&mut rig, symbol);
        assert_eq!(rig.device.close().unwrap().drop_errors, 0, "{symbol}");
    }
    assert!(refused > 30, "{refused} refusals");
}

#[test]
fn a_driver_that_claims_virtual_memory_and_lacks_a_function_of_it_gets_plain_allocations() {
    for symbol in [
        "cuMemAddressReserve",
        "cuMemAddressFree",
        "cuMemCreate",
        "cuMemRelease",
        "cuMemMap",
        "cuMemUnmap",
        "cuMemSetAccess",
        "cuMemGetAllocationGranularity",
    ] {
        let mut rig = without(symbol);
        assert!(!rig.device.capabilities().virtual_memory, "{symbol}");
        let view = rig.view(MIB);
        let slab = rig.slab.clone();
        assert!(slab.read_vec::<u8>(&mut rig.stream, &view).unwrap().iter().all(|byte| *byte == 0));
        assert!(matches!(slab.grow(1), Err(LaunchError::CannotGrow { .. })), "{symbol}");
        let Rig { sim, device, slab: last, stream, .. } = rig;
        drop((slab, last, stream));
        assert_eq!((sim.calls("cuMemAlloc_v2"), sim.calls("cuMemFree_v2")), (1, 0));
        device.close().unwrap();
        assert_eq!((sim.calls("cuMemFree_v2"), sim.count("mapped_bytes")), (1, 0), "{symbol}");
    }
}

#[test]
fn where_streams_cannot_write_words_events_mark_how_far_they_are() {
    let device_without = Sim::new(&[("CUFORGE_SIM_ATTRIBUTES", "122=0")]).unwrap();
    for sim in [Sim::without(&["cuStreamWriteValue64_v2"]).unwrap(), device_without] {
        let mut rig = Rig::on(sim, N);
        assert!(rig.device.seals_by_events() && !rig.device.capabilities().stream_write_64);
        plain_work_is_right(&mut rig, "words");
        assert!(rig.sim.calls("cuStreamWriteValue64_v2") <= 0);
        // An epoch ends with an event, and its memory comes free when that has happened and not before.
        let (slab, view) = (rig.slab.clone(), rig.view(MIB));
        rig.stream.synchronize().unwrap();
        slab.reclaim();
        rig.sim.hold(true);
        let ticket = slab.read_later(&mut rig.stream, &view).unwrap();
        slab.release(view).unwrap();
        assert_eq!((slab.reclaim(), ticket.is_done()), (0, false));
        rig.sim.hold(false);
        assert_eq!((slab.reclaim(), ticket.is_done()), (MIB, true));
        assert_eq!(ticket.wait_vec::<u8>().unwrap().len(), 1 << 20);
    }
}

#[test]
fn without_a_function_of_one_node_graphs_bound_launches_are_kernel_launches() {
    for symbol in [
        "cuThreadExchangeStreamCaptureMode",
        "cuGraphCreate",
        "cuGraphDestroy",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
        "cuGraphExecKernelNodeSetParams_v2",
    ] {
        let mut rig = without(symbol);
        let before = rig.sim.calls("cuLaunchKernelEx");
        let mut bound = bind(&rig);
        bound.launch(&mut rig.stream).unwrap();
        bound.set_values(&rig.values(2.0)).unwrap();
        bound.launch(&mut rig.stream).unwrap();
        rig.stream.synchronize().unwrap();
        assert_eq!(rig.sim.calls("cuLaunchKernelEx") - before, 2, "{symbol}");
        assert_eq!((rig.sim.count("graphs"), rig.sim.count("execs")), (0, 0), "{symbol}");
    }
}
