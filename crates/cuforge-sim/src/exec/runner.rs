//! The blocks of a cluster side by side; most launches have clusters of one.

use crate::exec::bank::{Bank, Meeting};
use crate::exec::block::{BlockRunner, Round};
use crate::exec::cluster::CLUSTER_BARRIER;
use crate::exec::machine::Shot;
use crate::exec::random::Random;
use crate::fault::Fault;
use crate::meeting::Missing;

/// How often threads that wait at mbarriers give up and look again, with nothing else happening, before that is a fault.
const MAX_STALLS: u32 = 64;

/// Runs clusters of one launch, one after the other, on one host thread.
#[derive(Debug)]
pub(crate) struct ClusterRunner<'a> {
    shot: &'a Shot<'a>,
    blocks: Vec<BlockRunner<'a>>,
    /// Shared memory of the blocks, by rank, while none of them runs; that of a block alone stays with it.
    banks: Vec<Bank>,
    meeting: Meeting,
    order: Vec<usize>,
    random: Random,
    /// Phases that were complete when the cluster last stalled, and how often it has without one more.
    phases: u64,
    stalls: u32,
}

impl<'a> ClusterRunner<'a> {
    /// Makes the blocks of a cluster.
    pub(crate) fn new(shot: &'a Shot<'a>) -> Self {
        let count = shot.blocks_of_cluster().max(1);
        let mut blocks: Vec<_> = (0..count).map(|_| BlockRunner::new(shot)).collect();
        let banks = if count == 1 {
            Vec::new()
        } else {
            blocks.iter_mut().map(|block| std::mem::take(&mut block.machine.bank)).collect()
        };
        Self {
            shot,
            blocks,
            banks,
            meeting: Meeting::default(),
            order: Vec::new(),
            random: Random::new(0, 0),
            phases: 0,
            stalls: 0,
        }
    }

    /// Thread instructions of all clusters so far.
    pub(crate) fn instructions(&self) -> u64 {
        self.blocks.iter().map(BlockRunner::instructions).sum()
    }

    /// Runs the cluster with that linear index from start to end.
    pub(crate) fn run(&mut self, cluster: u32) -> Result<(), Box<Fault>> {
        self.start(cluster);
        while self.round()? != Round::Done {}
        Ok(())
    }

    /// Puts the cluster with that linear index at its start.
    pub(crate) fn start(&mut self, cluster: u32) {
        let count = self.blocks.len() as u32;
        for rank in 0..count {
            let index = self.shot.block_at(cluster, rank);
            self.with_block(rank as usize, |block| block.start(index));
        }
        self.meeting = Meeting::new(self.shot.threads() * count);
        self.order = (0..self.blocks.len()).collect();
        self.random = Random::new(self.shot.options.seed ^ 0x5eed, u64::from(cluster));
        (self.phases, self.stalls) = (0, 0);
    }

    /// Gives each block one round, in the order that the seed picks.
    pub(crate) fn round(&mut self) -> Result<Round, Box<Fault>> {
        self.random.shuffle(&mut self.order);
        let mut most = Round::Done;
        for index in 0..self.order.len() {
            most = most.max(self.with_block(self.order[index], BlockRunner::round)?);
        }
        if most == Round::Waits {
            self.go_on()?;
            most = Round::Ran;
        }
        Ok(most)
    }

    /// Works on a block, with the shared memory of all and the cluster's barrier in its hands.
    fn with_block<T>(&mut self, rank: usize, f: impl FnOnce(&mut BlockRunner<'a>) -> T) -> T {
        let block = &mut self.blocks[rank];
        std::mem::swap(&mut block.machine.meeting, &mut self.meeting);
        let alone = self.banks.is_empty();
        if !alone {
            std::mem::swap(&mut block.machine.peers, &mut self.banks);
            let machine = &mut block.machine;
            std::mem::swap(&mut machine.bank, &mut machine.peers[rank]);
        }
        let result = f(block);
        if !alone {
            let machine = &mut block.machine;
            std::mem::swap(&mut machine.bank, &mut machine.peers[rank]);
            std::mem::swap(&mut block.machine.peers, &mut self.banks);
        }
        std::mem::swap(&mut block.machine.meeting, &mut self.meeting);
        result
    }

    /// What happens when nobody can run: copies land; if there are none, waiting threads give up for now.
    fn go_on(&mut self) -> Result<(), Box<Fault>> {
        let mut landed = false;
        for rank in 0..self.blocks.len() {
            landed |= self.with_block(rank, |block| block.machine.land_all())?;
        }
        if landed {
            return Ok(());
        }
        let mut phases = u64::from(self.meeting.phases);
        for rank in 0..self.blocks.len() {
            phases += self.with_block(rank, |block| block.machine.bank.phases);
        }
        self.stalls = if phases == self.phases { self.stalls + 1 } else { 0 };
        self.phases = phases;
        let mut any = false;
        if self.stalls < MAX_STALLS {
            for rank in 0..self.blocks.len() {
                any |= self.with_block(rank, BlockRunner::time_out);
            }
        }
        if any { Ok(()) } else { Err(self.stuck()) }
    }

    #[cold]
    fn stuck(&mut self) -> Box<Fault> {
        for rank in 0..self.blocks.len() {
            if let Some(fault) = self.with_block(rank, BlockRunner::stuck_at_gate) {
                return fault;
            }
        }
        let first = self.blocks.iter().find_map(|block| Some((block, block.first_waiting(true)?)));
        let Some((block, (thread, pc))) = first else {
            let place = self.shot.place(self.blocks[0].machine.ctaid, 0, self.shot.code.entry);
            return Box::new(Fault::Unsupported { place, form: "a cluster in which no warp can run".into() });
        };
        let elsewhere = self.blocks.iter().find_map(|block| block.first_waiting(false));
        let missing = elsewhere.map_or(Missing::Unpaired, |(thread, pc)| Missing::Waits {
            thread: self.shot.tid(thread),
            line: self.shot.code.insts.get(pc).map_or(0, |inst| inst.line),
        });
        let place = self.shot.place(block.machine.ctaid, thread, pc);
        Box::new(Fault::BarrierDivergence { place, barrier: CLUSTER_BARRIER, missing })
    }
}
