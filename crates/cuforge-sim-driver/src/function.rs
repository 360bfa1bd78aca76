//! Kernels as the driver knows them: attributes, parameters, occupancy, and launches that are ready to run.

use cuforge_core::LaunchGeometry;
use cuforge_sim::{AccessLog, Fault, Kernel, LaunchMisuse, LaunchOptions, MemorySpace, Program, launch};
use parking_lot::Mutex;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::attributes::{Limits, MAX_THREADS, REGISTERS, SHARED_BYTES, SHARED_RESERVED};
use crate::codes::{Answer, Code};
use crate::order;
use crate::scene::Scene;
use crate::settings::Settings;

/// Registers that a thread is said to have unless `.maxnreg` says less: the simulator allocates none.
pub(crate) const REGISTERS_PER_THREAD: i32 = 32;

/// Most blocks of a cluster, and where the function allows sizes that are not portable.
const MAX_CLUSTER: (u32, u32) = (8, 16);

/// Module variables: the program they belong to and where they lie.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) program: Program,
    pub(crate) addresses: Vec<u64>,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) handle: u64,
    pub(crate) module: u64,
    pub(crate) context: u64,
    pub(crate) kernel: Kernel,
    pub(crate) placed: Arc<Placed>,
    /// Offset and bytes of each parameter.
    pub(crate) parameters: Vec<(usize, usize)>,
    /// What the text fixes.
    pub(crate) fixed: Fixed,
    /// What the program may set.
    pub(crate) tuned: Tuned,
}

/// Attributes that the text of a kernel fixes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fixed {
    pub(crate) max_threads: i32,
    pub(crate) local_bytes: i32,
    pub(crate) constant_bytes: i32,
    pub(crate) registers: i32,
    /// 10 x major + minor of `.target`, which is what `CU_FUNC_ATTRIBUTE_PTX_VERSION` means, as measured.
    pub(crate) target: i32,
    /// `.reqnctapercluster`; zeros without.
    pub(crate) cluster: [u32; 3],
}

/// Attributes that the program may set.
#[derive(Debug)]
pub(crate) struct Tuned {
    pub(crate) max_dynamic_shared: AtomicI32,
    pub(crate) carveout: AtomicI32,
    pub(crate) non_portable_cluster: AtomicI32,
    pub(crate) cluster_policy: AtomicI32,
    pub(crate) cluster: Mutex<[u32; 3]>,
}

impl Function {
    /// `CUfunction_attribute`.
    pub(crate) fn attribute(&self, settings: &Settings, which: i32) -> Answer<i32> {
        let shared = self.shared_bytes();
        let cluster = || {
            let tuned = *self.tuned.cluster.lock();
            if self.fixed.cluster == [0; 3] { tuned } else { self.fixed.cluster }
        };
        Ok(match which {
            0 => self.fixed.max_threads,
            1 => shared,
            2 => self.fixed.constant_bytes,
            3 => self.fixed.local_bytes,
            4 => self.fixed.registers,
            5 => self.fixed.target,
            6 => settings.capability.0 * 10 + settings.capability.1,
            7 => 0,
            8 => self.tuned.max_dynamic_shared.load(Relaxed),
            9 => self.tuned.carveout.load(Relaxed),
            10 => i32::from(self.fixed.cluster != [0; 3]),
            11..=13 => cluster()[(which - 11) as usize].cast_signed(),
            14 => self.tuned.non_portable_cluster.load(Relaxed),
            15 => self.tuned.cluster_policy.load(Relaxed),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// Sets an attribute that can be set.
    pub(crate) fn set_attribute(&self, settings: &Settings, which: i32, value: i32) -> Answer {
        let most = Limits::of(settings.capability).shared_opt_in - self.shared_bytes();
        let (place, fits) = match which {
            8 => (&self.tuned.max_dynamic_shared, (0..=most).contains(&value)),
            9 => (&self.tuned.carveout, (-1..=100).contains(&value)),
            14 => (&self.tuned.non_portable_cluster, (0..=1).contains(&value)),
            15 => (&self.tuned.cluster_policy, (0..=2).contains(&value)),
            11..=13 if self.fixed.cluster == [0; 3] && value >= 0 => {
                self.tuned.cluster.lock()[(which - 11) as usize] = value.cast_unsigned();
                return Ok(());
            }
            _ => return Err(Code::INVALID_VALUE),
        };
        if !fits {
            return Err(Code::INVALID_VALUE);
        }
        place.store(value, Relaxed);
        Ok(())
    }

    /// Statically declared shared memory in bytes.
    fn shared_bytes(&self) -> i32 {
        i32::try_from(self.kernel.static_shared_bytes()).unwrap_or(i32::MAX)
    }

    /// Blocks of so many threads that a multiprocessor holds at once.
    pub(crate) fn blocks_per_multiprocessor(&self, settings: &Settings, threads: i32, dynamic: u64) -> i32 {
        let limits = Limits::of(settings.capability);
        if threads <= 0 || threads > self.fixed.max_threads {
            return 0;
        }
        let warps = (threads + 31) / 32;
        let by_threads = limits.threads_per_multiprocessor / (warps * 32);
        // Registers are handed out to warps in units of 256.
        let by_registers = REGISTERS / ((self.fixed.registers * 32 + 255) / 256 * 256 * warps);
        let reserved = if settings.capability.0 >= 8 { SHARED_RESERVED } else { 0 };
        let shared = self.kernel.static_shared_bytes().saturating_add(dynamic);
        if shared > limits.shared_opt_in as u64 {
            return 0;
        }
        // And shared memory in units of 128 bytes.
        let shared = (shared as i32 + reserved + 127) / 128 * 128;
        let by_shared = if shared == 0 { i32::MAX } else { limits.shared_per_multiprocessor / shared };
        by_threads.min(by_registers).min(by_shared).min(limits.blocks_per_multiprocessor)
    }

    /// The most dynamic shared memory with which so many blocks still fit a multiprocessor.
    pub(crate) fn shared_for_blocks(&self, settings: &Settings, blocks: i32, threads: i32) -> Answer<u64> {
        let limits = Limits::of(settings.capability);
        if blocks <= 0 || self.blocks_per_multiprocessor(settings, threads, 0) < blocks {
            return Err(Code::INVALID_VALUE);
        }
        let reserved = if settings.capability.0 >= 8 { SHARED_RESERVED } else { 0 };
        let each = limits.shared_per_multiprocessor / blocks / 128 * 128 - reserved;
        Ok((each.min(limits.shared_opt_in) - self.shared_bytes()).max(0) as u64)
    }
}

/// A launch whose arguments have been taken: it can run any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Vec<u8>,
    /// Whether they came in a packed buffer, and are shown in one.
    pub(crate) packed: bool,
    pub(crate) shape: Shape,
}

/// How the blocks of a launch go together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shape {
    /// All at once.
    pub(crate) cooperative: bool,
    /// Blocks of a cluster; absent for none.
    pub(crate) cluster: Option<[u32; 3]>,
    /// May begin before the work ahead of it in the stream is done.
    pub(crate) programmatic: bool,
    pub(crate) priority: i32,
}

impl Launch {
    /// Whether a driver would take it.
    pub(crate) fn check(&self, settings: &Settings) -> Answer {
        let [x, y, z] = self.block.map(u64::from);
        let threads = x.saturating_mul(y).saturating_mul(z);
        let grid_fits = self.grid.iter().all(|blocks| *blocks > 0)
            && self.grid[0] <= i32::MAX as u32
            && self.grid[1] <= 65_535
            && self.grid[2] <= 65_535;
        if !grid_fits || threads == 0 || threads > MAX_THREADS as u64 || z > 64 {
            return Err(Code::INVALID_VALUE);
        }
        if threads > self.function.fixed.max_threads as u64 {
            return Err(Code::INVALID_VALUE);
        }
        let most = self.function.tuned.max_dynamic_shared.load(Relaxed);
        if i64::from(self.shared_bytes) > i64::from(most) {
            return Err(Code::INVALID_VALUE);
        }
        let blocks = self.grid.iter().map(|blocks| u128::from(*blocks)).product::<u128>();
        if blocks >= u128::from(u32::MAX) {
            // More than the simulator counts.
            return Err(Code::NOT_SUPPORTED);
        }
        self.check_cluster(settings)?;
        let each =
            self.function.blocks_per_multiprocessor(settings, threads as i32, self.shared_bytes.into());
        let at_once = u128::from(each.max(0).cast_unsigned()) * settings.multiprocessors as u128;
        if self.shape.cooperative && blocks > at_once {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok(())
    }

    fn check_cluster(&self, settings: &Settings) -> Answer {
        let required = self.function.fixed.cluster;
        let cluster = match self.shape.cluster {
            None if required == [0; 3] => return Ok(()),
            None => required,
            Some(cluster) if required != [0; 3] && cluster != required => {
                return Err(Code::INVALID_CLUSTER_SIZE);
            }
            Some(cluster) => cluster,
        };
        let free = self.function.tuned.non_portable_cluster.load(Relaxed) != 0;
        let most = if free { MAX_CLUSTER.1 } else { MAX_CLUSTER.0 };
        let blocks = cluster.iter().try_fold(1u32, |product, n| product.checked_mul(*n));
        let whole = cluster.iter().zip(self.grid).all(|(cluster, grid)| *cluster > 0 && grid % cluster == 0);
        if settings.capability.0 < 9 {
            return Err(Code::INVALID_VALUE);
        }
        if !whole || blocks.is_none_or(|blocks| blocks > most) {
            return Err(Code::INVALID_CLUSTER_SIZE);
        }
        Ok(())
    }

    /// Runs it to its end; what a kernel does wrong loses the device, as on hardware, and is told in words.
    pub(crate) fn run(&self, scene: Scene<'_>) -> Answer {
        let Scene { machine, device, submitted, touched } = scene;
        let mut memory = machine.space.snapshot(device.ordinal, submitted);
        memory.adopt(&self.function.placed.program, &self.function.placed.addresses);
        let geometry = LaunchGeometry { grid: self.grid, block: self.block, shared_bytes: self.shared_bytes };
        let options = LaunchOptions { cluster: self.shape.cluster, ..machine.settings().launch };
        let log = touched.map(|_| Arc::new(AccessLog::default()));
        if let Some(log) = &log {
            memory.watch(Arc::clone(log));
        }
        let ended = launch(&self.function.kernel, &geometry, &self.arguments, &mut memory, &options);
        if let (Some(touched), Some(log)) = (touched, log) {
            touched.borrow_mut().extend(order::spans_in(&log));
        }
        let printed = memory.take_printed();
        if !printed.is_empty() {
            // Where a driver prints it too; a closed standard output is nobody's fault here.
            let _ = std::io::stdout().write_all(&printed);
        }
        match ended {
            Ok(_) => Ok(()),
            Err(fault) => {
                let code = code_of(&fault);
                let mut words = fault.to_string();
                if let Fault::OutOfBounds { space: MemorySpace::Global, address, .. } = fault
                    && let Some(place) = submitted.and_then(|work| work.describe(address))
                {
                    words = format!("{words}; {place}");
                }
                device.lose(code, &words);
                Err(code)
            }
        }
    }
}

/// What hardware answers after such a fault. What hardware does not notice, but the simulator does, is a launch failure;
/// what the simulator cannot run is not supported.
fn code_of(fault: &Fault) -> Code {
    match fault {
        Fault::OutOfBounds { .. } => Code::ILLEGAL_ADDRESS,
        Fault::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
        Fault::AssertionFailed { .. } => Code::ASSERT,
        Fault::StepBudget { .. } => Code::LAUNCH_TIMEOUT,
        Fault::Unsupported { .. } => Code::NOT_SUPPORTED,
        Fault::BadLaunch { reason: LaunchMisuse::ModuleVariables { .. }, .. } => Code::OUT_OF_MEMORY,
        Fault::BadLaunch { .. } => Code::INVALID_VALUE,
        _ => Code::LAUNCH_FAILED,
    }
}

/// Dynamic shared memory that a function has without opting in.
pub(crate) fn plain_dynamic_shared(kernel: &Kernel) -> i32 {
    let fixed = i32::try_from(kernel.static_shared_bytes()).unwrap_or(i32::MAX);
    SHARED_BYTES.saturating_sub(fixed).max(0)
}
