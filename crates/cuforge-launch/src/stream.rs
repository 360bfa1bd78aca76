//! Streams: non-blocking queues of device work, whose progress the device writes down itself.

use crate::bulk::Bulk;
use crate::courier::{Courier, Letter};
use crate::device::Device;
use crate::error::LaunchError;
use crate::events::Event;
use crate::ffi::{DeviceAddress, RawStream, code};
use crate::gate::{CAPTURING, Gate, LOST};
use crate::landing::ReadbackPool;
use crate::ranges::range;
use crate::raw_stream::{OwnStream, StreamKeeper};
use crate::staging::Staging;
use cuforge_core::{QueueId, Stamp};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Submissions after which an epoch is sealed though nobody asked. One driver call each; small next to as many
/// launches.
const SEAL_EVERY: u32 = 4096;

/// A queue of device work in submission order. `Send`, not `Sync`: one thread submits at a time, so no launch takes a
/// lock.
///
/// Work is counted in *epochs*. An epoch is sealed (one driver call: the device will write its number once all before
/// it is done) only when somebody needs to know: a ring turns, memory runs short, a lease was dropped, or after 4,096
/// submissions. Dropping a stream waits for nothing; its work goes on.
pub struct Stream {
    line: Arc<Line>,
    /// The epoch that work submitted now belongs to.
    epoch: u64,
    /// Submissions in it.
    unsealed: u32,
    pub(crate) staging: Option<Staging>,
    pub(crate) bulk: Option<Bulk>,
    readbacks: Option<Arc<ReadbackPool>>,
    courier: Courier,
    /// The last letter, while the courier may still be submitting it. Nothing else is submitted meanwhile, and the open
    /// epoch is empty.
    posted: Option<Arc<dyn Letter>>,
    /// Scratch for packed arguments of unbound launches.
    pub(crate) packed: Vec<u8>,
    not_sync: PhantomData<Cell<()>>,
}

/// The part of a stream that tickets share: its handle and its queue number.
pub(crate) struct Line {
    device: Device,
    raw: RawStream,
    queue: usize,
    /// The first epoch that the stream has not sealed, once it is dropped.
    next_epoch: AtomicU64,
    /// The last seal failed: nothing marks the end of what was submitted.
    unmarked: AtomicBool,
    /// What keeps the stream alive: for one of our own it is the stream. There until the line is dropped.
    keeper: Option<StreamKeeper>,
}

// SAFETY: stream handles may be used from any thread.
unsafe impl Send for Line {}
// SAFETY: as above.
unsafe impl Sync for Line {}

impl Stream {
    /// A new stream of middle priority. Some 10 us, and 32 KiB of host memory for packed arguments.
    ///
    /// # Errors
    /// [`LaunchError::TooManyStreams`], [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn new(device: &Device) -> Result<Self, LaunchError> {
        Self::with_priority(device, 0)
    }

    /// A new stream of a given priority: lower numbers are served first; numbers outside
    /// [`priorities`](Self::priorities) count as its nearest end.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_priority(device: &Device, priority: i32) -> Result<Self, LaunchError> {
        let own = OwnStream::new(device.gate(), priority)?;
        Self::on(device, own.raw(), Box::new(own))
    }

    /// Over a raw stream that `keeper` keeps alive.
    pub(crate) fn on(device: &Device, raw: RawStream, keeper: StreamKeeper) -> Result<Self, LaunchError> {
        let (queue, epoch) = device.queues().enlist(device.gate(), device.timeline(), raw)?;
        let line = Line {
            device: device.clone(),
            raw,
            queue,
            next_epoch: AtomicU64::new(epoch),
            unmarked: AtomicBool::new(false),
            keeper: Some(keeper),
        };
        let packed = vec![0; device.constraints().max_parameter_bytes as usize];
        if device.lost().is_none() {
            device.gate().seal_done(queue);
        }
        Ok(Self {
            line: Arc::new(line),
            epoch,
            unsealed: 0,
            staging: None,
            bulk: None,
            readbacks: None,
            courier: Courier::default(),
            posted: None,
            packed,
            not_sync: PhantomData,
        })
    }

    /// The priorities that the device tells apart, first served first.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn priorities(device: &Device) -> Result<RangeInclusive<i32>, LaunchError> {
        let _context = device.gate().enter()?;
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        // SAFETY: the pointers are valid for a c_int each, and the context is current.
        let status = unsafe { device.gate().api().ctx_priority_range(&raw mut least, &raw mut greatest) };
        device.gate().check(status)?;
        Ok(greatest..=least)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.line.device
    }

    /// The stream's number among the queues that ledgers tell apart.
    pub fn queue(&self) -> QueueId {
        QueueId(self.line.queue as u32)
    }

    /// Waits until all that was submitted has completed.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`] if the device faulted, now or before; [`LaunchError::Driver`].
    pub fn synchronize(&mut self) -> Result<(), LaunchError> {
        let gate = self.line.device.gate();
        gate.alive()?;
        range!("synchronize");
        self.join_courier();
        let gate = self.line.device.gate();
        gate.not_capturing(self.line.queue)?;
        // SAFETY: the stream is alive.
        gate.check_wait(unsafe { gate.api().stream_synchronize(self.line.raw) })?;
        self.all_done();
        Ok(())
    }

    /// Whether all that was submitted has completed. Does not wait.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn is_idle(&mut self) -> Result<bool, LaunchError> {
        let gate = self.line.device.gate();
        gate.alive()?;
        gate.not_capturing(self.line.queue)?;
        if self.waits_for_courier() {
            return Ok(false);
        }
        self.posted = None;
        // SAFETY: the stream is alive.
        let status = unsafe { gate.api().stream_query(self.line.raw) };
        if status.code == code::NOT_READY {
            return Ok(false);
        }
        gate.check_wait(status)?;
        self.all_done();
        Ok(true)
    }

    /// What is submitted to this stream from now on waits for all that `other` was given so far. The host does not
    /// wait. Two driver calls.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`], [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn wait_for(&mut self, other: &mut Self) -> Result<(), LaunchError> {
        self.same_device(other.device())?;
        let event = other.mark()?;
        self.hold_for(&event)
    }

    /// The `CUstream`, for calls that this crate does not make. Work submitted through it is ordered with the rest,
    /// but the ledger does not know what memory it uses. Alive as long as the stream.
    pub fn raw(&self) -> *mut c_void {
        self.line.raw
    }

    /// Whether all that was submitted is known to have completed: no driver call, and no only where it is not known.
    pub(crate) fn is_known_idle(&self) -> bool {
        self.unsealed == 0 && self.posted.is_none() && self.line.has_completed(self.epoch - 1)
    }

    /// How often a write has waited because its staging memory was in use.
    pub fn staging_waits(&self) -> u64 {
        self.staging.as_ref().map_or(0, Staging::waits)
    }

    /// The pool that readback tickets land in, made by the first.
    pub(crate) fn readbacks(&mut self) -> Result<Arc<ReadbackPool>, LaunchError> {
        let pool = match self.readbacks.take() {
            Some(pool) => pool,
            None => Arc::new(ReadbackPool::new(self.device().gate())?),
        };
        Ok(self.readbacks.insert(pool).clone())
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    #[inline]
    pub(crate) fn queue_number(&self) -> usize {
        self.line.queue
    }

    #[inline]
    pub(crate) fn open_epoch(&self) -> u64 {
        self.epoch
    }

    /// An event at the end of what was submitted so far.
    pub(crate) fn mark(&mut self) -> Result<Event, LaunchError> {
        self.line.gate().alive()?;
        self.line.not_capturing()?;
        self.join_courier();
        let event = self.device().events().take(false)?;
        // SAFETY: the stream is alive and of the pool's context.
        unsafe { event.record(self.line.raw) }?;
        Ok(event)
    }

    pub(crate) fn hold_for(&mut self, event: &Event) -> Result<(), LaunchError> {
        self.line.gate().alive()?;
        self.line.not_capturing()?;
        self.join_courier();
        // SAFETY: the stream is alive; events are waited for across streams of one driver.
        unsafe { event.hold(self.line.raw) }
    }

    pub(crate) fn same_device(&self, device: &Device) -> Result<(), LaunchError> {
        self.same_device_as(device.gate())
    }

    #[inline]
    pub(crate) fn same_device_as(&self, gate: &Arc<Gate>) -> Result<(), LaunchError> {
        if Arc::ptr_eq(self.device().gate(), gate) {
            Ok(())
        } else {
            Err(LaunchError::OtherDevice { what: "stream" })
        }
    }

    /// Before a submission: one relaxed load, unless something is unusual.
    #[inline]
    pub(crate) fn admit(&mut self) -> Result<(), LaunchError> {
        if self.line.device.gate().attention(self.line.queue) != 0 || self.unsealed >= SEAL_EVERY {
            self.attend()?;
        }
        Ok(())
    }

    /// After a submission.
    #[inline]
    pub(crate) fn submitted(&mut self) {
        self.unsealed += 1;
    }

    /// The stamp of a submission about to be made.
    pub(crate) fn stamp(&mut self) -> Stamp {
        self.unsealed += 1;
        Stamp { queue: self.queue(), epoch: self.epoch }
    }

    /// The stamp of the last submission.
    pub(crate) fn last_stamp(&self) -> Stamp {
        Stamp { queue: self.queue(), epoch: if self.unsealed > 0 { self.epoch } else { self.epoch - 1 } }
    }

    #[cold]
    fn attend(&mut self) -> Result<(), LaunchError> {
        let gate = self.line.device.gate();
        if gate.attention(self.line.queue) & LOST != 0 {
            return gate.alive();
        }
        gate.not_capturing(self.line.queue)?;
        self.seal().map(|_| ())
    }

    /// Seals the open epoch, if anything was submitted in it; the last sealed epoch. One driver call.
    pub(crate) fn seal(&mut self) -> Result<u64, LaunchError> {
        self.join_courier();
        let gate = self.line.device.gate();
        if gate.attention(self.line.queue) & CAPTURING != 0 {
            // All was sealed before the capture began, and a write now would become one of its nodes.
            return Ok(self.epoch - 1);
        }
        gate.seal_done(self.line.queue);
        if self.unsealed > 0 {
            // SAFETY: the stream is alive and has the queue to itself.
            let sealed = unsafe { self.line.seal(self.epoch) };
            // An epoch that could not be sealed ends as well: a wait may find it done on an idle stream, which must not
            // speak for what is submitted later. The seal of the next one covers it, so there must be one.
            self.epoch += 1;
            self.unsealed = u32::from(sealed.is_err());
            sealed?;
        }
        Ok(self.epoch - 1)
    }

    /// So many epochs, the first of which is returned, for a letter that seals them; the open one begins behind them.
    pub(crate) fn reserve_epochs(&mut self, count: u64) -> Result<u64, LaunchError> {
        if self.unsealed > 0 {
            self.seal()?;
        }
        let first = self.epoch;
        self.epoch += count;
        Ok(first)
    }

    /// Lets the courier submit what epochs were reserved for. The next submission waits until that is done.
    pub(crate) fn post(&mut self, letter: Arc<dyn Letter>) {
        self.courier.post(&letter);
        self.posted = Some(letter);
        // The next submission looks up and joins.
        self.line.device.gate().ask_for_seal(self.line.queue);
    }

    /// Whether the next submission would wait for the courier.
    pub(crate) fn waits_for_courier(&self) -> bool {
        self.posted.as_ref().is_some_and(|letter| !letter.is_sent())
    }

    /// Waits on the host until the courier has submitted all that was posted. A failure is told by the letter's ticket.
    pub(crate) fn join_courier(&mut self) {
        if let Some(letter) = self.posted.take() {
            letter.wait_sent();
        }
    }

    /// Waits on the host until the sealed `epoch` has completed.
    pub(crate) fn wait_epoch(&self, epoch: u64) -> Result<(), LaunchError> {
        self.line.wait_epoch(epoch)
    }

    /// After a failure behind a copy: waits until nothing of the host's memory is read or written any more. Where the wait
    /// fails too the device is lost, and does neither.
    pub(crate) fn settle(&mut self) {
        if let Err(error) = self.synchronize() {
            tracing::warn!(%error, "a copy whose end could not be marked was not waited for");
        }
    }

    /// The host has seen the stream empty.
    fn all_done(&mut self) {
        self.line.device.timeline().observe(self.line.queue, self.epoch);
        self.line.device.gate().seal_done(self.line.queue);
        self.epoch += 1;
        self.unsealed = 0;
    }
}

impl Line {
    pub(crate) fn has_completed(&self, epoch: u64) -> bool {
        self.device.timeline().has_completed(self.queue, epoch)
    }

    /// # Safety
    /// Nobody else seals on the stream meanwhile.
    pub(crate) unsafe fn seal(&self, epoch: u64) -> Result<(), LaunchError> {
        // SAFETY: the stream is alive and the queue's own; the caller vouches for the rest.
        let sealed = unsafe { self.device.timeline().seal(self.device.gate(), self.queue, self.raw, epoch) };
        self.unmarked.store(sealed.is_err(), Ordering::Relaxed);
        sealed
    }

    pub(crate) fn wait_epoch(&self, epoch: u64) -> Result<(), LaunchError> {
        self.device.timeline().wait(self.device.gate(), self.queue, epoch, self.raw)
    }

    #[inline]
    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        self.device.gate()
    }

    /// # Safety
    /// `len` bytes are readable at `from` until the copy has read them, and writable at `to` until it has completed.
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: DeviceAddress,
        from: *const u8,
        len: usize,
    ) -> Result<(), LaunchError> {
        let gate = self.gate();
        // SAFETY: the caller vouches for both ends; the stream is alive.
        gate.check(unsafe { gate.api().copy_to_device(to, from.cast::<c_void>(), len, self.raw) })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> usize {
        self.queue
    }

    /// An error while the stream belongs to a capture.
    pub(crate) fn not_capturing(&self) -> Result<(), LaunchError> {
        self.device.gate().not_capturing(self.queue)
    }

    /// Whether all that the stream was given is done, as the driver says; `None` while it belongs to a capture.
    pub(crate) fn is_idle(&self) -> Option<Result<bool, LaunchError>> {
        let gate = self.device.gate();
        gate.unless_captured(self.queue, || {
            // SAFETY: the stream is alive.
            let status = unsafe { gate.api().stream_query(self.raw) };
            if status.code == code::NOT_READY { Ok(false) } else { gate.check_wait(status).map(|()| true) }
        })
    }

    /// The last epoch that was sealed. While the stream belongs to a capture it covers all that the stream was given.
    pub(crate) fn last_sealed(&self) -> u64 {
        self.device.timeline().last_sealed(self.queue)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whoever holds stamps of the open epoch learns of its end from this last seal; on a lost device nobody does.
        // While the courier submits the open epoch is empty, and the letter seals the ones before.
        if self.posted.is_none()
            && self.line.device.lost().is_none()
            && let Err(error) = self.seal()
        {
            tracing::warn!(%error, "a dropped stream could not seal its last epoch");
        }
        self.line.next_epoch.store(self.epoch, Ordering::Relaxed);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let next_epoch = *self.next_epoch.get_mut();
        // What is not kept is let go of here: before the device, and for a stream of our own that destroys it.
        let keeper = self.keeper.take();
        match keeper {
            Some(keeper) if *self.unmarked.get_mut() && !self.has_completed(next_epoch - 1) => {
                self.device.queues().rest(self.queue, next_epoch, self.raw, keeper);
            }
            _ => self.device.queues().dismiss(self.queue, next_epoch),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("queue", &self.line.queue)
            .field("open_epoch", &self.epoch)
            .field("unsealed", &self.unsealed)
            .finish_non_exhaustive()
    }
}
