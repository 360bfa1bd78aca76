//! Random lists of calls, drawn from a seed and printed when they break something.

use alloc::vec::Vec;
use cuforge_core::Lifetime;

/// Queues that the lists use.
pub(crate) const QUEUES: u32 = 3;

/// One call. Numbers pick modulo what there is, so that a list stays valid when calls are left out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire {
        len: u64,
        align: u64,
        lifetime: Lifetime,
    },
    /// A request that must be refused: nothing, a bad alignment, far too much.
    Refused {
        kind: u8,
    },
    /// Ends the `pick`-th live grant after new work on the queues of the mask; `older` reuses an epoch of the past.
    Release {
        pick: u32,
        queues: u8,
        older: bool,
    },
    /// Ends the oldest live grant, as a ring likes it.
    ReleaseOldest {
        queues: u8,
    },
    ReleaseDead {
        pick: u32,
    },
    ReleaseUnknown {
        bits: u64,
    },
    ReleaseUnknownQueue {
        pick: u32,
    },
    /// A queue completes some of what it has sealed.
    Complete {
        queue: u32,
        part: u32,
    },
    Reclaim,
    PushScope,
    Rewind {
        pick: u32,
        queues: u8,
    },
    RewindDead {
        pick: u32,
    },
    RewindUnknown {
        bits: u64,
    },
    Clear {
        queues: u8,
    },
    Grow {
        bytes: u64,
    },
    GrowTooFar,
}

/// A small generator of random numbers (xorshift, seeded): the same seed gives the same list everywhere.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Splitmix: neighbouring seeds give unrelated sequences, and never 0.
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }
}

/// What a list starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) capacity: u64,
    /// Epochs sealed before the list begins: near `u64::MAX` in some lists.
    pub(crate) first_epoch: u64,
}

const CAPACITIES: [u64; 12] = [1, 3, 64, 100, 255, 256, 300, 768, 1000, 1024, 2048, 4096];

/// The list of a seed.
pub(crate) fn list_of(seed: u64) -> (Setting, Vec<Call>) {
    let mut random = Random::new(seed);
    let capacity = CAPACITIES[random.below(CAPACITIES.len() as u64) as usize];
    let first_epoch = if random.below(4) == 0 { u64::MAX - 600 } else { 0 };
    let calls = 8 + random.below(72);
    // Some lists never end a grant late, some use one lifetime only: mixtures hide what pure lists show.
    let lifetimes = random.below(4);
    let fifo = random.below(3) == 0;
    let largest = (capacity >> random.below(5)).max(1);
    let calls = (0..calls).map(|_| draw(&mut random, largest, lifetimes, fifo)).collect();
    (Setting { capacity, first_epoch }, calls)
}

fn draw(random: &mut Random, largest: u64, lifetimes: u64, fifo: bool) -> Call {
    let pick = random.next() as u32;
    let queues = [0, 0, 1, 1, 2, 3, 4, 5][random.below(8) as usize];
    match random.below(100) {
        0..38 => {
            let lifetime = match (lifetimes, random.below(8)) {
                (0, _) => Lifetime::Transient,
                (1, _) => Lifetime::General,
                (_, 0) => Lifetime::Resident,
                (_, 1..4) => Lifetime::General,
                _ => Lifetime::Transient,
            };
            Call::Acquire { len: 1 + random.below(largest), align: 1 << random.below(13), lifetime }
        }
        38..40 => Call::Refused { kind: random.below(4) as u8 },
        40..58 if fifo => Call::ReleaseOldest { queues },
        40..58 => Call::Release { pick, queues, older: random.below(6) == 0 },
        58..61 => Call::ReleaseDead { pick },
        61..63 => Call::ReleaseUnknown { bits: random.next() },
        63..64 => Call::ReleaseUnknownQueue { pick },
        64..76 => Call::Complete { queue: random.below(u64::from(QUEUES)) as u32, part: pick },
        76..85 => Call::Reclaim,
        85..90 => Call::PushScope,
        90..94 => Call::Rewind { pick, queues },
        94..95 => Call::RewindDead { pick },
        95..96 => Call::RewindUnknown { bits: random.next() },
        96..98 => Call::Clear { queues },
        98..99 => Call::GrowTooFar,
        _ => Call::Grow { bytes: random.below(600) },
    }
}
