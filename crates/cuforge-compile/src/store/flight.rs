//! One computation per key at a time: the first caller works, the others wait for its answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Computations under way.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    under_way: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

#[derive(Debug)]
struct Flight<V> {
    state: Mutex<State<V>>,
    landed: Condvar,
}

#[derive(Debug)]
enum State<V> {
    Flying,
    Landed(V),
    /// The worker panicked; somebody else has to do it.
    Lost,
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    pub(crate) fn new() -> Self {
        Self { under_way: Mutex::new(HashMap::new()) }
    }

    /// The value of `work` for `key`, from this thread or from one that was already at it; and whether it was this one.
    ///
    /// No lock is held while `work` runs. If it panics, the panic goes on in its thread and a waiter takes over.
    pub(crate) fn run(&self, key: &K, work: impl FnOnce() -> V) -> (V, bool) {
        loop {
            let (flight, ours) = {
                let mut under_way = self.under_way.lock();
                match under_way.get(key) {
                    Some(flight) => (Arc::clone(flight), false),
                    None => {
                        let flight =
                            Arc::new(Flight { state: Mutex::new(State::Flying), landed: Condvar::new() });
                        under_way.insert(key.clone(), Arc::clone(&flight));
                        (flight, true)
                    }
                }
            };
            if ours {
                let mut guard = Guard { flights: self, key, flight: &flight, outcome: None };
                let value = work();
                guard.outcome = Some(value.clone());
                return (value, true);
            }
            if let Some(value) = flight.wait() {
                return (value, false);
            }
        }
    }
}

impl<V: Clone> Flight<V> {
    fn wait(&self) -> Option<V> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Flying => self.landed.wait(&mut state),
                State::Landed(value) => return Some(value.clone()),
                State::Lost => return None,
            }
        }
    }
}

/// Ends the flight on every way out, unwinding included.
struct Guard<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    flight: &'a Flight<V>,
    outcome: Option<V>,
}

impl<K: Eq + Hash, V> Drop for Guard<'_, K, V> {
    fn drop(&mut self) {
        // Out of the map first: who comes now starts anew and finds the finished value in the cache.
        self.flights.under_way.lock().remove(self.key);
        *self.flight.state.lock() = self.outcome.take().map_or(State::Lost, State::Landed);
        self.flight.landed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn many_threads_on_one_key_work_once_and_all_get_the_value() {
        let flights = Flights::<u32, usize>::new();
        let (worked, start) = (AtomicUsize::new(0), Barrier::new(16));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    let work = || {
                        // Long enough for all others to arrive.
                        std::thread::sleep(std::time::Duration::from_millis(100));
                        worked.fetch_add(1, Ordering::SeqCst) + 41
                    };
                    assert_eq!(flights.run(&1, work).0, 41);
                });
            }
        });
        assert_eq!(worked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_wakes_the_waiters_and_one_of_them_takes_over() {
        let flights = Flights::<u32, u32>::new();
        let inside = Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.run(&1, || {
                    inside.wait();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    panic!("the worker is lost");
                })
            });
            inside.wait();
            let (value, ours) = flights.run(&1, || 7);
            assert_eq!((value, ours), (7, true));
            assert!(first.join().is_err());
        });
    }

    #[test]
    fn different_keys_do_not_wait_for_each_other() {
        let flights = Flights::<u32, u32>::new();
        let (outer, _) = flights.run(&1, || flights.run(&2, || 5).0 + 1);
        assert_eq!(outer, 6);
    }
}
