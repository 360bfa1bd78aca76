//! Affine: `output = input * scale + bias`, the smallest kernel that has a guard.

use super::kernel::{CorpusKernel, Written};
use super::lists;
use super::shape::Shape;
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, Extent, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "affine",
    description: "output = input * scale + bias",
    source: include_str!("../../kernels/affine.cu"),
    shipped: include_str!("../../kernels/ptx/affine.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/affine.ptx"),
        schedules: lists::written_elementwise,
    }),
    axes: &["n"],
    real: &[(1 << 20) + 3],
    mutated: &[4095],
    small: lists::LENGTHS,
    parameters,
    schedules: lists::elementwise,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 1, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 16, align: 8 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, _: &Schedule) -> CaseBuilder {
    let n = u64::from(shape.axis(0));
    Case::builder(spec, Affine)
        .input("input", Element::F32, n, Fill::Uniform { low: -8.0, high: 8.0 })
        .output("output", Element::F32, n)
        .uniform("n", n)
        // Scale and bias are unlike in sign and size, so that neither can stand in for the other.
        .uniform("scale", 1.75f32)
        .uniform("bias", -0.3f32)
        .extent(Extent::Elements(n))
}

struct Affine;

impl Reference for Affine {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (scale, bias) = (run.scalar("scale")?, run.scalar("bias")?);
        let input = run.reals("input")?;
        run.store("output", input.into_iter().map(|x| x * scale + bias))
    }
}
