//! Charts of one comparison in text: how errors spread over their bounds, and where in the tensor elements disagree.

use std::fmt::Write as _;

use crate::compare::Comparison;
use crate::spread::{HeatMap, Histogram};

/// The longest bar, in characters.
const BAR: u64 = 40;

/// The spread of errors over their bounds, a line a bucket from the first to the last that is not empty. The rule marks
/// the bound: what lies below it is a mismatch.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare, report};
/// let expected = Expected::Bounded { values: vec![1.0; 3], bounds: vec![0.5; 3] };
/// let got: Vec<u8> = [1.0f32, 1.5, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let chart = report::histogram(&compare(Element::F32, &got, &expected, None, &Policy::default()));
/// assert!(chart.contains("exact") && chart.contains("bound") && chart.contains("<= 8"));
/// ```
#[must_use]
pub fn histogram(comparison: &Comparison) -> String {
    let lines = rows(&comparison.histogram);
    let widest = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let most = lines.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (label, count) in lines {
        if label == BOUND {
            let _ = writeln!(text, "{label:>widest$} {}", "-".repeat(BAR as usize + 8));
            continue;
        }
        // The least count still shows.
        let bar = "#".repeat((u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize);
        let _ = writeln!(text, "{label:>widest$} |{bar:<width$} {count}", width = BAR as usize);
    }
    text
}

const BOUND: &str = "bound";

/// Labels and counts from top to bottom, with the mark of the bound among them.
pub(super) fn rows(histogram: &Histogram) -> Vec<(String, u64)> {
    let buckets: Vec<(f64, f64, u64)> = histogram.buckets().collect();
    let filled = |bucket: &(f64, f64, u64)| bucket.2 > 0;
    // The bucket that ends at the bound is always there, so that the rule has its place.
    let at_bound = buckets.iter().position(|(_, high, _)| *high == 1.0).unwrap_or(0);
    let first = buckets.iter().position(filled).unwrap_or(at_bound).min(at_bound);
    let last = buckets.iter().rposition(filled).unwrap_or(at_bound).max(at_bound);
    let mut rows = vec![("exact".to_owned(), histogram.exact)];
    for (low, high, count) in &buckets[first..=last] {
        let label =
            if high.is_finite() { format!("<= {}", edge(*high)) } else { format!("> {}", edge(*low)) };
        rows.push((label, *count));
        if *high == 1.0 {
            rows.push((BOUND.to_owned(), 0));
        }
    }
    if histogram.unmeasured > 0 {
        rows.push(("no number".to_owned(), histogram.unmeasured));
    }
    rows
}

/// A power of two as people read it.
fn edge(value: f64) -> String {
    if value >= 1.0 { format!("{value}") } else { format!("1/{}", 1.0 / value) }
}

/// Where elements disagree, a character a cell: a dot where all agree, else a digit for the tenths that do not, `#`
/// where none does.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare, report};
/// let (right, wrong) = (vec![0; 4 * 128], [vec![0; 4 * 64], vec![1; 4 * 64]].concat());
/// let map = report::heat_map(&compare(Element::U32, &wrong, &Expected::Exact(right), None, &Policy::default()));
/// assert!(map.lines().next_back().is_some_and(|line| line.contains("####")));
/// ```
#[must_use]
pub fn heat_map(comparison: &Comparison) -> String {
    let map = &comparison.map;
    let mut text = String::new();
    for row in 0..map.rows() {
        let cells = (0..map.columns()).map(|column| cell(map, row, column));
        let _ = writeln!(text, "{:>10} {}", first_row(map, row), cells.collect::<String>());
    }
    text
}

fn cell(map: &HeatMap, row: usize, column: usize) -> char {
    match (map.mismatches(row, column), map.elements(row, column)) {
        (_, 0) => ' ',
        (0, _) => '.',
        (wrong, all) if wrong == all => '#',
        (wrong, all) => char::from_digit((wrong * 10 / all) as u32, 10).unwrap_or('9'),
    }
}

/// The first row of the tensor that a row of the picture shows.
pub(super) fn first_row(map: &HeatMap, row: usize) -> u64 {
    // Row r of the tensor is drawn in r * rows / tensor_rows, rounded down.
    (row as u64 * map.tensor_rows()).div_ceil(map.rows().max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Expected, Policy, compare};
    use cuforge_core::Element;

    fn comparison(got: &[f32], bound: f64) -> Comparison {
        let expected = Expected::Bounded { values: vec![1.0; got.len()], bounds: vec![bound; got.len()] };
        let bytes: Vec<u8> = got.iter().flat_map(|v| v.to_le_bytes()).collect();
        compare(Element::F32, &bytes, &expected, None, &Policy::default())
    }

    #[test]
    fn the_rule_parts_what_lies_within_the_bound_from_what_does_not() {
        let chart = histogram(&comparison(&[1.0, 1.25, 1.5, 1.75, f32::NAN], 0.5));
        let lines: Vec<&str> = chart.lines().collect();
        let rule = lines.iter().position(|line| line.contains("bound")).unwrap();
        let counts = |lines: &[&str]| -> u64 {
            lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        assert_eq!((counts(&lines[..rule]), counts(&lines[rule + 1..])), (3, 2), "{chart}");
        assert!(lines.last().unwrap().contains("no number"), "{chart}");
    }

    #[test]
    fn without_mismatches_nothing_stands_below_the_rule() {
        let chart = histogram(&comparison(&[1.0; 4], 0.5));
        assert!(chart.lines().last().unwrap().contains("bound"), "{chart}");
    }

    #[test]
    fn a_map_shows_the_wrong_rows_by_their_number() {
        let mut got = vec![1.0; 24 * 256];
        got[12 * 256..].fill(9.0);
        let map = heat_map(&comparison(&got, 0.5));
        let wrong: Vec<&str> = map.lines().filter(|line| line.contains('#')).collect();
        assert_eq!((map.lines().count(), wrong.len()), (24, 12), "{map}");
        assert!(wrong[0].trim_start().starts_with("12 "), "{map}");
    }
}
