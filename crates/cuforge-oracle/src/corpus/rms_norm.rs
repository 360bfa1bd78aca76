//! `RMSNorm` over the rows of a matrix: one reduction, an inverse root, and a weight a column.

use super::kernel::{CorpusKernel, Written};
use super::lists;
use super::shape::{Shape, blocks, depth_of_sum, flat, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "rms_norm",
    description: "each row becomes x / sqrt(mean(x^2) + epsilon) * weight",
    source: include_str!("../../kernels/rms_norm.cu"),
    shipped: include_str!("../../kernels/ptx/rms_norm.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/rms_norm.ptx"),
        schedules: || vec![flat(256, 1), flat(32, 1), flat(96, 1), flat(1024, 1)],
    }),
    axes: &["rows", "width"],
    real: &[512, 1023],
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
        Parameter::buffer("output", 2, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        flat(128, 4),
        rows(32, 4, 4),
        rows(32, 8, 8),
        rows(64, 2, 2),
        rows(128, 2, 1),
        flat(256, 4),
        flat(256, 1),
        flat(512, 2),
        flat(1024, 1),
        // The last warp is partial: 80 = 2 * 32 + 16.
        flat(80, 3),
        rows(64, 8, 4),
        flat(336, 1),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let depth = depth_of_sum(width, threads, schedule.items_per_invocation);
    Case::builder(spec, RmsNorm { summation: Summation::Depth(depth) })
        .input("input", Element::F32, shape.area(0, 1), rows_of_unlike_size(width))
        .with_rows_of(width.into())
        .input("weight", Element::F32, width.into(), Fill::Uniform { low: 0.5, high: 1.5 })
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(width.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .uniform("epsilon", 1e-5f32)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

/// Rows of size 1, rows so small that epsilon decides, and rows whose squares are large.
fn rows_of_unlike_size(width: u32) -> Fill {
    Fill::with(move |random, index| {
        let size = match index / u64::from(width.max(1)) % 3 {
            0 => 1.0,
            1 => 0.003,
            _ => 1000.0,
        };
        size * random.normal()
    })
}

struct RmsNorm {
    summation: Summation,
}

impl Reference for RmsNorm {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (width, epsilon) = (run.integer("width")?.max(1) as usize, run.scalar("epsilon")?);
        let (input, weight) = (run.reals("input")?, run.reals("weight")?);
        let mut output = Vec::with_capacity(input.len());
        for row in input.chunks_exact(width) {
            let squares = R::dot_in(self.summation, row.iter().map(|&x| (x, x)));
            let inverse = (squares / run.exact(width as f64) + epsilon).rsqrt();
            output.extend(row.iter().zip(&weight).map(|(&x, &weight)| x * inverse * weight));
        }
        run.store("output", output)
    }
}
