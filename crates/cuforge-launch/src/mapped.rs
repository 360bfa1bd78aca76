//! Words that host and device share: in mapped memory, read and written whole from both sides.

use crate::device::Device;
use crate::error::LaunchError;
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 64-bit words in mapped host memory, for kernels that were given their address by value. `Send`, `Sync`.
///
/// What passes between host and device in a few microseconds: a kernel stores a word, the host polls it, without a copy
/// and without a synchronize; the host stores one, and the next kernel loads it. A graph whose kernels know the address
/// keeps the words ([`CaptureScope::keep`](crate::CaptureScope::keep)); whoever launches such a kernel otherwise keeps
/// them until it is done.
///
/// ```
/// use cuforge_launch::{Device, LaunchError};
/// fn shared(device: &Device) -> Result<(), LaunchError> {
///     let words = device.mapped_words(2)?;
///     assert_eq!((words.store(1, 7), words.load(1), words.load(2)), (Some(()), Some(7), None));
///     Ok(())
/// }
/// ```
pub struct MappedWords {
    memory: PinnedBuffer,
}

impl Device {
    /// `count` words, all 0.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn mapped_words(&self, count: usize) -> Result<MappedWords, LaunchError> {
        Ok(MappedWords { memory: self.pinned(count.saturating_mul(8))? })
    }
}

impl MappedWords {
    /// The number of words.
    pub fn len(&self) -> usize {
        self.memory.len() / 8
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word at `index`, with all that its writer wrote before it behind a fence of the system; `None` beyond the
    /// last. One load, no driver call.
    #[inline]
    pub fn load(&self, index: usize) -> Option<u64> {
        self.word(index).map(|word| word.load(Ordering::Acquire))
    }

    /// Stores the word at `index`; `None`, and nothing stored, beyond the last. One store, no driver call. Kernels
    /// launched later find it; one in flight may.
    #[inline]
    pub fn store(&self, index: usize, value: u64) -> Option<()> {
        self.word(index).map(|word| word.store(value, Ordering::Release))
    }

    /// Where kernels find the first word; the others follow.
    pub fn device_address(&self) -> u64 {
        self.memory.device_address()
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        self.memory.gate()
    }

    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU64> {
        (index < self.len()).then(|| {
            let at = self.memory.as_ptr().cast::<u64>().wrapping_add(index);
            // SAFETY: eight initialised bytes inside the buffer, which is aligned to a page and lives as long as `self`;
            // nobody reaches them but through these atomics, and the device reads and writes them whole.
            unsafe { AtomicU64::from_ptr(at) }
        })
    }
}

impl fmt::Debug for MappedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedWords").field("len", &self.len()).finish_non_exhaustive()
    }
}
