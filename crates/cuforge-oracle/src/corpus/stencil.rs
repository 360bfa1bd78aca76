//! One Jacobi step of the heat equation on a box: blocks and grid of three dimensions.

use super::kernel::CorpusKernel;
use super::lists;
use super::shape::{Shape, grid};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Element, KernelSpec, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "stencil",
    description: "one step of the heat equation on a box, whose faces stay as they are",
    source: include_str!("../../kernels/stencil.cu"),
    shipped: include_str!("../../kernels/ptx/stencil.ptx"),
    written: None,
    axes: &["depth", "height", "width"],
    real: &[37, 61, 97],
    mutated: &[9, 11, 37],
    small: &[&[9, 11, 37], &[8, 8, 64], &[1, 1, 1], &[3, 3, 3], &[33, 7, 5]],
    parameters: || lists::one_to_one(16),
    schedules,
    case,
};

fn schedules() -> Vec<Schedule> {
    let schedule = |block, planes| Schedule::new(block).with_items_per_invocation(planes);
    vec![
        schedule([32, 4, 2], 2),
        schedule([32, 1, 1], 1),
        schedule([32, 2, 4], 1),
        schedule([16, 4, 4], 2),
        schedule([8, 8, 8], 1),
        schedule([64, 2, 1], 4),
        schedule([128, 1, 1], 1),
        schedule([32, 8, 1], 8),
        schedule([16, 16, 1], 3),
        schedule([10, 3, 3], 2),
        schedule([4, 4, 16], 1),
        schedule([50, 5, 1], 2),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (depth, height, width) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let [x, y, z] = schedule.workgroup_size.map(|size| size.max(1));
    let planes = z * schedule.items_per_invocation.max(1);
    let cells = u64::from(depth) * shape.area(1, 2);
    Case::builder(spec, Stencil)
        .input("input", Element::F32, cells, Fill::Uniform { low: -10.0, high: 30.0 })
        .with_rows_of(width.into())
        .output("output", Element::F32, cells)
        .with_rows_of(width.into())
        .uniform("depth", depth)
        .uniform("height", height)
        .uniform("width", width)
        .uniform("rate", 0.12f32)
        .extent(grid(schedule, [width.div_ceil(x), height.div_ceil(y), depth.div_ceil(planes)], 0))
}

struct Stencil;

impl Reference for Stencil {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let axis = |name| run.integer(name).map(|size| size.max(1) as usize);
        let (depth, height, width) = (axis("depth")?, axis("height")?, axis("width")?);
        let (input, rate) = (run.reals("input")?, run.scalar("rate")?);
        let (plane, six) = (height * width, run.exact(6.0));
        let inside = |at: usize, size: usize| at > 0 && at + 1 < size;
        let output = input.iter().enumerate().map(|(i, &centre)| {
            let (z, y, x) = (i / plane, i / width % height, i % width);
            if !(inside(z, depth) && inside(y, height) && inside(x, width)) {
                return centre;
            }
            let neighbours = [i - 1, i + 1, i - width, i + width, i - plane, i + plane];
            centre + rate * (R::sum(neighbours.map(|at| input[at])) - six * centre)
        });
        run.store("output", output.collect::<Vec<_>>())
    }
}
