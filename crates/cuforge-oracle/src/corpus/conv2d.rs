//! Convolution of 3 x 3 over an image of several channels: tiles with a halo, filters in registers, a grid of three
//! dimensions.

use super::kernel::CorpusKernel;
use super::shape::{Shape, grid, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

const TAPS: usize = 3;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "conv2d",
    description: "a convolution of 3 x 3 with zeros around the image, and a bias a filter",
    source: include_str!("../../kernels/conv2d.cu"),
    shipped: include_str!("../../kernels/ptx/conv2d.ptx"),
    written: None,
    axes: &["channels", "filters", "height", "width"],
    real: &[5, 9, 37, 61],
    mutated: &[3, 5, 13, 35],
    small: &[&[3, 5, 13, 35], &[2, 4, 16, 32], &[1, 1, 1, 1], &[4, 3, 33, 5], &[1, 2, 3, 67]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("weights", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("bias", 2, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 3, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 16, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(32, 4, 2),
        rows(32, 1, 1),
        rows(32, 8, 4),
        rows(16, 16, 1),
        rows(16, 8, 3),
        rows(8, 8, 2),
        rows(64, 2, 2),
        rows(32, 16, 1),
        rows(24, 5, 2),
        rows(7, 3, 1),
        rows(32, 2, 8),
        rows(13, 11, 3),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (channels, filters) = (shape.axis(0), shape.axis(1));
    let (height, width) = (shape.axis(2), shape.axis(3));
    let [columns, rows, _] = schedule.workgroup_size.map(|size| size.max(1));
    let filters_of_block = schedule.items_per_invocation.max(1);
    let values = || Fill::Uniform { low: -1.0, high: 1.0 };
    Case::builder(spec, Conv2d)
        .input("input", Element::F32, u64::from(channels) * shape.area(2, 3), values())
        .with_rows_of(width.into())
        .input("weights", Element::F32, shape.area(0, 1) * (TAPS * TAPS) as u64, values())
        .input("bias", Element::F32, filters.into(), values())
        .output("output", Element::F32, u64::from(filters) * shape.area(2, 3))
        .with_rows_of(width.into())
        .uniform("channels", channels)
        .uniform("filters", filters)
        .uniform("height", height)
        .uniform("width", width)
        .extent(grid(
            schedule,
            [width.div_ceil(columns), height.div_ceil(rows), filters.div_ceil(filters_of_block)],
            0,
        ))
}

struct Conv2d;

impl Reference for Conv2d {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let axis = |name| run.integer(name).map(|size| size.max(1) as usize);
        let (channels, height, width) = (axis("channels")?, axis("height")?, axis("width")?);
        let (input, weights, bias) = (run.reals("input")?, run.reals("weights")?, run.reals("bias")?);
        let mut output = Vec::with_capacity(bias.len() * height * width);
        for (weights, &bias) in weights.chunks_exact(channels * TAPS * TAPS).zip(&bias) {
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                let products = weights.iter().enumerate().filter_map(|(at, &weight)| {
                    let (channel, i, j) = (at / (TAPS * TAPS), at / TAPS % TAPS, at % TAPS);
                    let row = (y + i).checked_sub(TAPS / 2).filter(|row| *row < height)?;
                    let column = (x + j).checked_sub(TAPS / 2).filter(|column| *column < width)?;
                    Some((input[(channel * height + row) * width + column], weight))
                });
                output.push(R::dot(products) + bias);
            }
        }
        run.store("output", output)
    }
}
