//! The areas of `cargo xtask bench`: what each measures, and under which settings.

use std::error::Error;

use crate::figure::Figure;

/// How thoroughly to measure.
///
/// ```
/// use cuforge_benches::Settings;
/// assert!(Settings { quick: true }.rounds() < Settings { quick: false }.rounds());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Fewer rounds: shows that the bench works, and judges nothing.
    pub quick: bool,
}

impl Settings {
    /// How many rounds to take: 30, or 5 if quick.
    #[must_use]
    pub const fn rounds(&self) -> usize {
        if self.quick { 5 } else { 30 }
    }
}

/// The figures of an area, or why they could not be measured.
pub type Measured = Result<Vec<Figure>, Box<dyn Error>>;

/// One area.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in a few words.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&Settings) -> Measured,
}
