//! Copies and fills: what they are made of, whether they can be, and doing them.

use std::sync::Arc;

use crate::codes::{Answer, Code};
use crate::physical::Window;
use crate::space::Space;

/// One end of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    /// Pageable memory of the program.
    Program(usize),
    /// Memory that the driver knows, by its address.
    Memory(u64),
    /// Bytes that were taken from the program when the copy was asked for.
    Kept(Arc<[u8]>),
}

/// One end of a copy with its shape.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) side: Side,
    /// Bytes from a row to the next.
    pub(crate) pitch: usize,
    /// Bytes from a slice to the next.
    pub(crate) slice: usize,
}

impl Face {
    /// Bytes in a row.
    pub(crate) fn flat(side: Side) -> Self {
        Self { side, pitch: 0, slice: 0 }
    }
}

/// A copy of a box of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) to: Face,
    pub(crate) from: Face,
    /// Bytes in a row.
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl Copy {
    /// A copy of bytes in a row.
    pub(crate) fn flat(to: Side, from: Side, bytes: usize) -> Self {
        Self { to: Face::flat(to), from: Face::flat(from), width: bytes, height: 1, depth: 1 }
    }

    /// Whether the program's pageable memory is one of its ends.
    pub(crate) fn is_pageable(&self) -> bool {
        matches!(self.to.side, Side::Program(_)) || matches!(self.from.side, Side::Program(_))
    }

    /// Whether an executable graph can take the other in its place: the kinds of memory are the same, and so is the
    /// number of dimensions.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let same = |a: &Face, b: &Face| {
            matches!((&a.side, &b.side), (Side::Memory(_), Side::Memory(_)))
                || !matches!(a.side, Side::Memory(_)) && !matches!(b.side, Side::Memory(_))
        };
        let flat = |copy: &Self| copy.height == 1 && copy.depth == 1;
        same(&self.to, &other.to) && same(&self.from, &other.from) && flat(self) == flat(other)
    }

    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = (0..self.depth).flat_map(|z| (0..self.height).map(move |y| (z, y)));
        rows.filter(|_| self.width > 0)
    }
}

/// A fill of a rectangle.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    /// Bytes from a row to the next.
    pub(crate) pitch: u64,
    pub(crate) value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub(crate) element: u32,
    /// Elements in a row.
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl Fill {
    fn row(&self, y: u64) -> Answer<(u64, u64)> {
        let address = y.checked_mul(self.pitch).and_then(|offset| self.address.checked_add(offset));
        let bytes = self.width.checked_mul(u64::from(self.element));
        address.zip(bytes).ok_or(Code::INVALID_VALUE)
    }
}

/// One row's end.
enum Row<'a> {
    Program(usize),
    Memory(Vec<Window>),
    Kept(&'a [u8]),
}

impl Space {
    /// An end that the program gives as a host pointer: pinned and managed memory is known by it.
    pub(crate) fn host_side(&self, pointer: usize) -> Side {
        match self.around(pointer as u64) {
            Some(range) if range.owner.is_seen_by_host() => Side::Memory(pointer as u64),
            _ => Side::Program(pointer),
        }
    }

    /// An end that may be either, as addresses are unified.
    pub(crate) fn either_side(&self, address: u64) -> Side {
        let memory = self.around(address).is_some() || self.is_promised(address, 1);
        if memory { Side::Memory(address) } else { Side::Program(address as usize) }
    }

    /// Whether every byte of a copy can be reached; of the program's own memory only null is known to be wrong.
    pub(crate) fn check_copy(&self, copy: &Copy) -> Answer {
        for face in [&copy.to, &copy.from] {
            let enough = copy.height <= 1 && copy.depth <= 1 || face.pitch >= copy.width;
            if !enough {
                return Err(Code::INVALID_VALUE);
            }
        }
        for (z, y) in copy.rows() {
            for face in [&copy.to, &copy.from] {
                let offset = z.wrapping_mul(face.slice).wrapping_add(y.wrapping_mul(face.pitch)) as u64;
                if let Side::Memory(at) = &face.side
                    && self.is_promised(at.wrapping_add(offset), copy.width as u64)
                {
                    continue;
                }
                if let Row::Program(0) = self.row(face, z, y, copy.width)? {
                    return Err(Code::INVALID_VALUE);
                }
            }
        }
        Ok(())
    }

    /// Carries a copy out.
    pub(crate) fn copy(&self, copy: &Copy) -> Answer {
        for (z, y) in copy.rows() {
            let to = self.row(&copy.to, z, y, copy.width)?;
            match (self.row(&copy.from, z, y, copy.width)?, to) {
                (_, Row::Kept(_)) => return Err(Code::INVALID_VALUE),
                (Row::Program(from), Row::Program(to)) => {
                    let through = Window::whole(
                        crate::physical::Physical::fresh(copy.width as u64, false)?,
                        copy.width,
                    );
                    through.copy_in(from);
                    through.copy_out(to);
                }
                (Row::Program(from), Row::Memory(pieces)) => {
                    each_piece(&pieces, |piece, at| piece.copy_in(from + at));
                }
                (Row::Memory(pieces), Row::Program(to)) => {
                    each_piece(&pieces, |piece, at| piece.copy_out(to + at));
                }
                (Row::Kept(bytes), Row::Memory(pieces)) => {
                    each_piece(&pieces, |piece, at| piece.store(0, &bytes[at..at + piece.bytes]));
                }
                (Row::Kept(bytes), Row::Program(to)) => {
                    let through = Window::whole(
                        crate::physical::Physical::fresh(copy.width as u64, false)?,
                        copy.width,
                    );
                    through.store(0, bytes);
                    through.copy_out(to);
                }
                (Row::Memory(from), Row::Memory(to)) => between(&from, &to),
            }
        }
        Ok(())
    }

    /// Whether every byte of a fill can be reached.
    pub(crate) fn check_fill(&self, fill: &Fill) -> Answer {
        let element = u64::from(fill.element);
        let aligned = fill.address.is_multiple_of(element)
            && (fill.height <= 1
                || fill.pitch.is_multiple_of(element) && fill.pitch >= fill.width.saturating_mul(element));
        if !aligned {
            return Err(Code::INVALID_VALUE);
        }
        for y in 0..fill.height {
            let (address, bytes) = fill.row(y)?;
            if !self.is_promised(address, bytes) {
                self.pieces(address, bytes)?;
            }
        }
        Ok(())
    }

    /// Carries a fill out.
    pub(crate) fn fill(&self, fill: &Fill) -> Answer {
        let pattern = &fill.value.to_le_bytes()[..fill.element as usize];
        for y in 0..fill.height {
            let (address, bytes) = fill.row(y)?;
            self.pieces(address, bytes)?.iter().for_each(|piece| piece.fill(pattern));
        }
        Ok(())
    }

    /// Bytes of the program as they are now.
    pub(crate) fn keep(&self, from: usize, bytes: usize) -> Answer<Arc<[u8]>> {
        let through = Window::whole(crate::physical::Physical::fresh(bytes as u64, false)?, bytes);
        through.copy_in(from);
        let mut kept = vec![0; bytes];
        through.load(0, &mut kept);
        Ok(kept.into())
    }

    /// Reads a word of memory that the driver knows.
    pub(crate) fn load(&self, address: u64, bytes: usize) -> Answer<u64> {
        let mut value = [0; 8];
        let pieces = self.pieces(address, bytes as u64)?;
        each_piece(&pieces, |piece, at| piece.load(0, &mut value[at..at + piece.bytes]));
        Ok(u64::from_le_bytes(value))
    }

    /// Writes a word of memory that the driver knows.
    pub(crate) fn store(&self, address: u64, bytes: &[u8]) -> Answer {
        let pieces = self.pieces(address, bytes.len() as u64)?;
        each_piece(&pieces, |piece, at| piece.store(0, &bytes[at..at + piece.bytes]));
        Ok(())
    }

    fn row<'a>(&self, face: &'a Face, z: usize, y: usize, width: usize) -> Answer<Row<'a>> {
        let offset = z.checked_mul(face.slice).zip(y.checked_mul(face.pitch));
        let offset = offset.and_then(|(z, y)| z.checked_add(y)).ok_or(Code::INVALID_VALUE)?;
        Ok(match &face.side {
            Side::Program(at) => Row::Program(at.checked_add(offset).ok_or(Code::INVALID_VALUE)?),
            Side::Memory(at) => {
                let at = at.checked_add(offset as u64).ok_or(Code::INVALID_VALUE)?;
                Row::Memory(self.pieces(at, width as u64)?)
            }
            Side::Kept(bytes) => Row::Kept(bytes.get(offset..offset + width).ok_or(Code::INVALID_VALUE)?),
        })
    }
}

/// Each piece with the bytes that lie before it.
fn each_piece(pieces: &[Window], mut work: impl FnMut(&Window, usize)) {
    let mut at = 0;
    for piece in pieces {
        work(piece, at);
        at += piece.bytes;
    }
}

/// Copies as many bytes from pieces to others.
fn between(from: &[Window], to: &[Window]) {
    let (mut source, mut target) = (from.iter().cloned(), to.iter().cloned());
    let (mut a, mut b) = (source.next(), target.next());
    while let (Some(from), Some(to)) = (&a, &b) {
        let count = from.bytes.min(to.bytes);
        to.part(0, count).copy_from(&from.part(0, count));
        let rest = |window: &Window| (window.bytes > count).then(|| window.part(count, window.bytes - count));
        let (next_a, next_b) = (rest(from), rest(to));
        a = next_a.or_else(|| source.next());
        b = next_b.or_else(|| target.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical::Physical;
    use crate::space::{Owner, fresh_range};

    fn space() -> Space {
        let space = Space::default();
        // Two mapped neighbours and a block of its own.
        for (base, bytes, owner) in [
            (0x1_0000, 0x1000, Owner::Mapped),
            (0x1_1000, 0x1000, Owner::Mapped),
            (0x9_0000, 0x2000, Owner::Device),
        ] {
            let physical = Physical::fresh(bytes, false).unwrap();
            space.add(fresh_range(base, bytes, physical, owner, 1)).unwrap();
        }
        space
    }

    #[test]
    fn a_box_of_bytes_goes_in_across_a_seam_and_comes_out_as_it_was() {
        let space = space();
        let bytes: Vec<u8> = (0..64).collect();
        // Rows of 8 bytes: 2 slices of 3 rows, the second row lies across the seam of the mapped ranges.
        let place = Face { side: Side::Memory(0x1_0fe4), pitch: 24, slice: 100 };
        let outside = |at: usize| Face { side: Side::Program(at), pitch: 8, slice: 24 };
        let copy = |to, from| Copy { to, from, width: 8, height: 3, depth: 2 };
        let inward = copy(place.clone(), outside(bytes.as_ptr().expose_provenance()));
        space.check_copy(&inward).unwrap();
        space.copy(&inward).unwrap();
        assert_eq!(
            space.load(0x1_0fe4 + 100 + 24, 8),
            Ok(u64::from_le_bytes([32, 33, 34, 35, 36, 37, 38, 39]))
        );
        let mut back = [0u8; 48];
        space.copy(&copy(outside(back.as_mut_ptr().expose_provenance()), place.clone())).unwrap();
        assert_eq!(back[..], bytes[..48]);
        let other = Face { side: Side::Memory(0x9_0001), pitch: 8, slice: 24 };
        space.copy(&copy(other, place)).unwrap();
        assert_eq!(space.load(0x9_0001 + 8, 4), Ok(u64::from(u32::from_le_bytes([8, 9, 10, 11]))));
    }

    #[test]
    fn what_leaves_its_memory_or_has_no_room_between_rows_is_refused() {
        let space = space();
        let flat = |address| Copy::flat(Side::Memory(address), Side::Kept(vec![1; 16].into()), 16);
        assert!(space.check_copy(&flat(0x9_1ff0)).is_ok());
        for address in [0x9_1ff1, 0x8_ffff, 0, u64::MAX - 3] {
            assert_eq!(space.check_copy(&flat(address)), Err(Code::INVALID_VALUE), "{address:#x}");
        }
        let null = Copy::flat(Side::Memory(0x9_0000), Side::Program(0), 1);
        assert!(space.check_copy(&null).is_err());
        let tight = Face { side: Side::Memory(0x9_0000), pitch: 4, slice: 0 };
        let rows = Copy { to: tight.clone(), from: tight, width: 8, height: 2, depth: 1 };
        assert!(space.check_copy(&rows).is_err());
    }

    #[test]
    fn fills_touch_their_elements_alone() {
        let space = space();
        let fill = Fill { address: 0x9_0002, pitch: 16, value: 0xabcd, element: 2, width: 3, height: 2 };
        space.check_fill(&fill).unwrap();
        space.fill(&fill).unwrap();
        assert_eq!(space.load(0x9_0000, 8), Ok(0xabcd_abcd_abcd_0000));
        assert_eq!(space.load(0x9_0010, 8), Ok(0xabcd_abcd_abcd_0000));
        assert_eq!(space.load(0x9_0008, 8), Ok(0));
        for wrong in [Fill { address: 0x9_0001, ..fill.clone() }, Fill { width: 0x2000, ..fill.clone() }] {
            assert!(space.check_fill(&wrong).is_err());
        }
    }
}
