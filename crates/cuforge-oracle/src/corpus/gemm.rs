//! Tiled matrix product: shared memory, barriers and a micro tile of registers.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, constant};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Constant, Element, KernelSpec, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "gemm",
    description: "c = a * b",
    source: include_str!("../../kernels/gemm.cu"),
    shipped: include_str!("../../kernels/ptx/gemm.ptx"),
    written: None,
    axes: &["m", "n", "k"],
    real: &[256, 192, 320],
    mutated: &[65, 61, 37],
    small: lists::PRODUCTS,
    parameters: || lists::product(Element::F32),
    schedules,
    case,
};

/// Block and item count follow from the tiles.
fn tiled([tile_m, tile_n, tile_k]: [u32; 3], [micro_m, micro_n]: [u32; 2], pad: u32) -> Schedule {
    Schedule::new([tile_n / micro_n, tile_m / micro_m, 1])
        .with_items_per_invocation(micro_m * micro_n)
        .with_constant("TILE_M", Constant::Int(tile_m.into()))
        .with_constant("TILE_N", Constant::Int(tile_n.into()))
        .with_constant("TILE_K", Constant::Int(tile_k.into()))
        .with_constant("MICRO_M", Constant::Int(micro_m.into()))
        .with_constant("MICRO_N", Constant::Int(micro_n.into()))
        .with_constant("PAD", Constant::Int(pad.into()))
}

fn schedules() -> Vec<Schedule> {
    vec![
        tiled([64, 64, 16], [4, 4], 1),
        tiled([16, 16, 16], [1, 1], 0),
        tiled([32, 32, 8], [2, 2], 1),
        tiled([32, 64, 16], [4, 2], 1),
        tiled([64, 32, 32], [4, 2], 0),
        tiled([128, 64, 8], [8, 4], 1),
        tiled([64, 128, 8], [4, 8], 1),
        tiled([64, 64, 8], [8, 8], 1),
        tiled([48, 32, 12], [3, 2], 1),
        tiled([128, 128, 8], [8, 8], 0),
        tiled([32, 128, 16], [2, 4], 1),
        tiled([80, 48, 10], [5, 3], 1),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (m, n, k) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let tiles = |size: u32, name| size.div_ceil(constant(schedule, name).max(1));
    let values = || Fill::Uniform { low: -1.0, high: 1.0 };
    Case::builder(spec, Gemm)
        .input("a", Element::F32, shape.area(0, 2), values())
        .with_rows_of(k.into())
        .input("b", Element::F32, shape.area(2, 1), values())
        .with_rows_of(n.into())
        .output("c", Element::F32, shape.area(0, 1))
        .with_rows_of(n.into())
        .uniform("m", m)
        .uniform("n", n)
        .uniform("k", k)
        .extent(blocks(schedule, tiles(n, "TILE_N"), tiles(m, "TILE_M")))
}

struct Gemm;

impl Reference for Gemm {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (n, k) = (run.integer("n")? as usize, run.integer("k")?.max(1) as usize);
        let (a, b) = (run.reals("a")?, run.reals("b")?);
        let mut c = Vec::with_capacity(a.len() / k * n);
        for row in a.chunks_exact(k) {
            for column in 0..n {
                c.push(R::dot(row.iter().enumerate().map(|(k, &a)| (a, b[k * n + column]))));
            }
        }
        run.store("c", c)
    }
}
