//! Utilisation: how full a fragmented slab of 1 GiB is when an acquisition fails for the first time.

use cuforge_core::{Request, SlabAllocator};
use cuforge_slab::{SlabLimits, TlsfSlab};
use offset_allocator::Allocator;
use range_alloc::RangeAllocator;

use super::sides::Outcome;
use super::sizes::{Random, STEP, log_uniform};
use crate::figure::{Bar, Figure, Spread};

const CAPACITY: u64 = 1 << 30;

/// Loads, quick or not: nothing here is timed, and the share differs from load to load by more than between allocators.
const LOADS: u64 = 30;

/// Takes and ends at random, slowly more of the first, until a request fails; the share of the capacity that was
/// asked for and is live then.
fn at_first_failure<T>(seed: u64, mut take: impl FnMut(u64) -> Option<T>, mut end: impl FnMut(T)) -> f64 {
    let sizes = log_uniform(1 << 20, seed);
    let mut random = Random::new(seed);
    let mut held = Vec::new();
    let mut live = 0;
    for len in sizes {
        match take(len) {
            Some(taken) => {
                held.push((taken, len));
                live += len;
            }
            None => break,
        }
        // 199 ends to 200 takes: as many blocks as fit have come and gone hundreds of times before one does not.
        if random.below(200) < 199 {
            let (taken, len) = held.swap_remove(random.below(held.len()));
            end(taken);
            live -= len;
        }
    }
    live as f64 / CAPACITY as f64
}

pub(crate) fn figures() -> Outcome<Vec<Figure>> {
    let limits = SlabLimits { grants: 1 << 16, ..SlabLimits::default() };
    let (mut ours, mut theirs, mut first_fit) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=LOADS {
        let slab = std::cell::RefCell::new(TlsfSlab::with_limits(CAPACITY, limits)?);
        ours.push(at_first_failure(
            seed,
            |len| slab.borrow_mut().acquire(&Request::new(len)).ok().map(|grant| grant.handle),
            |handle| {
                let _ = slab.borrow_mut().release(handle, &[]);
            },
        ));
        let peer = std::cell::RefCell::new(Allocator::<u32>::new((CAPACITY / STEP) as u32));
        theirs.push(at_first_failure(
            seed,
            |len| peer.borrow_mut().allocate((len / STEP) as u32),
            |taken| peer.borrow_mut().free(taken),
        ));
        let peer = std::cell::RefCell::new(RangeAllocator::new(0..CAPACITY));
        first_fit.push(at_first_failure(
            seed,
            |len| peer.borrow_mut().allocate_range(len).ok(),
            |range| peer.borrow_mut().free_range(range),
        ));
    }
    let figure = |name: &str, samples: &[f64]| {
        let spread = Spread::of(samples).ok_or("no samples")?;
        Ok::<_, Box<dyn std::error::Error>>(Figure::new(
            format!("utilisation at the first failure, {name}"),
            "share",
            spread,
            LOADS as usize,
        ))
    };
    Ok(vec![
        figure("general", &ours)?.with_bar(Bar::AtLeast(0.845)),
        figure("offset-allocator", &theirs)?,
        figure("range-alloc (best fit)", &first_fit)?,
    ])
}
