//! Memory in stream order: pools.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::boundary::{In, Out, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::pool::Pool;
use crate::work::Op;

/// `CUmemPoolProps`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
}

exports! {
    Live cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: u64) since 11020,
    "There at once, in stream order or not; freed in stream order. In a capture it becomes a node.", |driver| {
        address.required()?;
        let stream = driver.stream(stream)?;
        let pool = default_pool(driver, stream.device.ordinal)?;
        address.put(capture::allocate_in_stream(driver, &stream, &pool, bytes as u64)?)
    }

    Live cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: u64, stream: u64) since 11020,
    "As `cuMemAllocAsync`.", |driver| {
        address.required()?;
        let (stream, pool) = (driver.stream(stream)?, driver.pools.get(pool)?);
        address.put(capture::allocate_in_stream(driver, &stream, &pool, bytes as u64)?)
    }

    Live cuMemFreeAsync(address: u64, stream: u64) since 11020,
    "Ends the allocation when the stream has come to it.", |driver| {
        let stream = driver.stream(stream)?;
        capture::submit(driver, &stream, Op::Free(address)).map(|_| ())
    }

    Initialised cuDeviceGetDefaultMemPool(pool: Out<u64>, device: c_int) since 11020,
    "One for each device.", |driver| {
        pool.put(default_pool(driver, driver.device(device)?.ordinal)?.handle)
    }

    Initialised cuDeviceGetMemPool(pool: Out<u64>, device: c_int) since 11020,
    "The default pool: no other can be made current.", |driver| {
        pool.put(default_pool(driver, driver.device(device)?.ordinal)?.handle)
    }

    Initialised cuDeviceSetMemPool(device: c_int, pool: u64) since 11020,
    "The default pool alone; others are NOT_SUPPORTED.", |driver| {
        let device = driver.device(device)?;
        let pool = driver.pools.get(pool)?;
        if pool.default && pool.ordinal == device.ordinal { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }

    Initialised cuMemPoolCreate(pool: Out<u64>, properties: In<Properties>) since 11020,
    "Pools of pinned device memory; handles for other processes are NOT_SUPPORTED.", |driver| {
        pool.required()?;
        let properties = properties.get()?;
        if properties.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        if properties.location_kind != 1 || properties.handle_types != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let ordinal = driver.device(properties.location)?.ordinal;
        pool.put(driver.pools.add(|handle| Pool::new(handle, ordinal)).handle)
    }

    Initialised cuMemPoolDestroy(pool: u64) since 11020,
    "What was allocated from it stays.", |driver| {
        if driver.pools.get(pool)?.default {
            return Err(Code::INVALID_VALUE);
        }
        driver.pools.remove(pool).map(|_| ())
    }

    Initialised cuMemPoolTrimTo(pool: u64, bytes: usize) since 11020,
    "Without effect: a pool keeps nothing back.", |driver| {
        let _ = bytes;
        driver.pools.get(pool).map(|_| ())
    }

    Initialised cuMemPoolSetAttribute(pool: u64, attribute: c_int, value: In<u64>) since 11020,
    "Reuse and the release threshold are kept and decide nothing; high-water marks are reset.", |driver| {
        let pool = driver.pools.get(pool)?;
        match attribute {
            1..=3 => { In::<c_int>::inner(value.address()).get()?; }
            4 => pool.release_threshold.store(value.get()?, Relaxed),
            6 | 8 if value.get()? == 0 => {
                pool.most_used_bytes.store(pool.used_bytes.load(Relaxed), Relaxed);
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    Initialised cuMemPoolGetAttribute(pool: u64, attribute: c_int, value: Out<u64>) since 11020,
    "Reserved is what is used.", |driver| {
        let pool = driver.pools.get(pool)?;
        match attribute {
            1..=3 => Out::<c_int>::inner(value.address()).put(1),
            4 => value.put(pool.release_threshold.load(Relaxed)),
            5 | 7 => value.put(pool.used_bytes.load(Relaxed)),
            6 | 8 => value.put(pool.most_used_bytes.load(Relaxed)),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

fn default_pool(driver: &Driver, ordinal: usize) -> Answer<Arc<Pool>> {
    let pools = driver.pools.all();
    let pool = pools.into_iter().find(|pool| pool.default && pool.ordinal == ordinal);
    pool.ok_or(Code::INVALID_DEVICE)
}
