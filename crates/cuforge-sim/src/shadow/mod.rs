//! Shadow memory: who touched what, so that unordered accesses are found by rule and not by luck.

pub(crate) mod clocks;
pub(crate) mod global;
pub(crate) mod journal;
pub(crate) mod order;
pub(crate) mod own;
pub(crate) mod shared;
