//! Error bounds of sums and dot products, whatever the order of their additions.

use super::{INFLATION, REFERENCE_ROUNDOFF, Tracked, product_error, product_is_exact};
use crate::format::{exponent_of, power_of_two};
use crate::real::Summation;

/// What a reduction needs to know of its terms.
struct Terms<'t> {
    sum: Tracked<'t>,
    /// Terms that are not exactly zero: adding zero never rounds.
    count: u64,
    /// Sum of the finite terms' magnitudes, errors included.
    magnitude: f64,
    /// Whether a term is infinite.
    infinite: bool,
    /// Whether all terms are exact multiples of `2^lowest_bit`.
    exact: bool,
    lowest_bit: i32,
}

impl<'t> Terms<'t> {
    const fn new() -> Self {
        Self {
            sum: Tracked { value: 0.0, error: 0.0, tracker: None },
            count: 0,
            magnitude: 0.0,
            infinite: false,
            exact: true,
            lowest_bit: i32::MAX,
        }
    }

    fn push(&mut self, value: f64, error: f64, largest: f64, exact: bool) {
        if value == 0.0 && error == 0.0 {
            return;
        }
        self.count += 1;
        self.sum.value += value;
        self.sum.error += error;
        if value.is_infinite() {
            self.infinite = true;
        } else {
            self.magnitude += largest;
        }
        self.exact &= exact && error == 0.0;
        if self.exact {
            let trailing = value.to_bits().trailing_zeros().min(52) as i32;
            self.lowest_bit = self.lowest_bit.min(exponent_of(value) - 52 + trailing);
        }
    }

    /// The sum with the bound that `roundings` additions per term allow.
    fn finish(self, summation: Summation, multiplied: u64) -> Tracked<'t> {
        let sum = self.sum;
        let model = sum.model();
        let format = model.format();
        if self.infinite || sum.value.is_nan() {
            // Infinities of one sign swallow all finite terms, unless those can overflow the other way first; a NaN, or
            // infinities of both signs, make a NaN in every order.
            let decided = sum.value.is_nan() || self.magnitude < format.overflow_threshold();
            return if decided && sum.error.is_finite() { sum.exactly() } else { sum.undecidable() };
        }
        if !self.magnitude.is_finite() {
            return sum.undecidable();
        }
        let smallest_unit = if model.flush_to_zero() {
            format.min_exponent()
        } else {
            format.min_exponent() - format.precision_bits() + 1
        };
        let fits = self.exact
            && self.lowest_bit >= smallest_unit
            && self.magnitude < power_of_two(self.lowest_bit.saturating_add(format.precision_bits()));
        if self.count == 0 || fits {
            // All partial sums are multiples of one unit and fit the significand: no addition can round.
            return sum.exactly();
        }
        let additions = self.count.saturating_sub(1);
        let depth = match summation {
            Summation::AnyOrder => additions,
            Summation::Depth(depth) => depth.min(additions),
            Summation::TensorCore => self.count.saturating_mul(6),
        } + multiplied;
        let n = self.count as f64;
        let device = gamma(depth, format.unit_roundoff()) * self.magnitude;
        let reference = gamma(additions + multiplied + 1, REFERENCE_ROUNDOFF) * self.magnitude;
        // Products, and fused sums, may round among the subnormals; flushing loses whole subnormal results.
        let underflow = if model.flush_to_zero() {
            n * (1.0 + multiplied as f64) * format.min_normal()
        } else if multiplied > 0 {
            n * format.min_subnormal()
        } else {
            0.0
        };
        // Forming the bound is itself a sum of as many terms.
        let inflation = INFLATION * (1.0 + 2.0 * n * REFERENCE_ROUNDOFF);
        let error = (sum.error + device + reference + underflow) * inflation;
        if self.magnitude + error >= format.overflow_threshold() {
            // Some order of the additions may overflow on the way.
            return sum.undecidable();
        }
        Tracked { error, ..sum }
    }
}

/// `k` roundings: `(1 + u)^k - 1 <= k u / (1 - k u)`, infinite where that says nothing.
fn gamma(k: u64, unit_roundoff: f64) -> f64 {
    let total = k as f64 * unit_roundoff;
    if total < 1.0 { total / (1.0 - total) } else { f64::INFINITY }
}

pub(super) fn sum<'t>(summation: Summation, terms: impl IntoIterator<Item = Tracked<'t>>) -> Tracked<'t> {
    let mut all = Terms::new();
    for term in owned(terms.into_iter().map(|term| (term, term))) {
        all.sum = all.sum.joined(term.0);
        let term = term.0.operand();
        all.push(term.value, term.error, term.value.abs() + term.error, true);
    }
    all.finish(summation, 0)
}

pub(super) fn dot<'t>(
    summation: Summation,
    pairs: impl IntoIterator<Item = (Tracked<'t>, Tracked<'t>)>,
) -> Tracked<'t> {
    let mut all = Terms::new();
    for (left, right) in owned(pairs.into_iter()) {
        all.sum = all.sum.joined(left);
        let (left, right) = (left.operand(), right.operand());
        let value = left.value * right.value;
        // A product beyond the reference's own range is rounded to infinity, or not at all where it is fused.
        let beyond = value.is_infinite() && left.value.is_finite() && right.value.is_finite();
        let error = if beyond { f64::INFINITY } else { product_error(left, right) };
        let exact = left.error == 0.0 && right.error == 0.0 && product_is_exact(left.value, right.value);
        all.push(value, error, value.abs() + error, exact);
    }
    all.finish(summation, 1)
}

/// The pairs with literals joined to the tracker of the others. Pairs of literals alone wait for the first that has
/// one, since its format says how they are rounded.
fn owned<'t>(
    mut pairs: impl Iterator<Item = (Tracked<'t>, Tracked<'t>)>,
) -> impl Iterator<Item = (Tracked<'t>, Tracked<'t>)> {
    let mut waiting = Vec::new();
    let mut owner = None;
    for (left, right) in pairs.by_ref() {
        waiting.push((left, right));
        owner = [left, right].into_iter().find(|number| number.tracker.is_some());
        if owner.is_some() {
            break;
        }
    }
    waiting.into_iter().chain(pairs).map(move |(left, right)| match owner {
        Some(owner) => (left.joined(owner), right.joined(owner)),
        None => (left, right),
    })
}
