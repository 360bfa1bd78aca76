//! A measured figure: its median with quartiles, and the bar that it is held to.

use std::fmt;

/// Median and quartiles of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A quarter of the samples lie below.
    pub lower: f64,
    /// Half of the samples lie below.
    pub median: f64,
    /// Three quarters of the samples lie below.
    pub upper: f64,
}

impl Spread {
    /// The spread of `samples`, interpolated between neighbours; `None` without samples or with one that is no number.
    ///
    /// ```
    /// use cuforge_benches::Spread;
    /// let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).ok_or("no samples")?;
    /// assert_eq!((spread.lower, spread.median, spread.upper), (2.0, 3.0, 4.0));
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|sample| sample.is_nan()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { lower: at(0.25), median: at(0.5), upper: at(0.75) })
    }
}

/// What a figure is held to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// The median must be at least this.
    AtLeast(f64),
    /// The median must be at most this.
    AtMost(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(f, ">= {bar}"),
            Self::AtMost(bar) => write!(f, "<= {bar}"),
        }
    }
}

/// One measured figure.
///
/// ```
/// use cuforge_benches::{Bar, Figure, Spread};
/// let spread = Spread::of(&[18.0, 20.0, 22.0]).ok_or("no samples")?;
/// let figure = Figure::new("tiled GEMM", "M instructions/s", spread, 3).with_bar(Bar::AtLeast(15.0));
/// assert_eq!(figure.holds(), Some(true));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured; stable, since later runs are compared by it.
    pub name: String,
    /// The unit, `ratio` for a ratio.
    pub unit: &'static str,
    /// The samples' spread.
    pub spread: Spread,
    /// How many rounds were taken.
    pub rounds: usize,
    /// What the median is held to.
    pub bar: Option<Bar>,
}

impl Figure {
    /// A figure that is held to nothing.
    pub fn new(name: impl Into<String>, unit: &'static str, spread: Spread, rounds: usize) -> Self {
        Self { name: name.into(), unit, spread, rounds, bar: None }
    }

    /// Holds the median to `bar`.
    #[must_use]
    pub const fn with_bar(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }

    /// Whether the median holds its bar; `None` without one.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        self.bar.map(|bar| match bar {
            Bar::AtLeast(bar) => self.spread.median >= bar,
            Bar::AtMost(bar) => self.spread.median <= bar,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((spread.lower, spread.median, spread.upper), (1.75, 2.5, 3.25));
        assert_eq!(Spread::of(&[7.0]).unwrap().upper, 7.0);
    }

    #[test]
    fn no_samples_and_no_numbers_have_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_bar_is_held_by_the_median_alone() {
        let spread = Spread { lower: 1.0, median: 2.0, upper: 9.0 };
        let figure = Figure::new("x", "ratio", spread, 30);
        assert_eq!(figure.holds(), None);
        assert_eq!(figure.clone().with_bar(Bar::AtMost(2.0)).holds(), Some(true));
        assert_eq!(figure.with_bar(Bar::AtLeast(2.1)).holds(), Some(false));
    }
}
