//! Events, pooled: made when the pool is empty, kept for the next who needs one.

use crate::capture_mode::Relaxed;
use crate::error::LaunchError;
use crate::ffi::{RawEvent, RawStream, code};
use crate::gate::Gate;
use parking_lot::Mutex;
use std::ptr;
use std::sync::Arc;

/// `CU_EVENT_DISABLE_TIMING`.
const UNTIMED: u32 = 2;

/// `CU_EVENT_RECORD_EXTERNAL`.
const EXTERNAL: u32 = 1;

/// Two pools: events that take times, and cheaper ones that only order.
pub(crate) struct EventPool {
    gate: Arc<Gate>,
    timed: Mutex<Vec<RawEvent>>,
    untimed: Mutex<Vec<RawEvent>>,
}

// SAFETY: event handles may be used from any thread; the lists are locked.
unsafe impl Send for EventPool {}
// SAFETY: as above.
unsafe impl Sync for EventPool {}

impl EventPool {
    pub(crate) fn new(gate: &Arc<Gate>) -> Self {
        Self { gate: gate.clone(), timed: Mutex::new(Vec::new()), untimed: Mutex::new(Vec::new()) }
    }

    pub(crate) fn take(self: &Arc<Self>, timed: bool) -> Result<Event, LaunchError> {
        let pooled = self.list(timed).lock().pop();
        let raw = match pooled {
            Some(raw) => raw,
            None => {
                let _context = self.gate.enter_even_capturing()?;
                let mut raw = ptr::null_mut();
                // SAFETY: the pointer is valid for one handle, and the context is current.
                let status =
                    unsafe { self.gate.api().event_create(&raw mut raw, if timed { 0 } else { UNTIMED }) };
                self.gate.check(status)?;
                raw
            }
        };
        Ok(Event { pool: self.clone(), raw, timed, pooled: true })
    }

    /// An event that no later taker gets: for graphs, which may still record it when their owner is gone.
    pub(crate) fn take_for_good(self: &Arc<Self>, timed: bool) -> Result<Event, LaunchError> {
        self.take(timed).map(|mut event| {
            event.pooled = false;
            event
        })
    }

    fn list(&self, timed: bool) -> &Mutex<Vec<RawEvent>> {
        if timed { &self.timed } else { &self.untimed }
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        for raw in self.timed.get_mut().drain(..).chain(self.untimed.get_mut().drain(..)) {
            // SAFETY: the event is in the pool, so nobody else holds it; the driver lets go of it once it has happened.
            let status = unsafe { self.gate.api().event_destroy(raw) };
            self.gate.note_in_drop(status);
        }
    }
}

/// An event out of the pool; goes back when dropped, unless it was taken for good.
pub(crate) struct Event {
    pool: Arc<EventPool>,
    raw: RawEvent,
    timed: bool,
    pooled: bool,
}

// SAFETY: event handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Marks the end of what was submitted to `stream` so far.
    ///
    /// # Safety
    /// The stream is alive and of the same context.
    pub(crate) unsafe fn record(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: the event is alive; the caller says the stream is.
        self.pool.gate.check(unsafe { self.pool.gate.api().event_record(self.raw, stream) })
    }

    /// As [`record`](Self::record), as a node of the capture that `stream` is in: each replay records the event anew.
    ///
    /// # Safety
    /// As [`record`](Self::record).
    pub(crate) unsafe fn record_in_graph(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: as above.
        self.pool
            .gate
            .check(unsafe { self.pool.gate.api().event_record_with_flags(self.raw, stream, EXTERNAL) }?)
    }

    /// Makes what is submitted to `stream` from now on wait for the event. The host does not wait.
    ///
    /// # Safety
    /// The stream is alive and of the same driver.
    pub(crate) unsafe fn hold(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: the event is alive; the caller says the stream is.
        self.pool.gate.check(unsafe { self.pool.gate.api().stream_wait_event(stream, self.raw, 0) })
    }

    /// Waits on the host.
    pub(crate) fn wait(&self) -> Result<(), LaunchError> {
        self.pool.gate.alive()?;
        // SAFETY: the event is alive.
        self.pool.gate.check_wait(unsafe { self.pool.gate.api().event_synchronize(self.raw) })
    }

    /// Whether what the event marks is done. A fault shows elsewhere: then the answer is no.
    pub(crate) fn has_happened(&self) -> bool {
        // The question is one of those that break a capture of the thread that asks.
        let relaxed = Gate::this_thread_captures().then(|| Relaxed::new(&self.pool.gate));
        if matches!(relaxed, Some(Err(_))) {
            return false;
        }
        // SAFETY: the event is alive.
        let status = unsafe { self.pool.gate.api().event_query(self.raw) };
        status.code == code::SUCCESS
    }

    /// Nanoseconds from `start` to this event; both must have happened.
    pub(crate) fn nanoseconds_since(&self, start: &Self) -> Result<u64, LaunchError> {
        let mut milliseconds: f32 = 0.0;
        // SAFETY: both events are alive and timed (`take(true)`); the pointer is valid for an f32.
        let status =
            unsafe { self.pool.gate.api().event_elapsed(&raw mut milliseconds, start.raw, self.raw) };
        self.pool.gate.check(status)?;
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.pooled {
            self.pool.list(self.timed).lock().push(self.raw);
        } else {
            // SAFETY: nobody else holds the event; the driver lets go of it once it has happened.
            self.pool.gate.note_in_drop(unsafe { self.pool.gate.api().event_destroy(self.raw) });
        }
    }
}
