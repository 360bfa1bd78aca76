//! The queue numbers of a device: which stream has which, and when a number may be given to the next.

use crate::error::LaunchError;
use crate::ffi::{RawStream, code};
use crate::gate::Gate;
use crate::raw_stream::StreamKeeper;
use crate::timeline::Timeline;
use cuforge_core::MAX_QUEUES;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The streams of a device by their places among the queues that a ledger tells apart.
pub(crate) struct Queues {
    table: Mutex<[Queue; MAX_QUEUES]>,
    /// How many numbers rest with a stream: 0 almost always, so that looking at them costs a load.
    resting: AtomicUsize,
}

struct Queue {
    holder: Holder,
    /// The first epoch that no stream has used.
    next_epoch: u64,
}

enum Holder {
    Nobody,
    /// A stream in use. One that was brought in may be the legacy stream, whose handle is null.
    Stream(RawStream),
    /// A dropped stream whose end nothing marks, because its last seal failed: kept to be asked whether it is idle.
    Resting(RawStream, #[expect(dead_code, reason = "held, never looked at")] StreamKeeper),
}

// SAFETY: stream handles may be used from any thread; keepers say so by themselves.
unsafe impl Send for Queue {}

impl Queues {
    pub(crate) fn new() -> Self {
        let free = |_| Queue { holder: Holder::Nobody, next_epoch: 1 };
        Self { table: Mutex::new(std::array::from_fn(free)), resting: AtomicUsize::new(0) }
    }

    /// A number for a new stream, and its first epoch.
    pub(crate) fn enlist(
        &self,
        gate: &Gate,
        timeline: &Timeline,
        stream: RawStream,
    ) -> Result<(usize, u64), LaunchError> {
        self.rouse(gate, timeline)?;
        let mut table = self.table.lock();
        // A number whose last stream still has work in flight must rest: its word may yet be written.
        let free = |(number, queue): &(usize, &mut Queue)| {
            matches!(queue.holder, Holder::Nobody) && timeline.has_completed(*number, queue.next_epoch - 1)
        };
        let Some((number, queue)) = table.iter_mut().enumerate().find(free) else {
            return Err(LaunchError::TooManyStreams { most: MAX_QUEUES });
        };
        queue.holder = Holder::Stream(stream);
        Ok((number, queue.next_epoch))
    }

    /// Gives a number back: `next_epoch` is the first that its stream has not sealed.
    pub(crate) fn dismiss(&self, number: usize, next_epoch: u64) {
        self.table.lock()[number] = Queue { holder: Holder::Nobody, next_epoch };
    }

    /// As [`dismiss`](Self::dismiss) for a stream whose end nothing marks. Nobody waits for it.
    pub(crate) fn rest(&self, number: usize, next_epoch: u64, stream: RawStream, keeper: StreamKeeper) {
        let mut table = self.table.lock();
        table[number] = Queue { holder: Holder::Resting(stream, keeper), next_epoch };
        self.resting.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks the resting streams whether they are idle, and lets go of those that are: what waits for them goes on. No
    /// driver call where none rests.
    pub(crate) fn rouse(&self, gate: &Gate, timeline: &Timeline) -> Result<(), LaunchError> {
        if self.resting.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        // A thread that captures must not ask, and no capture begins meanwhile.
        let Some(_quiet) = gate.quiet() else { return Ok(()) };
        let _context = gate.enter()?;
        self.rouse_quietly(gate, timeline)
    }

    /// As [`rouse`](Self::rouse), where the context is current and no capture runs.
    pub(crate) fn rouse_quietly(&self, gate: &Gate, timeline: &Timeline) -> Result<(), LaunchError> {
        if self.resting.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        for (number, queue) in self.table.lock().iter_mut().enumerate() {
            if let Holder::Resting(stream, _) = queue.holder
                // SAFETY: its keeper keeps the stream alive.
                && unsafe { is_idle(gate, stream) }?
            {
                self.wake(timeline, number, queue);
            }
        }
        Ok(())
    }

    /// Whether all work of all streams has completed, as the driver says. The context is current, and no capture runs.
    pub(crate) fn are_idle(&self, gate: &Gate, timeline: &Timeline) -> Result<bool, LaunchError> {
        let mut table = self.table.lock();
        for (number, queue) in table.iter_mut().enumerate() {
            let idle = match queue.holder {
                Holder::Nobody => timeline.has_completed(number, queue.next_epoch - 1),
                // SAFETY: streams leave the table before they are destroyed, and the table is locked.
                Holder::Stream(stream) => unsafe { is_idle(gate, stream) }?,
                Holder::Resting(stream, _) => {
                    // SAFETY: as above.
                    let idle = unsafe { is_idle(gate, stream) }?;
                    if idle {
                        self.wake(timeline, number, queue);
                    }
                    idle
                }
            };
            if !idle {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no stream is left, nor work of one.
    pub(crate) fn are_done(&mut self, timeline: &Timeline) -> bool {
        let done = |(number, queue): (usize, &Queue)| {
            matches!(queue.holder, Holder::Nobody) && timeline.has_completed(number, queue.next_epoch - 1)
        };
        self.table.get_mut().iter().enumerate().all(done)
    }

    /// A resting stream was seen idle.
    fn wake(&self, timeline: &Timeline, number: usize, queue: &mut Queue) {
        timeline.observe(number, queue.next_epoch - 1);
        queue.holder = Holder::Nobody;
        self.resting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the stream has nothing to do. One driver call.
///
/// # Safety
/// The stream is alive.
unsafe fn is_idle(gate: &Gate, stream: RawStream) -> Result<bool, LaunchError> {
    // SAFETY: the caller's promise.
    let status = unsafe { gate.api().stream_query(stream) };
    if status.code == code::NOT_READY {
        return Ok(false);
    }
    gate.check_wait(status).map(|()| true)
}
