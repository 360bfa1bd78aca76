//! Where values are: registers, predicates, and places in memory with loads from and stores to them.

/// Index of a 32-bit register (narrower ones are kept zero-extended).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct R32(pub(crate) u32);

/// Index of a 64-bit register.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct R64(pub(crate) u32);

/// Index of a predicate register.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct Pred(pub(crate) u32);

/// A register of either width.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum Reg {
    /// 32 bits or fewer.
    Narrow(R32),
    /// 64 bits.
    Wide(R64),
}

/// A predicate read plain or negated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PredSource {
    pub(crate) pred: Pred,
    pub(crate) negated: bool,
}

/// The state space of an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Space {
    Generic,
    Global,
    /// Of the own block.
    Shared,
    /// Of any block of the cluster.
    Cluster,
    Local,
    Param,
}

/// How an access orders against others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Strength {
    /// A plain access: a race if nothing orders it.
    Weak,
    /// `.volatile`, `.relaxed`, `.acquire`, `.release`, atomics: no race with others of its kind.
    Strong,
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressBase {
    /// The offset alone.
    Absolute,
    Narrow(R32),
    Wide(R64),
}

/// One memory operand with the size and manner of the access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) element_bytes: u32,
    /// Elements: 1, 2, 4 or 8.
    pub(crate) count: u32,
    pub(crate) strength: Strength,
    /// Makes known what others have published, of a scope wider than the block.
    pub(crate) acquire: bool,
    /// Publishes what came before, to a scope wider than the block.
    pub(crate) release: bool,
    /// Number of this access among the kernel's accesses to global memory, from 0.
    pub(crate) site: u32,
}

impl Access {
    /// Bytes of the whole access, which are also its alignment.
    pub(crate) fn bytes(&self) -> u32 {
        self.element_bytes * self.count
    }
}

/// Where one loaded element goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadTarget {
    /// Absent for `_`.
    pub(crate) reg: Option<Reg>,
    /// Whether an element narrower than the register is sign-extended.
    pub(crate) signed: bool,
}

/// A load of one or more elements.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) access: Access,
    pub(crate) targets: Vec<LoadTarget>,
}

/// A store of one or more elements.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) access: Access,
    pub(crate) sources: Vec<Reg>,
}
