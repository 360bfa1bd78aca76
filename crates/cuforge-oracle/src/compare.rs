//! The comparator: every element is classified before any arithmetic on it, then judged against its own bound.

use cuforge_core::Element;

use crate::format::Format;
use crate::number::{Number, decode};
use crate::spread::{HeatMap, Histogram};

/// What an output should hold.
///
/// ```
/// use cuforge_oracle::Expected;
/// let thirds = Expected::Bounded { values: vec![1.0 / 3.0], bounds: vec![1e-8] };
/// assert_ne!(thirds, Expected::Exact(vec![0; 4]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Floats, each with the bound on its absolute error.
    Bounded {
        /// The expected values.
        values: Vec<f64>,
        /// The bounds, as many; finite and not negative.
        bounds: Vec<f64>,
    },
    /// The very bytes.
    Exact(Vec<u8>),
}

impl Expected {
    /// How many elements of that type it is for.
    pub(crate) fn elements(&self, element: Element) -> u64 {
        match self {
            Self::Bounded { values, .. } => values.len() as u64,
            Self::Exact(bytes) => bytes.len() as u64 / u64::from(element.size_bytes()),
        }
    }

    /// Whether equality is to the bit: no bound leaves any room.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Bounded { bounds, .. } => bounds.iter().all(|bound| *bound == 0.0),
            Self::Exact(_) => true,
        }
    }
}

/// What a case says of special values. The default allows no NaN and does not tell the zeros apart.
///
/// ```
/// use cuforge_oracle::Policy;
/// let policy = Policy { nan_allowed: true, ..Policy::default() };
/// assert!(!policy.zero_signs);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether the reference may be NaN; the device must then be NaN exactly there. A NaN anywhere else is always a
    /// mismatch.
    pub nan_allowed: bool,
    /// Whether an expected zero of exact arithmetic (bound 0) must have the reference's sign.
    pub zero_signs: bool,
}

/// What became of one element.
///
/// ```
/// use cuforge_oracle::Outcome;
/// assert_eq!(Outcome::Unwritten.describe(), "never written");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Within its bound, or equal to the bit.
    Agrees,
    /// A finite number further off than its bound.
    BeyondBound,
    /// Other bits where the bits must be equal.
    BitsDiffer,
    /// A zero of the wrong sign.
    ZeroSign,
    /// An infinity where another value is right, or the reverse.
    Infinite,
    /// NaN where a number is right, or the reverse.
    NotANumber,
    /// Still the poison that the buffer was filled with.
    Unwritten,
}

impl Outcome {
    /// A few words for reports.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::BeyondBound => "beyond its bound",
            Self::BitsDiffer => "bits differ",
            Self::ZeroSign => "wrong sign of zero",
            Self::Infinite => "infinite or finite where the other is right",
            Self::NotANumber => "NaN or a number where the other is right",
            Self::Unwritten => "never written",
        }
    }
}

/// One judged element.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare};
/// let expected = Expected::Bounded { values: vec![1.0], bounds: vec![0.5] };
/// let judged = compare(Element::F32, &1.25f32.to_le_bytes(), &expected, None, &Policy::default()).worst;
/// assert_eq!(judged.map(|j| (j.index, j.ratio())), Some((0, 0.5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Its index in the buffer.
    pub index: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// What the device wrote.
    pub got: Number,
    /// What the reference says.
    pub expected: Number,
    /// The bound on their distance; 0 where bits must be equal.
    pub bound: f64,
    /// Their distance; infinite if one of them is not finite and they differ.
    pub error: f64,
    /// Distance in units in the last place of the element type, between the device's value and the rounded
    /// reference; none for integers and where one of them is not finite.
    pub ulps: Option<u64>,
}

impl Judged {
    /// Error over bound: at most 1 within the bound, infinite for every other mismatch.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.outcome {
            Outcome::Agrees if self.error == 0.0 => 0.0,
            Outcome::Agrees | Outcome::BeyondBound => self.error / self.bound,
            _ => f64::INFINITY,
        }
    }
}

/// The comparison of one buffer.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare};
/// let found = compare(Element::U32, &[1, 0, 0, 0], &Expected::Exact(vec![2, 0, 0, 0]), None, &Policy::default());
/// assert!(!found.agrees() && found.worst_ratio().is_infinite());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Elements compared.
    pub elements: u64,
    /// Elements that do not agree.
    pub mismatches: u64,
    /// Of those, elements that were never written.
    pub unwritten: u64,
    /// Of those, elements that are NaN or infinite where they should not be, or the reverse.
    pub not_finite: u64,
    /// Elements of which the device's value is subnormal.
    pub subnormal: u64,
    /// The worst element: a mismatch before any other, then the largest ratio of error to bound; the first of equals.
    pub worst: Option<Judged>,
    /// The worst elements, up to eight, in the same order.
    pub worst_elements: Vec<Judged>,
    /// How errors spread over their bounds.
    pub histogram: Histogram,
    /// Where elements disagree.
    pub map: HeatMap,
}

impl Comparison {
    /// Whether every element agrees.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.mismatches == 0
    }

    /// The largest ratio of error to bound; 0 for no elements, infinite for mismatches that are not a matter of bounds.
    #[must_use]
    pub fn worst_ratio(&self) -> f64 {
        self.worst.map_or(0.0, |worst| worst.ratio())
    }
}

/// Compares the bytes a device left in a buffer with what they should be.
///
/// `poison` is the byte that the buffer was filled with before the run, if any: elements that still hold it are
/// unwritten, unless that is just what they should hold. A length other than that of `expected` makes every element that is
/// missing or in excess a mismatch.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Outcome, Policy, compare};
/// let expected = Expected::Bounded { values: vec![1.0, 2.0], bounds: vec![1e-6; 2] };
/// let got: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let comparison = compare(Element::F32, &got, &expected, Some(0xff), &Policy::default());
/// assert_eq!((comparison.mismatches, comparison.worst.unwrap().outcome), (1, Outcome::BeyondBound));
/// ```
#[must_use]
pub fn compare(
    element: Element,
    got: &[u8],
    expected: &Expected,
    poison: Option<u8>,
    policy: &Policy,
) -> Comparison {
    compare_rows(element, got, expected, poison, policy, None)
}

/// As [`compare`], for a tensor with rows of so many elements.
pub(crate) fn compare_rows(
    element: Element,
    got: &[u8],
    expected: &Expected,
    poison: Option<u8>,
    policy: &Policy,
    row_elements: Option<u64>,
) -> Comparison {
    let size = element.size_bytes() as usize;
    let map = HeatMap::new(expected.elements(element), row_elements);
    let mut comparison = Comparison { map, ..Comparison::default() };
    let written = got.chunks_exact(size);
    let there = written.len();
    let wanted = match expected {
        Expected::Bounded { values, bounds } => {
            for (index, (chunk, (value, bound))) in written.zip(values.iter().zip(bounds)).enumerate() {
                let judged = judge(element, index as u64, chunk, *value, *bound, poison, policy);
                comparison.add(element, &judged);
            }
            values.len()
        }
        Expected::Exact(bytes) => {
            for (index, (chunk, want)) in written.zip(bytes.chunks_exact(size)).enumerate() {
                comparison.add(element, &judge_bits(element, index as u64, chunk, want, poison));
            }
            bytes.len() / size
        }
    };
    for index in there.min(wanted)..there.max(wanted) {
        let nothing = Number::Float(f64::NAN);
        comparison.add(
            element,
            &Judged {
                index: index as u64,
                outcome: Outcome::Unwritten,
                got: nothing,
                expected: nothing,
                bound: 0.0,
                error: f64::INFINITY,
                ulps: None,
            },
        );
    }
    comparison
}

impl Comparison {
    fn add(&mut self, element: Element, judged: &Judged) {
        self.elements += 1;
        if judged.outcome != Outcome::Agrees {
            self.mismatches += 1;
            self.unwritten += u64::from(judged.outcome == Outcome::Unwritten);
            self.not_finite += u64::from(matches!(judged.outcome, Outcome::NotANumber | Outcome::Infinite));
        }
        if let (Some(format), Number::Float(value)) = (Format::of(element), judged.got) {
            self.subnormal += u64::from(value != 0.0 && value.abs() < format.min_normal());
        }
        self.histogram.add(judged.ratio());
        self.map.add(judged.index, judged.outcome != Outcome::Agrees);
        let badness = |j: &Judged| (j.outcome != Outcome::Agrees, j.ratio());
        let full = self.worst_elements.len() == WORST_ELEMENTS;
        if full && self.worst_elements.last().is_some_and(|least| badness(judged) <= badness(least)) {
            return;
        }
        let place = self.worst_elements.partition_point(|worse| badness(worse) >= badness(judged));
        self.worst_elements.insert(place, *judged);
        self.worst_elements.truncate(WORST_ELEMENTS);
        self.worst = self.worst_elements.first().copied();
    }
}

/// Whether every element agrees: as [`compare`], ending at the first that does not.
pub(crate) fn agrees(
    element: Element,
    got: &[u8],
    expected: &Expected,
    poison: Option<u8>,
    policy: &Policy,
) -> bool {
    let size = element.size_bytes() as usize;
    let mut chunks = got.chunks_exact(size);
    if chunks.len() as u64 != expected.elements(element) {
        return false;
    }
    match expected {
        Expected::Exact(bytes) => {
            let mut pairs = chunks.zip(bytes.chunks_exact(size));
            pairs.all(|(chunk, want)| judge_bits(element, 0, chunk, want, poison).outcome == Outcome::Agrees)
        }
        Expected::Bounded { values, bounds } => {
            let wanted = values.iter().zip(bounds);
            chunks.by_ref().zip(wanted).all(|(chunk, (value, bound))| {
                judge(element, 0, chunk, *value, *bound, poison, policy).outcome == Outcome::Agrees
            })
        }
    }
}

/// How many of the worst elements a comparison keeps.
const WORST_ELEMENTS: usize = 8;

fn judge(
    element: Element,
    index: u64,
    chunk: &[u8],
    expected: f64,
    bound: f64,
    poison: Option<u8>,
    policy: &Policy,
) -> Judged {
    let got = decode(element, chunk);
    let value = got.as_f64();
    let poisoned = poison.is_some_and(|poison| chunk.iter().all(|byte| *byte == poison));
    let distance = (value - expected).abs();
    let zero_signs_differ =
        value == 0.0 && expected == 0.0 && value.is_sign_negative() != expected.is_sign_negative();
    let (outcome, error) = if poisoned && (value.is_nan() || distance > bound) {
        (Outcome::Unwritten, f64::INFINITY)
    } else if value.is_nan() || expected.is_nan() {
        let both = value.is_nan() && expected.is_nan() && policy.nan_allowed;
        if both { (Outcome::Agrees, 0.0) } else { (Outcome::NotANumber, f64::INFINITY) }
    } else if value.is_infinite() || expected.is_infinite() {
        if value == expected { (Outcome::Agrees, 0.0) } else { (Outcome::Infinite, f64::INFINITY) }
    } else if zero_signs_differ && policy.zero_signs && bound == 0.0 {
        (Outcome::ZeroSign, 0.0)
    } else if distance <= bound {
        (Outcome::Agrees, distance)
    } else {
        (Outcome::BeyondBound, distance)
    };
    let ulps = Format::of(element).and_then(|format| ulps_between(format, value, expected));
    Judged { index, outcome, got, expected: Number::Float(expected), bound, error, ulps }
}

fn judge_bits(element: Element, index: u64, chunk: &[u8], want: &[u8], poison: Option<u8>) -> Judged {
    let (got, expected) = (decode(element, chunk), decode(element, want));
    let outcome = if chunk == want {
        Outcome::Agrees
    } else if poison.is_some_and(|poison| chunk.iter().all(|byte| *byte == poison)) {
        Outcome::Unwritten
    } else {
        Outcome::BitsDiffer
    };
    let distance = match (got, expected) {
        (Number::Integer(got), Number::Integer(expected)) => got.abs_diff(expected) as f64,
        _ => (got.as_f64() - expected.as_f64()).abs(),
    };
    let error = match outcome {
        Outcome::Agrees => 0.0,
        _ if distance.is_nan() => f64::INFINITY,
        _ => distance,
    };
    let ulps = Format::of(element).and_then(|format| ulps_between(format, got.as_f64(), expected.as_f64()));
    Judged { index, outcome, got, expected, bound: 0.0, error, ulps }
}

/// How many of `format`'s values lie between two finite numbers, each rounded to `format`; the zeros are one.
fn ulps_between(format: Format, left: f64, right: f64) -> Option<u64> {
    let (left, right) = (format.round(left), format.round(right));
    if !left.is_finite() || !right.is_finite() {
        return None;
    }
    let position = |value: f64| {
        let magnitude = value.abs();
        let unit = format.ulp(magnitude);
        // Values below this binade, then those inside of it: all exact in f64 and i128.
        let binades = (unit / format.min_subnormal()).log2() as i128;
        let count = (magnitude / unit) as i128 + (binades << (format.precision_bits() - 1));
        if value < 0.0 { -count } else { count }
    };
    u64::try_from(position(left).abs_diff(position(right))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(got: f32, expected: f64, bound: f64, policy: Policy) -> Judged {
        judge(Element::F32, 0, &got.to_le_bytes(), expected, bound, Some(0xa5), &policy)
    }

    #[test]
    fn special_values_are_classified_before_any_distance() {
        let strict = Policy::default();
        let nan_ok = Policy { nan_allowed: true, zero_signs: true };
        // The adjacent bit patterns of the largest finite value and infinity are no neighbours.
        assert_eq!(one(f32::INFINITY, f64::from(f32::MAX), 1e300, strict).outcome, Outcome::Infinite);
        assert_eq!(one(f32::MAX, f64::INFINITY, 1e300, strict).outcome, Outcome::Infinite);
        assert_eq!(one(f32::NEG_INFINITY, f64::INFINITY, 0.0, strict).outcome, Outcome::Infinite);
        assert_eq!(one(f32::INFINITY, f64::INFINITY, 0.0, strict).outcome, Outcome::Agrees);
        assert_eq!(one(f32::NAN, 1.0, f64::MAX, nan_ok).outcome, Outcome::NotANumber);
        assert_eq!(one(f32::NAN, f64::NAN, 0.0, strict).outcome, Outcome::NotANumber);
        assert_eq!(one(f32::NAN, f64::NAN, 0.0, nan_ok).outcome, Outcome::Agrees);
        assert_eq!(one(1.0, f64::NAN, 0.0, nan_ok).outcome, Outcome::NotANumber);
        assert_eq!(one(-0.0, 0.0, 0.0, strict).outcome, Outcome::Agrees);
        assert_eq!(one(-0.0, 0.0, 0.0, nan_ok).outcome, Outcome::ZeroSign);
        // Tiny numbers of opposite sign differ by their sum, whatever a default tolerance would say.
        assert_eq!(one(-1e-30, 1e-30, 1e-31, strict).outcome, Outcome::BeyondBound);
        assert_eq!(one(-1e-30, 1e-30, 3e-30, strict).outcome, Outcome::Agrees);
    }

    #[test]
    fn poison_left_behind_is_unwritten_even_where_a_loose_bound_would_take_it_for_a_number() {
        let poison = f32::from_le_bytes([0xa5; 4]);
        assert_eq!(one(poison, 1.0, 1e-3, Policy::default()).outcome, Outcome::Unwritten);
        let nan = judge(
            Element::F32,
            0,
            &[0xff; 4],
            f64::NAN,
            0.0,
            Some(0xff),
            &Policy { nan_allowed: true, zero_signs: false },
        );
        assert_eq!(nan.outcome, Outcome::Unwritten);
        assert_eq!(
            judge_bits(Element::U32, 0, &[0xa5; 4], &[1, 0, 0, 0], Some(0xa5)).outcome,
            Outcome::Unwritten
        );
        assert_eq!(judge_bits(Element::U32, 0, &[0xa5; 4], &[0xa5; 4], Some(0xa5)).outcome, Outcome::Agrees);
    }

    #[test]
    fn the_worst_element_is_a_mismatch_before_a_near_miss() {
        let expected = Expected::Bounded { values: vec![1.0, 2.0, 3.0], bounds: vec![0.1, 0.5, 0.1] };
        let bytes = |v: [f32; 3]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let near = compare(Element::F32, &bytes([1.05, 2.1, 3.0]), &expected, Some(0xff), &Policy::default());
        assert!(near.agrees());
        assert_eq!(near.worst.unwrap().index, 0);
        let off = compare(Element::F32, &bytes([1.05, 2.1, 4.0]), &expected, Some(0xff), &Policy::default());
        assert_eq!((off.mismatches, off.worst.unwrap().index), (1, 2));
        assert!((off.worst_ratio() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn missing_elements_are_mismatches() {
        let expected = Expected::Exact(vec![1, 0, 0, 0, 2, 0, 0, 0]);
        let short = compare(Element::U32, &[1, 0, 0, 0], &expected, Some(0xff), &Policy::default());
        assert_eq!((short.elements, short.mismatches), (2, 1));
    }

    proptest! {
        #[test]
        fn ulps_equal_the_distance_of_ordered_bits(a in any::<f32>(), b in any::<f32>()) {
            prop_assume!(a.is_finite() && b.is_finite());
            let order = |v: f32| {
                let bits = i64::from(v.to_bits() & 0x7fff_ffff);
                if v.is_sign_negative() { -bits } else { bits }
            };
            prop_assert_eq!(
                ulps_between(Format::F32, a.into(), b.into()),
                Some(order(a).abs_diff(order(b)))
            );
        }
    }
}
