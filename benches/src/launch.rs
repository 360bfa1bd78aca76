//! Launches and copies on a GPU: bound launches beside raw driver calls and cudarc's builder, uploads beside the driver's.
//!
//! Every pair runs interleaved in one process, other projects in one beside it. The CPU cost of a launch is taken in bursts
//! of 32 into a drained queue.
#![allow(unsafe_code, reason = "the rivals are raw driver calls")]

mod copies;
mod peers;
mod raw;
mod start;

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure};
use crate::rounds::{compare, repeat};
use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Digest, Element, Extent, Grant, Handle, KernelSpec, Misuse,
    ModuleImage, Parameter, Progress, Refusal, Request, Schedule, SlabAllocator, Stamp, Stats,
};
use cuforge_launch::{BoundLaunch, Device, Mailbox, Pipeline, Slab, SlabOptions, Stream};
use peers::Peers;
use raw::{BURST, Raw};
pub use start::as_child;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const KERNELS: &str = include_str!("../../tests/kernels/plain.ptx");

/// Bursts of one sample where sides are not compared.
const BURSTS: usize = 64;

const MIB: usize = 1 << 20;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let mut bench = Bench::new()?;
    println!("  {} on {:?}", bench.device.adapter().name, bench.device.driver());
    let mut figures = bench.launches(rounds)?;
    figures.extend(bench.peers(rounds)?);
    figures.extend(bench.waits(rounds)?);
    figures.extend(bench.overlap(rounds)?);
    figures.extend(bench.overlap_owned(rounds)?);
    figures.extend(bench.uploads(if settings.quick { 5 } else { rounds })?);
    figures.extend(start::measure(rounds)?);
    Ok(figures)
}

struct Bench {
    device: Device,
    slab: Slab,
    stream: Stream,
    pipeline: Pipeline,
    views: [BufferView; 3],
    raw: Raw,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let device = Device::open(0)?;
        let raw = Raw::open(device.driver().library())?;
        let slab =
            Slab::new(&device, Box::new(Endless { next: 0, capacity: 1 << 30 }), SlabOptions::default())?;
        let stream = Stream::new(&device)?;
        let buffer = |at, access| Parameter::buffer("buffer", at, Element::U32, access);
        let parameters = vec![
            buffer(0, Access::StorageReadWrite),
            buffer(1, Access::StorageRead),
            buffer(2, Access::StorageRead),
            Parameter::scalar("add", Element::U32),
            Parameter::scalar("n", Element::U32),
        ];
        let pipeline = pipeline(&device, "five", parameters, 128)?;
        let view = |at, access| -> Result<BufferView, Box<dyn Error>> {
            Ok(slab.acquire(&Request::new(4096))?.bound_to(0, at, access)?)
        };
        let views = [
            view(0, Access::StorageReadWrite)?,
            view(1, Access::StorageRead)?,
            view(2, Access::StorageRead)?,
        ];
        Ok(Self { device, slab, stream, pipeline, views, raw })
    }

    fn bound(&self) -> Result<BoundLaunch, Box<dyn Error>> {
        let values = [1u32.to_le_bytes(), 128u32.to_le_bytes()].concat();
        let arguments = Arguments { views: &self.views, by_value: &values };
        Ok(self.pipeline.bind(&self.slab, arguments, Extent::Elements(128))?)
    }

    /// CPU time of a launch, five arguments. Sides take turns burst by burst, so that a slow moment hits both.
    fn launches(&mut self, rounds: usize) -> Measured {
        let mut bound = self.bound()?;
        let packed = bound.packed_arguments().to_vec();
        let (function, raw_stream) = (self.pipeline.raw_function(), self.stream.raw());
        let raw = &self.raw;
        let values = [1u32.to_le_bytes(), 128u32.to_le_bytes()].concat();
        let arguments = Arguments { views: &self.views, by_value: &values };
        let theirs = Cudarc::new(&self.device, &self.views, &self.slab)?;
        let (pipeline, slab) = (&self.pipeline, &self.slab);
        let stream = &mut self.stream;
        let mut ours = || burst(stream, |stream| Ok(bound.launch(stream)?));
        let mut with_pointers =
            || raw.burst(raw_stream, || raw.launch_pointers(function, raw_stream, &packed));
        let mut with_packed = || raw.burst(raw_stream, || raw.launch_packed(function, raw_stream, &packed));
        let (mut other, mut other_stream) = (Stream::new(&self.device)?, Stream::new(&self.device)?);
        let mut unbound = || {
            let extent = Extent::Elements(128);
            burst(&mut other, |stream| Ok(pipeline.launch(stream, slab, arguments, extent)?))
        };
        let mut builder = || theirs.burst();
        let turns = rounds * BURSTS;
        let mut figures = vec![
            Figure::new("bound launch", "ns", repeat(turns, &mut ours)?, turns),
            Figure::new("raw cuLaunchKernel, kernelParams", "ns", repeat(turns, &mut with_pointers)?, turns),
            Figure::new("raw cuLaunchKernel, packed", "ns", repeat(turns, &mut with_packed)?, turns),
            Figure::new("cudarc's builder", "ns", repeat(turns, &mut builder)?, turns),
        ];
        let mut ratio = |name: &str, spread, bar: Option<f64>| {
            let figure = Figure::new(name, "ratio", spread, turns);
            figures.push(match bar {
                Some(bar) => figure.with_bar(Bar::AtMost(bar)),
                None => figure,
            });
        };
        let spread = compare(turns, &mut ours, &mut with_pointers)?;
        ratio("bound launch / raw with kernelParams", spread, Some(0.97));
        let spread = compare(turns, &mut ours, &mut with_packed)?;
        ratio("bound launch / raw packed", spread, Some(1.02));
        ratio(
            "raw packed / raw with kernelParams",
            compare(turns, &mut with_packed, &mut with_pointers)?,
            None,
        );
        ratio(
            "unbound launch / raw with kernelParams",
            compare(turns, &mut unbound, &mut with_pointers)?,
            None,
        );
        ratio("bound launch / cudarc's builder", compare(turns, &mut ours, &mut builder)?, None);
        let mut changing = self.bound()?;
        let mut turn = 0u32;
        let mut renewed = || {
            burst(&mut other_stream, |stream| {
                turn = turn.wrapping_add(1);
                let values = [turn.to_le_bytes(), 128u32.to_le_bytes()];
                changing.set_values(values.as_flattened())?;
                Ok(changing.launch(stream)?)
            })
        };
        ratio(
            "new values and bound launch / raw with kernelParams",
            compare(turns, &mut renewed, &mut with_pointers)?,
            None,
        );
        Ok(figures)
    }

    /// The same through other projects, each burst in their own process, in turns with ours.
    fn peers(&mut self, rounds: usize) -> Measured {
        let mut bound = self.bound()?;
        let stream = &mut self.stream;
        let mut peers = match Peers::start() {
            Ok(peers) => peers,
            Err(why) => {
                println!("  no peers: {why}");
                return Ok(Vec::new());
            }
        };
        let turns = rounds * 8;
        let mut figures = Vec::new();
        for (name, version) in peers.ready() {
            println!("  {name} {version}");
            let spread = repeat(turns, || peers.burst(&name))?;
            figures.push(Figure::new(format!("launch through {name}"), "ns", spread, turns));
            let ours = || burst(stream, |stream| Ok(bound.launch(stream)?));
            let spread = compare(turns, ours, || peers.burst(&name))?;
            figures.push(Figure::new(format!("bound launch / {name}"), "ratio", spread, turns));
        }
        Ok(figures)
    }

    /// Time until the host knows.
    fn waits(&mut self, rounds: usize) -> Measured {
        let mut bound = self.bound()?;
        let (slab, view) = (self.slab.clone(), self.views[0]);
        let stream = &mut self.stream;
        let mut four = [0; 4];
        let both = repeat(rounds, || {
            per_call(200, || {
                bound.launch(stream)?;
                Ok(stream.synchronize()?)
            })
        })?;
        let write =
            repeat(rounds * BURSTS, || burst(stream, |stream| Ok(slab.write(stream, &view, &[1; 4])?)))?;
        let read = repeat(rounds, || per_call(200, || Ok(slab.read(stream, &view, &mut four)?)))?;
        let word = view.slice(0, 4)?;
        let mut mailbox = Mailbox::new(&self.device, 4)?;
        let polled = repeat(rounds, || {
            per_call(200, || {
                bound.launch(stream)?;
                slab.post(stream, &word, &mut mailbox)?;
                while mailbox.poll().is_none() {
                    std::hint::spin_loop();
                }
                Ok(())
            })
        })?;
        let timed = repeat(rounds, || per_call(200, || Ok(bound.run(stream).map(|_| ())?)))?;
        Ok(vec![
            Figure::new("launch and synchronize", "ns", both, rounds),
            Figure::new("write of 4 bytes, host time", "ns", write, rounds * BURSTS),
            Figure::new("launch, post and poll of 4 bytes", "ns", polled, rounds),
            Figure::new("read of 4 bytes", "ns", read, rounds),
            Figure::new("launch timed by events, with the wait", "ns", timed, rounds),
        ])
    }
}

/// A kernel of the tests' file.
fn pipeline(
    device: &Device,
    entry: &'static str,
    parameters: Vec<Parameter>,
    threads: u32,
) -> Result<Pipeline, Box<dyn Error>> {
    let block = DeclaredBlock { workgroup_size: [threads, 1, 1], items_per_invocation: 1 };
    // SAFETY: with n at most the elements of each buffer, the kernels stay inside them.
    let spec =
        unsafe { KernelSpec::ptx(entry, entry, KERNELS, parameters) }.with_declared_blocks(vec![block]);
    let image = Arc::new(ModuleImage {
        cubin: None,
        ptx: Some(KERNELS.into()),
        entry_points: Vec::new(),
        lowered_names: Vec::new(),
        target: device.target(),
        decision: "given".into(),
        compiler: "NVRTC 12.9".into(),
        log: String::new(),
        digest: Digest([1; 32]),
    });
    // SAFETY: the image is the specification's own text.
    Ok(unsafe { device.pipeline(&image, &spec, &Schedule::new([threads, 1, 1])) }?)
}

/// The same kernel through cudarc's launch builder, event tracking off.
struct Cudarc {
    stream: Arc<cudarc::driver::CudaStream>,
    function: cudarc::driver::CudaFunction,
    addresses: [u64; 3],
}

impl Cudarc {
    fn new(device: &Device, views: &[BufferView; 3], slab: &Slab) -> Result<Self, Box<dyn Error>> {
        let context = device.to_cudarc()?;
        // SAFETY: only this bench uses the context's cudarc streams, from one thread.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(cudarc::nvrtc::Ptx::from_src(KERNELS))?;
        let mut addresses = [0; 3];
        for (address, view) in addresses.iter_mut().zip(views) {
            *address = slab.address_of(view)?;
        }
        Ok(Self { stream: context.new_stream()?, function: module.load_function("five")?, addresses })
    }

    fn burst(&self) -> Result<f64, Box<dyn Error>> {
        use cudarc::driver::PushKernelArg;
        let config =
            cudarc::driver::LaunchConfig { grid_dim: (1, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        self.stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..BURST {
            let mut builder = self.stream.launch_builder(&self.function);
            let (add, n) = (1u32, 128u32);
            for address in &self.addresses {
                builder.arg(address);
            }
            builder.arg(&add).arg(&n);
            // SAFETY: the arguments are those of the kernel, over live memory.
            unsafe { builder.launch(config) }?;
        }
        Ok(start.elapsed().as_nanos() as f64 / BURST as f64)
    }
}

/// Nanoseconds of one call, in a burst into a drained stream.
fn burst(
    stream: &mut Stream,
    mut call: impl FnMut(&mut Stream) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..BURST {
        call(stream)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / BURST as f64)
}

fn per_call(calls: u32, mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// Hands out ever new bytes: a bench needs no more.
struct Endless {
    next: u64,
    capacity: u64,
}

// SAFETY: no byte is handed out twice, and none beyond the capacity.
unsafe impl SlabAllocator for Endless {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let offset = self.next.next_multiple_of(request.align);
        if offset + request.len > self.capacity {
            return None;
        }
        self.next = offset + request.len;
        Some(Grant { handle: Handle::new(self.next)?, offset })
    }
    fn refusal(&self, request: &Request) -> Refusal {
        let offset = self.next.next_multiple_of(request.align);
        Refusal::NeverFits { max_bytes: self.capacity.saturating_sub(offset) }
    }
    fn release(&mut self, _: Handle, _: &[Stamp]) -> Result<(), Misuse> {
        Ok(())
    }
    fn reclaim(&mut self, _: &dyn Progress) -> u64 {
        0
    }
    fn stats(&self) -> Stats {
        Stats { capacity_bytes: self.capacity, ..Stats::default() }
    }
}
