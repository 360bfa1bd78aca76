//! Launches and copies on a GPU: bound launches beside raw driver calls and cudarc's builder, uploads beside the driver's.
//!
//! Every pair runs interleaved in one process, other projects in one beside it. The CPU cost of a launch is taken in bursts
//! of 32 into a drained queue.
#![allow(unsafe_code, reason = "the rivals are raw driver calls")]

mod peers;
mod raw;
mod start;

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{compare, repeat};
use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Digest, Element, Extent, Grant, Handle, KernelSpec,
    LaunchGeometry, Misuse, ModuleImage, Parameter, Progress, Refusal, Request, Schedule, SlabAllocator,
    Stamp, Stats,
};
use cuforge_launch::{
    BoundLaunch, Device, Mailbox, OwnedUpload, PinnedBuffer, Pipeline, Prefetcher, Slab, SlabOptions, Stream,
    Upload,
};
use peers::Peers;
use raw::{BURST, Raw};
pub use start::as_child;
use std::collections::VecDeque;
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

    /// A copy of 64 MiB behind some 2 ms of compute: what of it is hidden, and how long the host is held.
    fn overlap(&mut self, rounds: usize) -> Measured {
        const BYTES: usize = 64 * MIB;
        const STEPS: u32 = 8;
        let parameters = vec![
            Parameter::buffer("data", 0, Element::U32, Access::StorageReadWrite),
            Parameter::scalar("n", Element::U32),
            Parameter::scalar("rounds", Element::U32),
        ];
        let grind = pipeline(&self.device, "grind", parameters, 256)?;
        let words = BYTES as u32 / 4;
        let geometry = LaunchGeometry { grid: [1056, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
        let values = [words.to_le_bytes(), 7500u32.to_le_bytes()].concat();
        let request = Request::new(BYTES as u64);
        let mut prefetcher = Prefetcher::new(&self.slab, &request, 2)?;
        let target = self.slab.acquire(&request)?;
        let slab = self.slab.clone();
        let stream = &mut self.stream;
        let compute = |stream: &mut Stream, view: BufferView| -> Result<(), Box<dyn Error>> {
            let view = view.bound_to(0, 0, Access::StorageReadWrite)?;
            let arguments = Arguments { views: &[view], by_value: &values };
            Ok(grind.launch(stream, &slab, arguments, Extent::Geometry(geometry))?)
        };
        let milliseconds = |start: Instant| start.elapsed().as_secs_f64() * 1e3 / f64::from(STEPS);
        let mut sources = VecDeque::new();
        for _ in 0..3 {
            sources.push_back(Source::Here(self.device.pinned(BYTES)?));
        }
        let mut lone = Some(self.device.pinned(BYTES)?);
        let (mut hidden, mut held, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=rounds {
            let start = Instant::now();
            for _ in 0..STEPS {
                compute(stream, target)?;
            }
            stream.synchronize()?;
            let computing = milliseconds(start);
            let start = Instant::now();
            for _ in 0..STEPS {
                let source = lone.take().ok_or("the source is away")?;
                let upload = slab.upload(stream, &target, source, BYTES).map_err(|unsent| unsent.error)?;
                compute(stream, target)?;
                lone = Some(upload.wait()?);
            }
            stream.synchronize()?;
            let serial = milliseconds(start);
            let mut push = |prefetcher: &mut Prefetcher| -> Result<(), Box<dyn Error>> {
                let source = match sources.pop_front() {
                    Some(Source::Here(source)) => source,
                    Some(Source::Away(upload)) => upload.wait()?,
                    None => return Err("no source".into()),
                };
                let start = Instant::now();
                let before = prefetcher.push_pinned(source, BYTES).map_err(|unsent| unsent.error)?;
                held.push(start.elapsed().as_secs_f64() * 1e6);
                sources.extend(before.map(Source::Away));
                Ok(())
            };
            push(&mut prefetcher)?;
            let first = prefetcher.take(stream)?.ok_or("nothing was prefetched")?;
            stream.synchronize()?;
            let mut lease = Some(first);
            let start = Instant::now();
            for _ in 0..STEPS {
                push(&mut prefetcher)?;
                let now = lease.take().ok_or("no buffer")?;
                compute(stream, now.view())?;
                drop(now);
                lease = prefetcher.take(stream)?;
            }
            stream.synchronize()?;
            let both = milliseconds(start);
            drop(lease);
            stream.synchronize()?;
            hidden.push(1.0 - (both - computing) / (serial - computing));
            alone.push(computing);
        }
        let spread = |samples: &[f64]| Spread::of(&samples[1..]).ok_or("no samples that are numbers");
        Ok(vec![
            Figure::new("compute of one step", "ms", spread(&alone)?, rounds),
            Figure::new("copy of 64 MiB hidden behind compute", "share", spread(&hidden)?, rounds)
                .with_bar(Bar::AtLeast(0.95)),
            Figure::new("host held by a pinned prefetch of 64 MiB", "us", spread(&held)?, rounds)
                .with_bar(Bar::AtMost(50.0)),
        ])
    }

    /// The same from memory that the caller owns, which threads bring into pinned memory: behind some 6 ms of compute.
    fn overlap_owned(&mut self, rounds: usize) -> Measured {
        const BYTES: usize = 64 * MIB;
        const STEPS: u32 = 6;
        let parameters = vec![
            Parameter::buffer("data", 0, Element::U32, Access::StorageReadWrite),
            Parameter::scalar("n", Element::U32),
            Parameter::scalar("rounds", Element::U32),
        ];
        let grind = pipeline(&self.device, "grind", parameters, 256)?;
        let geometry = LaunchGeometry { grid: [1056, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
        let values = [(BYTES as u32 / 4).to_le_bytes(), 20_000u32.to_le_bytes()].concat();
        let request = Request::new(BYTES as u64);
        let mut prefetcher = Prefetcher::new(&self.slab, &request, 2)?;
        let target = self.slab.acquire(&request)?;
        let (slab, stream) = (self.slab.clone(), &mut self.stream);
        let compute = |stream: &mut Stream, view: BufferView| -> Result<(), Box<dyn Error>> {
            let view = view.bound_to(0, 0, Access::StorageReadWrite)?;
            let arguments = Arguments { views: &[view], by_value: &values };
            Ok(grind.launch(stream, &slab, arguments, Extent::Geometry(geometry))?)
        };
        let milliseconds = |start: Instant| start.elapsed().as_secs_f64() * 1e3 / f64::from(STEPS);
        let mut sources: VecDeque<Vec<u8>> = (1..=3).map(|byte| vec![byte; BYTES]).collect();
        let mut away: VecDeque<OwnedUpload<Vec<u8>>> = VecDeque::new();
        let (mut hidden, mut held, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=rounds {
            let start = Instant::now();
            for _ in 0..STEPS {
                compute(stream, target)?;
            }
            stream.synchronize()?;
            let computing = milliseconds(start);
            let start = Instant::now();
            for _ in 0..STEPS {
                let source = sources.pop_front().ok_or("no source")?;
                let upload = slab.upload_owned(stream, &target, source).map_err(|unsent| unsent.error)?;
                compute(stream, target)?;
                sources.push_back(upload.wait()?);
                stream.synchronize()?;
            }
            let serial = milliseconds(start);
            let mut push = |prefetcher: &mut Prefetcher| -> Result<(), Box<dyn Error>> {
                let source = match sources.pop_front() {
                    Some(source) => source,
                    None => away.pop_front().ok_or("no source")?.wait()?,
                };
                let start = Instant::now();
                let upload = prefetcher.push_owned(source).map_err(|unsent| unsent.error)?;
                held.push(start.elapsed().as_secs_f64() * 1e6);
                away.push_back(upload);
                Ok(())
            };
            push(&mut prefetcher)?;
            let mut lease = Some(prefetcher.take(stream)?.ok_or("nothing was prefetched")?);
            stream.synchronize()?;
            let start = Instant::now();
            for _ in 0..STEPS {
                let now = lease.take().ok_or("no buffer")?;
                compute(stream, now.view())?;
                drop(now);
                push(&mut prefetcher)?;
                lease = prefetcher.take(stream)?;
            }
            stream.synchronize()?;
            let both = milliseconds(start);
            drop(lease);
            stream.synchronize()?;
            while let Some(upload) = away.pop_front() {
                sources.push_back(upload.wait()?);
            }
            hidden.push(1.0 - (both - computing) / (serial - computing));
            alone.push(computing);
        }
        let spread = |samples: &[f64]| Spread::of(&samples[1..]).ok_or("no samples that are numbers");
        Ok(vec![
            Figure::new("compute of one longer step", "ms", spread(&alone)?, rounds),
            Figure::new("owned 64 MiB hidden behind compute", "share", spread(&hidden)?, rounds)
                .with_bar(Bar::AtLeast(0.95)),
            Figure::new("host held by an owned prefetch of 64 MiB", "us", spread(&held)?, rounds)
                .with_bar(Bar::AtMost(50.0)),
        ])
    }

    /// Uploads of 256 MiB, ours and the driver's own.
    fn uploads(&mut self, rounds: usize) -> Measured {
        const BYTES: usize = 256 * MIB;
        let rounds = rounds.min(30);
        let target = self.slab.acquire(&Request::new(BYTES as u64))?;
        let address = self.slab.address_of(&target)?;
        let source: Vec<u8> = (0..BYTES).map(|at| ((at * 131) >> 7) as u8).collect();
        let (slab, raw, raw_stream) = (self.slab.clone(), &self.raw, self.stream.raw());
        let stream_of_pinned = &mut Stream::new(&self.device)?;
        let stream = &mut self.stream;
        let mut ours = || {
            let start = Instant::now();
            slab.write(stream, &target, &source)?;
            stream.synchronize()?;
            Ok(gigabytes_a_second(BYTES, start))
        };
        let mut theirs = || {
            let start = Instant::now();
            raw.upload(raw_stream, address, &source)?;
            Ok(gigabytes_a_second(BYTES, start))
        };
        let mut pinned = Some(self.device.pinned(BYTES)?);
        let mirror = self.device.pinned(BYTES)?;
        let mut ours_pinned = || {
            let source = pinned.take().ok_or("the source is away")?;
            let start = Instant::now();
            pinned = Some(
                slab.upload(stream_of_pinned, &target, source, BYTES)
                    .map_err(|unsent| unsent.error)?
                    .wait()?,
            );
            Ok(gigabytes_a_second(BYTES, start))
        };
        let mut theirs_pinned = || {
            let start = Instant::now();
            raw.upload(raw_stream, address, mirror.as_slice())?;
            Ok(gigabytes_a_second(BYTES, start))
        };
        // Small ones go through the ring; several a sample, or the clock is all that is measured.
        let mut smaller = Vec::new();
        let other = &mut Stream::new(&self.device)?;
        for (name, bytes, times) in
            [("64 KiB", 64 << 10, 64), ("1 MiB", MIB, 16), ("3 MiB", 3 * MIB, 8), ("16 MiB", 16 * MIB, 4)]
        {
            let some = &source[..bytes];
            let ours = || {
                let start = Instant::now();
                for _ in 0..times {
                    slab.write(other, &target, some)?;
                    other.synchronize()?;
                }
                Ok(gigabytes_a_second(bytes * times, start))
            };
            let theirs = || {
                let start = Instant::now();
                for _ in 0..times {
                    raw.upload(raw_stream, address, some)?;
                }
                Ok(gigabytes_a_second(bytes * times, start))
            };
            let spread = compare(rounds, ours, theirs)?;
            let name = format!("pageable upload of {name} / the driver's");
            smaller.push(Figure::new(name, "ratio", spread, rounds).with_bar(Bar::AtLeast(1.0)));
        }
        let pinned_ratio = compare(rounds, &mut ours_pinned, &mut theirs_pinned)?;
        let pinned_rate = repeat(rounds, &mut ours_pinned)?;
        let mut figures = vec![
            Figure::new("pinned upload of 256 MiB", "GB/s", pinned_rate, rounds),
            Figure::new("pinned upload / raw", "ratio", pinned_ratio, rounds).with_bar(Bar::AtLeast(0.98)),
            Figure::new("pageable upload of 256 MiB", "GB/s", repeat(rounds, &mut ours)?, rounds),
            Figure::new("the driver's pageable upload", "GB/s", repeat(rounds, &mut theirs)?, rounds),
            Figure::new(
                "pageable upload / the driver's",
                "ratio",
                compare(rounds, &mut ours, &mut theirs)?,
                rounds,
            )
            .with_bar(Bar::AtLeast(1.5)),
        ];
        figures.extend(smaller);
        Ok(figures)
    }
}

/// Pinned memory, at hand or on its way back.
enum Source {
    Here(PinnedBuffer),
    Away(Upload),
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

fn gigabytes_a_second(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_nanos() as f64
}

/// Hands out ever new bytes: a bench needs no more.
struct Endless {
    next: u64,
    capacity: u64,
}

// SAFETY: no byte is handed out twice, and none beyond the capacity.
unsafe impl SlabAllocator for Endless {
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        let offset = self.next.next_multiple_of(request.align);
        if offset + request.len > self.capacity {
            return Err(Refusal::NeverFits { max_bytes: self.capacity.saturating_sub(offset) });
        }
        self.next = offset + request.len;
        Ok(Grant { handle: Handle(offset), offset, len: request.len })
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
