//! Copies: in a row, in two and three dimensions, with and without waiting.

use crate::boundary::{In, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::transfer::{Copy, Face, Side};
use crate::work::Op;

/// One end of a copy as the driver's structs have it.
#[derive(Clone, Copy, Debug)]
struct End {
    x: usize,
    y: usize,
    z: usize,
    kind: u32,
    host: usize,
    device: u64,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY2D_v2`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy2 {
    from: End2,
    to: End2,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct End2 {
    x: usize,
    y: usize,
    kind: u32,
    host: usize,
    device: u64,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY3D_v2`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy3 {
    from: End3,
    to: End3,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct End3 {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: usize,
    device: u64,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

exports! {
    Live cuMemcpy(to: u64, from: u64, bytes: usize) since 4000,
    "Behind all work of the legacy stream; returns when done.", |driver| {
        wait(driver, either(driver, to, from, bytes))
    }

    Live cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: u64) since 4000,
    "In stream order; pageable memory is read at once and written before it returns, as drivers do.", |driver| {
        queue(driver, stream, either(driver, to, from, bytes))
    }

    Live cuMemcpyHtoD_v2(to: u64, from: usize, bytes: usize) since 3020,
    "Behind all work of the legacy stream; returns when done.", |driver| {
        wait(driver, Copy::flat(Side::Memory(to), driver.space.host_side(from), bytes))
    }

    Live cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: u64) since 3020,
    "In stream order; pageable memory is read at once.", |driver| {
        queue(driver, stream, Copy::flat(Side::Memory(to), driver.space.host_side(from), bytes))
    }

    Live cuMemcpyDtoH_v2(to: usize, from: u64, bytes: usize) since 3020,
    "Behind all work of the legacy stream; returns when done.", |driver| {
        wait(driver, Copy::flat(driver.space.host_side(to), Side::Memory(from), bytes))
    }

    Live cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: u64) since 3020,
    "In stream order; into pageable memory it returns when done, as measured on hardware.", |driver| {
        queue(driver, stream, Copy::flat(driver.space.host_side(to), Side::Memory(from), bytes))
    }

    Live cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) since 3020,
    "In order of the legacy stream; does not wait, as hardware does not.", |driver| {
        queue(driver, 0, Copy::flat(Side::Memory(to), Side::Memory(from), bytes))
    }

    Live cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        queue(driver, stream, Copy::flat(Side::Memory(to), Side::Memory(from), bytes))
    }

    Live cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize) since 4000,
    "Between devices, through the legacy stream of the current context.", |driver| {
        driver.context(to_context)?;
        driver.context(from_context)?;
        queue(driver, 0, Copy::flat(Side::Memory(to), Side::Memory(from), bytes))
    }

    Live cuMemcpyPeerAsync(to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize, stream: u64) since 4000,
    "Between devices, in stream order.", |driver| {
        driver.context(to_context)?;
        driver.context(from_context)?;
        queue(driver, stream, Copy::flat(Side::Memory(to), Side::Memory(from), bytes))
    }

    Live cuMemcpy2D_v2(copy: In<Copy2>) since 3020,
    "Between host and device memory; arrays are NOT_SUPPORTED.", |driver| {
        wait(driver, copy.get()?.read(driver)?)
    }

    Live cuMemcpy2DUnaligned_v2(copy: In<Copy2>) since 3020,
    "As `cuMemcpy2D_v2`.", |driver| {
        wait(driver, copy.get()?.read(driver)?)
    }

    Live cuMemcpy2DAsync_v2(copy: In<Copy2>, stream: u64) since 3020,
    "Between host and device memory; arrays are NOT_SUPPORTED.", |driver| {
        queue(driver, stream, copy.get()?.read(driver)?)
    }

    Live cuMemcpy3D_v2(copy: In<Copy3>) since 3020,
    "Between host and device memory; arrays are NOT_SUPPORTED.", |driver| {
        wait(driver, copy.get()?.read(driver)?)
    }

    Live cuMemcpy3DAsync_v2(copy: In<Copy3>, stream: u64) since 3020,
    "Between host and device memory; arrays are NOT_SUPPORTED.", |driver| {
        queue(driver, stream, copy.get()?.read(driver)?)
    }
}

fn either(driver: &Driver, to: u64, from: u64, bytes: usize) -> Copy {
    Copy::flat(driver.space.either_side(to), driver.space.either_side(from), bytes)
}

/// Queues a copy in the legacy stream and waits for it.
fn wait(driver: &'static Driver, copy: Copy) -> Answer {
    let context = Context::current()?;
    if copy.width == 0 {
        return Ok(());
    }
    driver.space.check_copy(&copy)?;
    capture::forbid_legacy_work(&context)?;
    let stream = context.legacy();
    let position = context.submit(&stream, Op::Copy(copy))?;
    driver.wait_for_stream(&stream, position)
}

/// Queues a copy. Pageable memory is the program's again when the call returns: what is read from it is read now, what
/// is written to it is waited for.
fn queue(driver: &'static Driver, stream: u64, mut copy: Copy) -> Answer {
    let stream = driver.stream(stream)?;
    if copy.width == 0 {
        return Ok(());
    }
    driver.space.check_copy(&copy)?;
    if copy.is_pageable() && !stream.is_capturing() {
        let flat = copy.height == 1 && copy.depth == 1;
        match (&copy.from.side, &copy.to.side) {
            (Side::Program(from), Side::Memory(_)) if flat => {
                copy.from.side = Side::Kept(driver.space.keep(*from, copy.width)?);
            }
            _ => {
                let position = driver.context_of(&stream)?.submit(&stream, Op::Copy(copy))?;
                return driver.wait_for_stream(&stream, position);
            }
        }
    }
    capture::submit(driver, &stream, Op::Copy(copy)).map(|_| ())
}

impl End {
    fn read(&self, driver: &Driver) -> Answer<Face> {
        let rows = self.z.checked_mul(self.height).and_then(|rows| rows.checked_add(self.y));
        let offset = rows
            .and_then(|rows| rows.checked_mul(self.pitch))
            .and_then(|bytes| bytes.checked_add(self.x))
            .ok_or(Code::INVALID_VALUE)?;
        let slice = self.pitch.checked_mul(self.height).ok_or(Code::INVALID_VALUE)?;
        let side = match self.kind {
            1 => {
                let at = self.host.checked_add(offset).ok_or(Code::INVALID_VALUE)?;
                driver.space.host_side(if self.host == 0 { 0 } else { at })
            }
            2 => Side::Memory(self.device.checked_add(offset as u64).ok_or(Code::INVALID_VALUE)?),
            4 => driver.space.either_side(self.device.wrapping_add(offset as u64)),
            // Arrays.
            3 => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(Face { side, pitch: self.pitch, slice })
    }
}

impl Copy2 {
    fn read(&self, driver: &Driver) -> Answer<Copy> {
        let end = |end: &End2| {
            let End2 { x, y, kind, host, device, pitch, .. } = *end;
            // Tightly packed where no pitch is given.
            let pitch = if pitch == 0 { self.width } else { pitch };
            End { x, y, z: 0, kind, host, device, pitch, height: 0 }.read(driver)
        };
        let (to, from) = (end(&self.to)?, end(&self.from)?);
        Ok(Copy { to, from, width: self.width, height: self.height, depth: 1 })
    }
}

impl Copy3 {
    /// The copy, once every pointer in it is known.
    pub(crate) fn read(&self, driver: &Driver) -> Answer<Copy> {
        let end = |end: &End3| {
            let End3 { x, y, z, kind, host, device, pitch, height, level, .. } = *end;
            if level != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let pitch = if pitch == 0 { self.width } else { pitch };
            let height = if height == 0 { self.height } else { height };
            End { x, y, z, kind, host, device, pitch, height }.read(driver)
        };
        let (to, from) = (end(&self.to)?, end(&self.from)?);
        Ok(Copy { to, from, width: self.width, height: self.height, depth: self.depth })
    }

    /// The form in which a copy of a graph is asked for.
    pub(crate) fn of(copy: &Copy) -> Self {
        let end = |face: &Face| {
            let (kind, host, device) = match &face.side {
                Side::Program(at) => (1, *at, 0),
                Side::Memory(at) => (2, 0, *at),
                Side::Kept(_) => (1, 0, 0),
            };
            let pitch = face.pitch;
            let height = face.slice.checked_div(pitch).unwrap_or(0);
            End3 { x: 0, y: 0, z: 0, level: 0, kind, host, device, array: 0, reserved: 0, pitch, height }
        };
        let (width, height, depth) = (copy.width, copy.height, copy.depth);
        Self { from: end(&copy.from), to: end(&copy.to), width, height, depth }
    }
}
