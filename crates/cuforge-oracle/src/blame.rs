//! What three legs can say: which pair disagrees, and whose fault that is.

use std::fmt;

/// What two of the three legs made of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The same, within the bounds.
    Agree,
    /// Something else.
    Differ,
    /// One of them could not finish: it did something illegal.
    Faults(String),
    /// It could not be tried.
    NotRun(String),
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agree => f.write_str("agree"),
            Self::Differ => f.write_str("differ"),
            Self::Faults(why) => write!(f, "fault: {why}"),
            Self::NotRun(why) => write!(f, "not run: {why}"),
        }
    }
}

/// Where a fault lies.
///
/// ```
/// use cuforge_oracle::Blame;
/// assert!(Blame::CompilerOrHardware.describe().contains("ptxas"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// Device and simulated device do the same, and it is not what the reference says; or the simulated device caught
    /// the kernel at something illegal.
    Kernel,
    /// The device does what the reference says, the simulated device something else on the same PTX.
    Semantics,
    /// The simulated device does what the reference says, the device something else on the same PTX.
    CompilerOrHardware,
    /// Nothing can be said.
    Undetermined,
}

impl Blame {
    /// One lower-case word: `kernel`, `semantics`, `compiler-or-hardware`, `undetermined`. Stable.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Semantics => "semantics",
            Self::CompilerOrHardware => "compiler-or-hardware",
            Self::Undetermined => "undetermined",
        }
    }

    /// In a few words for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Kernel => "the kernel, its schedule or its reference",
            Self::Semantics => "the simulated device's semantics",
            Self::CompilerOrHardware => {
                "the compiler behind the PTX (ptxas or the driver's), the hardware, or a race that strikes only there"
            }
            Self::Undetermined => "undetermined",
        }
    }
}

/// The three legs of one case.
///
/// ```
/// use cuforge_oracle::{Blame, Leg, Legs};
/// let mut legs = Legs { shape: "4x4".into(), device: Leg::Agree, simulated: Leg::Agree, between: Leg::Agree };
/// assert_eq!(legs.blame(), None);
/// legs.device = Leg::Differ;
/// legs.between = Leg::Differ;
/// assert_eq!(legs.blame(), Some(Blame::CompilerOrHardware));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legs {
    /// The shape of the case that they ran, the whole one or a reduced one.
    pub shape: String,
    /// The device and the reference.
    pub device: Leg,
    /// The simulated device and the reference.
    pub simulated: Leg,
    /// The device and the simulated device.
    pub between: Leg,
}

impl Legs {
    /// Where the fault lies; none if no pair disagrees.
    #[must_use]
    pub const fn blame(&self) -> Option<Blame> {
        match (&self.device, &self.simulated) {
            (Leg::Agree, Leg::Agree) => None,
            // What the detectors find by rule need not have struck elsewhere.
            (_, Leg::Faults(_)) => Some(Blame::Kernel),
            (Leg::Agree, Leg::Differ) => Some(Blame::Semantics),
            (Leg::Differ | Leg::Faults(_), Leg::Agree) => Some(Blame::CompilerOrHardware),
            (Leg::Differ, Leg::Differ) if matches!(self.between, Leg::Agree) => Some(Blame::Kernel),
            (Leg::Agree | Leg::NotRun(_), Leg::NotRun(_)) | (Leg::NotRun(_), Leg::Agree) => None,
            _ => Some(Blame::Undetermined),
        }
    }
}

impl fmt::Display for Legs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {}: device and reference {}; simulated device and reference {}; device and simulated device {}",
            self.shape, self.device, self.simulated, self.between
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_that_disagrees_names_the_one_at_fault() {
        let fault = || Leg::Faults("out of bounds".to_owned());
        let none = || Leg::NotRun("no PTX".to_owned());
        let blame = |device, simulated, between| {
            Legs { shape: String::new(), device, simulated, between }.blame().map(Blame::word)
        };
        assert_eq!(blame(Leg::Agree, Leg::Agree, Leg::Agree), None);
        assert_eq!(blame(Leg::Differ, Leg::Differ, Leg::Agree), Some("kernel"));
        assert_eq!(blame(Leg::Differ, Leg::Differ, Leg::Differ), Some("undetermined"));
        assert_eq!(blame(Leg::Differ, Leg::Agree, Leg::Differ), Some("compiler-or-hardware"));
        assert_eq!(blame(fault(), Leg::Agree, none()), Some("compiler-or-hardware"));
        assert_eq!(blame(Leg::Agree, Leg::Differ, Leg::Differ), Some("semantics"));
        assert_eq!(blame(Leg::Agree, fault(), none()), Some("kernel"));
        assert_eq!(blame(fault(), fault(), none()), Some("kernel"));
        assert_eq!(blame(Leg::Differ, none(), none()), Some("undetermined"));
        assert_eq!(blame(Leg::Agree, none(), none()), None);
    }
}
