//! Matrix instructions of a warp: which lane holds which element, and what a multiply-accumulate gives.

pub(crate) mod dot;
pub(crate) mod element;
pub(crate) mod fragment;
pub(crate) mod multiply;
