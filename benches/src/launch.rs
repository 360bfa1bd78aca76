//! Launches and copies on a GPU: bound launches beside raw driver calls and cudarc's builder, uploads beside the driver's.
//!
//! Every pair runs interleaved in one process. The CPU cost of a launch is taken in bursts of 32 into a drained queue.
#![allow(unsafe_code, reason = "the rivals are raw driver calls")]

mod raw;

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure};
use crate::rounds::{compare, repeat};
use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Digest, Element, Extent, Grant, Handle, KernelSpec, Misuse,
    ModuleImage, Parameter, Progress, Refusal, Request, Schedule, SlabAllocator, Stamp, Stats,
};
use cuforge_launch::{BoundLaunch, Device, Pipeline, Slab, SlabOptions, Stream};
use raw::{BURST, BURSTS, Raw};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const KERNELS: &str = include_str!("../../tests/kernels/plain.ptx");

const MIB: usize = 1 << 20;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let mut bench = Bench::new()?;
    println!("  {} on {:?}", bench.device.adapter().name, bench.device.driver());
    let mut figures = bench.launches(rounds)?;
    figures.extend(bench.waits(rounds)?);
    figures.extend(bench.uploads(if settings.quick { 5 } else { rounds })?);
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
        let block = DeclaredBlock { workgroup_size: [128, 1, 1], items_per_invocation: 1 };
        // SAFETY: with n at most the elements of each buffer, the kernel stays inside them.
        let spec = unsafe { KernelSpec::ptx("five", "five", KERNELS, parameters) };
        let spec = spec.with_declared_blocks(vec![block]);
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
        let pipeline = unsafe { device.pipeline(&image, &spec, &Schedule::new([128, 1, 1])) }?;
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

    /// CPU time of a launch, five arguments.
    fn launches(&mut self, rounds: usize) -> Measured {
        let mut bound = self.bound()?;
        let packed = bound.packed_arguments().to_vec();
        let (function, raw_stream) = (self.pipeline.raw_function(), self.stream.raw());
        let raw = &self.raw;
        let values = [1u32.to_le_bytes(), 128u32.to_le_bytes()].concat();
        let arguments = Arguments { views: &self.views, by_value: &values };
        let mut other = Stream::new(&self.device)?;
        let mut drained = Stream::new(&self.device)?;
        let drained_raw = drained.raw();
        let ours =
            |stream: &mut Stream, bound: &mut BoundLaunch| bursts(stream, |stream| Ok(bound.launch(stream)?));
        let with_pointers = || raw.bursts(raw_stream, || raw.launch_pointers(function, raw_stream, &packed));
        let with_packed = || raw.bursts(raw_stream, || raw.launch_packed(function, raw_stream, &packed));
        let theirs = Cudarc::new(&self.device, &self.views, &self.slab)?;
        let mut figures = Vec::new();
        let mut push = |name: &str, unit, spread, bar: Option<f64>| {
            let figure = Figure::new(name, unit, spread, rounds);
            figures.push(match bar {
                Some(bar) => figure.with_bar(Bar::AtMost(bar)),
                None => figure,
            });
        };
        let stream = &mut self.stream;
        push("bound launch", "ns", repeat(rounds, || ours(stream, &mut bound))?, None);
        push("raw cuLaunchKernel, kernelParams", "ns", repeat(rounds, with_pointers)?, None);
        push("raw cuLaunchKernel, packed", "ns", repeat(rounds, with_packed)?, None);
        let ratio = compare(rounds, || ours(stream, &mut bound), with_pointers)?;
        push("bound launch / raw with kernelParams", "ratio", ratio, Some(0.97));
        let ratio = compare(rounds, || ours(stream, &mut bound), with_packed)?;
        push("bound launch / raw packed", "ratio", ratio, Some(1.02));
        let unbound = |stream: &mut Stream, pipeline: &Pipeline, slab: &Slab| {
            bursts(stream, |stream| Ok(pipeline.launch(stream, slab, arguments, Extent::Elements(128))?))
        };
        let ratio = compare(rounds, || unbound(&mut other, &self.pipeline, &self.slab), with_pointers)?;
        push("unbound launch / raw with kernelParams", "ratio", ratio, None);
        let ratio = compare(rounds, || ours(stream, &mut bound), || theirs.bursts())?;
        push("bound launch / cudarc's builder", "ratio", ratio, None);
        let again = || raw.bursts(drained_raw, || raw.launch_pointers(function, drained_raw, &packed));
        push("raw with kernelParams / itself", "ratio", compare(rounds, with_pointers, again)?, None);
        drained.synchronize()?;
        Ok(figures)
    }

    /// Time until the host knows.
    fn waits(&mut self, rounds: usize) -> Measured {
        let mut bound = self.bound()?;
        let (slab, view) = (self.slab.clone(), self.views[0]);
        let stream = &mut self.stream;
        let mut word = [0; 4];
        let both = repeat(rounds, || {
            per_call(200, || {
                bound.launch(stream)?;
                Ok(stream.synchronize()?)
            })
        })?;
        let write = repeat(rounds, || bursts(stream, |stream| Ok(slab.write(stream, &view, &[1; 4])?)))?;
        let read = repeat(rounds, || per_call(200, || Ok(slab.read(stream, &view, &mut word)?)))?;
        let timed = repeat(rounds, || per_call(200, || Ok(bound.run(stream).map(|_| ())?)))?;
        Ok(vec![
            Figure::new("launch and synchronize", "ns", both, rounds),
            Figure::new("write of 4 bytes, host time", "ns", write, rounds),
            Figure::new("read of 4 bytes", "ns", read, rounds),
            Figure::new("launch timed by events, with the wait", "ns", timed, rounds),
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
        Ok(vec![
            Figure::new("pageable upload of 256 MiB", "GB/s", repeat(rounds, &mut ours)?, rounds),
            Figure::new("the driver's pageable upload", "GB/s", repeat(rounds, &mut theirs)?, rounds),
            Figure::new(
                "pageable upload / the driver's",
                "ratio",
                compare(rounds, &mut ours, &mut theirs)?,
                rounds,
            )
            .with_bar(Bar::AtLeast(1.5)),
        ])
    }
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

    fn bursts(&self) -> Result<f64, Box<dyn Error>> {
        use cudarc::driver::PushKernelArg;
        let config =
            cudarc::driver::LaunchConfig { grid_dim: (1, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        let mut total = 0;
        for _ in 0..BURSTS {
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
            total += start.elapsed().as_nanos();
        }
        self.stream.synchronize()?;
        Ok(total as f64 / (BURSTS * BURST) as f64)
    }
}

/// Nanoseconds of one call, in bursts into a drained stream.
fn bursts(
    stream: &mut Stream,
    mut call: impl FnMut(&mut Stream) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut total = 0;
    for _ in 0..BURSTS {
        stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..BURST {
            call(stream)?;
        }
        total += start.elapsed().as_nanos();
    }
    stream.synchronize()?;
    Ok(total as f64 / (BURSTS * BURST) as f64)
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
