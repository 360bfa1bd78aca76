//! The arithmetic a kernel was compiled to: format, flush to zero, and how far each function may be off.

use crate::format::{Format, power_of_two};

/// A function whose device version may differ from the correctly rounded result.
///
/// ```
/// use cuforge_oracle::Function;
/// assert_eq!(Function::Rsqrt.name(), "rsqrt");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is its own name")]
pub enum Function {
    Divide,
    Sqrt,
    Rsqrt,
    Exp,
    Exp2,
    Ln,
    Log2,
    Sin,
    Cos,
    Tanh,
}

impl Function {
    /// Every function, in declaration order.
    pub const ALL: [Self; 10] = [
        Self::Divide,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Exp,
        Self::Exp2,
        Self::Ln,
        Self::Log2,
        Self::Sin,
        Self::Cos,
        Self::Tanh,
    ];

    /// The lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Divide => "divide",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Exp => "exp",
            Self::Exp2 => "exp2",
            Self::Ln => "ln",
            Self::Log2 => "log2",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tanh => "tanh",
        }
    }
}

/// How far a function's result may lie from the correctly rounded one.
///
/// Units in the last place are those of the result. A rounding of half a unit is always added: the sources state
/// the distance to the correctly rounded result, not to the true one.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Function, Limit};
/// let limit = ErrorModel::fast_f32().limit(Function::Exp).limit;
/// assert_eq!(limit, Limit::UlpsByArgument { base: 2.0, slope: 1.173 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Correctly rounded.
    Rounded,
    /// At most this many units in the last place.
    Ulps(f64),
    /// `base + floor(|slope * argument|)` units in the last place.
    UlpsByArgument {
        /// Units at an argument of zero.
        base: f64,
        /// Further units per unit of the argument's magnitude.
        slope: f64,
    },
    /// At most this fraction of the result's magnitude.
    Relative(f64),
    /// An absolute error for arguments in 0.5 to 2, units in the last place elsewhere (logarithms).
    AbsoluteNearOne {
        /// Absolute error within 0.5 to 2.
        absolute: f64,
        /// Units in the last place outside of it.
        ulps: f64,
    },
    /// An absolute error for arguments of magnitude up to pi; nothing is stated beyond.
    AbsoluteWithinPi(f64),
    /// An absolute error, or `base + slope * |argument|` units in the last place where that is more.
    AbsoluteOrUlpsByArgument {
        /// Absolute error.
        absolute: f64,
        /// Units at an argument of zero.
        base: f64,
        /// Further units per unit of the argument's magnitude.
        slope: f64,
    },
    /// Units in the last place for divisors of magnitude `2^-126` to `2^126`; above, the result may be zero instead;
    /// below, nothing is stated.
    UlpsForModerateDivisor(f64),
    /// No bound is published: a result that depends on it cannot be judged.
    Unstated,
}

impl Limit {
    /// The largest distance from the correctly rounded result, for an argument (the divisor, when dividing) of
    /// magnitude between `smallest` and `largest` and a result of magnitude at most `result` in `format`.
    /// Infinity where nothing is stated.
    pub(crate) fn distance(self, smallest: f64, largest: f64, result: f64, format: Format) -> f64 {
        match self {
            Self::Rounded => 0.0,
            Self::Ulps(ulps) => ulps * format.ulp(result),
            Self::UlpsByArgument { base, slope } => {
                // Not floored: the argument is known to a bound only, and the next step may lie within it.
                (base + slope * largest) * format.ulp(result)
            }
            Self::Relative(fraction) => fraction * result,
            Self::AbsoluteNearOne { absolute, ulps } => {
                let near = if largest >= 0.5 && smallest <= 2.0 { absolute } else { 0.0 };
                let far = if smallest < 0.5 || largest > 2.0 { ulps * format.ulp(result) } else { 0.0 };
                near.max(far)
            }
            Self::AbsoluteOrUlpsByArgument { absolute, base, slope } => {
                absolute.max((base + slope * largest) * format.ulp(result))
            }
            Self::AbsoluteWithinPi(absolute) if largest <= std::f64::consts::PI => absolute,
            Self::UlpsForModerateDivisor(ulps) if smallest >= power_of_two(-126) => {
                let replaced = if largest > power_of_two(126) { result } else { 0.0 };
                replaced.max(ulps * format.ulp(result))
            }
            Self::AbsoluteWithinPi(_) | Self::UlpsForModerateDivisor(_) | Self::Unstated => f64::INFINITY,
        }
    }
}

/// A [`Limit`] and where it is stated.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Function};
/// assert!(ErrorModel::ieee_f32().limit(Function::Exp).source.contains("Programming Guide"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatedLimit {
    /// The limit.
    pub limit: Limit,
    /// The document and table that states it.
    pub source: &'static str,
}

/// What is known about the arithmetic that ran: everything an error bound depends on.
///
/// The limits are those of NVIDIA's documents, which call theirs the outcome of extensive tests and no guarantee. All of
/// them held over all inputs on an H200; `sweeps/function_limits.cu` of this crate repeats that on any GPU.
///
/// Whether multiplications and additions were fused is no part of it: a bound for `a * b + c` always allows two
/// roundings, which covers one, and `mul_add` stands for an explicit `fma`, which is always one.
///
/// ```
/// use cuforge_oracle::{ErrorModel, Function, Limit};
/// let model = ErrorModel::ieee_f32();
/// assert_eq!(model.limit(Function::Divide).limit, Limit::Rounded);
/// assert!(ErrorModel::fast_f32().flush_to_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorModel {
    format: Format,
    flush_to_zero: bool,
    limits: [StatedLimit; Function::ALL.len()],
}

const GUIDE: &str =
    "CUDA C++ Programming Guide 12.9, mathematical functions, single-precision standard library table";
const GUIDE_F64: &str =
    "CUDA C++ Programming Guide 12.9, mathematical functions, double-precision standard library table";
const INTRINSICS: &str =
    "CUDA C++ Programming Guide 12.9, mathematical functions, intrinsic functions of -use_fast_math table";
const PTX: &str = "PTX ISA 8.8, floating point instructions";
const IEEE: &str = "IEEE 754-2019, section 5.4: correctly rounded";
const WGSL: &str = "WGSL, floating point accuracy, tables of expressions and built-in functions";
const NONE: &str = "no published bound";

const TWO_TO_MINUS_21_41: f64 = 3.588_9e-7;
const TWO_TO_MINUS_21_19: f64 = 4.180_1e-7;

const fn stated(limit: Limit, source: &'static str) -> StatedLimit {
    StatedLimit { limit, source }
}

impl ErrorModel {
    /// `f32` as compiled by default: correctly rounded division and square root, subnormals kept, standard functions.
    #[must_use]
    pub const fn ieee_f32() -> Self {
        Self {
            format: Format::F32,
            flush_to_zero: false,
            limits: [
                stated(Limit::Rounded, IEEE),
                stated(Limit::Rounded, IEEE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::Ulps(1.0), GUIDE),
                stated(Limit::Ulps(1.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
            ],
        }
    }

    /// `f32` under `--use_fast_math`: flush to zero, approximate division and square root, intrinsic functions.
    #[must_use]
    pub const fn fast_f32() -> Self {
        Self {
            format: Format::F32,
            flush_to_zero: true,
            limits: [
                stated(Limit::UlpsForModerateDivisor(2.0), INTRINSICS),
                stated(Limit::Ulps(1.0), GUIDE),
                stated(Limit::Ulps(2.0), GUIDE),
                stated(Limit::UlpsByArgument { base: 2.0, slope: 1.173 }, INTRINSICS),
                stated(Limit::Relative(power_of_two(-22)), PTX),
                stated(Limit::AbsoluteNearOne { absolute: TWO_TO_MINUS_21_41, ulps: 3.0 }, INTRINSICS),
                stated(Limit::AbsoluteNearOne { absolute: power_of_two(-22), ulps: 2.0 }, INTRINSICS),
                stated(Limit::AbsoluteWithinPi(TWO_TO_MINUS_21_41), INTRINSICS),
                stated(Limit::AbsoluteWithinPi(TWO_TO_MINUS_21_19), INTRINSICS),
                // The library version is the closer one; either may be chosen by the compiler.
                stated(Limit::Relative(power_of_two(-11)), PTX),
            ],
        }
    }

    /// `f32` as any implementation of WGSL may compute it: subnormals flushed, and functions within the accuracy table.
    #[must_use]
    pub const fn wgsl_f32() -> Self {
        let by_argument = Limit::UlpsByArgument { base: 3.0, slope: 2.0 };
        let logarithm = Limit::AbsoluteNearOne { absolute: power_of_two(-21), ulps: 3.0 };
        Self {
            format: Format::F32,
            flush_to_zero: true,
            limits: [
                stated(Limit::UlpsForModerateDivisor(2.5), WGSL),
                // Inherited from 1.0 / inverseSqrt(x): two units, then two and a half, each up to 2^-23 of the value.
                stated(Limit::Relative(5.0 * power_of_two(-23)), WGSL),
                stated(Limit::Ulps(2.0), WGSL),
                stated(by_argument, WGSL),
                stated(by_argument, WGSL),
                stated(logarithm, WGSL),
                stated(logarithm, WGSL),
                stated(Limit::AbsoluteWithinPi(power_of_two(-11)), WGSL),
                stated(Limit::AbsoluteWithinPi(power_of_two(-11)), WGSL),
                // The worse of 1e-5 and what sinh(x) / cosh(x) inherits from four exponentials and a division.
                stated(Limit::AbsoluteOrUlpsByArgument { absolute: 1e-5, base: 32.0, slope: 16.0 }, WGSL),
            ],
        }
    }

    /// `f64`, standard functions.
    #[must_use]
    pub const fn ieee_f64() -> Self {
        let mut limits = [stated(Limit::Ulps(2.0), GUIDE_F64); Function::ALL.len()];
        limits[0] = stated(Limit::Rounded, IEEE);
        limits[1] = stated(Limit::Rounded, IEEE);
        Self { format: Format::F64, flush_to_zero: false, limits }
    }

    /// Arithmetic natively in `f16` or `bf16` (or another format): rounded operations, functions without a bound.
    #[must_use]
    pub const fn native(format: Format) -> Self {
        match format {
            Format::F32 => Self::ieee_f32(),
            Format::F64 => Self::ieee_f64(),
            Format::F16 | Format::Bf16 => {
                let mut limits = [stated(Limit::Unstated, NONE); Function::ALL.len()];
                limits[0] = stated(Limit::Rounded, IEEE);
                limits[1] = stated(Limit::Rounded, IEEE);
                Self { format, flush_to_zero: false, limits }
            }
        }
    }

    /// The same, with subnormal inputs and results replaced by zero or not.
    #[must_use]
    pub const fn with_flush_to_zero(mut self, flush_to_zero: bool) -> Self {
        self.flush_to_zero = flush_to_zero;
        self
    }

    /// The same, with another limit for one function and the source that states it.
    #[must_use]
    pub const fn with_limit(mut self, function: Function, limit: Limit, source: &'static str) -> Self {
        self.limits[function as usize] = stated(limit, source);
        self
    }

    /// The format that operations round to.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether subnormal inputs and results may be replaced by zero.
    #[must_use]
    pub const fn flush_to_zero(&self) -> bool {
        self.flush_to_zero
    }

    /// The limit of a function and where it is stated.
    #[must_use]
    pub const fn limit(&self, function: Function) -> StatedLimit {
        self.limits[function as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_round_the_stated_powers_up() {
        for (literal, exponent) in [(TWO_TO_MINUS_21_41, -21.41), (TWO_TO_MINUS_21_19, -21.19)] {
            let power = 2f64.powf(exponent);
            assert!(literal >= power && literal < 1.0002 * power, "{literal} {power}");
        }
    }

    #[test]
    fn every_function_indexes_its_own_limit() {
        for (index, function) in Function::ALL.into_iter().enumerate() {
            assert_eq!(function as usize, index, "{}", function.name());
        }
    }

    #[test]
    fn a_limit_outside_its_stated_range_is_infinite() {
        let f = Format::F32;
        assert_eq!(Limit::AbsoluteWithinPi(1e-6).distance(0.0, 4.0, 1.0, f), f64::INFINITY);
        let divide = Limit::UlpsForModerateDivisor(2.0);
        assert_eq!(divide.distance(power_of_two(-127), 1.0, 1.0, f), f64::INFINITY);
        assert_eq!(divide.distance(1.0, power_of_two(127), 3.0, f), 3.0, "the result may be zero");
        assert_eq!(Limit::Unstated.distance(1.0, 1.0, 1.0, f), f64::INFINITY);
    }

    #[test]
    fn an_argument_interval_across_the_edge_of_a_table_row_takes_the_looser_row() {
        let limit = Limit::AbsoluteNearOne { absolute: 1e-9, ulps: 3.0 };
        assert_eq!(limit.distance(1.9, 2.1, 0.7, Format::F32), 3.0 * Format::F32.ulp(0.7));
        assert_eq!(limit.distance(1.0, 1.5, 0.1, Format::F32), 1e-9);
    }
}
