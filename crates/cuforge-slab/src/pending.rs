//! Pending blocks, one list a queue in the order of epochs: a stuck queue holds back its own blocks only.

use crate::bins::NONE;
use crate::blocks::Blocks;
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use alloc::vec;
use cuforge_core::{MAX_QUEUES, Misuse, QueueId, Stamp};

/// An epoch that comes out of order moves so far towards its place. Past that it waits longer than it must.
const MOVES: u32 = 8;

/// The stamps of pending blocks, and for each queue a list of those that wait for it first.
#[derive(Debug)]
pub(crate) struct Pending {
    rows: StampRows,
    /// By node: the number of the release, and the queue whose list the block is in.
    orders: Box<[(u64, u32)]>,
    released: u64,
    heads: [u32; MAX_QUEUES],
    tails: [u32; MAX_QUEUES],
    pub(crate) granules: u64,
    pub(crate) grants: u64,
}

impl Pending {
    pub(crate) fn new(nodes: u32, queues: u32) -> Self {
        Self {
            rows: StampRows::new(nodes as usize, queues),
            orders: vec![(0, 0); nodes as usize].into_boxed_slice(),
            released: 0,
            heads: [NONE; MAX_QUEUES],
            tails: [NONE; MAX_QUEUES],
            granules: 0,
            grants: 0,
        }
    }

    pub(crate) fn queues(&self) -> u32 {
        self.rows.queues()
    }

    /// Whether all queues are known; call it before any change.
    #[inline]
    pub(crate) fn check(&self, after: &[Stamp]) -> Result<(), Misuse> {
        if after.is_empty() { Ok(()) } else { self.rows.check(after) }
    }

    /// Puts a block that is in no list behind `after`. O(queues).
    pub(crate) fn push(&mut self, blocks: &mut Blocks, node: u32, after: &[Stamp]) {
        self.rows.write(node as usize, after);
        if let Some(first) = self.rows.first(node as usize) {
            self.granules += blocks.block(node).len();
            self.grants += 1;
            self.orders[node as usize].0 = self.released;
            self.released += 1;
            self.enqueue(blocks, node, first);
        }
    }

    fn enqueue(&mut self, blocks: &mut Blocks, node: u32, stamp: Stamp) {
        let queue = stamp.queue.0 as usize;
        let mut left = self.tails[queue];
        let mut right = NONE;
        for _ in 0..MOVES {
            if left == NONE || self.rows.epoch(left as usize, queue) <= stamp.epoch {
                break;
            }
            right = left;
            left = blocks.block(left).list_before;
        }
        self.orders[node as usize].1 = queue as u32;
        let block = blocks.block_mut(node);
        (block.list_before, block.list_after) = (left, right);
        if left == NONE {
            self.heads[queue] = node;
        } else {
            blocks.block_mut(left).list_after = node;
        }
        if right == NONE {
            self.tails[queue] = node;
        } else {
            blocks.block_mut(right).list_before = node;
        }
    }

    /// Takes one block off a queue's list, if the queue has come far enough for its first. `Some(None)` if the block
    /// waits for another queue now.
    pub(crate) fn pop(
        &mut self,
        blocks: &mut Blocks,
        queue: usize,
        completed: &Completed,
    ) -> Option<Option<u32>> {
        let node = self.heads[queue];
        if node == NONE {
            return None;
        }
        let next = self.rows.waits_for(node as usize, 0, completed);
        if next.is_some_and(|stamp| stamp.queue == QueueId(queue as u32)) {
            return None;
        }
        let block = *blocks.block(node);
        self.heads[queue] = block.list_after;
        if block.list_after == NONE {
            self.tails[queue] = NONE;
        } else {
            blocks.block_mut(block.list_after).list_before = NONE;
        }
        if let Some(stamp) = next {
            self.enqueue(blocks, node, stamp);
            return Some(None);
        }
        self.rows.reset(node as usize);
        self.granules -= block.len();
        self.grants -= 1;
        Some(Some(node))
    }

    /// What the block released first waits for. O(queues).
    pub(crate) fn oldest(&self) -> Option<Stamp> {
        let queues = self.queues() as usize;
        let heads = self.heads.iter().take(queues).enumerate().filter(|(_, node)| **node != NONE);
        heads
            .min_by_key(|(_, node)| self.orders[**node as usize].0)
            .map(|(queue, node)| self.stamp(*node, queue))
    }

    /// What a pending block waits for, as far as is known.
    pub(crate) fn waits_for(&self, node: u32) -> Stamp {
        self.stamp(node, self.orders[node as usize].1 as usize)
    }

    fn stamp(&self, node: u32, queue: usize) -> Stamp {
        Stamp { queue: QueueId(queue as u32), epoch: self.rows.epoch(node as usize, queue) }
    }
}
