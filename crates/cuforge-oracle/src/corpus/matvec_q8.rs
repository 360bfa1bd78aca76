//! Matrix-vector product of bytes in groups of 32 with a scale each: integer products four at a time, exact within a
//! group.

use super::kernel::{CorpusKernel, Written};
use super::lists;
use super::shape::{Shape, blocks, depth_of_sum, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

/// Columns that share a scale.
const GROUP: usize = 32;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "matvec_q8",
    description: "y = w * x, both quantised to 8 bits in groups of 32",
    source: include_str!("../../kernels/matvec_q8.cu"),
    shipped: include_str!("../../kernels/ptx/matvec_q8.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/matvec_q8.ptx"),
        schedules: || vec![rows(32, 4, 2), rows(32, 1, 1), rows(32, 7, 1), rows(32, 16, 1)],
    }),
    axes: &["rows", "groups"],
    real: &[509, 48],
    mutated: &[11, 11],
    small: &[&[11, 11], &[2, 64], &[1, 1], &[1, 127], &[40, 3]],
    parameters,
    schedules: || lists::matvec_with_default(11),
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("w", 0, Element::I8, Access::StorageRead),
        Parameter::buffer("w_scales", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("x", 2, Element::I8, Access::StorageRead),
        Parameter::buffer("x_scales", 3, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 4, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, groups) = (shape.axis(0), shape.axis(1));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let depth = depth_of_sum(groups, threads, 1);
    let width = u64::from(groups) * GROUP as u64;
    let scales = || Fill::Uniform { low: 0.001, high: 0.02 };
    // Down to -128: as a magnitude no signed byte.
    let bytes = || Fill::Integers { low: -128, high: 127 };
    Case::builder(spec, MatvecQ8 { summation: Summation::Depth(depth) })
        .input("w", Element::I8, u64::from(rows) * width, bytes())
        .input("w_scales", Element::F32, shape.area(0, 1), scales())
        .input("x", Element::I8, width, bytes())
        .input("x_scales", Element::F32, groups.into(), scales())
        .output("y", Element::F32, rows.into())
        .uniform("rows", rows)
        .uniform("groups", groups)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

struct MatvecQ8 {
    summation: Summation,
}

impl Reference for MatvecQ8 {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let groups = run.integer("groups")?.max(1) as usize;
        let (w, x) = (run.integers("w")?, run.integers("x")?);
        let (w_scales, x_scales) = (run.reals("w_scales")?, run.reals("x_scales")?);
        let mut y = Vec::new();
        for (w, w_scales) in w.chunks_exact(groups * GROUP).zip(w_scales.chunks_exact(groups)) {
            let products = w.chunks_exact(GROUP).zip(x.chunks_exact(GROUP)).map(|(w, x)| {
                // At most 2^19: a single holds it exactly.
                let sum: i64 = w.iter().zip(x).map(|(w, x)| w * x).sum();
                run.exact(sum as f64)
            });
            let scales = w_scales.iter().zip(&x_scales).map(|(&w, &x)| w * x);
            y.push(R::dot_in(self.summation, scales.zip(products)));
        }
        run.store("y", y)
    }
}
