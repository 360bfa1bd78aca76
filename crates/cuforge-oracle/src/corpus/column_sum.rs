//! Sums of the columns of a matrix, as gradients of a bias are.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Element, KernelSpec, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "column_sum",
    description: "the sum of each column",
    source: include_str!("../../kernels/column_sum.cu"),
    shipped: include_str!("../../kernels/ptx/column_sum.ptx"),
    written: None,
    axes: &["rows", "columns"],
    real: &[509, 500],
    mutated: &[53, 75],
    small: &[&[53, 75], &[64, 64], &[1, 1], &[1000, 3], &[5, 300]],
    parameters: || lists::one_to_one(8),
    schedules,
    case,
};

fn schedules() -> Vec<Schedule> {
    vec![
        rows(32, 8, 2),
        rows(32, 1, 1),
        rows(32, 4, 4),
        rows(32, 16, 1),
        rows(64, 4, 2),
        rows(64, 16, 1),
        rows(16, 16, 2),
        rows(128, 2, 8),
        rows(128, 8, 1),
        rows(24, 5, 3),
        rows(32, 32, 1),
        rows(48, 7, 2),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, columns) = (shape.axis(0), shape.axis(1));
    let [columns_of_block, threads, _] = schedule.workgroup_size.map(|size| size.max(1));
    // A thread's own rows, then one thread after the other.
    let depth = u64::from(rows.div_ceil(threads)) + u64::from(threads);
    Case::builder(spec, ColumnSum { summation: Summation::Depth(depth) })
        .input("input", Element::F32, shape.area(0, 1), cancelling(columns))
        .with_rows_of(columns.into())
        .output("output", Element::F32, columns.into())
        .uniform("rows", rows)
        .uniform("columns", columns)
        .extent(blocks(schedule, columns.div_ceil(columns_of_block), 1))
}

/// Columns of any numbers, columns of large numbers that cancel in pairs, and columns of small integers, whose sums are
/// exact.
fn cancelling(columns: u32) -> Fill {
    let columns = u64::from(columns.max(1));
    Fill::with(move |random, index| {
        let (row, column) = (index / columns, index % columns);
        match column % 3 {
            0 => random.normal(),
            1 if row % 2 == 0 => 1e6 + random.unit(),
            1 => -1e6 + random.unit(),
            _ => random.below(17) as f64 - 8.0,
        }
    })
}

struct ColumnSum {
    summation: Summation,
}

impl Reference for ColumnSum {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let columns = run.integer("columns")?.max(1) as usize;
        let input = run.reals("input")?;
        let column = |column: usize| input.iter().copied().skip(column).step_by(columns);
        let sums = (0..columns).map(|at| R::sum_in(self.summation, column(at)));
        run.store("output", sums.collect::<Vec<_>>())
    }
}
