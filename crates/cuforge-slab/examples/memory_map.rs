//! Draws what an allocator does: a memory map, the same as JSON, and a timeline, for a made-up decoding loop.
//!
//! `cargo run -p cuforge-slab --example memory_map` writes `map.svg`, `guarded.svg`, `map.json` and `timeline.svg` into
//! `target/slab`, or into the folder that is given.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use cuforge_core::{Grant, Lifetime, QueueId, Request, SlabAllocator, Stamp};
use cuforge_slab::{
    Fill, GuardMemory, Guarded, RegionSlab, SlabLimits, Snapshot, TlsfSlab, Traced, timeline_svg,
};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Memory that nobody looks at: this example only wants to see where red zones lie.
struct Nowhere;

impl GuardMemory for Nowhere {
    fn fill(&mut self, _offset: u64, _len: u64, _fill: Fill) {}

    fn holds(&mut self, _offset: u64, _len: u64, _fill: Fill) -> bool {
        true
    }
}

const MIB: u64 = 1 << 20;

fn stamp(queue: u32, epoch: u64) -> Stamp {
    Stamp { queue: QueueId(queue), epoch }
}

/// Weights stay, caches come and go, scratch lasts for a step; two queues run behind the host.
fn decode(slab: &mut Traced<RegionSlab>, steps: u64) -> Result<(), Box<dyn Error>> {
    let mut numbers = Numbers(7);
    slab.set_holder("weights");
    for layer in 0..8 {
        slab.acquire(&Request::new((4 + layer % 3) * MIB).with_lifetime(Lifetime::Resident))?;
    }
    let mut caches: Vec<Grant> = Vec::new();
    for epoch in 1..=steps {
        slab.set_holder("scratch");
        let mut scratch = Vec::new();
        for _ in 0..4 {
            let len = MIB / 4 + numbers.below(5 * MIB / 2);
            scratch.extend(slab.acquire(&Request::new(len).with_lifetime(Lifetime::Transient)));
        }
        slab.set_holder("kv cache");
        for _ in 0..2 {
            caches.extend(slab.acquire(&Request::new(MIB / 2 + numbers.below(6 * MIB))));
        }
        if caches.len() > 12 {
            let old = caches.remove(numbers.below(6) as usize);
            slab.release(old.handle, &[stamp((epoch % 2) as u32, epoch)])?;
        }
        for grant in scratch {
            slab.release(grant.handle, &[stamp(0, epoch)])?;
        }
        slab.reclaim(&[epoch.saturating_sub(2), epoch.saturating_sub(5)]);
    }
    Ok(())
}

fn guarded() -> Result<Snapshot, Box<dyn Error>> {
    let mut slab = Guarded::new(TlsfSlab::new(MIB)?, Nowhere, 1024, SlabLimits::default())?;
    let mut numbers = Numbers(3);
    let grants: Vec<Grant> =
        (0..24).filter_map(|_| slab.acquire(&Request::new(8_000 + numbers.below(40_000))).ok()).collect();
    for grant in grants.iter().step_by(3) {
        slab.release(grant.handle, &[stamp(1, 1)])?;
    }
    Ok(Snapshot::of(&slab)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/slab".into()));
    fs::create_dir_all(&folder)?;
    let mut slab = Traced::new(RegionSlab::new(128 * MIB)?, 10_000, SlabLimits::default())?;
    decode(&mut slab, 40)?;
    let snapshot = Snapshot::of(&slab)?;
    fs::write(folder.join("map.svg"), snapshot.to_svg("A decoding loop after 40 steps"))?;
    fs::write(folder.join("map.json"), snapshot.to_json())?;
    fs::write(folder.join("guarded.svg"), guarded()?.to_svg("Red zones of 1 KiB around every grant"))?;
    fs::write(folder.join("timeline.svg"), timeline_svg(slab.log(), "A decoding loop of 40 steps"))?;
    print!("{}", slab.leak_report(4));
    println!("pictures are in {}", folder.display());
    Ok(())
}
