//! Softmax over the rows of a matrix: two reductions, whose maximum must be subtracted before the exponential.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, depth_of_sum};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Constant, Element, KernelSpec, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "softmax",
    description: "each row becomes exp(x - max(x)) / sum(exp(x - max(x)))",
    source: include_str!("../../kernels/softmax.cu"),
    shipped: include_str!("../../kernels/ptx/softmax.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[512, 1023],
    mutated: &[9, 333],
    small: lists::ROWS,
    parameters: || lists::one_to_one(8),
    schedules,
    case,
};

fn schedules() -> Vec<Schedule> {
    let schedule = |threads, rows, items, recompute| {
        Schedule::new([threads, rows, 1])
            .with_items_per_invocation(items)
            .with_constant("RECOMPUTE", Constant::Bool(recompute))
    };
    vec![
        schedule(128, 1, 2, true),
        schedule(32, 4, 4, true),
        schedule(32, 8, 1, false),
        schedule(64, 2, 2, false),
        schedule(128, 2, 4, false),
        schedule(256, 1, 4, true),
        schedule(512, 1, 2, false),
        schedule(1024, 1, 1, true),
        // The last warp is partial: 80 = 2 * 32 + 16, 200 = 6 * 32 + 8.
        schedule(80, 1, 3, true),
        schedule(200, 1, 1, false),
        schedule(64, 8, 2, true),
        schedule(160, 1, 4, false),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let reference = Softmax { summation: Summation::Depth(depth_of_sum(width, threads, 1)) };
    Case::builder(spec, reference)
        .input("input", Element::F32, shape.area(0, 1), rows_far_apart(width))
        .with_rows_of(width.into())
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(width.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

/// Rows around 0, rows so far below that exponentials vanish unless the row's own maximum is taken off, rows of one
/// value, and rows with one element, each at another place, that overflows unless it is found to be the maximum.
fn rows_far_apart(width: u32) -> Fill {
    let width = u64::from(width.max(1));
    Fill::with(move |random, index| {
        let (row, column) = (index / width, index % width);
        let spread = 2.0 * random.normal();
        match row % 6 {
            0 => spread,
            2 => spread - 200.0,
            4 => 7.25,
            // The places walk over lanes and warps: 37 is no divisor of a block.
            _ if column == (row * 37 + 21) % width => spread + 150.0,
            _ => spread,
        }
    })
}

struct Softmax {
    summation: Summation,
}

impl Reference for Softmax {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let input = run.reals("input")?;
        let mut output = Vec::with_capacity(input.len());
        for row in input.chunks_exact(width) {
            let peak = row.iter().copied().fold(row[0], R::max);
            let powers: Vec<R> = row.iter().map(|&x| (x - peak).exp()).collect();
            let inverse = R::sum_in(self.summation, powers.iter().copied()).recip();
            output.extend(powers.into_iter().map(|power| power * inverse));
        }
        run.store("output", output)
    }
}
