//! A whole product of matrices: `D = A * B + C`.

use super::dot::{Parts, doubles, floats, integers};
use super::element::Element;
use super::fragment::Shape;
use crate::float::round::Rounding;
use crate::float::single::{add, canonical};

/// How the bits of `B1` matrices are multiplied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BitProduct {
    Xor,
    And,
}

/// What a multiply-accumulate computes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Product {
    pub(crate) shape: Shape,
    pub(crate) a: Element,
    pub(crate) b: Element,
    /// Type of C and D; with singles in C and halves in D or the other way round, that of D.
    pub(crate) accumulator: Element,
    /// `.satfinite` on integers.
    pub(crate) saturate: bool,
    pub(crate) bits: BitProduct,
    /// Products of floats that the device adds up at once; longer rows go through the accumulator piece by piece.
    pub(crate) at_once: usize,
}

impl Product {
    /// Whether the elements are floats of 8 bits. An H200 widens those: it takes the lower two of every four elements
    /// first, then the upper two, starts from zero, and adds C last, rounded to nearest.
    fn is_widened(&self) -> bool {
        matches!(self.a, Element::E4m3 | Element::E5m2)
    }

    /// D, by rows, from A and B by rows and C by rows, elements as bits. All have the sizes of the shape.
    pub(crate) fn compute(&self, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
        let (m, n, k) = (self.shape.m as usize, self.shape.n as usize, self.shape.k as usize);
        // Columns of B become rows.
        let turned: Vec<u64> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
        let mut d = Vec::with_capacity(m * n);
        if self.a == Element::F64 {
            for at in 0..m * n {
                let (row, column) = (&a[at / n * k..][..k], &turned[at % n * k..][..k]);
                d.push(doubles(row.iter().copied().zip(column.iter().copied()), c[at]));
            }
        } else if self.a.is_float() {
            let (left, right) = (self.parts(self.a, a, k), self.parts(self.b, &turned, k));
            for at in 0..m * n {
                let (row, column) = (&left[at / n * k..][..k], &right[at % n * k..][..k]);
                let pieces = row.chunks(self.at_once).zip(column.chunks(self.at_once));
                let types = [self.a, self.b];
                let start = if self.is_widened() { 0 } else { c[at] };
                let sum = pieces.fold(start, |c, (a, b)| floats(types, a, b, self.accumulator, c));
                d.push(if self.is_widened() { plus(sum, c[at]) } else { sum });
            }
        } else {
            for at in 0..m * n {
                let pairs = a[at / n * k..][..k].iter().zip(&turned[at % n * k..][..k]);
                let products = pairs.map(|(a, b)| self.integer_product(*a, *b));
                d.push(integers(products, c[at], self.saturate));
            }
        }
        d
    }

    /// The parts of all elements, in rows of `k`, in the order in which they are added up.
    fn parts(&self, element: Element, rows: &[u64], k: usize) -> Vec<Parts> {
        let place = |at: usize| {
            let (row, step) = (at / k * k, at % k);
            if self.is_widened() { row + step % (k / 2) / 2 * 4 + step / (k / 2) * 2 + step % 2 } else { at }
        };
        (0..rows.len()).map(|at| Parts::of(element, rows[place(at)])).collect()
    }

    fn integer_product(&self, a: u64, b: u64) -> i32 {
        match (self.a, self.bits) {
            (Element::B1, BitProduct::Xor) => (a ^ b) as i32,
            (Element::B1, BitProduct::And) => (a & b) as i32,
            _ => self.a.integer(a) * self.b.integer(b),
        }
    }
}

/// The sum of two singles.
fn plus(a: u64, b: u64) -> u64 {
    u64::from(canonical(add(f32::from_bits(a as u32), f32::from_bits(b as u32), Rounding::Nearest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_multiply_as_matrices() {
        let shape = Shape { m: 8, n: 8, k: 16 };
        let product = Product {
            shape,
            a: Element::S8,
            b: Element::U8,
            accumulator: Element::S32,
            saturate: false,
            bits: BitProduct::Xor,
            at_once: 16,
        };
        let a: Vec<u64> = (0..128).map(|i| (i * 7 % 256) as u64).collect();
        let b: Vec<u64> = (0..128).map(|i| (i * 11 % 256) as u64).collect();
        let d = product.compute(&a, &b, &[1; 64]);
        for (at, got) in d.iter().enumerate() {
            let (row, column) = (at / 8, at % 8);
            let want: i32 =
                (0..16).map(|i| i32::from(a[row * 16 + i] as u8 as i8) * (b[i * 8 + column] as i32)).sum();
            assert_eq!(*got as u32 as i32, want + 1);
        }
    }
}
