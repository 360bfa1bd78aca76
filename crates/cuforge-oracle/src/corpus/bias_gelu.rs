//! A bias a column and the Gaussian error linear unit, by its approximation with the hyperbolic tangent.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::Shape;
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, Extent, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "bias_gelu",
    description: "gelu(input + bias), approximated with the hyperbolic tangent",
    source: include_str!("../../kernels/bias_gelu.cu"),
    shipped: include_str!("../../kernels/ptx/bias_gelu.ptx"),
    written: None,
    axes: &["rows", "columns"],
    real: &[127, 1000],
    mutated: &[13, 311],
    small: &[&[13, 311], &[64, 64], &[1, 1], &[1000, 3], &[5, 300]],
    parameters,
    schedules: lists::elementwise,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("bias", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 2, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, _: &Schedule) -> CaseBuilder {
    let (rows, columns) = (shape.axis(0), shape.axis(1));
    Case::builder(spec, BiasGelu)
        // Where the function bends, and where it is as good as zero or its argument.
        .input("input", Element::F32, shape.area(0, 1), Fill::Normal { mean: 0.0, deviation: 2.5 })
        .with_rows_of(columns.into())
        .input("bias", Element::F32, columns.into(), Fill::Uniform { low: -1.0, high: 1.0 })
        .output("output", Element::F32, shape.area(0, 1))
        .with_rows_of(columns.into())
        .uniform("rows", rows)
        .uniform("columns", columns)
        .extent(Extent::Elements(shape.area(0, 1)))
}

struct BiasGelu;

impl Reference for BiasGelu {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (input, bias) = (run.reals("input")?, run.reals("bias")?);
        // The square root of 2 / pi.
        let (steepness, cubic) = (R::constant(0.797_884_560_802_865_4), R::constant(0.044_715));
        let half = R::constant(0.5);
        let output = input.iter().zip(bias.iter().cycle()).map(|(&input, &bias)| {
            let x = input + bias;
            let inner = steepness * (x + cubic * (x * x * x));
            half * x * (R::one() + inner.tanh())
        });
        run.store("output", output.collect::<Vec<_>>())
    }
}
