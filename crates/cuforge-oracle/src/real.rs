//! The number that references are written over: `f64` gives the value, a tracked number also gives the error bound.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::format::Format;

/// How a kernel may order the additions of a sum.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Real, Summation, Tracked, Tracker};
/// let tracker = Tracker::new(ErrorModel::ieee_f32());
/// let terms = || (0..4096).map(|i| tracker.exact(f64::from(1.0f32 / (1.0 + i as f32))));
/// let tree = Tracked::sum_in(Summation::Depth(12), terms());
/// assert!(tree.error() < Tracked::sum(terms()).error() / 100.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summation {
    /// Any order and any tree: `n` terms cost `n - 1` roundings of the sum of magnitudes.
    AnyOrder,
    /// Each term passes through at most this many additions, as the schedule's reduction tree guarantees.
    ///
    /// For 1,024 terms summed by 256 threads over 4 terms each and then a tree, that is 4 + 8.
    Depth(u64),
    /// The additions of tensor cores, which cut instead of rounding. PTX leaves order and rounding open ("accumulation
    /// of the intermediate values is performed with at least single precision", PTX ISA 8.8, `wmma.mma`), so the model
    /// assumes no more than this: products are exact; a step takes any number of products and the running sum, cuts
    /// each to the format's precision *of the largest among them*, adds what is left exactly and cuts the result. A cut
    /// loses less than `2 u` of the largest; a step with `q` products that are not zero makes `q + 2` of them, which is
    /// at most `3 q`, so `n` products cost `6 n` units of roundoff whatever the steps are.
    TensorCore,
}

/// A real number in a reference.
///
/// Write a reference once, generic over this trait, with the operations the kernel performs. Run with `f64` it
/// computes the value; run with [`Tracked`](crate::Tracked) it also computes how far a correct kernel may be off, for
/// every order of additions and with or without fused multiply-adds. Exact operations (negation, absolute value,
/// maximum, minimum) add no error.
///
/// Where a kernel may compute the same thing in two ways whose rounding differs, [`Real::either`] allows both.
///
/// ```
/// use cuforge_oracle::Real;
///
/// fn softmax<R: Real>(row: &[R]) -> Vec<R> {
///     let largest = row.iter().copied().reduce(R::max).unwrap_or(R::zero());
///     let powers: Vec<R> = row.iter().map(|&x| (x - largest).exp()).collect();
///     let sum = R::sum(powers.iter().copied());
///     powers.into_iter().map(|power| power / sum).collect()
/// }
///
/// assert_eq!(softmax(&[0.0, 0.0]), [0.5, 0.5]);
/// ```
pub trait Real:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// A literal of the kernel's source. One that the arithmetic's format does not hold is rounded by the device's
    /// compiler, so it carries half a unit of error.
    fn constant(value: f64) -> Self;

    /// The value, without its bound.
    fn value(self) -> f64;

    /// `self * factor + addend` with a single rounding: an explicit `fma` in the kernel.
    ///
    /// For a kernel that writes `a * b + c`, which the compiler may fuse or not, write just that.
    #[must_use]
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// The magnitude. Exact.
    #[must_use]
    fn abs(self) -> Self;
    /// The larger of the two; a NaN loses, as with `fmaxf`. Exact.
    #[must_use]
    fn max(self, other: Self) -> Self;
    /// The smaller of the two; a NaN loses, as with `fminf`. Exact.
    #[must_use]
    fn min(self, other: Self) -> Self;

    /// The square root.
    #[must_use]
    fn sqrt(self) -> Self;
    /// `1 / sqrt(self)`: `rsqrtf`, or `1.0f / sqrtf(x)`, which compilers may turn into it.
    #[must_use]
    fn rsqrt(self) -> Self;
    /// `e^self`.
    #[must_use]
    fn exp(self) -> Self;
    /// `2^self`.
    #[must_use]
    fn exp2(self) -> Self;
    /// The natural logarithm.
    #[must_use]
    fn ln(self) -> Self;
    /// The binary logarithm.
    #[must_use]
    fn log2(self) -> Self;
    /// The sine of an angle in radians.
    #[must_use]
    fn sin(self) -> Self;
    /// The cosine of an angle in radians.
    #[must_use]
    fn cos(self) -> Self;
    /// The hyperbolic tangent.
    #[must_use]
    fn tanh(self) -> Self;

    /// The sum of `terms`, in an order that is the kernel's choice within `summation`.
    #[must_use]
    fn sum_in(summation: Summation, terms: impl IntoIterator<Item = Self>) -> Self;
    /// The sum of products of `pairs`, in an order that is the kernel's choice within `summation`, fused or not.
    #[must_use]
    fn dot_in(summation: Summation, pairs: impl IntoIterator<Item = (Self, Self)>) -> Self;

    /// Rounded to `format` (to nearest), as by storing an intermediate value in a narrower type.
    #[must_use]
    fn round_to(self, format: Format) -> Self;

    /// A result that the kernel may compute in either of two ways: the value of `self`, a bound that covers both.
    #[must_use]
    fn either(self, other: Self) -> Self;

    /// How the two compare. If the bounds cannot decide, or one is NaN, the case is at fault and verification
    /// reports it; the answer is then that of the values, with NaN above everything.
    fn compare(self, other: Self) -> Ordering;

    /// Zero.
    #[must_use]
    fn zero() -> Self {
        Self::constant(0.0)
    }
    /// One.
    #[must_use]
    fn one() -> Self {
        Self::constant(1.0)
    }
    /// `1 / self`.
    #[must_use]
    fn recip(self) -> Self {
        Self::one() / self
    }
    /// The logistic function `1 / (1 + e^-self)`, computed as it is written here.
    #[must_use]
    fn sigmoid(self) -> Self {
        Self::one() / (Self::one() + (-self).exp())
    }
    /// `self / (1 + e^-self)`, or `self` times its logistic function.
    #[must_use]
    fn silu(self) -> Self {
        (self / (Self::one() + (-self).exp())).either(self * self.sigmoid())
    }
    /// The sum of `terms` in any order.
    #[must_use]
    fn sum(terms: impl IntoIterator<Item = Self>) -> Self {
        Self::sum_in(Summation::AnyOrder, terms)
    }
    /// The sum of products of `pairs` in any order, fused or not.
    #[must_use]
    fn dot(pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        Self::dot_in(Summation::AnyOrder, pairs)
    }
    /// Whether `self < other`; undecidable as in [`Real::compare`].
    fn is_less(self, other: Self) -> bool {
        self.compare(other) == Ordering::Less
    }
}

impl Real for f64 {
    fn constant(value: f64) -> Self {
        value
    }
    fn value(self) -> f64 {
        self
    }
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    fn abs(self) -> Self {
        self.abs()
    }
    fn max(self, other: Self) -> Self {
        self.max(other)
    }
    fn min(self, other: Self) -> Self {
        self.min(other)
    }
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    fn rsqrt(self) -> Self {
        1.0 / self.sqrt()
    }
    fn exp(self) -> Self {
        self.exp()
    }
    fn exp2(self) -> Self {
        self.exp2()
    }
    fn ln(self) -> Self {
        self.ln()
    }
    fn log2(self) -> Self {
        self.log2()
    }
    fn sin(self) -> Self {
        self.sin()
    }
    fn cos(self) -> Self {
        self.cos()
    }
    fn tanh(self) -> Self {
        self.tanh()
    }
    fn sum_in(_: Summation, terms: impl IntoIterator<Item = Self>) -> Self {
        terms.into_iter().fold(0.0, |sum, term| sum + term)
    }
    fn dot_in(_: Summation, pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        pairs.into_iter().fold(0.0, |sum, (left, right)| sum + left * right)
    }
    fn round_to(self, format: Format) -> Self {
        format.round(self)
    }
    fn either(self, _: Self) -> Self {
        self
    }
    fn compare(self, other: Self) -> Ordering {
        order(self, other)
    }
}

/// Orders two values with NaN above everything and equal zeros.
pub(crate) fn order(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provided_functions_follow_their_formulas() {
        assert_eq!(0.0f64.sigmoid(), 0.5);
        assert_eq!(Real::silu(2.0f64), 2.0 / (1.0 + (-2.0f64).exp()));
        assert_eq!(f64::dot([(1.0, 2.0), (3.0, 4.0)]), 14.0);
        assert!(1.0f64.is_less(2.0) && !2.0f64.is_less(2.0));
        assert_eq!(f64::NAN.compare(1.0), Ordering::Greater);
    }
}
