//! Honest times of one case: samples until they settle, each of them checked, none faster than the memory allows.

use std::time::Instant;

use cuforge_core::{BufferView, Constraints, OracleContext, Request, Sampling};

use crate::build::Build;
use crate::case::Case;
use crate::check::{FIRST_POISON, SECOND_POISON, check_sizes};
use crate::error::OracleError;
use crate::execute::{Stage, all_agree, changed_inputs};
use crate::interface::Role;
use crate::verdict::{Stopped, Timing};

/// When enough samples have been taken.
///
/// After [`least_samples`](Self::least_samples) and [`least_total_ns`](Self::least_total_ns), whichever comes later: when
/// the relative standard deviation falls to [`deviation`](Self::deviation), or when it does not change any more, or at
/// [`most_host_ns`](Self::most_host_ns), which counts everything.
///
/// ```
/// use cuforge_oracle::Stopping;
/// assert_eq!((Stopping::default().least_samples, Stopping::default().deviation), (10, 0.005));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stopping {
    /// Samples at least. Default 10.
    pub least_samples: u32,
    /// Nanoseconds of measured time at least. Default half a second.
    pub least_total_ns: u64,
    /// The relative standard deviation that is enough. Default 0.5 %.
    pub deviation: f64,
    /// Nanoseconds on the host at most, checks and copies included. Default 15 seconds.
    pub most_host_ns: u64,
}

impl Default for Stopping {
    fn default() -> Self {
        Self {
            least_samples: 10,
            least_total_ns: 500_000_000,
            deviation: 0.005,
            most_host_ns: 15_000_000_000,
        }
    }
}

impl Stopping {
    /// A rough figure: 10 samples, 5 ms measured, 2 %, one second at most.
    #[must_use]
    pub const fn quick() -> Self {
        Self { least_samples: 10, least_total_ns: 5_000_000, deviation: 0.02, most_host_ns: 1_000_000_000 }
    }
}

/// How a case is measured.
///
/// ```
/// use cuforge_oracle::MeasureOptions;
/// assert!(!MeasureOptions::default().flush_cache);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureOptions {
    /// The seed of the inputs. Default 0.
    pub seed: u64,
    /// Runs before the first sample. Default 2.
    pub warmups: u32,
    /// When enough samples have been taken.
    pub stopping: Stopping,
    /// Whether the last cache is overwritten before every sample, so that the kernel starts cold. Default no. Costs
    /// device memory of twice the cache.
    pub flush_cache: bool,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self { seed: 0, warmups: 2, stopping: Stopping::default(), flush_cache: false }
    }
}

/// Times of one case, and whether they can be believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The samples and how they ended.
    pub timing: Timing,
    /// Bytes that a launch must move at least: every input once in, every output once out.
    pub least_bytes: u64,
    /// The time below which nobody can move them through device memory, where the device tells its bandwidth and the
    /// buffers cannot all lie in its cache.
    pub floor_ns: Option<f64>,
    /// Why the samples are no measurement: a wrong result in one of them, or a time below the floor.
    pub rejected: Option<String>,
}

impl Measurement {
    /// Bytes a second at the median time, by the least traffic.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<f64> {
        let median = self.timing.median_ns().filter(|median| *median > 0)?;
        Some(self.least_bytes as f64 * 1e9 / median as f64)
    }
}

/// Measures a case that is known to be right. Outputs are poisoned before every sample and compared after it, so a run
/// that did nothing has no time.
///
/// Only the kernel lies between the two clock readings where the backend has
/// [`timestamp_supported`](OracleContext::timestamp_supported); the host's work lies between samples. Ends all
/// allocations of the backend but resident ones.
///
/// # Errors
/// Those of [`check`](crate::check).
pub fn measure(
    case: &Case,
    context: &mut dyn OracleContext,
    options: &MeasureOptions,
) -> Result<Measurement, OracleError> {
    check_sizes(case, context.constraints())?;
    let mut build = Build::new(case, context)?;
    let contents = case.contents(options.seed)?;
    let expected = case.expected(&contents, &build.model)?;
    let mut stage = Stage::new(context, case, &contents, FIRST_POISON, options.seed)?;
    let flush = flush_view(context, options)?;
    let mut clock = Clock::new(options.stopping);
    let mut known: Option<Vec<Vec<u8>>> = None;
    let mut rejected = None;
    let mut round = 0u32;
    while rejected.is_none() && clock.stopped.is_none() {
        stage.poison_with(if round.is_multiple_of(2) { FIRST_POISON } else { SECOND_POISON });
        stage.fill(context)?;
        if let Some(flush) = &flush {
            context.fill(flush, round as u8)?;
        }
        let mut sample = Vec::with_capacity(1);
        stage.run(context, &mut build.prepared, Sampling { warmups: 0, samples: 1 }, &mut sample)?;
        let got = stage.read(context)?;
        // Most kernels leave the same bytes every time; the others are judged every time.
        if known.as_ref() != Some(&got) {
            let agrees = all_agree(case, &got, &expected, stage.poison())
                && changed_inputs(case, &got, &contents).is_empty();
            rejected = (!agrees).then(|| format!("the result of run {round} is wrong"));
            known = Some(got);
        }
        if round >= options.warmups {
            sample.into_iter().for_each(|sample| clock.push(sample));
        }
        round = round.saturating_add(1);
    }
    if let Some(trespass) = stage.trespasses(context)?.first() {
        rejected.get_or_insert_with(|| trespass.to_string());
    }
    let least_bytes = least_bytes(case);
    let floor_ns = floor_ns(least_bytes, context.constraints(), options.flush_cache);
    let device_clock = context.timestamp_supported();
    let timing = Timing { samples_ns: clock.samples_ns, device_clock, stopped: clock.stopped };
    if let (Some(floor), Some(median)) = (floor_ns, timing.median_ns().filter(|_| device_clock))
        && (median as f64) < floor
    {
        rejected.get_or_insert_with(|| {
            format!("{median} ns is faster than the memory can move {least_bytes} bytes ({floor:.0} ns)")
        });
    }
    Ok(Measurement { timing, least_bytes, floor_ns, rejected })
}

fn flush_view(
    context: &mut dyn OracleContext,
    options: &MeasureOptions,
) -> Result<Option<BufferView>, OracleError> {
    let bytes = context.constraints().cache_bytes.saturating_mul(2);
    if !options.flush_cache || bytes == 0 {
        return Ok(None);
    }
    Ok(Some(context.allocate(&Request::new(bytes))?))
}

/// Every input is read once and every output written once; a buffer of both roles moves twice.
fn least_bytes(case: &Case) -> u64 {
    let moved = case.buffers().iter().map(|buffer| match buffer.role {
        Role::Input | Role::Output => buffer.size_bytes(),
        Role::InOut => 2 * buffer.size_bytes(),
    });
    moved.sum()
}

/// The time that the bytes which cannot have stayed in the cache take at the memory's full speed.
fn floor_ns(least_bytes: u64, device: &Constraints, cold: bool) -> Option<f64> {
    if device.memory_bytes_per_second == 0 {
        return None;
    }
    // What may stay in the cache need not pass through memory: inputs from the run before, outputs until later.
    let cached = if cold { device.cache_bytes } else { device.cache_bytes.saturating_mul(2) };
    let through_memory = least_bytes.saturating_sub(cached);
    (through_memory > 0).then(|| through_memory as f64 * 1e9 / device.memory_bytes_per_second as f64)
}

/// Collects samples and decides when they are enough.
struct Clock {
    stopping: Stopping,
    start: Instant,
    samples_ns: Vec<u64>,
    total_ns: u64,
    /// Running mean and sum of squared distances from it (Welford).
    mean: f64,
    squares: f64,
    /// The latest relative deviations.
    recent: Vec<f64>,
    stopped: Option<Stopped>,
}

/// So many relative deviations within a twentieth of each other mean that more samples will not narrow it.
const SETTLED: usize = 16;

impl Clock {
    fn new(stopping: Stopping) -> Self {
        Self {
            stopping,
            start: Instant::now(),
            samples_ns: Vec::new(),
            total_ns: 0,
            mean: 0.0,
            squares: 0.0,
            recent: Vec::new(),
            stopped: None,
        }
    }

    fn push(&mut self, sample_ns: u64) {
        let host_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.push_at(sample_ns, host_ns);
    }

    fn push_at(&mut self, sample_ns: u64, host_ns: u64) {
        self.samples_ns.push(sample_ns);
        self.total_ns = self.total_ns.saturating_add(sample_ns);
        let (count, sample) = (self.samples_ns.len() as f64, sample_ns as f64);
        let distance = sample - self.mean;
        self.mean += distance / count;
        self.squares += distance * (sample - self.mean);
        let deviation = if self.mean > 0.0 && count > 1.0 {
            (self.squares / (count - 1.0)).sqrt() / self.mean
        } else {
            0.0
        };
        self.recent.push(deviation);
        if self.recent.len() > SETTLED {
            self.recent.remove(0);
        }
        let enough = self.samples_ns.len() >= self.stopping.least_samples as usize
            && self.total_ns >= self.stopping.least_total_ns;
        self.stopped = if enough && deviation <= self.stopping.deviation {
            Some(Stopped::Converged)
        } else if enough && self.has_settled() {
            Some(Stopped::Stable)
        } else if host_ns >= self.stopping.most_host_ns {
            Some(Stopped::Cap)
        } else {
            None
        };
    }

    fn has_settled(&self) -> bool {
        let least = self.recent.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.recent.iter().copied().fold(0.0, f64::max);
        self.recent.len() == SETTLED && most - least <= 0.05 * most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(samples: impl Iterator<Item = u64>, host_ns_each: u64) -> (usize, Option<Stopped>) {
        let mut clock = Clock::new(Stopping { least_total_ns: 20_000, ..Stopping::default() });
        for (index, sample) in samples.enumerate() {
            clock.push_at(sample, (index as u64 + 1) * host_ns_each);
            if clock.stopped.is_some() {
                break;
            }
        }
        (clock.samples_ns.len(), clock.stopped)
    }

    #[test]
    fn steady_samples_converge_after_the_least_number_and_total() {
        assert_eq!(run(std::iter::repeat(10_000), 1), (10, Some(Stopped::Converged)));
        assert_eq!(run(std::iter::repeat(100), 1), (200, Some(Stopped::Converged)));
    }

    #[test]
    fn samples_that_keep_spreading_alike_are_stable_and_slow_ones_end_at_the_cap() {
        let two_modes = (0..).map(|index| if index % 2 == 0 { 9_000 } else { 11_000 });
        let (count, stopped) = run(two_modes, 1);
        assert!(stopped == Some(Stopped::Stable) && count < 100, "{count} {stopped:?}");
        // Each ten times the one before never settles.
        let growing = (0..).map(|index| 1u64 << index.min(60));
        assert_eq!(run(growing, 4_000_000_000).1, Some(Stopped::Cap));
    }

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
