//! The error bounds are rigorous: whatever a conforming device does, its result lies within them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_oracle::{ErrorModel, Format, Function, Limit, Random, Real, Summation, Tracked, Tracker};
use proptest::prelude::*;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};

thread_local! {
    static DEVICE: RefCell<(Random, ErrorModel)> = RefCell::new((Random::new(0), ErrorModel::ieee_f32()));
}

fn choose(ways: u64) -> u64 {
    DEVICE.with_borrow_mut(|(random, _)| random.below(ways))
}

fn unit() -> f64 {
    DEVICE.with_borrow_mut(|(random, _)| random.unit())
}

fn model() -> ErrorModel {
    DEVICE.with_borrow(|(_, model)| *model)
}

/// A device's `f32` that takes every liberty its model allows, at random: it fuses or not, orders sums at will, flushes
/// subnormals or not, and puts approximate functions as far off as they may be.
#[derive(Clone, Copy, Debug)]
struct Device {
    value: f32,
    /// The factors, if this is a product that a following addition may fuse with.
    product: Option<(f32, f32)>,
}

impl Device {
    fn new(value: f32) -> Self {
        Self { value: flush(value), product: None }
    }
}

fn flush(value: f32) -> f32 {
    if model().flush_to_zero() && value.is_subnormal() && choose(2) == 0 { 0.0 * value } else { value }
}

fn ulp(value: f32) -> f64 {
    Format::F32.ulp(f64::from(value))
}

/// `exact` correctly rounded, then moved as far as the limit of `function` allows (mostly to the very edge).
fn approximate(function: Function, argument: f32, exact: f64) -> Device {
    let rounded = exact as f32;
    if !rounded.is_finite() || exact == 0.0 {
        return Device::new(rounded);
    }
    let mut a = f64::from(argument).abs();
    if function == Function::Exp {
        // An exponential that has underflowed twice over is zero: no table means more error further out.
        a = a.min(206.0);
    }
    let allowed = match model().limit(function).limit {
        Limit::Rounded => 0.0,
        Limit::Ulps(n) | Limit::UlpsForModerateDivisor(n) => n * ulp(rounded),
        Limit::UlpsByArgument { base, slope } => (base + (slope * a).floor()) * ulp(rounded),
        Limit::Relative(fraction) => fraction * exact.abs(),
        Limit::AbsoluteNearOne { absolute, .. } if (0.5..=2.0).contains(&a) => absolute,
        Limit::AbsoluteNearOne { ulps, .. } => ulps * ulp(rounded),
        Limit::AbsoluteWithinPi(absolute) => absolute,
        _ => unreachable!("the models of these tests state all limits"),
    };
    let share = match choose(4) {
        0 => 1.0,
        1 => -1.0,
        _ => 2.0 * unit() - 1.0,
    };
    let wanted = f64::from(rounded) + share * allowed;
    // The nearest value of the format that is no further off than allowed.
    let mut value = wanted as f32;
    if (f64::from(value) - f64::from(rounded)).abs() > allowed {
        value = rounded;
    }
    Device::new(value)
}

impl Add for Device {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (a, b) = if choose(2) == 0 { (self, other) } else { (other, self) };
        match a.product {
            Some((x, y)) if choose(2) == 0 => Self::new(flush(x).mul_add(flush(y), flush(b.value))),
            _ => Self::new(flush(a.value) + flush(b.value)),
        }
    }
}

impl Sub for Device {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let product = other.product.map(|(x, y)| (-x, y));
        self + Self { value: -other.value, product }
    }
}

impl Mul for Device {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let (x, y) = (flush(self.value), flush(other.value));
        Self { product: Some((x, y)), ..Self::new(x * y) }
    }
}

impl Div for Device {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let (x, y) = (flush(self.value), flush(other.value));
        let moderate = matches!(model().limit(Function::Divide).limit, Limit::UlpsForModerateDivisor(_));
        if moderate && y.is_finite() && y.abs() > 2f32.powi(126) {
            return Self::new(0.0);
        }
        approximate(Function::Divide, y, f64::from(x) / f64::from(y))
    }
}

impl Neg for Device {
    type Output = Self;
    fn neg(self) -> Self {
        Self::new(-self.value)
    }
}

impl Device {
    fn apply(self, function: Function, exact: impl Fn(f64) -> f64) -> Self {
        let x = flush(self.value);
        let at_zero = matches!(function, Function::Exp | Function::Exp2 | Function::Cos) && x == 0.0;
        if at_zero || (function == Function::Ln && x == 1.0 && !model().flush_to_zero()) {
            // The PTX ISA states these results exactly.
            return Self::new(exact(f64::from(x)) as f32);
        }
        approximate(function, x, exact(f64::from(x)))
    }
}

impl Real for Device {
    fn constant(value: f64) -> Self {
        Self::new(value as f32)
    }
    fn value(self) -> f64 {
        self.value.into()
    }
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self::new(flush(self.value).mul_add(flush(factor.value), flush(addend.value)))
    }
    fn abs(self) -> Self {
        Self::new(flush(self.value).abs())
    }
    fn max(self, other: Self) -> Self {
        Self::new(flush(self.value).max(flush(other.value)))
    }
    fn min(self, other: Self) -> Self {
        Self::new(flush(self.value).min(flush(other.value)))
    }
    fn sqrt(self) -> Self {
        self.apply(Function::Sqrt, f64::sqrt)
    }
    fn rsqrt(self) -> Self {
        self.apply(Function::Rsqrt, |x| 1.0 / x.sqrt())
    }
    fn exp(self) -> Self {
        self.apply(Function::Exp, f64::exp)
    }
    fn exp2(self) -> Self {
        self.apply(Function::Exp2, f64::exp2)
    }
    fn ln(self) -> Self {
        self.apply(Function::Ln, f64::ln)
    }
    fn log2(self) -> Self {
        self.apply(Function::Log2, f64::log2)
    }
    fn sin(self) -> Self {
        self.apply(Function::Sin, f64::sin)
    }
    fn cos(self) -> Self {
        self.apply(Function::Cos, f64::cos)
    }
    fn tanh(self) -> Self {
        self.apply(Function::Tanh, f64::tanh)
    }
    fn sum_in(summation: Summation, terms: impl IntoIterator<Item = Self>) -> Self {
        let mut terms: Vec<Self> = terms.into_iter().collect();
        let balanced = matches!(summation, Summation::Depth(_));
        while terms.len() > 1 {
            if balanced {
                terms = terms.chunks(2).map(|pair| pair.iter().copied().reduce(Add::add).unwrap()).collect();
            } else {
                let last = terms.swap_remove(choose(terms.len() as u64) as usize);
                let other = choose(terms.len() as u64) as usize;
                terms[other] = terms[other] + last;
            }
        }
        terms.pop().unwrap_or_else(Self::zero)
    }
    fn dot_in(summation: Summation, pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        Self::sum_in(summation, pairs.into_iter().map(|(x, y)| x * y))
    }
    fn round_to(self, format: Format) -> Self {
        Self::new(format.round(self.value.into()) as f32)
    }
    fn either(self, other: Self) -> Self {
        if choose(2) == 0 { self } else { other }
    }
    fn compare(self, other: Self) -> Ordering {
        self.value.partial_cmp(&other.value).unwrap_or(Ordering::Equal)
    }
}

/// A random expression, as the path of choices that makes it.
fn expression<R: Real>(leaves: &[R], plan: &mut Random, depth: u32) -> R {
    if depth == 0 {
        return match plan.below(8) {
            0 => R::constant([0.1, 1.0, 2.0, -3.0, 0.5, 1e-3][plan.below(6) as usize]),
            _ => leaves[plan.below(leaves.len() as u64) as usize],
        };
    }
    let op = plan.below(24);
    let a = expression(leaves, plan, depth - 1);
    let many = |plan: &mut Random| {
        (0..2 + plan.below(12)).map(|_| expression(leaves, plan, depth - 1)).collect::<Vec<R>>()
    };
    match op {
        0 => -a,
        1 => a.abs(),
        2 => a.abs().sqrt(),
        3 => (a.abs() + R::constant(0.25)).rsqrt(),
        4 => a.min(R::constant(20.0)).exp(),
        5 => a.min(R::constant(30.0)).exp2(),
        6 => (a.abs() + R::constant(0.01)).ln(),
        7 => (a.abs() + R::constant(0.01)).log2(),
        8 => a.max(R::constant(-3.0)).min(R::constant(3.0)).sin(),
        9 => a.max(R::constant(-3.0)).min(R::constant(3.0)).cos(),
        10 => a.tanh(),
        11 => a.sigmoid(),
        12 => a.silu(),
        13 => a.round_to([Format::F16, Format::Bf16][plan.below(2) as usize]),
        14 => R::sum(many(plan)),
        15 => R::sum_in(Summation::Depth(4), many(plan)),
        16 => {
            let (x, y) = (many(plan), many(plan));
            R::dot(x.into_iter().zip(y))
        }
        other => {
            let b = expression(leaves, plan, depth - 1);
            match other {
                17 | 18 => a + b,
                19 => a - b,
                20 => a * b,
                21 => a / (b.abs() + R::constant(0.5)),
                22 => a.max(b).min(a + R::one()),
                _ => {
                    let c = expression(leaves, plan, depth - 1);
                    if plan.below(2) == 0 { a.mul_add(b, c) } else { a * b + c }
                }
            }
        }
    }
}

fn leaf(random: &mut Random, tiny: bool) -> f32 {
    let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
    let exponent = if tiny { -140 + random.below(30) as i32 } else { -8 + random.below(12) as i32 };
    match random.below(6) {
        0 => random.below(9) as f32 - 4.0,
        _ => (sign * (1.0 + random.unit()) * 2f64.powi(exponent)) as f32,
    }
}

/// Evaluates one random expression in both worlds many times; the largest ratio of deviation to bound that was seen.
fn check(seed: u64, model: ErrorModel, tiny: bool) -> Result<f64, TestCaseError> {
    let mut random = Random::new(seed);
    let leaves: Vec<f32> = (0..6).map(|_| leaf(&mut random, tiny)).collect();
    let (plan_seed, depth) = (random.next_u64(), 1 + random.below(3) as u32);
    let tracker = Tracker::new(model);
    let tracked: Vec<Tracked> = leaves.iter().map(|v| tracker.exact(f64::from(*v))).collect();
    let bounded = expression(&tracked, &mut Random::new(plan_seed), depth);
    let plain: Vec<f64> = leaves.iter().map(|v| f64::from(*v)).collect();
    let value = expression(&plain, &mut Random::new(plan_seed), depth);
    let mut worst = 0f64;
    for trial in 0..24 {
        DEVICE.set((Random::new(seed ^ (trial << 32)), model));
        let device: Vec<Device> = leaves.iter().map(|v| Device { value: *v, product: None }).collect();
        let got = expression(&device, &mut Random::new(plan_seed), depth).value();
        if bounded.error().is_infinite() {
            continue;
        }
        let distance = if got == bounded.value() || (got.is_nan() && bounded.value().is_nan()) {
            0.0
        } else {
            (got - bounded.value()).abs()
        };
        prop_assert!(
            distance <= bounded.error(),
            "seed {} depth {}: got {:e}, value {:e} (f64 {:e}), distance {:e}, bound {:e}",
            seed,
            depth,
            got,
            bounded.value(),
            value,
            distance,
            bounded.error()
        );
        if distance > 0.0 {
            worst = worst.max(distance / bounded.error());
        }
    }
    Ok(worst)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn no_order_fusion_or_rounding_leaves_the_bound(seed in any::<u64>()) {
        check(seed, ErrorModel::ieee_f32(), false)?;
    }

    #[test]
    fn no_approximate_function_or_flush_leaves_the_bound_of_fast_math(seed in any::<u64>()) {
        check(seed, ErrorModel::fast_f32(), false)?;
    }

    #[test]
    fn subnormals_stay_within_the_bound_with_and_without_flushing(seed in any::<u64>()) {
        check(seed, ErrorModel::ieee_f32(), true)?;
        check(seed, ErrorModel::ieee_f32().with_flush_to_zero(true), true)?;
        check(seed, ErrorModel::fast_f32(), true)?;
    }
}

#[test]
fn bounds_are_tight_enough_to_be_nearly_reached() {
    // Single operations reach more than half of their bound, so no bound hides a second rounding.
    let mut reached = 0;
    for seed in 0..2000 {
        let worst = check(seed, ErrorModel::ieee_f32(), false).unwrap();
        reached += u32::from(worst > 0.5);
    }
    assert!(reached > 200, "only {reached} of 2000 expressions came near their bound");
}

#[test]
fn exact_inputs_with_exact_results_have_no_bound_to_hide_behind() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let integers: Vec<Tracked> = (-250..250).map(|v| tracker.exact(f64::from(v))).collect();
    assert_eq!(Tracked::sum(integers.iter().copied()).error(), 0.0);
    assert_eq!(Tracked::dot(integers.iter().map(|v| (*v, *v))).error(), 0.0);
    assert_eq!((integers[0] * integers[1] + integers[2]).error(), 0.0);
    assert_eq!((tracker.exact(3.0) / tracker.exact(4.0)).error(), 0.0);
    assert_eq!(tracker.exact(9.0).sqrt().error(), 0.0);
    // Larger sums can round in some order, so they carry a bound again.
    let large: Vec<Tracked> = (0..600).map(|v| tracker.exact(f64::from(v) + 1e6)).collect();
    assert!(Tracked::sum(large).error() > 0.0);
}

#[test]
fn cancellation_is_judged_by_the_sum_of_magnitudes() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let terms = [1.0 / 3.0, 0.1, -1.0 / 3.0].map(|v| tracker.exact(f64::from(v as f32 * 1e6)));
    let sum = Tracked::sum(terms);
    assert!(sum.error() > 2.0 * f64::from(f32::EPSILON) / 2.0 * 6e5 && sum.error() < 1.0);
}

#[test]
fn exact_functions_add_no_error() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let x = tracker.within(2.0, 1e-5);
    for result in [-x, x.abs(), x.max(tracker.exact(1.0)), x.min(tracker.exact(5.0)), x.max(x)] {
        assert_eq!(result.error(), 1e-5);
    }
}

#[test]
fn a_comparison_within_the_bounds_is_recorded_as_undecided() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let third = tracker.exact(1.0) / tracker.exact(3.0);
    assert!(third.is_less(tracker.exact(0.5)));
    assert_eq!(tracker.undecided(), None);
    third.is_less(tracker.exact(f64::from(1.0f32 / 3.0)));
    assert!(tracker.undecided().is_some());
    let exact = Tracker::new(ErrorModel::ieee_f32());
    assert_eq!(exact.exact(2.0).compare(exact.exact(2.0)), Ordering::Equal);
    assert_eq!(exact.undecided(), None);
}

#[test]
fn what_may_overflow_or_divide_by_zero_has_no_bound() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let near_zero = tracker.within(1e-9, 1e-8);
    assert!(tracker.exact(1.0).div(near_zero).error().is_infinite());
    assert!(near_zero.rsqrt().error().is_infinite() && near_zero.ln().error().is_infinite());
    let large = tracker.exact(f64::from(f32::MAX));
    assert!(Tracked::sum([large, large, -large]).error().is_infinite(), "some order overflows");
    let sure = large * tracker.exact(2.0);
    assert_eq!((sure.value(), sure.error()), (f64::INFINITY, 0.0));
    assert_eq!((tracker.exact(1.0) / sure).error(), 0.0);
    assert_eq!(tracker.exact(-200.0).sigmoid().value(), 0.0);
}

#[test]
fn storing_in_a_narrower_format_adds_half_a_unit_of_it() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let x = tracker.exact(1.1f32.into());
    assert_eq!(x.stored_as(Format::F32).error(), 0.0);
    let half = x.stored_as(Format::F16).error();
    assert!(half >= 2f64.powi(-11) && half < 1.001 * 2f64.powi(-11));
    assert!(tracker.exact(65_519.0).stored_as(Format::F16).error().is_finite());
    assert_eq!(tracker.exact(65_520.0).stored_as(Format::F16).value(), f64::INFINITY);
}

#[test]
fn a_literal_is_rounded_to_the_format_that_the_kernel_computes_in() {
    let tenth = Tracked::constant(0.1);
    let sums = |model: ErrorModel| {
        let tracker = Tracker::new(model);
        let zero = tracker.exact(0.0);
        let sums =
            [zero + tenth, tenth - zero, Tracked::sum([tenth, zero]), zero.either(tenth), tenth.max(zero)];
        sums.map(|sum| sum.error())
    };
    let f16 = f64::from(half::f16::from_f64(0.1)) - 0.1;
    assert!(sums(ErrorModel::native(Format::F16)).iter().all(|error| *error >= f16.abs()));
    assert!(sums(ErrorModel::ieee_f64())[..3].iter().all(|error| *error < 1e-15));
    let f32 = f64::from(0.1f32) - 0.1;
    assert!(tenth.stored_as(Format::F32).error() >= f32.abs());
    assert!(sums(ErrorModel::ieee_f32())[..3].iter().all(|error| *error >= f32.abs() && *error < 1e-7));
}

#[test]
fn f64_kernels_are_judged_with_the_reference_own_rounding_counted() {
    let tracker = Tracker::new(ErrorModel::ieee_f64());
    let terms: Vec<f64> = (1..2000).map(|i| 1.0 / f64::from(i)).collect();
    let sum = Tracked::sum(terms.iter().map(|v| tracker.exact(*v)));
    let backwards: f64 = terms.iter().rev().sum();
    assert!((backwards - sum.value()).abs() <= sum.error() && sum.error() < 1e-10);
}

fn softmax<R: Real>(x: &[R]) -> Vec<R> {
    let largest = x.iter().copied().reduce(R::max).unwrap();
    let powers: Vec<R> = x.iter().map(|&x| (x - largest).exp()).collect();
    let sum = R::sum(powers.iter().copied());
    powers.into_iter().map(|power| power / sum).collect()
}

fn layer_norm<R: Real>(x: &[R]) -> Vec<R> {
    let n = R::constant(x.len() as f64);
    let mean = R::sum(x.iter().copied()) / n;
    let centred: Vec<R> = x.iter().map(|&x| x - mean).collect();
    let variance = R::dot(centred.iter().map(|&c| (c, c))) / n;
    let scale = (variance + R::constant(1e-5)).rsqrt();
    centred.into_iter().map(|c| c * scale).collect()
}

fn gated<R: Real>(x: &[R]) -> Vec<R> {
    let (left, right) = x.split_at(x.len() / 2);
    let product = R::dot(left.iter().copied().zip(right.iter().copied()));
    vec![product.silu() * product, product.tanh(), product.sigmoid()]
}

/// The largest ratio of a device's deviation to its bound over whole kernels, `device` being what computes them.
fn whole_kernels(seed: u64, model: ErrorModel, narrow: impl Fn(Device) -> Device) -> f64 {
    let mut random = Random::new(seed);
    let x: Vec<f32> = (0..300).map(|_| (2.0 * random.normal()) as f32).collect();
    let tracker = Tracker::new(model);
    let tracked: Vec<Tracked> = x.iter().map(|v| tracker.exact(f64::from(*v))).collect();
    DEVICE.set((Random::new(seed + 1), model));
    let device: Vec<Device> = x.iter().map(|v| narrow(Device { value: *v, product: None })).collect();
    let runs = [
        (softmax(&tracked), softmax(&device)),
        (layer_norm(&tracked), layer_norm(&device)),
        (gated(&tracked), gated(&device)),
    ];
    let mut worst = 0f64;
    for (bounded, got) in runs.into_iter().flat_map(|(bounded, got)| bounded.into_iter().zip(got)) {
        assert!(bounded.error().is_finite());
        worst = worst.max((narrow(got).value() - bounded.value()).abs() / bounded.error());
    }
    worst
}

#[test]
fn whole_kernels_stay_within_their_bounds_over_hundreds_of_seeds() {
    for model in [ErrorModel::ieee_f32(), ErrorModel::fast_f32()] {
        for seed in 0..400 {
            let worst = whole_kernels(seed, model, |device| device);
            assert!(worst <= 1.0, "seed {seed}: {worst}");
        }
    }
}

#[test]
fn rounding_inputs_or_results_to_half_precision_leaves_the_bounds() {
    for format in [Format::F16, Format::Bf16] {
        for seed in 0..50 {
            let worst = whole_kernels(seed, ErrorModel::ieee_f32(), |device| device.round_to(format));
            assert!(worst > 1.0, "seed {seed}: {worst}");
        }
    }
}

#[test]
fn a_sum_that_may_overflow_in_f64_has_no_bound_there_either() {
    let tracker = Tracker::new(ErrorModel::ieee_f64());
    let huge =
        || [f64::MAX / 2.0, f64::MAX / 2.0, f64::MAX / 2.0, -f64::MAX].map(|value| tracker.exact(value));
    assert!(Tracked::sum(huge()).error().is_infinite(), "whether it overflows depends on the order");
    let products = Tracked::dot(huge().into_iter().zip(huge()));
    assert!(products.error().is_infinite());
    assert!(Tracked::sum(huge().into_iter().take(1)).error() == 0.0);
}
