//! Handles: numbers that stand for host objects, never reused and never followed as pointers.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::codes::{Answer, Code};

/// What a handle stands for; its place in the handle's upper bits, so that a stream is never taken for an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Physical,
    Pool,
    Graph,
    Node,
    Exec,
}

/// All live objects of one kind.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    kind: Kind,
    next: AtomicU64,
    live: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Registry<T> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, next: AtomicU64::new(1), live: RwLock::default() }
    }

    /// A handle that no object has had. Not an address that a host can have, so following it is a crash at once.
    pub(crate) fn fresh(&self) -> u64 {
        0x5c00_0000_0000_0000 | (self.kind as u64) << 48 | self.next.fetch_add(1, Relaxed) << 4
    }

    /// Makes an object under a fresh handle, which `make` is told.
    pub(crate) fn add(&self, make: impl FnOnce(u64) -> T) -> Arc<T> {
        let handle = self.fresh();
        let object = Arc::new(make(handle));
        self.put(handle, Arc::clone(&object));
        object
    }

    /// Puts an object under a handle that [`fresh`](Self::fresh) gave.
    pub(crate) fn put(&self, handle: u64, object: Arc<T>) {
        self.live.write().insert(handle, object);
    }

    /// The object; `INVALID_HANDLE` for a handle of nothing, of something else, or of something destroyed.
    pub(crate) fn get(&self, handle: u64) -> Answer<Arc<T>> {
        self.live.read().get(&handle).cloned().ok_or(Code::INVALID_HANDLE)
    }

    /// Ends the handle; the object lives on while something uses it.
    pub(crate) fn remove(&self, handle: u64) -> Answer<Arc<T>> {
        self.live.write().remove(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// Ends the handles of all objects that fit; gives the objects.
    pub(crate) fn remove_where(&self, fits: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut live = self.live.write();
        let handles: Vec<u64> =
            live.iter().filter(|(_, object)| fits(object)).map(|(handle, _)| *handle).collect();
        handles.iter().filter_map(|handle| live.remove(handle)).collect()
    }

    /// All live objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.live.read().values().cloned().collect()
    }

    /// How many are live.
    pub(crate) fn len(&self) -> usize {
        self.live.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_used_twice_and_never_taken_for_another_kind() {
        let (streams, events) = (Registry::new(Kind::Stream), Registry::new(Kind::Event));
        let first = streams.fresh();
        streams.put(first, Arc::new("first"));
        let event = events.fresh();
        events.put(event, Arc::new(()));
        assert!(streams.get(event).is_err() && events.get(first).is_err() && streams.get(0).is_err());
        assert_eq!(*streams.remove(first).unwrap(), "first");
        assert!(streams.get(first).is_err() && streams.remove(first).is_err());
        assert_ne!(streams.fresh(), first);
    }
}
