//! Launches: plain, cooperative, and with attributes.

use std::ffi::c_int;
use std::sync::Arc;

use crate::boundary::{In, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::function::{Function, Launch, Shape};
use crate::work::Op;

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: usize,
    count: u32,
}

/// `CUlaunchAttribute`: a number and 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

exports! {
    Live cuLaunchKernel(function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: u64, parameters: usize, extra: usize) since 4000,
    "Run by `cuforge-sim` on the stream's thread and as many others as there are cores. Faults are sticky, and told on standard error.", |driver| {
        let function = driver.functions.get(function)?;
        let arguments = arguments(&function, parameters, extra)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let launch = Launch { function, grid, block, shared_bytes: shared, arguments, packed: extra != 0, shape: Shape::default() };
        submit(driver, stream, launch)
    }

    Live cuLaunchKernelEx(config: In<Config>, function: u64, parameters: usize, extra: usize) since 11060,
    "Cooperative, cluster and programmatic launches are checked; blocks of cooperative and cluster launches run as `cuforge-sim` runs them, and a programmatic one starts when the one before is done. Other attributes have no effect.", |driver| {
        let config = config.get()?;
        let function = driver.functions.get(function)?;
        let mut launch = config.launch(&function)?;
        launch.arguments = arguments(&function, parameters, extra)?;
        launch.packed = extra != 0;
        submit(driver, config.stream, launch)
    }

    Live cuLaunchCooperativeKernel(function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: u64, parameters: usize) since 9000,
    "As `cuLaunchKernel`, refused where not all blocks fit at once.", |driver| {
        let function = driver.functions.get(function)?;
        let arguments = arguments(&function, parameters, 0)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { cooperative: true, ..Shape::default() };
        submit(driver, stream, Launch { function, grid, block, shared_bytes: shared, arguments, packed: false, shape })
    }
}

fn submit(driver: &Driver, stream: u64, launch: Launch) -> Answer {
    let stream = driver.stream(stream)?;
    if stream.context_handle != launch.function.context {
        return Err(Code::INVALID_HANDLE);
    }
    launch.check(driver.settings())?;
    capture::submit(driver, &stream, Op::Kernel(Arc::new(launch))).map(|_| ())
}

/// The parameter space of a kernel, from pointers to each parameter or from a packed buffer.
pub(super) fn arguments(function: &Function, parameters: usize, extra: usize) -> Answer<Vec<u8>> {
    let bytes = function.kernel.param_bytes() as usize;
    if extra != 0 {
        if parameters != 0 {
            return Err(Code::INVALID_VALUE);
        }
        return packed(extra, bytes);
    }
    let mut arguments = vec![0; bytes];
    let pointers = In::<usize>::inner(parameters).list(function.parameters.len())?;
    for ((offset, size), pointer) in function.parameters.iter().zip(pointers) {
        let value = In::<u8>::inner(pointer).list(*size)?;
        arguments[*offset..*offset + *size].copy_from_slice(&value);
    }
    Ok(arguments)
}

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` (1), `.._SIZE` (2) and their values, up to `.._END` (0).
fn packed(extra: usize, bytes: usize) -> Answer<Vec<u8>> {
    let (mut buffer, mut size) = (0, None);
    let mut at = extra;
    // Each mark is told once.
    for _ in 0..3 {
        let mark = In::<usize>::inner(at).get()?;
        if mark == 0 {
            break;
        }
        let value = In::<usize>::inner(at + size_of::<usize>()).get()?;
        match mark {
            1 => buffer = value,
            2 => size = Some(In::<usize>::inner(value).get()?),
            _ => return Err(Code::INVALID_VALUE),
        }
        at += 2 * size_of::<usize>();
    }
    // More than the kernel takes is refused, less is not, as measured.
    let size = size.ok_or(Code::INVALID_VALUE)?;
    if size > bytes {
        return Err(Code::LAUNCH_OUT_OF_RESOURCES);
    }
    let mut arguments = In::<u8>::inner(buffer).list(size)?;
    arguments.resize(bytes, 0);
    Ok(arguments)
}

impl Config {
    /// The launch without its arguments.
    pub(super) fn launch(&self, function: &Arc<Function>) -> Answer<Launch> {
        let mut shape = Shape::default();
        for attribute in In::<Attribute>::inner(self.attributes).list(self.count as usize)? {
            let [x, y, z, ..] = attribute.value;
            match attribute.id {
                2 => shape.cooperative = x != 0,
                4 => shape.cluster = Some([x, y, z]),
                6 => shape.programmatic = x != 0,
                8 => shape.priority = x as c_int,
                // An event at the end of the last block or at the start of all: not told apart from the launch's end.
                7 | 12 | 13 => return Err(Code::NOT_SUPPORTED),
                0 | 1 | 3 | 5 | 9..=11 | 14..=16 => {}
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        Ok(Launch {
            function: Arc::clone(function),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            arguments: Vec::new(),
            packed: false,
            shape,
        })
    }
}
