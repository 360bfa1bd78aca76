//! Races between streams: work that nothing orders is found, and what the launcher orders is not.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{Access, Arguments, Request};
use cuforge_launch::{LaunchError, Prefetcher, Stream};
use cuforge_tests::sim::Sim;
use launch_support::Rig;

const N: u32 = 1024;
const SEEDS: u32 = 20;

/// A rig on a driver that looks for races, its streams lingering as the seed says.
fn rig(seed: u32) -> Rig {
    let seed = seed.to_string();
    Rig::on(Sim::new(&[("CUFORGE_SIM_STREAM_RACES", "1"), ("CUFORGE_SIM_SEED", &seed)]).unwrap(), N)
}

/// Uploads into `x` again and again while a kernel of the other stream reads it, with or without the guard that lets the
/// copy wait for the reader; what the driver says of it.
fn uploads(seed: u32, guarded: bool) -> String {
    let mut rig = rig(seed);
    let slab = rig.slab.clone();
    let (views, values) = ([rig.y, rig.x], rig.values(1.0));
    let mut copies = Stream::new(&rig.device).unwrap();
    let mut source = Some(rig.device.pinned(N as usize * 4).unwrap());
    slab.write_from(&mut rig.stream, &rig.y, &vec![0f32; N as usize]).unwrap();
    for _ in 0..10 {
        let one_round =
            |rig: &mut Rig, copies: &mut Stream, source: &mut Option<_>| -> Result<(), LaunchError> {
                if guarded {
                    copies.wait_for(&mut rig.stream)?;
                }
                let taken = source.take().unwrap();
                let upload =
                    slab.upload(copies, &rig.x, taken, N as usize * 4).map_err(|unsent| unsent.error)?;
                rig.stream.wait_for(copies)?;
                let arguments = Arguments { views: &views, by_value: &values };
                let extent = rig.extent();
                rig.pipeline.launch(&mut rig.stream, &slab, arguments, extent)?;
                *source = Some(upload.wait()?);
                Ok(())
            };
        if one_round(&mut rig, &mut copies, &mut source).is_err() {
            break;
        }
    }
    // A lost device says so here too.
    let _ = rig.stream.synchronize();
    rig.sim.fault()
}

#[test]
fn a_copy_that_does_not_wait_for_its_reader_is_found_within_a_few_seeds_and_a_guarded_one_never() {
    let found: Vec<String> =
        (1..=SEEDS).map(|seed| uploads(seed, false)).filter(|said| !said.is_empty()).collect();
    assert!(!found.is_empty(), "no seed of {SEEDS} found it");
    for said in &found {
        assert!(
            said.contains("race between streams") && said.contains("saxpy") && said.contains("a copy"),
            "{said}"
        );
    }
    for seed in 1..=SEEDS {
        assert_eq!(uploads(seed, true), "", "seed {seed}");
    }
}

#[test]
fn a_prefetcher_is_clean_under_every_seed() {
    for seed in 1..=SEEDS {
        let mut rig = rig(seed);
        let slab = rig.slab.clone();
        let values = rig.values(1.0);
        let mut prefetcher = Prefetcher::new(&slab, &Request::new(u64::from(N) * 4), 2).unwrap();
        slab.write_from(&mut rig.stream, &rig.y, &vec![0f32; N as usize]).unwrap();
        for round in 0..12 {
            prefetcher.push(N as usize * 4, |bytes| bytes.fill(round)).unwrap();
            let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
            let x = lease.view().bound_to(0, 1, Access::StorageRead).unwrap();
            let arguments = Arguments { views: &[rig.y, x], by_value: &values };
            let extent = rig.extent();
            rig.pipeline.launch(&mut rig.stream, &slab, arguments, extent).unwrap();
        }
        rig.stream.synchronize().unwrap();
        assert_eq!(rig.sim.fault(), "", "seed {seed}");
    }
}
