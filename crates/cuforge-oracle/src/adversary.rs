//! Values that aim at what kernels get wrong: ends of the range, cancellation, masks, ties.

use cuforge_core::Element;

use crate::format::Format;
use crate::random::Random;

/// What to aim at.
pub(crate) enum Kind {
    Extremes,
    Subnormals,
    NonFinite,
    ConstantRows { width: u64 },
    MaskedRows { width: u64 },
    Cancelling,
    Ties { distinct: u64 },
}

/// Makes the values of one buffer, in order.
pub(crate) struct Adversary {
    pub(crate) kind: Kind,
    pub(crate) element: Element,
}

impl Adversary {
    /// The value at `index`, which follows `previous`.
    pub(crate) fn value(&self, random: &mut Random, index: u64, previous: f64) -> f64 {
        match self.kind {
            Kind::Extremes => self.extreme(random),
            Kind::Subnormals => self.subnormal(random),
            Kind::NonFinite => match random.below(24) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                _ => random.normal(),
            },
            Kind::ConstantRows { width } if index.is_multiple_of(width.max(1)) => self.ordinary(random),
            Kind::ConstantRows { .. } => previous,
            Kind::MaskedRows { width } => {
                let whole_row = (index / width.max(1)) % 2 == 1;
                let value = random.normal();
                let masked = random.below(2) == 0;
                if whole_row || masked { -self.format().max_finite() / 4.0 } else { value }
            }
            Kind::Cancelling if index % 2 == 1 => {
                // A few units in the last place are all that stays.
                let unit = self.format().ulp(previous);
                -(previous + unit * random.below(4) as f64)
            }
            Kind::Cancelling => 1.0 + 1023.0 * random.unit(),
            // Ordered so that equal values lie far apart.
            Kind::Ties { distinct } => random.below(distinct.max(1)) as f64 - (distinct / 2) as f64,
        }
    }

    fn format(&self) -> Format {
        Format::of(self.element).unwrap_or(Format::F64)
    }

    fn ordinary(&self, random: &mut Random) -> f64 {
        if self.element.is_float() { random.normal() } else { random.below(100) as f64 }
    }

    fn extreme(&self, random: &mut Random) -> f64 {
        let Some(format) = Format::of(self.element) else {
            let bits = 8 * self.element.size_bytes();
            let signed = matches!(self.element, Element::I8 | Element::I16 | Element::I32 | Element::I64);
            // 64-bit ends are not exact in `f64`; the nearest power of two below is.
            let greatest = f64::from(bits - u32::from(signed)).exp2() - if bits == 64 { 2048.0 } else { 1.0 };
            let least = if signed { -f64::from(bits - 1).exp2() } else { 0.0 };
            return [0.0, 1.0, least, greatest, greatest - 1.0][random.below(5) as usize];
        };
        let near_one = format.ulp(1.0);
        let magnitudes = [
            0.0,
            format.min_subnormal(),
            format.min_normal(),
            1.0 - near_one / 2.0,
            1.0,
            1.0 + near_one,
            format.max_finite() / 2.0,
            format.max_finite(),
        ];
        let magnitude = magnitudes[random.below(magnitudes.len() as u64) as usize];
        if random.below(2) == 0 { magnitude } else { -magnitude }
    }

    fn subnormal(&self, random: &mut Random) -> f64 {
        let format = self.format();
        // Up to twice the smallest normal value.
        let steps = (2.0 * format.min_normal() / format.min_subnormal()) as u64;
        let magnitude = random.below(steps) as f64 * format.min_subnormal();
        if random.below(2) == 0 { magnitude } else { -magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::Fill;
    use crate::number::floats;

    fn made(fill: &Fill, element: Element) -> Vec<f64> {
        let bytes = fill.generate(&mut Random::new(7), element, 1000).unwrap();
        floats(element, &bytes).collect()
    }

    #[test]
    fn every_float_format_gets_its_own_ends_and_subnormals() {
        for element in [Element::F16, Element::BF16, Element::F32, Element::F64] {
            let format = Format::of(element).unwrap();
            let ends = made(&Fill::Extremes, element);
            for end in [format.max_finite(), -format.max_finite(), format.min_subnormal(), 0.0, -1.0] {
                assert!(ends.contains(&end), "{element}: {end:e}");
            }
            let small = made(&Fill::Subnormals, element);
            assert!(small.iter().all(|value| value.abs() < 2.0 * format.min_normal()));
            assert!(small.iter().filter(|v| **v != 0.0 && v.abs() < format.min_normal()).count() > 300);
        }
        let ends = made(&Fill::Extremes, Element::I8);
        assert!([-128.0, 127.0, 0.0, 1.0].iter().all(|end| ends.contains(end)), "{ends:?}");
    }

    #[test]
    fn rows_are_constant_or_masked_as_a_whole() {
        let rows = made(&Fill::ConstantRows { width: 50 }, Element::F32);
        assert!(rows.chunks(50).all(|row| row.iter().all(|value| *value == row[0])));
        assert_ne!(rows[0], rows[50]);
        let masked = made(&Fill::MaskedRows { width: 50 }, Element::F32);
        let low = -Format::F32.max_finite() / 4.0;
        let share = |row: &[f64]| row.iter().filter(|value| **value == low).count();
        assert!(masked.chunks(50).enumerate().all(|(row, row_values)| {
            let share = share(row_values);
            if row % 2 == 1 { share == 50 } else { (5..45).contains(&share) }
        }));
    }

    #[test]
    fn neighbours_cancel_to_their_last_digits_and_ties_are_many() {
        let pairs = made(&Fill::Cancelling, Element::F32);
        for pair in pairs.chunks(2) {
            assert!((pair[0] + pair[1]).abs() <= 4.0 * Format::F32.ulp(pair[0]), "{pair:?}");
        }
        let mut ties = made(&Fill::Ties { distinct: 5 }, Element::F32);
        ties.sort_by(f64::total_cmp);
        ties.dedup();
        assert_eq!(ties, [-2.0, -1.0, 0.0, 1.0, 2.0]);
        let odd = made(&Fill::NonFinite, Element::F16);
        let wild = odd.iter().filter(|value| !value.is_finite()).count();
        assert!((60..250).contains(&wild), "{wild}");
    }
}
