//! Bitonic sort of rows of keys in shared memory, in place: exact.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, flat};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Constant, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "bitonic_sort",
    description: "sorts each row of at most 512 keys upwards, in place",
    source: include_str!("../../kernels/bitonic_sort.cu"),
    shipped: include_str!("../../kernels/ptx/bitonic_sort.ptx"),
    written: None,
    axes: &["rows", "width"],
    real: &[37, 509],
    mutated: &[5, 300],
    // No row is longer than the smallest number of keys that a schedule sorts.
    small: &[&[5, 300], &[8, 512], &[1, 1], &[100, 33], &[3, 511]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("keys", 0, Element::U32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    let schedule = |threads, keys: u32| {
        flat(threads, keys / 2 / threads).with_constant("SIZE", Constant::Int(keys.into()))
    };
    vec![
        schedule(128, 512),
        schedule(32, 512),
        schedule(64, 512),
        schedule(256, 512),
        schedule(64, 1024),
        schedule(128, 1024),
        schedule(256, 1024),
        schedule(512, 1024),
        schedule(256, 2048),
        schedule(1024, 2048),
        schedule(512, 2048),
        schedule(32, 1024),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (rows, width) = (shape.axis(0), shape.axis(1));
    Case::builder(spec, BitonicSort)
        .inout("keys", Element::U32, shape.area(0, 1), unlike_rows(width))
        .with_rows_of(width.into())
        .uniform("rows", rows)
        .uniform("width", width)
        .extent(blocks(schedule, rows, 1))
}

/// Any keys, few keys that occur often, keys that fall, and the largest key among others, which also fills rows up.
fn unlike_rows(width: u32) -> Fill {
    let width = u64::from(width.max(1));
    Fill::with(move |random, index| match index / width % 4 {
        0 => random.below(1 << 32) as f64,
        1 => random.below(5) as f64,
        2 => (1_000_000 - index) as f64,
        _ if random.below(3) == 0 => f64::from(u32::MAX),
        _ => random.below(1 << 20) as f64,
    })
}

struct BitonicSort;

impl Reference for BitonicSort {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let mut keys: Vec<u32> = run.integers("keys")?.into_iter().map(|key| key as u32).collect();
        keys.chunks_exact_mut(width).for_each(<[u32]>::sort_unstable);
        run.store_exact("keys", keys)
    }
}
