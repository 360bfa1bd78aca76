//! The pieces of the prelude that a text may ask for.

use crate::lift::Lift;

/// A piece of the prelude.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// `f16`, from CUDA's header.
    Half,
    /// The vector type with so many components.
    Vector(u8),
    /// Three components in the room of four.
    AlignedVec3,
    /// The array type.
    Array,
    /// The matrix type with so many columns and rows.
    Matrix(u8, u8),
    /// A section of the shipped text, by name.
    Section(&'static str),
    /// A scalar function of the shipped text, for `f16`.
    HalfOf(&'static str),
    /// A function of scalars, on vectors component by component.
    Lift(Lift),
    /// Constructors of a vector from shorter ones.
    Joined(u8),
    /// Some components of a vector.
    Swizzle {
        /// Components of the vector.
        from: u8,
        /// Components of the result.
        size: u8,
        /// Which they are; beyond `size`, zero.
        picked: [u8; 4],
    },
    /// A choice for each component.
    Select(u8),
    /// Whether all, or any, components are true.
    Fold {
        /// All, and not any.
        all: bool,
        /// Components.
        size: u8,
    },
    /// The inner product.
    Dot(u8),
    /// A vector from another lane of the warp.
    Lane(u8),
    /// A vector times a scalar.
    Scale(u8),
    /// A matrix times a scalar.
    MatrixScale { columns: u8, rows: u8 },
    /// A sum or a difference of matrices.
    MatrixSum { columns: u8, rows: u8, operator: &'static str },
    /// A matrix times a column.
    MatrixVector { columns: u8, rows: u8 },
    /// A row times a matrix.
    VectorMatrix { columns: u8, rows: u8 },
    /// A matrix times one with `right` columns.
    MatrixMatrix { columns: u8, rows: u8, right: u8 },
    /// A matrix of another scalar.
    MatrixTo { columns: u8, rows: u8 },
    /// The transpose.
    Transpose { columns: u8, rows: u8 },
    /// The determinant of a square matrix.
    Determinant(u8),
}
