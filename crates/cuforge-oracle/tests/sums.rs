//! Bounds of sums: those of tensor cores against an emulated one, and sums that leave the range on the way.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly in its helpers too")]

use cuforge_oracle::{ErrorModel, Format, Random, Real, Summation, Tracked, Tracker};

/// A tensor core as it is assumed to be at worst: a step takes `width` products and the running sum, cuts each to 24 bits
/// of the largest among them, adds what is left exactly, and cuts the result to 24 bits.
fn emulated(pairs: &[(f64, f64)], width: usize) -> f64 {
    pairs.chunks(width).fold(0.0, |sum, step| {
        let terms: Vec<f64> = step.iter().map(|(a, b)| a * b).chain([sum]).collect();
        let largest = terms.iter().fold(0.0, |largest: f64, term| largest.max(term.abs()));
        let unit = Format::F32.ulp(largest);
        let exact: f64 = terms.iter().map(|term| (term / unit).trunc() * unit).sum();
        let unit = Format::F32.ulp(exact);
        (exact / unit).trunc() * unit
    })
}

/// Halves of either sign, of unlike size; of one sign and size, where every cut goes the same way.
fn halves(random: &mut Random, alike: bool) -> f64 {
    let value =
        if alike { 1.0 + random.unit() } else { random.normal() * 2f64.powi(random.below(6) as i32 - 3) };
    Format::F16.round(value)
}

#[test]
fn a_tensor_core_that_cuts_stays_within_its_bound_whatever_its_steps() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let mut random = Random::new(1);
    let mut beyond_rounding = 0;
    for round in 0..600 {
        let alike = round % 2 == 0;
        let length = 1 + random.below(700) as usize;
        let pairs: Vec<(f64, f64)> =
            (0..length).map(|_| (halves(&mut random, alike), halves(&mut random, alike))).collect();
        let tracked = || pairs.iter().map(|&(a, b)| (tracker.exact(a), tracker.exact(b)));
        let bounded = Tracked::dot_in(Summation::TensorCore, tracked());
        let tree = Tracked::dot_in(Summation::Depth(1 + length as u64 / 16), tracked());
        for width in [1, 2, 4, 8, 16] {
            let error = (emulated(&pairs, width) - bounded.value()).abs();
            assert!(error <= bounded.error(), "{length} products by {width}: {error} > {}", bounded.error());
            beyond_rounding += usize::from(error > tree.error());
        }
    }
    assert!(beyond_rounding > 0, "the bound of rounded additions would have done");
}

#[test]
fn a_sum_in_half_precision_leaves_the_bound_of_a_tensor_core() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let mut random = Random::new(2);
    let mut beyond = 0;
    for _ in 0..100 {
        let pairs: Vec<(f64, f64)> =
            (0..256).map(|_| (halves(&mut random, true), halves(&mut random, true))).collect();
        let bounded = Tracked::dot_in(
            Summation::TensorCore,
            pairs.iter().map(|&(a, b)| (tracker.exact(a), tracker.exact(b))),
        );
        let half = pairs.iter().fold(0.0, |sum, (a, b)| Format::F16.round(sum + a * b));
        beyond += usize::from((half - bounded.value()).abs() > bounded.error());
    }
    // A few are right by chance.
    assert!(beyond > 80, "{beyond}");
}

#[test]
fn exact_products_of_small_integers_stay_exact_on_tensor_cores() {
    let tracker = Tracker::new(ErrorModel::ieee_f32());
    let integer = |i: i64| tracker.exact((i % 9 - 4) as f64);
    let sum = Tracked::dot_in(Summation::TensorCore, (0..500).map(|i| (integer(i), integer(i * 7))));
    assert_eq!(sum.error(), 0.0);
}

#[test]
fn a_double_sum_that_leaves_the_range_in_some_order_has_no_bound() {
    let tracker = Tracker::new(ErrorModel::ieee_f64());
    let huge = |factor: f64| tracker.exact(factor * (f64::MAX / 4.0));
    // In this order the sum is infinite, in others it is half of the range.
    let sum = Tracked::sum([3.0, 3.0, -2.0, -2.0].map(huge));
    assert_eq!((sum.value(), sum.error()), (f64::INFINITY, f64::INFINITY));
    // A product beyond the range: infinite where it is rounded, and nothing of the kind where it is fused.
    let product = Tracked::dot([(huge(2.0), tracker.exact(4.0)), (huge(-2.0), tracker.exact(2.0))]);
    assert_eq!(product.error(), f64::INFINITY);
}

#[test]
fn an_infinite_term_decides_a_sum_and_two_of_unlike_sign_make_no_number() {
    let tracker = Tracker::new(ErrorModel::ieee_f64());
    let [plus, minus] = [f64::INFINITY, f64::NEG_INFINITY].map(|infinite| tracker.exact(infinite));
    let one = tracker.exact(1.0);
    let sum = Tracked::sum([one, minus, one]);
    assert_eq!((sum.value(), sum.error()), (f64::NEG_INFINITY, 0.0));
    let none = Tracked::sum([plus, one, minus]);
    assert!(none.value().is_nan() && none.error() == 0.0);
    // The finite terms may overflow to the other infinity before they meet the one that is given.
    let max = tracker.exact(f64::MAX);
    assert_eq!(Tracked::sum([minus, max, max]).error(), f64::INFINITY);
}
