//! Views told to a driver that checks them: the simulated one finds a kernel that leaves its view or uses a released one.
//!
//! Hardware cannot tell the views of a slab apart. `cuforge-sim-driver` can, if it is told what is granted; no other driver
//! has these functions, and then nothing here does anything.

use crate::ffi::DeviceAddress;
use cuforge_core::{
    BufferView, Checkpoint, Grant, Handle, Ledger, LedgerError, LedgerLimits, Misuse, Progress, Refusal,
    Request, Rewound, Scope, Segment, SlabAllocator, Stamp, Stats,
};
use libloading::Library;
use std::ffi::{c_char, c_int};
use std::io::Write;

/// Longest name of a view, its end included.
const NAME_BYTES: usize = 128;

/// What `cuforge-sim-driver` exports for memory that is handed out in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marking {
    guard: unsafe extern "C" fn(u64, u64) -> c_int,
    mark: unsafe extern "C" fn(u64, u64, *const c_char) -> c_int,
    unmark: unsafe extern "C" fn(u64) -> c_int,
    red_zone_bytes: u64,
}

impl Marking {
    /// The functions of a driver that has them all.
    ///
    /// # Safety
    /// The library is a CUDA driver, initialised and never unloaded: these names are of the simulated one alone.
    pub(crate) unsafe fn resolve(library: &Library) -> Option<Self> {
        // SAFETY: the function of that name is declared so by the simulated driver, and stays loaded.
        let guard = *unsafe { library.get(b"cuforgeSimGuard") }.ok()?;
        // SAFETY: as above.
        let mark = *unsafe { library.get(b"cuforgeSimMark") }.ok()?;
        // SAFETY: as above.
        let unmark = *unsafe { library.get(b"cuforgeSimUnmark") }.ok()?;
        // SAFETY: as above.
        let red_zone = unsafe { library.get::<unsafe extern "C" fn() -> u64>(b"cuforgeSimRedZone") }.ok()?;
        // SAFETY: takes nothing.
        let red_zone_bytes = unsafe { red_zone() };
        Some(Self { guard, mark, unmark, red_zone_bytes })
    }
}

/// A ledger whose views a checking driver is told of.
pub(crate) struct MarkedLedger {
    ledger: Ledger,
    told: Option<Told>,
}

/// What a driver has been told.
struct Told {
    marking: &'static Marking,
    base: DeviceAddress,
    /// Views that are marked. Has room for all grants, so that telling allocates nothing.
    marked: Vec<BufferView>,
}

impl MarkedLedger {
    /// A ledger over the memory at `base`; `marking` if the driver checks.
    pub(crate) fn new(
        allocator: Box<dyn SlabAllocator + Send>,
        limits: LedgerLimits,
        base: DeviceAddress,
        marking: Option<&'static Marking>,
    ) -> Self {
        let Some(marking) = marking else {
            return Self { ledger: Ledger::new(allocator, limits), told: None };
        };
        let bytes = allocator.stats().capacity_bytes;
        let allocator: Box<dyn SlabAllocator + Send> = match marking.red_zone_bytes {
            0 => allocator,
            bytes => Box::new(Spaced { inner: allocator, bytes }),
        };
        let marked = Vec::with_capacity(limits.grants as usize);
        let told = Told { marking, base, marked };
        told.guard(bytes);
        Self { ledger: Ledger::new(allocator, limits), told: Some(told) }
    }

    /// The ledger, for what ends no grant and makes none.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    #[inline]
    pub(crate) fn acquire(&mut self, request: &Request) -> Result<BufferView, Refusal> {
        let view = self.ledger.acquire(request)?;
        if let Some(told) = &mut self.told {
            told.granted(view);
        }
        Ok(view)
    }

    #[inline]
    pub(crate) fn release(&mut self, view: BufferView) -> Result<(), LedgerError> {
        self.ledger.release(view)?;
        if let Some(told) = &mut self.told {
            told.released(&view);
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) -> Result<Rewound, LedgerError> {
        let ended = self.ledger.clear()?;
        self.sweep();
        Ok(ended)
    }

    pub(crate) fn rewind(&mut self, checkpoint: Checkpoint) -> Result<Rewound, LedgerError> {
        let ended = self.ledger.rewind(checkpoint)?;
        self.sweep();
        Ok(ended)
    }

    pub(crate) fn grow(&mut self, extra_bytes: u64) -> Result<u64, LedgerError> {
        let capacity = self.ledger.grow(extra_bytes)?;
        if let Some(told) = &self.told {
            told.guard(capacity);
        }
        Ok(capacity)
    }

    /// Takes the marks of views away whose grants have ended.
    fn sweep(&mut self) {
        if let Some(told) = &mut self.told {
            told.sweep(&self.ledger);
        }
    }
}

impl Told {
    fn guard(&self, bytes: u64) {
        // SAFETY: takes any numbers.
        let answer = unsafe { (self.marking.guard)(self.base, bytes) };
        debug_assert_eq!(answer, 0, "{bytes} bytes at {:#x} cannot be guarded", self.base);
    }

    fn granted(&mut self, view: BufferView) {
        let mut name = [0u8; NAME_BYTES];
        let (slab, offset, len) = (view.slab().number(), view.offset(), view.len());
        let text = format_args!(
            "the view of {len} bytes at offset {offset} of slab {slab} (grant {})",
            view.generation()
        );
        // The longest one there can be has 103 bytes; one that was cut would still end with its zero.
        let _ = (&mut name[..NAME_BYTES - 1]).write_fmt(text);
        // SAFETY: the name is a C string: its last byte is zero.
        let answer = unsafe { (self.marking.mark)(self.base + offset, len, name.as_ptr().cast()) };
        debug_assert_eq!(answer, 0, "{len} bytes at offset {offset} cannot be marked");
        self.marked.push(view);
    }

    fn released(&mut self, view: &BufferView) {
        let is_it = |marked: &BufferView| {
            marked.offset() == view.offset() && marked.generation() == view.generation()
        };
        // The youngest go first as a rule.
        if let Some(at) = self.marked.iter().rposition(is_it) {
            self.unmark(&self.marked[at]);
            self.marked.swap_remove(at);
        }
    }

    fn sweep(&mut self, ledger: &Ledger) {
        let mut marked = std::mem::take(&mut self.marked);
        marked.retain(|view| {
            let live = ledger.check(view).is_ok();
            if !live {
                self.unmark(view);
            }
            live
        });
        self.marked = marked;
    }

    fn unmark(&self, view: &BufferView) {
        // SAFETY: takes any number.
        let answer = unsafe { (self.marking.unmark)(self.base + view.offset()) };
        debug_assert_eq!(answer, 0, "no mark at offset {}", view.offset());
    }
}

/// An allocator that leaves bytes unused behind each grant.
struct Spaced {
    inner: Box<dyn SlabAllocator + Send>,
    bytes: u64,
}

impl Spaced {
    fn spaced(&self, request: &Request) -> Request {
        let len = if request.len == 0 { 0 } else { request.len.saturating_add(self.bytes) };
        Request { len, ..*request }
    }
}

// SAFETY: every call is forwarded to the inner allocator, which keeps the contract; a grant is the beginning of one of its
// own.
unsafe impl SlabAllocator for Spaced {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        self.inner.try_acquire(&self.spaced(request))
    }
    fn refusal(&self, request: &Request) -> Refusal {
        match self.inner.refusal(&self.spaced(request)) {
            Refusal::NeverFits { max_bytes } => {
                Refusal::NeverFits { max_bytes: max_bytes.saturating_sub(self.bytes) }
            }
            other => other,
        }
    }
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.inner.release(handle, after)
    }
    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.inner.reclaim(progress)
    }
    fn stats(&self) -> Stats {
        self.inner.stats()
    }
    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        self.inner.grow(extra_bytes)
    }
    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.inner.clear(after)
    }
    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.inner.push_scope()
    }
    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.inner.rewind(scope, after)
    }
    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        self.inner.inspect(visit)
    }
}
