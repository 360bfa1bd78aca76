//! Queues, the epochs sealed on them, and who knows how far a queue has come.

/// A queue of work in submission order (a CUDA stream, a graph's stream, the host), numbered by the
/// [`Ledger`](crate::Ledger) it was registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// A point in the work of one queue: everything submitted to `queue` up to and including `epoch`.
///
/// Epochs count from 1 and are never reused; epoch 0 means "no work" and is always complete.
///
/// ```
/// use cuforge_core::{QueueId, Stamp};
/// let last_read = Stamp { queue: QueueId(0), epoch: 7 };
/// assert!(last_read.is_complete(&[7]) && !last_read.is_complete(&[6]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The queue that the work was submitted to.
    pub queue: QueueId,
    /// The epoch of that queue which contains the work.
    pub epoch: u64,
}

impl Stamp {
    /// Whether `progress` says that the work up to this stamp has completed. One call of
    /// [`Progress::completed`], O(1).
    pub fn is_complete<P: Progress + ?Sized>(&self, progress: &P) -> bool {
        self.epoch == 0 || progress.completed(self.queue) >= self.epoch
    }
}

/// Tells how far each queue has come. The launcher implements it over device-written words, tests over a slice of
/// integers (index = queue number; a queue past its end has completed nothing).
pub trait Progress {
    /// The highest epoch of `queue` whose work has completed; 0 if none has. Never decreases. Must be cheap: one
    /// load is expected.
    fn completed(&self, queue: QueueId) -> u64;
}

impl Progress for [u64] {
    fn completed(&self, queue: QueueId) -> u64 {
        self.get(queue.0 as usize).copied().unwrap_or(0)
    }
}

impl<const N: usize> Progress for [u64; N] {
    fn completed(&self, queue: QueueId) -> u64 {
        self.as_slice().completed(queue)
    }
}
