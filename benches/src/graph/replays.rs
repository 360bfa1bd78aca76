//! Replays and patched slots, beside raw calls, cudarc's graphs and `PyTorch`'s.

use super::rig::Bench;
use super::torch::Torch;
use crate::area::Measured;
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{compare, repeat};
use cuforge_launch::{Device, LaunchOptions, Stream};
use std::error::Error;

impl Bench {
    /// CPU time of a replay, beside raw calls, cudarc's and `PyTorch`'s.
    pub(super) fn replays(&mut self, nodes: usize, rounds: usize, torch: Option<&mut Torch>) -> Measured {
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
    pub(super) fn slots(&mut self, rounds: usize) -> Measured {
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
