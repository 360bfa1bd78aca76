//! Races between streams: which work happens before which, and which of it touches the same bytes without an order.
//!
//! Each piece of work has a number in its stream and knows, for every stream, up to which number work happens before it:
//! a vector clock. Streams learn from events and waits, the host from what it waits for or finds done, and what the host
//! submits afterwards comes behind all that. What a host may have seen without asking the driver, because a stream wrote
//! it to memory that the host reaches, counts as seen once it is written: no order that there is goes unnoticed, some
//! races do.

use cuforge_sim::{AccessLog, Touch};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::space::Space;
use crate::transfer::{Copy, Face, Fill, Side};

/// Pieces of finished work that later ones are held against.
const MOST_KEPT: usize = 1024;

/// Up to which number the work of each stream happens before something.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Clock(HashMap<u64, u64>);

impl Clock {
    /// Takes in all that another one has.
    pub(crate) fn join(&mut self, other: &Self) {
        for (stream, number) in &other.0 {
            let known = self.0.entry(*stream).or_default();
            *known = (*known).max(*number);
        }
    }

    fn has(&self, stamp: &Stamp) -> bool {
        self.0.get(&stamp.stream).is_some_and(|number| *number >= stamp.number)
    }
}

/// A piece of work: its stream, its number there, and what happens before it.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    stream: u64,
    number: u64,
    before: Clock,
}

impl Stamp {
    /// Itself and all before it.
    pub(crate) fn clock(&self) -> Clock {
        let mut clock = self.before.clone();
        clock.0.insert(self.stream, self.number);
        clock
    }

    fn is_ordered_with(&self, other: &Self) -> bool {
        self.stream == other.stream || self.before.has(other) || other.before.has(self)
    }
}

/// A stretch of bytes that work touched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) touch: Touch,
}

/// Finished work.
#[derive(Clone, Debug)]
struct Done {
    stamp: Stamp,
    what: String,
    spans: Vec<Span>,
}

/// All that is known of the order of work.
#[derive(Debug, Default)]
pub(crate) struct Order {
    next_stream: AtomicU64,
    /// What the host has seen done.
    host: Mutex<Clock>,
    done: Mutex<VecDeque<Done>>,
}

impl Order {
    /// A number for a stream.
    pub(crate) fn fresh_stream(&self) -> u64 {
        self.next_stream.fetch_add(1, Relaxed) + 1
    }

    /// The host has seen that something is done.
    pub(crate) fn host_saw(&self, clock: &Clock) {
        self.host.lock().join(clock);
    }

    /// Stamps the next work of a stream whose clock is `stream`, which then has it.
    pub(crate) fn stamp(&self, stream: u64, number: u64, clock: &mut Clock) -> Stamp {
        clock.join(&self.host.lock());
        let stamp = Stamp { stream, number, before: clock.clone() };
        clock.0.insert(stream, number);
        stamp
    }

    /// Work is done: keeps what it touched, and tells of the first bytes that other work touched without an order.
    pub(crate) fn finish(
        &self,
        stamp: &Stamp,
        what: String,
        spans: Vec<Span>,
        seen_by_host: bool,
    ) -> Option<String> {
        let found = {
            let mut done = self.done.lock();
            let found = done.iter().filter(|other| !stamp.is_ordered_with(&other.stamp)).find_map(|other| {
                let (ours, theirs) = clash(&spans, &other.spans)?;
                Some(format!(
                    "race between streams: {what} {} bytes from {:#x} that {} {}, and nothing orders the two",
                    verb(ours.touch),
                    ours.start.max(theirs.start),
                    other.what,
                    verb(theirs.touch),
                ))
            });
            if !spans.is_empty() {
                done.push_back(Done { stamp: stamp.clone(), what, spans });
                if done.len() > MOST_KEPT {
                    done.pop_front();
                }
            }
            found
        };
        if seen_by_host {
            self.host_saw(&stamp.clock());
        }
        found
    }
}

fn verb(touch: Touch) -> &'static str {
    match touch {
        Touch::Written => "writes",
        Touch::Atomic => "changes",
        _ => "reads",
    }
}

/// The first stretches that two pieces of work touch and at least one of them writes.
fn clash(ours: &[Span], theirs: &[Span]) -> Option<(Span, Span)> {
    let conflict = |a: Touch, b: Touch| match (a, b) {
        (Touch::Read, Touch::Read) | (Touch::Atomic, Touch::Atomic) => false,
        (Touch::Read, Touch::Atomic) | (Touch::Atomic, Touch::Read) => true,
        _ => a == Touch::Written || b == Touch::Written,
    };
    ours.iter().find_map(|a| {
        let other =
            theirs.iter().find(|b| a.start < b.end && b.start < a.end && conflict(a.touch, b.touch))?;
        Some((*a, *other))
    })
}

/// What a copy touches.
pub(crate) fn of_copy(copy: &Copy, spans: &mut Vec<Span>) {
    let mut end = |face: &Face, touch| {
        let Side::Memory(at) = face.side else { return };
        for z in 0..copy.depth {
            for y in 0..copy.height {
                let row = at + (z * face.slice + y * face.pitch) as u64;
                spans.push(span(row, copy.width as u64, touch));
            }
        }
    };
    end(&copy.from, Touch::Read);
    end(&copy.to, Touch::Written);
}

/// What a fill touches.
pub(crate) fn of_fill(fill: &Fill, spans: &mut Vec<Span>) {
    let bytes = fill.width * u64::from(fill.element);
    spans.extend((0..fill.height).map(|y| span(fill.address + y * fill.pitch, bytes, Touch::Written)));
}

/// A stretch of so many bytes.
pub(crate) fn span(start: u64, bytes: u64, touch: Touch) -> Span {
    Span { start, end: start + bytes, touch }
}

/// What a kernel touched.
pub(crate) fn spans_in(log: &AccessLog) -> impl Iterator<Item = Span> {
    log.ranges().into_iter().map(|range| span(range.address, range.len, range.touch))
}

/// Whether work wrote something that the host can read without asking.
pub(crate) fn is_seen_by_host(space: &Space, spans: &[Span]) -> bool {
    let wrote = spans.iter().filter(|span| span.touch != Touch::Read);
    wrote.into_iter().any(|span| space.around(span.start).is_some_and(|range| range.owner.is_seen_by_host()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(start: u64) -> Vec<Span> {
        vec![span(start, 16, Touch::Written)]
    }

    #[test]
    fn work_of_two_streams_on_the_same_bytes_is_a_race_unless_one_waits_or_the_host_did() {
        let order = Order::default();
        let (mut one, mut two) = (Clock::default(), Clock::default());
        let first = order.stamp(1, 1, &mut one);
        let second = order.stamp(2, 1, &mut two);
        assert!(order.finish(&first, "a fill".into(), written(0x100), false).is_none());
        let said = order.finish(&second, "a copy".into(), written(0x10c), false).unwrap();
        assert!(
            said.contains("a copy writes") && said.contains("0x10c") && said.contains("a fill"),
            "{said}"
        );
        // An event of the first stream.
        two.join(&one);
        let third = order.stamp(2, 2, &mut two);
        assert!(order.finish(&third, "a copy".into(), written(0x100), false).is_none());
        // The host has waited for the second stream.
        order.host_saw(&two);
        let fourth = order.stamp(1, 2, &mut one);
        assert!(order.finish(&fourth, "a fill".into(), written(0x100), false).is_none());
    }

    #[test]
    fn reads_beside_reads_and_atomics_beside_atomics_are_no_race() {
        let touches = |touch| vec![span(0, 4, touch)];
        let races = |a, b| clash(&touches(a), &touches(b)).is_some();
        assert!(!races(Touch::Read, Touch::Read) && !races(Touch::Atomic, Touch::Atomic));
        assert!(races(Touch::Read, Touch::Written) && races(Touch::Atomic, Touch::Read));
        assert!(races(Touch::Written, Touch::Atomic));
        assert!(clash(&[span(0, 4, Touch::Written)], &[span(4, 4, Touch::Written)]).is_none());
    }

    #[test]
    fn what_the_host_can_see_orders_what_it_submits_next() {
        let order = Order::default();
        let (mut one, mut two) = (Clock::default(), Clock::default());
        let first = order.stamp(1, 1, &mut one);
        assert!(order.finish(&first, "a fill".into(), written(0), true).is_none());
        let second = order.stamp(2, 1, &mut two);
        assert!(order.finish(&second, "a copy".into(), written(0), false).is_none());
    }
}
