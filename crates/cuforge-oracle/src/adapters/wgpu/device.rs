//! An open Vulkan device: its two slabs, copies to and from them, and errors that never panic.

use std::sync::{Arc, Mutex, PoisonError};

use cuforge_core::{Access, ContextError};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, ErrorFilter, MapMode, PollType,
};

use super::error::WgpuError;

/// Copies and bindings are whole words.
pub(super) const WORD_BYTES: u64 = 4;

/// Storage that is only read and storage that is written are two buffers: one dispatch uses a whole buffer either way,
/// never both.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) read: Buffer,
    pub(super) written: Buffer,
    lost: Arc<Mutex<Option<String>>>,
}

impl Device {
    /// Takes over `device` and allocates `bytes` twice.
    pub(super) fn new(device: wgpu::Device, queue: wgpu::Queue, bytes: u64) -> Result<Self, WgpuError> {
        let lost = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&lost);
        device.set_device_lost_callback(move |_, message| tell(&seen, &message));
        // What no error scope caught: without a handler it would end the process.
        let seen = Arc::clone(&lost);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| tell(&seen, &error.to_string())));
        let slab = |label| {
            let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
            device.create_buffer(&BufferDescriptor {
                label: Some(label),
                size: bytes,
                usage,
                mapped_at_creation: false,
            })
        };
        let (read, written) = caught(&device, "slab", || (slab("read"), slab("written")))?;
        Ok(Self { device, queue, read, written, lost })
    }

    pub(super) fn slab(&self, access: Access) -> &Buffer {
        match access {
            Access::StorageRead => &self.read,
            Access::StorageReadWrite => &self.written,
        }
    }

    /// What `body` returns, or what the device said against it.
    pub(super) fn caught<T>(
        &self,
        what: &'static str,
        operation: &'static str,
        body: impl FnOnce() -> T,
    ) -> Result<T, ContextError> {
        self.alive().and_then(|()| caught(&self.device, what, body)).map_err(|error| error.during(operation))
    }

    fn alive(&self) -> Result<(), WgpuError> {
        match &*self.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(reason) => Err(WgpuError::Lost { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Waits for all that was submitted.
    pub(super) fn wait(&self, operation: &'static str) -> Result<(), ContextError> {
        let waited = self.device.poll(PollType::wait_indefinitely());
        waited
            .map_err(|error| WgpuError::Lost { reason: error.to_string() })
            .and_then(|_| self.alive())
            .map_err(|error| error.during(operation))
    }

    /// Writes `bytes` at `offset` of `slab`.
    pub(super) fn write(&self, slab: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), ContextError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        let (first, last) = words(offset, end);
        if (first, last) == (offset, end) {
            return self.caught("write", "write", || self.queue.write_buffer(slab, offset, bytes));
        }
        // Copies are whole words; the bytes around stay what they are.
        let mut around = self.read(slab, first, last - first)?;
        let at = (offset - first) as usize;
        around[at..at + bytes.len()].copy_from_slice(bytes);
        self.caught("write", "write", || self.queue.write_buffer(slab, first, &around))
    }

    /// `bytes` from `offset` of `slab`.
    pub(super) fn read(&self, slab: &Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, ContextError> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let (first, last) = words(offset, offset + bytes);
        let staging = self.caught("staging buffer", "read", || {
            let staging = self.device.create_buffer(&BufferDescriptor {
                label: Some("readback"),
                size: last - first,
                usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(slab, first, &staging, 0, Some(last - first));
            self.queue.submit([encoder.finish()]);
            staging
        })?;
        let at = (offset - first) as usize;
        let all = self.mapped(&staging)?;
        Ok(all[at..at + bytes as usize].to_vec())
    }

    /// All bytes of a buffer that can be mapped, once the work before is done.
    pub(super) fn mapped(&self, staging: &Buffer) -> Result<Vec<u8>, ContextError> {
        let outcome = Arc::new(Mutex::new(None));
        let told = Arc::clone(&outcome);
        staging.map_async(MapMode::Read, .., move |result| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        self.wait("read")?;
        let lost = |reason: String| WgpuError::Lost { reason }.during("read");
        match outcome.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(lost(error.to_string())),
            None => return Err(lost("a readback was never answered".to_owned())),
        }
        let bytes = staging.get_mapped_range(..).map_err(|error| lost(error.to_string()))?.to_vec();
        staging.unmap();
        Ok(bytes)
    }
}

/// The first thing said is the one kept.
fn tell(lost: &Mutex<Option<String>>, message: &str) {
    lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| message.to_owned());
}

fn caught<T>(device: &wgpu::Device, what: &str, body: impl FnOnce() -> T) -> Result<T, WgpuError> {
    let scopes = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation]
        .map(|filter| device.push_error_scope(filter));
    let made = body();
    let mut said = None;
    // Scopes end in the reverse order.
    for scope in scopes.into_iter().rev() {
        said = said.or(pollster::block_on(scope.pop()));
    }
    match said {
        None => Ok(made),
        Some(wgpu::Error::OutOfMemory { source }) => Err(WgpuError::Memory { reason: source.to_string() }),
        Some(error) => Err(WgpuError::Refused { what: what.to_owned(), reason: error.to_string() }),
    }
}

/// The words that hold the bytes from `start` to `end`.
const fn words(start: u64, end: u64) -> (u64, u64) {
    (start / WORD_BYTES * WORD_BYTES, end.div_ceil(WORD_BYTES) * WORD_BYTES)
}
