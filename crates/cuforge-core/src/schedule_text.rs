//! Schedules as one line of text, for reports and records: written and read back.

use crate::schedule::{Constant, Schedule};
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// `256x1x1 items 4 TILE_M=64 PAD=true SLOPE=0.25`: the block, the items of a thread, and each constant in order.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup_size;
        write!(f, "{x}x{y}x{z} items {}", self.items_per_invocation)?;
        for (name, value) in &self.constants {
            match value {
                Constant::Int(value) => write!(f, " {name}={value}")?,
                // The shortest text that reads back, always with a point, an exponent or a letter.
                Constant::Float(value) => write!(f, " {name}={value:?}")?,
                Constant::Bool(value) => write!(f, " {name}={value}")?,
            }
        }
        Ok(())
    }
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is no part of a schedule such as `256x1x1 items 4 TILE=64`")]
pub struct ScheduleTextError {
    /// What could not be read; empty if the text ends too soon.
    pub part: String,
}

/// Reads what `Display` writes.
///
/// ```
/// use cuforge_core::{Constant, Schedule};
/// let schedule = Schedule::new([16, 16, 1])
///     .with_items_per_invocation(4)
///     .with_constant("TILE", Constant::Int(64))
///     .with_constant("SLOPE", Constant::Float(0.1));
/// assert_eq!(schedule.to_string(), "16x16x1 items 4 TILE=64 SLOPE=0.1");
/// assert_eq!(schedule.to_string().parse(), Ok(schedule));
/// ```
impl FromStr for Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |part: &str| ScheduleTextError { part: part.to_string() };
        let mut parts = text.split_whitespace();
        let block = parts.next().unwrap_or_default();
        let mut sides = block.split('x').map(|side| side.parse::<u32>().map_err(|_| wrong(block)));
        let mut side = || sides.next().unwrap_or_else(|| Err(wrong(block)));
        let workgroup_size = [side()?, side()?, side()?];
        if sides.next().is_some() {
            return Err(wrong(block));
        }
        if parts.next() != Some("items") {
            return Err(wrong(text));
        }
        let items = parts.next().unwrap_or_default();
        let items = items.parse().map_err(|_| wrong(items))?;
        let mut schedule = Self::new(workgroup_size).with_items_per_invocation(items);
        for part in parts {
            let (name, value) =
                part.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| wrong(part))?;
            let constant = match value {
                "true" => Constant::Bool(true),
                "false" => Constant::Bool(false),
                value => match value.parse() {
                    Ok(value) => Constant::Int(value),
                    Err(_) => Constant::Float(value.parse().map_err(|_| wrong(part))?),
                },
            };
            schedule = schedule.with_constant(name.to_string(), constant);
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_reads_back_as_what_it_was() {
        let schedule = Schedule::new([1024, 1, 64])
            .with_items_per_invocation(u32::MAX)
            .with_constant("A", Constant::Int(i64::MIN))
            .with_constant("B", Constant::Float(1.0))
            .with_constant("C", Constant::Float(-1e-300))
            .with_constant("D", Constant::Float(f64::INFINITY))
            .with_constant("E", Constant::Bool(false));
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }

    #[test]
    fn what_is_no_schedule_is_named() {
        for (text, part) in [
            ("", ""),
            ("256", "256"),
            ("1x1x1x1 items 1", "1x1x1x1"),
            ("1x1x1", "1x1x1"),
            ("1x1x1 items x", "x"),
            ("1x1x1 items 1 TILE", "TILE"),
            ("1x1x1 items 1 TILE=big", "TILE=big"),
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap_err().part, part, "{text}");
        }
    }
}
