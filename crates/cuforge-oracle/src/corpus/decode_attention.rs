//! Attention of one new token a sequence over a cache of keys and values in half precision: softmax over sequences of
//! unlike length, split over the warps of a block.

use super::kernel::CorpusKernel;
use super::shape::{Shape, depth_of_sum, grid, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

const WARP: u32 = 32;

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "decode_attention",
    description: "attention of one token over the keys and values of its sequence, of unlike lengths",
    source: include_str!("../../kernels/decode_attention.cu"),
    shipped: include_str!("../../kernels/ptx/decode_attention.ptx"),
    written: None,
    axes: &["batch", "groups", "heads", "capacity", "width"],
    real: &[4, 2, 4, 133, 64],
    mutated: &[3, 1, 2, 37, 36],
    small: &[&[3, 1, 2, 37, 36], &[4, 2, 3, 9, 40], &[1, 1, 1, 1, 1], &[2, 2, 1, 70, 13], &[5, 1, 2, 5, 128]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("queries", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("keys", 1, Element::F16, Access::StorageRead),
        Parameter::buffer("values", 2, Element::F16, Access::StorageRead),
        Parameter::buffer("lengths", 3, Element::U32, Access::StorageRead),
        Parameter::buffer("output", 4, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 20, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(WARP, 4, 2),
        rows(WARP, 1, 1),
        rows(WARP, 2, 1),
        rows(WARP, 2, 4),
        rows(WARP, 3, 2),
        rows(WARP, 4, 1),
        rows(WARP, 8, 1),
        rows(WARP, 8, 2),
        rows(WARP, 5, 3),
        rows(WARP, 16, 1),
        rows(WARP, 7, 1),
        rows(WARP, 12, 2),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (batch, groups, heads) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let (capacity, width) = (shape.axis(3), shape.axis(4));
    let warps = schedule.workgroup_size[1];
    let (lists, cells) = (shape.area(0, 1), shape.area(3, 4));
    let results = lists * u64::from(heads) * u64::from(width);
    let halves = || Fill::Normal { mean: 0.0, deviation: 1.0 };
    Case::builder(spec, DecodeAttention { warps: warps.max(1) as usize })
        .input("queries", Element::F32, results, heads_of_unlike_size(width))
        .with_rows_of(width.into())
        .input("keys", Element::F16, lists * cells, halves())
        .with_rows_of(width.into())
        .input("values", Element::F16, lists * cells, halves())
        .with_rows_of(width.into())
        .input("lengths", Element::U32, batch.into(), unlike_lengths(capacity))
        .output("output", Element::F32, results)
        .with_rows_of(width.into())
        .uniform("groups", groups)
        .uniform("heads", heads)
        .uniform("capacity", capacity)
        .uniform("width", width)
        .uniform("scale", 1.0 / (width.max(1) as f32).sqrt())
        .extent(grid(schedule, [heads, groups, batch], capacity + warps * (width + 2)))
}

/// Heads whose scores are of about unit size, and heads that attend to a few positions alone.
fn heads_of_unlike_size(width: u32) -> Fill {
    Fill::with(move |random, index| {
        let size = if index / u64::from(width.max(1)) % 2 == 0 { 1.0 } else { 8.0 };
        size * random.normal()
    })
}

/// A full sequence first, then one without a token, one with a single token, and any others.
fn unlike_lengths(capacity: u32) -> Fill {
    Fill::with(move |random, index| match index % 4 {
        0 => f64::from(capacity),
        1 => 0.0,
        2 => 1.0,
        _ => random.below(u64::from(capacity) + 1) as f64,
    })
}

struct DecodeAttention {
    warps: usize,
}

impl Reference for DecodeAttention {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let axis = |name| run.integer(name).map(|size| size.max(1) as usize);
        let (groups, heads) = (axis("groups")?, axis("heads")?);
        let (capacity, width) = (axis("capacity")?, axis("width")?);
        let (queries, lengths) = (run.reals("queries")?, run.integers("lengths")?);
        let (keys, values) = (run.reals("keys")?, run.reals("values")?);
        let scale = run.scalar("scale")?;
        let dot = Summation::Depth(depth_of_sum(width as u32, WARP, 1));
        let mut output = Vec::with_capacity(queries.len());
        for (head, query) in queries.chunks_exact(width).enumerate() {
            let group = head / heads;
            let length = lengths.get(group / groups).and_then(|length| usize::try_from(*length).ok());
            let length = length.unwrap_or(0).min(capacity);
            let start = |position: usize| (group * capacity + position) * width;
            let scores: Vec<R> = (0..length)
                .map(|position| {
                    let key = &keys[start(position)..][..width];
                    R::dot_in(dot, query.iter().copied().zip(key.iter().copied())) * scale
                })
                .collect();
            let parts: Vec<Part<R>> =
                (0..self.warps.min(length)).map(|warp| Part::new(&scores, warp, self.warps)).collect();
            let Some(highest) = parts.iter().map(|part| part.peak).reduce(R::max) else {
                output.extend(std::iter::repeat_n(R::zero(), width));
                continue;
            };
            let shares: Vec<R> = parts.iter().map(|part| (part.peak - highest).exp()).collect();
            let whole = R::dot(parts.iter().zip(&shares).map(|(part, &share)| (part.sum(), share)));
            for column in 0..width {
                let totals = parts.iter().zip(&shares).map(|(part, &share)| {
                    let of_position = |(at, weight)| (weight, values[start(at) + column]);
                    (R::dot(part.weights.iter().copied().map(of_position)), share)
                });
                output.push(R::dot(totals) / whole);
            }
        }
        run.store("output", output)
    }
}

/// The positions of one warp, with their weights relative to the largest score among them.
struct Part<R> {
    peak: R,
    weights: Vec<(usize, R)>,
}

impl<R: Real> Part<R> {
    fn new(scores: &[R], warp: usize, warps: usize) -> Self {
        let own = || scores.iter().copied().enumerate().skip(warp).step_by(warps);
        let peak = own().map(|(_, score)| score).reduce(R::max).unwrap_or(R::zero());
        Self { peak, weights: own().map(|(position, score)| (position, (score - peak).exp())).collect() }
    }

    fn sum(&self) -> R {
        R::sum(self.weights.iter().map(|(_, weight)| *weight))
    }
}
