//! The tail near saturation: single acquisitions of the general allocator in a slab that is almost full.
//!
//! The load is played many times over, the same to the call. A call's time is the mean over the plays without the
//! slowest eighth, less what reading the clock takes: what the allocator does slowly is slow in every play, what the
//! machine does meanwhile is not. The clock may tick in steps as long as a call; where in a step a call begins differs
//! from play to play, and so the mean resolves what a single reading cannot.

use std::hint::black_box;
use std::time::Instant;

use cuforge_core::{Handle, Request, SlabAllocator};
use cuforge_slab::{SlabLimits, TlsfSlab};
use offset_allocator::Allocator;

use super::sides::Outcome;
use super::sizes::{Random, STEP, log_uniform};
use crate::area::Settings;
use crate::figure::{Bar, Figure, Spread};

const CAPACITY: u64 = 4 << 30;
const SAMPLES: usize = 10_000;

const PLAYS: usize = 64;

/// Nanoseconds of each successful call, less what reading the clock takes, and of each refused one.
struct Timed {
    taken: Vec<f64>,
    refused: Vec<f64>,
}

/// Keeps the slab so full that about one acquisition in ten is refused: then ends one more than it takes.
fn near_saturation<T: Copy>(
    sizes: &[u64],
    seed: u64,
    mut take: impl FnMut(u64) -> Option<T>,
    mut end: impl FnMut(T) -> Outcome<()>,
) -> Outcome<Timed> {
    let mut random = Random::new(seed);
    let mut held = Vec::with_capacity(1 << 17);
    let mut timed = Timed { taken: Vec::with_capacity(SAMPLES), refused: Vec::new() };
    let clock = undisturbed_mean(
        &mut (0..10_000)
            .map(|_| {
                let start = Instant::now();
                black_box(start).elapsed().as_nanos() as f64
            })
            .collect::<Vec<_>>(),
    );
    let mut turn = 0;
    while timed.taken.len() < SAMPLES {
        let len = sizes[turn % sizes.len()];
        turn += 1;
        let start = Instant::now();
        let taken = black_box(take(black_box(len)));
        let ns = start.elapsed().as_nanos() as f64 - clock;
        match taken {
            Some(taken) => {
                // The first lap fills an empty slab: not near saturation yet.
                if !timed.refused.is_empty() {
                    timed.taken.push(ns);
                }
                held.push(taken);
                if !timed.refused.is_empty() && random.below(10) > 0 {
                    end(held.swap_remove(random.below(held.len())))?;
                }
            }
            None => {
                timed.refused.push(ns);
                end(held.swap_remove(random.below(held.len())))?;
            }
        }
    }
    Ok(timed)
}

/// The mean without the slowest eighth.
fn undisturbed_mean(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let kept = &samples[..samples.len() - samples.len() / 8];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Each call's time over the plays.
fn times_by_call(plays: &[Timed], calls: fn(&Timed) -> &Vec<f64>) -> Outcome<Vec<f64>> {
    let count = plays.first().map_or(0, |play| calls(play).len());
    if plays.iter().any(|play| calls(play).len() != count) {
        return Err("equal calls got unequal answers".into());
    }
    let time =
        |call: usize| undisturbed_mean(&mut plays.iter().map(|play| calls(play)[call]).collect::<Vec<_>>());
    Ok((0..count).map(time).collect())
}

/// The median and the 99.9th percentile.
fn tail(samples: &mut [f64]) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[(share * (samples.len() - 1) as f64) as usize];
    (at(0.5), at(0.999))
}

fn figures_of(
    name: &str,
    settings: &Settings,
    bar: Option<Bar>,
    mut timed: impl FnMut(&[u64], u64) -> Outcome<Timed>,
) -> Outcome<Vec<Figure>> {
    let rounds = settings.rounds();
    let (mut medians, mut ratios, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let seed = round as u64 + 1;
        let sizes = log_uniform(1 << 16, seed);
        let plays: Vec<Timed> = (0..PLAYS).map(|_| timed(&sizes, seed)).collect::<Outcome<_>>()?;
        let mut timed = Timed {
            taken: times_by_call(&plays, |play| &play.taken)?,
            refused: times_by_call(&plays, |play| &play.refused)?,
        };
        let (median, high) = tail(&mut timed.taken);
        medians.push(median);
        ratios.push(high / median.max(1.0));
        refusals.push(tail(&mut timed.refused).1 / median.max(1.0));
    }
    let figure = |what: &str, unit, samples: &[f64]| {
        Ok::<_, Box<dyn std::error::Error>>(Figure::new(
            format!("{name} near saturation, {what}"),
            unit,
            Spread::of(samples).ok_or("no samples")?,
            rounds,
        ))
    };
    let high = figure("p99.9 / median of an acquisition", "ratio", &ratios)?;
    Ok(vec![
        figure("median acquisition", "ns", &medians)?,
        match bar {
            Some(bar) => high.with_bar(bar),
            None => high,
        },
        figure("p99.9 of a refusal / median of an acquisition", "ratio", &refusals)?,
    ])
}

pub(crate) fn figures(settings: &Settings) -> Outcome<Vec<Figure>> {
    let limits = SlabLimits { grants: 1 << 16, ..SlabLimits::default() };
    let mut figures = figures_of("general", settings, Some(Bar::AtMost(4.0)), |sizes, seed| {
        let slab = std::cell::RefCell::new(TlsfSlab::with_limits(CAPACITY, limits)?);
        near_saturation::<Handle>(
            sizes,
            seed,
            |len| slab.borrow_mut().acquire(&Request::new(len)).ok().map(|grant| grant.handle),
            |handle| Ok(slab.borrow_mut().release(handle, &[])?),
        )
    })?;
    figures.extend(figures_of("offset-allocator", settings, None, |sizes, seed| {
        let peer = std::cell::RefCell::new(Allocator::<u32>::new((CAPACITY / STEP) as u32));
        near_saturation(
            sizes,
            seed,
            |len| peer.borrow_mut().allocate((len / STEP) as u32),
            |taken| {
                peer.borrow_mut().free(taken);
                Ok(())
            },
        )
    })?);
    Ok(figures)
}
