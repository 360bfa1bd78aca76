//! Floating point as PTX defines it: every rounding, flushing, saturation, the small formats, the approximations.

pub(crate) mod approx;
#[cfg(test)]
mod exact;
pub(crate) mod narrow;
pub(crate) mod round;
pub(crate) mod single;
pub(crate) mod wide;
