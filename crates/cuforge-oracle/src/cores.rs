//! Work on all cores of the host, its results in order.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many workers [`on_all_cores`] has.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `work` on every item, on as many threads as there are cores. The results stand in the order of the items, however
/// the threads took turns.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some((index, item)) = taken(&next, items) {
            done.push((index, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores().min(items.len())).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn taken<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_results_stand_in_their_order() {
        let items: Vec<usize> = (0..1000).collect();
        let calls = AtomicUsize::new(0);
        let twice = on_all_cores(&items, |item| {
            calls.fetch_add(1, Ordering::Relaxed);
            2 * item
        });
        assert_eq!(twice, items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        assert_eq!(calls.into_inner(), 1000);
        assert!(on_all_cores(&[], |item: &usize| *item).is_empty());
    }
}
