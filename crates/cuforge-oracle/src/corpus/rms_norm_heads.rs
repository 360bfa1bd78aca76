//! `RMSNorm` of every head of an activation in place: a grid of three dimensions, each head staged in dynamic shared
//! memory.

use super::kernel::CorpusKernel;
use super::shape::{Shape, depth_of_sum, grid, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "rms_norm_heads",
    description: "each head, in place, becomes x / sqrt(mean(x^2) + epsilon) * weight",
    source: include_str!("../../kernels/rms_norm_heads.cu"),
    shipped: include_str!("../../kernels/ptx/rms_norm_heads.ptx"),
    written: None,
    axes: &["batch", "tokens", "heads", "width"],
    real: &[3, 29, 12, 128],
    mutated: &[2, 3, 5, 72],
    small: &[&[2, 3, 5, 72], &[3, 2, 7, 65], &[1, 1, 1, 1], &[2, 2, 3, 300], &[1, 5, 6, 31]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageReadWrite),
        Parameter::buffer("weight", 1, Element::F32, Access::StorageRead),
        Parameter::Uniform { bytes: 16, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(32, 4, 2),
        rows(32, 1, 1),
        rows(32, 8, 4),
        rows(64, 1, 2),
        rows(64, 2, 1),
        rows(64, 4, 2),
        rows(128, 1, 1),
        rows(96, 2, 1),
        rows(128, 4, 1),
        rows(32, 3, 3),
        rows(64, 8, 1),
        rows(96, 1, 4),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (batch, tokens, heads, width) = (shape.axis(0), shape.axis(1), shape.axis(2), shape.axis(3));
    let [threads, heads_of_block, _] = schedule.workgroup_size;
    let depth = depth_of_sum(width, threads, 1);
    let shared = heads_of_block * (width + threads / 32);
    Case::builder(spec, RmsNormHeads { summation: Summation::Depth(depth) })
        .inout("x", Element::F32, shape.area(0, 1) * shape.area(2, 3), heads_of_unlike_size(width))
        .with_rows_of(width.into())
        .input("weight", Element::F32, width.into(), Fill::Uniform { low: 0.5, high: 1.5 })
        .uniform("tokens", tokens)
        .uniform("heads", heads)
        .uniform("width", width)
        .uniform("epsilon", 1e-6f32)
        .extent(grid(schedule, [heads.div_ceil(heads_of_block.max(1)), tokens, batch], shared))
}

/// Heads of size 1, heads so small that epsilon decides, heads of one value, and large ones.
fn heads_of_unlike_size(width: u32) -> Fill {
    Fill::with(move |random, index| {
        let value = random.normal();
        match index / u64::from(width.max(1)) % 4 {
            0 => value,
            1 => 0.001 * value,
            2 => 0.75,
            _ => 300.0 * value,
        }
    })
}

struct RmsNormHeads {
    summation: Summation,
}

impl Reference for RmsNormHeads {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (width, epsilon) = (run.integer("width")?.max(1) as usize, run.scalar("epsilon")?);
        let (before, weight) = (run.reals("x")?, run.reals("weight")?);
        let mut after = Vec::with_capacity(before.len());
        for head in before.chunks_exact(width) {
            let squares = R::dot_in(self.summation, head.iter().map(|&x| (x, x)));
            let inverse = (squares / run.exact(width as f64) + epsilon).rsqrt();
            after.extend(head.iter().zip(&weight).map(|(&x, &weight)| x * inverse * weight));
        }
        run.store("x", after)
    }
}
