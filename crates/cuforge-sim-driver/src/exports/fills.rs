//! Fills of 8, 16 and 32 bits, in rows and rectangles, with and without waiting.

use crate::boundary::exports;
use crate::capture;
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::transfer::Fill;
use crate::work::Op;

exports! {
    Live cuMemsetD8_v2(address: u64, value: u8, count: usize) since 3020,
    "In order of the legacy stream; does not wait, as hardware does not.", |driver| {
        row(driver, address, value.into(), 1, count, 0)
    }

    Live cuMemsetD16_v2(address: u64, value: u16, count: usize) since 3020,
    "In order of the legacy stream; does not wait, as hardware does not.", |driver| {
        row(driver, address, value.into(), 2, count, 0)
    }

    Live cuMemsetD32_v2(address: u64, value: u32, count: usize) since 3020,
    "In order of the legacy stream; does not wait, as hardware does not.", |driver| {
        row(driver, address, value, 4, count, 0)
    }

    Live cuMemsetD8Async(address: u64, value: u8, count: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        row(driver, address, value.into(), 1, count, stream)
    }

    Live cuMemsetD16Async(address: u64, value: u16, count: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        row(driver, address, value.into(), 2, count, stream)
    }

    Live cuMemsetD32Async(address: u64, value: u32, count: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        row(driver, address, value, 4, count, stream)
    }

    Live cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize) since 3020,
    "In order of the legacy stream.", |driver| {
        rectangle(driver, fill(address, pitch, value.into(), 1, width, height), 0)
    }

    Live cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        rectangle(driver, fill(address, pitch, value.into(), 1, width, height), stream)
    }

    Live cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize) since 3020,
    "In order of the legacy stream.", |driver| {
        rectangle(driver, fill(address, pitch, value.into(), 2, width, height), 0)
    }

    Live cuMemsetD2D16Async(address: u64, pitch: usize, value: u16, width: usize, height: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        rectangle(driver, fill(address, pitch, value.into(), 2, width, height), stream)
    }

    Live cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize) since 3020,
    "In order of the legacy stream.", |driver| {
        rectangle(driver, fill(address, pitch, value, 4, width, height), 0)
    }

    Live cuMemsetD2D32Async(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64) since 3020,
    "In stream order.", |driver| {
        rectangle(driver, fill(address, pitch, value, 4, width, height), stream)
    }
}

fn row(driver: &Driver, address: u64, value: u32, element: u32, count: usize, stream: u64) -> Answer {
    rectangle(driver, fill(address, 0, value, element, count, 1), stream)
}

fn fill(address: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> Fill {
    Fill { address, pitch: pitch as u64, value, element, width: width as u64, height: height as u64 }
}

fn rectangle(driver: &Driver, fill: Fill, stream: u64) -> Answer {
    let stream = driver.stream(stream)?;
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    if fill.address == 0 {
        return Err(Code::INVALID_VALUE);
    }
    driver.space.check_fill(&fill)?;
    capture::submit(driver, &stream, Op::Fill(fill)).map(|_| ())
}
