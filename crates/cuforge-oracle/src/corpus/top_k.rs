//! Top-8 of each row of a matrix, as values and indices: exact, with a stated rule for ties.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Constant, Element, KernelSpec, Parameter, Schedule};

/// How many elements a row's result has.
const TOP: usize = 8;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "top_k",
    description: "the eight largest elements of each row and their indices, of equals the lowest index first",
    source: include_str!("../../kernels/top_k.cu"),
    shipped: include_str!("../../kernels/ptx/top_k.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[1, 65_537],
    mutated: &[8, 511],
    small: &[&[8, 511], &[1, 4096], &[3, 1365], &[5, 7], &[4, 8], &[1, 1]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("values", 1, Element::F32, Access::StorageReadWrite),
        Parameter::buffer("indices", 2, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    let schedule =
        |threads, items, filter| flat(threads, items).with_constant("FILTER", Constant::Bool(filter));
    vec![
        schedule(256, 4, true),
        schedule(32, 8, true),
        schedule(64, 4, false),
        schedule(128, 1, true),
        schedule(128, 4, false),
        schedule(512, 2, true),
        schedule(1024, 1, false),
        schedule(1024, 4, true),
        // The last warp is partial: 80 = 2 * 32 + 16, 200 = 6 * 32 + 8.
        schedule(80, 2, true),
        schedule(200, 3, false),
        schedule(64, 2, true),
        schedule(336, 1, false),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let results = u64::from(rows) * TOP as u64;
    Case::builder(spec, TopK)
        .input("input", Element::F32, shape.area(0, 1), rows_with_ties(width))
        .with_rows_of(width.into())
        .output("values", Element::F32, results)
        .with_rows_of(TOP as u64)
        .output("indices", Element::U32, results)
        .with_rows_of(TOP as u64)
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows, 1))
}

/// Rows with ties whose largest elements fall to one thread, rows that differ everywhere, rows of negative numbers, and
/// rows of few values with both zeros.
fn rows_with_ties(width: u32) -> Fill {
    let width = u64::from(width.max(1));
    Fill::with(move |random, index| {
        let (row, column) = (index / width, index % width);
        let value = random.normal();
        match row % 4 {
            // With blocks of up to 256 threads a single list takes in all of the result, at every rank.
            0 if column % 256 == 5 => 20.0 + (value * 8.0).round() / 8.0,
            0 => (value * 8.0).round() / 8.0,
            1 => value,
            2 => -1.0 - value.abs(),
            // Below zero, or one of the zeros: in a row of a few elements the zeros are among the results.
            _ => [-0.0, 0.0, -2.0, -3.0][random.below(4) as usize],
        }
    })
}

struct TopK;

impl Reference for TopK {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let input = run.reals("input")?;
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for row in input.chunks_exact(width) {
            let mut order: Vec<usize> = (0..width).collect();
            // Stable, so of equal elements (the two zeros are equal) the lower index stays in front.
            order.sort_by(|&left, &right| row[right].compare(row[left]));
            for rank in 0..TOP {
                let index = order.get(rank);
                values.push(index.map_or(f32::NEG_INFINITY, |&index| row[index].value() as f32));
                indices.push(index.map_or(width, |&index| index) as u32);
            }
        }
        run.store_exact("values", values)?;
        run.store_exact("indices", indices)
    }
}
