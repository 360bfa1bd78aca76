//! Sums of segments of unlike length, empty ones included.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "segmented_sum",
    description: "the sum of each segment of a list, of any length",
    source: include_str!("../../kernels/segmented_sum.cu"),
    shipped: include_str!("../../kernels/ptx/segmented_sum.ptx"),
    written: None,
    axes: &["segments", "average"],
    real: &[3001, 67],
    mutated: &[53, 70],
    small: &[&[53, 70], &[31, 127], &[1, 1], &[1, 2000], &[400, 9]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("values", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("offsets", 1, Element::U32, Access::StorageRead),
        Parameter::buffer("sums", 2, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(32, 4, 2),
        rows(32, 1, 1),
        rows(32, 8, 4),
        rows(16, 8, 1),
        rows(16, 2, 2),
        rows(8, 16, 1),
        rows(4, 32, 2),
        rows(2, 48, 1),
        rows(1, 64, 1),
        rows(32, 3, 3),
        rows(32, 16, 1),
        rows(8, 12, 4),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (segments, average) = (shape.axis(0), shape.axis(1));
    let n = (segments + 1) * average;
    let [lanes, segments_of_block, _] = schedule.workgroup_size;
    let sums_of_lane = schedule.items_per_invocation.max(1);
    Case::builder(spec, SegmentedSum { lanes, sums_of_lane })
        .input("values", Element::F32, n.into(), Fill::Uniform { low: -1.0, high: 1.0 })
        .input("offsets", Element::U32, u64::from(segments) + 1, unlike_segments(average))
        .output("sums", Element::F32, segments.into())
        .uniform("segments", segments)
        .uniform("n", n)
        .extent(blocks(schedule, segments.div_ceil(segments_of_block.max(1)), 1))
}

/// Rising offsets: half of them at one of the two ends of their stretch, so that many segments are empty and many long.
fn unlike_segments(average: u32) -> Fill {
    let average = u64::from(average);
    Fill::with(move |random, index| {
        let within = match random.below(4) {
            0 => 0,
            1 => average,
            _ => random.below(average + 1),
        };
        (index * average + within) as f64
    })
}

struct SegmentedSum {
    lanes: u32,
    sums_of_lane: u32,
}

impl SegmentedSum {
    /// Each lane's own sums, their joining, and a tree over the lanes.
    fn tree(&self, terms: usize) -> Summation {
        let own = (terms as u64).div_ceil(u64::from(self.lanes) * u64::from(self.sums_of_lane));
        Summation::Depth(own + u64::from(self.sums_of_lane - 1) + u64::from(self.lanes.ilog2()))
    }
}

impl Reference for SegmentedSum {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (values, offsets) = (run.reals("values")?, run.integers("offsets")?);
        let sums = offsets.windows(2).map(|ends| {
            let segment = &values[ends[0] as usize..ends[1] as usize];
            R::sum_in(self.tree(segment.len()), segment.iter().copied())
        });
        run.store("sums", sums.collect::<Vec<_>>())
    }
}
