//! How far a stream is, for itself and for those who wait for it.

use parking_lot::{Condvar, Mutex};

/// The number of the last piece of work that is done.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    completed: Mutex<u64>,
    changed: Condvar,
}

impl Progress {
    /// One more piece of work is done.
    pub(crate) fn advance(&self) {
        *self.completed.lock() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn completed(&self) -> u64 {
        *self.completed.lock()
    }

    /// Returns once the piece of work with that number is done.
    pub(crate) fn wait_for(&self, position: u64) {
        let mut completed = self.completed.lock();
        while *completed < position {
            self.changed.wait(&mut completed);
        }
    }
}
