//! The memory map as an SVG picture.

use crate::svg::{bytes, legend, note, page, rect, style, text};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cuforge_core::{Segment, Stats};

const WIDTH: u32 = 1200;
const LEFT: u32 = 110;
const RIGHT: u32 = 20;
const TOP: u32 = 70;
const ROW: u32 = 26;
const GAP: u32 = 6;
const ROWS: u64 = 16;

/// Draws segments that cover a capacity: sixteen rows of it.
pub(crate) fn draw(stats: &Stats, segments: &[Segment], title: &str) -> String {
    let capacity = stats.capacity_bytes.max(1);
    let row_bytes = capacity.div_ceil(ROWS).max(1);
    let rows = capacity.div_ceil(row_bytes) as u32;
    let mut body = String::new();
    let mut entries = Vec::new();
    segments.iter().for_each(|segment| note(&mut entries, segment.state));
    let top = TOP + legend(&mut body, TOP, WIDTH, &entries) + 12;
    for row in 0..rows {
        let label = bytes(u64::from(row) * row_bytes);
        text(&mut body, LEFT - 10, top + row * (ROW + GAP) + 17, "end", &label);
    }
    let scale = f64::from(WIDTH - LEFT - RIGHT) / row_bytes as f64;
    for segment in segments {
        let (colour, name) = style(segment.state);
        let tooltip = format!("{name}: {} at {}", bytes(segment.len), segment.offset);
        let last = segment.offset + segment.len - 1;
        for row in segment.offset / row_bytes..=last / row_bytes {
            let from = segment.offset.max(row * row_bytes) - row * row_bytes;
            let to = (last + 1).min((row + 1) * row_bytes) - row * row_bytes;
            let x = f64::from(LEFT) + from as f64 * scale;
            let wide = (to - from) as f64 * scale;
            // A hairline between neighbours, where there is room for one.
            let wide = if wide > 3.0 { wide - 0.8 } else { wide.max(0.5) };
            let y = f64::from(top) + row as f64 * f64::from(ROW + GAP);
            rect(&mut body, [x, y, wide, f64::from(ROW)], colour, &tooltip);
        }
    }
    let used = stats.live_bytes + stats.pending_bytes;
    let percent = |part: u64| part as f64 * 100.0 / capacity as f64;
    let subtitle = format!(
        "{} in all: {} live in {} grants ({:.1} %), {} pending ({:.1} %), {} free, longest free run {}; peak {}",
        bytes(stats.capacity_bytes),
        bytes(stats.live_bytes),
        stats.live_grants,
        percent(stats.live_bytes),
        bytes(stats.pending_bytes),
        percent(stats.pending_bytes),
        bytes(capacity.saturating_sub(used)),
        bytes(stats.largest_free_bytes),
        bytes(stats.peak_bytes),
    );
    page(WIDTH, top + rows * (ROW + GAP) + 14, title, &subtitle, &body)
}
