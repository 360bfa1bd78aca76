//! Blocks of the general allocator: a fixed array of nodes, chained by place and by size class.

use crate::bins::{Bin, Bins, NONE};
use alloc::boxed::Box;
use cuforge_core::Lifetime;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Live,
    Pending,
}

/// A run of bytes. 32 bytes, two to a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Block {
    pub(crate) offset: u64,
    /// Length in bytes; the state in the upper two bits (capacities stay below 2^60).
    len_and_state: u64,
    /// Neighbours by place.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// Neighbours in the list that the state puts the block in: a size class, or a queue's pending list.
    pub(crate) list_before: u32,
    pub(crate) list_after: u32,
}

const STATE_SHIFT: u32 = 62;
const LEN: u64 = (1 << STATE_SHIFT) - 1;

impl Block {
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len_and_state & LEN
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.len_and_state >> STATE_SHIFT {
            0 => State::Free,
            1 => State::Live,
            _ => State::Pending,
        }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.len_and_state >> STATE_SHIFT == 0
    }

    #[inline]
    pub(crate) fn set(&mut self, len: u64, state: State) {
        self.len_and_state = len | (state as u64) << STATE_SHIFT;
    }
}

/// What only grants need: kept apart, so that searching and merging touch less memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    /// Number of the acquisition while live, of the release while pending.
    pub(crate) serial: u64,
    /// How often the node has held a grant: the handle's upper half.
    pub(crate) generation: u32,
    pub(crate) lifetime: Lifetime,
    /// The queue whose list a pending block is in.
    pub(crate) queue: u8,
}

/// Bounds the search for a block: so many list entries are looked at, however many there are.
pub(crate) const PROBES: u32 = 4;

/// The nodes: a chain of blocks by place that covers the whole capacity, and a list of free ones a size class.
#[derive(Debug)]
pub(crate) struct Blocks {
    nodes: Box<[Block]>,
    tags: Box<[Tag]>,
    bins: Bins,
    unit_shift: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Unused nodes, chained by `after`.
    spare: u32,
    spares: u32,
    #[cfg(test)]
    steps: core::cell::Cell<u32>,
}

impl Blocks {
    /// One free block of `len` bytes from `origin` on.
    pub(crate) fn new(nodes: u32, origin: u64, len: u64, unit_shift: u32) -> Self {
        let empty = Block {
            offset: 0,
            len_and_state: 0,
            before: NONE,
            after: NONE,
            list_before: NONE,
            list_after: NONE,
        };
        let tag = Tag { serial: 0, generation: 0, lifetime: Lifetime::General, queue: 0 };
        let mut blocks = Self {
            nodes: (1..=nodes).map(|next| Block { after: next, ..empty }).collect(),
            tags: (0..nodes).map(|_| tag).collect(),
            bins: Bins::new(),
            unit_shift,
            first: 0,
            last: 0,
            spare: 0,
            spares: nodes,
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        };
        blocks.nodes[nodes as usize - 1].after = NONE;
        let whole = blocks.take_spare();
        blocks.nodes[whole as usize] = Block { offset: origin, ..empty };
        blocks.nodes[whole as usize].set(len, State::Free);
        blocks.insert(whole);
        blocks
    }

    #[inline]
    pub(crate) fn step(&self) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
    }

    /// Blocks and class heads visited since the last call.
    #[cfg(test)]
    pub(crate) fn take_steps(&self) -> u32 {
        self.steps.replace(0)
    }

    #[inline]
    pub(crate) fn block(&self, node: u32) -> &Block {
        self.step();
        &self.nodes[node as usize]
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, node: u32) -> &mut Block {
        self.step();
        &mut self.nodes[node as usize]
    }

    #[inline]
    pub(crate) fn tag(&self, node: u32) -> Option<&Tag> {
        self.tags.get(node as usize)
    }

    #[inline]
    pub(crate) fn tag_mut(&mut self, node: u32) -> &mut Tag {
        &mut self.tags[node as usize]
    }

    /// Whether there are nodes to cut a block in three.
    #[inline]
    pub(crate) fn can_cut(&self) -> bool {
        self.spares >= 2
    }

    #[inline]
    fn take_spare(&mut self) -> u32 {
        let node = self.spare;
        self.spare = self.nodes[node as usize].after;
        self.spares -= 1;
        node
    }

    /// Gives a node back, unless its generations are used up.
    #[inline]
    fn give_spare(&mut self, node: u32) {
        if self.tags[node as usize].generation != u32::MAX {
            self.nodes[node as usize].after = self.spare;
            self.spare = node;
            self.spares += 1;
        }
    }

    #[inline]
    fn bin_of(&self, len: u64) -> Bin {
        Bin::of(len >> self.unit_shift)
    }

    /// Puts a free block into its class.
    #[inline]
    pub(crate) fn insert(&mut self, node: u32) {
        let bin = self.bin_of(self.block(node).len());
        let head = self.bins.head(bin);
        let block = self.block_mut(node);
        block.list_before = NONE;
        block.list_after = head;
        if head == NONE {
            self.bins.set_head(bin, node);
        } else {
            self.block_mut(head).list_before = node;
            self.bins.replace_head(bin, node);
        }
    }

    /// Takes a free block out of its class.
    #[inline]
    pub(crate) fn remove(&mut self, node: u32) {
        let block = *self.block(node);
        if block.list_after != NONE {
            self.block_mut(block.list_after).list_before = block.list_before;
        }
        if block.list_before == NONE {
            let bin = self.bin_of(block.len());
            if block.list_after == NONE {
                self.bins.set_head(bin, NONE);
            } else {
                self.bins.replace_head(bin, block.list_after);
            }
        } else {
            self.block_mut(block.list_before).list_after = block.list_after;
        }
    }

    /// A free block that holds `len` bytes at a multiple of `align`, or none that a bounded search finds. At most
    /// `PROBES` list entries and two bit searches.
    #[inline]
    pub(crate) fn find(&self, len: u64, align: u64) -> Option<u32> {
        // The block's own class first: it may hold a snug fit.
        let mut class = self.bins.first_from(self.bin_of(len));
        let mut node = self.bins.head(class?);
        for _ in 0..PROBES {
            let block = self.block(node);
            if fits(block, len, align) {
                return Some(node);
            }
            node = block.list_after;
            if node == NONE {
                class = class.and_then(|class| self.bins.first_from(class.next()));
                node = self.bins.head(class?);
            }
        }
        // Any block of this class fits, wherever it starts.
        let slack = align.saturating_sub(1 << self.unit_shift);
        let sure = self.bins.first_from(Bin::all_fit((len + slack) >> self.unit_shift))?;
        self.step();
        Some(self.bins.head(sure))
    }

    /// The longest free run that a look at one class finds.
    pub(crate) fn largest_free(&self) -> u64 {
        let mut longest = 0;
        let mut node = self.bins.last().map_or(NONE, |bin| self.bins.head(bin));
        for _ in 0..PROBES {
            if node == NONE {
                break;
            }
            let block = self.block(node);
            longest = longest.max(block.len());
            node = block.list_after;
        }
        longest
    }

    /// Cuts `len` bytes from `start` on out of a free block that holds them; the rest stays free. Two spare nodes
    /// are enough.
    #[inline]
    pub(crate) fn carve(&mut self, node: u32, start: u64, len: u64) {
        self.remove(node);
        let whole = *self.block(node);
        let front = start - whole.offset;
        let back = whole.len() - front - len;
        if front > 0 {
            let rest = self.take_spare();
            let block = self.block_mut(rest);
            block.offset = whole.offset;
            block.set(front, State::Free);
            self.link(whole.before, rest);
            self.link(rest, node);
            self.insert(rest);
        }
        if back > 0 {
            let rest = self.take_spare();
            let block = self.block_mut(rest);
            block.offset = start + len;
            block.set(back, State::Free);
            self.link(rest, whole.after);
            self.link(node, rest);
            self.insert(rest);
        }
        let block = self.block_mut(node);
        block.offset = start;
        block.set(len, State::Live);
    }

    /// Makes a block that is in no list free and joins it with free neighbours; the node that holds it then.
    #[inline]
    pub(crate) fn free(&mut self, node: u32) -> u32 {
        let block = *self.block(node);
        let mut offset = block.offset;
        let mut len = block.len();
        if block.after != NONE && self.block(block.after).is_free() {
            let after = *self.block(block.after);
            self.remove(block.after);
            len += after.len();
            self.link(node, after.after);
            self.give_spare(block.after);
        }
        if block.before != NONE && self.block(block.before).is_free() {
            let before = *self.block(block.before);
            self.remove(block.before);
            len += before.len();
            offset = before.offset;
            self.link(before.before, node);
            self.give_spare(block.before);
        }
        let block = self.block_mut(node);
        block.offset = offset;
        block.set(len, State::Free);
        let node = self.renewed(node);
        self.insert(node);
        node
    }

    /// A node for the same block that can hold a grant again.
    #[inline]
    fn renewed(&mut self, node: u32) -> u32 {
        if self.tags[node as usize].generation != u32::MAX || self.spares == 0 {
            return node;
        }
        let fresh = self.take_spare();
        let block = *self.block(node);
        *self.block_mut(fresh) = block;
        self.link(block.before, fresh);
        self.link(fresh, block.after);
        fresh
    }

    /// Makes the chain by place go from `left` to `right`; [`NONE`] is beyond an end.
    #[inline]
    fn link(&mut self, left: u32, right: u32) {
        if left == NONE {
            self.first = right;
        } else {
            self.block_mut(left).after = right;
        }
        if right == NONE {
            self.last = left;
        } else {
            self.block_mut(right).before = left;
        }
    }

    /// Starts every node at `generation`, so that tests reach the last one.
    #[cfg(test)]
    pub(crate) fn start_generations(&mut self, generation: u32) {
        for tag in &mut self.tags {
            tag.generation = generation;
        }
    }

    /// Adds `extra` bytes behind the last block. One spare node is enough.
    pub(crate) fn extend(&mut self, extra: u64) {
        let last = *self.block(self.last);
        if last.is_free() {
            self.remove(self.last);
            self.block_mut(self.last).set(last.len() + extra, State::Free);
            self.insert(self.last);
        } else {
            let node = self.take_spare();
            let block = self.block_mut(node);
            block.offset = last.offset + last.len();
            block.set(extra, State::Free);
            self.link(self.last, node);
            self.link(node, NONE);
            self.insert(node);
        }
    }
}

/// Whether `len` bytes at a multiple of `align` lie in the block.
#[inline]
pub(crate) fn fits(block: &Block, len: u64, align: u64) -> bool {
    let start = block.offset.next_multiple_of(align);
    start - block.offset + len <= block.len()
}
