//! Streams: queues of work, each with a thread that does one piece after the other.

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::capture::Capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::device::Device;
use crate::driver::Driver;
use crate::order::{self, Clock, Stamp};
use crate::work::{self, Op, Scene};

/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;

/// Least and greatest priority: lower numbers go first.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

/// How long a stream lingers at most.
const MOST_LINGER_MICROSECONDS: u64 = 500;

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
    context: Weak<Context>,
    pub(crate) context_handle: u64,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) role: Role,
    /// Its number among all streams.
    number: u64,
    capture: Mutex<Option<Arc<Capture>>>,
    lane: Mutex<Lane>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<(Op, Option<Stamp>)>,
    /// What happens before the next piece of work.
    clock: Clock,
    submitted: u64,
    completed: u64,
    closed: bool,
    /// Whether its thread has been started.
    manned: bool,
}

impl Stream {
    pub(crate) fn new(handle: u64, context: &Arc<Context>, flags: u32, priority: i32, role: Role) -> Self {
        Self {
            handle,
            device: Arc::clone(&context.device),
            context: Arc::downgrade(context),
            context_handle: context.handle,
            flags,
            priority,
            role,
            number: Driver::of_the_process().order.fresh_stream(),
            capture: Mutex::default(),
            lane: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Its context; `CONTEXT_IS_DESTROYED` once that is gone.
    pub(crate) fn context(&self) -> Answer<Arc<Context>> {
        self.context.upgrade().filter(|context| context.is_alive()).ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// Whether it and the legacy stream wait for each other.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// The capture that it takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        self.capture.lock().clone()
    }

    pub(crate) fn set_capture(&self, capture: Option<Arc<Capture>>) {
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
        let lane = self.lane.lock();
        lane.completed == lane.submitted
    }

    /// Queues work; gives its number.
    pub(crate) fn push(self: &Arc<Self>, op: Op) -> Answer<u64> {
        let driver = Driver::of_the_process();
        let watched = driver.settings().stream_races;
        // Before its own lane is locked, as two streams may wait for each other's work.
        let learned = match &op {
            Op::Wait(mark) if watched => Some(mark.clock()),
            Op::After(other, _) if watched => Some(other.clock()),
            _ => None,
        };
        let mut lane = self.lane.lock();
        if lane.closed {
            return Err(Code::INVALID_HANDLE);
        }
        if !lane.manned {
            let stream = Arc::clone(self);
            let thread = std::thread::Builder::new().name("sim-stream".to_owned());
            thread.spawn(move || stream.work()).map_err(|_| Code::OUT_OF_MEMORY)?;
            lane.manned = true;
        }
        lane.submitted += 1;
        let stamp = watched.then(|| {
            let lane = &mut *lane;
            learned.iter().for_each(|clock| lane.clock.join(clock));
            driver.order.stamp(self.number, lane.submitted, &mut lane.clock)
        });
        if let (Op::Reach(mark), Some(stamp)) = (&op, &stamp) {
            mark.set_clock(stamp.clock());
        }
        lane.queue.push_back((op, stamp));
        self.changed.notify_all();
        Ok(lane.submitted)
    }

    /// All of its work so far, and what happens before that.
    pub(crate) fn clock(&self) -> Clock {
        self.lane.lock().clock.clone()
    }

    /// Returns once the piece of work with that number is done.
    pub(crate) fn wait_for(&self, position: u64) {
        let mut lane = self.lane.lock();
        while lane.completed < position {
            self.changed.wait(&mut lane);
        }
    }

    /// Takes no more work; its thread ends with what is queued.
    pub(crate) fn close(&self) {
        self.lane.lock().closed = true;
        self.changed.notify_all();
    }

    /// The stream's thread.
    fn work(&self) {
        let driver = Driver::of_the_process();
        loop {
            let (op, stamp) = {
                let mut lane = self.lane.lock();
                loop {
                    if let Some(next) = lane.queue.pop_front() {
                        break next;
                    }
                    if lane.closed {
                        return;
                    }
                    self.changed.wait(&mut lane);
                }
            };
            driver.hold.pass();
            self.linger(driver);
            match stamp {
                None => work::perform(Scene { driver, device: &self.device, touched: None }, op),
                Some(stamp) => self.perform_watched(driver, op, &stamp),
            }
            self.lane.lock().completed += 1;
            self.changed.notify_all();
        }
    }

    /// Does a piece of work and holds what it touched against that of other streams.
    fn perform_watched(&self, driver: &'static Driver, op: Op, stamp: &Stamp) {
        let what = op.name();
        let touched = RefCell::new(order::spans_of(&op));
        work::perform(Scene { driver, device: &self.device, touched: Some(&touched) }, op);
        let spans = touched.into_inner();
        let seen_by_host = order::is_seen_by_host(&driver.space, &spans);
        if let Some(race) = driver.order.finish(stamp, what, spans, seen_by_host) {
            self.device.lose(Code::LAUNCH_FAILED, &race);
        }
    }

    /// With a seed, waits a while that the seed picks, so that streams run in other orders against each other.
    fn linger(&self, driver: &Driver) {
        let seed = driver.settings().launch.seed;
        if seed == 0 {
            return;
        }
        let place = (self.number << 32) ^ self.lane.lock().completed;
        let mixed =
            (seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd1b5_4a32_d192_ed03) >> 40;
        // Every other piece of work goes on at once.
        if mixed & 1 == 0 {
            std::thread::sleep(Duration::from_micros((mixed >> 1) % MOST_LINGER_MICROSECONDS));
        }
    }
}
