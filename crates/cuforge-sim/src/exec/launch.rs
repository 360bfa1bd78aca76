//! A launch: checks what it is given, runs the blocks on host threads, and gathers what came of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use cuforge_core::LaunchGeometry;

use crate::code::Code;
use crate::exec::machine::Shot;
use crate::exec::options::LaunchOptions;
use crate::exec::runner::ClusterRunner;
use crate::exec::schedule::run_side_by_side;
use crate::exec::view::GlobalView;
use crate::fault::{AccessKind, Fault, LaunchMisuse, Party};
use crate::lanes::LANES;
use crate::memory::Memory;
use crate::program::Kernel;
use crate::shadow::global::{Conflict, GlobalShadow, Toucher};
use crate::shadow::journal::Journal;
use crate::shadow::order::Order;

/// Most threads of a block.
const MAX_THREADS: u32 = 1024;

/// Most threads of a block in its third dimension.
const MAX_BLOCK_Z: u32 = 64;

/// Most blocks in each dimension of a grid.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Most host threads of one launch.
const MAX_WORKERS: usize = 256;

/// Most bytes of shared memory a block can ask for.
const MAX_SHARED_BYTES: u64 = 227 * 1024;

/// Most blocks of a cluster.
const MAX_CLUSTER: u32 = 16;

/// What a launch did.
///
/// ```
/// use cuforge_core::LaunchGeometry;
/// use cuforge_sim::{LaunchOptions, Memory, Program, launch, ptx::Module};
///
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
/// let program = Program::load(&Module::parse(text)?)?;
/// let geometry = LaunchGeometry { grid: [3, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
/// let mut memory = Memory::new(0);
/// let report = launch(&program.kernel("k")?, &geometry, &[], &mut memory, &LaunchOptions::default())?;
/// assert_eq!((report.blocks, report.instructions), (3, 3 * 64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LaunchReport {
    /// Blocks that ran.
    pub blocks: u64,
    /// Instructions counted once for each thread that executed them; those switched off by their guard are not
    /// counted.
    pub instructions: u64,
}

/// Runs a kernel to its end: every block of the grid, on the memory as it is.
///
/// `params` are the bytes of the PTX parameter space, each parameter at its natural or declared alignment
/// ([`Kernel::param_bytes`](crate::Kernel::param_bytes) in all). A grid with a zero in it is a valid launch of
/// nothing. The module's variables are placed in the memory by the first launch of one of its kernels.
///
/// Blocks run in parallel on the host; those of kernels with global atomics, fences or other strong accesses to
/// global memory run on one host thread, so that the same bits come out each time: with seed 0 in ascending order, each
/// to its end unless it waits for another, with other seeds in turns that the seed picks. A plain access to what another
/// block writes is a fault, unless fences, releases and acquires order the two.
///
/// # Errors
/// The [`Fault`] of the lowest faulting block; of kernels whose blocks run in turns, the first one. [`Fault::BadLaunch`] leaves the memory as it was; after any
/// other fault it holds what the blocks had written so far.
pub fn launch(
    kernel: &Kernel,
    geometry: &LaunchGeometry,
    params: &[u8],
    memory: &mut Memory,
    options: &LaunchOptions,
) -> Result<LaunchReport, Fault> {
    let code = kernel.code();
    let misuse = |reason| Fault::BadLaunch { kernel: code.name.clone(), reason };
    check(kernel, geometry, params).map_err(misuse)?;
    if geometry.is_empty() {
        return Ok(LaunchReport::default());
    }
    let blocks = u32::try_from(geometry.blocks())
        .ok()
        .filter(|blocks| *blocks < u32::MAX)
        .ok_or_else(|| misuse(LaunchMisuse::GridSize { blocks: geometry.blocks() }))?;
    let cluster = cluster_of(code, geometry, options).map_err(misuse)?;
    let addresses = kernel.place_variables(memory).map_err(misuse)?;
    let view = GlobalView::new(memory);
    let (asked, clustered) = (cluster, cluster.iter().product::<u32>() > 1);
    let (communicates, synchronizes) = (code.communicates || clustered, code.synchronizes || clustered);
    let conflicts = options.checks.global_conflicts && blocks > 1;
    let watched = conflicts && !synchronizes;
    let within = options.checks.global_hazards && geometry.threads_per_block() > LANES as u128;
    let follows_clusters = clustered && options.checks.shared_hazards;
    let ordered = synchronizes && (conflicts || within) || follows_clusters;
    let warps = blocks as usize * (geometry.threads_per_block() as usize).div_ceil(LANES);
    let (granule, sites) = (code.global_granule_log2, code.global_sites.len());
    let shadow = |watched: bool| watched.then(|| GlobalShadow::new(view.sizes(), granule, blocks, sites));
    let mut shot = Shot {
        code,
        shadow: shadow(watched),
        strong: shadow(watched && communicates),
        order: ordered.then(|| {
            Mutex::new(Order::new(
                warps,
                granule.min(if clustered { code.shared_granule_log2 } else { granule }),
            ))
        }),
        journal: (watched && threads_of(communicates, options, blocks) > 1)
            .then(|| Journal::new(view.sizes())),
        printed: Mutex::default(),
        params: words(params),
        grid: geometry.grid,
        block: geometry.block,
        cluster: asked,
        is_clustered: options.cluster.is_some() || code.required_cluster.is_some(),
        follows_clusters,
        communicates,
        options: *options,
        shared_regions: shared_regions(kernel, geometry.shared_bytes),
        addresses,
        dynamic_shared: geometry.shared_bytes,
        view,
    };
    let mut outcome = outcome(&shot, blocks);
    if let Some(journal) = shot.journal.take().filter(|_| outcome.is_err()) {
        // How far other blocks had come is up to the host's threads, and so is what the faulting one read of them: the launch
        // is undone, and run again in order.
        for (allocation, word, value, known) in journal.entries() {
            shot.view.words(allocation)[word].store(value, Ordering::Relaxed);
            if let Some(bits) = shot.view.known(allocation) {
                bits[word].store(known, Ordering::Relaxed);
            }
        }
        shot.shadow = Some(GlobalShadow::new(shot.view.sizes(), granule, blocks, sites));
        shot.printed = Mutex::default();
        shot.options.threads = 1;
        outcome = self::outcome(&shot, blocks);
    }
    let mut printed = shot.printed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !communicates {
        printed.sort_by_key(|(block, _)| *block);
    }
    printed.into_iter().for_each(|(_, text)| memory.print(&text));
    outcome
}

/// Runs all blocks, and looks for conflicts between them.
fn outcome(shot: &Shot, blocks: u32) -> Result<LaunchReport, Fault> {
    let instructions = run_blocks(shot, blocks)?;
    let conflict = shot.shadow.as_ref().and_then(|shadow| shadow.first_conflict(shot.strong.as_ref()));
    if let Some(conflict) = conflict {
        return Err(conflict_fault(shot, conflict));
    }
    Ok(LaunchReport { blocks: u64::from(blocks), instructions })
}

/// Host threads of a launch.
fn threads_of(communicates: bool, options: &LaunchOptions, blocks: u32) -> usize {
    let threads = match options.threads {
        _ if communicates => 1,
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    threads.min(blocks as usize).min(MAX_WORKERS)
}

fn check(kernel: &Kernel, geometry: &LaunchGeometry, params: &[u8]) -> Result<(), LaunchMisuse> {
    let code = kernel.code();
    if params.len() != code.param_bytes as usize {
        return Err(LaunchMisuse::ParamBytes { got: params.len(), expected: code.param_bytes as usize });
    }
    let [x, y, z] = geometry.block;
    let threads = geometry.threads_per_block();
    let limit = code.max_threads.min(MAX_THREADS);
    if threads == 0 || threads > u128::from(limit) || z > MAX_BLOCK_Z {
        return Err(LaunchMisuse::BlockSize { x, y, z, limit });
    }
    if geometry.grid.iter().zip(MAX_GRID).any(|(blocks, most)| *blocks > most) {
        return Err(LaunchMisuse::GridSize { blocks: geometry.blocks() });
    }
    if let Some(required) = code.required_block
        && required != geometry.block
    {
        return Err(LaunchMisuse::RequiredBlock { got: geometry.block, required });
    }
    let bytes = code.shared.static_bytes + u64::from(geometry.shared_bytes);
    if bytes > MAX_SHARED_BYTES {
        return Err(LaunchMisuse::SharedBytes { bytes, limit: MAX_SHARED_BYTES });
    }
    Ok(())
}

/// Blocks of a cluster in each dimension.
fn cluster_of(
    code: &Code,
    geometry: &LaunchGeometry,
    options: &LaunchOptions,
) -> Result<[u32; 3], LaunchMisuse> {
    let cluster = options.cluster.or(code.required_cluster).unwrap_or([1; 3]);
    let blocks = cluster.iter().try_fold(1u32, |product, n| product.checked_mul(*n));
    let fits = blocks.is_some_and(|blocks| (1..=MAX_CLUSTER).contains(&blocks))
        && geometry.grid.iter().zip(cluster).all(|(grid, cluster)| grid % cluster == 0)
        && code.required_cluster.is_none_or(|required| required == cluster);
    if fits { Ok(cluster) } else { Err(LaunchMisuse::Cluster { cluster, grid: geometry.grid }) }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    };
    bytes.chunks(4).map(word).collect()
}

fn shared_regions(kernel: &Kernel, dynamic_bytes: u32) -> Vec<(u64, u64)> {
    let layout = &kernel.code().shared;
    let fixed =
        layout.variables.iter().map(|(start, len)| (u64::from(*start), u64::from(*start) + u64::from(*len)));
    let start = u64::from(layout.dynamic_start);
    let dynamic = (dynamic_bytes > 0).then_some((start, start + u64::from(dynamic_bytes)));
    fixed.chain(dynamic).collect()
}

/// Runs all blocks; gives the thread instructions, or the fault of the lowest faulting block.
fn run_blocks(shot: &Shot, blocks: u32) -> Result<u64, Fault> {
    if shot.communicates {
        return run_side_by_side(shot, blocks / shot.blocks_of_cluster().max(1));
    }
    let threads = threads_of(false, &shot.options, blocks);
    let next = AtomicU32::new(0);
    let fault: Mutex<Option<(u32, Box<Fault>)>> = Mutex::new(None);
    let work = || {
        let mut runner = ClusterRunner::new(shot);
        // Blocks are handed out in ascending order and the counter jumps to the end at a fault, so every block
        // below the lowest faulting one still runs.
        let take =
            || next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < blocks).then(|| n + 1));
        while let Ok(block) = take() {
            if let Err(found) = runner.run(block) {
                next.fetch_max(blocks, Ordering::Relaxed);
                let mut lowest = fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if lowest.as_ref().is_none_or(|(known, _)| block < *known) {
                    *lowest = Some((block, found));
                }
                break;
            }
        }
        runner.instructions()
    };
    let instructions = if threads <= 1 {
        work()
    } else {
        std::thread::scope(|scope| {
            // Where the host gives no more threads, those there are do the work.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (1..threads).map_while(spawn).collect();
            let own = work();
            workers.into_iter().fold(own, |sum, worker| match worker.join() {
                Ok(instructions) => sum + instructions,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    };
    match fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some((_, fault)) => Err(*fault),
        None => Ok(instructions),
    }
}

fn conflict_fault(shot: &Shot, conflict: Conflict) -> Fault {
    let line = |toucher: &Toucher| {
        toucher.site.and_then(|site| shot.code.global_sites.get(site as usize)).copied().unwrap_or_default()
    };
    let place = shot.place_at_line(shot.ctaid(conflict.writer.block), 0, line(&conflict.writer));
    Fault::GlobalConflict {
        place,
        access: AccessKind::Write,
        address: shot.view.base(conflict.allocation) + conflict.offset,
        other: Party {
            access: if conflict.other.wrote { AccessKind::Write } else { AccessKind::Read },
            line: line(&conflict.other),
            block: shot.ctaid(conflict.other.block),
            thread: None,
        },
    }
}

const _: () = assert!(MAX_THREADS as usize <= crate::shadow::clocks::MAX_WARPS * LANES);
