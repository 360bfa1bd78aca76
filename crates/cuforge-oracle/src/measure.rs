//! Honest times of one case: samples until they settle, each of them checked, none faster than the memory allows.

use std::thread;
use std::time::Duration;

use cuforge_core::{BufferView, OracleContext, Request};

use crate::build::Build;
use crate::case::Case;
use crate::check::{FIRST_POISON, SECOND_POISON, check_sizes};
use crate::error::OracleError;
use crate::execute::{Stage, all_agree, changed_inputs};
use crate::roofline::{floor_ns, least_bytes, too_fast};
use crate::stopping::{Clock, Stopping};
use crate::verdict::Timing;

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
    /// Why the samples are no measurement: a wrong result in one of them, a time below the floor, or a
    /// device that did not run at its clock.
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
/// that did nothing has no time. Where the backend tells its [`clock_hz`](OracleContext::clock_hz), samples at less than
/// three quarters of the device's clock are discarded and taken again; if most are, there is no measurement.
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
    let stage = Stage::new(context, case, options.seed)?;
    let flush = flush_view(context, options)?;
    let mut clock = Clock::new(options.stopping);
    let mut slowest: Option<f64> = None;
    let mut known: Option<Vec<Vec<u8>>> = None;
    let mut rejected = None;
    let mut round = 0u32;
    while rejected.is_none() && clock.stopped.is_none() {
        let poison = if round.is_multiple_of(2) { FIRST_POISON } else { SECOND_POISON };
        stage.fill(context, &contents, poison)?;
        if let Some(flush) = &flush {
            context.fill(flush, round as u8)?;
        }
        let sample_ns = stage.run(context, &mut build.prepared)?;
        let throttled = throttled(context)?;
        let left = stage.read(context)?;
        rejected = left.trespasses.first().map(ToString::to_string);
        // Most kernels leave the same bytes every time; the others are judged every time.
        if known.as_ref() != Some(&left.buffers) {
            let agrees = all_agree(case, &left.buffers, &expected, poison)
                && changed_inputs(case, &left.buffers, &contents).is_empty();
            if !agrees {
                rejected.get_or_insert_with(|| format!("the result of run {round} is wrong"));
            }
            known = Some(left.buffers);
        }
        match throttled {
            _ if round < options.warmups => {}
            None => clock.push(sample_ns),
            Some(fraction) => {
                clock.discard();
                slowest = Some(slowest.map_or(fraction, |slowest| slowest.min(fraction)));
                thread::sleep(COOLING);
            }
        }
        round = round.saturating_add(1);
    }
    let timing = Timing {
        samples_ns: clock.samples_ns,
        discarded: clock.discarded,
        device_clock: context.timestamp_supported(),
        stopped: clock.stopped,
    };
    if let Some(slowest) = slowest.filter(|_| timing.discarded as usize > timing.samples_ns.len()) {
        rejected.get_or_insert_with(|| {
            let (kept, discarded) = (timing.samples_ns.len(), timing.discarded);
            let percent = slowest * 100.0;
            format!(
                "the device ran at {percent:.0} % of its clock, {discarded} samples discarded, {kept} kept"
            )
        });
    }
    let least_bytes = least_bytes(case);
    let floor_ns = floor_ns(least_bytes, context.constraints(), options.flush_cache);
    if let Some(why) = too_fast(&timing, least_bytes, floor_ns) {
        rejected.get_or_insert(why);
    }
    Ok(Measurement { timing, least_bytes, floor_ns, rejected })
}

/// Below this fraction of its clock a device counts as throttled, or as not yet awake.
const LEAST_CLOCK: f64 = 0.75;
/// What a device that was throttled is given to recover.
const COOLING: Duration = Duration::from_millis(2);

/// The fraction of its highest clock rate at which the device runs, if that is too low to measure anything.
fn throttled(context: &mut dyn OracleContext) -> Result<Option<f64>, OracleError> {
    let most = context.constraints().max_clock_hz;
    if most == 0 {
        return Ok(None);
    }
    let fraction = context.clock_hz()?.map(|now| now as f64 / most as f64);
    Ok(fraction.filter(|fraction| *fraction < LEAST_CLOCK))
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
