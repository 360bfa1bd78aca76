//! The peer that keeps its books in the memory it hands out: `rlsf`, over one block of real memory.
#![allow(unsafe_code, reason = "giving memory back to rlsf is an unsafe call")]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use rlsf::Tlsf;

use super::sides::Outcome;

/// A pool of leaked memory: one a run of the bench.
pub(crate) struct Memory {
    pool: Tlsf<'static, u32, u32, 28, 32>,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Outcome<Self> {
        let block: &'static mut [MaybeUninit<u8>] = Box::leak(Box::new_uninit_slice(bytes));
        let mut pool = Tlsf::new();
        // What it returns only says that the pool is borrowed, which it is for ever.
        let _ = pool.insert_free_block(block);
        Ok(Self { pool })
    }

    pub(crate) fn take(&mut self, bytes: u64) -> Option<NonNull<u8>> {
        let layout = std::alloc::Layout::from_size_align(bytes as usize, 16).ok()?;
        self.pool.allocate(layout)
    }

    pub(crate) fn end(&mut self, block: NonNull<u8>) {
        // SAFETY: every block comes from `take` on the same pool with alignment 16, and the load ends each once.
        unsafe { self.pool.deallocate(block, 16) }
    }
}
