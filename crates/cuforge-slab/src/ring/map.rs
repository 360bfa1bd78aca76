//! The memory map of a ring.

use super::RingSlab;
use crate::span::{RELEASED, STAMPED};
use cuforge_core::{Lifetime, Segment, SegmentState};

impl RingSlab {
    /// Calls `visit` with every segment, in ascending order and without gaps.
    pub(super) fn visit(&self, visit: &mut dyn FnMut(Segment)) {
        let free = |from: u64, to: u64, visit: &mut dyn FnMut(Segment)| {
            if from < to {
                visit(Segment { offset: from, len: to - from, state: SegmentState::Free });
            }
        };
        if self.wrapped() {
            self.visit_spans(visit, self.hot.lap, self.head(), 0);
            free(self.hot.offset, self.tail_offset(), visit);
            self.visit_spans(visit, self.hot.tail, self.hot.lap, self.tail_offset());
            free(self.capacity, self.grown, visit);
        } else {
            free(0, self.tail_offset(), visit);
            self.visit_spans(visit, self.hot.tail, self.head(), self.tail_offset());
            free(self.hot.offset, self.grown, visit);
        }
    }

    /// Calls `visit` with the pieces of all spans that lie between two logical positions, in order; `offset` is where
    /// the first is in the slab.
    fn visit_spans(&self, visit: &mut dyn FnMut(Segment), from: u64, to: u64, offset: u64) {
        let inside = |position: u64| position.wrapping_sub(self.hot.tail);
        for number in self.oldest()..self.hot.next {
            let place = self.place(number);
            let start = inside(self.start_of(number)).max(inside(from));
            let end = inside(self.spans[place].end).min(inside(to));
            if start >= end {
                continue;
            }
            let flags = self.spans[place].handle_and_flags;
            let state = if flags & RELEASED != 0 {
                let waits_for = (flags & STAMPED != 0).then(|| self.rows.first(place)).flatten();
                SegmentState::Pending { waits_for }
            } else {
                SegmentState::Live { lifetime: Lifetime::Transient }
            };
            visit(Segment { offset: offset + (start - inside(from)), len: end - start, state });
        }
    }
}
