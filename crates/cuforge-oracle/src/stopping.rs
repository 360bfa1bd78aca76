//! When a measurement has enough samples.

use std::time::Instant;

use crate::verdict::Stopped;

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

/// Collects samples and decides when they are enough.
pub(crate) struct Clock {
    stopping: Stopping,
    start: Instant,
    pub(crate) samples_ns: Vec<u64>,
    /// Samples that were thrown away.
    pub(crate) discarded: u32,
    total_ns: u64,
    /// Running mean and sum of squared distances from it (Welford).
    mean: f64,
    squares: f64,
    /// The latest relative deviations.
    recent: Vec<f64>,
    pub(crate) stopped: Option<Stopped>,
}

/// So many relative deviations within a twentieth of each other mean that more samples will not narrow it.
const SETTLED: usize = 16;

impl Clock {
    pub(crate) fn new(stopping: Stopping) -> Self {
        Self {
            stopping,
            start: Instant::now(),
            samples_ns: Vec::new(),
            discarded: 0,
            total_ns: 0,
            mean: 0.0,
            squares: 0.0,
            recent: Vec::new(),
            stopped: None,
        }
    }

    pub(crate) fn push(&mut self, sample_ns: u64) {
        self.push_at(sample_ns, self.host_ns());
    }

    /// Counts a sample that says nothing.
    pub(crate) fn discard(&mut self) {
        self.discarded += 1;
        if self.host_ns() >= self.stopping.most_host_ns {
            self.stopped = Some(Stopped::Cap);
        }
    }

    fn host_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
}
