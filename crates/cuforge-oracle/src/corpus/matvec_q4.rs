//! Matrix-vector product with weights of 4 bits: eight to a word, a scale in half precision for each 32.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, blocks, depth_of_sum};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

/// Columns that share a scale.
const GROUP: u32 = 32;
/// Weights of a word.
const NIBBLES: u32 = 8;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "matvec_q4",
    description: "y = w * x, w quantised to 4 bits in groups of 32",
    source: include_str!("../../kernels/matvec_q4.cu"),
    shipped: include_str!("../../kernels/ptx/matvec_q4.ptx"),
    written: None,
    axes: &["rows", "groups"],
    real: &[509, 24],
    mutated: &[37, 11],
    small: &[&[37, 11], &[64, 16], &[1, 1], &[5, 67], &[130, 3]],
    parameters,
    schedules: lists::matvec,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("nibbles", 0, Element::U32, Access::StorageRead),
        Parameter::buffer("scales", 1, Element::F16, Access::StorageRead),
        Parameter::buffer("x", 2, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 3, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, groups) = (shape.axis(0), shape.axis(1));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let words = groups * (GROUP / NIBBLES);
    let depth = depth_of_sum(words, threads, 1);
    Case::builder(spec, MatvecQ4 { summation: Summation::Depth(depth) })
        .input("nibbles", Element::U32, u64::from(rows) * u64::from(words), Fill::Bits)
        .input("scales", Element::F16, shape.area(0, 1), Fill::Uniform { low: 0.01, high: 0.1 })
        .input("x", Element::F32, (groups * GROUP).into(), Fill::Normal { mean: 0.0, deviation: 1.0 })
        .output("y", Element::F32, rows.into())
        .uniform("rows", rows)
        .uniform("width", groups * GROUP)
        .extent(blocks(schedule, rows.div_ceil(rows_of_block.max(1)), 1))
}

struct MatvecQ4 {
    summation: Summation,
}

impl Reference for MatvecQ4 {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let (scales, x) = (run.reals("scales")?, run.reals("x")?);
        let mut y = Vec::new();
        let words = run.integers("nibbles")?;
        let words_of_row = width / NIBBLES as usize;
        for (row, words) in words.chunks_exact(words_of_row).enumerate() {
            let partials =
                words.iter().zip(x.chunks_exact(NIBBLES as usize)).enumerate().map(|(at, (word, x))| {
                    let weight = |nibble: usize| run.exact(((word >> (4 * nibble) & 0xf) - 8) as f64);
                    let partial = R::dot(x.iter().enumerate().map(|(nibble, &x)| (weight(nibble), x)));
                    (scales[(row * words_of_row + at) * NIBBLES as usize / GROUP as usize], partial)
                });
            y.push(R::dot_in(self.summation, partials));
        }
        run.store("y", y)
    }
}
