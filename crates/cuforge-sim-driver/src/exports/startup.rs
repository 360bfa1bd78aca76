//! Start, version, errors, and looking functions up.

use std::ffi::{c_char, c_int};

use crate::boundary::{Out, exports};
use crate::codes::Code;

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
