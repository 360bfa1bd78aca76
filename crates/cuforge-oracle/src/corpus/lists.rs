//! Schedules, shapes and parameters that several kernels share because they are cut alike or compute alike.

use super::shape::{flat, rows};
use cuforge_core::{Access, Element, Parameter, Schedule};

/// Small shapes of kernels that normalise rows: `rows`, `width`.
pub(super) const ROWS: &[&[u32]] = &[&[9, 333], &[13, 31], &[3, 1025], &[1, 1], &[5, 64]];

/// Small shapes of matrix products: `m`, `n`, `k`. Between them the edges fall into every part of the default tiles, the
/// first and the last fragment too, in all three directions.
pub(super) const PRODUCTS: &[&[u32]] =
    &[&[65, 61, 37], &[64, 64, 64], &[1, 1, 1], &[33, 17, 5], &[23, 130, 26], &[55, 40, 31]];

/// Small lengths of vectors. The others than 4096 end within each of the four items of the default schedule.
pub(super) const LENGTHS: &[&[u32]] = &[&[4095], &[4096], &[1], &[300], &[1600]];

/// Of kernels that map elements one by one.
pub(super) fn elementwise() -> Vec<Schedule> {
    vec![
        flat(256, 4),
        flat(64, 1),
        flat(128, 2),
        flat(128, 8),
        flat(256, 1),
        flat(256, 2),
        flat(512, 4),
        flat(1024, 1),
        flat(1024, 4),
        // Neither the block nor the item count is a power of two.
        flat(96, 3),
        flat(224, 5),
        flat(32, 16),
    ]
}

/// Of the same in hand-written PTX, which takes these blocks.
pub(super) fn written_elementwise() -> Vec<Schedule> {
    vec![flat(256, 4), flat(64, 1), flat(96, 3), flat(1024, 1)]
}

/// Of products of a quantised matrix and a vector: whole warps share a row, the default first.
pub(super) fn matvec() -> Vec<Schedule> {
    vec![
        rows(64, 2, 2),
        rows(32, 1, 1),
        rows(32, 8, 4),
        rows(64, 1, 2),
        rows(32, 4, 2),
        rows(64, 4, 1),
        rows(128, 1, 1),
        rows(96, 2, 1),
        rows(256, 1, 1),
        rows(32, 3, 3),
        rows(128, 4, 1),
        rows(64, 2, 1),
    ]
}

/// As [`matvec`], with another default.
pub(super) fn matvec_with_default(index: usize) -> Vec<Schedule> {
    let mut schedules = matvec();
    schedules.swap(0, index);
    schedules
}

/// A tensor of singles in, one out, and a uniform block of words.
pub(super) fn one_to_one(uniform_bytes: u32) -> Vec<Parameter> {
    vec![
        Parameter::buffer("input", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("output", 1, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: uniform_bytes, align: 4 },
    ]
}

/// A product in single precision of two matrices of `element`, and its three sizes.
pub(super) fn product(element: Element) -> Vec<Parameter> {
    vec![
        Parameter::buffer("a", 0, element, Access::StorageRead),
        Parameter::buffer("b", 1, element, Access::StorageRead),
        Parameter::buffer("c", 2, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 12, align: 4 },
    ]
}
