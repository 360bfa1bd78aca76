//! Result rings: what graphs and device loops post into mapped memory while they run, and the host takes by polling.

use crate::error::LaunchError;
use crate::graph::builtin;
use crate::graph::counter::Counter;
use crate::graph::packed::{Packed, one_block};
use crate::graph::recorded::Role;
use crate::graph::ring::Ring;
use crate::graph::scope::CaptureScope;
use crate::graph_error::GraphError;
use crate::launch::BoundLaunch;
use crate::options::LaunchOptions;
use crate::pipeline::Pipeline;
use crate::slab::Slab;
use crate::stream::Stream;
use bytemuck::Pod;
use cuforge_core::{Access, Arguments, BufferView};
use std::fmt;
use std::hint;
use std::sync::Arc;
use std::thread;

/// Polls between two looks at the stream: a fault never posts.
const POLLS: u32 = 2_000;

/// Results that arrive without a synchronize, in the order in which the device posts them. `Send`.
///
/// [`CaptureScope::post`](crate::CaptureScope::post) puts a small kernel into the capture that copies a view into the
/// next slot of mapped memory and marks it. A replay is refused rather than let it write over what was not taken.
pub struct ResultRing {
    ring: Arc<Ring>,
    slab: Slab,
    pipeline: Pipeline,
    taken: Box<[u8]>,
}

impl ResultRing {
    /// For `slots` results (at least 1) of `bytes` each, in 32-bit words. Waits for the stream.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`], [`LaunchError::TooMany`], [`LaunchError::Refused`]; those of the driver.
    pub fn new(on: &mut Stream, slab: &Slab, bytes: usize, slots: usize) -> Result<Self, LaunchError> {
        let refused = LaunchError::NotWholeElements { bytes: bytes as u64, offset: 0, element_bytes: 4 };
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(refused);
        }
        let most = u64::from(u32::MAX);
        // The kernel that posts has all of these as 32-bit words.
        let many = |what, asked: usize| LaunchError::TooMany { what, asked: asked as u64, most };
        let stride = Ring::stride(bytes).filter(|stride| *stride as u64 <= most);
        let stride = stride.ok_or_else(|| many("bytes of a result", bytes))?;
        let slots = slots.max(1);
        let length = stride.checked_mul(slots).filter(|_| slots as u64 <= most);
        let length = length.ok_or_else(|| many("slots of a result ring", slots))?;
        let ring = Ring::new(slab.device().pinned(length)?, Counter::new(on, slab)?, bytes, (stride, slots));
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

impl fmt::Debug for ResultRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultRing")
            .field("slots", &self.ring.slots)
            .field("bytes", &self.ring.bytes)
            .field("outstanding", &self.ring.outstanding())
            .finish_non_exhaustive()
    }
}
