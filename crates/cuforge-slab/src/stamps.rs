//! Fixed rows of stamps: for every slot of an allocator the latest epoch it waits for on each queue.

use alloc::boxed::Box;
use alloc::vec;
use cuforge_core::{MAX_QUEUES, Misuse, Progress, QueueId, Stamp};

/// How far every queue had come at one moment, so that one operation decides all by the same state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    epochs: [u64; MAX_QUEUES],
}

impl Completed {
    /// Asks `progress` once a queue. O(queues).
    pub(crate) fn read(progress: &dyn Progress, queues: u32) -> Self {
        let mut epochs = [0; MAX_QUEUES];
        for (queue, epoch) in (0..queues).zip(&mut epochs) {
            *epoch = progress.completed(QueueId(queue));
        }
        Self { epochs }
    }
}

impl Progress for Completed {
    fn completed(&self, queue: QueueId) -> u64 {
        self.epochs.as_slice().completed(queue)
    }
}

/// `slots * queues` epochs. A row is the maximum of all stamps written to it; nothing is ever dropped, so nothing
/// needs to be guessed.
#[derive(Debug)]
pub(crate) struct StampRows {
    epochs: Box<[u64]>,
    queues: usize,
}

impl StampRows {
    pub(crate) fn new(slots: usize, queues: u32) -> Self {
        let queues = queues as usize;
        Self { epochs: vec![0; slots * queues].into_boxed_slice(), queues }
    }

    pub(crate) fn queues(&self) -> u32 {
        self.queues as u32
    }

    /// Whether every queue is known; call it before any change.
    pub(crate) fn check(&self, after: &[Stamp]) -> Result<(), Misuse> {
        match after.iter().find(|stamp| stamp.queue.0 as usize >= self.queues) {
            Some(stamp) => Err(Misuse::UnknownQueue { queue: stamp.queue }),
            None => Ok(()),
        }
    }

    /// Replaces a row by `after`; whether there is anything to wait for.
    pub(crate) fn write(&mut self, slot: usize, after: &[Stamp]) -> bool {
        self.row_mut(slot).fill(0);
        self.join(slot, after)
    }

    /// Raises a row to cover `after` too; whether `after` has anything to wait for.
    pub(crate) fn join(&mut self, slot: usize, after: &[Stamp]) -> bool {
        let row = self.row_mut(slot);
        let mut waits = false;
        for stamp in after {
            if let Some(epoch) = row.get_mut(stamp.queue.0 as usize) {
                *epoch = stamp.epoch.max(*epoch);
                waits |= stamp.epoch != 0;
            }
        }
        waits
    }

    /// Raises row `into` to cover row `from` too.
    pub(crate) fn join_row(&mut self, into: usize, from: usize) {
        for queue in 0..self.queues {
            let epoch = self.epochs[from * self.queues + queue];
            let target = &mut self.epochs[into * self.queues + queue];
            *target = epoch.max(*target);
        }
    }

    /// The first queue at or after `from` that the row still waits for.
    pub(crate) fn waits_for(&self, slot: usize, from: usize, completed: &Completed) -> Option<Stamp> {
        let row = self.row(slot);
        (from..self.queues)
            .find(|&queue| row[queue] > completed.epochs[queue])
            .map(|queue| Stamp { queue: QueueId(queue as u32), epoch: row[queue] })
    }

    /// The row's epoch on one queue.
    pub(crate) fn epoch(&self, slot: usize, queue: usize) -> u64 {
        self.row(slot)[queue]
    }

    /// The first stamp of the row, complete or not.
    pub(crate) fn first(&self, slot: usize) -> Option<Stamp> {
        self.waits_for(slot, 0, &Completed { epochs: [0; MAX_QUEUES] })
    }

    /// Forgets a row.
    pub(crate) fn reset(&mut self, slot: usize) {
        self.row_mut(slot).fill(0);
    }

    fn row(&self, slot: usize) -> &[u64] {
        &self.epochs[slot * self.queues..(slot + 1) * self.queues]
    }

    fn row_mut(&mut self, slot: usize) -> &mut [u64] {
        &mut self.epochs[slot * self.queues..(slot + 1) * self.queues]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(queue: u32, epoch: u64) -> Stamp {
        Stamp { queue: QueueId(queue), epoch }
    }

    #[test]
    fn joining_keeps_the_latest_epoch_of_every_queue() {
        let mut rows = StampRows::new(2, 3);
        rows.write(0, &[stamp(0, 7), stamp(2, 1)]);
        rows.write(1, &[stamp(0, 3), stamp(1, 9)]);
        rows.join_row(1, 0);
        let waits = |completed: [u64; 3]| {
            let read = Completed::read(&completed, 3);
            rows.waits_for(1, 0, &read)
        };
        assert_eq!(waits([6, 9, 1]), Some(stamp(0, 7)));
        assert_eq!(waits([7, 8, 1]), Some(stamp(1, 9)));
        assert_eq!(waits([7, 9, 0]), Some(stamp(2, 1)));
        assert_eq!(waits([7, 9, 1]), None);
    }

    #[test]
    fn epoch_zero_is_nothing_to_wait_for_and_unknown_queues_are_misuse() {
        let mut rows = StampRows::new(1, 2);
        assert!(!rows.write(0, &[stamp(0, 0), stamp(1, 0)]));
        assert_eq!(rows.first(0), None);
        assert_eq!(rows.check(&[stamp(2, 1)]), Err(Misuse::UnknownQueue { queue: QueueId(2) }));
    }
}
