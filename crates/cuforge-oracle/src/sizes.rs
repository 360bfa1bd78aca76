//! Odd sizes: lengths at which kernels stop being right.

use std::collections::BTreeSet;

use cuforge_core::{Constraints, Schedule};

/// Numbers of elements to try a kernel with under `schedule`, ascending and at most `largest`: none, one, one below, at
/// and one above every thread, warp, vector, block and tile size, primes, and one more than the grid's second and third
/// dimension can count.
///
/// ```
/// use cuforge_core::{Constraints, Schedule};
/// let schedule = Schedule::new([256, 1, 1]).with_items_per_invocation(4);
/// let sizes = cuforge_oracle::odd_sizes(&schedule, &Constraints::default(), 5000);
/// assert!([0, 1, 31, 33, 255, 257, 1023, 1025, 4093].iter().all(|size| sizes.contains(size)));
/// assert!(sizes.is_sorted() && sizes.iter().all(|size| *size <= 5000));
/// ```
#[must_use]
pub fn odd_sizes(schedule: &Schedule, device: &Constraints, largest: u64) -> Vec<u64> {
    let threads: u64 = schedule.workgroup_size.iter().map(|n| u64::from(*n)).product();
    let tile = threads.saturating_mul(schedule.items_per_invocation.into());
    let steps = [2, 4, 8, 16, u64::from(device.warp_size), threads, tile, tile.saturating_mul(3)];
    let around = steps.into_iter().flat_map(|step| [step.saturating_sub(1), step, step.saturating_add(1)]);
    let primes = [3, 7, 127, 509, 1021, 4093, 65_521, 1_048_573];
    let dimension = [u64::from(device.max_grid[1]) + 1, u64::from(device.max_grid[2]) + 1];
    let all = [0, 1].into_iter().chain(around).chain(primes).chain(dimension);
    let within: BTreeSet<u64> = all.filter(|size| *size <= largest).collect();
    within.into_iter().collect()
}
