//! Virtual memory management: addresses, physical memory, and putting one behind the other.

use std::ffi::c_int;

use crate::allocate::GRANULARITY;
use crate::boundary::{In, Out, exports};
use crate::codes::{Answer, Code};
use crate::driver::Driver;

/// `CUmemAllocationProp`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
    windows: usize,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    location_kind: c_int,
    location: c_int,
    flags: c_int,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`
const PINNED: c_int = 1;
const ON_DEVICE: c_int = 1;

exports! {
    Initialised cuMemGetAllocationGranularity(bytes: Out<usize>, properties: In<Properties>, option: c_int) since 10020,
    "2 MiB.", |driver| {
        let _ = option;
        check(driver, properties)?;
        bytes.put(GRANULARITY as usize)
    }

    Live cuMemAddressReserve(address: Out<u64>, bytes: usize, align: usize, hint: u64, flags: u64) since 10020,
    "Addresses of the host without memory; the hint is not followed.", |driver| {
        let _ = hint;
        address.required()?;
        let align = (align as u64).max(GRANULARITY);
        let bytes = bytes as u64;
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || !align.is_power_of_two() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.put(driver.space.reserve(bytes, align)?)
    }

    Live cuMemAddressFree(address: u64, bytes: usize) since 10020,
    "A whole reservation with nothing mapped.", |driver| {
        driver.space.unreserve(address, bytes as u64)
    }

    Live cuMemCreate(handle: Out<u64>, bytes: usize, properties: In<Properties>, flags: u64) since 10020,
    "Pinned memory of a device; memory of the host and handles for other processes are NOT_SUPPORTED.", |driver| {
        handle.required()?;
        let device = check(driver, properties)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.put(driver.create_physical(driver.device(device)?, bytes as u64)?)
    }

    Live cuMemRelease(handle: u64) since 10020,
    "The memory goes once it is mapped nowhere.", |driver| {
        driver.physicals.remove(handle).map(|_| ()).map_err(|_| Code::INVALID_VALUE)
    }

    Live cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) since 10020,
    "All of it, behind reserved addresses (a part is NOT_SUPPORTED, as measured); no access before it is set. Running kernels keep what they saw.", |driver| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.map_physical(address, bytes as u64, offset as u64, handle)
    }

    Live cuMemUnmap(address: u64, bytes: usize) since 10020,
    "Whole mappings; returns at once, as measured on hardware.", |driver| {
        driver.space.unmap(address, bytes as u64)
    }

    Live cuMemSetAccess(address: u64, bytes: usize, descriptions: In<Access>, count: usize) since 10020,
    "Read-write or none, for the device that has the memory; read-only and peers are NOT_SUPPORTED.", |driver| {
        for access in descriptions.list(count)? {
            if access.location_kind != ON_DEVICE {
                return Err(Code::INVALID_VALUE);
            }
            let device = driver.device(access.location)?;
            let range = driver.space.around(address).ok_or(Code::INVALID_VALUE)?;
            if range.device != device.ordinal || access.flags == 1 {
                return Err(Code::NOT_SUPPORTED);
            }
            driver.space.set_access(address, bytes as u64, match access.flags {
                0 => false,
                3 => true,
                _ => return Err(Code::INVALID_VALUE),
            })?;
        }
        Ok(())
    }

    Live cuMemGetAccess(flags: Out<u64>, location: In<[c_int; 2]>, address: u64) since 10020,
    "What was set.", |driver| {
        let [kind, device] = location.get()?;
        let range = driver.space.around(address).ok_or(Code::INVALID_VALUE)?;
        let here = kind == ON_DEVICE && usize::try_from(device) == Ok(range.device);
        flags.put(if here && range.accessible { 3 } else { 0 })
    }
}

/// The device that memory is asked of.
fn check(driver: &Driver, properties: In<Properties>) -> Answer<c_int> {
    let properties = properties.get()?;
    if properties.kind != PINNED {
        return Err(Code::INVALID_VALUE);
    }
    if properties.location_kind != ON_DEVICE || properties.handle_types != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    let available = crate::attributes::value(driver.settings(), 0, 102) == Some(1);
    if !available {
        return Err(Code::NOT_SUPPORTED);
    }
    driver.device(properties.location)?;
    Ok(properties.location)
}
