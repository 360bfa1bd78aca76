//! Events: marks in streams, with the time at which they were reached.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Instant;

use crate::capturing::{Capturing, Front};
use crate::codes::{Answer, Code};
use crate::order::Clock;

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`, which needs `DISABLE_TIMING` and is not simulated.
const INTERPROCESS: u32 = 4;

/// One record of an event: reached or not yet.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
    /// What happens before it.
    clock: Mutex<Clock>,
}

impl Mark {
    /// The stream has come to it.
    pub(crate) fn reach(&self) {
        *self.reached.lock() = Some(Instant::now());
        self.changed.notify_all();
    }

    /// What happens before it, for those who wait for it.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.lock().clone()
    }

    pub(crate) fn set_clock(&self, clock: Clock) {
        *self.clock.lock() = clock;
    }

    /// When it was reached.
    pub(crate) fn time(&self) -> Option<Instant> {
        *self.reached.lock()
    }

    /// Returns once it is reached.
    pub(crate) fn wait(&self) {
        let mut reached = self.reached.lock();
        while reached.is_none() {
            self.changed.wait(&mut reached);
        }
    }
}

/// What an event was last recorded as.
#[derive(Clone, Debug)]
pub(crate) enum Recorded {
    /// Nothing yet.
    Never,
    /// In a stream.
    Stream(Arc<Mark>),
    /// In a capture, behind those nodes.
    Capture(Arc<Capturing>, Front),
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) handle: u64,
    pub(crate) context: u64,
    timed: bool,
    recorded: Mutex<Recorded>,
}

impl Event {
    pub(crate) fn new(handle: u64, context: u64, flags: u32) -> Answer<Self> {
        if flags & !0x7 != 0 || flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if flags & INTERPROCESS != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let timed = flags & DISABLE_TIMING == 0;
        Ok(Self { handle, context, timed, recorded: Mutex::new(Recorded::Never) })
    }

    /// What it was last recorded as.
    pub(crate) fn recorded(&self) -> Recorded {
        self.recorded.lock().clone()
    }

    pub(crate) fn set_recorded(&self, recorded: Recorded) {
        *self.recorded.lock() = recorded;
    }

    /// The mark of the last record in a stream.
    pub(crate) fn mark(&self) -> Option<Arc<Mark>> {
        match &*self.recorded.lock() {
            Recorded::Stream(mark) => Some(Arc::clone(mark)),
            Recorded::Never | Recorded::Capture(..) => None,
        }
    }

    /// A mark for a record in a stream, which is the last one from now on.
    pub(crate) fn fresh_mark(&self) -> Arc<Mark> {
        let mark = Arc::new(Mark::default());
        self.set_recorded(Recorded::Stream(Arc::clone(&mark)));
        mark
    }

    /// The mark, for asking about it; none if it was never recorded, `CAPTURED_EVENT` in a capture and `INVALID_VALUE`
    /// once that is over or invalidated, as measured.
    pub(crate) fn asked(&self) -> Answer<Option<Arc<Mark>>> {
        match self.recorded() {
            Recorded::Never => Ok(None),
            Recorded::Stream(mark) => Ok(Some(mark)),
            Recorded::Capture(capture, _) if capture.is_live() => {
                capture.invalidate();
                Err(Code::CAPTURED_EVENT)
            }
            Recorded::Capture(..) => Err(Code::INVALID_VALUE),
        }
    }

    /// Milliseconds from another event to this one.
    pub(crate) fn milliseconds_since(&self, start: &Self) -> Answer<f32> {
        if !self.timed || !start.timed {
            return Err(Code::INVALID_HANDLE);
        }
        let time = |event: &Self| match event.recorded() {
            Recorded::Never => Err(Code::INVALID_HANDLE),
            Recorded::Stream(mark) => mark.time().ok_or(Code::NOT_READY),
            Recorded::Capture(capture, _) if capture.is_live() => Err(Code::CAPTURED_EVENT),
            Recorded::Capture(..) => Err(Code::INVALID_VALUE),
        };
        let (from, to) = (time(start)?, time(self)?);
        let milliseconds = |later: Instant, earlier: Instant| (later - earlier).as_secs_f64() * 1e3;
        Ok(if to >= from { milliseconds(to, from) } else { -milliseconds(from, to) } as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_between_reached_marks_of_timed_events_only() {
        let event = |flags| Event::new(1, 1, flags).unwrap();
        let (start, end) = (event(0), event(1));
        assert_eq!(end.milliseconds_since(&start), Err(Code::INVALID_HANDLE));
        let marks = [Arc::new(Mark::default()), Arc::new(Mark::default())];
        start.set_recorded(Recorded::Stream(Arc::clone(&marks[0])));
        end.set_recorded(Recorded::Stream(Arc::clone(&marks[1])));
        marks[0].reach();
        assert_eq!(end.milliseconds_since(&start), Err(Code::NOT_READY));
        marks[1].reach();
        assert!(end.milliseconds_since(&start).unwrap() >= 0.0);
        assert!(start.milliseconds_since(&end).unwrap() <= 0.0);
        assert_eq!(event(2).milliseconds_since(&start), Err(Code::INVALID_HANDLE));
        assert!(Event::new(1, 1, 8).is_err() && Event::new(1, 1, 4).is_err());
    }
}
