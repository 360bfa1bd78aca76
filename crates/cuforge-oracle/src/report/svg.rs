//! The same charts as one SVG picture: a row an output, its histogram to the left, its heat map to the right.

use std::fmt::Write as _;

use super::chart::{first_row, rows};
use super::junit::xml_text;
use crate::spread::HeatMap;
use crate::verdict::{OutputReport, Report};

const WIDTH: usize = 960;
const LEFT: usize = 440;
const LABEL: usize = 90;
const LINE: usize = 16;
const MAP_LEFT: usize = LEFT + 90;
const MAP_WIDTH: usize = WIDTH - MAP_LEFT - 20;
const TITLE: usize = 48;

/// All outputs of all reports as one SVG document: how errors spread over their bounds, in powers of two, and where in
/// the tensor elements disagree. Green lies within the bound, red beyond it.
///
/// ```
/// let picture = cuforge_oracle::report::to_svg(&[]);
/// assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
/// ```
#[must_use]
pub fn to_svg(reports: &[Report]) -> String {
    let mut body = String::new();
    let mut top = 20;
    for report in reports {
        for output in &report.outputs {
            top += panel(&mut body, report, output, top);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" viewBox=\"0 0 {WIDTH} {top}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// One output; its height.
fn panel(body: &mut String, report: &Report, output: &OutputReport, top: usize) -> usize {
    let found = &output.comparison;
    let name = format!("{} {} `{}`: {}", report.case, report.shape, output.buffer, report.verdict.word());
    let worst = match found.worst_ratio() {
        ratio if ratio.is_finite() => format!("the worst error is {ratio:.3} of its bound"),
        _ => "the worst is no matter of bounds".to_owned(),
    };
    let (wrong, all) = (found.mismatches, found.elements);
    let sub =
        format!("{} on {}; {wrong} of {all} elements disagree; {worst}", report.schedule, report.adapter);
    let _ = writeln!(
        body,
        "<text x=\"20\" y=\"{}\" font-size=\"14\" font-weight=\"bold\">{}</text>",
        top + 14,
        xml_text(&name)
    );
    let _ = writeln!(body, "<text x=\"20\" y=\"{}\" fill=\"#555555\">{}</text>", top + 30, xml_text(&sub));
    let bars = histogram(body, output, top + TITLE);
    let map = heat_map(body, &found.map, top + TITLE);
    TITLE + bars.max(map) + 24
}

fn histogram(body: &mut String, output: &OutputReport, top: usize) -> usize {
    let rows = rows(&output.comparison.histogram);
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let room = LEFT - 20 - LABEL - 60;
    let mut beyond = false;
    for (index, (label, count)) in rows.iter().enumerate() {
        let y = top + index * LINE;
        if label == "bound" {
            beyond = true;
            let _ = writeln!(
                body,
                "<line x1=\"20\" y1=\"{0}\" x2=\"{LEFT}\" y2=\"{0}\" stroke=\"#b00020\" stroke-dasharray=\"4 3\"/>\
                 <text x=\"{LEFT}\" y=\"{1}\" text-anchor=\"end\" fill=\"#b00020\">bound</text>",
                y + LINE / 2,
                y + LINE / 2 - 3
            );
            continue;
        }
        let colour = if beyond { "#d6453d" } else { "#4a9d5b" };
        // The least count still shows.
        let width =
            if *count == 0 { 0 } else { (room as u128 * u128::from(*count) / u128::from(most)).max(1) };
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"#555555\">{count}</text>",
            20 + LABEL - 8,
            y + 12,
            xml_text(label),
            20 + LABEL,
            y + 2,
            LINE - 4,
            20 + LABEL + width as usize + 6,
            y + 12,
        );
    }
    rows.len() * LINE
}

fn heat_map(body: &mut String, map: &HeatMap, top: usize) -> usize {
    if map.rows() == 0 {
        return 0;
    }
    let cell = (MAP_WIDTH / map.columns()).clamp(5, 12);
    // Taller than wide where it is wide, so that a picture of few rows is still one.
    let height = cell.max(9);
    for row in 0..map.rows() {
        let y = top + row * height;
        if row % 4 == 0 {
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555555\">row {}</text>",
                MAP_LEFT - 6,
                y + 8,
                first_row(map, row)
            );
        }
        for column in 0..map.columns() {
            let all = map.elements(row, column);
            if all > 0 {
                let wrong = map.mismatches(row, column) as f64 / all as f64;
                let _ = writeln!(
                    body,
                    "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
                    MAP_LEFT + column * cell,
                    cell - 1,
                    height - 1,
                    shade(wrong)
                );
            }
        }
    }
    let y = top + map.rows() * height + 12;
    let caption = format!("{} rows of {} elements", map.tensor_rows(), map.row_elements());
    let _ = writeln!(body, "<text x=\"{MAP_LEFT}\" y=\"{y}\" fill=\"#555555\">{caption}</text>");
    map.rows() * height + 16
}

/// Green for none, from pale to deep red for the share that disagrees.
fn shade(wrong: f64) -> String {
    if wrong == 0.0 {
        return "#cfe8d4".to_owned();
    }
    let blend = |from: f64, to: f64| (from + (to - from) * wrong.sqrt()).round() as u8;
    format!("#{:02x}{:02x}{:02x}", blend(250.0, 176.0), blend(190.0, 0.0), blend(180.0, 32.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Expected, Policy, compare};
    use crate::verdict::samples;
    use cuforge_core::Element;

    #[test]
    fn a_picture_has_a_cell_for_each_part_of_the_tensor_and_red_only_where_elements_disagree() {
        let mut report = samples::failed();
        let (right, wrong) = (vec![0; 4 * 640], [vec![0; 4 * 600], vec![1; 4 * 40]].concat());
        let policy = Policy::default();
        report.outputs[0].comparison = compare(Element::U32, &wrong, &Expected::Exact(right), None, &policy);
        report.case = "a < b".into();
        let picture = to_svg(&[report]);
        assert!(picture.contains("a &lt; b 4 `y`: failed"));
        let cells = picture.matches("fill=\"#cfe8d4\"").count();
        let red = picture.matches("fill=\"#b00020\"/>").count();
        assert_eq!((cells, red), (600, 40), "{picture}");
        // Every tag is closed: as many opened as closed, none of them inside a text.
        assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
    }
}
