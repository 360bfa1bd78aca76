//! SVG text: the frame of a chart and the few shapes that charts are made of.

use std::fmt::Write as _;

use cuforge_oracle::report::xml_text;

/// Pixels of a chart's width.
pub(super) const WIDTH: f64 = 1000.0;
/// Ink of text and axes.
pub(super) const INK: &str = "#1f2933";
/// Lines of the grid.
pub(super) const GRID: &str = "#d9e2ec";
/// Text beside the point.
pub(super) const FAINT: &str = "#52606d";

/// A chart being drawn.
pub(super) struct Drawing {
    text: String,
}

/// Where a text's given point lies.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    /// A white page of the given height, with a title and a line below it.
    pub(super) fn new(height: f64, title: &str, about: &str) -> Self {
        let mut drawing = Self { text: String::new() };
        let _ = writeln!(
            drawing.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
        );
        drawing.text((16.0, 26.0), Anchor::Start, 16, INK, title);
        drawing.text((16.0, 46.0), Anchor::Start, 11, FAINT, about);
        drawing
    }

    /// The SVG text.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: u32, ink: &str, said: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let said = xml_text(said);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{ink}\">{said}</text>"
        );
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), ink: &str, width: f64) {
        let _ = writeln!(
            self.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{ink}\" stroke-width=\"{width}\"/>"
        );
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), width: f64, height: f64, ink: &str) {
        let width = width.max(0.0);
        let _ = writeln!(
            self.text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{ink}\"/>"
        );
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), ink: &str) {
        let _ = writeln!(self.text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{ink}\"/>");
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], ink: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }
}
