//! The compile cache: hits in memory and on disk, what a miss costs beside the compiler, one compilation for 16 threads.
//!
//! One source of 4 KiB without headers and its cubin of some 10 KiB, made by NVRTC 13.5 for `sm_90`; the peer is
//! cuda.core's disk cache on the same source, in turns.

mod peer;

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use cuforge_compile::{
    CacheOptions, CompileError, Compiler, Engine, Identity, Job, Limits, Nvrtc, Output, SearchPaths,
};
use cuforge_core::{CompileRequest, ComputeCapability, Target};

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure};
use crate::rounds::{compare, repeat};

/// The NVRTC that both sides use.
const TOOLCHAIN: &str = "nvrtc-13.5.37";
const SOURCE_BYTES: usize = 4096;
/// So many kernels make a cubin of some 10 KiB.
const KERNELS: u32 = 4;
const ARCH: u16 = 90;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let bench = Bench::new()?;
    let mut figures = vec![
        bench.memory_prepared(rounds)?,
        bench.memory_raw(rounds)?,
        bench.disk(rounds)?,
        bench.miss(rounds)?,
        bench.one_flight(rounds)?,
    ];
    figures.extend(bench.beside_the_peer(rounds)?);
    Ok(figures)
}

struct Bench {
    nvrtc: Nvrtc,
    request: CompileRequest,
    folder: PathBuf,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let root = home().join(TOOLCHAIN);
        let nvrtc = Nvrtc::find(&SearchPaths::only([&root]))
            .map_err(|error| format!("{error}; `cargo xtask test` fetches it into target/cuda"))?;
        let target = Target::new(ComputeCapability::from_sm(ARCH));
        let request = CompileRequest::cuda_c("bench.cu", source(), target);
        let folder = std::env::temp_dir().join(format!("cuforge-bench-compile-{}", std::process::id()));
        let bench = Self { nvrtc, request, folder };
        let image = bench.compiler(&bench.on_disk()).image(&bench.request)?;
        let cubin = image.cubin.as_deref().map_or(0, <[u8]>::len);
        println!("  source {} bytes, cubin {cubin} bytes", bench.request.source.len());
        Ok(bench)
    }

    fn on_disk(&self) -> CacheOptions {
        CacheOptions::in_folder(self.folder.join("ours")).with_memory_bytes(0)
    }

    fn compiler(&self, options: &CacheOptions) -> Compiler {
        Compiler::with_nvrtc(self.nvrtc.clone()).with_cache(options.clone())
    }

    fn memory_prepared(&self, rounds: usize) -> Result<Figure, Box<dyn Error>> {
        let compiler = self.compiler(&CacheOptions::memory_only());
        compiler.image(&self.request)?;
        let prepared = compiler.prepare(&self.request);
        let spread = repeat(rounds, || per_call_ns(20_000, || compiler.prepared_image(&prepared)))?;
        Ok(Figure::new("memory hit, prepared request", "ns", spread, rounds).with_bar(Bar::AtMost(100.0)))
    }

    fn memory_raw(&self, rounds: usize) -> Result<Figure, Box<dyn Error>> {
        let compiler = self.compiler(&CacheOptions::memory_only());
        compiler.image(&self.request)?;
        // Equal and not the same, so that nothing ends at a pointer.
        let mut asked = self.request.clone();
        asked.source = String::from(&*self.request.source).into();
        let spread = repeat(rounds, || per_call_ns(5_000, || compiler.image(&asked)))?;
        Ok(Figure::new("memory hit from raw source", "ns", spread, rounds).with_bar(Bar::AtMost(2_000.0)))
    }

    fn disk(&self, rounds: usize) -> Result<Figure, Box<dyn Error>> {
        let compiler = self.compiler(&self.on_disk());
        let spread = repeat(rounds, || Ok(per_call_ns(200, || compiler.image(&self.request))? / 1_000.0))?;
        Ok(Figure::new("disk hit", "us", spread, rounds).with_bar(Bar::AtMost(100.0)))
    }

    /// All of a miss but the compiler's own time, key and publication included, in percent of that time.
    fn miss(&self, rounds: usize) -> Result<Figure, Box<dyn Error>> {
        let clocked = Arc::new(Clocked { inner: self.nvrtc.clone(), ns: AtomicU64::new(0) });
        let options = CacheOptions::in_folder(self.folder.join("misses"));
        let compiler = Compiler::with_engine(clocked.clone(), Vec::new()).with_cache(options);
        let mut number = 0;
        let spread = repeat(rounds, || {
            number += 1;
            let mut request = self.request.clone();
            request.source = format!("// {number}\n{}", self.request.source).into();
            let before = clocked.ns.load(Ordering::Relaxed);
            let start = Instant::now();
            compiler.image(&request)?;
            let total = start.elapsed().as_nanos() as f64;
            let own = (clocked.ns.load(Ordering::Relaxed) - before) as f64;
            Ok(100.0 * (total - own) / own)
        })?;
        Ok(Figure::new("overhead of a miss", "% of NVRTC's time", spread, rounds).with_bar(Bar::AtMost(5.0)))
    }

    fn one_flight(&self, rounds: usize) -> Result<Figure, Box<dyn Error>> {
        let compiler = self.compiler(&CacheOptions::memory_only());
        let mut number = 0;
        let spread = repeat(rounds.min(10), || {
            number += 1;
            let mut request = self.request.clone();
            request.source = format!("// flight {number}\n{}", self.request.source).into();
            let before = compiler.stats().compiled;
            let start = Barrier::new(16);
            std::thread::scope(|scope| {
                let ask = || {
                    start.wait();
                    compiler.image(&request)
                };
                let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(image) => image.map(drop).map_err(|error| error.to_string()),
                    Err(_) => Err("a thread panicked".to_owned()),
                })
            })?;
            Ok((compiler.stats().compiled - before) as f64)
        })?;
        let figure = Figure::new("16 threads on one cold key", "compilations", spread, rounds.min(10));
        Ok(figure.with_bar(Bar::AtMost(1.0)))
    }

    /// The peer's disk hit, and ours against it, in turns in one run. None where the peer cannot be had.
    fn beside_the_peer(&self, rounds: usize) -> Result<Vec<Figure>, Box<dyn Error>> {
        let source = self.folder.join("bench.cu");
        std::fs::write(&source, &*self.request.source)?;
        let libraries = self.nvrtc.library().parent().unwrap_or(Path::new("/"));
        let peer = peer::CudaCore::start(&home(), libraries, &source, &self.folder.join("theirs"), ARCH);
        let mut peer = match peer {
            Ok(peer) => peer,
            Err(why) => {
                println!("  cuda.core's disk cache is not measured: {why}");
                return Ok(Vec::new());
            }
        };
        println!("  peer: {}", peer.about());
        let compiler = self.compiler(&self.on_disk());
        let theirs = repeat(rounds, || Ok(peer.hit_ns(200)? / 1_000.0))?;
        let ratio =
            compare(rounds, || per_call_ns(200, || compiler.image(&self.request)), || peer.hit_ns(200))?;
        Ok(vec![
            Figure::new("cuda.core disk hit", "us", theirs, rounds),
            Figure::new("disk hit, ours against cuda.core", "ratio", ratio, rounds),
        ])
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Nanoseconds of one call out of `calls`.
fn per_call_ns<T>(calls: u32, call: impl Fn() -> Result<T, CompileError>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call()?);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// `target/cuda` of this workspace.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("target").join("cuda")
}

/// 4 KiB of CUDA C: kernels of the kind that one finds, then a comment to fill up.
fn source() -> String {
    let mut source = String::new();
    for kernel in 0..KERNELS {
        let next = format!(
            "extern \"C\" __global__ void axpby_{kernel}(float a, const float *x, float b, float *y, unsigned n) {{\n  \
             unsigned step = gridDim.x * blockDim.x;\n  \
             for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)\n    \
             y[i] = a * x[i] + b * y[i] + {kernel}.5f;\n}}\n"
        );
        source.push_str(&next);
    }
    source.push_str("//");
    source.push_str(&"-".repeat(SOURCE_BYTES.saturating_sub(source.len() + 1)));
    source.push('\n');
    source
}

/// NVRTC with a clock.
#[derive(Debug)]
struct Clocked {
    inner: Nvrtc,
    ns: AtomicU64,
}

impl Engine for Clocked {
    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn supported_archs(&self) -> &[u32] {
        self.inner.supported_archs()
    }

    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError> {
        let start = Instant::now();
        let output = self.inner.run(job, limits);
        self.ns.fetch_add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        output
    }
}
