//! Where the largest element of each row stands: exact, with a stated rule for ties.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "argmax",
    description: "the column of the largest element of each row, of equals the first",
    source: include_str!("../../kernels/argmax.cu"),
    shipped: include_str!("../../kernels/ptx/argmax.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[61, 4001],
    mutated: &[9, 450],
    small: &[&[9, 450], &[12, 333], &[1, 1], &[130, 31], &[3, 1365]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("indices", 1, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(128, 1, 2),
        rows(32, 4, 2),
        rows(32, 8, 1),
        rows(64, 2, 2),
        rows(64, 4, 1),
        rows(128, 2, 4),
        rows(256, 1, 1),
        rows(512, 1, 2),
        rows(1024, 1, 1),
        rows(96, 1, 3),
        rows(160, 1, 1),
        rows(32, 16, 4),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let rows_of_block = schedule.workgroup_size[1].max(1);
    Case::builder(spec, Argmax)
        .input("input", Element::F32, shape.area(0, 1), rows_with_ties(width))
        .with_rows_of(width.into())
        .output("indices", Element::U32, rows.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block), 1))
}

/// Rows that differ everywhere, rows of few values, so that the largest stands in many places, rows of negative numbers,
/// and rows of -infinity alone.
fn rows_with_ties(width: u32) -> Fill {
    let width = u64::from(width.max(1));
    Fill::with(move |random, index| {
        let value = random.normal();
        match index / width % 4 {
            0 => value,
            1 => value.round(),
            2 => -3.0 - value.abs(),
            // Both zeros are equal, and the larger ones of these rows.
            _ if index % 3 == 0 => [0.0, -0.0][random.below(2) as usize],
            _ => f64::NEG_INFINITY,
        }
    })
}

struct Argmax;

impl Reference for Argmax {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let input = run.reals("input")?;
        let first_largest = |row: &[R]| {
            let later_wins = |best: usize, at: usize| if row[best].is_less(row[at]) { at } else { best };
            (0..width).reduce(later_wins).unwrap_or(0) as u32
        };
        let indices = input.chunks_exact(width).map(first_largest);
        run.store_exact("indices", indices.collect::<Vec<_>>())
    }
}
