//! Copies between host memory and views: through the stream's staging memory, in stream order.

use crate::bulk::{Bulk, CHUNK_BYTES};
use crate::error::LaunchError;
use crate::ffi::DeviceAddress;
use crate::host_room::host_room;
use crate::movers::Movers;
use crate::ranges::range;
use crate::slab::Slab;
use crate::staging::{SEGMENT_BYTES, Staging};
use crate::stream::Stream;
use bytemuck::Pod;
use cuforge_core::BufferView;
use std::ffi::c_void;

/// Writes from this size on leave the ring: the driver's own pageable copy, or the movers where there are cores.
const BULK_BYTES: usize = 8 * SEGMENT_BYTES;

impl Slab {
    /// Writes `bytes` to the start of `view`; fewer than it has are fine, none too. Returns as soon as `bytes` has been
    /// read: the copy goes on in stream order.
    ///
    /// Goes through the stream's pinned ring (4 MiB, made by the first write): one driver call and no allocation for up
    /// to 512 KiB; waits only where the ring is full ([`Stream::staging_waits`] counts). From 4 MiB on through pinned
    /// chunks filled by several threads, or the driver's own pageable copy on machines with few cores; that too for what
    /// lies between where the stream is known to be idle.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`], [`LaunchError::View`] (nothing is written then), [`LaunchError::OtherDevice`],
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn write(&self, on: &mut Stream, view: &BufferView, bytes: &[u8]) -> Result<(), LaunchError> {
        range!("write");
        self.ready(on, view, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() >= BULK_BYTES {
            return self.write_bulk(on, view, bytes);
        }
        // The driver's own copy of several segments is up to a third faster than the ring (3 MiB, H200, driver
        // 580.159.04, 2026-12-01), but waits for what the stream is doing.
        if bytes.len() > SEGMENT_BYTES && on.is_known_idle() {
            return self.write_pageable(on, view, bytes);
        }
        self.use_over(on, view, |on, to| on.write_staged(to, bytes))
    }

    /// As [`write`](Self::write), but refuses where it would wait, and nothing is written: where the ring is full, and while
    /// an upload of owned memory is still being submitted to the stream.
    ///
    /// # Errors
    /// [`LaunchError::StagingFull`] and those of [`write`](Self::write).
    pub fn try_write(&self, on: &mut Stream, view: &BufferView, bytes: &[u8]) -> Result<(), LaunchError> {
        self.fits(on, view, bytes.len())?;
        if on.waits_for_courier() {
            return Err(LaunchError::StagingFull { bytes: bytes.len() as u64 });
        }
        on.admit()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if !on.has_room(bytes.len())? {
            return Err(LaunchError::StagingFull { bytes: bytes.len() as u64 });
        }
        self.use_over(on, view, |on, to| on.write_staged(to, bytes))
    }

    /// As [`write`](Self::write), from elements.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`] where the view is not aligned for them, and those of [`write`](Self::write).
    pub fn write_from<T: Pod>(
        &self,
        on: &mut Stream,
        view: &BufferView,
        values: &[T],
    ) -> Result<(), LaunchError> {
        whole_elements::<T>(view)?;
        self.write(on, view, bytemuck::cast_slice(values))
    }

    /// Reads the start of `view` into `bytes`, after all that was submitted to `on` before; waits for it. No
    /// allocation; two driver calls for up to 512 KiB.
    ///
    /// # Errors
    /// As [`write`](Self::write); nothing is read then.
    pub fn read(&self, on: &mut Stream, view: &BufferView, bytes: &mut [u8]) -> Result<(), LaunchError> {
        range!("read");
        self.ready(on, view, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let from = self.use_on(on, view)?;
        on.read_staged(from, bytes)
    }

    /// As [`read`](Self::read), into elements.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`] where the view is not aligned for them, and those of [`read`](Self::read).
    pub fn read_into<T: Pod>(
        &self,
        on: &mut Stream,
        view: &BufferView,
        values: &mut [T],
    ) -> Result<(), LaunchError> {
        whole_elements::<T>(view)?;
        self.read(on, view, bytemuck::cast_slice_mut(values))
    }

    /// All elements of `view`, in a new vector.
    ///
    /// # Errors
    /// [`LaunchError::NotWholeElements`] where the view does not hold whole elements, [`LaunchError::HostMemory`]; those
    /// of [`read`](Self::read).
    pub fn read_vec<T: Pod>(&self, on: &mut Stream, view: &BufferView) -> Result<Vec<T>, LaunchError> {
        let size = whole_elements::<T>(view)?;
        let count = view.len() / size;
        if !view.len().is_multiple_of(size) {
            return Err(not_whole(view, size));
        }
        let mut values = host_room("a readback", count as usize)?;
        values.resize(count as usize, T::zeroed());
        self.read(on, view, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Copies the start of `from` to the start of `to` on the device, as many bytes as `from` has. One driver call.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`] where `to` is shorter, and those of [`write`](Self::write).
    pub fn copy(&self, on: &mut Stream, from: &BufferView, to: &BufferView) -> Result<(), LaunchError> {
        self.ready(on, to, from.len() as usize)?;
        if from.is_empty() {
            return Ok(());
        }
        let source = self.use_on(on, from)?;
        let target = self.use_on(on, to)?;
        let gate = self.device().gate();
        // SAFETY: both views are live until the epoch just noted completes, in memory of this slab; the stream is alive.
        let status =
            unsafe { gate.api().copy_on_device(target, source, from.len() as usize, on.line().raw()) };
        gate.check(status)
    }

    /// Sets every byte of `view`. One driver call.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn fill(&self, on: &mut Stream, view: &BufferView, byte: u8) -> Result<(), LaunchError> {
        self.ready(on, view, 0)?;
        if view.is_empty() {
            return Ok(());
        }
        let to = self.use_on(on, view)?;
        let gate = self.device().gate();
        // SAFETY: the view is live until the epoch just noted completes; the stream is alive.
        gate.check(unsafe { gate.api().memset_d8_async(to, byte, view.len() as usize, on.line().raw()) })
    }

    /// What every copy checks first: device alive and the same, view live and long enough.
    pub(crate) fn ready(&self, on: &mut Stream, view: &BufferView, bytes: usize) -> Result<(), LaunchError> {
        self.fits(on, view, bytes)?;
        on.admit()
    }

    pub(crate) fn fits(&self, on: &Stream, view: &BufferView, bytes: usize) -> Result<(), LaunchError> {
        on.same_device(self.device())?;
        self.pins().check(view)?;
        if bytes as u64 > view.len() {
            return Err(LaunchError::TooLong { bytes: bytes as u64, view_bytes: view.len() });
        }
        Ok(())
    }

    fn write_bulk(&self, on: &mut Stream, view: &BufferView, bytes: &[u8]) -> Result<(), LaunchError> {
        match self.device().movers() {
            Some(movers) => self.use_over(on, view, |on, to| on.write_moved(movers, to, bytes)),
            None => self.write_pageable(on, view, bytes),
        }
    }

    fn write_pageable(&self, on: &mut Stream, view: &BufferView, bytes: &[u8]) -> Result<(), LaunchError> {
        let to = self.use_on(on, view)?;
        // SAFETY: the view is live until the epoch just noted completes. The driver has read pageable memory when this
        // call returns (CUDA driver API, "API synchronization behavior", memcpy, asynchronous).
        unsafe { on.send(to, bytes.as_ptr(), bytes.len()) }
    }
}

impl Stream {
    fn staging(&mut self) -> Result<&mut Staging, LaunchError> {
        if self.staging.is_none() {
            self.staging = Some(Staging::new(self.device().gate())?);
        }
        // Just made where it was not there.
        self.staging.as_mut().ok_or(LaunchError::StagingFull { bytes: 0 })
    }

    fn has_room(&mut self, bytes: usize) -> Result<bool, LaunchError> {
        let line = self.line().clone();
        let room = self.staging()?.ring().has_room(bytes, |epoch| line.has_completed(epoch));
        Ok(room)
    }

    /// Through the ring, in pieces of at most a segment.
    fn write_staged(&mut self, to: DeviceAddress, bytes: &[u8]) -> Result<(), LaunchError> {
        let mut at = to;
        for piece in bytes.chunks(SEGMENT_BYTES) {
            let offset = self.room_for(piece.len())?;
            let place = self.staging()?.place(offset, piece.len());
            place.copy_from_slice(piece);
            let from = place.as_ptr();
            // SAFETY: the target bytes are live until the open epoch completes; the ring gives the staged bytes to
            // nobody else before that, and is freed only when the device is idle.
            unsafe { self.send(at, from, piece.len()) }?;
            // Each: the turn for the next may seal the epoch of this one, and the last one's needs sealing too.
            self.submitted();
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// A place in the ring for `len` bytes; turns to the next segment, and waits for it, where the current is full.
    fn room_for(&mut self, len: usize) -> Result<usize, LaunchError> {
        if let Some(offset) = self.staging()?.ring().fit(len) {
            return Ok(offset);
        }
        let epoch = self.open_epoch();
        // The turn comes last: a failure before it must not leave a segment that is still read as the current one.
        self.seal()?;
        let wait_for = self.staging()?.ring().next_free_after();
        if !self.line().has_completed(wait_for) {
            self.staging()?.count_wait();
            self.wait_epoch(wait_for)?;
        }
        self.staging()?.ring().turn(epoch);
        self.staging()?.ring().fit(len).ok_or(LaunchError::StagingFull { bytes: len as u64 })
    }

    /// Into two landing chunks in turn: the copy of one chunk runs while the other is taken out.
    fn read_staged(&mut self, from: DeviceAddress, bytes: &mut [u8]) -> Result<(), LaunchError> {
        // A read of one chunk needs no epoch of its own: it waits for the whole stream.
        let many = bytes.len() > SEGMENT_BYTES;
        let mut landed: Option<(usize, u64, &mut [u8])> = None;
        for (number, piece) in bytes.chunks_mut(SEGMENT_BYTES).enumerate() {
            let to = self.staging()?.landing(number).as_mut_ptr();
            let at = from + (number * SEGMENT_BYTES) as u64;
            let gate = self.device().gate();
            // SAFETY: the source is live until the open epoch completes; the landing chunk has as many bytes, and its
            // last content was taken out before.
            gate.check(unsafe {
                gate.api().copy_to_host(to.cast::<c_void>(), at, piece.len(), self.line().raw())
            })?;
            self.submitted();
            let epoch = if many { self.seal()? } else { 0 };
            if let Some((before, epoch, out)) = landed.replace((number, epoch, piece)) {
                self.wait_epoch(epoch)?;
                self.take_out(before, out)?;
            }
        }
        self.synchronize()?;
        landed.map_or(Ok(()), |(last, _, out)| self.take_out(last, out))
    }

    fn take_out(&mut self, landing: usize, out: &mut [u8]) -> Result<(), LaunchError> {
        let len = out.len();
        out.copy_from_slice(&self.staging()?.landing(landing)[..len]);
        Ok(())
    }

    /// Through pinned chunks that several threads fill.
    fn write_moved(&mut self, movers: &Movers, to: DeviceAddress, bytes: &[u8]) -> Result<(), LaunchError> {
        let mut bulk = match self.bulk.take() {
            Some(bulk) => bulk,
            None => Bulk::new(self.device().gate())?,
        };
        let outcome = self.move_all(movers, &mut bulk, to, bytes);
        self.bulk = Some(bulk);
        outcome
    }

    fn move_all(
        &mut self,
        movers: &Movers,
        bulk: &mut Bulk,
        to: DeviceAddress,
        bytes: &[u8],
    ) -> Result<(), LaunchError> {
        let mut at = to;
        for piece in bytes.chunks(CHUNK_BYTES) {
            let (number, wait_for) = bulk.turn();
            self.wait_epoch(wait_for)?;
            let chunk = bulk.chunk(number, piece.len());
            movers.copy(chunk, piece);
            // SAFETY: the target bytes are live until the open epoch completes, and the chunk is not filled again
            // before the epoch noted for it below has.
            unsafe { self.send(at, chunk.as_ptr(), piece.len()) }?;
            self.submitted();
            bulk.left_to(number, self.open_epoch());
            self.seal()?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// # Safety
    /// `len` bytes are readable at `from` until the copy has read them, and writable at `to` until it has completed.
    pub(crate) unsafe fn send(
        &mut self,
        to: DeviceAddress,
        from: *const u8,
        len: usize,
    ) -> Result<(), LaunchError> {
        // SAFETY: the caller vouches for both ends.
        unsafe { self.line().copy_to_device(to, from, len) }
    }
}

/// The element size, if the view starts on a multiple of it.
pub(crate) fn whole_elements<T: Pod>(view: &BufferView) -> Result<u64, LaunchError> {
    let size = size_of::<T>().max(1) as u64;
    let align = align_of::<T>() as u64;
    if view.offset().is_multiple_of(align) { Ok(size) } else { Err(not_whole(view, size)) }
}

fn not_whole(view: &BufferView, element_bytes: u64) -> LaunchError {
    LaunchError::NotWholeElements { bytes: view.len(), offset: view.offset(), element_bytes }
}
