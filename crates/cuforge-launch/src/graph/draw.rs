//! Drawings of a graph that a person can read: as DOT, and as an SVG of its own.

use crate::graph::table::{NodeRow, NodeTable};
use std::fmt::{self, Write};

/// Sizes of the SVG, in pixels.
const BOX_WIDTH: usize = 300;
const LINE: usize = 18;
const GAP_X: usize = 40;
const GAP_Y: usize = 44;
const MARGIN: usize = 24;

/// Characters that fit into a box, and argument lines of one.
const CHARACTERS: usize = 44;
const MOST_LINES: usize = 8;

impl NodeTable {
    /// The graph in Graphviz's language: a box a node, programmatic edges dashed, graphs inside as clusters.
    pub fn to_dot(&self) -> String {
        let mut text = String::from(
            "digraph graph_nodes {\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];\n",
        );
        // Writing to a string does not fail.
        let _ = self.dot("n", &mut text);
        text.push_str("}\n");
        text
    }

    fn dot(&self, prefix: &str, out: &mut String) -> fmt::Result {
        for (place, row) in self.rows.iter().enumerate() {
            let lines: Vec<String> = row.lines(place).iter().map(|line| quoted(line)).collect();
            let fill = row.colour();
            writeln!(out, "  {prefix}{place} [label=\"{}\", fillcolor=\"{fill}\"];", lines.join("\\n"))?;
            for (from, early) in &row.depends_on {
                let style = if *early { " [style=dashed, label=\"programmatic\"]" } else { "" };
                writeln!(out, "  {prefix}{from} -> {prefix}{place}{style};")?;
            }
            for (number, inside) in row.inside.iter().enumerate() {
                let inner = format!("{prefix}{place}_{number}_");
                writeln!(out, "  subgraph cluster_{inner} {{\n  label=\"in node {place}, graph {number}\";")?;
                inside.dot(&inner, out)?;
                writeln!(out, "  }}")?;
                if !inside.rows.is_empty() {
                    writeln!(out, "  {prefix}{place} -> {inner}0 [style=dotted, arrowhead=none];")?;
                }
            }
        }
        Ok(())
    }

    /// The graph as an SVG drawing: a row for each depth, what it runs and over what in each box, programmatic edges
    /// dashed.
    pub fn to_svg(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.svg(&mut text);
        text
    }

    fn svg(&self, out: &mut String) -> fmt::Result {
        let places = self.places();
        let right = places.iter().map(|place| place.x + BOX_WIDTH).max().unwrap_or(0) + MARGIN;
        let bottom = places.iter().map(|place| place.y + place.height).max().unwrap_or(0) + MARGIN;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{right}\" height=\"{bottom}\" \
             viewBox=\"0 0 {right} {bottom}\" font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(
            out,
            "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#555\"/></marker></defs>"
        )?;
        writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
        for (row, place) in self.rows.iter().zip(&places) {
            for (from, early) in &row.depends_on {
                let Some(above) = places.get(*from) else { continue };
                let (x1, y1) = (above.x + BOX_WIDTH / 2, above.y + above.height);
                let (x2, y2) = (place.x + BOX_WIDTH / 2, place.y);
                let dash = if *early { " stroke-dasharray=\"6 4\"" } else { "" };
                // Straight down first: a taller box beside it must not hide where the edge goes.
                let below = above.below;
                let bend = y2.saturating_sub(below) / 2;
                writeln!(
                    out,
                    "<path d=\"M{x1} {y1} L{x1} {below} C{x1} {} {x2} {} {x2} {y2}\" fill=\"none\" stroke=\"#555\" \
                     stroke-width=\"1.5\"{dash} marker-end=\"url(#tip)\"/>",
                    below + bend,
                    y2.saturating_sub(bend),
                )?;
            }
        }
        for (number, (row, place)) in self.rows.iter().zip(&places).enumerate() {
            let Place { x, y, height, .. } = *place;
            let fill = row.colour();
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"{fill}\" \
                 stroke=\"#333\"/>"
            )?;
            for (at, line) in row.lines(number).iter().enumerate() {
                let weight = if at == 0 { " font-weight=\"bold\"" } else { "" };
                let (x, y) = (x + 10, y + LINE * (at + 1));
                writeln!(out, "<text x=\"{x}\" y=\"{y}\"{weight}>{}</text>", escaped(&cut(line)))?;
            }
        }
        writeln!(out, "</svg>")
    }

    /// Where each box goes: below all that it depends on, beside those of its depth.
    fn places(&self) -> Vec<Place> {
        let mut depths = Vec::<usize>::new();
        for row in &self.rows {
            let above = row.depends_on.iter().filter_map(|(from, _)| depths.get(*from));
            depths.push(above.max().map_or(0, |depth| depth + 1));
        }
        let deepest = depths.iter().max().map_or(0, |depth| depth + 1);
        let heights: Vec<usize> =
            self.rows.iter().enumerate().map(|(at, row)| LINE * row.lines(at).len() + LINE / 2).collect();
        let mut tops = vec![MARGIN; deepest + 1];
        for depth in 0..deepest {
            let tallest = depths.iter().zip(&heights).filter(|(d, _)| **d == depth).map(|(_, h)| *h).max();
            tops[depth + 1] = tops[depth] + tallest.unwrap_or(0) + GAP_Y;
        }
        let mut taken = vec![0; deepest];
        let place = |(depth, height): (&usize, &usize)| {
            let column = taken[*depth];
            taken[*depth] += 1;
            let (x, y) = (MARGIN + column * (BOX_WIDTH + GAP_X), tops[*depth]);
            Place { x, y, height: *height, below: tops[*depth + 1] - GAP_Y }
        };
        depths.iter().zip(&heights).map(place).collect()
    }
}

struct Place {
    x: usize,
    y: usize,
    height: usize,
    /// Where the boxes of its row end.
    below: usize,
}

impl NodeRow {
    /// What stands in a node's box.
    fn lines(&self, place: usize) -> Vec<String> {
        let mut lines = vec![format!("{place}  {}", self.name)];
        if let (Some([gx, gy, gz]), Some([bx, by, bz])) = (self.grid, self.block) {
            let shared =
                if self.shared_bytes > 0 { format!(", {} bytes", self.shared_bytes) } else { String::new() };
            lines.push(format!("{gx}x{gy}x{gz} blocks of {bx}x{by}x{bz}{shared}"));
        }
        lines.extend(self.arguments.iter().map(|(name, value)| format!("{name} = {value}")));
        if !self.slots.is_empty() {
            lines.push(format!("slots: {}", self.slots.join(", ")));
        }
        for inside in &self.inside {
            let count = inside.rows.len();
            lines.push(format!("a graph of {count} {}:", if count == 1 { "node" } else { "nodes" }));
            lines.extend(inside.rows.iter().map(|row| format!("\u{b7} {}", row.name)));
        }
        if lines.len() > MOST_LINES {
            let left = lines.len() + 1 - MOST_LINES;
            lines.truncate(MOST_LINES - 1);
            lines.push(format!("and {left} more"));
        }
        lines
    }

    fn colour(&self) -> &'static str {
        use crate::graph_error::NodeKind;
        match self.kind {
            NodeKind::Kernel => "#e8f0fe",
            NodeKind::Copy => "#e6f4ea",
            NodeKind::Fill => "#fef7e0",
            NodeKind::Conditional | NodeKind::Child => "#f3e8fd",
            _ => "#f1f3f4",
        }
    }
}

/// As much of a line as fits into a box.
fn cut(line: &str) -> String {
    if line.chars().count() <= CHARACTERS {
        return line.to_owned();
    }
    line.chars().take(CHARACTERS - 2).chain("..".chars()).collect()
}

fn quoted(line: &str) -> String {
    line.replace('\\', "\\\\").replace('"', "\\\"")
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
