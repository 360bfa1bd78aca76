//! Dot products of rows in double precision.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, depth_of_sum, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::format::Format;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "dot_f64",
    description: "the dot product of each row of one matrix with that of another, in double precision",
    source: include_str!("../../kernels/dot_f64.cu"),
    shipped: include_str!("../../kernels/ptx/dot_f64.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[61, 4001],
    mutated: &[5, 700],
    small: &[&[5, 700], &[4, 1024], &[1, 1], &[100, 33], &[1, 4096]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("a", 0, Element::F64, Access::StorageRead),
        Parameter::buffer("b", 1, Element::F64, Access::StorageRead),
        Parameter::buffer("output", 2, Element::F64, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        flat(128, 2),
        flat(32, 1),
        flat(32, 8),
        flat(64, 4),
        flat(128, 1),
        flat(256, 2),
        flat(256, 1),
        flat(512, 1),
        flat(1024, 1),
        flat(96, 3),
        flat(224, 1),
        flat(512, 4),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    let depth = depth_of_sum(width, schedule.workgroup_size[0], schedule.items_per_invocation);
    let values = || Fill::LogUniform { min_exponent: -20, max_exponent: 3, signed: true };
    Case::builder(spec, Dot { summation: Summation::Depth(depth) })
        .computes_in(Format::F64)
        .input("a", Element::F64, shape.area(0, 1), values())
        .with_rows_of(width.into())
        .input("b", Element::F64, shape.area(0, 1), values())
        .with_rows_of(width.into())
        .output("output", Element::F64, rows.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows, 1))
}

struct Dot {
    summation: Summation,
}

impl Reference for Dot {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let (a, b) = (run.reals("a")?, run.reals("b")?);
        let rows = a.chunks_exact(width).zip(b.chunks_exact(width));
        let products = rows.map(|(a, b)| R::dot_in(self.summation, a.iter().copied().zip(b.iter().copied())));
        run.store("output", products.collect::<Vec<_>>())
    }
}
