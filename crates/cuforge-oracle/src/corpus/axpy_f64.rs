//! `y = factor * x + y` in place, in double precision.

use super::kernel::{CorpusKernel, Written};
use super::lists;
use super::shape::Shape;
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::format::Format;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, Extent, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "axpy_f64",
    description: "y = factor * x + y in place, in double precision",
    source: include_str!("../../kernels/axpy_f64.cu"),
    shipped: include_str!("../../kernels/ptx/axpy_f64.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/axpy_f64.ptx"),
        schedules: lists::written_elementwise,
    }),
    axes: &["n"],
    real: &[200_003],
    mutated: &[4095],
    small: lists::LENGTHS,
    parameters,
    schedules: lists::elementwise,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("x", 0, Element::F64, Access::StorageRead),
        Parameter::buffer("y", 1, Element::F64, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 16, align: 8 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, _: &Schedule) -> CaseBuilder {
    let n = u64::from(shape.axis(0));
    let values = || Fill::Normal { mean: 0.0, deviation: 1.0 };
    Case::builder(spec, Axpy)
        .computes_in(Format::F64)
        .input("x", Element::F64, n, values())
        .inout("y", Element::F64, n, values())
        .uniform("n", n)
        // No number that single precision holds.
        .uniform("factor", -1.1f64)
        .extent(Extent::Elements(n))
}

struct Axpy;

impl Reference for Axpy {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let factor = run.scalar("factor")?;
        let (x, y) = (run.reals("x")?, run.reals("y")?);
        run.store("y", x.into_iter().zip(y).map(|(x, y)| factor * x + y))
    }
}
