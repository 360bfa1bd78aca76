//! Tracked numbers as the numbers of references.

use std::cmp::Ordering;

use super::functions;
use super::reduce;
use super::{
    INFLATION, REFERENCE_ROUNDOFF, Tracked, Undecided, product_error, product_is_exact, sum_is_exact,
};
use crate::format::Format;
use crate::model::Function;
use crate::real::{Real, Summation, order};

impl Real for Tracked<'_> {
    fn constant(value: f64) -> Self {
        Self { value, error: 0.0, tracker: None }
    }

    fn value(self) -> f64 {
        self.value
    }

    fn mul_add(self, factor: Self, addend: Self) -> Self {
        let (left, right) =
            (self.joined(factor).joined(addend).operand(), factor.joined(self).joined(addend).operand());
        let addend = addend.joined(left).operand();
        let product = left.value * right.value;
        let sum = Self { value: product + addend.value, ..left };
        let exact = product_is_exact(left.value, right.value)
            && sum_is_exact(product, addend.value, sum.value)
            && addend.error == 0.0;
        if exact && sum.lands(left, right) {
            return sum.exactly();
        }
        let reference = if product.is_finite() { REFERENCE_ROUNDOFF * product.abs() } else { 0.0 };
        sum.rounded(product_error(left, right) + addend.error + reference, REFERENCE_ROUNDOFF, |_| 0.0)
    }

    fn abs(self) -> Self {
        let operand = self.operand();
        Self { value: operand.value.abs(), ..operand }
    }

    fn max(self, other: Self) -> Self {
        selected(self, other, f64::max)
    }

    fn min(self, other: Self) -> Self {
        selected(self, other, f64::min)
    }

    fn sqrt(self) -> Self {
        functions::sqrt(self)
    }
    fn rsqrt(self) -> Self {
        functions::rsqrt(self)
    }
    fn exp(self) -> Self {
        functions::exp(self)
    }
    fn exp2(self) -> Self {
        functions::exp2(self)
    }
    fn ln(self) -> Self {
        functions::logarithm(self, Function::Ln)
    }
    fn log2(self) -> Self {
        functions::logarithm(self, Function::Log2)
    }
    fn sin(self) -> Self {
        functions::circular(self, Function::Sin)
    }
    fn cos(self) -> Self {
        functions::circular(self, Function::Cos)
    }
    fn tanh(self) -> Self {
        functions::tanh(self)
    }

    fn sum_in(summation: Summation, terms: impl IntoIterator<Item = Self>) -> Self {
        reduce::sum(summation, terms)
    }

    fn dot_in(summation: Summation, pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        reduce::dot(summation, pairs)
    }

    fn round_to(self, format: Format) -> Self {
        self.narrowed(format)
    }

    fn either(self, other: Self) -> Self {
        let (this, other) = (self.joined(other), other.joined(self));
        if this.value.to_bits() == other.value.to_bits() {
            return Self { error: this.error.max(other.error), ..this };
        }
        let apart = (this.value - other.value).abs() + other.error;
        let error = if apart.is_nan() { f64::INFINITY } else { this.error.max(apart * INFLATION) };
        Self { error, ..this }
    }

    fn compare(self, other: Self) -> Ordering {
        let (this, other) = (self.joined(other), other.joined(self));
        let bound = (this.error + other.error) * INFLATION;
        let nan = this.value.is_nan() || other.value.is_nan();
        let apart = (this.value - other.value).abs();
        // Equal infinities have a NaN distance and are decided by the zero bound alone.
        let open = nan || (bound > 0.0 && (apart.is_nan() || apart <= bound));
        if let (true, Some(tracker)) = (open, this.tracker) {
            tracker.record(Undecided { left: this.value, right: other.value, bound });
        }
        order(this.value, other.value)
    }
}

/// The larger or smaller of two: changes by no more than the operands do. A NaN loses.
fn selected<'t>(left: Tracked<'t>, right: Tracked<'t>, choose: fn(f64, f64) -> f64) -> Tracked<'t> {
    let (left, right) = (left.joined(right).operand(), right.joined(left).operand());
    let error = match (left.value.is_nan(), right.value.is_nan()) {
        (true, _) => right.error,
        (_, true) => left.error,
        _ => {
            // An operand that cannot win within its bound does not widen the result.
            let value = choose(left.value, right.value);
            let (winner, loser) = if value == left.value { (left, right) } else { (right, left) };
            let apart = (winner.value - loser.value).abs();
            if apart > (winner.error + loser.error) * INFLATION {
                winner.error
            } else {
                winner.error.max(loser.error)
            }
        }
    };
    Tracked { value: choose(left.value, right.value), error, ..left }
}
