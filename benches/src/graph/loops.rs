//! Loops on the device beside a conditional graph made by hand, edges, and what it takes to make a graph.

use super::raw::{Exec, Kernel};
use super::rig::{Bench, KERNELS_A_TOKEN};
use crate::area::Measured;
use crate::figure::{Bar, Figure};
use crate::rounds::{compare, repeat};
use cuforge_core::{Access, Request};
use cuforge_launch::{CONDITION_PTX, Graph, LaunchOptions, Stream};
use std::time::Instant;

impl Bench {
    /// A thousand iterations on the device, beside a conditional graph made by hand.
    pub(super) fn loops(&mut self, rounds: usize) -> Measured {
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
    pub(super) fn edges(&mut self, rounds: usize) -> Measured {
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
    pub(super) fn making(&mut self, rounds: usize) -> Measured {
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
