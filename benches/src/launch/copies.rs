//! Uploads beside the driver's own, and copies hidden behind compute.

use super::{Bench, MIB, pipeline};
use crate::area::Measured;
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{compare, repeat};
use cuforge_core::{Access, Arguments, BufferView, Element, Extent, LaunchGeometry, Parameter, Request};
use cuforge_launch::{OwnedUpload, PinnedBuffer, Prefetcher, Stream, Upload};
use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

impl Bench {
    /// A copy of 64 MiB behind some 2 ms of compute: what of it is hidden, and how long the host is held.
    pub(super) fn overlap(&mut self, rounds: usize) -> Measured {
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
    pub(super) fn overlap_owned(&mut self, rounds: usize) -> Measured {
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
    pub(super) fn uploads(&mut self, rounds: usize) -> Measured {
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

fn gigabytes_a_second(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_nanos() as f64
}
