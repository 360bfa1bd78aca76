//! The tuner: a search over schedules in which only right ones are timed, and the slow half leaves each round.

use std::fmt;

use cuforge_core::Schedule;

use crate::random::Random;

/// Why a schedule is out of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Device or compiler refuse it: too many threads, too much shared memory, a combination that the source rules out.
    Unfit,
    /// Its result is wrong, or its time cannot be true.
    Wrong,
    /// The kernel faulted under it.
    Fault,
    /// The process that ran it died.
    Crashed,
    /// It did not come to an end in time.
    TimedOut,
}

impl Rejection {
    /// One lower-case word. Stable.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unfit => "unfit",
            Self::Wrong => "wrong",
            Self::Fault => "fault",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed-out",
        }
    }

    /// The rejection of that word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Unfit, Self::Wrong, Self::Fault, Self::Crashed, Self::TimedOut]
            .into_iter()
            .find(|rejection| rejection.word() == word)
    }
}

/// Runs single trials for [`tune`]: in this process ([`LocalTrials`](crate::LocalTrials)), or in another one that a
/// candidate may take down or hang without harm.
pub trait Trials {
    /// Whether a kernel under `schedule` is right.
    ///
    /// # Errors
    /// Why not, in a word and in a sentence.
    fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)>;

    /// The times of `samples` runs in nanoseconds, each with a right result.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn sample(&mut self, schedule: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)>;
}

/// How a search runs.
///
/// ```
/// assert_eq!(cuforge_oracle::TuneOptions::default().first_samples, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuneOptions {
    /// Picks the order in which candidates run within a round. Default 0.
    pub seed: u64,
    /// Samples of each candidate in the first round; each round takes twice as many. Default 5.
    pub first_samples: u32,
    /// Samples of the two that are left and of the default, taken in turns. Default 60.
    pub last_samples: u32,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self { seed: 0, first_samples: 5, last_samples: 60 }
    }
}

/// What became of one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was timed; the median of its last round, and how many samples that had.
    Timed {
        /// Nanoseconds.
        median_ns: u64,
        /// Samples.
        samples: u32,
        /// The round it was last in, from 1; the last round has the highest number.
        round: u32,
    },
    /// It left the search.
    Rejected(Rejection, String),
}

/// One schedule of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The schedule.
    pub schedule: Schedule,
    /// What became of it.
    pub standing: Standing,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.standing {
            Standing::Timed { median_ns, samples, round } => {
                write!(f, "{}: {median_ns} ns, {samples} samples in round {round}", self.schedule)
            }
            Standing::Rejected(why, text) => write!(f, "{}: {}: {text}", self.schedule, why.word()),
        }
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Every schedule, in the order in which they were given; the first is the default.
    pub candidates: Vec<Candidate>,
    /// The index of the winner; none if no schedule was right.
    pub winner: Option<usize>,
}

impl Tuned {
    /// The default's median over the winner's, both of the last round; none if either was not timed there.
    #[must_use]
    pub fn speedup(&self) -> Option<f64> {
        let median = |index: usize| match self.candidates.get(index)?.standing {
            Standing::Timed { median_ns, .. } => Some(median_ns as f64),
            Standing::Rejected(..) => None,
        };
        Some(median(0)? / median(self.winner?)?)
    }
}

/// Searches `schedules`, of which the first is the default that the winner is compared with.
///
/// Every schedule is checked first: what is wrong is never timed. Then successive halving: all that are left are sampled
/// in a random order, the slower half leaves, and the others get twice the samples. The last two and the default are
/// sampled in turns, so that a change of clock meets all of them.
///
/// ```
/// use cuforge_core::Schedule;
/// use cuforge_oracle::{Rejection, Trials, TuneOptions, tune};
///
/// /// The more threads the faster; 96 are wrong.
/// struct Model;
/// impl Trials for Model {
///     fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)> {
///         let wrong = schedule.workgroup_size[0] == 96;
///         if wrong { Err((Rejection::Wrong, "off by one".to_owned())) } else { Ok(()) }
///     }
///     fn sample(&mut self, schedule: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)> {
///         Ok(vec![100_000 / u64::from(schedule.workgroup_size[0]); samples as usize])
///     }
/// }
/// let schedules = [32, 64, 96].map(|threads| Schedule::new([threads, 1, 1]));
/// let tuned = tune(&schedules, &mut Model, &TuneOptions::default());
/// assert_eq!((tuned.winner, tuned.speedup().map(|ratio| ratio.round())), (Some(1), Some(2.0)));
/// ```
#[must_use]
pub fn tune(schedules: &[Schedule], trials: &mut dyn Trials, options: &TuneOptions) -> Tuned {
    let mut search = Search { trials, standings: vec![None; schedules.len()], schedules };
    let mut left: Vec<usize> = (0..schedules.len()).filter(|index| search.check(*index)).collect();
    let mut random = Random::stream(options.seed, "tune");
    let (mut round, mut samples) = (1, options.first_samples.max(1));
    while left.len() > FINALISTS {
        random.shuffle(&mut left);
        left.retain(|index| search.time(*index, samples, round));
        left.sort_by_key(|index| search.median(*index));
        left.truncate(left.len().div_ceil(2).max(FINALISTS));
        (round, samples) = (round + 1, samples.saturating_mul(2));
    }
    search.last_round(&mut left, options.last_samples.max(1), round);
    left.sort_by_key(|index| search.median(*index));
    let winner = left.first().copied();
    let candidates = schedules.iter().zip(search.standings).map(|(schedule, standing)| {
        let unchecked = || Standing::Rejected(Rejection::Unfit, "it was not tried".to_owned());
        Candidate { schedule: schedule.clone(), standing: standing.unwrap_or_else(unchecked) }
    });
    Tuned { candidates: candidates.collect(), winner }
}

const FINALISTS: usize = 2;
/// Samples of each finalist in one turn of the last round.
const TURN: u32 = 5;

struct Search<'a> {
    schedules: &'a [Schedule],
    trials: &'a mut dyn Trials,
    standings: Vec<Option<Standing>>,
}

impl Search<'_> {
    fn check(&mut self, index: usize) -> bool {
        match self.trials.check(&self.schedules[index]) {
            Ok(()) => true,
            Err((why, text)) => self.reject(index, why, text),
        }
    }

    fn time(&mut self, index: usize, samples: u32, round: u32) -> bool {
        match self.trials.sample(&self.schedules[index], samples) {
            Ok(times) => self.stand(index, times, round),
            Err((why, text)) => self.reject(index, why, text),
        }
    }

    /// All finalists and the default, a few samples each in turn.
    fn last_round(&mut self, left: &mut Vec<usize>, samples: u32, round: u32) {
        let default_is_right = !matches!(self.standings.first(), None | Some(Some(Standing::Rejected(..))));
        if default_is_right && !left.contains(&0) {
            left.push(0);
        }
        let mut times = vec![Vec::new(); self.schedules.len()];
        for _ in 0..samples.div_ceil(TURN) {
            left.retain(|index| match self.trials.sample(&self.schedules[*index], TURN) {
                Ok(mut new) => {
                    times[*index].append(&mut new);
                    true
                }
                Err((why, text)) => self.reject(*index, why, text),
            });
        }
        for index in left.iter() {
            self.stand(*index, std::mem::take(&mut times[*index]), round);
        }
    }

    fn stand(&mut self, index: usize, mut times: Vec<u64>, round: u32) -> bool {
        times.sort_unstable();
        let Some(median_ns) = times.get(times.len() / 2).copied() else {
            return self.reject(index, Rejection::Wrong, "it has no time".to_owned());
        };
        self.standings[index] = Some(Standing::Timed { median_ns, samples: times.len() as u32, round });
        true
    }

    fn reject(&mut self, index: usize, why: Rejection, text: String) -> bool {
        self.standings[index] = Some(Standing::Rejected(why, text));
        false
    }

    fn median(&self, index: usize) -> u64 {
        match self.standings[index] {
            Some(Standing::Timed { median_ns, .. }) => median_ns,
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that depend on the threads, with noise; some candidates misbehave.
    struct Model {
        sampled: Vec<u32>,
        random: Random,
    }

    impl Trials for Model {
        fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)> {
            match schedule.workgroup_size[0] {
                1 => Err((Rejection::TimedOut, "no end".to_owned())),
                2 => Err((Rejection::Crashed, "signal 11".to_owned())),
                _ => Ok(()),
            }
        }

        fn sample(&mut self, schedule: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)> {
            let threads = schedule.workgroup_size[0];
            self.sampled.push(threads);
            if threads == 7 {
                return Err((Rejection::Fault, "misaligned".to_owned()));
            }
            // The fastest has 40 threads; noise of a tenth.
            let true_ns = 1000 + u64::from(threads.abs_diff(40)) * 100;
            Ok((0..samples).map(|_| true_ns + self.random.below(true_ns / 10)).collect())
        }
    }

    fn search(threads: &[u32]) -> (Tuned, Vec<u32>) {
        let schedules: Vec<Schedule> = threads.iter().map(|n| Schedule::new([*n, 1, 1])).collect();
        let mut model = Model { sampled: Vec::new(), random: Random::new(1) };
        let tuned = tune(&schedules, &mut model, &TuneOptions::default());
        (tuned, model.sampled)
    }

    #[test]
    fn the_fastest_wins_and_what_misbehaves_costs_only_itself() {
        let threads = [64, 1, 2, 7, 8, 16, 24, 32, 40, 48, 56];
        let (tuned, _) = search(&threads);
        assert_eq!(tuned.winner.map(|index| threads[index]), Some(40));
        let rejected = |index: usize| match &tuned.candidates[index].standing {
            Standing::Rejected(why, _) => Some(*why),
            Standing::Timed { .. } => None,
        };
        let expected = [Rejection::TimedOut, Rejection::Crashed, Rejection::Fault].map(Some);
        assert_eq!([1, 2, 3].map(rejected), expected);
        // 3,400 ns for the default against 1,000, noise apart.
        assert!((2.5..4.5).contains(&tuned.speedup().unwrap()), "{:?}", tuned.speedup());
    }

    #[test]
    fn the_slow_are_sampled_less_often_than_the_fast_and_the_default_to_the_end() {
        let (_, sampled) = search(&[64, 8, 16, 24, 32, 40, 48, 56]);
        let times = |threads: u32| sampled.iter().filter(|sampled| **sampled == threads).count();
        assert_eq!(times(8), 1);
        assert!(times(40) >= 12 && times(64) >= 12, "{sampled:?}");
    }

    #[test]
    fn where_nothing_is_right_nothing_wins_and_where_the_default_is_wrong_there_is_no_speedup() {
        assert_eq!(search(&[1, 2]).0.winner, None);
        assert_eq!(search(&[]).0.winner, None);
        let (tuned, _) = search(&[1, 40, 48]);
        assert_eq!((tuned.winner, tuned.speedup()), (Some(1), None));
    }
}
