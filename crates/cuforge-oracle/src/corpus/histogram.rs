//! Histogram with atomic additions, in shared and then in global memory: exact.

use super::kernel::{CorpusKernel, Written};
use super::shape::{Shape, constant, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Constant, Element, Extent, KernelSpec, LaunchGeometry, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "histogram",
    description: "adds to each of the counts how many keys name it",
    source: include_str!("../../kernels/histogram.cu"),
    shipped: include_str!("../../kernels/ptx/histogram.ptx"),
    written: Some(Written {
        text: include_str!("../../kernels/histogram.ptx"),
        schedules: || vec![flat(256, 4), flat(32, 1), flat(96, 3), flat(1024, 1)],
    }),
    axes: &["n", "bins"],
    real: &[200_003, 256],
    mutated: &[4001, 61],
    small: &[&[4001, 61], &[4096, 300], &[1, 1], &[2047, 3], &[700, 1000]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("keys", 0, Element::U32, Access::StorageRead),
        Parameter::buffer("counts", 1, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    let schedule =
        |threads, items, copies| flat(threads, items).with_constant("COPIES", Constant::Int(copies));
    vec![
        schedule(256, 4, 1),
        schedule(32, 1, 1),
        schedule(64, 8, 2),
        schedule(128, 2, 4),
        schedule(128, 16, 1),
        schedule(256, 1, 8),
        schedule(512, 4, 2),
        schedule(1024, 1, 1),
        schedule(96, 3, 3),
        schedule(80, 5, 1),
        schedule(192, 2, 2),
        schedule(512, 16, 1),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (n, bins) = (shape.axis(0), shape.axis(1));
    let keys_of_block = (schedule.workgroup_size[0] * schedule.items_per_invocation).max(1);
    Case::builder(spec, Histogram)
        .input("keys", Element::U32, n.into(), crowded_keys(bins))
        // Any counts: they may wrap.
        .inout("counts", Element::U32, bins.into(), Fill::Bits)
        .uniform("n", n)
        .uniform("bins", bins)
        .extent(Extent::Geometry(LaunchGeometry {
            grid: [n.div_ceil(keys_of_block), 1, 1],
            block: schedule.workgroup_size,
            shared_bytes: 4 * bins * constant(schedule, "COPIES"),
        }))
}

/// All bins and the keys just beyond, and stretches of a warp's length of which half name one bin.
fn crowded_keys(bins: u32) -> Fill {
    let bins = u64::from(bins);
    Fill::with(move |random, index| {
        let any = random.below(bins + 2);
        if index / 32 % 3 == 0 && any % 2 == 0 { (bins / 2) as f64 } else { any as f64 }
    })
}

struct Histogram;

impl Reference for Histogram {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let mut counts: Vec<u32> = run.integers("counts")?.into_iter().map(|count| count as u32).collect();
        for key in run.integers("keys")? {
            if let Some(count) = usize::try_from(key).ok().and_then(|key| counts.get_mut(key)) {
                *count = count.wrapping_add(1);
            }
        }
        run.store_exact("counts", counts)
    }
}
