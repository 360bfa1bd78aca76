//! What input buffers are filled with: seeded, and the same bytes for the same seed everywhere.

use std::fmt;
use std::sync::Arc;

use cuforge_core::Element;

use crate::adversary::{Adversary, Kind};
use crate::format::power_of_two;
use crate::number::{Number, encode};
use crate::random::Random;

/// A generator of one buffer's initial contents. Floats are rounded to the buffer's element type.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Fill, Random};
/// let fill = Fill::Uniform { low: -1.0, high: 1.0 };
/// let bytes = fill.generate(&mut Random::new(1), Element::F32, 1000).unwrap();
/// assert_eq!(bytes, fill.generate(&mut Random::new(1), Element::F32, 1000).unwrap());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fill {
    /// Zeros.
    Zero,
    /// One value everywhere.
    Constant(f64),
    /// Uniform in `low <= x < high`. Floats only.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end; rounding to the element type may reach it.
        high: f64,
    },
    /// Bell-shaped, cut off at six deviations. Floats only.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Magnitudes spread evenly over powers of two, `2^min_exponent <= |x| < 2^(max_exponent + 1)`. Floats only.
    LogUniform {
        /// Smallest exponent.
        min_exponent: i32,
        /// Largest exponent.
        max_exponent: i32,
        /// Whether half of the values are negative.
        signed: bool,
    },
    /// Integers in `low..=high`, for floats too: small ones make sums exact in every order, so that results must be
    /// equal to the bit.
    Integers {
        /// Smallest.
        low: i64,
        /// Largest.
        high: i64,
    },
    /// `start + index * step`.
    Ramp {
        /// First value.
        start: i64,
        /// Difference of neighbours.
        step: i64,
    },
    /// `0..elements` in random order: all values differ (floats hold them exactly up to their significand).
    Permutation,
    /// Uniformly random bits; with floats that includes NaN and infinities.
    Bits,
    /// The ends of the element type: zeros of both signs, the largest and smallest magnitudes, one and its neighbours;
    /// for integers the least and greatest, zero, one and minus one.
    Extremes,
    /// Subnormal magnitudes of the element type, and normal ones just above. Floats only.
    Subnormals,
    /// Values of magnitude around 1, one in eight of them NaN or an infinity. Floats only.
    NonFinite,
    /// One value for each row of so many elements.
    ConstantRows {
        /// Elements of a row.
        width: u64,
    },
    /// Every other row holds nothing but a very low value, as a row whose every position is masked; half of the
    /// positions of the others do. Floats only.
    MaskedRows {
        /// Elements of a row.
        width: u64,
    },
    /// Each value is followed by one that all but cancels it, so that sums keep few digits. Floats only.
    Cancelling,
    /// Only so many different values, so that many are equal.
    Ties {
        /// How many; 0 counts as 1.
        distinct: u64,
    },
    /// These values, repeated as often as needed.
    Values(Arc<[f64]>),
    /// A function of the generator and the index.
    With(Custom),
}

/// A user's own generator, see [`Fill::with`].
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Fill, Random};
/// let alternating = Fill::with(|_, index| if index % 2 == 0 { 1.0 } else { -1.0 });
/// assert_eq!(alternating.generate(&mut Random::new(0), Element::I8, 3), Ok(vec![1, 255, 1]));
/// ```
#[derive(Clone)]
pub struct Custom(Arc<Generate>);

type Generate = dyn Fn(&mut Random, u64) -> f64 + Send + Sync;

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom(..)")
    }
}

impl Fill {
    /// A function of the generator and the element's index. Take all randomness from the generator.
    pub fn with(generate: impl Fn(&mut Random, u64) -> f64 + Send + Sync + 'static) -> Self {
        Self::With(Custom(Arc::new(generate)))
    }

    /// Why this fill cannot produce `element`, if it cannot.
    pub(crate) fn objection(&self, element: Element) -> Option<&'static str> {
        let ordered = match self {
            Self::Uniform { low, high } => low < high && low.is_finite() && high.is_finite(),
            Self::Normal { deviation, .. } => *deviation >= 0.0,
            Self::LogUniform { min_exponent, max_exponent, .. } => {
                min_exponent <= max_exponent && *min_exponent >= -1074 && *max_exponent <= 1023
            }
            Self::Integers { low, high } => low <= high,
            Self::Values(values) => !values.is_empty(),
            _ => true,
        };
        let real = matches!(
            self,
            Self::Uniform { .. }
                | Self::Normal { .. }
                | Self::LogUniform { .. }
                | Self::Subnormals
                | Self::NonFinite
                | Self::MaskedRows { .. }
                | Self::Cancelling
        );
        if !ordered {
            Some("its limits are no range")
        } else if real && !element.is_float() {
            Some("it makes real numbers")
        } else {
            None
        }
    }

    /// The bytes of `elements` elements.
    ///
    /// # Errors
    /// The reason why this fill cannot produce the element type.
    pub fn generate(
        &self,
        random: &mut Random,
        element: Element,
        elements: usize,
    ) -> Result<Vec<u8>, &'static str> {
        if let Some(reason) = self.objection(element) {
            return Err(reason);
        }
        let mut bytes = Vec::with_capacity(elements * element.size_bytes() as usize);
        if let Self::Permutation = self {
            let mut order: Vec<u64> = (0..elements as u64).collect();
            random.shuffle(&mut order);
            for value in order {
                encode(element, Number::Integer(value.into()), &mut bytes);
            }
            return Ok(bytes);
        }
        if let Some(adversary) = self.adversary(element) {
            let mut previous = 0.0;
            for index in 0..elements as u64 {
                previous = adversary.value(random, index, previous);
                encode(element, Number::Float(previous), &mut bytes);
            }
            return Ok(bytes);
        }
        for index in 0..elements as u64 {
            if let Self::Bits = self {
                bytes.extend_from_slice(&random.next_u64().to_le_bytes()[..element.size_bytes() as usize]);
                continue;
            }
            encode(element, self.value(random, index), &mut bytes);
        }
        Ok(bytes)
    }

    /// The generator of the fills that aim at what kernels get wrong.
    fn adversary(&self, element: Element) -> Option<Adversary> {
        let kind = match self {
            Self::Extremes => Kind::Extremes,
            Self::Subnormals => Kind::Subnormals,
            Self::NonFinite => Kind::NonFinite,
            Self::ConstantRows { width } => Kind::ConstantRows { width: *width },
            Self::MaskedRows { width } => Kind::MaskedRows { width: *width },
            Self::Cancelling => Kind::Cancelling,
            Self::Ties { distinct } => Kind::Ties { distinct: *distinct },
            _ => return None,
        };
        Some(Adversary { kind, element })
    }

    fn value(&self, random: &mut Random, index: u64) -> Number {
        Number::Float(match self {
            Self::Zero | Self::Permutation | Self::Bits => 0.0,
            Self::Constant(value) => *value,
            Self::Uniform { low, high } => low + (high - low) * random.unit(),
            Self::Normal { mean, deviation } => mean + deviation * random.normal(),
            Self::LogUniform { min_exponent, max_exponent, signed } => {
                let span = max_exponent.abs_diff(*min_exponent);
                let exponent = min_exponent + random.below(u64::from(span) + 1) as i32;
                let magnitude = (1.0 + random.unit()) * power_of_two(exponent);
                if *signed && random.next_u64() >> 63 == 1 { -magnitude } else { magnitude }
            }
            Self::Integers { low, high } => {
                let span = high.abs_diff(*low);
                // The full range of i64 has 2^64 values, one more than a bound can say.
                let step = match span.checked_add(1) {
                    Some(bound) => random.below(bound),
                    None => random.next_u64(),
                };
                return Number::Integer(i128::from(*low) + i128::from(step));
            }
            Self::Ramp { start, step } => {
                return Number::Integer(i128::from(*start) + i128::from(index) * i128::from(*step));
            }
            Self::Values(values) => values[(index % values.len() as u64) as usize],
            Self::With(custom) => (custom.0)(random, index),
            // Made by their own generator.
            _ => 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::decode;

    fn floats(fill: &Fill, seed: u64) -> Vec<f64> {
        let bytes = fill.generate(&mut Random::new(seed), Element::F32, 2000).unwrap();
        bytes.chunks(4).map(|chunk| decode(Element::F32, chunk).as_f64()).collect()
    }

    #[test]
    fn values_stay_in_their_stated_ranges() {
        assert!(floats(&Fill::Uniform { low: 2.0, high: 3.0 }, 1).iter().all(|v| (2.0..=3.0).contains(v)));
        assert!(
            floats(&Fill::Integers { low: -4, high: 4 }, 1)
                .iter()
                .all(|v| v.fract() == 0.0 && v.abs() <= 4.0)
        );
        let log = floats(&Fill::LogUniform { min_exponent: -10, max_exponent: 10, signed: true }, 1);
        assert!(log.iter().all(|v| (2f64.powi(-10)..=2f64.powi(11)).contains(&v.abs())));
        assert!(log.iter().any(|v| *v < 0.0) && log.iter().any(|v| *v > 0.0));
    }

    #[test]
    fn another_seed_gives_other_bytes() {
        let fill = Fill::Normal { mean: 0.0, deviation: 1.0 };
        assert_eq!(floats(&fill, 5), floats(&fill, 5));
        assert_ne!(floats(&fill, 5), floats(&fill, 6));
    }

    #[test]
    fn the_bytes_of_a_seed_never_change() {
        let fill = Fill::Uniform { low: 0.0, high: 1.0 };
        let bytes = fill.generate(&mut Random::stream(42, "x"), Element::F32, 2).unwrap();
        let again = fill.generate(&mut Random::stream(42, "x"), Element::F32, 2).unwrap();
        assert_eq!(bytes, again);
    }

    #[test]
    fn real_numbers_are_refused_for_integer_buffers() {
        let fill = Fill::Uniform { low: 0.0, high: 1.0 };
        assert!(fill.generate(&mut Random::new(1), Element::U32, 1).is_err());
        let empty = Fill::Integers { low: 1, high: 0 };
        assert!(empty.generate(&mut Random::new(1), Element::U32, 1).is_err());
    }

    #[test]
    fn a_permutation_holds_each_value_once() {
        let mut values = floats(&Fill::Permutation, 3);
        values.sort_by(f64::total_cmp);
        assert!(values.iter().enumerate().all(|(index, value)| *value == index as f64));
    }
}
