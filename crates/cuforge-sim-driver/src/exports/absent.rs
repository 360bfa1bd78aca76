//! What the simulated device does not have: functions that are there to say so by a code.

use std::ffi::c_int;

use crate::boundary::{Out, exports};
use crate::codes::{Answer, Code};
use crate::driver::Driver;

/// Defines functions that answer `NOT_SUPPORTED` whatever they are given: name, number of arguments, version.
macro_rules! absent {
    ($($name:ident ( $($argument:ident),* ) since $since:literal)*) => {
        exports! {
            $(Live $name($($argument: usize),*) since $since, "NOT_SUPPORTED.", |_driver| {
                let _ = ($($argument,)*);
                Err(Code::NOT_SUPPORTED)
            })*

            Live cuCtxEnablePeerAccess(context: u64, flags: u32) since 4000,
            "PEER_ACCESS_UNSUPPORTED for a context of another device; its own is INVALID_CONTEXT.", |driver| {
                peer(driver, context)?;
                if flags == 0 { Err(Code::PEER_ACCESS_UNSUPPORTED) } else { Err(Code::INVALID_VALUE) }
            }

            Live cuCtxDisablePeerAccess(context: u64) since 4000,
            "PEER_ACCESS_NOT_ENABLED.", |driver| {
                peer(driver, context)?;
                Err(Code::PEER_ACCESS_NOT_ENABLED)
            }

            Initialised cuDeviceGetP2PAttribute(value: Out<c_int>, attribute: c_int, from: c_int, to: c_int) since 8000,
            "0: no device reaches another's memory.", |driver| {
                let (from, to) = (driver.device(from)?, driver.device(to)?);
                if !(1..=5).contains(&attribute) || from.ordinal == to.ordinal {
                    return Err(Code::INVALID_VALUE);
                }
                value.put(0)
            }
        }
    };
}

absent! {
    cuArrayCreate_v2(array, description) since 3020
    cuArrayGetDescriptor_v2(description, array) since 3020
    cuArrayDestroy(array) since 2000
    cuArray3DCreate_v2(array, description) since 3020
    cuArray3DGetDescriptor_v2(description, array) since 3020
    cuMipmappedArrayCreate(array, description, levels) since 5000
    cuMipmappedArrayGetLevel(level, array, number) since 5000
    cuMipmappedArrayDestroy(array) since 5000
    cuMemcpyAtoA_v2(to, to_offset, from, from_offset, bytes) since 3020
    cuMemcpyAtoD_v2(to, from, from_offset, bytes) since 3020
    cuMemcpyDtoA_v2(to, to_offset, from, bytes) since 3020
    cuMemcpyAtoH_v2(to, from, from_offset, bytes) since 3020
    cuMemcpyHtoA_v2(to, to_offset, from, bytes) since 3020
    cuMemcpyAtoHAsync_v2(to, from, from_offset, bytes, stream) since 3020
    cuMemcpyHtoAAsync_v2(to, to_offset, from, bytes, stream) since 3020
    cuTexObjectCreate(object, resource, texture, view) since 5000
    cuTexObjectDestroy(object) since 5000
    cuTexObjectGetResourceDesc(description, object) since 5000
    cuTexObjectGetTextureDesc(description, object) since 5000
    cuTexObjectGetResourceViewDesc(description, object) since 5000
    cuSurfObjectCreate(object, resource) since 5000
    cuSurfObjectDestroy(object) since 5000
    cuSurfObjectGetResourceDesc(description, object) since 5000
    cuIpcGetMemHandle(handle, address) since 4010
    cuIpcOpenMemHandle_v2(address, handle, flags) since 11000
    cuIpcCloseMemHandle(address) since 4010
    cuIpcGetEventHandle(handle, event) since 4010
    cuIpcOpenEventHandle(event, handle) since 4010
    cuMemExportToShareableHandle(shared, handle, kind, flags) since 10020
    cuMemImportFromShareableHandle(handle, shared, kind) since 10020
    cuMemPoolExportToShareableHandle(shared, pool, kind, flags) since 11020
    cuMemPoolImportFromShareableHandle(pool, shared, kind, flags) since 11020
    cuImportExternalMemory(memory, description) since 10000
    cuImportExternalSemaphore(semaphore, description) since 10000
    cuMulticastCreate(handle, properties) since 12010
    cuGreenCtxCreate(context, description, device, flags) since 12040
}

/// A context of another device than the calling thread's.
fn peer(driver: &Driver, context: u64) -> Answer {
    let (own, other) = (driver.context(0)?, driver.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?);
    if own.device.ordinal == other.device.ordinal { Err(Code::INVALID_CONTEXT) } else { Ok(()) }
}
