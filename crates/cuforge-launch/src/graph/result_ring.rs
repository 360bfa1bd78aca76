//! Result rings: what graphs and device loops post into mapped memory while they run, and the host takes by polling.

use crate::error::LaunchError;
use crate::ffi::code;
use crate::graph::builtin;
use crate::graph::counter::Counter;
use crate::graph::packed::{Packed, one_block};
use crate::graph::recorded::Role;
use crate::graph::scope::CaptureScope;
use crate::graph_error::GraphError;
use crate::launch::BoundLaunch;
use crate::options::LaunchOptions;
use crate::pinned::PinnedBuffer;
use crate::pipeline::Pipeline;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use bytemuck::Pod;
use cuforge_core::{Access, Arguments, BufferView};
use parking_lot::Mutex;
use std::fmt;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Bytes before the values of a slot: the turn that they are of.
const TAG_BYTES: usize = 8;

/// Polls between two looks at the stream: a fault never posts.
const POLLS: u32 = 2_000;

/// Results that arrive without a synchronize, in the order in which the device posts them.
///
/// [`CaptureScope::post`](crate::CaptureScope::post) puts a small kernel into the capture that copies a view into the
/// next slot of mapped memory and marks it. A replay is refused rather than let it write over what was not taken.
pub struct ResultRing {
    ring: Arc<Ring>,
    slab: Slab,
    pipeline: Pipeline,
    taken: Box<[u8]>,
}

/// The memory of a ring, which its graphs share.
pub(crate) struct Ring {
    page: PinnedBuffer,
    counter: Counter,
    bytes: usize,
    stride: usize,
    slots: usize,
    /// Results that the replays so far post at most.
    promised: AtomicU64,
    /// Results that the host has taken.
    taken: AtomicU64,
    /// The stream of the last replay.
    line: Mutex<Option<Arc<Line>>>,
}

impl ResultRing {
    /// For `slots` results (at least 1) of `bytes` each, in 32-bit words. Waits for the stream.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`], [`LaunchError::Refused`]; those of the driver.
    pub fn new(on: &mut Stream, slab: &Slab, bytes: usize, slots: usize) -> Result<Self, LaunchError> {
        let refused = LaunchError::NotWholeElements { bytes: bytes as u64, offset: 0, element_bytes: 4 };
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(refused);
        }
        let slots = slots.clamp(1, u32::MAX as usize);
        let stride = (TAG_BYTES + bytes).next_multiple_of(64);
        let Some(length) = stride.checked_mul(slots) else { return Err(refused) };
        let ring = Ring {
            page: slab.device().pinned(length)?,
            counter: Counter::new(on, slab)?,
            bytes,
            stride,
            slots,
            promised: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            line: Mutex::new(None),
        };
        let pipeline = builtin::post(slab.device())?;
        Ok(Self { ring: Arc::new(ring), slab: slab.clone(), pipeline, taken: vec![0; bytes].into() })
    }

    /// How many results it has room for.
    pub fn slots(&self) -> usize {
        self.ring.slots
    }

    /// The next result, if it has arrived. One load, no driver call, no allocation.
    pub fn poll(&mut self) -> Option<&[u8]> {
        if !self.ring.has_next() {
            return None;
        }
        Some(self.take())
    }

    /// Waits for the next result by polling. No allocation.
    ///
    /// # Errors
    /// [`GraphError::NoResult`] where the replays so far post no more; [`LaunchError::DeviceLost`].
    pub fn wait(&mut self) -> Result<&[u8], LaunchError> {
        let mut polls: u32 = 0;
        while !self.ring.has_next() {
            if self.ring.outstanding() == 0 {
                return Err(GraphError::NoResult.into());
            }
            hint::spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) {
                self.ring.look()?;
                thread::yield_now();
            }
        }
        Ok(self.take())
    }

    /// As [`wait`](Self::wait), as a value; bytes that the result lacks are 0.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_value<T: Pod>(&mut self) -> Result<T, LaunchError> {
        let found = self.wait()?;
        let mut value = T::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut value);
        let len = bytes.len().min(found.len());
        bytes[..len].copy_from_slice(&found[..len]);
        Ok(value)
    }

    fn take(&mut self) -> &[u8] {
        self.ring.take(&mut self.taken);
        &self.taken
    }

    /// The kernel that posts `view`.
    fn kernel(&self, slab: &Slab, view: &BufferView) -> Result<BoundLaunch, LaunchError> {
        let Ring { page, counter, bytes, stride, slots, .. } = &*self.ring;
        if slab.id() != self.slab.id() {
            return Err(LaunchError::OtherDevice { what: "slab" });
        }
        if view.len() != *bytes as u64 {
            let (what, need) = ("a post", *bytes as u64);
            return Err(GraphError::ViewLength { what, need, bytes: view.len() }.into());
        }
        let values = Packed::default().wide(page.device_address()).word((bytes / 4) as u32);
        let values = values.word(*stride as u32).word(*slots as u32).0;
        let views = [view.bound_to(0, 0, Access::StorageRead)?, counter.bound(1)?];
        let arguments = Arguments { views: &views, by_value: &values };
        self.pipeline.bind_plain(&self.slab, arguments, one_block(builtin::THREADS))
    }
}

impl CaptureScope<'_> {
    /// Posts `view`, as it is here, as the next result of `ring`; it has as many bytes as the ring's results. One node.
    ///
    /// # Errors
    /// [`GraphError::ViewLength`]; as the launch of a kernel.
    pub fn post(&mut self, ring: &ResultRing, slab: &Slab, view: &BufferView) -> Result<(), LaunchError> {
        let mut kernel = ring.kernel(slab, view)?;
        // It waits by itself for the kernel before it, if that is what is before it.
        let programmatic = kernel.pipeline().built.waits && self.follows_a_kernel();
        kernel.launch_with(self, LaunchOptions { programmatic, ..LaunchOptions::default() })?;
        self.make_last(Role::Post(ring.ring.clone()));
        Ok(())
    }
}

impl Ring {
    /// Whether a replay on that stream that posts so many results may be launched.
    pub(crate) fn admits(&self, results: u64, on: &Stream) -> Result<(), LaunchError> {
        if self.outstanding() + results > self.slots as u64 {
            return Err(GraphError::ResultsFull { slots: self.slots }.into());
        }
        let line = self.line.lock();
        let Some(before) = line.as_ref().filter(|known| !Arc::ptr_eq(known, on.line())) else {
            return Ok(());
        };
        // Two streams that post side by side would take one slot for two.
        let gate = before.device().gate();
        before.not_capturing()?;
        // SAFETY: the line keeps its stream alive.
        let status = unsafe { gate.api().stream_query(before.raw()) };
        if status.code == code::NOT_READY {
            return Err(GraphError::ResultsElsewhere.into());
        }
        gate.check_wait(status)
    }

    /// A replay that posts so many results was launched on that stream.
    pub(crate) fn promise(&self, results: u64, on: &Stream) {
        self.promised.fetch_add(results, Ordering::AcqRel);
        let mut line = self.line.lock();
        if !line.as_ref().is_some_and(|known| Arc::ptr_eq(known, on.line())) {
            *line = Some(on.line().clone());
        }
    }

    /// So many of the promised results do not come.
    pub(crate) fn forgo(&self, results: u64) {
        self.promised.fetch_sub(results, Ordering::AcqRel);
    }

    fn outstanding(&self) -> u64 {
        self.promised.load(Ordering::Acquire) - self.taken.load(Ordering::Acquire)
    }

    fn slot(&self, turn: u64) -> *mut u8 {
        self.page.as_ptr().wrapping_add((turn % self.slots as u64) as usize * self.stride)
    }

    fn has_next(&self) -> bool {
        let turn = self.taken.load(Ordering::Relaxed);
        // SAFETY: eight aligned, initialised bytes of the page; the device writes them whole, and the host reads them
        // through this atomic alone.
        unsafe { AtomicU64::from_ptr(self.slot(turn).cast()) }.load(Ordering::Acquire) == turn + 1
    }

    /// Copies the next result, which has arrived, and frees its slot.
    fn take(&self, out: &mut [u8]) {
        let turn = self.taken.load(Ordering::Relaxed);
        let values = self.slot(turn).wrapping_add(TAG_BYTES);
        let len = out.len().min(self.bytes);
        // SAFETY: the slot has as many bytes, which the device wrote before it marked the slot; no replay is let write
        // there before the slot is freed below.
        unsafe { std::ptr::copy_nonoverlapping(values, out.as_mut_ptr(), len) };
        self.taken.store(turn + 1, Ordering::Release);
    }

    /// Asks the stream of the last replay: after a fault nothing comes, and when it is idle all has come.
    fn look(&self) -> Result<(), LaunchError> {
        let Some(line) = self.line.lock().clone() else { return Ok(()) };
        let gate = line.device().gate();
        gate.alive()?;
        if line.is_capturing() {
            return Ok(());
        }
        // SAFETY: the line keeps its stream alive.
        let status = unsafe { gate.api().stream_query(line.raw()) };
        if status.code == code::NOT_READY {
            return Ok(());
        }
        gate.check_wait(status)?;
        if self.has_next() { Ok(()) } else { Err(GraphError::NoResult.into()) }
    }
}

impl fmt::Debug for ResultRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultRing")
            .field("slots", &self.ring.slots)
            .field("bytes", &self.ring.bytes)
            .field("outstanding", &self.ring.outstanding())
            .finish_non_exhaustive()
    }
}
