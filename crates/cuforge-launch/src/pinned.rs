//! Pinned host memory, mapped into the device's address space.

use crate::error::LaunchError;
use crate::ffi::DeviceAddress;
use crate::gate::{Gate, Retired};
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: never write-combined, which would make host reads crawl.
const FLAGS: u32 = 1 | 2;

/// Host memory that copies reach without a detour, and kernels by its device address. `Send`, `Sync`.
///
/// Made by [`Device::pinned`](crate::Device::pinned): about 0.4 ms a MiB. Starts zeroed. Dropping it frees nothing at
/// once (the driver would wait for running kernels): it is freed when the device is idle.
pub struct PinnedBuffer {
    gate: Arc<Gate>,
    host: NonNull<u8>,
    device: DeviceAddress,
    len: usize,
}

// SAFETY: plain memory, owned by the buffer; the driver lets any thread use it.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// `len` bytes; 0 is rounded up to one byte that stays hidden.
    pub(crate) fn new(gate: &Arc<Gate>, len: usize) -> Result<Self, LaunchError> {
        let _context = gate.enter()?;
        let mut host: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is valid for one pointer, and the context is current.
        gate.check(unsafe { gate.api().host_alloc(&raw mut host, len.max(1), FLAGS) })?;
        let Some(host) = NonNull::new(host.cast::<u8>()) else {
            return Err(LaunchError::Unsupported {
                what: "pinned memory",
                why: "the driver gave a null pointer",
            });
        };
        let mut device = 0;
        // SAFETY: the memory was allocated with mapping; the pointer is valid for one address.
        let status = unsafe { gate.api().host_device_pointer(&raw mut device, host.as_ptr().cast(), 0) };
        if let Err(error) = gate.check(status) {
            gate.retire(Retired::HostMemory(host.as_ptr().cast()));
            return Err(error);
        }
        // SAFETY: `len` bytes of it were allocated, and nobody else knows them yet.
        unsafe { ptr::write_bytes(host.as_ptr(), 0, len) };
        Ok(Self { gate: gate.clone(), host, device, len })
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes. Aligned to a page.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that live as long as the buffer; device work on it holds it by value.
        unsafe { slice::from_raw_parts(self.host.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way to it.
        unsafe { slice::from_raw_parts_mut(self.host.as_ptr(), self.len) }
    }

    /// Where kernels find it.
    pub fn device_address(&self) -> u64 {
        self.device
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// An error for memory of another device object: it would be freed when that one is idle.
    pub(crate) fn is_of(&self, gate: &Arc<Gate>) -> Result<(), LaunchError> {
        if Arc::ptr_eq(&self.gate, gate) {
            Ok(())
        } else {
            Err(LaunchError::OtherDevice { what: "pinned memory" })
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.host.as_ptr()
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        self.gate.retire(Retired::HostMemory(self.host.as_ptr().cast()));
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}
