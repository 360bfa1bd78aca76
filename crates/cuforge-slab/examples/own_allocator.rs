//! Bring your own allocator: implement the trait, run the conformance suite, hand it to whatever takes a box.
//!
//! `cargo run -p cuforge-slab --example own_allocator`, and `cargo test -p cuforge-slab --examples` for the suite.

use cuforge_core::{
    Grant, Handle, Ledger, LedgerLimits, Misuse, Progress, QueueId, Refusal, Request, SlabAllocator, Stamp,
    Stats,
};

// The allocator, in fewer than 60 lines: first fit in a short sorted list of grants and, once they are released, the
// epochs that they wait for, by queue.
struct FirstFit {
    held: Vec<(Grant, u64, Option<[u64; 16]>)>,
    stats: Stats,
}

// SAFETY: `try_acquire` finds a gap between what is held, which is sorted and disjoint; what is held leaves the list only
// once its epochs are complete; handles count up.
unsafe impl SlabAllocator for FirstFit {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let ends = self.held.iter().map(|(grant, len, _)| grant.offset + len);
        let starts = [0].into_iter().chain(ends).map(|start| start.checked_next_multiple_of(request.align));
        let ends = self.held.iter().map(|held| held.0.offset).chain([self.stats.capacity_bytes]);
        let fits = |start: &u64, end: u64| end.checked_sub(*start) >= Some(request.len);
        let gaps = starts.zip(ends).map(|(start, end)| start.filter(|start| fits(start, end)));
        let gap = gaps.enumerate().find_map(|(index, start)| Some((index, start?)));
        let gap = gap.filter(|_| request.malformed().is_none() && self.held.len() < 64);
        self.stats.refused_total += u64::from(gap.is_none());
        let (index, offset) = gap?;
        self.stats.acquired_total += 1;
        let grant = Grant { handle: Handle::new(self.stats.acquired_total)?, offset };
        self.held.insert(index, (grant, request.len, None));
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats().used_bytes());
        Some(grant)
    }

    fn refusal(&self, request: &Request) -> Refusal {
        let mut epochs = self.held.iter().filter_map(|held| held.2).flat_map(|e| (0..).map(QueueId).zip(e));
        let oldest = epochs.find(|(_, epoch)| *epoch > 0).map(|(queue, epoch)| Stamp { queue, epoch });
        match (request.malformed(), self.stats.capacity_bytes) {
            (Some(refusal), _) => refusal,
            (_, max_bytes) if request.len > max_bytes => Refusal::NeverFits { max_bytes },
            _ if self.held.len() == 64 => Refusal::OutOfNodes { capacity: 64 },
            _ => Refusal::full(&self.stats(), oldest),
        }
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let mut epochs = [0; 16];
        for &Stamp { queue, epoch } in after {
            let known = epochs.get_mut(queue.0 as usize).ok_or(Misuse::UnknownQueue { queue })?;
            *known = epoch.max(*known);
        }
        let live = self.held.iter_mut().find(|held| held.0.handle == handle && held.2.is_none());
        live.ok_or(Misuse::StaleHandle)?.2 = Some(epochs);
        self.reclaim(&[0; 16]);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let before = self.stats().pending_bytes;
        let done = |after: &[u64; 16]| (0..).zip(after).all(|(q, e)| *e <= progress.completed(QueueId(q)));
        self.held.retain(|held| !held.2.as_ref().is_some_and(done));
        before - self.stats().pending_bytes
    }

    fn stats(&self) -> Stats {
        let of = |live| self.held.iter().filter(move |held| held.2.is_none() == live);
        let (sum, live_grants) = (|live| of(live).map(|held| held.1).sum(), of(true).count() as u64);
        Stats { live_bytes: sum(true), pending_bytes: sum(false), live_grants, ..self.stats }
    }
}

impl FirstFit {
    fn new(capacity_bytes: u64) -> Option<Self> {
        Some(Self { held: Vec::with_capacity(64), stats: Stats { capacity_bytes, ..Stats::default() } })
    }
}

// That is all. The contract is tested by one line ...

cuforge_slab::conformance!(FirstFit);

// ... and everything that takes memory takes a box of it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mine: Box<dyn SlabAllocator + Send> = Box::new(FirstFit::new(1 << 20).ok_or("no capacity")?);
    let mut ledger = Ledger::new(mine, LedgerLimits::default());
    let (weights, scratch) =
        (ledger.acquire(&Request::new(700_000))?, ledger.acquire(&Request::new(300_000))?);
    println!("weights at {}, scratch at {}", weights.offset(), scratch.offset());
    println!(
        "more? {}",
        ledger.acquire(&Request::new(300_000)).map_or_else(|no| no.to_string(), |_| "yes".into())
    );
    ledger.release(scratch)?;
    println!("and now? {}", ledger.acquire(&Request::new(300_000))?.offset());
    Ok(())
}
