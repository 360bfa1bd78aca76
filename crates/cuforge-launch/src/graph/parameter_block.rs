//! Parameter blocks: values that change from replay to replay, at a cost that does not depend on the number of nodes.

use crate::error::LaunchError;
use crate::graph::builtin;
use crate::graph::counter::Counter;
use crate::graph::feed::{Feed, SLOTS};
use crate::graph::packed::{Packed, one_block};
use crate::graph::recorded::Role;
use crate::graph::scope::CaptureScope;
use crate::launch::BoundLaunch;
use crate::slab::Slab;
use crate::stream::Stream;
use bytemuck::Pod;
use cuforge_core::{Access, Arguments, BufferView};
use std::fmt;
use std::sync::Arc;

/// Device bytes that the host sets anew for each replay of one graph. `Send`.
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

impl ParameterBlock {
    /// A block whose values go to `view`, all of it, in 32-bit words. Waits for the stream.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`], [`LaunchError::TooMany`], [`LaunchError::View`], [`LaunchError::Refused`]; those of
    /// the driver.
    pub fn new(on: &mut Stream, slab: &Slab, view: &BufferView) -> Result<Self, LaunchError> {
        let (bytes, offset) = (view.len(), view.offset());
        if bytes == 0 || !bytes.is_multiple_of(4) || !offset.is_multiple_of(4) {
            return Err(LaunchError::NotWholeElements { bytes, offset, element_bytes: 4 });
        }
        // The kernel that takes them along has their size as a 32-bit word.
        let most = u64::from(u32::MAX) - 63;
        if bytes > most {
            return Err(LaunchError::TooMany { what: "bytes of a parameter block", asked: bytes, most });
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
        let feed = Feed::new(page, bytes as usize, stride, counter);
        Ok(Self { kernel, feed: Arc::new(feed) })
    }

    /// Sets the start of the values, for the next replay and those after it. No driver call, no allocation.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`].
    pub fn set_bytes(&self, bytes: &[u8]) -> Result<(), LaunchError> {
        self.feed.set(bytes)
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

impl fmt::Debug for ParameterBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, replays) = self.feed.sizes();
        f.debug_struct("ParameterBlock")
            .field("bytes", &bytes)
            .field("replays", &replays)
            .finish_non_exhaustive()
    }
}
