//! Matrix product on tensor cores: half precision in, sums and results in single.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, constant, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Constant, Element, KernelSpec, Schedule};

/// Rows and columns of a fragment.
const SIDE: u32 = 16;
const WARP: u32 = 32;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "gemm_wmma",
    description: "c = a * b on tensor cores, a and b in half precision",
    source: include_str!("../../kernels/gemm_wmma.cu"),
    shipped: include_str!("../../kernels/ptx/gemm_wmma.ptx"),
    written: None,
    axes: &["m", "n", "k"],
    real: &[128, 112, 72],
    mutated: &[65, 61, 37],
    small: lists::PRODUCTS,
    parameters: || lists::product(Element::F16),
    schedules,
    case,
};

/// Block and item count follow from warps and fragments.
fn tiled(
    [warps_m, warps_n]: [u32; 2],
    [fragments_m, fragments_n]: [u32; 2],
    tile_k: u32,
    pad: u32,
) -> Schedule {
    flat(warps_m * warps_n * WARP, fragments_m * fragments_n)
        .with_constant("WARPS_M", Constant::Int(warps_m.into()))
        .with_constant("WARPS_N", Constant::Int(warps_n.into()))
        .with_constant("FRAGMENTS_M", Constant::Int(fragments_m.into()))
        .with_constant("FRAGMENTS_N", Constant::Int(fragments_n.into()))
        .with_constant("TILE_K", Constant::Int(tile_k.into()))
        .with_constant("PAD", Constant::Int(pad.into()))
}

fn schedules() -> Vec<Schedule> {
    vec![
        tiled([2, 2], [2, 2], 32, 8),
        tiled([1, 1], [1, 1], 16, 0),
        tiled([1, 1], [2, 2], 32, 8),
        tiled([1, 2], [2, 1], 16, 8),
        tiled([2, 1], [1, 2], 48, 8),
        tiled([4, 1], [1, 4], 16, 0),
        tiled([2, 4], [2, 1], 32, 16),
        tiled([4, 2], [1, 2], 64, 8),
        tiled([1, 3], [3, 1], 32, 8),
        tiled([2, 2], [1, 1], 16, 8),
        tiled([3, 2], [1, 1], 32, 8),
        tiled([2, 2], [4, 2], 16, 8),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (m, n, k) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let tiles = |size: u32, warps, fragments| {
        size.div_ceil((constant(schedule, warps) * constant(schedule, fragments) * SIDE).max(1))
    };
    Case::builder(spec, GemmWmma)
        .input("a", Element::F16, shape.area(0, 2), normal_halves())
        .with_rows_of(k.into())
        .input("b", Element::F16, shape.area(2, 1), normal_halves())
        .with_rows_of(n.into())
        .output("c", Element::F32, shape.area(0, 1))
        .with_rows_of(n.into())
        .uniform("m", m)
        .uniform("n", n)
        .uniform("k", k)
        .extent(blocks(schedule, tiles(n, "WARPS_N", "FRAGMENTS_N"), tiles(m, "WARPS_M", "FRAGMENTS_M")))
}

/// Of either sign, from 2^-6 to 2: tensor cores need not keep subnormal operands, and none is made.
fn normal_halves() -> Fill {
    Fill::LogUniform { min_exponent: -6, max_exponent: 0, signed: true }
}

struct GemmWmma;

impl Reference for GemmWmma {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (n, k) = (run.integer("n")? as usize, run.integer("k")?.max(1) as usize);
        let (a, b) = (run.reals("a")?, run.reals("b")?);
        let mut c = Vec::with_capacity(a.len() / k * n);
        for row in a.chunks_exact(k) {
            for column in 0..n {
                let products = row.iter().enumerate().map(|(k, &a)| (a, b[k * n + column]));
                c.push(R::dot_in(Summation::TensorCore, products));
            }
        }
        run.store("c", c)
    }
}
