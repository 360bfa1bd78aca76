//! Holding work back, so that a test sees work in flight for as long as it wants to.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// While work is held back no stream begins any, unless the host waits for some: then all may go on until it has what
/// it waits for.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// Whether to look at the state at all.
    on: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: bool,
    waiting: usize,
}

/// The host is waiting.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    hold: &'a Hold,
}

impl Hold {
    /// Holds work back, or lets it go.
    pub(crate) fn set(&self, held: bool) {
        self.on.store(true, Relaxed);
        self.state.lock().held = held;
        self.changed.notify_all();
    }

    /// Returns once work may begin.
    pub(crate) fn pass(&self) {
        if !self.on.load(Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        while state.held && state.waiting == 0 {
            self.changed.wait(&mut state);
        }
    }

    /// Whether work may begin.
    pub(crate) fn is_lifted(&self) -> bool {
        if !self.on.load(Relaxed) {
            return true;
        }
        let state = self.state.lock();
        !state.held || state.waiting > 0
    }

    /// Lets work go on for as long as the answer lives.
    pub(crate) fn host_waits(&self) -> Waiting<'_> {
        self.state.lock().waiting += 1;
        self.changed.notify_all();
        Waiting { hold: self }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.hold.state.lock().waiting -= 1;
    }
}
