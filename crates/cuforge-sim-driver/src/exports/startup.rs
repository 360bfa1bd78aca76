//! Start, version, errors, and looking functions up.

use std::ffi::{c_char, c_int};

use crate::boundary::{Out, Text, exports};
use crate::codes::Code;
use crate::exports;

/// `CU_GET_PROC_ADDRESS_SUCCESS`, `.._SYMBOL_NOT_FOUND`, `.._VERSION_NOT_SUFFICIENT`
const FOUND: c_int = 0;
const NO_SUCH_SYMBOL: c_int = 1;
const VERSION_TOO_OLD: c_int = 2;

exports! {
    Nothing cuInit(flags: u32) since 2000,
    "Checks the flags and that there is a device.", |driver| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        driver.initialise()
    }

    Nothing cuDriverGetVersion(version: Out<c_int>) since 2020,
    "Answers `CUFORGE_SIM_DRIVER_VERSION`.", |driver| {
        version.put(driver.settings().driver_version)
    }

    Nothing cuGetErrorName(code: c_int, name: Out<usize>) since 6000,
    "The codes of CUDA 13.0; INVALID_VALUE and null for others.", |_driver| {
        put_text(Code(code).name(), name)
    }

    Nothing cuGetErrorString(code: c_int, text: Out<usize>) since 6000,
    "The codes of CUDA 13.0; INVALID_VALUE and null for others.", |_driver| {
        put_text(Code(code).text(), text)
    }

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
    "Finds the functions of this table by plain or versioned name; what is not simulated, hidden by `CUFORGE_SIM_HIDE` or newer than the played driver is NOT_FOUND. Per-thread default stream variants are not found.", |_driver| {
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

    Nothing cuGetExportTable(table: Out<usize>, id: usize) since 3000,
    "There is for NVRTC, which crashes without it: no private table is simulated, and INVALID_VALUE says so.", |_driver| {
        let _ = id;
        table.offer(0);
        Err(Code::INVALID_VALUE)
    }

    Initialised cuProfilerStart() since 4000, "Does nothing: there is no profiler.", |_driver| { Ok(()) }

    Initialised cuProfilerStop() since 4000, "Does nothing: there is no profiler.", |_driver| { Ok(()) }
}

fn put_text(text: Option<&'static std::ffi::CStr>, out: Out<usize>) -> crate::codes::Answer {
    out.put(text.map_or(0, |text| text.as_ptr().cast::<c_char>() as usize))?;
    if text.is_some() { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

/// Where the newest form of a function is that a program built for `version` knows.
fn look_up(name: &str, version: c_int) -> (Option<usize>, c_int) {
    let settings = crate::driver::Driver::of_the_process().settings();
    let hidden = |symbol: &str| settings.hidden.iter().any(|hidden| hidden == symbol);
    let versions =
        |symbol: &str| symbol == name || symbol.strip_prefix(name).is_some_and(|rest| rest.starts_with("_v"));
    let mut found = None;
    let mut too_new = false;
    for entry in exports::all().filter(|entry| versions(entry.site.name) && !hidden(entry.site.name)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_finds_the_newest_form_that_the_program_knows() {
        let at = |name: &str| (exports::named(name).unwrap().address)();
        assert_eq!(look_up("cuMemAlloc", 12_000), (Some(at("cuMemAlloc_v2")), FOUND));
        assert_eq!(look_up("cuMemAlloc_v2", 12_000).0, Some(at("cuMemAlloc_v2")));
        assert_eq!(look_up("cuEventElapsedTime", 12_000).0, Some(at("cuEventElapsedTime")));
        assert_eq!(look_up("cuEventElapsedTime", 12_080).0, Some(at("cuEventElapsedTime_v2")));
        assert_eq!(look_up("cuFuncGetParamInfo", 12_000), (None, VERSION_TOO_OLD));
        assert_eq!(look_up("cuTexObjectCreate", 13_000), (None, NO_SUCH_SYMBOL));
    }
}
