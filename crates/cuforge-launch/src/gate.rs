//! The way to the driver for one device: its context, the verdict on every answer, what is lost, what waits to be freed.

use crate::driver::Driver;
use crate::error::{DriverError, LaunchError};
use crate::ffi::{DeviceAddress, RawContext, RawGraph, RawGraphExec, RawModule, Status, Table, code};
use crate::graph_error::GraphError;
use cuforge_core::MAX_QUEUES;
use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bit of an attention word: the device is lost.
pub(crate) const LOST: u32 = 1;
/// Bit of an attention word: somebody waits for the stream's open epoch to be sealed.
pub(crate) const SEAL: u32 = 2;
/// Bit of an attention word: the stream is capturing, and takes nothing but what its scope submits.
pub(crate) const CAPTURING: u32 = 4;

thread_local! {
    /// Captures that this thread has begun and not ended.
    static CAPTURES_HERE: Cell<u32> = const { Cell::new(0) };
}

/// Who ends the context's life.
pub(crate) enum Keeper {
    /// The primary context, retained once by this gate.
    Primary,
    /// A context that somebody else owns, kept alive by what is inside.
    Elsewhere(#[expect(dead_code, reason = "held, never looked at")] Box<dyn Any + Send + Sync>),
}

/// Something whose freeing waits for running kernels, so it is done when the device is idle.
pub(crate) enum Retired {
    Module(RawModule),
    HostMemory(*mut c_void),
    DeviceMemory(DeviceAddress),
    Graph(RawGraph),
    Exec(RawGraphExec),
    /// A reserved range with the chunks mapped into it: (address, bytes, handle).
    Range {
        address: DeviceAddress,
        reserved: usize,
        chunks: Vec<(DeviceAddress, usize, u64)>,
    },
}

/// One device's way to the driver. Everything that owns a driver object holds an `Arc` of it.
pub(crate) struct Gate {
    driver: Driver,
    device: c_int,
    context: RawContext,
    keeper: Keeper,
    lost: OnceLock<DriverError>,
    /// One word a queue, so that a launch looks at one place for everything unusual.
    attention: [AtomicU32; MAX_QUEUES],
    retired: Mutex<Vec<Retired>>,
    /// The last handle of the device was dropped when all its streams had done their work: no more comes.
    done: AtomicBool,
    /// Captures under way on this device, by all threads.
    captures: Mutex<u32>,
    drop_errors: AtomicU64,
}

// SAFETY: a context handle may be used from any thread, and so may what waits in `retired`.
unsafe impl Send for Gate {}
// SAFETY: as above; what changes is behind a lock or atomic.
unsafe impl Sync for Gate {}

impl Gate {
    pub(crate) fn new(driver: Driver, device: c_int, context: RawContext, keeper: Keeper) -> Self {
        Self {
            driver,
            device,
            context,
            keeper,
            lost: OnceLock::new(),
            attention: [const { AtomicU32::new(0) }; MAX_QUEUES],
            retired: Mutex::new(Vec::new()),
            done: AtomicBool::new(false),
            captures: Mutex::new(0),
            drop_errors: AtomicU64::new(0),
        }
    }

    pub(crate) fn driver(&self) -> Driver {
        self.driver
    }

    #[inline]
    pub(crate) fn api(&self) -> &'static Table {
        self.driver.table()
    }

    pub(crate) fn device(&self) -> c_int {
        self.device
    }

    pub(crate) fn context(&self) -> RawContext {
        self.context
    }

    /// The attention word of a queue, read relaxed: 0 unless something is unusual.
    #[inline]
    pub(crate) fn attention(&self, queue: usize) -> u32 {
        self.attention[queue].load(Ordering::Relaxed)
    }

    pub(crate) fn ask_for_seal(&self, queue: usize) {
        self.attention[queue].fetch_or(SEAL, Ordering::Relaxed);
    }

    pub(crate) fn seal_done(&self, queue: usize) {
        self.attention[queue].fetch_and(!SEAL, Ordering::Relaxed);
    }

    /// The error of a lost device.
    pub(crate) fn alive(&self) -> Result<(), LaunchError> {
        self.lost.get().map_or(Ok(()), |first| Err(LaunchError::DeviceLost { first: *first }))
    }

    /// Success or an error; a sticky one loses the device.
    #[inline]
    pub(crate) fn check(&self, status: Status) -> Result<(), LaunchError> {
        if status.code == code::SUCCESS { Ok(()) } else { Err(self.failed(status, status.is_sticky())) }
    }

    /// As [`check`](Self::check) for a call that waits for work: whatever it answers is the work's failure, unless the
    /// call itself was wrong.
    pub(crate) fn check_wait(&self, status: Status) -> Result<(), LaunchError> {
        if status.code == code::SUCCESS {
            return Ok(());
        }
        Err(self.failed(status, !is_about_the_call(status.code)))
    }

    #[cold]
    fn failed(&self, status: Status, lost: bool) -> LaunchError {
        let error = self.driver.describe(status);
        if lost {
            self.lose(error);
        }
        self.alive().err().unwrap_or_else(|| match status.code {
            code::CAPTURE_UNSUPPORTED => GraphError::Forbidden { call: status.call }.into(),
            code::CAPTURE_INVALIDATED => {
                GraphError::Invalidated { when: format!("before {}", status.call) }.into()
            }
            _ => LaunchError::Driver(error),
        })
    }

    fn lose(&self, first: DriverError) {
        if self.lost.set(first).is_ok() {
            tracing::error!(%first, "device lost");
        }
        for word in &self.attention {
            word.fetch_or(LOST, Ordering::Relaxed);
        }
    }

    /// Makes the device's context current until the guard is dropped, then restores what was current. Two driver
    /// calls: for cold paths. Refused to a thread that is capturing: what such paths do would spoil the capture.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, LaunchError> {
        if CAPTURES_HERE.get() > 0 {
            return Err(GraphError::Capturing { what: "this thread" }.into());
        }
        self.enter_even_capturing()
    }

    /// As [`enter`](Self::enter), for the few things that a capture allows.
    pub(crate) fn enter_even_capturing(&self) -> Result<Entered<'_>, LaunchError> {
        self.alive()?;
        // SAFETY: the gate keeps its context alive.
        self.check(unsafe { self.api().ctx_push(self.context) })?;
        Ok(Entered { gate: self })
    }

    /// This thread begins a capture of the stream of that queue. Waits for whoever must not meet one: see
    /// [`quiet`](Self::quiet) and [`unless_captured`](Self::unless_captured).
    pub(crate) fn capture_begins(&self, queue: usize) {
        let mut captures = self.captures.lock();
        *captures += 1;
        CAPTURES_HERE.set(CAPTURES_HERE.get() + 1);
        self.attention[queue].fetch_or(CAPTURING, Ordering::Relaxed);
    }

    /// The stream of that queue, too, takes part in a capture from now on. Waits as [`capture_begins`](Self::capture_begins).
    pub(crate) fn capture_takes(&self, queue: usize) {
        let _captures = self.captures.lock();
        self.attention[queue].fetch_or(CAPTURING, Ordering::Relaxed);
    }

    /// The stream of that queue takes part in no capture any more.
    pub(crate) fn capture_lets_go(&self, queue: usize) {
        self.attention[queue].fetch_and(!CAPTURING, Ordering::Relaxed);
    }

    /// Does `what` to the stream of that queue that a capture must not meet, such as asking how far it is; `None`, and
    /// nothing done, where it is captured. No capture takes it meanwhile.
    pub(crate) fn unless_captured<T>(&self, queue: usize, what: impl FnOnce() -> T) -> Option<T> {
        let _captures = self.captures.lock();
        (self.attention(queue) & CAPTURING == 0).then(what)
    }

    /// The capture that this thread began has ended.
    pub(crate) fn capture_ended(&self) {
        let mut captures = self.captures.lock();
        *captures = captures.saturating_sub(1);
        CAPTURES_HERE.set(CAPTURES_HERE.get().saturating_sub(1));
    }

    /// Whether this thread has a capture under way, on whatever device.
    pub(crate) fn this_thread_captures() -> bool {
        CAPTURES_HERE.get() > 0
    }

    /// No capture begins while the guard is held; `None` while one runs.
    pub(crate) fn quiet(&self) -> Option<MutexGuard<'_, u32>> {
        Some(self.captures.lock()).filter(|captures| **captures == 0)
    }

    /// An error if the stream of that queue is capturing.
    pub(crate) fn not_capturing(&self, queue: usize) -> Result<(), LaunchError> {
        if self.attention(queue) & CAPTURING == 0 {
            Ok(())
        } else {
            Err(GraphError::Capturing { what: "the stream" }.into())
        }
    }

    /// The context is current while this is held. One driver call where it is current already, three where not: for
    /// what is done between launches, by a thread that may have none.
    ///
    /// The driver (580.159.04) takes new parameters of kernel nodes only then; without a context it dies.
    pub(crate) fn within_context(&self) -> Result<Option<Entered<'_>>, LaunchError> {
        self.alive()?;
        let mut current = ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        let asked = unsafe { self.api().ctx_current(&raw mut current) };
        let known = asked.is_ok_and(|status| status.code == code::SUCCESS && current == self.context);
        if known { Ok(None) } else { self.enter_even_capturing().map(Some) }
    }

    /// Keeps `what` until the device is idle.
    pub(crate) fn retire(&self, what: Retired) {
        self.retired.lock().push(what);
    }

    /// All work has completed, and nobody can submit any more.
    pub(crate) fn all_done(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// Counts and logs a failure that a drop met: it is nobody else's. A driver that has shut down, because the process
    /// ends, has let go of everything before.
    pub(crate) fn note_in_drop(&self, status: Status) {
        let gone = matches!(status.code, code::SUCCESS | code::DEINITIALIZED);
        if !gone && self.lost.get().is_none() {
            self.drop_errors.fetch_add(1, Ordering::Relaxed);
            let error = self.driver.describe(status);
            tracing::warn!(%error, "a drop could not free its driver object");
        }
    }

    pub(crate) fn drop_errors(&self) -> u64 {
        self.drop_errors.load(Ordering::Relaxed)
    }

    /// All that is retired by now, to be freed once the device has been seen idle after this; what is not freed goes
    /// back. Not the other way about: work can be submitted, and what it uses retired, behind a look at the streams.
    pub(crate) fn take_retired(&self) -> Batch<'_> {
        Batch { gate: self, things: std::mem::take(&mut *self.retired.lock()) }
    }

    /// # Safety
    /// As [`Batch::free`], with the context current; once for each thing.
    unsafe fn free(&self, one: Retired) {
        let api = self.api();
        match one {
            // SAFETY: whoever retired the module gave up its handle.
            Retired::Module(module) => self.note_in_drop(unsafe { api.module_unload(module) }),
            // SAFETY: as above, for memory of `cuMemHostAlloc`.
            Retired::HostMemory(pointer) => self.note_in_drop(unsafe { api.host_free(pointer) }),
            // SAFETY: as above, for memory of `cuMemAlloc`.
            Retired::DeviceMemory(address) => self.note_in_drop(unsafe { api.mem_free(address) }),
            Retired::Graph(graph) => {
                // SAFETY: whoever retired the graph gave up its handle. A driver that made it can destroy it.
                if let Ok(status) = unsafe { api.graph_destroy(graph) } {
                    self.note_in_drop(status);
                }
            }
            Retired::Exec(exec) => {
                // SAFETY: as above.
                if let Ok(status) = unsafe { api.graph_exec_destroy(exec) } {
                    self.note_in_drop(status);
                }
            }
            Retired::Range { address, reserved, chunks } => {
                let note = |status: Result<Status, LaunchError>| {
                    // A driver that mapped the chunks has the functions that unmap them.
                    if let Ok(status) = status {
                        self.note_in_drop(status);
                    }
                };
                for (at, bytes, handle) in chunks {
                    // SAFETY: this chunk was mapped there whole, and nothing uses it any more.
                    note(unsafe { api.mem_unmap(at, bytes) });
                    // SAFETY: the handle is this chunk's, created once and released once.
                    note(unsafe { api.mem_release(handle) });
                }
                // SAFETY: nothing is mapped in the range any more.
                note(unsafe { api.address_free(address, reserved) });
            }
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Slab memory is given back at once: unmapping waits for nothing. Freeing the rest would wait for kernels, of other
        // holders of the context too; it goes back with the context.
        if self.done.load(Ordering::Relaxed) && self.lost.get().is_none() {
            let ranges = |one: &Retired| matches!(one, Retired::Range { .. });
            let all = std::mem::take(self.retired.get_mut());
            if let Ok(_context) = self.enter() {
                for range in all.into_iter().filter(ranges) {
                    // SAFETY: all work has completed, and this was the last that could submit any.
                    unsafe { self.free(range) };
                }
            }
        }
        if let Keeper::Primary = self.keeper {
            // SAFETY: the primary context was retained once by this gate.
            let status = unsafe { self.api().primary_release(self.device) };
            self.note_in_drop(status);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("device", &self.device)
            .field("lost", &self.lost.get())
            .finish_non_exhaustive()
    }
}

/// Retired things that are about to be freed, or go back.
pub(crate) struct Batch<'g> {
    gate: &'g Gate,
    things: Vec<Retired>,
}

impl Batch<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Frees them; how many.
    ///
    /// # Errors
    /// Where the context cannot be made current; nothing is freed then.
    ///
    /// # Safety
    /// No work that uses them is running or queued: the device was idle at some time after they were taken.
    pub(crate) unsafe fn free(mut self) -> Result<usize, LaunchError> {
        if self.is_empty() {
            return Ok(0);
        }
        let _context = self.gate.enter()?;
        let things = std::mem::take(&mut self.things);
        let count = things.len();
        for one in things {
            // SAFETY: the caller promises that nothing uses it, and it was taken off the list.
            unsafe { self.gate.free(one) };
        }
        Ok(count)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.gate.retired.lock().append(&mut self.things);
    }
}

/// The device's context is current on this thread.
pub(crate) struct Entered<'g> {
    gate: &'g Gate,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is valid for one handle; the push is undone once.
        let status = unsafe { self.gate.api().ctx_pop(&raw mut context) };
        self.gate.note_in_drop(status);
    }
}

/// Codes that a waiting call answers about itself: misuse, a driver that has shut down, an unfinished wait, a capture.
fn is_about_the_call(code: i32) -> bool {
    matches!(code, 1 | 3 | 4 | 201 | 400 | 600 | 900..=910)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_kernels_are_sticky_and_misuse_is_not() {
        let is_sticky = |code| Status { call: "cuStreamSynchronize", code }.is_sticky();
        assert!([700, 702, 710, 715, 716, 719].into_iter().all(is_sticky));
        assert!(![1, 2, 4, 200, 201, 209, 218, 400, 500, 600, 701, 900, 999].into_iter().any(is_sticky));
    }

    #[test]
    fn an_unknown_answer_of_a_wait_is_the_fault_of_the_work() {
        assert!(!is_about_the_call(4242) && !is_about_the_call(999));
        assert!(is_about_the_call(600) && is_about_the_call(900));
    }
}
