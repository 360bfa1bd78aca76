//! The compile cache: hits in memory and on disk, what a miss costs beside the compiler, one compilation for 16 threads.
//!
//! One source of 4 KiB without headers and its cubin of some 10 KiB, made by NVRTC 13.5 for `sm_90`, or by the NVRTC
//! that `CUFORGE_NVRTC` or else the system offers; the peers are the disk caches of cuda.core and, beside a GPU, of
//! `CuPy` on the same source, in turns.

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
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{compare, repeat};

use self::peer::Peer;

/// The NVRTC that all sides use, unless it is not there or the user names another.
const TOOLCHAIN: &str = "nvrtc-13.5.37";
const SOURCE_BYTES: usize = 4096;
/// So many kernels make a cubin of some 10 KiB.
const KERNELS: u32 = 4;
const ARCH: u16 = 90;

/// Hits of one sample.
const HITS: u32 = 200;

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
    figures.extend(bench.beside_cuda_core(rounds)?);
    figures.extend(bench.beside_cupy(rounds)?);
    Ok(figures)
}

struct Bench {
    nvrtc: Nvrtc,
    request: CompileRequest,
    folder: PathBuf,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let named = std::env::var_os("CUFORGE_NVRTC").is_some();
        let paths = if named { SearchPaths::default() } else { SearchPaths::first([home().join(TOOLCHAIN)]) };
        let nvrtc = Nvrtc::find(&paths)
            .map_err(|error| format!("{error}; `cargo xtask test` fetches one into target/cuda"))?;
        let (major, minor) = nvrtc.version();
        let target = Target::new(ComputeCapability::from_sm(ARCH));
        let request = CompileRequest::cuda_c("bench.cu", source(), target);
        let folder = std::env::temp_dir().join(format!("cuforge-bench-compile-{}", std::process::id()));
        let bench = Self { nvrtc, request, folder };
        let image = bench.compiler(&bench.on_disk()).image(&bench.request)?;
        let cubin = image.cubin.as_deref().map_or(0, <[u8]>::len);
        let source = bench.request.source.len();
        println!("  source {source} bytes, cubin {cubin} bytes by NVRTC {major}.{minor}");
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
        let spread = repeat(rounds, || Ok(per_call_ns(HITS, || compiler.image(&self.request))? / 1_000.0))?;
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

    /// The disk hit of cuda.core, and ours against it, in turns in one run. None where it cannot be had.
    fn beside_cuda_core(&self, rounds: usize) -> Result<Vec<Figure>, Box<dyn Error>> {
        let peer =
            Peer::cuda_core(&home(), self.libraries(), &self.source_file()?, &self.folder.join("core"), ARCH);
        let Some(mut peer) = at_hand("cuda.core disk hit", peer) else { return Ok(Vec::new()) };
        let order = HITS.to_string();
        Ok(vec![
            Figure::new("cuda.core disk hit", "us", repeat(rounds, || us(peer.hit_ns(&order)))?, rounds),
            Figure::new(
                "disk hit, ours against cuda.core",
                "ratio",
                self.against(&mut peer, &order, rounds)?,
                rounds,
            ),
        ])
    }

    /// The same with `CuPy`, whose hit ends with a module on the device: with the driver's load of it, and without.
    /// None where there is no `CuPy` or no GPU.
    fn beside_cupy(&self, rounds: usize) -> Result<Vec<Figure>, Box<dyn Error>> {
        let peer = Peer::cupy(self.libraries(), &self.source_file()?, &self.folder.join("cupy"));
        let Some(mut peer) = at_hand("CuPy disk hit", peer) else { return Ok(Vec::new()) };
        let [loaded, bare] = ["loaded", "bare"].map(|what| format!("{what} {HITS}"));
        let with_load = repeat(rounds, || us(peer.hit_ns(&loaded)))?;
        let without = repeat(rounds, || us(peer.hit_ns(&bare)))?;
        let ratio = self.against(&mut peer, &bare, rounds)?;
        Ok(vec![
            Figure::new("CuPy disk hit with the driver's module load", "us", with_load, rounds),
            Figure::new("CuPy disk hit without that load", "us", without, rounds),
            Figure::new("disk hit, ours against CuPy without load", "ratio", ratio, rounds),
        ])
    }

    fn against(&self, peer: &mut Peer, order: &str, rounds: usize) -> Result<Spread, Box<dyn Error>> {
        let compiler = self.compiler(&self.on_disk());
        compare(rounds, || per_call_ns(HITS, || compiler.image(&self.request)), || peer.hit_ns(order))
    }

    fn source_file(&self) -> Result<PathBuf, Box<dyn Error>> {
        let source = self.folder.join("bench.cu");
        std::fs::write(&source, &*self.request.source)?;
        Ok(source)
    }

    fn libraries(&self) -> &Path {
        self.nvrtc.library().parent().unwrap_or(Path::new("/"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The peer, or a row that says why there is none.
fn at_hand(row: &str, peer: Result<Peer, Box<dyn Error>>) -> Option<Peer> {
    match peer {
        Ok(peer) => {
            println!("  peer: {}", peer.about());
            Some(peer)
        }
        Err(why) => {
            println!("  {row:<44} not measured: {why}");
            None
        }
    }
}

fn us(ns: Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    Ok(ns? / 1_000.0)
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
