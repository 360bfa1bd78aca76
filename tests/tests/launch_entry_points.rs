//! Every public function of launcher and facade that can fail, on a driver that answers nothing any more and on a lost
//! device: a typed error that prints, never a panic. A function that is missing here fails the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge::{Session, SessionError};
use cuforge_core::{Access, Arguments, BufferView, BuildOptions, Extent, LaunchGeometry, Request, Schedule};
use cuforge_launch::{
    BoundLaunch, Condition, Device, DeviceLoop, DeviceOptions, Driver, Graph, GraphCache, LaunchError,
    LaunchOptions, Mailbox, MappedWords, ParameterBlock, Pipeline, Prefetcher, Recording, ResultRing, Slab,
    SlabOptions, Stream,
};
use cuforge_tests::sim::Sim;
use launch_support::{FirstFit, SAXPY, image, saxpy, saxpy_pipeline};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const N: u32 = 4;
const SCHEDULE: Schedule =
    Schedule { workgroup_size: [128, 1, 1], items_per_invocation: 1, constants: Vec::new() };

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Something of everything, on a driver of its own.
struct World {
    driver: Driver,
    device: Device,
    slab: Slab,
    stream: Stream,
    side: Stream,
    pipeline: Pipeline,
    y: BufferView,
    x: BufferView,
    word: BufferView,
    values: Vec<u8>,
    bound: BoundLaunch,
    recording: Recording,
    other_recording: Recording,
    graph: Graph,
    looped: DeviceLoop,
    words: Arc<MappedWords>,
    condition: Condition,
    block: ParameterBlock,
    ring: ResultRing,
    mailbox: Mailbox,
    prefetcher: Prefetcher,
}

impl World {
    fn new(sim: &Sim) -> Self {
        let driver = sim.driver().unwrap();
        // So that uploads of owned memory are in flight after they were submitted.
        let threads = DeviceOptions { copy_threads: Some(2), ..DeviceOptions::default() };
        let device = Device::open_with(driver, 0, threads).unwrap();
        let options = SlabOptions { reserve_bytes: Some(16 << 20), ..SlabOptions::default() };
        let slab = Slab::new(&device, FirstFit::boxed(2 << 20), options).unwrap();
        let (mut stream, side) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let pipeline = saxpy_pipeline(&device);
        let floats = Request::new(u64::from(N) * 4);
        let y = slab.acquire(&floats).unwrap().bound_to(0, 0, Access::StorageReadWrite).unwrap();
        let x = slab.acquire(&floats).unwrap().bound_to(0, 1, Access::StorageRead).unwrap();
        let word = slab.acquire(&Request::new(4)).unwrap();
        let values = [1f32.to_le_bytes(), N.to_le_bytes()].concat();
        let views = [y, x];
        let arguments = Arguments { views: &views, by_value: &values };
        let mut bound = pipeline.bind(&slab, arguments, Extent::Elements(u64::from(N))).unwrap();
        let mut marked = |second: bool| {
            stream.capture(|scope| {
                bound.launch(scope)?;
                scope.mark_scalar::<f32>("a", "a")?;
                scope.mark_grid("grid")?;
                scope.mark_view("x", 0, 1)?;
                scope.timestamp("start")?;
                scope.fill(&slab, &y, u8::from(second))?;
                scope.timestamp("end")
            })
        };
        let (recording, other_recording) = (marked(false).unwrap(), marked(true).unwrap());
        let graph = recording.instantiate().unwrap();
        let looped = stream.device_loop(&slab, &word, 2, |scope| bound.launch(scope)).unwrap();
        let condition = Condition::new(&mut stream, &slab, &word).unwrap();
        let block = ParameterBlock::new(&mut stream, &slab, &word).unwrap();
        let ring = ResultRing::new(&mut stream, &slab, 16, 4).unwrap();
        let words = Arc::new(device.mapped_words(1).unwrap());
        let mailbox = Mailbox::new(&device, 16).unwrap();
        let prefetcher = Prefetcher::new(&slab, &Request::new(64), 2).unwrap();
        stream.synchronize().unwrap();
        Self {
            driver,
            device,
            slab,
            stream,
            side,
            pipeline,
            y,
            x,
            word,
            values,
            bound,
            recording,
            other_recording,
            graph,
            looped,
            words,
            condition,
            block,
            ring,
            mailbox,
            prefetcher,
        }
    }

    /// A recording of one launch.
    fn one_launch(&mut self) -> Recording {
        self.stream.capture(|scope| self.bound.launch(scope)).unwrap()
    }

    /// A graph that posts a result.
    fn posting(&mut self) -> Graph {
        let Self { stream, ring, slab, y, .. } = self;
        stream.capture(|scope| scope.post(ring, slab, y)).unwrap().instantiate().unwrap()
    }
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The driver, unless the device is lost.
    Driver,
    /// Nobody, but a lost device answers at once.
    Device,
    /// Nobody.
    Nobody,
    /// The driver, on behalf of no device that is open already.
    DriverAlone,
}

/// Ends the driver's or the device's life; before it, a world is well.
type End<'a> = &'a dyn Fn(&Device);
type Call = fn(&mut World, End<'_>) -> Outcome;

fn done<T, E: Into<Box<dyn Error + Send + Sync>>>(outcome: Result<T, E>) -> Outcome {
    outcome.map(|_| ()).map_err(Into::into)
}

/// A call on a world whose driver or device has ended.
macro_rules! after {
    (|$w:ident| $call:expr) => {
        |$w, end| {
            end(&$w.device);
            done($call)
        }
    };
}

/// A call on a scope of a capture that was under way when driver or device ended.
macro_rules! in_capture {
    (|$w:ident, $scope:ident| $call:expr) => {
        |$w, end| {
            let device = $w.device.clone();
            let World { stream, .. } = $w;
            let mut capture = stream.begin_capture().unwrap();
            end(&device);
            let $scope = capture.scope();
            done($call)
        }
    };
    (|$w:ident, $scope:ident, ($($part:ident),*)| $call:expr) => {
        |$w, end| {
            let device = $w.device.clone();
            let World { stream, $($part,)* .. } = $w;
            let mut capture = stream.begin_capture().unwrap();
            end(&device);
            let $scope = capture.scope();
            done($call)
        }
    };
}

const LAUNCHER: &[(&str, Asks, Call)] = &[
    ("Driver::load", Asks::Nobody, after!(|_w| Driver::load())),
    // SAFETY: the file is the simulated driver, which is loaded already.
    ("Driver::open", Asks::Nobody, after!(|w| unsafe { Driver::open(w.driver.library()) })),
    ("Driver::device_count", Asks::DriverAlone, after!(|w| w.driver.device_count())),
    ("Device::open", Asks::DriverAlone, after!(|_w| Device::open(u32::MAX))),
    ("Device::open_on", Asks::DriverAlone, after!(|w| Device::open_on(w.driver, 0))),
    (
        "Device::open_with",
        Asks::DriverAlone,
        after!(|w| Device::open_with(w.driver, 0, DeviceOptions::default())),
    ),
    ("Device::memory_info", Asks::Driver, after!(|w| w.device.memory_info())),
    ("Device::pinned", Asks::Driver, after!(|w| w.device.pinned(64))),
    ("Device::mapped_words", Asks::Driver, after!(|w| w.device.mapped_words(1))),
    ("Device::graph_memory", Asks::Driver, after!(|w| w.device.graph_memory())),
    ("Device::close", Asks::Driver, after!(|w| w.device.close())),
    ("Device::collect", Asks::Driver, |w, end| {
        drop(w.device.pinned(64));
        end(&w.device);
        done(w.device.collect())
    }),
    (
        "Device::pipeline",
        Asks::Driver,
        after!(|w| {
            let text = format!("{SAXPY}\n");
            // SAFETY: the image is the specification's own text but for the end of a line.
            unsafe { w.device.pipeline(&image(&text), &saxpy(), &SCHEDULE) }
        }),
    ),
    (
        "Device::ptx_pipeline",
        Asks::Driver,
        after!(|w| w
            .device
            .ptx_pipeline(&saxpy(), &Schedule::new([128, 1, 1]))
            .and_then(|p| p.blocks_per_multiprocessor(0))),
    ),
    ("Device::to_cudarc", Asks::Device, after!(|w| w.device.to_cudarc())),
    ("Stream::new", Asks::Driver, after!(|w| Stream::new(&w.device))),
    ("Stream::with_priority", Asks::Driver, after!(|w| Stream::with_priority(&w.device, -1))),
    ("Stream::priorities", Asks::Driver, after!(|w| Stream::priorities(&w.device))),
    ("Stream::synchronize", Asks::Driver, after!(|w| w.stream.synchronize())),
    ("Stream::is_idle", Asks::Driver, after!(|w| w.stream.is_idle())),
    ("Stream::wait_for", Asks::Driver, after!(|w| w.stream.wait_for(&mut w.side))),
    ("Stream::capture", Asks::Driver, after!(|w| w.stream.capture(|_| Ok(())))),
    ("Stream::begin_capture", Asks::Driver, after!(|w| w.stream.begin_capture())),
    ("Stream::device_loop", Asks::Driver, after!(|w| w.stream.device_loop(&w.slab, &w.word, 2, |_| Ok(())))),
    (
        "Slab::new",
        Asks::Driver,
        after!(|w| Slab::new(&w.device, FirstFit::boxed(64), SlabOptions::default())),
    ),
    ("Slab::acquire", Asks::Device, after!(|w| w.slab.acquire(&Request::new(1)))),
    (
        "Slab::acquire_waiting",
        Asks::Device,
        after!(|w| w.slab.acquire_waiting(&mut [&mut w.stream], &Request::new(1))),
    ),
    ("Slab::release", Asks::Nobody, after!(|w| w.slab.release(w.word))),
    ("Slab::clear", Asks::Nobody, after!(|w| w.slab.clear())),
    ("Slab::checkpoint", Asks::Nobody, after!(|w| w.slab.checkpoint())),
    ("Slab::restore", Asks::Nobody, |w, end| {
        let regions = cuforge_slab::RegionSlab::new(1 << 20).unwrap();
        let slab = Slab::new(&w.device, Box::new(regions), SlabOptions::default()).unwrap();
        let checkpoint = slab.checkpoint().unwrap();
        end(&w.device);
        done(slab.restore(checkpoint))
    }),
    ("Slab::grow", Asks::Driver, after!(|w| w.slab.grow(2 << 20))),
    ("Slab::address_of", Asks::Nobody, after!(|w| w.slab.address_of(&w.y))),
    ("Slab::write", Asks::Driver, after!(|w| w.slab.write(&mut w.stream, &w.y, &[1]))),
    ("Slab::try_write", Asks::Driver, after!(|w| w.slab.try_write(&mut w.stream, &w.y, &[1]))),
    ("Slab::write_from", Asks::Driver, after!(|w| w.slab.write_from(&mut w.stream, &w.y, &[1f32]))),
    ("Slab::read", Asks::Driver, after!(|w| w.slab.read(&mut w.stream, &w.y, &mut [0]))),
    ("Slab::read_into", Asks::Driver, after!(|w| w.slab.read_into(&mut w.stream, &w.y, &mut [0f32]))),
    ("Slab::read_vec", Asks::Driver, after!(|w| w.slab.read_vec::<f32>(&mut w.stream, &w.y))),
    ("Slab::read_later", Asks::Driver, after!(|w| w.slab.read_later(&mut w.stream, &w.y))),
    ("Slab::copy", Asks::Driver, after!(|w| w.slab.copy(&mut w.stream, &w.x, &w.y))),
    ("Slab::fill", Asks::Driver, after!(|w| w.slab.fill(&mut w.stream, &w.y, 0))),
    ("Slab::post", Asks::Driver, after!(|w| w.slab.post(&mut w.stream, &w.y, &mut w.mailbox))),
    ("Slab::upload", Asks::Driver, |w, end| {
        let source = w.device.pinned(16).unwrap();
        end(&w.device);
        done(w.slab.upload(&mut w.stream, &w.y, source, 16).map_err(|unsent| unsent.error))
    }),
    // It is told by the ticket what became of it.
    (
        "Slab::upload_owned",
        Asks::Driver,
        after!(|w| match w.slab.upload_owned(&mut w.stream, &w.y, vec![0; 16]) {
            Ok(ticket) => ticket.wait().map(drop),
            Err(unsent) => Err(unsent.error),
        }),
    ),
    ("OwnedUpload::wait", Asks::Driver, |w, end| {
        let ticket = w.slab.upload_owned(&mut w.stream, &w.y, vec![0; 16]).unwrap();
        drop(w.slab.write(&mut w.stream, &w.word, &[1]));
        end(&w.device);
        done(ticket.wait())
    }),
    ("Upload::wait", Asks::Driver, |w, end| {
        let source = w.device.pinned(16).unwrap();
        let ticket = w.slab.upload(&mut w.stream, &w.y, source, 16).unwrap();
        end(&w.device);
        done(ticket.wait())
    }),
    ("Readback::wait_into", Asks::Driver, |w, end| {
        let ticket = w.slab.read_later(&mut w.stream, &w.y).unwrap();
        end(&w.device);
        done(ticket.wait_into(&mut [0]))
    }),
    ("Readback::wait_vec", Asks::Driver, |w, end| {
        let ticket = w.slab.read_later(&mut w.stream, &w.y).unwrap();
        end(&w.device);
        done(ticket.wait_vec::<f32>())
    }),
    ("Mailbox::new", Asks::Driver, after!(|w| Mailbox::new(&w.device, 4))),
    ("Mailbox::wait", Asks::Driver, |w, end| {
        w.slab.post(&mut w.stream, &w.y, &mut w.mailbox).unwrap();
        end(&w.device);
        done(w.mailbox.wait())
    }),
    ("Prefetcher::new", Asks::Driver, after!(|w| Prefetcher::new(&w.slab, &Request::new(4), 1))),
    ("Prefetcher::push", Asks::Driver, after!(|w| w.prefetcher.push(4, |_| ()))),
    ("Prefetcher::push_pinned", Asks::Driver, |w, end| {
        let source = w.device.pinned(16).unwrap();
        end(&w.device);
        done(w.prefetcher.push_pinned(source, 16).map_err(|unsent| unsent.error))
    }),
    (
        "Prefetcher::push_owned",
        Asks::Driver,
        after!(|w| match w.prefetcher.push_owned(vec![0; 16]) {
            Ok(ticket) => ticket.wait().map(drop),
            Err(unsent) => Err(unsent.error),
        }),
    ),
    ("Prefetcher::take", Asks::Driver, |w, end| {
        w.prefetcher.push(4, |_| ()).unwrap();
        end(&w.device);
        done(w.prefetcher.take(&mut w.stream))
    }),
    ("Prefetcher::join", Asks::Driver, |w, end| {
        w.prefetcher.push(4, |_| ()).unwrap();
        end(&w.device);
        done(w.prefetcher.join(&mut w.stream))
    }),
    (
        "Pipeline::bind",
        Asks::Device,
        after!(|w| w.pipeline.bind(
            &w.slab,
            Arguments { views: &[w.y, w.x], by_value: &w.values },
            Extent::Elements(4)
        )),
    ),
    (
        "Pipeline::bind_plain",
        Asks::Device,
        after!(|w| w.pipeline.bind_plain(
            &w.slab,
            Arguments { views: &[w.y, w.x], by_value: &w.values },
            Extent::Elements(4)
        )),
    ),
    (
        "Pipeline::launch",
        Asks::Driver,
        after!(|w| w.pipeline.launch(
            &mut w.stream,
            &w.slab,
            Arguments { views: &[w.y, w.x], by_value: &w.values },
            Extent::Elements(4)
        )),
    ),
    (
        "Pipeline::launch_with",
        Asks::Driver,
        after!(|w| w.pipeline.launch_with(
            &mut w.stream,
            &w.slab,
            Arguments { views: &[w.y, w.x], by_value: &w.values },
            Extent::Elements(4),
            COOPERATIVE
        )),
    ),
    (
        "Pipeline::run",
        Asks::Driver,
        after!(|w| w.pipeline.run(
            &mut w.stream,
            &w.slab,
            Arguments { views: &[w.y, w.x], by_value: &w.values },
            Extent::Elements(4)
        )),
    ),
    ("Pipeline::active_clusters", Asks::Driver, after!(|w| w.pipeline.active_clusters([1; 3], 0))),
    (
        "Pipeline::blocks_per_multiprocessor",
        Asks::Driver,
        after!(|w| w.pipeline.blocks_per_multiprocessor(0)),
    ),
    (
        "Pipeline::geometry",
        Asks::Driver,
        after!(|w| w.pipeline.geometry(Extent::Geometry(LaunchGeometry {
            grid: [1; 3],
            block: [128, 1, 1],
            shared_bytes: 100_000
        }))),
    ),
    ("BoundLaunch::launch", Asks::Driver, after!(|w| w.bound.launch(&mut w.stream))),
    ("BoundLaunch::launch_with", Asks::Driver, after!(|w| w.bound.launch_with(&mut w.stream, COOPERATIVE))),
    ("BoundLaunch::run", Asks::Driver, after!(|w| w.bound.run(&mut w.stream))),
    ("BoundLaunch::set_values", Asks::Device, after!(|w| w.bound.set_values(&w.values))),
    ("BoundLaunch::set_extent", Asks::Device, after!(|w| w.bound.set_extent(Extent::Elements(3)))),
    ("Capture::end", Asks::Driver, |w, end| {
        let device = w.device.clone();
        let mut capture = w.stream.begin_capture().unwrap();
        w.bound.launch(capture.scope()).unwrap();
        end(&device);
        done(capture.end())
    }),
    ("CaptureScope::fill", Asks::Driver, in_capture!(|w, scope, (slab, y)| scope.fill(slab, y, 0))),
    ("CaptureScope::copy", Asks::Driver, in_capture!(|w, scope, (slab, y, x)| scope.copy(slab, x, y))),
    ("CaptureScope::upload", Asks::Driver, |w, end| {
        let (device, source) = (w.device.clone(), Arc::new(w.device.pinned(16).unwrap()));
        let mut capture = w.stream.begin_capture().unwrap();
        end(&device);
        done(capture.scope().upload(&w.slab, &w.y, &source, 16))
    }),
    ("CaptureScope::keep", Asks::Device, in_capture!(|w, scope, (words)| scope.keep(words))),
    ("CaptureScope::timestamp", Asks::Driver, in_capture!(|w, scope| scope.timestamp("now"))),
    ("CaptureScope::child", Asks::Driver, |w, end| {
        let (device, child) = (w.device.clone(), w.one_launch());
        let mut capture = w.stream.begin_capture().unwrap();
        end(&device);
        done(capture.scope().child(&child))
    }),
    // SAFETY: nothing is submitted.
    ("CaptureScope::raw", Asks::Driver, in_capture!(|w, scope| unsafe { scope.raw(&[], |_| Ok(())) })),
    ("CaptureScope::fork", Asks::Driver, in_capture!(|w, scope, (side)| scope.fork(side))),
    ("CaptureScope::join", Asks::Driver, |w, end| {
        let device = w.device.clone();
        let mut capture = w.stream.begin_capture().unwrap();
        let branch = capture.scope().fork(&mut w.side).unwrap();
        end(&device);
        done(capture.scope().join(branch))
    }),
    ("CaptureScope::mark_scalar", Asks::Device, in_capture!(|w, scope| scope.mark_scalar::<f32>("b", "a"))),
    ("CaptureScope::mark_uniform", Asks::Device, in_capture!(|w, scope| scope.mark_uniform::<u32>("b"))),
    ("CaptureScope::mark_grid", Asks::Device, in_capture!(|w, scope| scope.mark_grid("b"))),
    ("CaptureScope::mark_view", Asks::Device, in_capture!(|w, scope| scope.mark_view("b", 0, 0))),
    ("CaptureScope::if_else", Asks::Driver, |w, end| {
        let (device, then) = (w.device.clone(), w.one_launch());
        let mut capture = w.stream.begin_capture().unwrap();
        end(&device);
        done(capture.scope().if_else(&w.condition, &then, None))
    }),
    ("CaptureScope::switch", Asks::Driver, |w, end| {
        let (device, then) = (w.device.clone(), w.one_launch());
        let mut capture = w.stream.begin_capture().unwrap();
        end(&device);
        done(capture.scope().switch(&w.condition, &[&then]))
    }),
    ("CaptureScope::repeat_while", Asks::Driver, |w, end| {
        let (device, body) = (w.device.clone(), w.one_launch());
        let mut capture = w.stream.begin_capture().unwrap();
        end(&device);
        done(capture.scope().repeat_while(&w.condition, 2, &body))
    }),
    ("CaptureScope::feed", Asks::Driver, in_capture!(|w, scope, (block)| scope.feed(block))),
    ("CaptureScope::post", Asks::Driver, in_capture!(|w, scope, (ring, slab, y)| scope.post(ring, slab, y))),
    ("Condition::new", Asks::Driver, after!(|w| Condition::new(&mut w.stream, &w.slab, &w.word))),
    ("ParameterBlock::new", Asks::Driver, after!(|w| ParameterBlock::new(&mut w.stream, &w.slab, &w.word))),
    ("ParameterBlock::set_bytes", Asks::Nobody, after!(|w| w.block.set_bytes(&[1]))),
    ("ParameterBlock::set", Asks::Nobody, after!(|w| w.block.set(&1u32))),
    ("ResultRing::new", Asks::Driver, after!(|w| ResultRing::new(&mut w.stream, &w.slab, 16, 2))),
    ("ResultRing::wait", Asks::Driver, |w, end| {
        w.graph = w.posting();
        w.graph.replay(&mut w.stream).unwrap();
        end(&w.device);
        done(w.ring.wait())
    }),
    ("ResultRing::wait_value", Asks::Driver, |w, end| {
        w.graph = w.posting();
        w.graph.replay(&mut w.stream).unwrap();
        end(&w.device);
        done(w.ring.wait_value::<[f32; 4]>())
    }),
    ("Recording::instantiate", Asks::Driver, after!(|w| w.recording.instantiate())),
    ("Graph::replay", Asks::Driver, after!(|w| w.graph.replay(&mut w.stream))),
    ("Graph::replay_times", Asks::Driver, after!(|w| w.graph.replay_times(&mut w.stream, 2))),
    ("Graph::upload", Asks::Driver, after!(|w| w.graph.upload(&mut w.stream))),
    ("Graph::update", Asks::Driver, after!(|w| w.graph.update(&w.other_recording))),
    ("Graph::nanoseconds_between", Asks::Driver, after!(|w| w.graph.nanoseconds_between("start", "end"))),
    ("Graph::scalar_slot", Asks::Nobody, after!(|w| w.graph.scalar_slot::<f32>("a"))),
    ("Graph::uniform_slot", Asks::Nobody, after!(|w| w.graph.uniform_slot::<u32>("a"))),
    ("Graph::grid_slot", Asks::Nobody, after!(|w| w.graph.grid_slot("grid"))),
    ("Graph::view_slot", Asks::Nobody, after!(|w| w.graph.view_slot("x"))),
    (
        "Graph::set",
        Asks::Nobody,
        after!(|w| w
            .graph
            .scalar_slot::<f32>("a")
            .map_err(LaunchError::from)
            .and_then(|slot| w.graph.set(slot, 2.0))),
    ),
    ("Graph::set_scalar", Asks::Nobody, after!(|w| w.graph.set_scalar("a", 2f32))),
    (
        "Graph::set_grid",
        Asks::Nobody,
        after!(|w| w
            .graph
            .grid_slot("grid")
            .map_err(LaunchError::from)
            .and_then(|slot| w.graph.set_grid(slot, [2, 1, 1]))),
    ),
    (
        "Graph::set_view",
        Asks::Nobody,
        after!(|w| w
            .graph
            .view_slot("x")
            .map_err(LaunchError::from)
            .and_then(|slot| w.graph.set_view(slot, &w.y))),
    ),
    (
        "GraphCache::find_or_make",
        Asks::Driver,
        after!(|w| GraphCache::new(1).find_or_make(1, |_| w.recording.instantiate()).map(drop)),
    ),
    ("DeviceLoop::run", Asks::Driver, after!(|w| w.looped.run(&mut w.stream))),
    ("DeviceLoop::iterations", Asks::Driver, after!(|w| w.looped.iterations(&mut w.stream))),
];

const COOPERATIVE: LaunchOptions = LaunchOptions { cooperative: true, cluster: None, programmatic: false };

/// What takes a context or stream of cudarc's: there is none without a driver that cudarc finds. GPU tests call them.
const OF_CUDARC: &[&str] = &["Device::from_cudarc", "Stream::from_cudarc"];

/// Every function of the driver answers `NO_DEVICE` from here on.
fn driver_gone(sim: &Sim) {
    for name in Driver::functions() {
        sim.fail(name, 1, 100);
    }
}

/// A kernel's fault is seen, by another thread because this one may capture.
fn device_lost(sim: &Sim, device: &Device) {
    sim.fail("cuMemGetInfo_v2", 1, 700);
    std::thread::scope(|scope| scope.spawn(|| device.memory_info().unwrap_err()).join().unwrap());
    assert!(device.lost().is_some());
}

/// The launcher's error behind one of the facade's.
fn launch_error<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a LaunchError> {
    match error.downcast_ref::<SessionError>() {
        Some(SessionError::Launch(error)) => Some(error),
        Some(_) => None,
        None => error.downcast_ref(),
    }
}

/// What is wrong with an outcome, if anything is.
fn judge(name: &str, asks: Asks, lost: bool, outcome: Outcome, calls: i64) -> Option<String> {
    let said = outcome.as_ref().err().map(|error| format!("{error} {error:?}")).unwrap_or_default();
    let error = outcome.as_ref().err().and_then(|error| launch_error(&**error));
    if lost {
        let by_first = |error: &LaunchError| matches!(error, LaunchError::DeviceLost { first } if first.call() == "cuMemGetInfo_v2");
        // What ends with the call may be taken down with calls: a capture, a session.
        let ends = name.starts_with("Capture") || name == "Session::close";
        return match asks {
            Asks::Nobody | Asks::DriverAlone => None,
            _ if !error.is_some_and(by_first) => Some(format!("{name} on a lost device: {said:?}")),
            _ if calls != 0 && !ends => {
                Some(format!("{name} asks the driver of a lost device {calls} times"))
            }
            _ => None,
        };
    }
    let typed = match error {
        Some(LaunchError::Driver(error) | LaunchError::DeviceLost { first: error }) => error.code() == 100,
        // No driver of the system's is there at all, or it has no such device.
        Some(LaunchError::NoDriver { .. } | LaunchError::NoSuchDevice { .. }) => name.ends_with("::open"),
        _ => false,
    };
    let must = matches!(asks, Asks::Driver | Asks::DriverAlone);
    (must && !typed).then(|| format!("{name} on a driver that answers nothing: {said:?}"))
}

#[test]
fn every_call_of_the_launcher_answers_a_typed_error_when_the_driver_answers_nothing_or_the_device_is_lost() {
    let mut wrong = Vec::new();
    for (name, asks, call) in LAUNCHER {
        for lost in [false, true] {
            let sim = Sim::new(&[]).unwrap();
            let mut world = World::new(&sim);
            // What is submitted stays in flight, so that waits have something to wait for.
            sim.hold(true);
            let before = std::cell::Cell::new(0);
            let end = |device: &Device| {
                if lost {
                    device_lost(&sim, device);
                } else {
                    driver_gone(&sim);
                }
                before.set(sim.calls(""));
            };
            let outcome = call(&mut world, &end);
            let calls = sim.calls("") - before.get();
            wrong.extend(judge(name, *asks, lost, outcome, calls));
            // Nothing that is dropped now panics or waits.
            drop(world);
            sim.hold(false);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// As `LAUNCHER`, of a session.
type SessionCall = fn(&mut Session, &mut Parts) -> Result<(), SessionError>;

struct Parts {
    pipeline: Pipeline,
    y: BufferView,
    x: BufferView,
    graph: Graph,
    prefetcher: Prefetcher,
    checkpoint: Option<cuforge_core::Checkpoint>,
}

const FACADE: &[(&str, Asks, SessionCall)] = &[
    ("Session::allocate", Asks::Device, |s, _| s.allocate(&Request::new(4)).map(drop)),
    ("Session::write", Asks::Driver, |s, p| s.write(&p.y, &[1])),
    ("Session::prefetcher", Asks::Driver, |s, _| s.prefetcher(&Request::new(4)).map(drop)),
    ("Session::take", Asks::Driver, |s, p| s.take(&mut p.prefetcher).map(drop)),
    ("Session::read", Asks::Driver, |s, p| s.read(&p.y, &mut [0])),
    ("Session::read_vec", Asks::Driver, |s, p| s.read_vec::<f32>(&p.y).map(drop)),
    ("Session::retire", Asks::Nobody, |s, p| s.retire(p.x)),
    ("Session::clear", Asks::Nobody, |s, _| s.clear().map(drop)),
    ("Session::checkpoint", Asks::Nobody, |s, _| s.checkpoint().map(drop)),
    ("Session::restore", Asks::Nobody, |s, p| p.checkpoint.map_or(Ok(()), |at| s.restore(at).map(drop))),
    ("Session::prepare", Asks::Driver, |s, _| {
        let fresh = saxpy().with_declared_blocks(vec![cuforge_core::DeclaredBlock {
            workgroup_size: [64, 1, 1],
            items_per_invocation: 1,
        }]);
        s.prepare(&fresh, &Schedule::new([64, 1, 1]), &BuildOptions::default()).map(drop)
    }),
    ("Session::run", Asks::Driver, |s, p| {
        s.run(&saxpy(), &SCHEDULE, Arguments { views: &[p.y, p.x], by_value: &[0; 8] }, Extent::Elements(4))
            .map(drop)
    }),
    ("Session::run_pipeline", Asks::Driver, |s, p| {
        s.run_pipeline(&p.pipeline, Arguments { views: &[p.y, p.x], by_value: &[0; 8] }, Extent::Elements(4))
            .map(drop)
    }),
    ("Session::bind", Asks::Device, |s, p| {
        s.bind(&p.pipeline, Arguments { views: &[p.y, p.x], by_value: &[0; 8] }, Extent::Elements(4))
            .map(drop)
    }),
    ("Session::capture", Asks::Driver, |s, _| s.capture(|_| Ok(())).map(drop)),
    ("Session::replay", Asks::Driver, |s, p| s.replay(&mut p.graph)),
    ("Session::device_loop", Asks::Driver, |s, p| {
        s.device_loop(&p.y.slice(0, 4).map_err(LaunchError::from)?, 1, |_| Ok(())).map(drop)
    }),
    ("Session::parameter_block", Asks::Driver, |s, p| s.parameter_block(&p.y).map(drop)),
    ("Session::result_ring", Asks::Driver, |s, _| s.result_ring(16, 2).map(drop)),
    ("Session::synchronize", Asks::Driver, |s, _| s.synchronize()),
];

#[test]
fn every_call_of_a_session_answers_a_typed_error_when_the_driver_answers_nothing_or_the_device_is_lost() {
    let session =
        |sim: &Sim| Session::builder().device(sim.device().unwrap()).slab_bytes(4 << 20).build().unwrap();
    let close: (&str, Asks) = ("Session::close", Asks::Driver);
    let mut wrong = Vec::new();
    for lost in [false, true] {
        for at in 0..=FACADE.len() {
            let sim = Sim::new(&[]).unwrap();
            let mut session = session(&sim);
            let floats = Request::new(16);
            let y = session.allocate(&floats).unwrap().bound_to(0, 0, Access::StorageReadWrite).unwrap();
            let x = session.allocate(&floats).unwrap().bound_to(0, 1, Access::StorageRead).unwrap();
            let pipeline = session.prepare(&saxpy(), &SCHEDULE, &BuildOptions::default()).unwrap();
            let slab = session.slab().clone();
            let graph = session.capture(|scope| scope.fill(&slab, &y, 1)).unwrap().instantiate().unwrap();
            let mut prefetcher = session.prefetcher(&Request::new(16)).unwrap();
            prefetcher.push(16, |_| ()).unwrap();
            let checkpoint = Some(session.checkpoint().unwrap());
            let mut parts = Parts { pipeline, y, x, graph, prefetcher, checkpoint };
            if lost {
                device_lost(&sim, session.device());
            } else {
                driver_gone(&sim);
            }
            let before = sim.calls("");
            let ((name, asks), outcome) = match FACADE.get(at) {
                Some((name, asks, call)) => ((*name, *asks), call(&mut session, &mut parts)),
                None => (close, session.close().map(drop)),
            };
            wrong.extend(judge(name, asks, lost, done(outcome), sim.calls("") - before));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `Type::function` of every public function of a source file that answers a `Result`.
fn fallible(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut of = String::new();
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(head) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) {
            // Parameters of the block go, and what stands before `for`.
            let head = if head.starts_with('<') { &head[closing(head) + 1..] } else { head };
            let head = head.split(" for ").last().unwrap_or(head).trim_start();
            of = head.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        }
        let Some(signature) = line.strip_prefix("    pub ").filter(|_| !of.is_empty()) else { continue };
        let signature = signature.trim_start_matches("const ").trim_start_matches("unsafe ");
        let Some(signature) = signature.strip_prefix("fn ") else { continue };
        let name: String = signature.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let whole: String = lines[at..].iter().take_while(|line| !line.trim().is_empty()).copied().collect();
        let whole = whole.split('{').next().unwrap_or_default();
        if whole.rsplit("->").next().is_some_and(|answer| whole.contains("->") && answer.contains("Result<"))
        {
            found.insert(format!("{of}::{name}"));
        }
    }
    found
}

/// Where the bracket that opens `text` closes.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    0
}

fn fallible_in(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(fallible_in(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.extend(fallible(&fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
fn no_public_function_that_can_fail_is_left_out_of_these_tests() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
    let called = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let launcher = LAUNCHER.iter().map(|(name, ..)| *name).chain(OF_CUDARC.iter().copied());
    assert_eq!(fallible_in(&crates.join("cuforge-launch/src")), called(launcher.collect()));
    let facade = FACADE.iter().map(|(name, ..)| *name).chain(["Session::close", "SessionBuilder::build"]);
    assert_eq!(fallible_in(&crates.join("cuforge/src")), called(facade.collect()));
}
