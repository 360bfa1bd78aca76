//! The exported functions, by area, the table of them all, and what a test asks and plans of one by its name.

pub(crate) mod absent;
pub(crate) mod contexts;
pub(crate) mod control;
pub(crate) mod copies;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod fills;
pub(crate) mod functions;
pub(crate) mod graph_execs;
pub(crate) mod graph_nodes;
pub(crate) mod graphs;
pub(crate) mod launches;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod pools;
pub(crate) mod startup;
pub(crate) mod streams;
pub(crate) mod virtual_memory;
pub(crate) mod words;

use std::ffi::c_int;
use std::time::Duration;

use crate::boundary::{Entry, Out, Text, exports};
use crate::calls::{self, Plan};
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use control::guarded;

/// `CU_GET_PROC_ADDRESS_SUCCESS`, `.._SYMBOL_NOT_FOUND`, `.._VERSION_NOT_SUFFICIENT`
const FOUND: c_int = 0;
const NO_SUCH_SYMBOL: c_int = 1;
const VERSION_TOO_OLD: c_int = 2;

exports! {
    Nothing cuGetProcAddress(name: Text, function: Out<usize>, version: c_int, flags: u64) since 11030,
    "As `cuGetProcAddress_v2`, without the reason.", |_driver| {
        let _ = flags;
        function.put(0)?;
        match look_up(name.get()?, version) {
            (Some(address), _) => function.put(address),
            (None, _) => Err(Code::NOT_FOUND),
        }
    }

    Nothing cuGetProcAddress_v2(name: Text, function: Out<usize>, version: c_int, flags: u64, reason: Out<c_int>) since 12000,
    "Finds the functions of this table by plain or versioned name; what is not simulated, hidden by `CUFORGE_SIM_HIDE` or newer than the played driver is NOT_FOUND. The extension is found too. Per-thread default stream variants are not found.", |_driver| {
        let _ = flags;
        function.put(0)?;
        let (address, why) = look_up(name.get()?, version);
        reason.offer(why);
        match address {
            Some(address) => function.put(address),
            // With the reason in hand, CUDA 12 answers success for what is not there.
            None if !reason.is_null() => Ok(()),
            None => Err(Code::NOT_FOUND),
        }
    }
}

/// Every area with its functions.
pub(crate) const AREAS: &[(&str, &[Entry])] = &[
    ("Start and errors", startup::ENTRIES),
    ("Looking functions up", ENTRIES),
    ("Devices", devices::ENTRIES),
    ("Contexts", contexts::ENTRIES),
    ("Memory", memory::ENTRIES),
    ("Virtual memory", virtual_memory::ENTRIES),
    ("Pools", pools::ENTRIES),
    ("Copies", copies::ENTRIES),
    ("Fills", fills::ENTRIES),
    ("Streams", streams::ENTRIES),
    ("Words in streams", words::ENTRIES),
    ("Events", events::ENTRIES),
    ("Modules", modules::ENTRIES),
    ("Functions and occupancy", functions::ENTRIES),
    ("Launches", launches::ENTRIES),
    ("Graphs", graphs::ENTRIES),
    ("Nodes of graphs", graph_nodes::ENTRIES),
    ("Executable graphs", graph_execs::ENTRIES),
    ("What the device does not have", absent::ENTRIES),
];

/// Every function.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    AREAS.iter().flat_map(|(_, entries)| entries.iter())
}

/// The function of that exact name.
pub(crate) fn named(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.site.name == name)
}

/// Where the newest form of a function is that a program built for `version` knows.
fn look_up(name: &str, version: c_int) -> (Option<usize>, c_int) {
    let settings = Driver::of_the_process().settings();
    let hidden = |symbol: &str| settings.hidden.iter().any(|hidden| hidden == symbol);
    if let Some(address) = extension(name).filter(|_| !hidden(name)) {
        return (Some(address), FOUND);
    }
    let versions =
        |symbol: &str| symbol == name || symbol.strip_prefix(name).is_some_and(|rest| rest.starts_with("_v"));
    let mut found = None;
    let mut too_new = false;
    for entry in all().filter(|entry| versions(entry.site.name) && !hidden(entry.site.name)) {
        let since = entry.site.since;
        if since > version || since > settings.driver_version {
            too_new = true;
        } else if found.is_none_or(|(newest, _)| since >= newest) {
            found = Some((since, (entry.address)()));
        }
    }
    match found {
        Some((_, address)) => (Some(address), FOUND),
        None if too_new => (None, VERSION_TOO_OLD),
        None => (None, NO_SUCH_SYMBOL),
    }
}

/// `long long cuforgeSimCalls(const char *function)`: calls of a function so far, of all for null; -1 for a name that
/// is no function of this driver.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimCalls(function: Text) -> i64 {
    guarded(-1, || match function.get() {
        Err(_) => Ok(calls::all() as i64),
        Ok(name) => Ok(named(name).map_or(-1, |entry| entry.site.calls() as i64)),
    })
}

/// `int cuforgeSimFail(const char *function, unsigned long long from, unsigned long long count, int code)`: lets the
/// `from`-th next call of a function (1 is the next one) and `count` in all, or for 0 every one from there on, answer a
/// code and do nothing; `from` 0 lets it work again. Any code will do, 0 too.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimFail(function: Text, from: u64, count: u64, code: c_int) -> c_int {
    guarded(1, || plan(&function, from, count, Plan::Fail(Code(code))))
}

/// `int cuforgeSimDelay(const char *function, unsigned long long from, unsigned long long count, unsigned long long
/// microseconds)`: lets calls take longer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimDelay(function: Text, from: u64, count: u64, microseconds: u64) -> c_int {
    guarded(1, || plan(&function, from, count, Plan::Delay(Duration::from_micros(microseconds))))
}

/// `int cuforgeSimLose(const char *function, unsigned long long from, int code)`: loses every device with a code, at
/// once for null or with the `from`-th next call of a function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuforgeSimLose(function: Text, from: u64, code: c_int) -> c_int {
    guarded(1, || match function.get() {
        Err(_) => {
            Driver::of_the_process().lose_all(Code(code), "asked for by a test");
            Ok(0)
        }
        Ok(_) => plan(&function, from, 1, Plan::Lose(Code(code))),
    })
}

fn plan(function: &Text, from: u64, count: u64, plan: Plan) -> Answer<c_int> {
    let entry = named(function.get()?).ok_or(Code::NOT_FOUND)?;
    if from == 0 {
        calls::forget(entry.site.name);
    } else {
        calls::plan(entry.site.name, entry.site.calls().saturating_add(from), count, plan);
    }
    Ok(0)
}

/// The extension by its names, for `cuGetProcAddress`.
fn extension(name: &str) -> Option<usize> {
    Some(match name {
        "cuforgeSimVersion" => control::cuforgeSimVersion as *const () as usize,
        "cuforgeSimSet" => control::cuforgeSimSet as *const () as usize,
        "cuforgeSimCalls" => cuforgeSimCalls as *const () as usize,
        "cuforgeSimFail" => cuforgeSimFail as *const () as usize,
        "cuforgeSimDelay" => cuforgeSimDelay as *const () as usize,
        "cuforgeSimLose" => cuforgeSimLose as *const () as usize,
        "cuforgeSimHold" => control::cuforgeSimHold as *const () as usize,
        "cuforgeSimCount" => control::cuforgeSimCount as *const () as usize,
        "cuforgeSimFault" => control::cuforgeSimFault as *const () as usize,
        "cuforgeSimTrace" => control::cuforgeSimTrace as *const () as usize,
        "cuforgeSimGuard" => control::cuforgeSimGuard as *const () as usize,
        "cuforgeSimMark" => control::cuforgeSimMark as *const () as usize,
        "cuforgeSimUnmark" => control::cuforgeSimUnmark as *const () as usize,
        "cuforgeSimRedZone" => control::cuforgeSimRedZone as *const () as usize,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_stands_twice_and_every_note_says_something() {
        let mut seen = BTreeSet::new();
        for entry in all() {
            assert!(seen.insert(entry.site.name), "{}", entry.site.name);
            assert!(entry.note.len() > 4, "{}", entry.site.name);
            assert_ne!((entry.address)(), 0);
        }
    }

    #[test]
    fn a_plain_name_finds_the_newest_form_that_the_program_knows() {
        let at = |name: &str| (named(name).unwrap().address)();
        assert_eq!(look_up("cuMemAlloc", 12_000), (Some(at("cuMemAlloc_v2")), FOUND));
        assert_eq!(look_up("cuMemAlloc_v2", 12_000).0, Some(at("cuMemAlloc_v2")));
        assert_eq!(look_up("cuEventElapsedTime", 12_000).0, Some(at("cuEventElapsedTime")));
        assert_eq!(look_up("cuEventElapsedTime", 12_080).0, Some(at("cuEventElapsedTime_v2")));
        assert_eq!(look_up("cuforgeSimMark", 12_000), (extension("cuforgeSimMark"), FOUND));
        assert_eq!(look_up("cuFuncGetParamInfo", 12_000), (None, VERSION_TOO_OLD));
        assert_eq!(look_up("cuGLInit", 13_000), (None, NO_SUCH_SYMBOL));
    }
}
