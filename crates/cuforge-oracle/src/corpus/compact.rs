//! The elements of each row that reach a threshold, moved to its front by votes and counts: exact.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "compact",
    description: "the elements of each row that reach a threshold, in order at its front, and their count",
    source: include_str!("../../kernels/compact.cu"),
    shipped: include_str!("../../kernels/ptx/compact.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[61, 4001],
    mutated: &[5, 777],
    small: &[&[5, 777], &[4, 1024], &[1, 1], &[130, 31], &[1, 4096]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 1, Element::F32, Access::StorageReadWrite),
        Parameter::buffer("counts", 2, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        flat(128, 2),
        flat(32, 1),
        flat(32, 8),
        flat(64, 2),
        flat(128, 1),
        flat(128, 4),
        flat(256, 2),
        flat(512, 1),
        flat(1024, 1),
        flat(96, 3),
        flat(256, 4),
        flat(160, 1),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    Case::builder(spec, Compact)
        .input("input", Element::F32, shape.area(0, 1), around_the_threshold(width))
        .with_rows_of(width.into())
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(width.into())
        .output("counts", Element::U32, rows.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .uniform("threshold", THRESHOLD)
        .extent(blocks(schedule, rows, 1))
}

const THRESHOLD: f32 = 0.25;

/// Rows of which about half is kept, rows of which all and rows of which nothing is, and rows with many elements that
/// equal the threshold.
fn around_the_threshold(width: u32) -> Fill {
    Fill::with(move |random, index| {
        let value = random.normal();
        match index / u64::from(width.max(1)) % 4 {
            0 => value,
            1 => f64::from(THRESHOLD) + value.abs(),
            2 => (value * 4.0).round() / 4.0,
            _ => -value.abs(),
        }
    })
}

struct Compact;

impl Reference for Compact {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (width, threshold) = (run.integer("width")?.max(1) as usize, run.scalar("threshold")?);
        let (mut output, mut counts) = (Vec::new(), Vec::new());
        for row in run.reals("input")?.chunks_exact(width) {
            let kept = row.iter().filter(|x| !x.is_less(threshold)).map(|x| x.value() as f32);
            let before = output.len();
            output.extend(kept);
            counts.push((output.len() - before) as u32);
            output.resize(before + width, 0.0);
        }
        run.store_exact("output", output)?;
        run.store_exact("counts", counts)
    }
}
