//! The roofline gate: no launch is faster than its bytes can move through device memory.

use cuforge_core::Constraints;

use crate::case::Case;
use crate::interface::Role;
use crate::verdict::Timing;

/// Why times by the device's own clock cannot be true, if they cannot: they lie below `floor_ns`.
pub(crate) fn too_fast(timing: &Timing, least_bytes: u64, floor_ns: Option<f64>) -> Option<String> {
    let floor = floor_ns.filter(|_| timing.device_clock)?;
    let median = timing.median_ns().filter(|median| (*median as f64) < floor)?;
    Some(format!("{median} ns is faster than the memory can move {least_bytes} bytes ({floor:.0} ns)"))
}

/// Every input is read once and every output written once; a buffer of both roles moves twice.
pub(crate) fn least_bytes(case: &Case) -> u64 {
    let moved = case.buffers().iter().map(|buffer| match buffer.role {
        Role::Input | Role::Output => buffer.size_bytes(),
        Role::InOut => 2 * buffer.size_bytes(),
    });
    moved.sum()
}

/// The time that the bytes which cannot have stayed in the cache take at the memory's full speed.
pub(crate) fn floor_ns(least_bytes: u64, device: &Constraints, cold: bool) -> Option<f64> {
    if device.memory_bytes_per_second == 0 {
        return None;
    }
    // What may stay in the cache need not pass through memory: inputs from the run before, outputs until later.
    let cached = if cold { device.cache_bytes } else { device.cache_bytes.saturating_mul(2) };
    let through_memory = least_bytes.saturating_sub(cached);
    (through_memory > 0).then(|| through_memory as f64 * 1e9 / device.memory_bytes_per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_counts_only_what_cannot_stay_in_the_cache() {
        let device = Constraints {
            cache_bytes: 1000,
            memory_bytes_per_second: 1_000_000_000,
            ..Constraints::default()
        };
        assert_eq!(floor_ns(2000, &device, false), None);
        assert_eq!(floor_ns(5000, &device, false), Some(3000.0));
        assert_eq!(floor_ns(5000, &device, true), Some(4000.0));
        assert_eq!(floor_ns(5000, &Constraints::default(), true), None);
    }
}
