//! `SwiGLU`: two matrix products over one input, joined by the activation in one kernel.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, constant, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Constant, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "swiglu",
    description: "silu(x * w_gate) * (x * w_up)",
    source: include_str!("../../kernels/swiglu.cu"),
    shipped: include_str!("../../kernels/ptx/swiglu.ptx"),
    written: None,
    axes: &["rows", "inner", "columns"],
    real: &[16, 509, 768],
    mutated: &[5, 19, 211],
    small: &[&[5, 19, 211], &[10, 130, 31], &[3, 64, 64], &[1, 1, 1], &[17, 33, 97]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("w_gate", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("w_up", 2, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 3, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    let schedule = |threads, items, tile_rows, tile_k| {
        flat(threads, items)
            .with_constant("TILE_ROWS", Constant::Int(tile_rows))
            .with_constant("TILE_K", Constant::Int(tile_k))
    };
    vec![
        schedule(128, 1, 4, 64),
        schedule(32, 1, 16, 32),
        schedule(64, 1, 8, 128),
        schedule(64, 2, 4, 64),
        schedule(128, 2, 2, 32),
        schedule(96, 1, 8, 48),
        schedule(256, 1, 1, 128),
        schedule(256, 3, 4, 16),
        // A partial warp, and tiles that divide nothing evenly.
        schedule(48, 1, 3, 33),
        schedule(32, 4, 4, 32),
        schedule(512, 1, 2, 64),
        schedule(160, 2, 5, 40),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, inner, columns) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let columns_of_block = (schedule.workgroup_size[0] * schedule.items_per_invocation).max(1);
    let rows_of_block = constant(schedule, "TILE_ROWS").max(1);
    // Products of about unit size, where the activation bends most.
    let deviation = 1.0 / f64::from(inner.max(1)).sqrt();
    let weights = || Fill::Normal { mean: 0.0, deviation };
    Case::builder(spec, Swiglu)
        .input("x", Element::F32, shape.area(0, 1), Fill::Normal { mean: 0.0, deviation: 1.0 })
        .with_rows_of(inner.into())
        .input("w_gate", Element::F32, shape.area(1, 2), weights())
        .with_rows_of(columns.into())
        .input("w_up", Element::F32, shape.area(1, 2), weights())
        .with_rows_of(columns.into())
        .output("output", Element::F32, shape.area(0, 2))
        .with_rows_of(columns.into())
        .uniform("rows", rows)
        .uniform("inner", inner)
        .uniform("columns", columns)
        .extent(blocks(schedule, columns.div_ceil(columns_of_block), rows.div_ceil(rows_of_block)))
}

struct Swiglu;

impl Reference for Swiglu {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (inner, columns) = (run.integer("inner")?.max(1) as usize, run.integer("columns")? as usize);
        let (x, w_gate, w_up) = (run.reals("x")?, run.reals("w_gate")?, run.reals("w_up")?);
        let mut output = Vec::with_capacity(x.len() / inner * columns);
        for row in x.chunks_exact(inner) {
            for column in 0..columns {
                let product = |weights: &[R]| {
                    R::dot(row.iter().enumerate().map(|(k, &x)| (x, weights[k * columns + column])))
                };
                output.push(product(&w_gate).silu() * product(&w_up));
            }
        }
        run.store("output", output)
    }
}
