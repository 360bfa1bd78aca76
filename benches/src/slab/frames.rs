//! Frames: 64 grants taken one by one and ended together, beside a bump allocator that can do nothing else.

use std::alloc::Layout;
use std::hint::black_box;

use bumpalo::Bump;
use cuforge_core::{Lifetime, Request, SlabAllocator};
use cuforge_slab::{RegionSlab, RingSlab, ScopeSlab};

use super::sides::{Outcome, ns_each, ratio};
use super::sizes::log_uniform;
use crate::area::Settings;
use crate::figure::Figure;
use crate::rounds::repeat;

const FRAME: usize = 64;
/// So many a slice.
const FRAMES: usize = 128;

/// Sizes a sixteenth as large, so that the peer's memory stays small.
fn sizes() -> Vec<u64> {
    log_uniform(FRAME * 32, 5).iter().map(|len| len / 16).collect()
}

fn scoped(slab: &mut dyn SlabAllocator, sizes: &[u64]) -> Outcome<f64> {
    ns_each(FRAMES * FRAME, || {
        for frame in 0..FRAMES {
            let scope = slab.push_scope()?;
            for len in &sizes[frame % 32 * FRAME..][..FRAME] {
                let request = Request::new(*len).with_align(16).with_lifetime(Lifetime::Transient);
                black_box(slab.acquire(&request)?);
            }
            black_box(slab.rewind(scope, &[])?);
        }
        Ok(())
    })
}

fn bumped(bump: &mut Bump, sizes: &[u64]) -> Outcome<f64> {
    ns_each(FRAMES * FRAME, || {
        for frame in 0..FRAMES {
            for len in &sizes[frame % 32 * FRAME..][..FRAME] {
                let layout = Layout::from_size_align(*len as usize, 16)?;
                black_box(bump.try_alloc_layout(layout).map_err(|_| "out of memory")?);
            }
            bump.reset();
        }
        Ok(())
    })
}

pub(crate) fn figures(settings: &Settings) -> Outcome<Vec<Figure>> {
    const CAPACITY: u64 = 64 << 20;
    let sizes = sizes();
    let mut bump = Bump::with_capacity(CAPACITY as usize);
    let mut theirs = || bumped(&mut bump, &sizes);
    let mut stack = ScopeSlab::new(CAPACITY)?;
    let mut ring = RingSlab::new(CAPACITY)?;
    let mut regions = RegionSlab::new(4 * CAPACITY)?;
    Ok(vec![
        Figure::new(
            "bumpalo, a grant of a frame of 64",
            "ns",
            repeat(settings.rounds(), &mut theirs)?,
            settings.rounds(),
        ),
        ratio("stack, scope of 64 / bumpalo", settings, None, || scoped(&mut stack, &sizes), &mut theirs)?,
        ratio("ring, scope of 64 / bumpalo", settings, None, || scoped(&mut ring, &sizes), &mut theirs)?,
        ratio(
            "regions, scope of 64 / bumpalo",
            settings,
            None,
            || scoped(&mut regions, &sizes),
            &mut theirs,
        )?,
    ])
}
