//! Input sets: other contents for the buffers of a case, each aimed at a kind of mistake.

use crate::fill::Fill;
use crate::interface::Buffer;

/// Other inputs for a case. They replace the fills of its buffers of floats; integers (indices, counts, packed bits)
/// keep theirs.
///
/// A set that the reference cannot bound (sums that may overflow, a divisor that may be zero, a comparison that ties
/// leave open) does not apply to a case, and is reported as that.
///
/// ```
/// use cuforge_oracle::Inputs;
/// assert_eq!(Inputs::ALL.map(Inputs::name)[0], "integers");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// Integers from -4 to 4. Where results are exact in every order, equality is to the bit: no bound can hide a wrong
    /// index.
    Integers,
    /// Bell-shaped around 0.
    Normal,
    /// Magnitudes spread over 16 powers of two, both signs.
    LogScaled,
    /// Rows of one value each.
    ConstantRows,
    /// Rows that are wholly masked, between rows of which half is.
    MaskedRows,
    /// Neighbours that all but cancel.
    Cancelling,
    /// Five different values.
    Ties,
    /// The ends of the type.
    Extremes,
    /// Subnormals.
    Subnormals,
    /// NaN and infinities among ordinary values: only for cases whose [`Policy`](crate::Policy) allows NaN.
    NonFinite,
}

impl Inputs {
    /// Every set.
    pub const ALL: [Self; 10] = [
        Self::Integers,
        Self::Normal,
        Self::LogScaled,
        Self::ConstantRows,
        Self::MaskedRows,
        Self::Cancelling,
        Self::Ties,
        Self::Extremes,
        Self::Subnormals,
        Self::NonFinite,
    ];

    /// Lower-case words for reports. Stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integers => "integers",
            Self::Normal => "normal",
            Self::LogScaled => "log-scaled",
            Self::ConstantRows => "constant-rows",
            Self::MaskedRows => "masked-rows",
            Self::Cancelling => "cancelling",
            Self::Ties => "ties",
            Self::Extremes => "extremes",
            Self::Subnormals => "subnormals",
            Self::NonFinite => "non-finite",
        }
    }

    /// What it fills a buffer with.
    pub(crate) fn fill(self, buffer: &Buffer) -> Fill {
        // A buffer that is no matrix gets rows all the same: of a warp, which is what one lane alone gets wrong.
        let width = buffer.row_elements.unwrap_or(32);
        match self {
            Self::Integers => Fill::Integers { low: -4, high: 4 },
            Self::Normal => Fill::Normal { mean: 0.0, deviation: 1.0 },
            Self::LogScaled => Fill::LogUniform { min_exponent: -8, max_exponent: 7, signed: true },
            Self::ConstantRows => Fill::ConstantRows { width },
            Self::MaskedRows => Fill::MaskedRows { width },
            Self::Cancelling => Fill::Cancelling,
            Self::Ties => Fill::Ties { distinct: 5 },
            Self::Extremes => Fill::Extremes,
            Self::Subnormals => Fill::Subnormals,
            Self::NonFinite => Fill::NonFinite,
        }
    }
}
