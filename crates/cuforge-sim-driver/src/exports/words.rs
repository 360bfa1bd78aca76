//! Words that streams write and wait for.

use std::ffi::c_int;

use crate::boundary::{In, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::graph::WordWork;
use crate::work::{Op, Until, Word};

/// `CUstreamBatchMemOpParams`: operation, address, value, flags, alias.
pub(crate) type Operation = [u64; 6];

exports! {
    Live cuStreamWriteValue32_v2(stream: u64, address: u64, value: u32, flags: u32) since 11070,
    "In stream order; without a barrier the same.", |driver| {
        queue(driver, stream, write(driver, address, value.into(), 4, flags)?)
    }

    Live cuStreamWriteValue64_v2(stream: u64, address: u64, value: u64, flags: u32) since 11070,
    "In stream order; without a barrier the same.", |driver| {
        queue(driver, stream, write(driver, address, value, 8, flags)?)
    }

    Live cuStreamWaitValue32_v2(stream: u64, address: u64, value: u32, flags: u32) since 11070,
    "Looks at the word every 20 microseconds: GEQ, EQ, AND and NOR.", |driver| {
        queue(driver, stream, await_(driver, address, value.into(), 4, flags)?)
    }

    Live cuStreamWaitValue64_v2(stream: u64, address: u64, value: u64, flags: u32) since 11070,
    "Looks at the word every 20 microseconds: GEQ, EQ, AND and NOR.", |driver| {
        queue(driver, stream, await_(driver, address, value, 8, flags)?)
    }

    Live cuStreamBatchMemOp_v2(stream: u64, count: u32, operations: In<Operation>, flags: u32) since 11070,
    "Writes and waits one after the other; barriers and flushes have no effect.", |driver| {
        if flags != 0 || count == 0 || count > 256 {
            return Err(Code::INVALID_VALUE);
        }
        for work in read(driver, operations, count)? {
            queue(driver, stream, work)?;
        }
        Ok(())
    }
}

/// What a list of operations does.
pub(super) fn read(driver: &Driver, operations: In<Operation>, count: u32) -> Answer<Vec<WordWork>> {
    let mut work = Vec::new();
    for [kind, address, value, flags, ..] in operations.list(count as usize)? {
        work.push(match kind as c_int {
            1 => await_(driver, address, value & 0xffff_ffff, 4, flags as u32)?,
            2 => write(driver, address, value & 0xffff_ffff, 4, flags as u32)?,
            4 => await_(driver, address, value, 8, flags as u32)?,
            5 => write(driver, address, value, 8, flags as u32)?,
            // A flush of remote writes, a barrier.
            3 | 6 => continue,
            _ => return Err(Code::INVALID_VALUE),
        });
    }
    Ok(work)
}

fn queue(driver: &Driver, stream: u64, work: WordWork) -> Answer {
    let op = match work {
        WordWork::Write(word) => Op::Write(word),
        WordWork::Await(word, until) => Op::Await(word, until),
    };
    capture::submit(driver, &driver.stream(stream)?, op).map(|_| ())
}

fn write(driver: &Driver, address: u64, value: u64, bytes: usize, flags: u32) -> Answer<WordWork> {
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(WordWork::Write(word(driver, address, value, bytes)?))
}

fn await_(driver: &Driver, address: u64, value: u64, bytes: usize, flags: u32) -> Answer<WordWork> {
    Ok(WordWork::Await(word(driver, address, value, bytes)?, Until::of(flags)?))
}

fn word(driver: &Driver, address: u64, value: u64, bytes: usize) -> Answer<Word> {
    if !address.is_multiple_of(bytes as u64) {
        return Err(Code::INVALID_VALUE);
    }
    driver.space.pieces(address, bytes as u64)?;
    Ok(Word { address, value, bytes })
}
