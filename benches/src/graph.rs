//! Graphs on a GPU: replays, patched slots, token loops and device loops beside raw driver calls, cudarc and `PyTorch`.
//!
//! Every pair runs interleaved. The CPU cost of a replay is taken in bursts of at most 32 into a drained stream.
#![allow(unsafe_code, reason = "the rivals are raw driver calls")]

mod raw;
mod torch;

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{compare, repeat};
use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Digest, Element, Extent, KernelSpec, ModuleImage,
    Parameter, Request, Schedule,
};
use cuforge_launch::{
    BoundLaunch, CONDITION_PTX, Device, Graph, LaunchOptions, ParameterBlock, ResultRing, Slab, SlabOptions,
    Stream,
};
use cuforge_slab::RegionSlab;
use raw::{Exec, Kernel, Raw};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hint;
use std::sync::Arc;
use std::time::Instant;
use torch::Torch;

const KERNELS: [&str; 2] =
    [include_str!("../../tests/kernels/graph.ptx"), include_str!("../../tests/kernels/graph_sm90.ptx")];

/// Kernels of the token loop.
const KERNELS_A_TOKEN: usize = 10;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let mut bench = Bench::new()?;
    println!("  {} on {:?}", bench.device.adapter().name, bench.device.driver());
    let mut torch = match Torch::start() {
        Ok(torch) => {
            println!("  PyTorch {} in a process of its own", torch.version());
            Some(torch)
        }
        Err(why) => {
            println!("  no PyTorch: {why}");
            None
        }
    };
    let mut figures = Vec::new();
    for nodes in [1, 10, 100, 1000] {
        figures.extend(bench.replays(nodes, rounds, torch.as_mut())?);
    }
    figures.extend(bench.slots(rounds)?);
    figures.extend(bench.tokens(rounds, torch.as_mut())?);
    figures.extend(bench.loops(rounds)?);
    figures.extend(bench.edges(rounds)?);
    figures.extend(bench.making(rounds)?);
    Ok(figures)
}

struct Bench {
    device: Device,
    slab: Slab,
    stream: Stream,
    word: BufferView,
    raw: Raw,
    raw_step: Kernel,
    ptx: &'static str,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let device = Device::open(0)?;
        let raw = Raw::open(device.driver().library(), device.raw_context())?;
        raw.make_current()?;
        let slab = Slab::new(&device, Box::new(RegionSlab::new(64 << 20)?), SlabOptions::default())?;
        let stream = Stream::new(&device)?;
        let word = slab.acquire(&Request::new(4))?.bound_to(0, 0, Access::StorageReadWrite)?;
        let newer = device.adapter().compute_capability.is_some_and(|capability| capability.major >= 9);
        let ptx = KERNELS[usize::from(newer)];
        let packed = [&slab.address_of(&word)?.to_le_bytes()[..], &1u32.to_le_bytes()].concat();
        let raw_step = Kernel { function: raw.load(ptx, "increment")?, threads: 32, packed };
        Ok(Self { device, slab, stream, word, raw, raw_step, ptx })
    }

    /// Adds one to a word: hardly any work.
    fn increment(&self, word: &BufferView) -> Result<BoundLaunch, Box<dyn Error>> {
        self.kernel("increment", word, &[("n", Element::U32)], &1u32.to_le_bytes())
    }

    /// A kernel of the tests' file over one buffer and scalars.
    fn kernel(
        &self,
        entry: &'static str,
        word: &BufferView,
        scalars: &[(&'static str, Element)],
        by_value: &[u8],
    ) -> Result<BoundLaunch, Box<dyn Error>> {
        let mut parameters = vec![Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite)];
        parameters.extend(scalars.iter().map(|(name, element)| Parameter::scalar(*name, *element)));
        let block = DeclaredBlock { workgroup_size: [32, 1, 1], items_per_invocation: 1 };
        // SAFETY: the kernels stay inside the words and the mapped memory that this bench gives them.
        let spec =
            unsafe { KernelSpec::ptx(entry, entry, self.ptx, parameters) }.with_declared_blocks(vec![block]);
        let image = Arc::new(ModuleImage {
            cubin: None,
            ptx: Some(self.ptx.into()),
            entry_points: Vec::new(),
            lowered_names: Vec::new(),
            target: self.device.target(),
            decision: "given".into(),
            compiler: "NVRTC 12.9".into(),
            log: String::new(),
            digest: Digest([2; 32]),
        });
        // SAFETY: the image is the specification's own text.
        let pipeline = unsafe { self.device.pipeline(&image, &spec, &Schedule::new([32, 1, 1])) }?;
        let arguments = Arguments { views: &[*word], by_value };
        Ok(pipeline.bind(&self.slab, arguments, Extent::Elements(1))?)
    }

    fn chain(&mut self, nodes: usize, options: LaunchOptions) -> Result<Graph, Box<dyn Error>> {
        let mut kernel = self.increment(&self.word)?;
        let recording = self.stream.capture(|scope| {
            kernel.launch(scope)?;
            scope.mark_scalar::<u32>("n", "n")?;
            (1..nodes).try_for_each(|_| kernel.launch_with(scope, options))
        })?;
        let mut graph = recording.instantiate()?;
        graph.upload(&mut self.stream)?;
        Ok(graph)
    }

    /// CPU time of a replay, beside raw calls, cudarc's and `PyTorch`'s.
    fn replays(&mut self, nodes: usize, rounds: usize, torch: Option<&mut Torch>) -> Measured {
        let mut graph = self.chain(nodes, LaunchOptions::default())?;
        let mut other = Stream::new(&self.device)?;
        let theirs = self.raw.capture(other.raw(), &self.raw_step, nodes)?;
        let cudarc =
            Cudarc::new(&self.device, &mut other, self.ptx, self.slab.address_of(&self.word)?, nodes)?;
        let (raw, stream) = (self.raw, &mut self.stream);
        // A thousand nodes take the device longer than the host: one at a time into a drained stream.
        let (calls, turns) = if nodes < 1000 { (32, rounds * 32) } else { (1, rounds * 32) };
        let raw_stream = other.raw();
        let mut ours = || {
            let raw_stream = stream.raw();
            raw.burst(raw_stream, calls, || Ok(graph.replay(stream)?))
        };
        let mut bare = || raw.burst(raw_stream, calls, || raw.replay(theirs, raw_stream));
        let mut figures = vec![
            Figure::new(format!("replay of {nodes} nodes"), "ns", repeat(turns, &mut ours)?, turns),
            Figure::new(format!("raw cuGraphLaunch of {nodes}"), "ns", repeat(turns, &mut bare)?, turns),
        ];
        let spread = compare(turns, &mut ours, &mut bare)?;
        figures.push(
            Figure::new(format!("replay / raw, {nodes} nodes"), "ratio", spread, turns)
                .with_bar(Bar::AtMost(1.02)),
        );
        let mut cudarc = || raw.burst(raw_stream, calls, || cudarc.replay());
        let spread = compare(turns, &mut ours, &mut cudarc)?;
        figures.push(Figure::new(format!("replay / cudarc's, {nodes} nodes"), "ratio", spread, turns));
        if let Some(torch) = torch {
            let order = format!("replay {nodes} {calls}");
            let spread = compare(rounds, &mut ours, || torch.ask(&order))?;
            figures.push(Figure::new(format!("replay / PyTorch's, {nodes} nodes"), "ratio", spread, rounds));
        }
        Ok(figures)
    }

    /// What one changed slot adds to a replay, beside what the raw call adds to a raw one.
    fn slots(&mut self, rounds: usize) -> Measured {
        let (calls, turns) = (32, rounds * 32);
        let mut graph = self.chain(10, LaunchOptions::default())?;
        let slot = graph.scalar_slot::<u32>("n")?;
        let mut other = Stream::new(&self.device)?;
        let theirs = self.raw.capture(other.raw(), &self.raw_step, 10)?;
        let (raw, raw_stream, mut kernel) = (self.raw, other.raw(), self.raw_step.clone());
        other.synchronize()?;
        let stream = &mut self.stream;
        let mut value = 0;
        let mut ours = |changes: bool| {
            let on = stream.raw();
            raw.burst(on, calls, || {
                // The kernel runs over one word, or none: either way the bytes differ from those before.
                value ^= u32::from(changes);
                graph.set(slot, value)?;
                Ok(graph.replay(stream)?)
            })
        };
        let mut turn = 0u32;
        let mut bare = |changes: bool| {
            raw.burst(raw_stream, calls, || {
                if changes {
                    turn ^= 1;
                    let at = kernel.packed.len() - 4;
                    kernel.packed[at..].copy_from_slice(&turn.to_le_bytes());
                    raw.set(theirs, &kernel)?;
                }
                raw.replay(theirs, raw_stream)
            })
        };
        let (mut added, mut raw_added, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..=turns {
            let (mine, theirs) = if turn % 2 == 0 {
                let mine = ours(true)? - ours(false)?;
                (mine, bare(true)? - bare(false)?)
            } else {
                let theirs = bare(true)? - bare(false)?;
                (ours(true)? - ours(false)?, theirs)
            };
            if turn > 0 && theirs > 0.0 {
                added.push(mine);
                raw_added.push(theirs);
                ratios.push(mine / theirs);
            }
        }
        let spread = |samples: &[f64]| Spread::of(samples).ok_or("no samples that are numbers");
        let turns = ratios.len();
        Ok(vec![
            Figure::new("one changed slot adds", "ns", spread(&added)?, turns),
            Figure::new("raw SetParams adds", "ns", spread(&raw_added)?, turns),
            Figure::new("one changed slot / raw SetParams", "ratio", spread(&ratios)?, turns)
                .with_bar(Bar::AtMost(1.15)),
        ])
    }

    /// Four bytes in, ten kernels, four bytes out.
    fn tokens(&mut self, rounds: usize, torch: Option<&mut Torch>) -> Measured {
        const TOKENS: u32 = 200;
        let slab = self.slab.clone();
        let view = |words: u64| -> Result<BufferView, Box<dyn Error>> {
            Ok(slab.acquire(&Request::new(4 * words))?.bound_to(0, 0, Access::StorageReadWrite)?)
        };
        let (word, pair) = (view(1)?, view(2)?);
        slab.fill(&mut self.stream, &pair, 0)?;
        let mut block = ParameterBlock::new(&mut self.stream, &slab, &word)?;
        let mut ring = ResultRing::new(&mut self.stream, &slab, 4, 64)?;
        let mut kernel = self.increment(&word)?;
        let programmatic = kernel.pipeline().waits_for_predecessor();
        let options = LaunchOptions { programmatic, ..LaunchOptions::default() };
        let recording = self.stream.capture(|scope| {
            scope.feed(&mut block)?;
            (0..KERNELS_A_TOKEN).try_for_each(|_| kernel.launch_with(scope, options))?;
            scope.post(&ring, &slab, &word)
        })?;
        let mut through_ring = recording.instantiate()?;
        through_ring.upload(&mut self.stream)?;
        // The value as a slot of the first kernel, or out of mapped memory; the result told there by the last.
        let words = Arc::new(self.device.mapped_words(2)?);
        let at = words.device_address();
        let scalars = [("value", Element::U32), ("n", Element::U32)];
        let mut set = self.kernel("set", &pair, &scalars, &[0, 0, 0, 0, 1, 0, 0, 0])?;
        let mut fetch = self.kernel("fetch", &pair, &[("from", Element::U64)], &at.to_le_bytes())?;
        let mut middle = self.increment(&pair)?;
        let mut last = self.kernel("finish", &pair, &[("report", Element::U64)], &(at + 8).to_le_bytes())?;
        let mut chain = |first: &mut BoundLaunch, slot: bool| -> Result<Graph, Box<dyn Error>> {
            let recording = self.stream.capture(|scope| {
                scope.keep(&words)?;
                first.launch(scope)?;
                if slot {
                    scope.mark_scalar::<u32>("value", "value")?;
                }
                (2..KERNELS_A_TOKEN).try_for_each(|_| middle.launch_with(scope, options))?;
                last.launch_with(scope, options)
            })?;
            let mut graph = recording.instantiate()?;
            graph.upload(&mut self.stream)?;
            Ok(graph)
        };
        let (mut by_slot, mut by_word) = (chain(&mut set, true)?, chain(&mut fetch, false)?);
        let slot = by_slot.scalar_slot::<u32>("value")?;
        self.stream.synchronize()?;
        let other = Stream::new(&self.device)?;
        let (raw, raw_stream) = (self.raw, other.raw());
        let theirs = self.raw.capture(raw_stream, &self.raw_step, KERNELS_A_TOKEN)?;
        let at = self.slab.address_of(&self.word)?;
        let stream = &mut self.stream;
        let per_token = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(TOKENS);
        let turn = Cell::new(0u32);
        // Waits for the last kernel of this turn and checks what it tells.
        let told = |token: u32| -> Result<(), Box<dyn Error>> {
            turn.set(turn.get().wrapping_add(1));
            let out = loop {
                let told = words.load(1).ok_or("no word")?;
                if (told >> 32) as u32 == turn.get() {
                    break told as u32;
                }
                hint::spin_loop();
            };
            if out == token + KERNELS_A_TOKEN as u32 - 1 {
                Ok(())
            } else {
                Err(format!("token {token} came out as {out}").into())
            }
        };
        let stream = RefCell::new(stream);
        let mut ours = || {
            let mut stream = stream.borrow_mut();
            let start = Instant::now();
            for token in 0..TOKENS {
                by_slot.set(slot, token)?;
                by_slot.replay(&mut stream)?;
                told(token)?;
            }
            Ok(per_token(start))
        };
        let mut fetched = || {
            let mut stream = stream.borrow_mut();
            let start = Instant::now();
            for token in 0..TOKENS {
                words.store(0, u64::from(token)).ok_or("no word")?;
                by_word.replay(&mut stream)?;
                told(token)?;
            }
            Ok(per_token(start))
        };
        let second = &mut Stream::new(&self.device)?;
        let mut ringed = || {
            let start = Instant::now();
            for token in 0..TOKENS {
                block.set(&token)?;
                through_ring.replay(second)?;
                let out: u32 = loop {
                    if let Some(found) = ring.poll() {
                        break u32::from_le_bytes(found.try_into()?);
                    }
                    hint::spin_loop();
                };
                if out != token + KERNELS_A_TOKEN as u32 {
                    return Err(format!("token {token} came out as {out}").into());
                }
            }
            Ok(per_token(start))
        };
        let mut pageable = || {
            let start = Instant::now();
            for token in 0..TOKENS {
                let out = raw.token(theirs, raw_stream, at, token)?;
                if out != token + KERNELS_A_TOKEN as u32 {
                    return Err(format!("token {token} came out as {out}").into());
                }
            }
            Ok(per_token(start))
        };
        let mut figures = vec![
            Figure::new("token loop, value by slot", "ns", repeat(rounds, &mut ours)?, rounds),
            Figure::new("token loop, value in mapped memory", "ns", repeat(rounds, &mut fetched)?, rounds),
            Figure::new("token loop through block and ring", "ns", repeat(rounds, &mut ringed)?, rounds),
            Figure::new("token loop with pageable copies", "ns", repeat(rounds, &mut pageable)?, rounds),
        ];
        let spread = compare(rounds, &mut ours, &mut pageable)?;
        let in_words = compare(rounds, &mut fetched, &mut pageable)?;
        figures.push(Figure::new("value in mapped memory / pageable copies", "ratio", in_words, rounds));
        figures.push(
            Figure::new("token loop / pageable copies", "ratio", spread, rounds).with_bar(Bar::AtMost(0.5)),
        );
        if let Some(torch) = torch {
            let order = format!("tokens {TOKENS}");
            figures.push(Figure::new(
                "PyTorch's token loop",
                "ns",
                repeat(rounds, || torch.ask(&order))?,
                rounds,
            ));
            let spread = compare(rounds, &mut ours, || torch.ask(&order))?;
            figures.push(
                Figure::new("token loop / PyTorch's", "ratio", spread, rounds).with_bar(Bar::AtMost(0.36)),
            );
        }
        Ok(figures)
    }

    /// A thousand iterations on the device, beside a conditional graph made by hand.
    fn loops(&mut self, rounds: usize) -> Measured {
        const ITERATIONS: u32 = 1000;
        let slab = self.slab.clone();
        let go = slab.acquire(&Request::new(4))?;
        slab.write_from(&mut self.stream, &go, &[1u32])?;
        let mut kernel = self.increment(&self.word)?;
        let mut looped = self.stream.device_loop(&slab, &go, ITERATIONS, |body| {
            (0..KERNELS_A_TOKEN).try_for_each(|_| kernel.launch(body))
        })?;
        if !looped.is_on_device() {
            return Err("the driver has no conditional nodes".into());
        }
        let counter = slab.acquire(&Request::new(16))?;
        slab.fill(&mut self.stream, &counter, 0)?;
        self.stream.synchronize()?;
        let report = self.device.pinned(8)?;
        let function = self.raw.load(CONDITION_PTX, "cuforge_loop")?;
        let (go_at, counter_at) = (slab.address_of(&go)?, slab.address_of(&counter)?);
        let last = |handle: u64| {
            let words = [go_at, counter_at, report.device_address(), handle, u64::from(ITERATIONS)];
            Kernel {
                function,
                threads: 1,
                packed: words.iter().flat_map(|word| word.to_le_bytes()).take(36).collect(),
            }
        };
        let other = Stream::new(&self.device)?;
        let body = vec![self.raw_step.clone(); KERNELS_A_TOKEN];
        let by_hand: Exec = self.raw.loops(other.raw(), &body, last)?;
        let (raw, raw_stream, stream) = (self.raw, other.raw(), &mut self.stream);
        let per_iteration = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(ITERATIONS);
        let mut ours = || {
            let start = Instant::now();
            looped.run(stream)?;
            stream.synchronize()?;
            let elapsed = per_iteration(start);
            match looped.iterations(stream)? {
                done if done == u64::from(ITERATIONS) => Ok(elapsed),
                done => Err(format!("{done} iterations").into()),
            }
        };
        let mut theirs = || {
            let start = Instant::now();
            raw.replay(by_hand, raw_stream)?;
            raw.wait(raw_stream)?;
            Ok(per_iteration(start))
        };
        let figures = vec![
            Figure::new("device loop, an iteration", "ns", repeat(rounds, &mut ours)?, rounds),
            Figure::new("by hand, an iteration", "ns", repeat(rounds, &mut theirs)?, rounds),
            Figure::new("device loop / by hand", "ratio", compare(rounds, &mut ours, &mut theirs)?, rounds)
                .with_bar(Bar::AtMost(1.02)),
        ];
        Ok(figures)
    }

    /// Device time of a node in a chain of a thousand, with and without programmatic edges.
    fn edges(&mut self, rounds: usize) -> Measured {
        const NODES: usize = 1000;
        let mut plain = self.chain(NODES, LaunchOptions::default())?;
        if !self.increment(&self.word)?.pipeline().waits_for_predecessor() {
            return Ok(Vec::new());
        }
        let options = LaunchOptions { programmatic: true, ..LaunchOptions::default() };
        let mut early = self.chain(NODES, options)?;
        let mut other = Stream::new(&self.device)?;
        let mut time = |graph: &mut Graph| {
            let start = Instant::now();
            graph.replay_times(&mut other, 4)?;
            other.synchronize()?;
            Ok(start.elapsed().as_nanos() as f64 / (4 * NODES) as f64)
        };
        let mut figures = vec![
            Figure::new("a node in a chain", "ns", repeat(rounds, || time(&mut plain))?, rounds),
            Figure::new("with programmatic edges", "ns", repeat(rounds, || time(&mut early))?, rounds),
        ];
        let mut second = Stream::new(&self.device)?;
        let mut again = |graph: &mut Graph| {
            let start = Instant::now();
            graph.replay_times(&mut second, 4)?;
            second.synchronize()?;
            Ok(start.elapsed().as_nanos() as f64 / (4 * NODES) as f64)
        };
        let spread = compare(rounds, || time(&mut early), || again(&mut plain))?;
        figures.push(
            Figure::new("programmatic / plain, a node", "ratio", spread, rounds).with_bar(Bar::AtMost(0.8)),
        );
        Ok(figures)
    }

    /// What it takes to have a graph of a hundred nodes, and to change all of it.
    fn making(&mut self, rounds: usize) -> Measured {
        const NODES: usize = 100;
        let (slab, other_word) = (self.slab.clone(), self.slab.acquire(&Request::new(4))?);
        let other_word = other_word.bound_to(0, 0, Access::StorageReadWrite)?;
        let (mut one, mut two) = (self.increment(&self.word)?, self.increment(&other_word)?);
        let microseconds = |start: Instant| start.elapsed().as_nanos() as f64 / 1e3;
        let stream = &mut self.stream;
        let capture = repeat(rounds, || {
            let start = Instant::now();
            stream.capture(|scope| (0..NODES).try_for_each(|_| one.launch(scope)))?;
            Ok(microseconds(start))
        })?;
        let first = stream.capture(|scope| (0..NODES).try_for_each(|_| one.launch(scope)))?;
        let second = stream.capture(|scope| (0..NODES).try_for_each(|_| two.launch(scope)))?;
        let instantiate = repeat(rounds, || {
            let start = Instant::now();
            let graph = first.instantiate()?;
            let elapsed = microseconds(start);
            drop(graph);
            Ok(elapsed)
        })?;
        let mut graph = first.instantiate()?;
        let mut turn = false;
        let update = repeat(rounds, || {
            turn = !turn;
            let start = Instant::now();
            let changed = graph.update(if turn { &second } else { &first })?;
            let elapsed = microseconds(start);
            if changed == NODES { Ok(elapsed) } else { Err(format!("{changed} nodes changed").into()) }
        })?;
        drop(slab);
        Ok(vec![
            Figure::new("capture of 100 kernels", "us", capture, rounds),
            Figure::new("instantiate 100 kernels", "us", instantiate, rounds),
            Figure::new("update of 100 kernels that all differ", "us", update, rounds),
        ])
    }
}

/// The same chain captured and replayed by cudarc.
struct Cudarc {
    graph: cudarc::driver::CudaGraph,
    /// Its graph does not keep the module.
    _function: cudarc::driver::CudaFunction,
}

impl Cudarc {
    fn new(
        device: &Device,
        other: &mut Stream,
        ptx: &str,
        word: u64,
        nodes: usize,
    ) -> Result<Self, Box<dyn Error>> {
        use cudarc::driver::{PushKernelArg, sys};
        other.synchronize()?;
        let context = device.to_cudarc()?;
        // SAFETY: only this bench uses the context's cudarc streams, from one thread.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(cudarc::nvrtc::Ptx::from_src(ptx))?;
        let (stream, function) = (context.new_stream()?, module.load_function("increment")?);
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let config =
            cudarc::driver::LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let one = 1u32;
        for _ in 0..nodes {
            let mut builder = stream.launch_builder(&function);
            builder.arg(&word).arg(&one);
            // SAFETY: the arguments are those of the kernel, over live memory.
            unsafe { builder.launch(config) }?;
        }
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0))?.ok_or("cudarc captured nothing")?;
        graph.upload()?;
        stream.synchronize()?;
        Ok(Self { graph, _function: function })
    }

    fn replay(&self) -> Result<(), Box<dyn Error>> {
        Ok(self.graph.launch()?)
    }
}
