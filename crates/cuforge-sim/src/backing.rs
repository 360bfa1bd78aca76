//! The words of an allocation, which may be somebody else's.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// Words that live outside a [`Memory`](crate::Memory) and may change while a kernel runs: memory that the host sees as well.
///
/// The words are little-endian 32-bit words of the memory in address order, and the same ones at each call.
pub trait Backing: fmt::Debug + Send + Sync {
    /// All words.
    fn words(&self) -> &[AtomicU32];

    /// Which bytes are written: for each word four bits, the lowest for the byte at the lowest address. Kernels set them as
    /// they store. Absent, as by default, all bytes count as written.
    fn known(&self) -> Option<&[AtomicU8]> {
        None
    }
}

/// The words of an allocation, its own or lent.
#[derive(Debug)]
pub(crate) enum Words {
    Own(Vec<AtomicU32>),
    Lent(Arc<dyn Backing>),
}

impl Words {
    /// What is known to be written of memory that is lent.
    pub(crate) fn known(&self) -> Option<&[AtomicU8]> {
        match self {
            Self::Own(_) => None,
            Self::Lent(backing) => backing.known(),
        }
    }
}

impl Deref for Words {
    type Target = [AtomicU32];

    fn deref(&self) -> &[AtomicU32] {
        match self {
            Self::Own(words) => words,
            Self::Lent(backing) => backing.words(),
        }
    }
}
