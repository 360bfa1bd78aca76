//! Matrix instructions of a warp in decoded form.

use crate::place::{Access, Load, R32, Reg, Store};
use crate::tensor::fragment::Fragment;
use crate::tensor::multiply::Product;

/// A fragment and the registers that hold it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) fragment: Fragment,
    pub(crate) registers: Vec<Reg>,
}

/// `mma.sync` and `wmma.mma`
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    pub(crate) product: Product,
    pub(crate) d: Held,
    pub(crate) a: Held,
    pub(crate) b: Held,
    pub(crate) c: Held,
    pub(crate) members: R32,
}

/// One register's worth of a fragment on its way from memory: loads of its parts, and the register they are packed into
/// if there are several.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    pub(crate) loads: Vec<Load>,
    pub(crate) packed: Option<(Reg, u32)>,
}

/// `wmma.load`
#[derive(Clone, Debug)]
pub(crate) struct FragmentLoad {
    pub(crate) fragment: Fragment,
    /// Whether the matrix is stored row by row.
    pub(crate) by_rows: bool,
    /// Where the matrix starts.
    pub(crate) access: Access,
    /// Elements from one row (or column) to the next.
    pub(crate) stride: R32,
    pub(crate) pieces: Vec<Gathered>,
    pub(crate) members: R32,
}

/// One register's worth of a fragment on its way to memory: the parts it is split into first, if several.
#[derive(Clone, Debug)]
pub(crate) struct Scattered {
    pub(crate) split: Option<(Reg, u32, Vec<R32>)>,
    pub(crate) stores: Vec<Store>,
}

/// `wmma.store`
#[derive(Clone, Debug)]
pub(crate) struct FragmentStore {
    pub(crate) fragment: Fragment,
    pub(crate) by_rows: bool,
    pub(crate) access: Access,
    pub(crate) stride: R32,
    pub(crate) pieces: Vec<Scattered>,
    pub(crate) members: R32,
}

/// `ldmatrix`: matrices of 8 x 8 elements of 16 bits, each row at an address that a lane gives.
#[derive(Clone, Debug)]
pub(crate) struct RowsLoad {
    /// A row: 16 bytes.
    pub(crate) access: Access,
    pub(crate) transposed: bool,
    /// One for each matrix.
    pub(crate) pieces: Vec<Gathered>,
    pub(crate) members: R32,
}

/// `stmatrix`
#[derive(Clone, Debug)]
pub(crate) struct RowsStore {
    pub(crate) access: Access,
    pub(crate) transposed: bool,
    pub(crate) pieces: Vec<Scattered>,
    pub(crate) members: R32,
}

/// `movmatrix`
#[derive(Clone, Debug)]
pub(crate) struct Transpose {
    pub(crate) d: R32,
    pub(crate) a: R32,
    pub(crate) members: R32,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) enum Tile {
    Multiply(Multiply),
    FragmentLoad(FragmentLoad),
    FragmentStore(FragmentStore),
    RowsLoad(RowsLoad),
    RowsStore(RowsStore),
    Transpose(Transpose),
}

impl Tile {
    /// Whether it writes to memory.
    pub(crate) fn stores(&self) -> bool {
        matches!(self, Self::FragmentStore(_) | Self::RowsStore(_))
    }

    /// The register with the lanes that take part, which must be all.
    pub(crate) fn members(&self) -> R32 {
        match self {
            Self::Multiply(op) => op.members,
            Self::FragmentLoad(op) => op.members,
            Self::FragmentStore(op) => op.members,
            Self::RowsLoad(op) => op.members,
            Self::RowsStore(op) => op.members,
            Self::Transpose(op) => op.members,
        }
    }
}
