//! Parameter blocks: values that change from replay to replay, at a cost that does not depend on the number of nodes.

use crate::error::LaunchError;
use crate::ffi::code;
use crate::graph::builtin;
use crate::graph::counter::Counter;
use crate::graph::packed::{Packed, one_block};
use crate::graph::recorded::Role;
use crate::graph::scope::CaptureScope;
use crate::graph_error::GraphError;
use crate::launch::BoundLaunch;
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::Stream;
use bytemuck::Pod;
use cuforge_core::{Access, Arguments, BufferView};
use parking_lot::Mutex;
use std::fmt;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Replays whose values can be under way.
const SLOTS: usize = 64;

/// Polls between two looks at the stream: a fault never frees a slot.
const POLLS: u32 = 2_000;

/// Device bytes that the host sets anew for each replay of one graph.
///
/// [`CaptureScope::feed`](crate::CaptureScope::feed) puts a small kernel into the capture; kernels after it find the
/// values in the block's view. Each replay takes along what [`set`](Self::set) was told last, through a ring of 64
/// slots in mapped memory: no driver call, whatever the number of nodes, and replays in flight keep their values. The
/// 65th waits for the first.
pub struct ParameterBlock {
    // Dropped in this order: the kernel pins the counter that the feed gives back.
    kernel: BoundLaunch,
    feed: Arc<Feed>,
}

/// The host's side of a block, which its graph shares.
pub(crate) struct Feed {
    /// The slots, then the word that tells how many were taken.
    page: PinnedBuffer,
    current: Mutex<Box<[u8]>>,
    /// Slots handed to replays so far.
    next: AtomicU64,
    claimed: AtomicBool,
    stride: usize,
    _counter: Counter,
}

impl ParameterBlock {
    /// A block whose values go to `view`, all of it, in 32-bit words. Waits for the stream.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`], [`LaunchError::View`], [`LaunchError::Refused`]; those of the driver.
    pub fn new(on: &mut Stream, slab: &Slab, view: &BufferView) -> Result<Self, LaunchError> {
        let (bytes, offset) = (view.len(), view.offset());
        if bytes == 0 || !bytes.is_multiple_of(4) || !offset.is_multiple_of(4) {
            return Err(LaunchError::NotWholeElements { bytes, offset, element_bytes: 4 });
        }
        let device = slab.device();
        let counter = Counter::new(on, slab)?;
        let stride = (bytes as usize).next_multiple_of(64);
        let page = device.pinned(SLOTS * stride + 8)?;
        let taken = page.device_address() + (SLOTS * stride) as u64;
        let values = Packed::default().wide(page.device_address()).wide(taken);
        let values = values.word((bytes / 4) as u32).word(stride as u32).word(SLOTS as u32).0;
        let views = [view.bound_to(0, 0, Access::StorageReadWrite)?, counter.bound(1)?];
        let arguments = Arguments { views: &views, by_value: &values };
        let kernel = builtin::feed(device)?.bind_plain(slab, arguments, one_block(builtin::THREADS))?;
        let feed = Feed {
            page,
            current: Mutex::new(vec![0; bytes as usize].into()),
            next: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            stride,
            _counter: counter,
        };
        Ok(Self { kernel, feed: Arc::new(feed) })
    }

    /// Sets the start of the values, for the next replay and those after it. No driver call, no allocation.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`].
    pub fn set_bytes(&self, bytes: &[u8]) -> Result<(), LaunchError> {
        let mut current = self.feed.current.lock();
        let room = current.len();
        let Some(place) = current.get_mut(..bytes.len()) else {
            return Err(LaunchError::TooLong { bytes: bytes.len() as u64, view_bytes: room as u64 });
        };
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// As [`set_bytes`](Self::set_bytes), from a value.
    ///
    /// # Errors
    /// As [`set_bytes`](Self::set_bytes).
    pub fn set<T: Pod>(&self, value: &T) -> Result<(), LaunchError> {
        self.set_bytes(bytemuck::bytes_of(value))
    }
}

impl CaptureScope<'_> {
    /// From here on the block's view holds the values that each replay takes along. One node.
    ///
    /// A recording that is fed can be instantiated once, and cannot be part of another.
    ///
    /// # Errors
    /// As the launch of a kernel.
    pub fn feed(&mut self, block: &mut ParameterBlock) -> Result<(), LaunchError> {
        block.kernel.launch(self)?;
        self.make_last(Role::Feed(block.feed.clone()));
        Ok(())
    }
}

impl Feed {
    /// The one executable graph that it feeds claims it.
    pub(crate) fn claim(&self) -> Result<(), GraphError> {
        if self.claimed.swap(true, Ordering::AcqRel) { Err(GraphError::BlockTaken) } else { Ok(()) }
    }

    /// Puts the current values into the next slot; waits only while all 64 are under way.
    pub(crate) fn stage(&self, on: &Stream) -> Result<(), LaunchError> {
        let next = self.next.load(Ordering::Relaxed);
        let mut polls: u32 = 0;
        while next - self.taken() >= SLOTS as u64 {
            hint::spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) {
                let gate = on.device().gate();
                gate.alive()?;
                // SAFETY: the stream is alive.
                let status = unsafe { gate.api().stream_query(on.line().raw()) };
                if status.code != code::NOT_READY {
                    gate.check_wait(status)?;
                }
                std::thread::yield_now();
            }
        }
        let current = self.current.lock();
        let slot = self.page.as_ptr().wrapping_add((next % SLOTS as u64) as usize * self.stride);
        // SAFETY: the slot has `stride` bytes, no fewer than the values; the replay that read it last has said so.
        unsafe { std::ptr::copy_nonoverlapping(current.as_ptr(), slot, current.len()) };
        Ok(())
    }

    /// The replay with the staged values was launched.
    pub(crate) fn launched(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }

    fn taken(&self) -> u64 {
        let word = self.page.as_ptr().wrapping_add(SLOTS * self.stride).cast();
        // SAFETY: eight aligned, initialised bytes at the end of the page; the device writes them whole, and the host
        // reads them through this atomic alone.
        unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Acquire)
    }
}

impl fmt::Debug for ParameterBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParameterBlock")
            .field("bytes", &self.feed.current.lock().len())
            .field("replays", &self.feed.next.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
