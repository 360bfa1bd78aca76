//! `LayerNorm` over the rows of a matrix: mean and variance in two sweeps, then a weight and a bias a column.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, depth_of_sum, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "layer_norm",
    description: "each row becomes (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias",
    source: include_str!("../../kernels/layer_norm.cu"),
    shipped: include_str!("../../kernels/ptx/layer_norm.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[256, 1023],
    mutated: &[9, 333],
    small: lists::ROWS,
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("weight", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("bias", 2, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 3, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(128, 1, 4),
        rows(32, 4, 4),
        rows(32, 8, 2),
        rows(64, 2, 2),
        rows(128, 2, 1),
        rows(256, 1, 4),
        rows(256, 2, 1),
        rows(512, 1, 2),
        rows(1024, 1, 1),
        rows(96, 3, 3),
        rows(160, 1, 2),
        rows(64, 8, 4),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let depth = depth_of_sum(width, threads, 1);
    Case::builder(spec, LayerNorm { summation: Summation::Depth(depth) })
        .input("input", Element::F32, shape.area(0, 1), unlike_rows(width))
        .with_rows_of(width.into())
        .input("weight", Element::F32, width.into(), Fill::Uniform { low: 0.5, high: 1.5 })
        .input("bias", Element::F32, width.into(), Fill::Uniform { low: -1.0, high: 1.0 })
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(width.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .uniform("epsilon", 1e-3f32)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

/// Rows around 0, rows far from it, whose squares say nothing of their variance, rows so flat that epsilon decides, and
/// rows of one value.
fn unlike_rows(width: u32) -> Fill {
    Fill::with(move |random, index| {
        let value = random.normal();
        match index / u64::from(width.max(1)) % 4 {
            0 => value,
            1 => 1000.0 + value,
            2 => 0.01 * value - 0.5,
            _ => 2.25,
        }
    })
}

struct LayerNorm {
    summation: Summation,
}

impl Reference for LayerNorm {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (width, epsilon) = (run.integer("width")?.max(1) as usize, run.scalar("epsilon")?);
        let (input, weight, bias) = (run.reals("input")?, run.reals("weight")?, run.reals("bias")?);
        let count = run.exact(width as f64);
        let mut output = Vec::with_capacity(input.len());
        for row in input.chunks_exact(width) {
            let mean = R::sum_in(self.summation, row.iter().copied()) / count;
            let differences: Vec<R> = row.iter().map(|&x| x - mean).collect();
            let squares = R::dot_in(self.summation, differences.iter().map(|&x| (x, x)));
            let inverse = (squares / count + epsilon).rsqrt();
            let columns = differences.iter().zip(weight.iter().zip(&bias));
            output.extend(columns.map(|(&x, (&weight, &bias))| x * inverse * weight + bias));
        }
        run.store("output", output)
    }
}
