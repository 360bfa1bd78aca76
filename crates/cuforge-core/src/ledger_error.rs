//! What the ledger answers when it cannot do as told.

use crate::allocator::Misuse;
use crate::stamp::QueueId;
use crate::view::{SlabId, ViewError};

/// What the ledger answers when it cannot do as told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The view is foreign, stale or out of range.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Leases keep the grants alive.
    #[error("{grants} grants are pinned by leases")]
    Pinned {
        /// How many grants.
        grants: u64,
    },
    /// A rewind is deciding over the grant in this moment.
    #[error("a rewind is deciding over this grant, ask again")]
    Rewinding,
    /// 2^30 leases pin one grant.
    #[error("too many leases on one grant")]
    TooManyPins,
    /// Only a whole grant can be released, not a slice of it.
    #[error("a slice of {len} bytes cannot be released, only the grant that it is a part of")]
    Slice {
        /// Bytes of the view given.
        len: u64,
    },
    /// The queue was not registered, or no more can be.
    #[error("queue {queue:?} is not registered with this ledger")]
    UnknownQueue {
        /// The queue named.
        queue: QueueId,
    },
    /// The checkpoint was made by another ledger.
    #[error("checkpoint of slab {checkpoint} used with slab {slab}", checkpoint = checkpoint.number(), slab = slab.number())]
    ForeignCheckpoint {
        /// The checkpoint's slab.
        checkpoint: SlabId,
        /// The ledger's slab.
        slab: SlabId,
    },
    /// The allocator says that the call is wrong, or that it cannot do it.
    #[error(transparent)]
    Allocator(#[from] Misuse),
}
