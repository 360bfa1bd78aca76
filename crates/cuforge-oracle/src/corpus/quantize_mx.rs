//! Quantisation to signed bytes with a power of two as the scale of each 32 elements: a single rounding, so exact.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::format::exponent_of;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

/// Elements that share a scale.
const BLOCK: u32 = 32;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "quantize_mx",
    description: "signed bytes with a power of two as the scale of each 32",
    source: include_str!("../../kernels/quantize_mx.cu"),
    shipped: include_str!("../../kernels/ptx/quantize_mx.ptx"),
    written: None,
    axes: &["blocks"],
    real: &[4003],
    mutated: &[101],
    small: &[&[101], &[128], &[1], &[7], &[66]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("bytes", 1, Element::I8, Access::StorageReadWrite),
        Parameter::buffer("scales", 2, Element::U8, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 4, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        flat(128, 2),
        flat(32, 1),
        flat(32, 4),
        flat(64, 1),
        flat(64, 8),
        flat(128, 1),
        flat(256, 2),
        flat(512, 1),
        flat(1024, 1),
        flat(96, 3),
        flat(256, 4),
        flat(160, 1),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let count = shape.axis(0);
    let elements = u64::from(count) * u64::from(BLOCK);
    let of_block = (schedule.workgroup_size[0] / BLOCK * schedule.items_per_invocation).max(1);
    Case::builder(spec, QuantizeMx)
        .input("input", Element::F32, elements, unlike_blocks())
        .output("bytes", Element::I8, elements)
        .output("scales", Element::U8, count.into())
        .uniform("blocks", count)
        .extent(blocks(schedule, count.div_ceil(of_block), 1))
}

/// Blocks of any size, blocks full of ties, blocks whose largest element rounds up to one more bit, and blocks of
/// zeros.
fn unlike_blocks() -> Fill {
    Fill::with(move |random, index| {
        let block = index / u64::from(BLOCK);
        let size = 2f64.powi((block * 7 % 41) as i32 - 20);
        match block % 4 {
            0 => size * random.normal(),
            1 => size * (random.below(256) as f64 - 128.0) / 2.0,
            2 if index % 32 == block % 32 => -size * 1.999,
            2 => size * (1.98 + 0.02 * random.unit()),
            _ if block % 8 == 7 => 0.0,
            _ => size * random.unit(),
        }
    })
}

struct QuantizeMx;

impl Reference for QuantizeMx {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (mut bytes, mut scales) = (Vec::new(), Vec::new());
        for block in run.reals("input")?.chunks_exact(BLOCK as usize) {
            let largest = block.iter().map(|x| x.value().abs()).fold(0.0, f64::max);
            // Below 2^-119 all elements count as zeros.
            let exponent = (exponent_of(largest) >= -119).then(|| exponent_of(largest) - 6);
            scales.push(exponent.map_or(0, |exponent| (exponent + 127) as u8));
            bytes.extend(block.iter().map(|x| {
                let scaled = exponent.map_or(0.0, |exponent| x.value() * 2f64.powi(-exponent));
                scaled.round_ties_even().clamp(-127.0, 127.0) as i8
            }));
        }
        run.store_exact("bytes", bytes)?;
        run.store_exact("scales", scales)
    }
}
