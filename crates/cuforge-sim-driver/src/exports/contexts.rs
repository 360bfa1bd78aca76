//! Contexts: the primary one of a device, those a program makes, and which is current.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::boundary::{In, Out, exports};
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::stream::PRIORITIES;

/// `CU_CTX_FLAGS_MASK`
const FLAGS: u32 = 0xff;
/// Values of `CUlimit` that were never set, by number: stack, printf, heap, two of device-side launches, L2 fetch.
const LIMITS: &[usize] = &[1024, 1 << 20, 8 << 20, 2, 2048, 128];

exports! {
    Initialised cuDevicePrimaryCtxRetain(context: Out<u64>, device: c_int) since 7000,
    "Makes the primary context or counts one more user. A lost device answers its code.", |driver| {
        context.required()?;
        context.put(driver.retain_primary(driver.device(device)?)?.handle)
    }

    Initialised cuDevicePrimaryCtxRelease(device: c_int) since 7000,
    "As `cuDevicePrimaryCtxRelease_v2`.", |driver| {
        release(driver, device, false)
    }

    Initialised cuDevicePrimaryCtxRelease_v2(device: c_int) since 11000,
    "The last user's release waits for all work and ends all that belongs to the context.", |driver| {
        release(driver, device, false)
    }

    Initialised cuDevicePrimaryCtxReset_v2(device: c_int) since 11000,
    "Ends the primary context whoever uses it. A lost device stays lost, as measured on hardware.", |driver| {
        release(driver, device, true)
    }

    Initialised cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, active: Out<c_int>) since 7000,
    "Whether it is active, and its flags.", |driver| {
        let primary = driver.primary(driver.device(device)?)?.lock();
        flags.put(primary.flags)?;
        active.put(c_int::from(primary.context.is_some()))
    }

    Initialised cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: u32) since 11000,
    "Keeps the flags; how a host thread waits is not simulated.", |driver| {
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.primary(driver.device(device)?)?.lock().flags = flags;
        Ok(())
    }

    Initialised cuCtxCreate_v2(context: Out<u64>, flags: u32, device: c_int) since 3020,
    "Makes a context and makes it current.", |driver| {
        create(driver, context, flags, device)
    }

    Initialised cuCtxCreate_v3(context: Out<u64>, affinity: usize, count: c_int, flags: u32, device: c_int) since 11040,
    "As `cuCtxCreate_v2`; execution affinity is NOT_SUPPORTED.", |driver| {
        if affinity != 0 && count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(driver, context, flags, device)
    }

    Initialised cuCtxCreate_v4(context: Out<u64>, parameters: In<[usize; 2]>, flags: u32, device: c_int) since 12050,
    "As `cuCtxCreate_v2`; execution affinity and graphics contexts are NOT_SUPPORTED.", |driver| {
        if !parameters.is_null() && parameters.get()? != [0, 0] {
            return Err(Code::NOT_SUPPORTED);
        }
        create(driver, context, flags, device)
    }

    Initialised cuCtxDestroy_v2(context: u64) since 4000,
    "Waits for all work and ends all that belongs to the context.", |driver| {
        let context = driver.context(context)?;
        if context.primary {
            return Err(Code::INVALID_CONTEXT);
        }
        driver.destroy_context(&context);
        if Context::top().is_some_and(|top| Arc::ptr_eq(&top, &context)) {
            Context::pop()?;
        }
        Ok(())
    }

    Initialised cuCtxPushCurrent_v2(context: u64) since 4000,
    "A stack for each thread.", |driver| {
        Context::push(driver.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?);
        Ok(())
    }

    Initialised cuCtxPopCurrent_v2(context: Out<u64>) since 4000,
    "A stack for each thread; INVALID_CONTEXT when it is empty.", |_driver| {
        context.offer(Context::pop()?.handle);
        Ok(())
    }

    Initialised cuCtxSetCurrent(context: u64) since 4000,
    "Replaces the top of the thread's stack; null takes it off.", |driver| {
        let next = match context {
            0 => None,
            handle => Some(driver.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)?),
        };
        // There may have been none.
        let _ = Context::pop();
        if let Some(next) = next {
            Context::push(next);
        }
        Ok(())
    }

    Initialised cuCtxGetCurrent(context: Out<u64>) since 4000,
    "The thread's context, or null.", |_driver| {
        context.put(Context::top().map_or(0, |context| context.handle))
    }

    Initialised cuCtxGetDevice(device: Out<c_int>) since 2000,
    "The device of the thread's context.", |_driver| {
        device.put(Context::current()?.device.ordinal as c_int)
    }

    Initialised cuCtxGetId(context: u64, id: Out<u64>) since 12000,
    "A number that no other context has.", |driver| {
        id.put(driver.context(context)?.handle >> 4 & 0xffff_ffff)
    }

    Initialised cuCtxGetFlags(flags: Out<u32>) since 7000,
    "The flags it was made with.", |_driver| {
        flags.put(Context::current()?.flags.load(Relaxed))
    }

    Initialised cuCtxSetFlags(flags: u32) since 12010,
    "Keeps the flags; how a host thread waits is not simulated.", |_driver| {
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        Context::current()?.flags.store(flags, Relaxed);
        Ok(())
    }

    Initialised cuCtxGetApiVersion(context: u64, version: Out<u32>) since 3020,
    "3020, as newer drivers answer.", |driver| {
        driver.context(context)?;
        version.put(3020)
    }

    Live cuCtxSynchronize() since 2000,
    "Waits for all streams of the context; answers the code of a fault. Invalidates captures as measured on hardware.", |driver| {
        let context = Context::current()?;
        crate::capture::forbid_in_context(driver, &context)?;
        context.wait();
        context.device.check()
    }

    Initialised cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) since 5050,
    "0 to -5; priorities are kept and decide nothing.", |_driver| {
        Context::current()?;
        least.offer(PRIORITIES.0);
        greatest.offer(PRIORITIES.1);
        Ok(())
    }

    Live cuCtxSetLimit(limit: c_int, value: usize) since 3010,
    "Keeps the value, which limits nothing.", |_driver| {
        let context = Context::current()?;
        default_limit(limit)?;
        context.limits.lock().insert(limit, value);
        Ok(())
    }

    Live cuCtxGetLimit(value: Out<usize>, limit: c_int) since 3010,
    "The value that was set, or that of a new context.", |_driver| {
        let context = Context::current()?;
        let set = context.limits.lock().get(&limit).copied();
        value.put(set.map_or_else(|| default_limit(limit), Ok)?)
    }

    Live cuCtxGetCacheConfig(config: Out<c_int>) since 3020,
    "No preference: there is no cache.", |_driver| {
        Context::current()?;
        config.put(0)
    }

    Live cuCtxSetCacheConfig(config: c_int) since 3020,
    "Checked and without effect: there is no cache.", |_driver| {
        Context::current()?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    Live cuCtxResetPersistingL2Cache() since 11000,
    "Without effect: there is no cache.", |_driver| {
        Context::current().map(|_| ())
    }
}

fn default_limit(limit: c_int) -> Answer<usize> {
    let index = usize::try_from(limit).map_err(|_| Code::INVALID_VALUE)?;
    LIMITS.get(index).copied().ok_or(Code::UNSUPPORTED_LIMIT)
}

fn create(driver: &'static Driver, context: Out<u64>, flags: u32, device: c_int) -> Answer {
    context.required()?;
    if flags & !FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let device = driver.device(device)?;
    device.check()?;
    let made = driver.contexts.add(|handle| Context::new(driver, handle, Arc::clone(device), false, flags));
    Context::push(Arc::clone(&made));
    context.put(made.handle)
}

fn release(driver: &Driver, device: c_int, all: bool) -> Answer {
    let device = driver.device(device)?;
    let ended = {
        let mut primary = driver.primary(device)?.lock();
        if !all {
            primary.retained = primary.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        }
        if primary.retained == 0 || all { primary.context.take() } else { None }
    };
    if let Some(context) = ended {
        driver.destroy_context(&context);
    }
    Ok(())
}
