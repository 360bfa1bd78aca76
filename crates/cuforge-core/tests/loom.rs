//! Model checks of the ledger's lock-free part: release, rewind and clear against pin and drop, in every interleaving.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p cuforge-core --test loom --release`.
#![cfg(loom)]

use cuforge_core::{
    Grant, Handle, Ledger, LedgerError, LedgerLimits, Misuse, Progress, QueueId, Refusal, Request, Rewound,
    Scope, SlabAllocator, Stamp, Stats, ViewError,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// One grant at a time; publishes what its end was told in a word: 0 while live, else 1 + the last stamp's epoch.
struct OneGrant {
    ended: Arc<AtomicU64>,
}

impl OneGrant {
    fn end(&self, after: &[Stamp]) {
        self.ended.store(1 + after.iter().map(|s| s.epoch).max().unwrap_or(0), Ordering::Relaxed);
    }
}

// SAFETY: grants one range once; the tests never acquire a second time.
unsafe impl SlabAllocator for OneGrant {
    fn try_acquire(&mut self, _: &Request) -> Option<Grant> {
        Some(Grant { handle: Handle::new(1)?, offset: 0 })
    }
    fn refusal(&self, _: &Request) -> Refusal {
        Refusal::Zero
    }
    fn release(&mut self, _: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.end(after);
        Ok(())
    }
    fn reclaim(&mut self, _: &dyn Progress) -> u64 {
        0
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        Ok(Scope(0))
    }
    fn rewind(&mut self, _: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.end(after);
        Ok(Rewound { grants: 1, bytes: 64 })
    }
}

fn ledger() -> (Ledger, Arc<AtomicU64>) {
    let ended = Arc::new(AtomicU64::new(0));
    let allocator = Box::new(OneGrant { ended: ended.clone() });
    let mut ledger = Ledger::new(allocator, LedgerLimits { grants: 1, queues: 1 });
    assert_eq!(ledger.register_queue(), Ok(QueueId(0)));
    (ledger, ended)
}

const USE: Stamp = Stamp { queue: QueueId(0), epoch: 5 };

#[test]
fn a_grant_never_ends_under_a_lease_and_a_release_knows_every_use() {
    loom::model(|| {
        let (mut ledger, ended) = ledger();
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let (pins, seen) = (ledger.pins(), ended.clone());
        let user = thread::spawn(move || match pins.pin(&view) {
            Ok(lease) => {
                assert_eq!(seen.load(Ordering::Relaxed), 0, "the grant ended under a lease");
                assert_eq!(pins.check(&view), Ok(()));
                lease.mark_use(USE).unwrap();
                true
            }
            Err(error) => {
                assert!(matches!(error, LedgerError::View(ViewError::Stale { .. })), "{error}");
                false
            }
        });
        let released = ledger.release(view);
        let used = user.join().unwrap();
        match released {
            Err(error) => {
                assert_eq!(error, LedgerError::Pinned { grants: 1 });
                assert!(used, "nobody pinned, and yet the release was refused");
                assert_eq!(ledger.release(view), Ok(()), "the lease is gone");
                assert_eq!(ended.load(Ordering::Relaxed), 1 + USE.epoch);
            }
            Ok(()) => {
                let want = if used { 1 + USE.epoch } else { 1 };
                assert_eq!(ended.load(Ordering::Relaxed), want, "the release missed a use");
            }
        }
    });
}

#[test]
fn of_two_leases_the_last_one_dropped_frees_the_grant() {
    loom::model(|| {
        let (mut ledger, ended) = ledger();
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let users: Vec<_> = [3, 5]
            .map(|epoch| {
                let lease = ledger.pin(&view).unwrap();
                thread::spawn(move || lease.mark_use(Stamp { epoch, ..USE }).unwrap())
            })
            .into();
        let early = ledger.release(view);
        for user in users {
            user.join().unwrap();
        }
        if early.is_err() {
            assert_eq!(ledger.release(view), Ok(()));
        }
        assert_eq!(ended.load(Ordering::Relaxed), 6, "both uses are known");
    });
}

#[test]
fn a_rewind_and_a_pin_never_both_win() {
    loom::model(|| {
        let (mut ledger, ended) = ledger();
        let checkpoint = ledger.push_scope().unwrap();
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let (pins, seen) = (ledger.pins(), ended.clone());
        let user = thread::spawn(move || match pins.pin(&view) {
            Ok(lease) => {
                assert_eq!(seen.load(Ordering::Relaxed), 0, "the grant ended under a lease");
                lease.mark_use(USE).unwrap();
                true
            }
            Err(LedgerError::Rewinding | LedgerError::View(ViewError::Stale { .. })) => false,
            Err(other) => unreachable!("{other}"),
        });
        let rewound = ledger.rewind(checkpoint);
        let used = user.join().unwrap();
        match rewound {
            Err(error) => {
                assert_eq!(error, LedgerError::Pinned { grants: 1 });
                assert!(used);
                assert_eq!(ledger.check(&view), Ok(()), "a refused rewind ends nothing");
                assert!(ledger.pin(&view).is_ok(), "a refused rewind leaves no mark");
            }
            Ok(ended_grants) => {
                assert_eq!(ended_grants.grants, 1);
                let want = if used { 1 + USE.epoch } else { 1 };
                assert_eq!(ended.load(Ordering::Relaxed), want, "the rewind missed a use");
            }
        }
    });
}

#[test]
fn a_release_after_the_last_pinner_sees_its_leases_without_a_compare_and_swap() {
    loom::model(|| {
        let (mut ledger, ended) = ledger();
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let (pins, seen) = (ledger.pins(), ended.clone());
        let user = thread::spawn(move || {
            let lease = pins.clone().pin(&view);
            // From here on the ledger may find no pinner, and yet a lease.
            drop(pins);
            let Ok(lease) = lease else { return false };
            assert_eq!(seen.load(Ordering::Relaxed), 0, "the grant ended under a lease");
            lease.mark_use(USE).unwrap();
            true
        });
        let released = ledger.release(view);
        let used = user.join().unwrap();
        if released.is_err() {
            assert!(used, "nobody pinned, and yet the release was refused");
            assert_eq!(ledger.release(view), Ok(()), "the lease is gone");
        }
        let want = if used { 1 + USE.epoch } else { 1 };
        assert_eq!(ended.load(Ordering::Relaxed), want, "the release missed a use");
        let next = ledger.acquire(&Request::new(64)).unwrap();
        assert_ne!(next.generation(), view.generation());
        assert!(ledger.pin(&next).is_ok() && ledger.pin(&view).is_err(), "no count is left over");
    });
}

/// A release by a plain store, as a ledger without pinners makes it, beside a thread that pins and goes away.
fn plain_release(word_first: bool, end_of_pinner: Ordering) {
    const CLOSED: u64 = 1 << 32;
    loom::model(move || {
        let (word, pinners) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1)));
        let user = {
            let (word, pinners) = (word.clone(), pinners.clone());
            thread::spawn(move || {
                let pinned = word.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
                pinners.fetch_sub(1, end_of_pinner);
                pinned
            })
        };
        let early = word_first.then(|| word.load(Ordering::Acquire));
        let closed = if pinners.load(Ordering::Acquire) != 0 {
            word.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        } else if early.unwrap_or_else(|| word.load(Ordering::Acquire)) == 0 {
            word.store(CLOSED, Ordering::Relaxed);
            true
        } else {
            false
        };
        let pinned = user.join().unwrap();
        assert!(!(pinned && closed), "a lease was lost");
    });
}

#[test]
fn control_pinners_are_asked_for_before_the_word() {
    plain_release(false, Ordering::Release);
}

#[test]
#[should_panic(expected = "a lease was lost")]
fn control_the_word_before_the_pinners_loses_a_lease() {
    plain_release(true, Ordering::Release);
}

#[test]
#[should_panic(expected = "a lease was lost")]
fn control_a_relaxed_end_of_a_pinner_loses_a_lease() {
    plain_release(false, Ordering::Relaxed);
}

/// The negative control: the same protocol with the pin dropped by a relaxed store loses the use, and the model
/// checker finds it. If it did not, the checks above would prove nothing.
#[test]
#[should_panic(expected = "missed a use")]
fn control_a_relaxed_unpin_loses_a_use() {
    loom::model(|| {
        let (pins, last_use) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let user = {
            let (pins, last_use) = (pins.clone(), last_use.clone());
            thread::spawn(move || {
                last_use.fetch_max(USE.epoch, Ordering::Relaxed);
                pins.fetch_sub(1, Ordering::Relaxed);
            })
        };
        if pins.compare_exchange(0, 2, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            assert_eq!(last_use.load(Ordering::Relaxed), USE.epoch, "the release missed a use");
        }
        user.join().unwrap();
    });
}
