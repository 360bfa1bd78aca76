//! The allocator contract as a test suite for anyone's allocator: see [`conformance!`](crate::conformance!).

mod calls;
mod model;
mod properties;
mod runner;
mod violation;

pub use violation::Violation;

use alloc::boxed::Box;
use cuforge_core::SlabAllocator;

/// What a constructor may return: an allocator, or nothing if it cannot manage so few bytes.
pub trait Built {
    /// The allocator, if there is one.
    fn built(self) -> Option<Box<dyn SlabAllocator>>;
}

impl<A: SlabAllocator + 'static> Built for Option<A> {
    fn built(self) -> Option<Box<dyn SlabAllocator>> {
        self.map(|slab| Box::new(slab) as Box<dyn SlabAllocator>)
    }
}

impl<A: SlabAllocator + 'static, E> Built for Result<A, E> {
    fn built(self) -> Option<Box<dyn SlabAllocator>> {
        self.ok().built()
    }
}

/// One part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Random lists of calls against a byte-map model and against a twin that is spared the refused calls: overlap,
    /// bounds, alignment, stamps, handles, scopes, statistics, memory map, no trace of refusals, and that everything
    /// comes back in the end. Lists that break something are shortened before they are reported.
    RandomLists {
        /// The first list; every number gives another.
        seed: u64,
        /// How many.
        lists: u64,
    },
    /// Capacities up to 64 bytes and every length up to 4 KiB.
    ExhaustiveSmall,
    /// Alignments 1 to 4,096 over many laps, and bad ones.
    Alignments,
    /// Released bytes wait for all of their stamps, whatever their neighbours wait for.
    PendingBytesWait,
    /// So do rewound and cleared bytes; resident grants survive.
    RewindsInFlightWait,
    /// Growth moves nothing.
    Growth,
    /// A full allocator says how full, and what to wait for.
    FullIsHonest,
    /// Handles and scopes stay unique over 70,000 uses.
    TokensStayUnique,
}

impl Part {
    /// All parts, with `lists` random lists. O(1).
    pub fn all(lists: u64) -> [Self; 8] {
        [
            Self::ExhaustiveSmall,
            Self::Alignments,
            Self::PendingBytesWait,
            Self::RewindsInFlightWait,
            Self::Growth,
            Self::FullIsHonest,
            Self::TokensStayUnique,
            Self::RandomLists { seed: 0, lists },
        ]
    }
}

/// Tests one part of the contract on allocators made by `build`, a constructor that takes the capacity in bytes.
/// Capacities of 1 byte to 64 KiB are tried; those that cannot be built are left out, but not all may be.
///
/// The allocator has to know the queues 0 to 2, and to give equal answers to equal calls. Takes well below a second a
/// part, and below a millisecond a random list, in an optimised build; allocates.
///
/// # Errors
/// The first broken promise, with the calls that lead there.
pub fn check<B: Built>(build: impl Fn(u64) -> B, part: Part) -> Result<(), Violation> {
    let build = |capacity: u64| build(capacity).built();
    match part {
        Part::RandomLists { seed, lists } => properties::random_lists(&build, seed, lists),
        Part::ExhaustiveSmall => properties::exhaustive_small(&build),
        Part::Alignments => properties::alignments(&build),
        Part::PendingBytesWait => properties::pending_bytes_wait(&build),
        Part::RewindsInFlightWait => properties::rewinds_in_flight_wait(&build),
        Part::Growth => properties::growth(&build),
        Part::TokensStayUnique => properties::tokens_stay_unique(&build),
        Part::FullIsHonest => properties::full_is_honest(&build),
    }
}

/// Turns the allocator contract into tests of your allocator, one a part.
///
/// `conformance!(MyAllocator)` makes a module `conforms` of tests that build it with `MyAllocator::new(capacity_bytes)`,
/// which returns an `Option` or a `Result` of it; `conformance!(name, |capacity_bytes| ..)` takes any constructor and
/// name. An
/// operation that your allocator answers with `Misuse::Unsupported` is not asked for, nor is a lifetime that it
/// refuses as never fitting. 2,000 random lists of calls are played, 200,000 if the environment sets `CUFORGE_LONG`.
///
/// ```
/// # use cuforge_slab::{RingSlab, conformance};
/// # fn main() {}
/// conformance!(RingSlab);
/// conformance!(small_ring, |capacity_bytes| RingSlab::new(capacity_bytes.min(512)));
/// ```
#[macro_export]
macro_rules! conformance {
    ($allocator:ident) => {
        $crate::conformance!(conforms, |capacity_bytes| <$allocator>::new(capacity_bytes));
    };
    ($name:ident, $build:expr) => {
        #[cfg(test)]
        #[allow(non_snake_case)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance!(@parts $build;
                serves_every_small_capacity_and_length: ExhaustiveSmall,
                aligns_every_grant: Alignments,
                keeps_released_bytes_until_their_stamps_complete: PendingBytesWait,
                keeps_rewound_bytes_until_their_stamps_complete: RewindsInFlightWait,
                grows_without_moving_anything: Growth,
                says_how_full_it_is: FullIsHonest,
                never_reuses_a_handle_or_scope: TokensStayUnique,
            );

            #[test]
            fn agrees_with_the_model_on_random_calls() {
                extern crate std;
                let long = std::env::var_os("CUFORGE_LONG").is_some();
                let lists = if long { 200_000 } else { 2_000 };
                let part = $crate::conformance::Part::RandomLists { seed: 0, lists };
                $crate::conformance!(@check $build, part);
            }
        }
    };
    (@parts $build:expr; $($test:ident: $part:ident,)*) => {
        $(
            #[test]
            fn $test() {
                $crate::conformance!(@check $build, $crate::conformance::Part::$part);
            }
        )*
    };
    (@check $build:expr, $part:expr) => {
        if let Err(violation) = $crate::conformance::check($build, $part) {
            panic!("{violation}");
        }
    };
}
