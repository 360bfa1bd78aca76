//! Guarded memory: areas in which kernels may access only what is marked, and what each piece of work finds marked.
//!
//! A slab hands out parts of one allocation, which hardware cannot tell apart. Its owner guards the allocation and marks
//! each part; a kernel that leaves its part is then out of bounds as if it had left an allocation. What is marked is judged
//! by when work was submitted, not by when it runs: a part that was given back is still there for the work before that.

use cuforge_sim::Memory;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::codes::{Answer, Code};

/// Marks taken away that are kept to be named.
const MOST_NAMED: usize = 256;

/// All guarded areas.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether there has been any.
    on: AtomicBool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Changes so far.
    now: u64,
    /// Ends of the areas, by where they begin.
    areas: BTreeMap<u64, u64>,
    /// By where they begin and when they were made.
    live: BTreeMap<(u64, u64), Mark>,
    gone: VecDeque<Gone>,
    /// How much work is under way that was submitted at each change.
    under_way: BTreeMap<u64, usize>,
}

#[derive(Clone, Debug)]
struct Mark {
    place: Range<u64>,
    name: Arc<str>,
    born: u64,
}

#[derive(Clone, Debug)]
struct Gone {
    mark: Mark,
    died: u64,
}

/// When a piece of work was submitted; what it finds marked stays known for as long as this lives.
#[derive(Debug)]
pub(crate) struct Submitted {
    at: u64,
    state: Arc<Mutex<State>>,
}

impl Marks {
    /// Guards memory from an address on, or as much more of an area that begins there; 0 bytes end it.
    pub(crate) fn guard(&self, base: u64, bytes: u64) -> Answer {
        let end = base.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let mut state = self.state.lock();
        state.now += 1;
        if bytes == 0 {
            return state.areas.remove(&base).map(|_| ()).ok_or(Code::INVALID_VALUE);
        }
        let other = state.areas.range(..end).next_back();
        if other.is_some_and(|(start, until)| *start != base && *until > base) {
            return Err(Code::INVALID_VALUE);
        }
        state.areas.insert(base, end);
        self.on.store(true, Relaxed);
        Ok(())
    }

    /// Marks bytes of a guarded area for all work that is submitted from now on.
    pub(crate) fn mark(&self, address: u64, bytes: u64, name: &str) -> Answer {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let mut state = self.state.lock();
        let area = state.areas.range(..=address).next_back();
        if bytes == 0 || area.is_none_or(|(_, until)| *until < end) {
            return Err(Code::INVALID_VALUE);
        }
        state.now += 1;
        let born = state.now;
        state.live.insert((address, born), Mark { place: address..end, name: name.into(), born });
        Ok(())
    }

    /// Takes the latest mark that begins at the address away, for all work that is submitted from now on.
    pub(crate) fn unmark(&self, address: u64) -> Answer {
        let mut state = self.state.lock();
        let found = state.live.range((address, 0)..=(address, u64::MAX)).next_back();
        let key = found.map(|(key, _)| *key).ok_or(Code::INVALID_VALUE)?;
        state.now += 1;
        let died = state.now;
        if let Some(mark) = state.live.remove(&key) {
            state.gone.push_back(Gone { mark, died });
        }
        let oldest = state.under_way.keys().next().copied().unwrap_or(u64::MAX);
        while state.gone.len() > MOST_NAMED && state.gone.front().is_some_and(|gone| gone.died <= oldest) {
            state.gone.pop_front();
        }
        Ok(())
    }

    /// Forgets all areas and marks in memory that is no more.
    pub(crate) fn forget(&self, memory: Range<u64>) {
        if !self.on.load(Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        state.areas.retain(|base, _| !memory.contains(base));
        state.live.retain(|(base, _), _| !memory.contains(base));
        state.gone.retain(|gone| !memory.contains(&gone.mark.place.start));
    }

    /// The moment of a submission, if it matters.
    pub(crate) fn submitted(&self) -> Option<Submitted> {
        if !self.on.load(Relaxed) {
            return None;
        }
        let mut state = self.state.lock();
        let at = state.now;
        *state.under_way.entry(at).or_default() += 1;
        Some(Submitted { at, state: Arc::clone(&self.state) })
    }
}

impl Submitted {
    /// Puts marks into memory that kernels see: of each allocation with guarded bytes, `allocations` as starts and ends,
    /// the bytes outside of all areas and those that are marked inside.
    pub(crate) fn apply(&self, memory: &mut Memory, allocations: &[Range<u64>]) {
        let state = self.state.lock();
        for allocation in allocations {
            let areas = state.areas.iter().map(|(start, end)| *start..*end);
            let guarded: Vec<_> = areas.filter_map(|area| shared(&area, allocation)).collect();
            if guarded.is_empty() {
                continue;
            }
            let mut at = allocation.start;
            let mut open = Vec::new();
            for area in &guarded {
                open.push(at..area.start);
                at = area.end;
            }
            open.push(at..allocation.end);
            let inside = state.marks_at(self.at).filter_map(|mark| shared(&mark.place, allocation));
            let valid = open.into_iter().filter(|part| !part.is_empty()).chain(inside);
            let mut marked = false;
            for part in valid {
                marked |= memory.mark(part.start, part.end - part.start).is_ok();
            }
            if !marked {
                // One without any mark is open as a whole; a mark of no bytes closes it.
                let marked = memory.mark(allocation.start, 0);
                debug_assert!(marked.is_ok(), "{allocation:?}: {marked:?}");
            }
        }
    }

    /// What an address in a guarded area is to the marks, in words; nothing for one outside.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        let state = self.state.lock();
        let (base, end) = state.areas.range(..=address).next_back()?;
        if address >= *end {
            return None;
        }
        let area = *base..*end;
        let here = || state.marks_at(self.at).filter(|mark| area.contains(&mark.place.start));
        let mut words = Vec::new();
        let before = here().filter(|mark| mark.place.end <= address).max_by_key(|mark| mark.place.end);
        let behind = here().filter(|mark| mark.place.start > address).min_by_key(|mark| mark.place.start);
        let around = here().find(|mark| mark.place.contains(&address));
        let distance = |mark: &Mark| address - mark.place.end;
        let ahead = |mark: &Mark| mark.place.start - address;
        match (around, before, behind) {
            (Some(mark), ..) => words.push(format!("it runs over the end of {}", mark.name)),
            (None, Some(mark), Some(next)) if distance(mark) < ahead(next) => {
                words.push(format!("{} bytes behind the end of {}", distance(mark), mark.name));
            }
            (None, Some(mark), None) => {
                words.push(format!("{} bytes behind the end of {}", distance(mark), mark.name));
            }
            (None, _, Some(next)) => words.push(format!("{} bytes before {}", ahead(next), next.name)),
            (None, None, None) => words.push("nothing is marked there".to_owned()),
        }
        let gone =
            state.gone.iter().rev().find(|gone| gone.died <= self.at && gone.mark.place.contains(&address));
        if let Some(gone) = gone {
            words.push(format!("{} was there and had been released", gone.mark.name));
        }
        Some(words.join("; "))
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(count) = state.under_way.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                state.under_way.remove(&self.at);
            }
        }
    }
}

impl State {
    /// What is marked for work submitted at that change.
    fn marks_at(&self, at: u64) -> impl Iterator<Item = &Mark> {
        let live = self.live.values().filter(move |mark| mark.born <= at);
        let gone = self.gone.iter().filter(move |gone| gone.mark.born <= at && at < gone.died);
        live.chain(gone.map(|gone| &gone.mark))
    }
}

/// The addresses that two ranges share, if any.
fn shared(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: u64 = 0x10_0000;

    fn guarded() -> Marks {
        let marks = Marks::default();
        marks.guard(AREA, 0x1000).unwrap();
        marks
    }

    #[test]
    fn work_finds_marked_what_was_marked_when_it_was_submitted() {
        let marks = guarded();
        let before = marks.submitted().unwrap();
        marks.mark(AREA, 64, "a").unwrap();
        let with = marks.submitted().unwrap();
        marks.unmark(AREA).unwrap();
        marks.mark(AREA, 32, "b").unwrap();
        let after = marks.submitted().unwrap();
        let places = |work: &Submitted| -> Vec<u64> {
            work.state.lock().marks_at(work.at).map(|mark| mark.place.end - mark.place.start).collect()
        };
        assert_eq!((places(&before), places(&with), places(&after)), (vec![], vec![64], vec![32]));
        let said = after.describe(AREA + 40).unwrap();
        assert_eq!(said, "8 bytes behind the end of b; a was there and had been released");
        assert_eq!(with.describe(AREA + 64).unwrap(), "0 bytes behind the end of a");
        assert_eq!(before.describe(AREA).unwrap(), "nothing is marked there");
        assert_eq!(before.describe(AREA + 0x1000), None);
    }

    #[test]
    fn what_work_under_way_needs_is_kept_and_the_rest_only_to_be_named() {
        let marks = guarded();
        marks.mark(AREA, 64, "long").unwrap();
        let old = marks.submitted().unwrap();
        marks.unmark(AREA).unwrap();
        for _ in 0..2 * MOST_NAMED {
            marks.mark(AREA + 64, 64, "short").unwrap();
            marks.unmark(AREA + 64).unwrap();
        }
        assert!(old.state.lock().marks_at(old.at).any(|mark| *mark.name == *"long"));
        drop(old);
        marks.mark(AREA + 64, 64, "short").unwrap();
        marks.unmark(AREA + 64).unwrap();
        let state = marks.state.lock();
        assert_eq!((state.gone.len(), state.under_way.len()), (MOST_NAMED, 0));
    }

    #[test]
    fn marks_outside_of_areas_and_areas_over_areas_are_refused() {
        let marks = guarded();
        assert!(marks.mark(AREA - 16, 32, "a").is_err() && marks.mark(AREA, 0x1001, "a").is_err());
        assert!(marks.mark(AREA, 0, "a").is_err() && marks.unmark(AREA).is_err());
        assert!(marks.guard(AREA + 0x800, 64).is_err() && marks.guard(AREA - 64, 128).is_err());
        marks.guard(AREA, 0x2000).unwrap();
        marks.mark(AREA + 0x1800, 64, "a").unwrap();
        marks.forget(AREA..AREA + 0x2000);
        assert!(marks.unmark(AREA + 0x1800).is_err() && marks.guard(AREA, 0).is_err());
    }

    #[test]
    fn memory_is_open_outside_of_areas_and_closed_where_nothing_is_marked() {
        let marks = guarded();
        let mut memory = Memory::new(1 << 20);
        let at = memory.allocate(256, 256).unwrap();
        // An area over the middle of the allocation.
        marks.guard(at + 64, 128).unwrap();
        marks.mark(at + 64, 16, "a").unwrap();
        let work = marks.submitted().unwrap();
        work.apply(&mut memory, std::slice::from_ref(&(at..at + 256)));
        for (from, bytes) in [(at, 64), (at + 64, 16), (at + 192, 64)] {
            memory.unmark(from, bytes).unwrap();
        }
        assert!(memory.unmark(at + 80, 16).is_err());
    }
}
