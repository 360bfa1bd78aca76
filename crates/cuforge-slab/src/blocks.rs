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

/// A run of granules, and whoever holds it: 32 bytes, two to a cache line, and nothing elsewhere to look up.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Block {
    /// Offset in the upper 44 bits; upper 20 bits of the generation.
    place: u64,
    /// Length in the upper 44 bits; lower 16 bits of the generation, lifetime, state.
    size: u64,
    /// Neighbours by place.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// Neighbours in the list that the state puts the block in: a size class, or a queue's pending list. In a live
    /// block, which is in no list, the halves of its serial number.
    pub(crate) list_before: u32,
    pub(crate) list_after: u32,
}

/// Offsets and lengths stay below 2^44 granules.
pub(crate) const UNIT_BITS: u32 = 44;
/// How often a node can hold a grant: 2^36 times. Its number is the upper part of the handle.
pub(crate) const MAX_GENERATION: u64 = (1 << 36) - 1;
const LOW_BITS: u32 = 64 - UNIT_BITS;
const LOW: u64 = (1 << LOW_BITS) - 1;
const STATE: u64 = 3;
const LIFETIME_SHIFT: u32 = 2;
const GENERATION_SHIFT: u32 = 4;
const GENERATION_LOW_BITS: u32 = LOW_BITS - GENERATION_SHIFT;

impl Block {
    const EMPTY: Self =
        Self { place: 0, size: 0, before: NONE, after: NONE, list_before: NONE, list_after: NONE };

    /// In granules.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.place >> LOW_BITS
    }

    /// In granules.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.size >> LOW_BITS
    }

    /// Where the block ends, in granules.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.offset() + self.len()
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.size & STATE {
            0 => State::Free,
            1 => State::Live,
            _ => State::Pending,
        }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.size & STATE == 0
    }

    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.size & STATE == State::Live as u64
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        self.size = self.size & !STATE | state as u64;
    }

    /// Another place and length, free.
    #[inline]
    pub(crate) fn set_free(&mut self, offset: u64, len: u64) {
        self.place = self.place & LOW | offset << LOW_BITS;
        self.size = (self.size & LOW & !STATE) | len << LOW_BITS;
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        (self.place & LOW) << GENERATION_LOW_BITS | (self.size & LOW) >> GENERATION_SHIFT
    }

    #[inline]
    pub(crate) fn lifetime(&self) -> Lifetime {
        match self.size >> LIFETIME_SHIFT & 3 {
            0 => Lifetime::Resident,
            1 => Lifetime::General,
            _ => Lifetime::Transient,
        }
    }

    /// Makes the block a grant.
    #[inline]
    pub(crate) fn set_live(&mut self, generation: u64, lifetime: Lifetime, serial: u64) {
        let low =
            (generation << GENERATION_SHIFT & LOW) | (lifetime as u64) << LIFETIME_SHIFT | State::Live as u64;
        self.place = self.place & !LOW | generation >> GENERATION_LOW_BITS;
        self.size = self.size & !LOW | low;
        (self.list_before, self.list_after) = (serial as u32, (serial >> 32) as u32);
    }

    /// The serial number of a live block.
    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        u64::from(self.list_after) << 32 | u64::from(self.list_before)
    }
}

/// Bounds the search for a block that happens to fit, where no class is sure to: so many entries are looked at.
pub(crate) const PROBES: u32 = 4;

/// The nodes: a chain of blocks by place that covers the whole capacity, and a list of free ones a size class. All
/// sizes here are in granules.
#[derive(Debug)]
pub(crate) struct Blocks {
    nodes: Box<[Block]>,
    bins: Bins,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Unused nodes, chained by `after`.
    spare: u32,
    spares: u32,
    #[cfg(test)]
    steps: core::cell::Cell<u32>,
}

impl Blocks {
    /// One free block of `len` from `origin` on.
    pub(crate) fn new(nodes: u32, origin: u64, len: u64) -> Self {
        let mut blocks = Self {
            nodes: (1..=nodes).map(|next| Block { after: next, ..Block::EMPTY }).collect(),
            bins: Bins::new(),
            first: 0,
            last: 0,
            spare: 0,
            spares: nodes,
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        };
        blocks.nodes[nodes as usize - 1].after = NONE;
        let whole = blocks.take_spare();
        blocks.nodes[whole as usize].after = NONE;
        blocks.nodes[whole as usize].set_free(origin, len);
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

    /// A block by a number that may be none.
    #[inline]
    pub(crate) fn get(&self, node: u32) -> Option<&Block> {
        self.step();
        self.nodes.get(node as usize)
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
        if self.nodes[node as usize].generation() != MAX_GENERATION {
            self.nodes[node as usize].after = self.spare;
            self.spare = node;
            self.spares += 1;
        }
    }

    /// Puts a free block into its class.
    #[inline]
    pub(crate) fn insert(&mut self, node: u32) {
        let bin = Bin::of(self.block(node).len());
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
            let bin = Bin::of(block.len());
            if block.list_after == NONE {
                self.bins.set_head(bin, NONE);
            } else {
                self.bins.replace_head(bin, block.list_after);
            }
        } else {
            self.block_mut(block.list_before).list_after = block.list_after;
        }
    }

    /// A free block that holds `len` at a multiple of `align`, or none that a bounded search finds: a few list entries
    /// and two bit searches.
    #[inline]
    pub(crate) fn find(&self, len: u64, align: u64) -> Option<u32> {
        // The newest block of its own class first: it may be a snug fit.
        let near = self.bins.first_from(Bin::of(len))?;
        let newest = self.bins.head(near);
        if fits(self.block(newest), len, align) {
            return Some(newest);
        }
        // Any block of this class fits, wherever it starts.
        match self.bins.first_from(Bin::all_fit(len + (align - 1))) {
            Some(sure) => Some(self.bins.head(sure)),
            None => self.find_by_chance(near, len, align),
        }
    }

    /// The first of a few blocks from a class on that happens to fit.
    #[cold]
    fn find_by_chance(&self, near: Bin, len: u64, align: u64) -> Option<u32> {
        let mut class = near;
        let mut node = self.bins.head(class);
        for _ in 0..PROBES {
            let block = self.block(node);
            if fits(block, len, align) {
                return Some(node);
            }
            node = block.list_after;
            if node == NONE {
                class = self.bins.first_from(class.next())?;
                node = self.bins.head(class);
            }
        }
        None
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

    /// Cuts `len` from `start` on out of a free block that holds them; the rest stays free, and the block itself is in
    /// no list then. Two spare nodes are enough.
    #[inline]
    pub(crate) fn carve(&mut self, node: u32, start: u64, len: u64) {
        self.remove(node);
        let whole = *self.block(node);
        let front = start - whole.offset();
        let back = whole.len() - front - len;
        if front > 0 {
            let rest = self.take_spare();
            self.block_mut(rest).set_free(whole.offset(), front);
            self.link(whole.before, rest);
            self.link(rest, node);
            self.insert(rest);
        }
        if back > 0 {
            let rest = self.take_spare();
            self.block_mut(rest).set_free(start + len, back);
            self.link(rest, whole.after);
            self.link(node, rest);
            self.insert(rest);
        }
        self.block_mut(node).set_free(start, len);
    }

    /// Makes a block that is in no list free and joins it with free neighbours; the node that holds it then.
    #[inline]
    pub(crate) fn free(&mut self, node: u32) -> u32 {
        let block = *self.block(node);
        let (mut offset, mut len) = (block.offset(), block.len());
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
            (offset, len) = (before.offset(), len + before.len());
            self.link(before.before, node);
            self.give_spare(block.before);
        }
        self.block_mut(node).set_free(offset, len);
        let node = self.renewed(node);
        self.insert(node);
        node
    }

    /// A node for the same block that can hold a grant again.
    #[inline]
    fn renewed(&mut self, node: u32) -> u32 {
        if self.nodes[node as usize].generation() != MAX_GENERATION || self.spares == 0 {
            return node;
        }
        let fresh = self.take_spare();
        let block = *self.block(node);
        self.block_mut(fresh).set_free(block.offset(), block.len());
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
    pub(crate) fn start_generations(&mut self, generation: u64) {
        for block in &mut self.nodes {
            block.place |= generation >> GENERATION_LOW_BITS;
            block.size |= generation << GENERATION_SHIFT & LOW;
        }
    }

    /// Adds `extra` behind the last block. One spare node is enough.
    pub(crate) fn extend(&mut self, extra: u64) {
        let last = *self.block(self.last);
        if last.is_free() {
            self.remove(self.last);
            self.block_mut(self.last).set_free(last.offset(), last.len() + extra);
            self.insert(self.last);
        } else {
            let node = self.take_spare();
            self.block_mut(node).set_free(last.end(), extra);
            self.link(self.last, node);
            self.link(node, NONE);
            self.insert(node);
        }
    }
}

/// Whether `len` at a multiple of `align`, a power of two, lies in the block.
#[inline]
pub(crate) fn fits(block: &Block, len: u64, align: u64) -> bool {
    let start = (block.offset() + (align - 1)) & !(align - 1);
    start + len <= block.end()
}
