//! Which element of a matrix lies in which register of which lane.
//!
//! The layouts are those that the PTX manual gives for `mma` ("Matrix Fragments"): a group of four lanes for each row or
//! column of eight, registers tile by tile. For `wmma` the manual leaves them open; the same tiling continues there, and
//! where a fragment has more registers than the matrix has elements, tiles repeat, as on a device.

use super::element::Element;

/// What a matrix is in `D = A * B + C`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// `M x K`
    A,
    /// `K x N`
    B,
    /// `M x N`: C or D.
    Accumulator,
}

/// Extents of a product: A is `m x k`, B is `k x n`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shape {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
}

impl Shape {
    /// The shape of that name: `m16n8k16`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let (m, n, k) = (m.parse().ok()?, n.parse().ok()?, k.parse().ok()?);
        Some(Self { m, n, k })
    }
}

/// A matrix spread over the registers of a warp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fragment {
    pub(crate) role: Role,
    pub(crate) element: Element,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    /// Registers of each lane.
    pub(crate) registers: u32,
}

impl Fragment {
    /// The matrix of a product in so many registers; absent if they cannot hold it evenly.
    pub(crate) fn new(role: Role, element: Element, shape: Shape, registers: usize) -> Option<Self> {
        let (rows, columns) = match role {
            Role::A => (shape.m, shape.k),
            Role::B => (shape.k, shape.n),
            Role::Accumulator => (shape.m, shape.n),
        };
        let fragment = Self { role, element, rows, columns, registers: u32::try_from(registers).ok()? };
        let distinct = fragment.distinct();
        let whole = distinct > 0 && distinct * 32 * element.per_register() == rows * columns;
        (whole && fragment.registers > 0 && fragment.registers.is_multiple_of(distinct)).then_some(fragment)
    }

    /// Registers of a lane that hold different elements.
    fn distinct(&self) -> u32 {
        self.rows * self.columns / (32 * self.element.per_register())
    }

    /// Bytes of a lane's registers.
    pub(crate) fn lane_bytes(&self) -> u32 {
        self.registers * self.element.register_bytes()
    }

    /// Elements of the matrix.
    pub(crate) fn len(&self) -> usize {
        (self.rows * self.columns) as usize
    }

    /// Row and column of an element: part of a register of a lane.
    #[inline]
    pub(crate) fn place(&self, lane: u32, register: u32, part: u32) -> (u32, u32) {
        let (group, member) = (lane / 4, lane % 4);
        let each = self.element.per_register();
        let tile = register % self.distinct();
        match self.role {
            Role::A => {
                let tall = self.rows / 8;
                (group + 8 * (tile % tall), member * each + part + 4 * each * (tile / tall))
            }
            Role::B => {
                let tall = (self.rows / (4 * each)).max(1);
                (member * each + part + 4 * each * (tile % tall), group + 8 * (tile / tall))
            }
            Role::Accumulator => {
                let tall = self.rows / 8;
                let index = tile * each + part;
                let pair = index / 2;
                (group + 8 * (pair % tall), member * 2 + index % 2 + 8 * (pair / tall))
            }
        }
    }

    /// Whether the parts of a register lie next to each other in a matrix stored by rows, or else by columns.
    pub(crate) fn is_contiguous(&self, by_rows: bool) -> bool {
        self.element.per_register() == 1 || by_rows != (self.role == Role::B)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(role: Role, element: Element, shape: &str, registers: usize) -> Fragment {
        Fragment::new(role, element, Shape::from_name(shape).unwrap(), registers).unwrap()
    }

    #[test]
    fn every_element_has_as_many_places_as_there_are_repetitions() {
        let cases = [
            (Role::A, Element::F16, "m16n8k16", 4),
            (Role::B, Element::F16, "m16n8k16", 2),
            (Role::Accumulator, Element::F32, "m16n8k16", 4),
            (Role::Accumulator, Element::F16, "m16n8k16", 2),
            (Role::A, Element::F16, "m16n16k16", 8),
            (Role::B, Element::F16, "m32n8k16", 8),
            (Role::A, Element::Bf16, "m8n32k16", 2),
            (Role::B, Element::Bf16, "m8n32k16", 8),
            (Role::Accumulator, Element::F32, "m8n32k16", 8),
            (Role::A, Element::Tf32, "m16n16k8", 4),
            (Role::B, Element::Tf32, "m16n8k4", 1),
            (Role::A, Element::F64, "m16n8k16", 8),
            (Role::B, Element::F64, "m8n8k4", 1),
            (Role::Accumulator, Element::F64, "m8n8k4", 2),
            (Role::A, Element::S8, "m16n8k32", 4),
            (Role::B, Element::U8, "m32n8k16", 1),
            (Role::A, Element::S4, "m8n8k32", 1),
            (Role::B, Element::B1, "m16n8k256", 2),
        ];
        for (role, element, shape, registers) in cases {
            let f = fragment(role, element, shape, registers);
            let mut seen = vec![0u32; f.len()];
            for lane in 0..32 {
                for register in 0..f.registers {
                    for part in 0..element.per_register() {
                        let (row, column) = f.place(lane, register, part);
                        seen[(row * f.columns + column) as usize] += 1;
                    }
                }
            }
            let times = f.registers / f.distinct();
            assert!(seen.iter().all(|count| *count == times), "{role:?} {element:?} {shape}: {seen:?}");
        }
    }

    #[test]
    fn places_are_those_of_the_manual() {
        let a = fragment(Role::A, Element::F16, "m16n8k16", 4);
        assert_eq!(a.place(5, 0, 1), (1, 3));
        assert_eq!(a.place(5, 1, 0), (9, 2));
        assert_eq!(a.place(5, 2, 0), (1, 10));
        let b = fragment(Role::B, Element::S8, "m16n8k32", 2);
        assert_eq!(b.place(6, 1, 3), (27, 1));
        let c = fragment(Role::Accumulator, Element::F32, "m16n8k8", 4);
        assert_eq!((c.place(31, 1, 0), c.place(31, 2, 0)), ((7, 7), (15, 6)));
    }

    #[test]
    fn registers_that_cannot_hold_the_matrix_are_refused() {
        let shape = Shape { m: 16, n: 8, k: 16 };
        assert_eq!(Fragment::new(Role::A, Element::F16, shape, 3), None);
        assert_eq!(Fragment::new(Role::A, Element::F16, shape, 0), None);
        assert_eq!(Shape::from_name("m16k8n4"), None);
    }
}
