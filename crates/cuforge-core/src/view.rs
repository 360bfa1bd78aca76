//! Views of slab memory: which bytes, of which slab and generation, bound where.

use core::sync::atomic::{AtomicU32, Ordering};

/// Identity of one slab (one ledger) in this process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlabId(u32);

impl SlabId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number behind the identity, for reports.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What kernels may do with a buffer. Grants of different access are kept apart where a backend binds them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// As wide as leaves no gap in a request: a gap would be a store of its own.
#[repr(u16)]
pub enum Access {
    /// Kernels read it; only the host writes it (weights, inputs).
    StorageRead,
    /// Kernels read and write it (outputs, activations, caches).
    StorageReadWrite,
}

impl Access {
    /// Whether memory granted for `self` may be bound for `wanted`: everything may be read, only read-write memory
    /// may be written.
    pub const fn allows(self, wanted: Self) -> bool {
        matches!((self, wanted), (Self::StorageReadWrite, _) | (_, Self::StorageRead))
    }
}

/// A range of bytes in a slab: plain data, `Copy`, and only as good as its generation.
///
/// Only a [`Ledger`](crate::Ledger) mints views; [`slice`](Self::slice) and [`bound_to`](Self::bound_to) derive
/// narrower or bound copies of the same grant. All of that is O(1) and
/// touches nothing but the view. A view does not keep its grant alive: whoever uses it asks the
/// ledger, which answers with a typed error once the grant is released, rewound or cleared.
///
/// Offsets and lengths are in bytes. The address of a view on a device is the slab's base plus
/// [`offset`](Self::offset).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferView {
    offset: u64,
    len: u64,
    /// The slot of the grant, and [`PART`] if the grant has more bytes than the view.
    slot: u32,
    generation: u32,
    slab: SlabId,
    group: u32,
    binding: u32,
    access: Access,
}

/// What marks a part of a grant. No ledger has so many slots: a part's number is none of theirs.
const PART: u32 = 1 << 31;

/// The most slots that a ledger can have.
pub(crate) const MAX_SLOTS: u32 = PART - 1;

impl BufferView {
    /// A whole grant; its slot is at most [`MAX_SLOTS`].
    #[inline]
    pub(crate) fn mint(
        slab: SlabId,
        slot: u32,
        generation: u32,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Self {
        Self { offset, len, slot, generation, slab, group: 0, binding: 0, access }
    }

    /// The slab that the bytes are in.
    #[inline]
    pub fn slab(&self) -> SlabId {
        self.slab
    }

    /// The generation of the grant: a later grant in the same place has another one.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The first byte, counted from the slab's base.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the view has no bytes (a slice may be empty, a grant never is).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bind group; 0 unless bound.
    #[inline]
    pub fn group(&self) -> u32 {
        self.group
    }

    /// The binding inside the group; 0 unless bound.
    #[inline]
    pub fn binding(&self) -> u32 {
        self.binding
    }

    /// What kernels may do with the bytes through this view.
    #[inline]
    pub fn access(&self) -> Access {
        self.access
    }

    /// A copy bound to `(group, binding)` for `access`.
    ///
    /// # Errors
    /// [`ViewError::ReadOnly`] if the memory was granted for reading and `access` would write it.
    pub fn bound_to(self, group: u32, binding: u32, access: Access) -> Result<Self, ViewError> {
        if !self.access.allows(access) {
            return Err(ViewError::ReadOnly { group, binding });
        }
        Ok(Self { group, binding, access, ..self })
    }

    /// The `len` bytes that start `offset` bytes into this view; same grant, same binding. Empty slices are valid.
    ///
    /// # Errors
    /// [`ViewError::OutOfRange`] if they do not lie inside this view.
    pub fn slice(self, offset: u64, len: u64) -> Result<Self, ViewError> {
        let range = offset.checked_add(len).filter(|end| *end <= self.len);
        // `self.offset + self.len` was representable when minted, so an in-range offset cannot overflow.
        match (range, self.offset.checked_add(offset)) {
            (Some(_), Some(start)) => {
                let part = if len < self.len { PART } else { 0 };
                Ok(Self { offset: start, len, slot: self.slot | part, ..self })
            }
            _ => Err(ViewError::OutOfRange { offset, len, view_len: self.len }),
        }
    }

    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        self.slot & !PART
    }

    /// The slot of a view that has all bytes of its grant, and of a part a number past every slot.
    #[inline]
    pub(crate) fn whole_slot(&self) -> u32 {
        self.slot
    }

    /// Whether the view has all bytes of its grant.
    pub(crate) fn is_whole(&self) -> bool {
        self.slot & PART == 0
    }

    /// The same bytes, bound nowhere.
    #[inline]
    pub(crate) fn unbound(self) -> Self {
        Self { group: 0, binding: 0, access: Access::StorageRead, ..self }
    }
}

/// Why a view cannot be derived or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The range does not lie inside the view.
    #[error("bytes {offset}..{offset}+{len} are outside a view of {view_len} bytes")]
    OutOfRange {
        /// First byte asked for, counted from the view's start.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// Bytes that the view has.
        view_len: u64,
    },
    /// Memory granted for reading was to be bound for writing.
    #[error("group {group} binding {binding}: memory granted read-only cannot be bound read-write")]
    ReadOnly {
        /// The bind group asked for.
        group: u32,
        /// The binding asked for.
        binding: u32,
    },
    /// The view belongs to another slab.
    #[error("view of slab {view} used with slab {slab}", view = view.number(), slab = slab.number())]
    Foreign {
        /// The view's slab.
        view: SlabId,
        /// The slab it was used with.
        slab: SlabId,
    },
    /// The grant behind the view was released, rewound or cleared.
    #[error("stale view: generation {generation} of bytes {offset}..{offset}+{len} is gone")]
    Stale {
        /// The view's generation.
        generation: u32,
        /// The view's first byte.
        offset: u64,
        /// The view's length in bytes.
        len: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(offset: u64, len: u64, access: Access) -> BufferView {
        BufferView::mint(SlabId::next(), 0, 1, offset, len, access)
    }

    #[test]
    fn slices_stay_inside_their_view_and_arithmetic_is_checked() {
        let whole = view(u64::MAX - 64, 64, Access::StorageRead);
        assert_eq!(whole.slice(16, 48).map(|v| (v.offset(), v.len())), Ok((u64::MAX - 48, 48)));
        assert_eq!(whole.slice(64, 0).map(|v| v.is_empty()), Ok(true));
        for (offset, len) in [(0, 65), (65, 0), (1, u64::MAX), (u64::MAX, 1), (u64::MAX, u64::MAX)] {
            assert_eq!(whole.slice(offset, len), Err(ViewError::OutOfRange { offset, len, view_len: 64 }));
        }
    }

    #[test]
    fn read_only_memory_cannot_be_bound_for_writing() {
        let weights = view(0, 64, Access::StorageRead);
        assert_eq!(
            weights.bound_to(0, 3, Access::StorageReadWrite),
            Err(ViewError::ReadOnly { group: 0, binding: 3 })
        );
        let cache = view(0, 64, Access::StorageReadWrite);
        let read = cache.bound_to(1, 2, Access::StorageRead).unwrap();
        assert_eq!((read.group(), read.binding(), read.access()), (1, 2, Access::StorageRead));
        // A read-only bound copy does not turn back into a writable one.
        assert!(read.bound_to(1, 2, Access::StorageReadWrite).is_err());
    }
}
