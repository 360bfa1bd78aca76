//! Bring your own allocator: implement the trait, run the conformance suite, hand it to whatever takes a box.
//!
//! `cargo run -p cuforge-slab --example swap_the_allocator`, and `cargo test -p cuforge-slab --examples` for the suite.

use cuforge_core::{
    Grant, Handle, Ledger, LedgerLimits, Misuse, Progress, QueueId, Refusal, Request, SlabAllocator, Stamp,
    Stats,
};

// The allocator, in fewer than 60 lines: first fit in a short sorted list of grants and, once they are released, the
// epochs that they wait for, by queue.
struct FirstFit {
    held: Vec<(Grant, Option<[u64; 16]>)>,
    stats: Stats,
}

// SAFETY: `acquire` finds a gap between what is held, which is sorted and disjoint; what is held leaves the list only
// once its epochs are complete; handles count up.
unsafe impl SlabAllocator for FirstFit {
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        let (Request { len, align, .. }, stats) = (*request, self.stats());
        let ends = self.held.iter().map(|(grant, _)| grant.offset + grant.len);
        let starts = std::iter::once(0).chain(ends).map(|start| start.checked_next_multiple_of(align.max(1)));
        let ends = self.held.iter().map(|(grant, _)| grant.offset).chain([stats.capacity_bytes]);
        let fits = |start: Option<u64>, end: u64| start.filter(|start| end.checked_sub(*start) >= Some(len));
        let gap = starts.zip(ends).enumerate().find_map(|(index, (s, e))| Some((index, fits(s, e)?)));
        let mut epochs = self.held.iter().filter_map(|held| held.1).flat_map(|e| (0..).map(QueueId).zip(e));
        let oldest = epochs.find(|(_, epoch)| *epoch > 0).map(|(queue, epoch)| Stamp { queue, epoch });
        let (total_free, largest_free, pending) = (stats.free_bytes(), 0, stats.pending_bytes);
        let place = match gap {
            _ if len == 0 => Err(Refusal::Zero),
            _ if !align.is_power_of_two() => Err(Refusal::Alignment { align }),
            _ if len > stats.capacity_bytes => Err(Refusal::NeverFits { max_bytes: stats.capacity_bytes }),
            _ if self.held.len() == 64 => Err(Refusal::OutOfNodes { capacity: 64 }),
            Some(place) => Ok(place),
            _ => Err(Refusal::Full { total_free, largest_free, pending, oldest }),
        };
        let (index, offset) = place.inspect_err(|_| self.stats.refused_total += 1)?;
        let grant = Grant { handle: Handle(stats.acquired_total), offset, len };
        self.held.insert(index, (grant, None));
        self.stats.acquired_total += 1;
        self.stats.peak_bytes = stats.peak_bytes.max(stats.live_bytes + pending + len);
        Ok(grant)
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let mut epochs = [0; 16];
        for &Stamp { queue, epoch } in after {
            let known = epochs.get_mut(queue.0 as usize).ok_or(Misuse::UnknownQueue { queue })?;
            *known = epoch.max(*known);
        }
        let live = self.held.iter_mut().find(|(grant, after)| grant.handle == handle && after.is_none());
        live.ok_or(Misuse::StaleHandle { handle })?.1 = Some(epochs);
        self.reclaim(&[0; 16]);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let before = self.stats().pending_bytes;
        let done = |after: &[u64; 16]| (0..).zip(after).all(|(q, e)| *e <= progress.completed(QueueId(q)));
        self.held.retain(|(_, after)| !after.as_ref().is_some_and(done));
        before - self.stats().pending_bytes
    }

    fn stats(&self) -> Stats {
        let sum =
            |live| self.held.iter().filter(|held| held.1.is_none() == live).map(|held| held.0.len).sum();
        let live_grants = self.held.iter().filter(|held| held.1.is_none()).count() as u64;
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
