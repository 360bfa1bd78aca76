//! The simulator: PTX instructions a second on one core, of a tiled product of matrices, checked and unchecked.
//!
//! The kernel is the corpus' 192 x 192 x 192 product as NVRTC 12.9.86 emits it (64 x 64 tiles, 4 x 4 values a thread), run on
//! one host thread; instructions are counted once for each thread that executes them. Checked means bounds, alignment,
//! initialisation, hazards and conflicts. Beside it stands what all cores of the machine give together, how fast the text
//! is parsed and decoded.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use cuforge_core::LaunchGeometry;
use cuforge_sim::{Checks, Kernel, LaunchOptions, Memory, Program, launch, ptx::Module};

use crate::area::{Measured, Settings};
use crate::figure::{Bar, Figure};
use crate::rounds::repeat;

const TEXT: &str = include_str!("../../crates/cuforge-oracle/kernels/ptx/gemm.ptx");
/// Rows, columns and depth.
const SIZE: u32 = 192;
const TILE: u32 = 64;
/// Parses of the text in one round.
const PARSES: u32 = 50;

/// Measures the area.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds();
    let mut product = Product::new()?;
    let mut figures = Vec::new();
    let sides = [
        ("gemm 192^3, all checks, one core", 1, Checks::default(), Some(Bar::AtLeast(30.0))),
        ("gemm 192^3, bounds only, one core", 1, Checks::none(), Some(Bar::AtLeast(60.0))),
        ("gemm 192^3, all checks, all cores", 0, Checks::default(), None),
    ];
    for (name, threads, checks, bar) in sides {
        let options = LaunchOptions { threads, checks, ..LaunchOptions::default() };
        let spread = repeat(rounds, || product.millions_a_second(&options))?;
        let figure = Figure::new(name, "M instructions/s", spread, rounds);
        figures.push(bar.map_or(figure.clone(), |bar| figure.with_bar(bar)));
    }
    let megabytes = |seconds: f64| TEXT.len() as f64 / seconds / 1e6;
    let spread = repeat(rounds, || {
        let start = Instant::now();
        for _ in 0..PARSES {
            black_box(Module::parse(black_box(TEXT))?);
        }
        Ok(megabytes(start.elapsed().as_secs_f64() / f64::from(PARSES)))
    })?;
    figures.push(Figure::new("parsing of PTX", "MB/s", spread, rounds).with_bar(Bar::AtLeast(20.0)));
    let module = Module::parse(TEXT)?;
    let spread = repeat(rounds, || {
        let start = Instant::now();
        Program::load(&module)?;
        Ok(megabytes(start.elapsed().as_secs_f64()))
    })?;
    figures.push(Figure::new("decoding of parsed PTX", "MB/s", spread, rounds));
    Ok(figures)
}

struct Product {
    kernel: Kernel,
    memory: Memory,
    params: Vec<u8>,
}

impl Product {
    fn new() -> Result<Self, Box<dyn Error>> {
        let kernel = Program::load(&Module::parse(TEXT)?)?.kernel("gemm")?;
        let bytes = u64::from(SIZE * SIZE * 4);
        let mut memory = Memory::new(3 * bytes);
        let mut params = Vec::new();
        for _ in 0..3 {
            let address = memory.allocate(bytes, 4)?;
            for index in 0..SIZE * SIZE {
                memory.write(address + u64::from(index) * 4, &((index % 7) as f32).to_le_bytes())?;
            }
            params.extend(address.to_le_bytes());
        }
        (0..3).for_each(|_| params.extend(SIZE.to_le_bytes()));
        params.resize(kernel.param_bytes() as usize, 0);
        Ok(Self { kernel, memory, params })
    }

    fn millions_a_second(&mut self, options: &LaunchOptions) -> Result<f64, Box<dyn Error>> {
        let geometry =
            LaunchGeometry { grid: [SIZE / TILE, SIZE / TILE, 1], block: [16, 16, 1], shared_bytes: 0 };
        let start = Instant::now();
        let report = launch(&self.kernel, &geometry, &self.params, &mut self.memory, options)?;
        Ok(report.instructions as f64 / start.elapsed().as_secs_f64() / 1e6)
    }
}
