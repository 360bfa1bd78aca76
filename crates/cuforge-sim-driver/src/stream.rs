//! Streams: queues of work, each with a thread that does one piece after the other.

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::calls;
use crate::capturing::Capturing;
use crate::codes::{Answer, Code};
use crate::device::Device;
use crate::machine::Machine;
use crate::marks::Submitted;
use crate::order::{self, Clock, Stamp};
use crate::progress::Progress;
use crate::scene::Scene;
use crate::turns::{Next, Player};
use crate::work::{self, Op};

/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;

/// Least and greatest priority: lower numbers go first.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

/// Which stream of its context it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// The default stream that others wait for.
    Legacy,
    /// A thread's default stream.
    PerThread,
    /// One that the program made.
    Made,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) handle: u64,
    pub(crate) device: Arc<Device>,
    machine: &'static Machine,
    pub(crate) context_handle: u64,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) role: Role,
    /// Its number among all streams.
    number: u64,
    capture: Mutex<Option<Arc<Capturing>>>,
    lane: Mutex<Lane>,
    changed: Condvar,
    progress: Arc<Progress>,
}

/// Work in a queue.
#[derive(Debug)]
struct Queued {
    op: Op,
    stamp: Option<Stamp>,
    submitted: Option<Submitted>,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Queued>,
    /// What happens before the next piece of work.
    clock: Clock,
    submitted: u64,
    closed: bool,
    /// Whether its thread has been started.
    manned: bool,
    /// Turns that it has been given and not taken.
    turns: u64,
}

impl Stream {
    /// A stream of the context with that handle.
    pub(crate) fn new(
        machine: &'static Machine,
        (device, context_handle): (&Arc<Device>, u64),
        handle: u64,
        (flags, priority): (u32, i32),
        role: Role,
    ) -> Self {
        Self {
            handle,
            device: Arc::clone(device),
            machine,
            context_handle,
            flags,
            priority,
            role,
            number: machine.order.fresh_stream(),
            capture: Mutex::default(),
            lane: Mutex::default(),
            changed: Condvar::new(),
            progress: Arc::default(),
        }
    }

    /// Whether it and the legacy stream wait for each other.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// The capture that it takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capturing>> {
        self.capture.lock().clone()
    }

    pub(crate) fn set_capture(&self, capture: Option<Arc<Capturing>>) {
        *self.capture.lock() = capture;
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.lock().is_some()
    }

    /// Pieces of work that were ever queued.
    pub(crate) fn submitted(&self) -> u64 {
        self.lane.lock().submitted
    }

    /// Whether all of it is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.progress.completed() == self.submitted()
    }

    /// Queues work; gives its number.
    pub(crate) fn push(self: &Arc<Self>, op: Op) -> Answer<u64> {
        let watched = self.machine.settings().stream_races;
        let learned = match &op {
            Op::Wait(mark) if watched => Some(mark.clock()),
            Op::After(_, _, clock) if watched => Some(clock.clone()),
            _ => None,
        };
        let mut lane = self.lane.lock();
        if lane.closed {
            return Err(Code::INVALID_HANDLE);
        }
        let manned = lane.manned;
        if !manned {
            let stream = Arc::clone(self);
            let thread = std::thread::Builder::new().name("sim-stream".to_owned());
            thread.spawn(move || stream.work()).map_err(|_| Code::OUT_OF_MEMORY)?;
            lane.manned = true;
        }
        lane.submitted += 1;
        let stamp = watched.then(|| {
            let lane = &mut *lane;
            learned.iter().for_each(|clock| lane.clock.join(clock));
            self.machine.order.stamp(self.number, lane.submitted, &mut lane.clock)
        });
        if let (Op::Reach(mark), Some(stamp)) = (&op, &stamp) {
            mark.set_clock(stamp.clock());
        }
        lane.queue.push_back(Queued { op, stamp, submitted: self.machine.space.marks.submitted() });
        self.changed.notify_all();
        let position = lane.submitted;
        drop(lane);
        if !manned && self.machine.turns.are_taken() {
            let player: Arc<dyn Player> = Arc::clone(self) as _;
            self.machine.turns.join(player).map_err(|_| Code::OUT_OF_MEMORY)?;
        }
        Ok(position)
    }

    /// All of its work so far, and what happens before that.
    pub(crate) fn clock(&self) -> Clock {
        self.lane.lock().clock.clone()
    }

    /// Work that waits for all of its work so far.
    pub(crate) fn after(&self) -> Op {
        let lane = self.lane.lock();
        Op::After(Arc::clone(&self.progress), lane.submitted, lane.clock.clone())
    }

    /// Returns once the piece of work with that number is done.
    pub(crate) fn wait_for(&self, position: u64) {
        let progress = Arc::clone(&self.progress);
        self.machine.turns.wait_until(move || progress.completed() >= position);
        self.progress.wait_for(position);
    }

    /// Takes no more work; its thread ends with what is queued.
    pub(crate) fn close(&self) {
        self.lane.lock().closed = true;
        self.changed.notify_all();
    }

    /// The stream's thread.
    fn work(&self) {
        let machine = self.machine;
        let in_turns = machine.turns.are_taken();
        machine.turns.this_thread_works();
        loop {
            let queued = {
                let mut lane = self.lane.lock();
                loop {
                    if lane.closed && lane.queue.is_empty() {
                        return;
                    }
                    if (!in_turns || lane.turns > 0)
                        && let Some(next) = lane.queue.pop_front()
                    {
                        lane.turns = lane.turns.saturating_sub(1);
                        break next;
                    }
                    self.changed.wait(&mut lane);
                }
            };
            if !in_turns {
                machine.hold.pass();
            }
            if calls::traced() {
                calls::write_work(self.number, self.progress.completed() + 1, &queued.op.name());
            }
            self.perform(queued);
            self.progress.advance();
            if in_turns {
                machine.turns.finished(self.number);
            }
        }
    }

    /// Does a piece of work and, if it has a stamp, holds what it touched against that of other streams.
    fn perform(&self, Queued { op, stamp, submitted }: Queued) {
        let (machine, device, submitted) = (self.machine, &*self.device, submitted.as_ref());
        let Some(stamp) = stamp else {
            return work::perform(Scene { machine, device, submitted, touched: None }, op);
        };
        let what = op.name();
        let touched = RefCell::new(op.spans());
        work::perform(Scene { machine, device, submitted, touched: Some(&touched) }, op);
        let spans = touched.into_inner();
        let seen_by_host = order::is_seen_by_host(&machine.space, &spans);
        if let Some(race) = machine.order.finish(&stamp, what, spans, seen_by_host) {
            self.device.lose(Code::LAUNCH_FAILED, &race);
        }
    }
}

impl Player for Stream {
    fn number(&self) -> u64 {
        self.number
    }

    fn next(&self) -> Next {
        let lane = self.lane.lock();
        match lane.queue.front() {
            None if lane.closed => Next::Over,
            None => Next::Nothing,
            Some(queued)
                if self.machine.hold.is_lifted() && queued.op.can_begin(self.machine, &self.device) =>
            {
                Next::Ready
            }
            Some(_) => Next::Waits,
        }
    }

    fn play(&self) {
        self.lane.lock().turns += 1;
        self.changed.notify_all();
    }
}
