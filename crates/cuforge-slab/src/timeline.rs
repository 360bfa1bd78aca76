//! A log as an SVG picture: calls to the right, offsets upwards.

use crate::events::Event;
use crate::svg::{bytes, legend, note, page, rect, style, text};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cuforge_core::{Lifetime, Progress, QueueId, SegmentState, Stamp};

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 520;
const LEFT: u32 = 100;
const RIGHT: u32 = 24;
const TOP: u32 = 70;

/// A grant in one state: from one call to another.
struct Bar {
    from: usize,
    to: usize,
    offset: u64,
    len: u64,
    state: SegmentState,
    tooltip: String,
}

struct Held {
    since: usize,
    offset: u64,
    len: u64,
    lifetime: Lifetime,
    holder: &'static str,
    after: Vec<Stamp>,
}

/// What is held while a log is read, and the bars that have ended.
struct Reading {
    live: BTreeMap<u64, Held>,
    pending: Vec<Held>,
    bars: Vec<Bar>,
    scopes: Vec<(u64, u64)>,
    newest: BTreeMap<u64, u64>,
    acquired: u64,
    completed: BTreeMap<u32, u64>,
    refused: Vec<usize>,
}

impl Progress for Reading {
    fn completed(&self, queue: QueueId) -> u64 {
        self.completed.get(&queue.0).copied().unwrap_or(0)
    }
}

impl Reading {
    fn finish(&mut self, held: Held, call: usize, state: SegmentState) {
        let tooltip = format!("{}: {} at {}", held.holder, bytes(held.len), held.offset);
        let (offset, len) = (held.offset, held.len);
        self.bars.push(Bar { from: held.since, to: call, offset, len, state, tooltip });
    }

    fn end(&mut self, handle: u64, call: usize, after: &[Stamp]) {
        if let Some(held) = self.live.remove(&handle) {
            let waits = Held { since: call, after: after.to_vec(), ..held };
            let state = SegmentState::Live { lifetime: held.lifetime };
            self.finish(Held { after: Vec::new(), ..held }, call, state);
            if after.iter().any(|stamp| !stamp.is_complete(self)) {
                self.pending.push(waits);
            }
        }
    }

    fn end_since(&mut self, order: u64, call: usize, after: &[Stamp]) {
        let since = |handle: &u64| self.newest.get(handle).is_some_and(|acquired| *acquired >= order);
        let ends = |held: &Held| held.lifetime != Lifetime::Resident;
        let handles: Vec<u64> = self
            .live
            .iter()
            .filter(|(handle, held)| since(handle) && ends(held))
            .map(|(handle, _)| *handle)
            .collect();
        handles.into_iter().for_each(|handle| self.end(handle, call, after));
    }

    fn reclaim(&mut self, call: usize) {
        let pending = core::mem::take(&mut self.pending);
        for held in pending {
            let open: Vec<Stamp> =
                held.after.iter().filter(|stamp| !stamp.is_complete(self)).copied().collect();
            if open.is_empty() {
                let state = SegmentState::Pending { waits_for: held.after.first().copied() };
                self.finish(held, call, state);
            } else {
                self.pending.push(held);
            }
        }
    }
}

fn read(log: &[Event]) -> (Reading, usize) {
    let mut reading = Reading {
        live: BTreeMap::new(),
        pending: Vec::new(),
        bars: Vec::new(),
        scopes: Vec::new(),
        newest: BTreeMap::new(),
        acquired: 0,
        completed: BTreeMap::new(),
        refused: Vec::new(),
    };
    let mut call = 0;
    let mut after = Vec::new();
    for event in log {
        match *event {
            Event::After(stamp) => {
                after.push(stamp);
                continue;
            }
            Event::Completed(stamp) => {
                reading.completed.insert(stamp.queue.0, stamp.epoch);
                continue;
            }
            Event::Acquired { request, handle, offset, holder } => {
                let (len, lifetime) = (request.len, request.lifetime);
                let held = Held { since: call, offset, len, lifetime, holder, after: Vec::new() };
                reading.live.insert(handle.number(), held);
                reading.newest.insert(handle.number(), reading.acquired);
                reading.acquired += 1;
            }
            Event::Refused { .. } => reading.refused.push(call),
            Event::Released { handle } => reading.end(handle.number(), call, &after),
            Event::Reclaimed { .. } => reading.reclaim(call),
            Event::Pushed { scope } => reading.scopes.push((scope.0, reading.acquired)),
            Event::Rewound { scope, .. } => {
                let open = reading.scopes.iter().position(|(open, _)| *open == scope.0);
                if let Some(position) = open {
                    let order = reading.scopes[position].1;
                    reading.scopes.truncate(position);
                    reading.end_since(order, call, &after);
                }
            }
            Event::Cleared { .. } => {
                reading.scopes.clear();
                reading.end_since(0, call, &after);
            }
            Event::Grown { .. } => {}
        }
        after.clear();
        call += 1;
    }
    for held in core::mem::take(&mut reading.live).into_values() {
        let state = SegmentState::Live { lifetime: held.lifetime };
        reading.finish(held, call, state);
    }
    for held in core::mem::take(&mut reading.pending) {
        let state = SegmentState::Pending { waits_for: held.after.first().copied() };
        reading.finish(held, call, state);
    }
    (reading, call)
}

/// Draws a [`Traced`](crate::Traced) log: every grant is a bar from the call that made it to the one that ended it, at
/// its offsets, and then in the colour of its queue until a reclaim found its stamps complete. Refused requests are
/// marked below the axis. O(n log n) in the events; allocates.
///
/// ```
/// use cuforge_core::{Request, SlabAllocator};
/// use cuforge_slab::{SlabLimits, TlsfSlab, Traced, timeline_svg};
/// let mut slab = Traced::new(TlsfSlab::new(1 << 20)?, 100, SlabLimits::default())?;
/// let grant = slab.acquire(&Request::new(4096))?;
/// slab.release(grant.handle, &[])?;
/// assert!(timeline_svg(slab.log(), "two calls").starts_with("<svg"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub fn timeline_svg(log: &[Event], title: &str) -> String {
    let (reading, calls) = read(log);
    let highest = reading.bars.iter().map(|bar| bar.offset + bar.len).max().unwrap_or(1).max(1);
    let mut entries = vec![];
    reading.bars.iter().for_each(|bar| note(&mut entries, bar.state));
    let mut body = String::new();
    let top = TOP + legend(&mut body, TOP, WIDTH, &entries) + 12;
    let (wide, high) = (f64::from(WIDTH - LEFT - RIGHT), f64::from(HEIGHT));
    let x = |call: usize| f64::from(LEFT) + wide * call as f64 / calls.max(1) as f64;
    let y = |offset: u64| f64::from(top) + high - high * offset as f64 / highest as f64;
    rect(&mut body, [f64::from(LEFT), f64::from(top), wide, high], "#f3f4f6", "free or never granted");
    for quarter in 0..=4u32 {
        let offset = (u128::from(highest) * u128::from(quarter) / 4) as u64;
        text(&mut body, LEFT - 10, y(offset) as u32 + 4, "end", &bytes(offset));
        let call = calls * quarter as usize / 4;
        text(&mut body, x(call) as u32, top + HEIGHT + 34, "middle", &format!("{call}"));
        rect(&mut body, [f64::from(LEFT), y(offset), wide, 0.5], "#9ca3af", "");
    }
    // Live over pending: what is drawn last is seen.
    let (pending, live): (Vec<&Bar>, Vec<&Bar>) =
        reading.bars.iter().partition(|bar| matches!(bar.state, SegmentState::Pending { .. }));
    for bar in pending.into_iter().chain(live) {
        let (colour, name) = style(bar.state);
        let length = (x(bar.to) - x(bar.from)).max(0.6);
        let thick = (y(bar.offset) - y(bar.offset + bar.len)).max(0.6);
        let thick = if thick > 4.0 { thick - 0.8 } else { thick };
        let place = [x(bar.from), y(bar.offset + bar.len), length, thick];
        rect(&mut body, place, colour, &format!("{name}, {}", bar.tooltip));
    }
    for call in &reading.refused {
        rect(&mut body, [x(*call), f64::from(top + HEIGHT + 4), 1.5, 12.0], "#dc2626", "refused");
    }
    text(&mut body, WIDTH / 2, top + HEIGHT + 54, "middle", "calls");
    let subtitle = format!(
        "{calls} calls, {} grants, {} refused (red marks below), offsets up to {}",
        reading.acquired,
        reading.refused.len(),
        bytes(highest),
    );
    page(WIDTH, top + HEIGHT + 70, title, &subtitle, &body)
}
