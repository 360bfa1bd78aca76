//! Functions: attributes, parameters, occupancy.

use std::ffi::c_int;

use crate::attributes::Limits;
use crate::boundary::{In, Out, exports};
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::exports::launches::Config;

exports! {
    Live cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: u64) since 2020,
    "As the text fixes them; registers are 32 or `.maxnreg`, as the simulator allocates none.", |driver| {
        value.put(driver.functions.get(function)?.attribute(driver.settings(), attribute)?)
    }

    Live cuFuncSetAttribute(function: u64, attribute: c_int, value: c_int) since 9000,
    "Dynamic shared memory up to what the device lets a block opt into, cluster sizes; carveout and policies are kept.", |driver| {
        driver.functions.get(function)?.set_attribute(driver.settings(), attribute, value)
    }

    Live cuFuncSetCacheConfig(function: u64, config: c_int) since 3000,
    "Checked and without effect: there is no cache.", |driver| {
        driver.functions.get(function)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    Live cuFuncGetModule(module: Out<u64>, function: u64) since 11000,
    "The module it is of.", |driver| {
        module.put(driver.functions.get(function)?.module)
    }

    Live cuFuncGetParamInfo(function: u64, index: usize, offset: Out<usize>, bytes: Out<usize>) since 12040,
    "Offset and size of each parameter; INVALID_VALUE past the last, as measured on hardware.", |driver| {
        let function = driver.functions.get(function)?;
        let (at, size) = *function.parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.put(at)?;
        bytes.offer(size);
        Ok(())
    }

    Live cuFuncIsLoaded(state: Out<c_int>, function: u64) since 12040,
    "Loaded.", |driver| {
        driver.functions.get(function)?;
        state.put(1)
    }

    Live cuFuncLoad(function: u64) since 12040,
    "Without effect: all are loaded.", |driver| {
        driver.functions.get(function).map(|_| ())
    }

    Live cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<c_int>, function: u64, threads: c_int, shared: usize) since 6050,
    "By threads, registers, shared memory and blocks of a multiprocessor.", |driver| {
        occupancy(driver, blocks, function, threads, shared)
    }

    Live cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<c_int>, function: u64, threads: c_int, shared: usize, flags: u32) since 7000,
    "By threads, registers, shared memory and blocks of a multiprocessor.", |driver| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        occupancy(driver, blocks, function, threads, shared)
    }

    Live cuOccupancyMaxPotentialBlockSize(grid: Out<c_int>, block: Out<c_int>, function: u64, shared_of: Option<extern "C" fn(c_int) -> usize>, shared: usize, limit: c_int) since 6050,
    "The block that keeps most threads of a multiprocessor busy.", |driver| {
        best_block(driver, [grid, block], function, shared_of, shared, limit)
    }

    Live cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<c_int>, block: Out<c_int>, function: u64, shared_of: Option<extern "C" fn(c_int) -> usize>, shared: usize, limit: c_int, flags: u32) since 7000,
    "The block that keeps most threads of a multiprocessor busy.", |driver| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        best_block(driver, [grid, block], function, shared_of, shared, limit)
    }

    Live cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: u64, blocks: c_int, threads: c_int) since 10020,
    "The most with which so many blocks still fit.", |driver| {
        let function = driver.functions.get(function)?;
        bytes.put(function.shared_for_blocks(driver.settings(), blocks, threads)? as usize)
    }

    Live cuOccupancyMaxPotentialClusterSize(size: Out<c_int>, function: u64, config: In<Config>) since 11070,
    "8, or 16 where the function allows sizes that are not portable.", |driver| {
        let function = driver.functions.get(function)?;
        config.get()?;
        if driver.settings().capability.0 < 9 {
            return Err(Code::NOT_SUPPORTED);
        }
        let free = function.attribute(driver.settings(), 14)? != 0;
        size.put(if free { 16 } else { 8 })
    }

    Live cuOccupancyMaxActiveClusters(clusters: Out<c_int>, function: u64, config: In<Config>) since 11070,
    "Blocks that fit all multiprocessors, by the blocks of a cluster.", |driver| {
        let function = driver.functions.get(function)?;
        let launch = config.get()?.launch(&function)?;
        let cluster = launch.shape.cluster.unwrap_or([1; 3]).iter().product::<u32>().max(1);
        let threads = launch.block.iter().product::<u32>();
        let settings = driver.settings();
        let each = function.blocks_per_multiprocessor(settings, threads as c_int, launch.shared_bytes.into());
        clusters.put(each * settings.multiprocessors / cluster as c_int)
    }
}

fn occupancy(driver: &Driver, blocks: Out<c_int>, function: u64, threads: c_int, shared: usize) -> Answer {
    let function = driver.functions.get(function)?;
    if threads <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    blocks.put(function.blocks_per_multiprocessor(driver.settings(), threads, shared as u64))
}

fn best_block(
    driver: &Driver,
    [grid, block]: [Out<c_int>; 2],
    function: u64,
    shared_of: Option<extern "C" fn(c_int) -> usize>,
    shared: usize,
    limit: c_int,
) -> Answer {
    let (function, settings) = (driver.functions.get(function)?, driver.settings());
    let most = Limits::of(settings.capability).threads_per_multiprocessor.min(function.fixed.max_threads);
    let most = if limit > 0 { limit.min(most) } else { most };
    let mut best = (0, 0, 0);
    let mut threads = (most + 31) / 32 * 32;
    while threads > 0 {
        let here = threads.min(most);
        let dynamic = shared_of.map_or(shared, |ask| ask(here));
        let blocks = function.blocks_per_multiprocessor(settings, here, dynamic as u64);
        // Larger blocks come first and keep a tie.
        if blocks * here > best.0 {
            best = (blocks * here, here, blocks);
        }
        threads -= 32;
    }
    block.put(best.1)?;
    grid.put(best.2 * settings.multiprocessors)
}
