//! The floating-point formats of results and intermediate values, with what rounding to them can cost.

use cuforge_core::Element;

/// A binary floating-point format that a kernel computes in or stores to.
///
/// ```
/// use cuforge_oracle::Format;
/// assert_eq!(Format::F32.unit_roundoff(), 2f64.powi(-24));
/// assert_eq!(Format::Bf16.round(1.0 + 2f64.powi(-9)), 1.0); // a tie goes to the even neighbour
/// assert_eq!(Format::F16.round(65_520.0), f64::INFINITY);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary16: 11 significant bits, largest finite value 65,504.
    F16,
    /// bfloat16: 8 significant bits, the exponent range of [`Format::F32`].
    Bf16,
    /// IEEE binary32: 24 significant bits.
    F32,
    /// IEEE binary64: 53 significant bits.
    F64,
}

impl Format {
    /// The format of a buffer element, or `None` for the integer types.
    #[must_use]
    pub const fn of(element: Element) -> Option<Self> {
        match element {
            Element::F16 => Some(Self::F16),
            Element::BF16 => Some(Self::Bf16),
            Element::F32 => Some(Self::F32),
            Element::F64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Significant bits, the hidden one included.
    #[must_use]
    pub const fn precision_bits(self) -> i32 {
        match self {
            Self::F16 => 11,
            Self::Bf16 => 8,
            Self::F32 => 24,
            Self::F64 => 53,
        }
    }

    /// Exponent of the smallest normal value: `2^min_exponent`.
    #[must_use]
    pub const fn min_exponent(self) -> i32 {
        match self {
            Self::F16 => -14,
            Self::Bf16 | Self::F32 => -126,
            Self::F64 => -1022,
        }
    }

    const fn max_exponent(self) -> i32 {
        match self {
            Self::F16 => 15,
            Self::Bf16 | Self::F32 => 127,
            Self::F64 => 1023,
        }
    }

    /// `u`: rounding to nearest changes a normal value by at most `u` times its magnitude.
    #[must_use]
    pub fn unit_roundoff(self) -> f64 {
        power_of_two(-self.precision_bits())
    }

    /// The smallest normal magnitude.
    #[must_use]
    pub fn min_normal(self) -> f64 {
        power_of_two(self.min_exponent())
    }

    /// The smallest subnormal magnitude, and the spacing of all subnormals.
    #[must_use]
    pub fn min_subnormal(self) -> f64 {
        power_of_two(self.min_exponent() - self.precision_bits() + 1)
    }

    /// The largest finite magnitude.
    #[must_use]
    pub fn max_finite(self) -> f64 {
        (2.0 - power_of_two(1 - self.precision_bits())) * power_of_two(self.max_exponent())
    }

    /// The least magnitude that rounds to infinity: half a unit above [`Format::max_finite`].
    #[must_use]
    pub fn overflow_threshold(self) -> f64 {
        match self {
            Self::F64 => f64::INFINITY,
            _ => (2.0 - power_of_two(-self.precision_bits())) * power_of_two(self.max_exponent()),
        }
    }

    /// The spacing of this format's values at `magnitude`: one unit in the last place.
    ///
    /// Zero and subnormals have the spacing of the smallest subnormal; an infinite or NaN magnitude gives infinity.
    #[must_use]
    pub fn ulp(self, magnitude: f64) -> f64 {
        if !magnitude.is_finite() {
            return f64::INFINITY;
        }
        power_of_two(exponent_of(magnitude).max(self.min_exponent()) - self.precision_bits() + 1)
    }

    /// `value` rounded to the nearest representable value, ties to even; overflow gives an infinity.
    #[must_use]
    pub fn round(self, value: f64) -> f64 {
        if self == Self::F64 || !value.is_finite() || value == 0.0 {
            return value;
        }
        let unit = self.ulp(value);
        // Scaling by a power of two is exact, so the one rounding here is the one asked for.
        let rounded = (value / unit).round_ties_even() * unit;
        if rounded.abs() > self.max_finite() { f64::INFINITY.copysign(value) } else { rounded }
    }

    /// Whether `value` is one of this format's values (NaN and infinities are).
    #[must_use]
    pub fn represents(self, value: f64) -> bool {
        if self == Self::F64 || !value.is_finite() || value == 0.0 {
            return true;
        }
        let exponent = exponent_of(value);
        if exponent >= self.min_exponent() && exponent <= self.max_exponent() {
            value.to_bits().trailing_zeros() as i32 >= 53 - self.precision_bits()
        } else {
            self.round(value) == value
        }
    }
}

/// `floor(log2(|value|))` of a finite value; zero and the subnormals of `f64` give -1023.
pub(crate) fn exponent_of(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// `2^exponent`, for exponents from -1074 to 1023 (smaller ones give zero, larger ones infinity).
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..-1074 => 0.0,
        -1074..-1022 => f64::from_bits(1 << (exponent + 1074)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_equal_those_of_the_native_types() {
        assert_eq!(Format::F32.max_finite(), f64::from(f32::MAX));
        assert_eq!(Format::F32.min_normal(), f64::from(f32::MIN_POSITIVE));
        assert_eq!(Format::F32.min_subnormal(), f64::from(f32::from_bits(1)));
        assert_eq!(Format::F16.max_finite(), 65_504.0);
        assert_eq!(Format::Bf16.max_finite(), half::bf16::MAX.to_f64());
        assert_eq!(Format::F64.max_finite(), f64::MAX);
        assert_eq!(Format::F64.min_subnormal(), f64::from_bits(1));
    }

    proptest! {
        #[test]
        fn rounding_equals_the_native_conversions(bits in any::<u64>(), small in any::<f32>()) {
            for value in [f64::from_bits(bits), f64::from(small) * (1.0 + 1e-9), f64::from(f32::from_bits(bits as u32))] {
                if value.is_nan() { continue; }
                prop_assert_eq!(Format::F32.round(value), f64::from(value as f32));
                prop_assert_eq!(Format::F32.represents(value), f64::from(value as f32) == value);
                // half's own f64 conversion is exact for values that f32 holds.
                let single = f64::from(value as f32);
                prop_assert_eq!(Format::F16.round(single), half::f16::from_f32(value as f32).to_f64());
                prop_assert_eq!(Format::Bf16.round(single), half::bf16::from_f32(value as f32).to_f64());
            }
        }

        #[test]
        fn rounding_moves_a_value_by_at_most_half_an_ulp(bits in any::<u32>()) {
            let value = f64::from(f32::from_bits(bits));
            prop_assume!(value.is_finite());
            for format in [Format::F16, Format::Bf16] {
                let rounded = format.round(value);
                if rounded.is_finite() {
                    prop_assert!((rounded - value).abs() <= 0.5 * format.ulp(value));
                } else {
                    prop_assert!(value.abs() >= format.overflow_threshold());
                }
            }
        }
    }
}
