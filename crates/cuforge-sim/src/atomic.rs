//! Decoded atomics: what they do to which word.

use crate::place::{Access, R64, Reg};

/// What an atomic does to the word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomicKind {
    /// `old -> f(old, b)` on 32 bits or fewer.
    Narrow(fn(u32, u32) -> u32),
    /// `old -> f(old, b)` on 64 bits.
    Wide(fn(u64, u64) -> u64),
    /// Compare with `b`, and swap in `c`.
    Cas,
}

/// `atom` or `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) access: Access,
    pub(crate) kind: AtomicKind,
    /// The same in shared memory.
    pub(crate) shared_kind: AtomicKind,
    pub(crate) target: Option<Reg>,
    pub(crate) b: Reg,
    pub(crate) c: Option<Reg>,
    /// The new value does not depend on the old one.
    pub(crate) replaces: bool,
}

/// `atom.exch.b128` and `atom.cas.b128`
#[derive(Clone, Debug)]
pub(crate) struct PairAtomic {
    /// Two elements of 8 bytes.
    pub(crate) access: Access,
    pub(crate) target: Option<[R64; 2]>,
    /// What is put there, or what is compared with.
    pub(crate) b: [R64; 2],
    /// What is put there if it was equal.
    pub(crate) c: Option<[R64; 2]>,
}
