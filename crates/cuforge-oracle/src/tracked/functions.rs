//! Error bounds of square roots, exponentials, logarithms, circular and hyperbolic functions.

use super::{REFERENCE_ROUNDOFF, Tracked};
use crate::format::Format;
use crate::model::{Function, Limit};

/// Relative error allowed to the host's own functions: glibc, musl and msvcrt state at most 2 units for these.
const HOST_FUNCTION_ROUNDOFF: f64 = 8.0 * REFERENCE_ROUNDOFF;

/// Finishes a function whose result changes by at most `propagated` over the operand's interval.
fn apply(operand: Tracked<'_>, function: Function, value: f64, propagated: f64) -> Tracked<'_> {
    apply_within(operand, f64::INFINITY, function, value, propagated)
}

/// The same, where an argument beyond `reach` behaves like one at `reach`.
fn apply_within(
    operand: Tracked<'_>,
    reach: f64,
    function: Function,
    value: f64,
    propagated: f64,
) -> Tracked<'_> {
    let (limit, format) = (operand.limit(function), operand.model().format());
    let (smallest, largest) =
        ((operand.value.abs() - operand.error).max(0.0), (operand.value.abs() + operand.error).min(reach));
    Tracked { value, ..operand }.rounded(propagated, HOST_FUNCTION_ROUNDOFF, |result| {
        limit.distance(smallest, largest, result, format)
    })
}

pub(super) fn sqrt(x: Tracked<'_>) -> Tracked<'_> {
    let x = x.operand();
    let value = x.value.sqrt();
    let root = Tracked { value, ..x };
    if x.error == 0.0 {
        let exact = value.to_bits() & ((1 << 27) - 1) == 0 && value * value == x.value;
        if x.value <= 0.0 || (exact && x.limit(Function::Sqrt) == Limit::Rounded && root.lands(x, x)) {
            // A negative operand is NaN on every device, zero is itself.
            return root.exactly();
        }
    }
    let low = x.value - x.error;
    if low < 0.0 {
        return root.undecidable();
    }
    let propagated = if x.error == 0.0 { 0.0 } else { x.error / (value + low.sqrt()) };
    apply(x, Function::Sqrt, value, propagated)
}

pub(super) fn rsqrt(x: Tracked<'_>) -> Tracked<'_> {
    let x = x.operand();
    let value = 1.0 / x.value.sqrt();
    let low = x.value - x.error;
    if x.error == 0.0 && (x.value <= 0.0 || !x.value.is_finite()) {
        return Tracked { value, ..x }.exactly();
    }
    if low <= 0.0 {
        return Tracked { value, ..x }.undecidable();
    }
    // 1/sqrt is convex and decreasing: the change is largest towards zero. The difference is formed without
    // cancellation: (sqrt(x) - sqrt(low)) / (sqrt(x) sqrt(low)).
    let (root, low_root) = (x.value.sqrt(), low.sqrt());
    let propagated = if x.error == 0.0 { 0.0 } else { x.error / (root + low_root) / (root * low_root) };
    apply(x, Function::Rsqrt, value, propagated)
}

pub(super) fn exp(x: Tracked<'_>) -> Tracked<'_> {
    exponential(x, Function::Exp, x.value.exp(), x.operand().error)
}

pub(super) fn exp2(x: Tracked<'_>) -> Tracked<'_> {
    exponential(x, Function::Exp2, x.value.exp2(), x.operand().error * std::f64::consts::LN_2)
}

fn exponential<'t>(x: Tracked<'t>, function: Function, value: f64, shift: f64) -> Tracked<'t> {
    let x = x.operand();
    if x.error == 0.0 && (x.value.is_infinite() || x.value == 0.0) {
        return Tracked { value, ..x }.exactly();
    }
    let format = x.model().format();
    if value.is_infinite() {
        // Far beyond the range of every format but the reference's own.
        let result = Tracked { value, ..x };
        return if format != Format::F64 && shift < 1.0 { result.exactly() } else { result.undecidable() };
    }
    // Once the result underflows, a limit that grows with the argument grows no further.
    let reach = 2.0 * format.min_subnormal().ln().abs();
    apply_within(x, reach, function, value, value * shift.exp_m1())
}

pub(super) fn logarithm(x: Tracked<'_>, function: Function) -> Tracked<'_> {
    let x = x.operand();
    let (value, per_nat) = match function {
        Function::Log2 => (x.value.log2(), std::f64::consts::LOG2_E),
        _ => (x.value.ln(), 1.0),
    };
    if x.error == 0.0 && (x.value <= 0.0 || x.value == 1.0 || x.value.is_infinite()) {
        return match x.limit(function) {
            // An absolute limit near one allows a result that is not zero there.
            Limit::AbsoluteNearOne { .. } if x.value == 1.0 => apply(x, function, value, 0.0),
            _ => Tracked { value, ..x }.exactly(),
        };
    }
    if x.value - x.error <= 0.0 {
        return Tracked { value, ..x }.undecidable();
    }
    // The logarithm is concave: it falls further than it rises.
    apply(x, function, value, -(-x.error / x.value).ln_1p() * per_nat)
}

pub(super) fn circular(x: Tracked<'_>, function: Function) -> Tracked<'_> {
    let x = x.operand();
    let value = match function {
        Function::Cos => x.value.cos(),
        _ => x.value.sin(),
    };
    if x.value == 0.0 && x.error == 0.0 && !matches!(x.limit(function), Limit::AbsoluteWithinPi(_)) {
        return Tracked { value, ..x }.exactly();
    }
    // Both are 1-Lipschitz and bounded by 1, so they differ by at most 2.
    apply(x, function, value, x.error.min(2.0))
}

pub(super) fn tanh(x: Tracked<'_>) -> Tracked<'_> {
    let x = x.operand();
    let value = x.value.tanh();
    if x.value == 0.0 && x.error == 0.0 {
        return Tracked { value, ..x }.exactly();
    }
    // The slope 1 - tanh^2 is steepest at the point of the interval that is nearest to zero.
    let nearest = (x.value.abs() - x.error).max(0.0).tanh();
    let propagated = (x.error * (1.0 - nearest * nearest) * (1.0 + HOST_FUNCTION_ROUNDOFF)
        + if x.error > 0.0 { HOST_FUNCTION_ROUNDOFF * x.error } else { 0.0 })
    .min(2.0);
    apply(x, Function::Tanh, value, propagated)
}
