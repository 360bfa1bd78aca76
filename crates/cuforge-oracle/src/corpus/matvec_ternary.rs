//! Matrix-vector product with weights of -1, 0 and 1, sixteen to a word: integers, so exact to the bit.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

/// Weights of a word.
const WEIGHTS: usize = 16;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "matvec_ternary",
    description: "y = w * x with weights of -1, 0 and 1, exact",
    source: include_str!("../../kernels/matvec_ternary.cu"),
    shipped: include_str!("../../kernels/ptx/matvec_ternary.ptx"),
    written: None,
    axes: &["rows", "words"],
    real: &[509, 96],
    mutated: &[37, 53],
    small: &[&[37, 53], &[64, 64], &[1, 1], &[16, 255], &[130, 3]],
    parameters,
    schedules: lists::matvec,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("w", 0, Element::U32, Access::StorageRead),
        Parameter::buffer("x", 1, Element::I8, Access::StorageRead),
        Parameter::buffer("y", 2, Element::I32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, words) = (shape.axis(0), shape.axis(1));
    let rows_of_block = schedule.workgroup_size[1];
    Case::builder(spec, MatvecTernary)
        .input("w", Element::U32, shape.area(0, 1), ternary_words())
        .input("x", Element::I8, u64::from(words) * WEIGHTS as u64, Fill::Integers { low: -128, high: 127 })
        .output("y", Element::I32, rows.into())
        .uniform("rows", rows)
        .uniform("words", words)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

/// Words of pairs of bits that hold 0, 1 or 2.
fn ternary_words() -> Fill {
    Fill::with(|random, _| (0..WEIGHTS).fold(0.0, |word, _| word * 4.0 + random.below(3) as f64))
}

struct MatvecTernary;

impl Reference for MatvecTernary {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let words = run.integer("words")?.max(1) as usize;
        let (w, x) = (run.integers("w")?, run.integers("x")?);
        let y = w.chunks_exact(words).map(|row| {
            let weights = row.iter().flat_map(|word| (0..WEIGHTS).map(move |at| weight(*word, at)));
            weights.zip(&x).map(|(weight, x)| weight * x).sum::<i64>() as i32
        });
        run.store_exact("y", y.collect::<Vec<_>>())
    }
}

/// Weight `at` of a word: its pairs of bits go through the four bytes in turn.
fn weight(word: i64, at: usize) -> i64 {
    (word >> (8 * (at % 4) + 2 * (at / 4)) & 3) - 1
}
