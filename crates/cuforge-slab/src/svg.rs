//! Pieces that both pictures are made of: colours, legends, byte counts, text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use cuforge_core::{Lifetime, SegmentState};

/// Queues with a colour of their own; the others share the last.
const QUEUE_COLOURS: [&str; 6] = ["#f59e0b", "#d946ef", "#84cc16", "#fb7185", "#a16207", "#78716c"];

/// The colour of a state, and its name in the legend.
pub(crate) fn style(state: SegmentState) -> (&'static str, String) {
    match state {
        SegmentState::Live { lifetime: Lifetime::Resident } => ("#1e3a8a", "live, resident".into()),
        SegmentState::Live { lifetime: Lifetime::General } => ("#2563eb", "live, general".into()),
        SegmentState::Live { lifetime: Lifetime::Transient } => ("#06b6d4", "live, transient".into()),
        SegmentState::Pending { waits_for: Some(stamp) } => {
            let queue = stamp.queue.0 as usize;
            let colour = QUEUE_COLOURS[queue.min(QUEUE_COLOURS.len() - 1)];
            (colour, format!("pending, queue {queue}"))
        }
        SegmentState::Pending { waits_for: None } => ("#9ca3af", "pending, behind a neighbour".into()),
        SegmentState::Guard => ("#dc2626", "guard".into()),
        _ => ("#eef2f7", "free".into()),
    }
}

/// The picture's frame. `body` is drawn inside.
pub(crate) fn page(width: u32, height: u32, title: &str, subtitle: &str, body: &str) -> String {
    let (title, subtitle) = (escape(title), escape(subtitle));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"20\" y=\"30\" font-size=\"18\" font-weight=\"bold\" fill=\"#111827\">{title}</text>\n\
         <text x=\"20\" y=\"50\" fill=\"#4b5563\">{subtitle}</text>\n{body}</svg>\n"
    )
}

/// Colour samples with names, side by side from `(20, y)`, in rows as wide as `width`; the height that they take.
pub(crate) fn legend(body: &mut String, y: u32, width: u32, entries: &[(&'static str, String)]) -> u32 {
    let (mut x, mut line) = (20, 0);
    for (colour, name) in entries {
        let wide = 30 + name.chars().count() as u32 * 8;
        if x + wide > width - 20 {
            (x, line) = (20, line + 1);
        }
        let top = y + line * 20;
        rect(body, [f64::from(x), f64::from(top), 14.0, 14.0], colour, name);
        text(body, x + 20, top + 12, "start", name);
        x += wide;
    }
    (line + 1) * 20
}

/// The entries of a legend in the order of first use.
pub(crate) fn note(entries: &mut Vec<(&'static str, String)>, state: SegmentState) {
    let (colour, name) = style(state);
    if !entries.iter().any(|(_, known)| *known == name) {
        entries.push((colour, name));
    }
}

/// A filled rectangle `[x, y, width, height]` with a tooltip.
pub(crate) fn rect(body: &mut String, [x, y, width, height]: [f64; 4], fill: &str, tooltip: &str) {
    let tooltip = escape(tooltip);
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        body,
        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\"><title>{tooltip}</title></rect>"
    );
}

/// Small text; `anchor` is `start`, `middle` or `end`.
pub(crate) fn text(body: &mut String, x: u32, y: u32, anchor: &str, words: &str) {
    let words = escape(words);
    let _ =
        writeln!(body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#374151\">{words}</text>");
}

/// A byte count for people: `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (count.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    let tenths = (u128::from(count) * 10) >> (unit * 10);
    if tenths.is_multiple_of(10) {
        format!("{} {}", tenths / 10, units[unit as usize])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, units[unit as usize])
    }
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_short_and_text_cannot_break_out_of_the_picture() {
        assert_eq!((bytes(0), bytes(1023), bytes(1536)), ("0 B".into(), "1023 B".into(), "1.5 KiB".into()));
        assert_eq!((bytes(1 << 30), bytes(u64::MAX)), ("1 GiB".into(), "16383.9 PiB".into()));
        assert!(!page(10, 10, "</svg><script>", "&", "").contains("<script>"));
    }
}
