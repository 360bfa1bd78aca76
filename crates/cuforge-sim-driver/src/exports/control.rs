//! The extension: what a test asks of and plans for the simulated driver. `CUDA` has none of these.
//!
//! Each answers 0 for done and 1 for an argument that makes no sense, unless it says otherwise. None of them counts as
//! a driver call.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::boundary::{Out, Text};
use crate::calls;
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::settings;

/// Runs a body that must not unwind into C.
pub(super) fn guarded<T>(wrong: T, body: impl FnOnce() -> Answer<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        _ => wrong,
    }
}

/// `int cuforgeSimVersion(void)`: the version of this extension (2 since memory can be guarded), and how a program tells the
/// simulated driver from another: no other exports it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimVersion() -> c_int {
    2
}

/// `int cuforgeSimSet(const char *name, const char *value)`: sets a `CUFORGE_SIM_*` setting for this copy of the
/// library, before its first driver call; 1 for an unknown name, 401 afterwards.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimSet(name: Text, value: Text) -> c_int {
    guarded(1, || {
        if Driver::exists() {
            return Ok(Code::ILLEGAL_STATE.0);
        }
        Ok(c_int::from(!settings::set(name.get()?, value.get()?)))
    })
}

/// `void cuforgeSimHold(int on)`: streams begin no work until it is lifted, or while the host waits in a driver call.
/// Lifting it waits until all that is queued is done.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimHold(on: c_int) {
    guarded((), || {
        let driver = Driver::of_the_process();
        driver.hold.set(on != 0);
        if on == 0 {
            driver.contexts.all().iter().for_each(|context| context.wait());
        }
        Ok(())
    });
}

/// `long long cuforgeSimCount(const char *what)`: `used_bytes` (of all devices), `mapped_bytes`, `contexts`, `streams`,
/// `events`, `modules`, `functions`, `graphs`, `nodes`, `execs`, `physicals`, `pools`, `captures`,
/// `captured_graphs`, `captured_execs`; -1 for anything else.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimCount(what: Text) -> i64 {
    guarded(-1, || {
        let driver = Driver::of_the_process();
        let used = |device: &std::sync::Arc<crate::device::Device>| {
            device.used.load(std::sync::atomic::Ordering::Relaxed)
        };
        Ok(match what.get()? {
            "used_bytes" => driver.devices.iter().map(used).sum::<u64>() as i64,
            "mapped_bytes" => driver.space.mapped_bytes() as i64,
            "contexts" => driver.contexts.len() as i64,
            "streams" => driver.streams.len() as i64,
            "events" => driver.events.len() as i64,
            "modules" => driver.modules.len() as i64,
            "functions" => driver.functions.len() as i64,
            "graphs" => driver.tables.graphs.len() as i64,
            "nodes" => driver.tables.nodes.len() as i64,
            "execs" => driver.execs.len() as i64,
            "physicals" => driver.physicals.len() as i64,
            "pools" => driver.pools.len() as i64,
            "captured_graphs" => {
                driver.tables.graphs.all().iter().filter(|graph| graph.captured).count() as i64
            }
            "captured_execs" => driver.execs.all().iter().filter(|exec| exec.captured).count() as i64,
            "captures" => driver.captures.lock().len() as i64,
            _ => -1,
        })
    })
}

/// `size_t cuforgeSimFault(char *text, size_t room)`: what ended the first lost device, in words, cut to the room;
/// gives the length of it all, 0 while no device is lost.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimFault(text: Out<c_char>, room: usize) -> usize {
    guarded(0, || {
        let fault = Driver::of_the_process().devices.iter().find_map(|device| device.fault());
        let fault = fault.unwrap_or_default();
        if !text.is_null() && room > 0 {
            text.put_text(&fault, room)?;
        }
        Ok(fault.len())
    })
}

/// `int cuforgeSimTrace(const char *path)`: writes a line for each later call to a file; null stops it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimTrace(path: Text) -> c_int {
    guarded(1, || Ok(c_int::from(!calls::trace_to(path.get().ok()))))
}

/// `int cuforgeSimGuard(unsigned long long base, unsigned long long bytes)`: of these bytes kernels may access from now on
/// only what is marked; an area that begins there already becomes as long. 0 bytes end it, and so does the end of the memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimGuard(base: u64, bytes: u64) -> c_int {
    guarded(1, || Driver::of_the_process().space.marks.guard(base, bytes).map(|()| 0))
}

/// `int cuforgeSimMark(unsigned long long address, unsigned long long bytes, const char *name)`: kernels that are submitted
/// from now on may access these bytes of a guarded area; what leaves them is told with the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimMark(address: u64, bytes: u64, name: Text) -> c_int {
    guarded(1, || Driver::of_the_process().space.marks.mark(address, bytes, name.get()?).map(|()| 0))
}

/// `int cuforgeSimUnmark(unsigned long long address)`: takes the latest mark that begins there away; kernels that were
/// submitted before may still access its bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimUnmark(address: u64) -> c_int {
    guarded(1, || Driver::of_the_process().space.marks.unmark(address).map(|()| 0))
}

/// `unsigned long long cuforgeSimRedZone(void)`: bytes that whoever marks parts of an area is asked to leave unmarked
/// behind each of them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimRedZone() -> u64 {
    guarded(0, || Ok(Driver::of_the_process().settings().red_zone_bytes))
}
