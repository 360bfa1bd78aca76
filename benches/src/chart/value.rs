//! Values in words: with their units, times in the unit that suits them.

use crate::record::digits;

/// A value with its unit, times in the unit that suits them.
pub(super) fn shown(value: f64, unit: &str) -> String {
    if unit != "ns" {
        let value = digits(value);
        return if unit == "ratio" { value } else { format!("{value} {unit}") };
    }
    let (value, unit) = match value {
        value if value < 1e3 => (value, "ns"),
        value if value < 1e6 => (value / 1e3, "us"),
        value if value < 1e9 => (value / 1e6, "ms"),
        value => (value / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// As [`shown`], for the marks of an axis: no zeroes behind the point.
pub(super) fn mark(value: f64, unit: &str) -> String {
    let said = shown(value, unit);
    let (number, rest) = said.split_once(' ').map_or((said.as_str(), ""), |(number, rest)| (number, rest));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {rest}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_of_an_axis_are_short() {
        assert_eq!(
            [mark(10_000.0, "ns"), mark(0.5, "ratio"), mark(100.0, "MB/s")],
            ["10 us", "0.5", "100 MB/s"]
        );
        assert_eq!([mark(0.0, "ns"), mark(2000.0, "share")], ["0 ns", "2000 share"]);
    }
}
