//! Rotary position embedding in bfloat16, in place, with tables of cosines and sines.

use super::kernel::CorpusKernel;
use super::shape::{Shape, grid, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "rope",
    description: "turns the halves of each head as the points of a plane, by the angle of the token's position",
    source: include_str!("../../kernels/rope.cu"),
    shipped: include_str!("../../kernels/ptx/rope.ptx"),
    written: None,
    axes: &["tokens", "heads", "points", "places"],
    real: &[61, 12, 64, 97],
    mutated: &[5, 3, 37, 11],
    small: &[&[5, 3, 37, 11], &[7, 4, 32, 5], &[1, 1, 1, 1], &[2, 5, 129, 3], &[12, 9, 7, 30]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("x", 0, Element::BF16, Access::StorageReadWrite),
        Parameter::buffer("cosines", 1, Element::F32, Access::StorageRead),
        Parameter::buffer("sines", 2, Element::F32, Access::StorageRead),
        Parameter::buffer("positions", 3, Element::U32, Access::StorageRead),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(32, 4, 1),
        rows(32, 1, 1),
        rows(32, 2, 2),
        rows(64, 1, 1),
        rows(64, 4, 1),
        rows(128, 1, 1),
        rows(16, 8, 2),
        rows(8, 16, 4),
        // Neither the block nor the item count is a power of two.
        rows(24, 3, 3),
        rows(10, 5, 1),
        rows(32, 16, 1),
        rows(7, 11, 2),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (tokens, heads) = (shape.axis(0), shape.axis(1));
    let (points, places) = (shape.axis(2), shape.axis(3));
    let [threads, heads_of_block, _] = schedule.workgroup_size;
    let points_of_block = (threads * schedule.items_per_invocation).max(1);
    let table = || Fill::Uniform { low: -1.0, high: 1.0 };
    Case::builder(spec, Rope)
        .inout(
            "x",
            Element::BF16,
            shape.area(0, 1) * u64::from(points) * 2,
            Fill::Normal { mean: 0.0, deviation: 2.0 },
        )
        .with_rows_of(2 * u64::from(points))
        .input("cosines", Element::F32, shape.area(2, 3), table())
        .with_rows_of(points.into())
        .input("sines", Element::F32, shape.area(2, 3), table())
        .with_rows_of(points.into())
        .input("positions", Element::U32, tokens.into(), some_beyond(places))
        .uniform("heads", heads)
        .uniform("points", points)
        .uniform("places", places)
        .extent(grid(
            schedule,
            [points.div_ceil(points_of_block), heads.div_ceil(heads_of_block.max(1)), tokens],
            0,
        ))
}

/// Positions of the tables in any order, their last one first, and a few just beyond.
fn some_beyond(places: u32) -> Fill {
    let places = u64::from(places);
    Fill::with(move |random, index| match index % 5 {
        0 => places.saturating_sub(1) as f64,
        3 => (places + random.below(3)) as f64,
        _ => random.below(places) as f64,
    })
}

struct Rope;

impl Reference for Rope {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let axis = |name| run.integer(name).map(|size| size.max(1) as usize);
        let (heads, points, places) = (axis("heads")?, axis("points")?, axis("places")?);
        let (cosines, sines) = (run.reals("cosines")?, run.reals("sines")?);
        let positions = run.integers("positions")?;
        let mut x = run.reals("x")?;
        for (row, head) in x.chunks_exact_mut(2 * points).enumerate() {
            let position = positions.get(row / heads).map_or(places, |position| *position as usize);
            if position >= places {
                continue;
            }
            let (first, second) = head.split_at_mut(points);
            for point in 0..points {
                let (cosine, sine) = (cosines[position * points + point], sines[position * points + point]);
                let (a, b) = (first[point], second[point]);
                first[point] = a * cosine - b * sine;
                second[point] = b * cosine + a * sine;
            }
        }
        run.store("x", x)
    }
}
