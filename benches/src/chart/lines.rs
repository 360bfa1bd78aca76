//! A chart of lines: figures whose names differ in one number, over that number.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, FAINT, GRID, INK, WIDTH};
use super::value::mark;
use crate::record::{Row, digits};

const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 320.0;
/// Fewer points than this are bars.
const POINTS: usize = 3;
const INKS: &[&str] = &["#2680c2", "#e12d39", "#27ab83", "#cb6e17", "#8719e0", "#627d98"];

/// One line.
pub(super) struct Series<'a> {
    /// The name, with `N` for the number.
    name: String,
    points: Vec<(f64, &'a Row)>,
}

/// Parts `rows` into lines and the rest, each in the order of the rows.
pub(super) fn series<'a>(rows: &[&'a Row]) -> (Vec<Series<'a>>, Vec<&'a Row>) {
    let mut found: Vec<Series<'a>> = Vec::new();
    for row in rows {
        let Some((name, number)) = template(&row.name) else { continue };
        match found.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((number, row)),
            None => found.push(Series { name, points: vec![(number, row)] }),
        }
    }
    found.retain(|series| series.points.len() >= POINTS);
    for series in &mut found {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let in_line = |row: &Row| {
        template(&row.name).is_some_and(|(name, _)| found.iter().any(|series| series.name == name))
    };
    let alone = rows.iter().copied().filter(|row| !in_line(row)).collect();
    (found, alone)
}

/// A name with its first number replaced by `N`, and the number.
fn template(name: &str) -> Option<(String, f64)> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let rest = &name[start..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ',')).unwrap_or(rest.len());
    let digits = rest[..end].trim_end_matches(',');
    let number = digits.replace(',', "").parse().ok()?;
    Some((format!("{}N{}", &name[..start], &rest[digits.len()..]), number))
}

/// Draws lines that have one unit.
pub(super) fn draw(title: &str, about: &str, unit: &str, series: &[Series<'_>]) -> String {
    let bottom = TOP + HEIGHT;
    let mut drawing = Drawing::new(bottom + 40.0 + 20.0 * series.len() as f64, title, about);
    let all = || series.iter().flat_map(|series| &series.points);
    let across = Axis::over(all().map(|(number, _)| *number), WIDTH - LEFT - RIGHT);
    let up =
        Axis::over(all().flat_map(|(_, row)| [row.lower_quartile, row.median, row.upper_quartile]), HEIGHT);
    for tick in across.ticks() {
        let x = LEFT + across.place(tick);
        drawing.line((x, TOP), (x, bottom), GRID, 1.0);
        drawing.text((x, bottom + 16.0), Anchor::Middle, 10, FAINT, &plain(tick));
    }
    for tick in up.ticks() {
        let y = bottom - up.place(tick);
        drawing.line((LEFT, y), (WIDTH - RIGHT, y), GRID, 1.0);
        drawing.text((LEFT - 8.0, y + 4.0), Anchor::End, 10, FAINT, &mark(tick, unit));
    }
    for (at, series) in series.iter().enumerate() {
        let ink = INKS[at % INKS.len()];
        let place = |number: f64, value: f64| (LEFT + across.place(number), bottom - up.place(value));
        let points: Vec<(f64, f64)> =
            series.points.iter().map(|(number, row)| place(*number, row.median)).collect();
        drawing.path(&points, ink);
        for (number, row) in &series.points {
            drawing.line(place(*number, row.lower_quartile), place(*number, row.upper_quartile), ink, 1.5);
            drawing.dot(place(*number, row.median), ink);
        }
        let y = bottom + 36.0 + 20.0 * at as f64;
        drawing.rectangle((LEFT, y - 8.0), 18.0, 4.0, ink);
        drawing.text((LEFT + 26.0, y), Anchor::Start, 12, INK, &series.name);
    }
    drawing.finish()
}

/// A whole number as it is, any other with four digits.
fn plain(value: f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { digits(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_a_name_is_what_it_grows_with() {
        assert_eq!(template("replay of 1,000 nodes"), Some(("replay of N nodes".into(), 1000.0)));
        assert_eq!(template("16, then 4"), Some(("N, then 4".into(), 16.0)));
        assert_eq!(template("disk hit"), None);
    }
}
