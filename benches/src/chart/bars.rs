//! A chart of horizontal bars: one a figure, with its quartiles, its value and the bar that it is held to.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, FAINT, GRID, INK, WIDTH};
use super::value::{mark, shown};
use crate::record::Row;

const LABELS: f64 = 440.0;
const VALUES: f64 = 120.0;
const TOP: f64 = 64.0;
const STEP: f64 = 26.0;
const THICKNESS: f64 = 14.0;
/// Letters that fit beside a bar.
const LABEL_LETTERS: usize = 64;

/// A figure that is held to nothing.
const PLAIN: &str = "#9fb3c8";
/// One that holds its bar, or whose bar was not judged.
const GOOD: &str = "#2680c2";
/// One that misses its bar.
const MISSED: &str = "#e12d39";
/// The mark of a bar.
const MARK: &str = "#102a43";

/// Draws `rows`, which have one unit.
pub(super) fn draw(title: &str, about: &str, rows: &[&Row]) -> String {
    let unit = rows.first().map_or("", |row| row.unit.as_str());
    let bottom = TOP + STEP * rows.len() as f64;
    let mut drawing = Drawing::new(bottom + 44.0, title, about);
    let values = rows.iter().flat_map(|row| [row.median, row.upper_quartile].into_iter().chain(limit(row)));
    let axis = Axis::over(values, WIDTH - LABELS - VALUES - 16.0);
    for tick in axis.ticks() {
        let x = LABELS + axis.place(tick);
        drawing.line((x, TOP), (x, bottom), GRID, 1.0);
        drawing.text((x, bottom + 18.0), Anchor::Middle, 10, FAINT, &mark(tick, unit));
    }
    if unit == "ratio" {
        let x = LABELS + axis.place(1.0);
        drawing.line((x, TOP), (x, bottom), INK, 1.0);
    }
    for (at, row) in rows.iter().enumerate() {
        let middle = TOP + STEP * (at as f64 + 0.5);
        let ink = match (&row.bar, row.holds) {
            (None, _) => PLAIN,
            (Some(_), Some(false)) => MISSED,
            (Some(_), _) => GOOD,
        };
        drawing.text((LABELS - 10.0, middle + 4.0), Anchor::End, 12, INK, &cut(&row.name));
        drawing.rectangle((LABELS, middle - THICKNESS / 2.0), axis.place(row.median), THICKNESS, ink);
        let (low, high) = (LABELS + axis.place(row.lower_quartile), LABELS + axis.place(row.upper_quartile));
        drawing.line((low, middle), (high, middle), INK, 1.5);
        for end in [low, high] {
            drawing.line((end, middle - 3.0), (end, middle + 3.0), INK, 1.5);
        }
        let mut right = high.max(LABELS + axis.place(row.median));
        if let Some(limit) = limit(row) {
            let x = LABELS + axis.place(limit);
            drawing.line((x, middle - 11.0), (x, middle + 11.0), MARK, 2.5);
            // A mark just behind the end of its bar would stand in the value.
            if x > right && x < right + 90.0 {
                right = x;
            }
        }
        drawing.text((right + 8.0, middle + 4.0), Anchor::Start, 11, INK, &shown(row.median, unit));
    }
    if rows.iter().any(|row| row.bar.is_some()) {
        let legend = "a thick tick is the bar that a figure is held to; red misses it";
        drawing.text((LABELS, bottom + 36.0), Anchor::Start, 10, FAINT, legend);
    }
    drawing.finish()
}

/// The number of a row's bar.
fn limit(row: &Row) -> Option<f64> {
    row.bar.as_deref()?.rsplit(' ').next()?.parse().ok()
}

fn cut(name: &str) -> String {
    if name.chars().count() <= LABEL_LETTERS {
        return name.to_owned();
    }
    name.chars().take(LABEL_LETTERS - 1).chain(['…']).collect()
}
