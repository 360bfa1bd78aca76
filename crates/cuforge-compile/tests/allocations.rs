//! A hit in memory allocates nothing, counted by the allocator itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cuforge_compile::CacheOptions;
use fake::{compiler, request};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn a_hit_in_memory_allocates_nothing_prepared_or_not() {
    let (compiler, _) = compiler(CacheOptions::memory_only());
    let request = request(&"int a; ".repeat(585));
    let prepared = compiler.prepare(&request);
    assert!(
        allocations_of(|| drop(compiler.prepared_image(&prepared).unwrap())) > 0,
        "the counter counts nothing"
    );
    for _ in 0..3 {
        assert_eq!(allocations_of(|| drop(compiler.prepared_image(&prepared).unwrap())), 0);
        assert_eq!(allocations_of(|| drop(compiler.image(&request).unwrap())), 0);
    }
}
