//! Plain device memory, pinned host memory, managed memory, and what a pointer is.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use crate::boundary::{In, Out, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::space::{Owner, Range};

/// `CU_MEMORYTYPE_HOST`, `CU_MEMORYTYPE_DEVICE`, `CU_MEMORYTYPE_UNIFIED`
const HOST: u32 = 1;
const DEVICE: u32 = 2;

exports! {
    Live cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) since 3020,
    "What this program has allocated counts, nobody else's.", |_driver| {
        let context = Context::current()?;
        let (used, capacity) = (context.device.used.load(Relaxed), context.device.capacity);
        free.offer((capacity - used) as usize);
        total.offer(capacity as usize);
        Ok(())
    }

    Live cuMemAlloc_v2(address: Out<u64>, bytes: usize) since 3020,
    "Poisoned up to 256 MiB. Addresses are never used twice and mean nothing to the host.", |driver| {
        address.required()?;
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        address.put(driver.allocate(&context, bytes as u64, Owner::Device)?)
    }

    Live cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) since 3020,
    "Rows at multiples of 512 bytes.", |driver| {
        address.required()?;
        pitch.required()?;
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        if !matches!(element, 4 | 8 | 16) || width == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Code::INVALID_VALUE)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        address.put(driver.allocate(&context, bytes as u64, Owner::Device)?)?;
        pitch.put(row)
    }

    Live cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32) since 6000,
    "Memory that host and device reach at the same address at any time; nothing migrates.", |driver| {
        address.required()?;
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        if !matches!(flags, 1 | 2) {
            return Err(Code::INVALID_VALUE);
        }
        address.put(driver.allocate(&context, bytes as u64, Owner::Managed)?)
    }

    Live cuMemFree_v2(address: u64) since 3020,
    "Waits for all work of the context, as measured on hardware. A later access is a fault.", |driver| {
        if address == 0 {
            return Ok(());
        }
        capture::forbid_unsafe_call(driver)?;
        let range = driver.space.around(address).ok_or(Code::INVALID_VALUE)?;
        if let Ok(context) = driver.contexts.get(range.context) {
            context.wait();
        }
        driver.end_allocation(address)
    }

    Live cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) since 3020,
    "The allocation that an address lies in.", |driver| {
        let range = driver.space.around(address).ok_or(Code::NOT_FOUND)?;
        base.offer(range.base);
        bytes.offer(range.bytes as usize);
        Ok(())
    }

    Live cuMemHostAlloc(pointer: Out<u64>, bytes: usize, flags: u32) since 2020,
    "Memory that the device reaches at the same address; write-combining makes no difference.", |driver| {
        pointer.required()?;
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        pointer.put(driver.allocate_host(&context, bytes as u64, flags)?)
    }

    Live cuMemAllocHost_v2(pointer: Out<u64>, bytes: usize) since 3020,
    "As `cuMemHostAlloc` without flags.", |driver| {
        pointer.required()?;
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        pointer.put(driver.allocate_host(&context, bytes as u64, 0)?)
    }

    Live cuMemFreeHost(pointer: u64) since 2000,
    "Waits for all work of the context, as measured on hardware.", |driver| {
        if pointer == 0 {
            return Ok(());
        }
        end_host(driver, pointer, Code::INVALID_VALUE, |range| matches!(range.owner, Owner::Host(_)))
    }

    Live cuMemHostRegister_v2(pointer: usize, bytes: usize, flags: u32) since 6050,
    "The program's memory at the same address for the device. It must stay until it is unregistered.", |driver| {
        let context = Context::current()?;
        capture::forbid_unsafe_call(driver)?;
        driver.register_host(&context, pointer, bytes, flags)
    }

    Live cuMemHostUnregister(pointer: u64) since 4000,
    "Waits for all work of the context, as measured on hardware.", |driver| {
        end_host(driver, pointer, Code::HOST_MEMORY_NOT_REGISTERED, |range| {
            matches!(range.owner, Owner::Registered(_))
        })
    }

    Live cuMemHostGetDevicePointer_v2(address: Out<u64>, pointer: u64, flags: u32) since 3020,
    "The pointer itself, for memory that the driver knows.", |driver| {
        let known = driver.space.around(pointer).is_some_and(|range| range.owner.is_seen_by_host());
        if flags != 0 || !known {
            return Err(Code::INVALID_VALUE);
        }
        address.put(pointer)
    }

    Live cuMemHostGetFlags(flags: Out<u32>, pointer: u64) since 2030,
    "The flags that the memory was made with.", |driver| {
        match driver.space.around(pointer).map(|range| range.owner) {
            Some(Owner::Host(given) | Owner::Registered(given)) => flags.put(given),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Live cuMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int) since 8000,
    "Checked and without effect: nothing migrates.", |driver| {
        let _ = (advice, device);
        managed(driver, address, bytes)
    }

    Live cuMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: u64) since 12020,
    "Checked and without effect: nothing migrates.", |driver| {
        let _ = (advice, location);
        managed(driver, address, bytes)
    }

    Live cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: u64) since 8000,
    "Checked and without effect: nothing migrates.", |driver| {
        let _ = device;
        driver.stream(stream)?;
        managed(driver, address, bytes)
    }

    Live cuMemPrefetchAsync_v2(address: u64, bytes: usize, location: u64, flags: u32, stream: u64) since 12020,
    "Checked and without effect: nothing migrates.", |driver| {
        let _ = (location, flags);
        driver.stream(stream)?;
        managed(driver, address, bytes)
    }

    Live cuStreamAttachMemAsync(stream: u64, address: u64, bytes: usize, flags: u32) since 6000,
    "Checked and without effect: managed memory is reachable always.", |driver| {
        let _ = (bytes, flags);
        driver.stream(stream)?;
        managed(driver, address, 1)
    }

    Initialised cuPointerGetAttribute(data: Out<u8>, attribute: c_int, address: u64) since 4000,
    "Context, memory type, both pointers, managed, ordinal, range, mapped, buffer id and pool; others are NOT_SUPPORTED.", |driver| {
        answer(driver, data.address(), attribute, address)
    }

    Initialised cuPointerGetAttributes(count: u32, attributes: In<c_int>, data: In<usize>, address: u64) since 7000,
    "As `cuPointerGetAttribute` for each; zero for an address that the driver does not know.", |driver| {
        let attributes = attributes.list(count as usize)?;
        for (attribute, place) in attributes.into_iter().zip(data.list(count as usize)?) {
            match answer(driver, place, attribute, address) {
                Err(Code::INVALID_VALUE) if driver.space.around(address).is_none() => {
                    write(place, attribute, 0)?;
                }
                other => other?,
            }
        }
        Ok(())
    }
}

fn end_host(driver: &Driver, pointer: u64, wrong: Code, fits: impl Fn(&Range) -> bool) -> Answer {
    capture::forbid_unsafe_call(driver)?;
    let range = driver.space.around(pointer).filter(|range| range.base == pointer && fits(range));
    let range = range.ok_or(wrong)?;
    if let Ok(context) = driver.contexts.get(range.context) {
        context.wait();
    }
    driver.space.remove(pointer, fits).map(|_| ())
}

fn managed(driver: &Driver, address: u64, bytes: usize) -> Answer {
    let known = driver.space.around(address).is_some_and(|range| range.owner == Owner::Managed);
    if bytes == 0 || !known { Err(Code::INVALID_VALUE) } else { Ok(()) }
}

/// Bytes that the value of an attribute has.
fn width(attribute: c_int) -> usize {
    match attribute {
        2 | 6 | 8 | 9 | 10 | 13 => 4,
        _ => 8,
    }
}

fn write(place: usize, attribute: c_int, value: u64) -> Answer {
    match width(attribute) {
        4 => Out::<u32>::inner(place).put(value as u32),
        _ => Out::<u64>::inner(place).put(value),
    }
}

fn answer(driver: &Driver, place: usize, attribute: c_int, address: u64) -> Answer {
    let range = driver.space.around(address).ok_or(Code::INVALID_VALUE)?;
    let by_host = range.owner.is_seen_by_host();
    let value = match attribute {
        1 => range.context,
        2 => u64::from(if matches!(range.owner, Owner::Host(_) | Owner::Registered(_)) {
            HOST
        } else {
            DEVICE
        }),
        3 => address,
        4 if by_host => address,
        // Device memory has no host pointer.
        4 => return Err(Code::INVALID_VALUE),
        6 => 0,
        7 => range.id,
        8 => u64::from(range.owner == Owner::Managed),
        9 => range.device as u64,
        10 => 0,
        11 => range.base,
        12 => range.bytes,
        13 => u64::from(range.accessible),
        17 => {
            if let Owner::Pool(pool) = range.owner {
                pool
            } else {
                0
            }
        }
        _ => return Err(Code::NOT_SUPPORTED),
    };
    write(place, attribute, value)
}
