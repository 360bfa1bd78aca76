//! Blocks that talk to each other, side by side on one host thread.

use crate::exec::block::Round;
use crate::exec::machine::Shot;
use crate::exec::random::Random;
use crate::exec::runner::ClusterRunner;
use crate::fault::Fault;
use crate::lanes::LANES;

/// Warps of all blocks that are under way at once.
const RESIDENT_WARPS: u32 = 2048;

/// Blocks that a seed other than 0 mixes.
const MIXED_BLOCKS: usize = 4;

/// The clusters under way.
struct Resident<'a> {
    shot: &'a Shot<'a>,
    running: Vec<ClusterRunner<'a>>,
    idle: Vec<ClusterRunner<'a>>,
    next: u32,
    clusters: u32,
}

impl Resident<'_> {
    /// Starts the next cluster, if there is room and one left.
    fn admit(&mut self, most: usize) -> bool {
        if self.running.len() >= most || self.next == self.clusters {
            return false;
        }
        let mut runner = self.idle.pop().unwrap_or_else(|| ClusterRunner::new(self.shot));
        runner.start(self.next);
        self.next += 1;
        self.running.push(runner);
        true
    }
}

/// Runs all clusters, most of which are one block; gives the thread instructions.
///
/// With seed 0, they run in ascending order, and the next one joins when one has used up a turn, as it may wait for it.
/// Other seeds pick among a few, round by round.
pub(crate) fn run_side_by_side(shot: &Shot, clusters: u32) -> Result<u64, Fault> {
    let warps = shot.threads().div_ceil(LANES as u32) * shot.blocks_of_cluster();
    let most = (RESIDENT_WARPS / warps.max(1)).max(1) as usize;
    let mixes = shot.options.seed != 0;
    let mut random = Random::new(shot.options.seed, u64::MAX);
    let mut resident = Resident { shot, running: Vec::new(), idle: Vec::new(), next: 0, clusters };
    let mut current = 0;
    loop {
        while resident.admit(if mixes { MIXED_BLOCKS.min(most) } else { 1 }) {}
        if resident.running.is_empty() {
            return Ok(resident.idle.iter().map(ClusterRunner::instructions).sum());
        }
        if mixes {
            current = random.below(resident.running.len());
        }
        match resident.running[current].round().map_err(|fault| *fault)? {
            Round::Done => {
                let done = resident.running.swap_remove(current);
                resident.idle.push(done);
                current = 0;
            }
            Round::Spun => {
                current = if resident.admit(most) { resident.running.len() - 1 } else { current + 1 };
                current %= resident.running.len();
            }
            Round::Ran | Round::Waits => {}
        }
    }
}
