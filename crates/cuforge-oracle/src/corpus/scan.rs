//! Exclusive prefix sums of the rows of a matrix of integers: exact.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "scan",
    description: "exclusive prefix sums of each row, and its total, modulo 2^32",
    source: include_str!("../../kernels/scan.cu"),
    shipped: include_str!("../../kernels/ptx/scan.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[37, 5003],
    mutated: &[3, 1201],
    small: &[&[3, 1201], &[4, 1024], &[1, 1], &[130, 31], &[1, 4096]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::U32, Access::StorageRead),
        Parameter::buffer("output", 1, Element::U32, Access::StorageReadWrite),
        Parameter::buffer("totals", 2, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        flat(128, 4),
        flat(32, 1),
        flat(32, 8),
        flat(64, 2),
        flat(64, 16),
        flat(128, 1),
        flat(256, 4),
        flat(512, 2),
        flat(1024, 1),
        flat(96, 3),
        flat(256, 8),
        flat(160, 2),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    Case::builder(spec, Scan)
        .input("input", Element::U32, shape.area(0, 1), Fill::Bits)
        .with_rows_of(width.into())
        .output("output", Element::U32, shape.area(0, 1))
        .with_rows_of(width.into())
        .output("totals", Element::U32, rows.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows, 1))
}

struct Scan;

impl Reference for Scan {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let (mut output, mut totals) = (Vec::new(), Vec::new());
        for row in run.integers("input")?.chunks_exact(width) {
            let mut sum = 0u32;
            for value in row {
                output.push(sum);
                sum = sum.wrapping_add(*value as u32);
            }
            totals.push(sum);
        }
        run.store_exact("output", output)?;
        run.store_exact("totals", totals)
    }
}
