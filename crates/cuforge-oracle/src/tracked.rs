//! A value with a rigorous bound on how far a device's result may lie from it.

mod functions;
mod real;
mod reduce;

use std::cell::{Cell, RefCell};
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::format::{Format, exponent_of};
use crate::model::{ErrorModel, Function, Limit};

/// A comparison in a reference that the error bounds could not decide: the case asks something that a correct kernel
/// may answer either way.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Real, Tracker};
/// let tracker = Tracker::new(ErrorModel::ieee_f32());
/// tracker.within(1.0, 0.5).is_less(tracker.exact(1.25));
/// assert_eq!(tracker.undecided().map(|u| (u.left, u.right)), Some((1.0, 1.25)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undecided {
    /// The left value.
    pub left: f64,
    /// The right value.
    pub right: f64,
    /// The sum of both error bounds.
    pub bound: f64,
}

/// The arithmetic model of one evaluation, and the comparisons in it that could not be decided.
///
/// Not `Sync`: one evaluation runs on one thread.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Real, Tracker};
/// let tracker = Tracker::new(ErrorModel::ieee_f32());
/// let third = tracker.exact(1.0) / tracker.exact(3.0);
/// assert!(third.error() > 0.0 && third.error() < 1e-7);
/// assert!(!third.is_less(tracker.exact(0.25)));
/// assert_eq!(tracker.undecided(), None);
/// ```
#[derive(Debug)]
pub struct Tracker {
    model: ErrorModel,
    undecided: Cell<u64>,
    first: RefCell<Option<Undecided>>,
}

impl Tracker {
    /// Starts an evaluation under `model`.
    #[must_use]
    pub const fn new(model: ErrorModel) -> Self {
        Self { model, undecided: Cell::new(0), first: RefCell::new(None) }
    }

    /// A number that the device holds exactly, such as an element of an input buffer.
    #[must_use]
    pub const fn exact(&self, value: f64) -> Tracked<'_> {
        Tracked { value, error: 0.0, tracker: Some(self) }
    }

    /// A number that the device holds to within `error`.
    #[must_use]
    pub const fn within(&self, value: f64, error: f64) -> Tracked<'_> {
        Tracked { value, error, tracker: Some(self) }
    }

    /// The arithmetic model.
    #[must_use]
    pub const fn model(&self) -> &ErrorModel {
        &self.model
    }

    /// The first comparison that could not be decided, if any.
    #[must_use]
    pub fn undecided(&self) -> Option<Undecided> {
        *self.first.borrow()
    }

    fn record(&self, undecided: Undecided) {
        if self.undecided.replace(self.undecided.get() + 1) == 0 {
            *self.first.borrow_mut() = Some(undecided);
        }
    }
}

/// A number in a reference, with the bound on a device's deviation from it.
///
/// `|device - value| <= error` for every result that the model permits. An infinite error means that no bound can be
/// given (a divisor that may be zero, a sum that may overflow, a function without a stated limit). The reference's
/// own `f64` roundings are part of the error.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Real, Tracked, Tracker};
/// let tracker = Tracker::new(ErrorModel::ieee_f32());
/// let terms: Vec<Tracked> = (0..1000).map(|i| tracker.exact(f64::from(i as f32 * 0.1))).collect();
/// let sum = Tracked::sum(terms.iter().copied());
/// let backwards: f32 = (0..1000).rev().map(|i| i as f32 * 0.1).sum();
/// assert!((f64::from(backwards) - sum.value()).abs() <= sum.error());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tracked<'t> {
    value: f64,
    error: f64,
    tracker: Option<&'t Tracker>,
}

/// What is computed from constants alone knows no tracker: the compiler may fold it or leave it to fast functions, so
/// it gets the looser bounds.
static CONSTANTS: ErrorModel = ErrorModel::fast_f32();

/// Covers the rounding of the bound's own computation, a few operations of relative error 2^-53 each.
const INFLATION: f64 = 1.0 + 1.0 / (1u64 << 48) as f64;
/// Relative error of one correctly rounded operation of the reference.
pub(crate) const REFERENCE_ROUNDOFF: f64 = 1.0 / (1u64 << 53) as f64;

impl<'t> Tracked<'t> {
    /// The bound on `|device - value|`; infinite where none can be given.
    #[must_use]
    pub const fn error(self) -> f64 {
        self.error
    }

    fn model(self) -> &'t ErrorModel {
        self.tracker.map_or(&CONSTANTS, |tracker| &tracker.model)
    }

    /// The same number, owned by whichever tracker of the two there is.
    fn joined(self, other: Self) -> Self {
        if self.tracker.is_none() && self.error == 0.0 {
            return Self { tracker: other.tracker, ..self }.settled();
        }
        Self { tracker: self.tracker.or(other.tracker), ..self }
    }

    /// A literal as the arithmetic holds it: rounded by the device's compiler where its format does not have it.
    fn settled(self) -> Self {
        let format = self.model().format();
        if self.error != 0.0 || format.represents(self.value) {
            return self;
        }
        Self { error: 0.5 * format.ulp(self.value) * INFLATION, ..self }
    }

    /// As an operand: a literal is rounded, and under flush to zero a subnormal operand may be read as zero.
    fn operand(self) -> Self {
        let settled = if self.tracker.is_none() { self.settled() } else { self };
        if self.model().flush_to_zero() {
            Self { error: settled.error + self.flushed(settled.error), ..settled }
        } else {
            settled
        }
    }

    /// What flushing a number this close to zero can change it by.
    fn flushed(self, error: f64) -> f64 {
        let (model, magnitude) = (self.model(), self.value.abs());
        let min_normal = model.format().min_normal();
        if model.flush_to_zero() && magnitude - error < min_normal {
            (magnitude + error).min(min_normal)
        } else {
            0.0
        }
    }

    /// The result of an operation that rounds: `propagated` is what the operands' errors can change, `beyond` how far
    /// from the correctly rounded result the device may land, given the largest magnitude of the result.
    fn rounded(self, propagated: f64, roundoff: f64, beyond: impl FnOnce(f64) -> f64) -> Self {
        let (value, format) = (self.value, self.model().format());
        if value.is_nan() || (value.is_infinite() && propagated == 0.0) {
            return Self { error: 0.0, ..self };
        }
        // The reference's own rounding is one more uncertainty about the true value.
        let propagated = propagated + roundoff * value.abs();
        let largest = value.abs() + propagated;
        let half = 0.5 * format.ulp(largest);
        // Limits count from the correctly rounded result, which may lie in the next binade already.
        let rounding = half + beyond(largest + half);
        let error = (propagated + rounding + self.flushed(propagated)) * INFLATION;
        if error.is_nan() {
            return Self { error: f64::INFINITY, ..self };
        }
        self.within_range(error)
    }

    /// Turns a value that certainly overflows into an infinity, and one that may overflow into one without a bound.
    fn within_range(self, error: f64) -> Self {
        let threshold = self.model().format().overflow_threshold();
        if self.value.abs() + error < threshold || error.is_infinite() {
            Self { error, ..self }
        } else if self.value.abs() - error >= threshold {
            Self { value: f64::INFINITY.copysign(self.value), error: 0.0, ..self }
        } else {
            Self { error: f64::INFINITY, ..self }
        }
    }

    /// Whether a result computed exactly from exact operands is one of the format's values, so that nothing rounds.
    fn lands(self, left: Self, right: Self) -> bool {
        left.error == 0.0
            && right.error == 0.0
            && self.model().format().represents(self.value)
            && self.value.is_finite()
            && self.flushed(0.0) == 0.0
    }

    fn exactly(self) -> Self {
        Self { error: 0.0, ..self }
    }

    fn undecidable(self) -> Self {
        Self { error: f64::INFINITY, ..self }
    }

    fn limit(self, function: Function) -> Limit {
        self.model().limit(function).limit
    }

    /// Rounded to `format` by a conversion.
    fn narrowed(self, format: Format) -> Self {
        let x = self.operand();
        if !x.value.is_finite() || (x.error == 0.0 && format.represents(x.value)) {
            return x;
        }
        let largest = x.value.abs() + x.error;
        let error = (x.error + 0.5 * format.ulp(largest)) * INFLATION;
        let (threshold, smallest) = (format.overflow_threshold(), x.value.abs() - x.error);
        if smallest >= threshold {
            Self { value: f64::INFINITY.copysign(x.value), error: 0.0, ..x }
        } else if largest >= threshold || error.is_nan() {
            x.undecidable()
        } else {
            Self { error, ..x }
        }
    }

    /// The result of a kernel as it is stored in a buffer of `format`: one more rounding if that is narrower.
    #[must_use]
    pub fn stored_as(self, format: Format) -> Self {
        let settled = if self.tracker.is_none() { self.settled() } else { self };
        let narrower = format.precision_bits() < self.model().format().precision_bits();
        if narrower { settled.narrowed(format) } else { settled }
    }
}

impl Add for Tracked<'_> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (left, right) = (self.joined(other).operand(), other.joined(self).operand());
        let sum = Self { value: left.value + right.value, ..left };
        if sum.lands(left, right) && sum_is_exact(left.value, right.value, sum.value) {
            return sum.exactly();
        }
        sum.rounded(left.error + right.error, REFERENCE_ROUNDOFF, |_| 0.0)
    }
}

impl Sub for Tracked<'_> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self { value: -other.value, ..other }
    }
}

impl Mul for Tracked<'_> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (left, right) = (self.joined(other).operand(), other.joined(self).operand());
        let product = Self { value: left.value * right.value, ..left };
        if product.lands(left, right) && product_is_exact(left.value, right.value) {
            return product.exactly();
        }
        let propagated = product_error(left, right);
        let scaled = is_exact_power_of_two(left) || is_exact_power_of_two(right);
        if scaled && product.value.abs() - propagated >= left.model().format().min_normal() {
            return product.within_range(propagated * INFLATION);
        }
        product.rounded(propagated, REFERENCE_ROUNDOFF, |_| 0.0)
    }
}

impl Div for Tracked<'_> {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let (left, right) = (self.joined(other).operand(), other.joined(self).operand());
        let limit = left.limit(Function::Divide);
        let quotient = Self { value: left.value / right.value, ..left };
        let (smallest, largest) = (right.value.abs() - right.error, right.value.abs() + right.error);
        let exact = quotient.lands(left, right)
            && product_is_exact(quotient.value, right.value)
            && quotient.value * right.value == left.value;
        if exact && limit == Limit::Rounded {
            return quotient.exactly();
        }
        if right.value.is_infinite() || right.value == 0.0 {
            // IEEE gives zero, infinity or NaN; the approximate forms give the same for these operands.
            let decided = left.error < left.value.abs() || left.error == 0.0;
            return if right.error == 0.0 && decided { quotient.exactly() } else { quotient.undecidable() };
        }
        if smallest <= 0.0 {
            return quotient.undecidable();
        }
        let propagated = if left.error == 0.0 && right.error == 0.0 {
            0.0
        } else {
            (left.error + quotient.value.abs() * right.error) / smallest
        };
        quotient.rounded(propagated, REFERENCE_ROUNDOFF, |result| {
            limit.distance(smallest, largest, result, left.model().format())
        })
    }
}

impl Neg for Tracked<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        let operand = self.operand();
        Self { value: -operand.value, ..operand }
    }
}

/// What errors in both factors can change a product by.
fn product_error(left: Tracked<'_>, right: Tracked<'_>) -> f64 {
    if left.error == 0.0 && right.error == 0.0 {
        return 0.0;
    }
    left.value.abs() * right.error + right.value.abs() * left.error + left.error * right.error
}

/// Whether multiplying by this number only changes exponents.
fn is_exact_power_of_two(number: Tracked<'_>) -> bool {
    number.error == 0.0 && number.value.is_normal() && number.value.to_bits() << 12 == 0
}

/// Whether `left + right` rounded to `sum` without error (the two-sum residual is zero).
fn sum_is_exact(left: f64, right: f64, sum: f64) -> bool {
    let second = sum - left;
    (left - (sum - second)) + (right - second) == 0.0
}

/// Whether the product certainly fits the reference's significand: at most 26 bits a factor, no underflow near.
fn product_is_exact(left: f64, right: f64) -> bool {
    const LOW_BITS: u64 = (1 << 27) - 1;
    left == 0.0
        || right == 0.0
        || ((left.to_bits() | right.to_bits()) & LOW_BITS == 0
            && exponent_of(left) + exponent_of(right) > -900)
}
