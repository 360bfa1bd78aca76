//! Transpose of a matrix through tiles in shared memory: values are only moved, so exact to the bit.

use super::kernel::{CorpusKernel, Written};
use super::lists;
use super::shape::{Shape, blocks, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Constant, Element, KernelSpec, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "transpose",
    description: "the transpose of a matrix",
    source: include_str!("../../kernels/transpose.cu"),
    shipped: include_str!("../../kernels/ptx/transpose.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/transpose.ptx"),
        schedules: || vec![rows(32, 8, 4), rows(32, 1, 32), rows(32, 32, 1)],
    }),
    axes: &["rows", "columns"],
    real: &[509, 613],
    mutated: &[61, 67],
    small: &[&[61, 67], &[64, 64], &[1, 1], &[3, 1000], &[129, 31]],
    parameters: || lists::one_to_one(8),
    schedules,
    case,
};

fn schedules() -> Vec<Schedule> {
    let schedule =
        |side, height, pad| rows(side, height, side / height).with_constant("PAD", Constant::Int(pad));
    vec![
        schedule(32, 8, 1),
        schedule(32, 8, 0),
        schedule(32, 4, 1),
        schedule(32, 16, 1),
        schedule(32, 32, 1),
        schedule(16, 16, 1),
        schedule(16, 4, 0),
        schedule(64, 4, 1),
        schedule(64, 16, 1),
        // No power of two.
        schedule(24, 6, 1),
        schedule(16, 2, 1),
        schedule(48, 12, 0),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, columns) = (shape.axis(0), shape.axis(1));
    let side = schedule.workgroup_size[0].max(1);
    Case::builder(spec, Transpose)
        // Any bits, so any numbers but NaN, of which nobody promises the payload.
        .input(
            "input",
            Element::F32,
            shape.area(0, 1),
            Fill::LogUniform { min_exponent: -126, max_exponent: 126, signed: true },
        )
        .with_rows_of(columns.into())
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(rows.into())
        .uniform("rows", rows)
        .uniform("columns", columns)
        .extent(blocks(schedule, columns.div_ceil(side), rows.div_ceil(side)))
}

struct Transpose;

impl Reference for Transpose {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (rows, columns) = (run.integer("rows")? as usize, run.integer("columns")? as usize);
        let input = run.reals("input")?;
        let of_column = |column| (0..rows).map(move |row| row * columns + column);
        let output = (0..columns).flat_map(of_column).map(|at| input[at].value() as f32);
        run.store_exact("output", output.collect::<Vec<_>>())
    }
}
