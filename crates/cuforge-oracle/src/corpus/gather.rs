//! Rows of a table picked by number, as embeddings are looked up: values are only moved, so exact to the bit.

use super::kernel::CorpusKernel;
use super::shape::{Shape, blocks, rows};
use crate::case::{Case, CaseBuilder};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::real::Real;
use crate::reference::{Evaluation, Reference};
use cuforge_core::{Access, Element, KernelSpec, Parameter, Schedule};

pub(super) const KERNEL: CorpusKernel = CorpusKernel {
    name: "gather",
    description: "the rows of a table that a list of numbers names, zeros for a number beyond it",
    source: include_str!("../../kernels/gather.cu"),
    shipped: include_str!("../../kernels/ptx/gather.ptx"),
    written: None,
    axes: &["n", "entries", "width"],
    real: &[509, 300, 384],
    mutated: &[19, 13, 150],
    small: &[&[19, 13, 150], &[16, 32, 128], &[1, 1, 1], &[37, 5, 101], &[300, 300, 7]],
    parameters,
    schedules,
    case,
};

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("table", 0, Element::U16, Access::StorageRead),
        Parameter::buffer("ids", 1, Element::U32, Access::StorageRead),
        Parameter::buffer("output", 2, Element::U16, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}

fn schedules() -> Vec<Schedule> {
    vec![
        rows(64, 4, 2),
        rows(32, 1, 1),
        rows(32, 8, 4),
        rows(128, 1, 1),
        rows(128, 2, 2),
        rows(256, 1, 1),
        rows(16, 16, 2),
        rows(8, 32, 1),
        rows(24, 5, 3),
        rows(100, 3, 1),
        rows(512, 1, 2),
        rows(32, 16, 8),
    ]
}

fn case(spec: KernelSpec, shape: &Shape, schedule: &Schedule) -> CaseBuilder {
    let (n, entries, width) = (shape.axis(0), shape.axis(1), shape.axis(2));
    let [threads, rows_of_block, _] = schedule.workgroup_size;
    let columns_of_block = (threads * schedule.items_per_invocation).max(1);
    Case::builder(spec, Gather)
        .input("table", Element::U16, shape.area(1, 2), Fill::Bits)
        .with_rows_of(width.into())
        .input("ids", Element::U32, n.into(), some_beyond(entries))
        .output("output", Element::U16, shape.area(0, 2))
        .with_rows_of(width.into())
        .uniform("n", n)
        .uniform("entries", entries)
        .uniform("width", width)
        .extent(blocks(schedule, width.div_ceil(columns_of_block), n.div_ceil(rows_of_block.max(1))))
}

/// The last entry first, then entries in any order, a number just beyond the table and the largest one of all.
fn some_beyond(entries: u32) -> Fill {
    Fill::with(move |random, index| match index % 6 {
        0 => f64::from(entries.saturating_sub(1)),
        2 => f64::from(entries),
        5 => f64::from(u32::MAX),
        _ => random.below(entries.into()) as f64,
    })
}

struct Gather;

impl Reference for Gather {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let width = run.integer("width")?.max(1) as usize;
        let (table, ids) = (run.integers("table")?, run.integers("ids")?);
        let entries: Vec<&[i64]> = table.chunks_exact(width).collect();
        let mut output = Vec::with_capacity(ids.len() * width);
        for id in ids {
            match entries.get(id as usize) {
                Some(entry) => output.extend(entry.iter().map(|value| *value as u16)),
                None => output.extend(std::iter::repeat_n(0, width)),
            }
        }
        run.store_exact("output", output)
    }
}
