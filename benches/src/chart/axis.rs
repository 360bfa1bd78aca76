//! An axis: where a value lies, and which values are written beside it.

/// Beyond this ratio of the largest to the smallest value an axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 30.0;

/// An axis of values that are not negative, over a length in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    length: f64,
}

impl Axis {
    /// An axis for `values`; linear ones begin at zero.
    pub(super) fn over(values: impl Iterator<Item = f64>, length: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| value.is_finite()) {
            high = high.max(value);
            if value > 0.0 {
                low = low.min(value);
            }
        }
        let high = if high > 0.0 { high } else { 1.0 };
        let low = low.min(high);
        if high / low > LOGARITHMIC_FROM {
            let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            Self { low, high, logarithmic: true, length }
        } else {
            let step = step(high);
            Self { low: 0.0, high: (high / step).ceil() * step, logarithmic: false, length }
        }
    }

    /// How far from the axis' beginning `value` lies, in pixels.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            value / self.high
        };
        share.clamp(0.0, 1.0) * self.length
    }

    /// The values to write.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect();
        }
        let step = step(self.high);
        (0..=(self.high / step).round() as u32).map(|tick| f64::from(tick) * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that about five steps make `high`.
fn step(high: f64) -> f64 {
    let raw = high / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_values_stand_on_a_linear_axis_from_zero() {
        let axis = Axis::over([3.0, 9.0].into_iter(), 100.0);
        assert_eq!(axis.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!((axis.place(0.0), axis.place(5.0)), (0.0, 50.0));
    }

    #[test]
    fn far_values_stand_on_a_logarithmic_one() {
        let axis = Axis::over([35.0, 44_000.0].into_iter(), 400.0);
        let ticks: Vec<i64> = axis.ticks().into_iter().map(|tick| tick.round() as i64).collect();
        assert_eq!(ticks, [10, 100, 1000, 10_000, 100_000]);
        assert!((axis.place(1000.0) - 200.0).abs() < 1e-6);
        assert_eq!(axis.place(0.0), 0.0);
    }

    #[test]
    fn no_values_and_zeroes_make_an_axis_all_the_same() {
        for values in [&[][..], &[0.0], &[f64::NAN]] {
            let axis = Axis::over(values.iter().copied(), 100.0);
            assert!(axis.place(0.5).is_finite() && !axis.ticks().is_empty());
        }
    }
}
