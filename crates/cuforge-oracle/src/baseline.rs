//! The number of the second opinion: every operation rounded to one format, as a plain kernel would do it.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::format::Format;
use crate::real::{Real, Summation, order};

/// A format as a type, so that a literal knows how it is rounded.
pub(crate) trait Precision: Copy + Debug {
    const FORMAT: Format;
}

macro_rules! precisions {
    ($($name:ident),*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;
        impl Precision for $name {
            const FORMAT: Format = Format::$name;
        }
    )* };
}
precisions!(F16, Bf16, F32, F64);

/// A value of the format: the result of operations in source order, each rounded to nearest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded<P>(f64, PhantomData<P>);

impl<P: Precision> Rounded<P> {
    pub(crate) fn new(value: f64) -> Self {
        // A conversion to `f32` is one instruction, the general case some ten.
        let rounded = if P::FORMAT == Format::F32 { f64::from(value as f32) } else { P::FORMAT.round(value) };
        Self(rounded, PhantomData)
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident $sign:tt),*) => { $(
        impl<P: Precision> $operator for Rounded<P> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self::new(self.0 $sign other.0)
            }
        }
    )* };
}
operators!(Add add +, Sub sub -, Mul mul *, Div div /);

impl<P: Precision> Neg for Rounded<P> {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0, PhantomData)
    }
}

impl<P: Precision> Real for Rounded<P> {
    fn constant(value: f64) -> Self {
        Self::new(value)
    }
    fn value(self) -> f64 {
        self.0
    }
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self::new(self.0.mul_add(factor.0, addend.0))
    }
    fn abs(self) -> Self {
        Self(self.0.abs(), PhantomData)
    }
    fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0), PhantomData)
    }
    fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0), PhantomData)
    }
    fn sqrt(self) -> Self {
        Self::new(self.0.sqrt())
    }
    fn rsqrt(self) -> Self {
        Self::new(1.0 / self.0.sqrt())
    }
    fn exp(self) -> Self {
        Self::new(self.0.exp())
    }
    fn exp2(self) -> Self {
        Self::new(self.0.exp2())
    }
    fn ln(self) -> Self {
        Self::new(self.0.ln())
    }
    fn log2(self) -> Self {
        Self::new(self.0.log2())
    }
    fn sin(self) -> Self {
        Self::new(self.0.sin())
    }
    fn cos(self) -> Self {
        Self::new(self.0.cos())
    }
    fn tanh(self) -> Self {
        Self::new(self.0.tanh())
    }
    fn sum_in(_: Summation, terms: impl IntoIterator<Item = Self>) -> Self {
        terms.into_iter().fold(Self::new(0.0), |sum, term| sum + term)
    }
    fn dot_in(_: Summation, pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        pairs.into_iter().fold(Self::new(0.0), |sum, (left, right)| left.mul_add(right, sum))
    }
    fn round_to(self, format: Format) -> Self {
        Self::new(format.round(self.0))
    }
    fn either(self, _: Self) -> Self {
        self
    }
    fn compare(self, other: Self) -> Ordering {
        order(self.0, other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_the_baseline_are_those_of_the_native_type() {
        let terms = || (0..5000).map(|i| 1.0 / (1.0 + f64::from(i as u16)));
        let native = terms().fold(0.0f32, |sum, term| sum + term as f32);
        let baseline = Rounded::<F32>::sum(terms().map(Rounded::new));
        assert_eq!(baseline.value(), f64::from(native));
        let half = Rounded::<F16>::sum(terms().map(Rounded::new));
        assert!((half.value() - baseline.value()).abs() > 0.1, "half precision sums stagnate");
    }
}
