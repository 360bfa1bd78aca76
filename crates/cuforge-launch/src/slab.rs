//! The slab: device memory behind a ledger, any allocator in front, fresh bytes zeroed, grown without moving.

use crate::device::Device;
use crate::error::LaunchError;
use crate::ffi::DeviceAddress;
use crate::host_room::host_room;
use crate::marking::MarkedLedger;
use crate::range::AddressRange;
use crate::ranges::range;
use crate::raw_stream::OwnStream;
use crate::stream::Stream;
use cuforge_core::{
    BufferView, Checkpoint, LedgerLimits, MAX_QUEUES, Pins, Refusal, Request, Rewound, SlabAllocator, SlabId,
    Stats,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// How a slab is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabOptions {
    /// Bytes of addresses to reserve, so that the slab can grow to them without moving. Addresses cost nothing.
    /// Default: as much as the device has memory.
    pub reserve_bytes: Option<u64>,
    /// Grants that can be live at once, at most 2^24. Default 16,384; the ledger's table takes 152 bytes of host memory
    /// for each.
    pub grants: u32,
    /// What fresh bytes hold instead of zero, to make reads of what nobody wrote show. Default none.
    pub poison: Option<u8>,
}

/// Most grants of a slab: 2.4 GiB of tables on the host.
const MOST_GRANTS: u32 = 1 << 24;

/// Bytes of the ledger's tables for one grant.
const GRANT_BYTES: usize = 152;

impl Default for SlabOptions {
    fn default() -> Self {
        Self { reserve_bytes: None, grants: 16_384, poison: None }
    }
}

/// A slab of device memory. `Clone` (a reference count), `Send`, `Sync`; calls that allocate or release take a lock of
/// their own for nanoseconds, and nothing else does.
///
/// Its capacity is the allocator's; bytes that no grant has held yet read as zero (or as the poison asked for).
/// Recycled bytes hold what their last tenant left. Dropping the last clone frees nothing at once: kernels may still
/// run. [`Device::collect`] and [`Device::close`] do.
#[derive(Clone)]
pub struct Slab {
    shared: Arc<SlabShared>,
}

struct SlabShared {
    device: Device,
    base: DeviceAddress,
    range: Mutex<AddressRange>,
    ledger: Mutex<MarkedLedger>,
    pins: Pins,
    id: SlabId,
    poison: Option<u8>,
}

impl SlabShared {
    /// Learns of dropped streams that could not mark their end. A failure is a lost device, which every call tells.
    fn rouse(&self) {
        let device = &self.device;
        if let Err(error) = device.queues().rouse(device.gate(), device.timeline()) {
            tracing::debug!(%error, "dropped streams were not asked how far they are");
        }
    }
}

impl Slab {
    /// A slab of the allocator's capacity, its fresh bytes filled. Waits for the fill, on a stream of its own that takes
    /// none of the device's queue numbers.
    ///
    /// # Errors
    /// [`LaunchError::Driver`] (out of memory), [`LaunchError::DeviceLost`]; [`LaunchError::TooMany`] and
    /// [`LaunchError::HostMemory`] for `grants`.
    pub fn new(
        device: &Device,
        allocator: Box<dyn SlabAllocator + Send>,
        options: SlabOptions,
    ) -> Result<Self, LaunchError> {
        if options.grants > MOST_GRANTS {
            let (asked, most) = (options.grants.into(), MOST_GRANTS.into());
            return Err(LaunchError::TooMany { what: "grants of a slab", asked, most });
        }
        // The ledger takes what it needs without a question, so it is asked for here.
        drop(host_room::<u8>("the tables of a ledger", options.grants as usize * GRANT_BYTES)?);
        let bytes = allocator.stats().capacity_bytes;
        let mut range = if device.capabilities().virtual_memory {
            let reserve = options.reserve_bytes.unwrap_or(device.constraints().memory_bytes);
            AddressRange::reserve(device.gate(), bytes, reserve)?
        } else {
            AddressRange::plain(device.gate(), bytes)?
        };
        fill(device, &mut range, options.poison)?;
        let limits = LedgerLimits { grants: options.grants, queues: MAX_QUEUES as u32 };
        let mut marked = MarkedLedger::new(allocator, limits, range.base(), device.driver().marking());
        let ledger = marked.ledger();
        for _ in 0..MAX_QUEUES {
            ledger.register_queue()?;
        }
        let shared = SlabShared {
            device: device.clone(),
            base: range.base(),
            range: Mutex::new(range),
            pins: ledger.pins(),
            id: ledger.slab(),
            ledger: Mutex::new(marked),
            poison: options.poison,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The identity that this slab's views carry.
    pub fn id(&self) -> SlabId {
        self.shared.id
    }

    /// Bytes for `request`. If the allocator is full, what has completed is reclaimed once; never waits.
    ///
    /// # Errors
    /// [`LaunchError::Refused`], [`LaunchError::DeviceLost`].
    pub fn acquire(&self, request: &Request) -> Result<BufferView, LaunchError> {
        self.device().gate().alive()?;
        let mut ledger = self.shared.ledger.lock();
        match ledger.acquire(request) {
            Err(Refusal::Full { .. }) => {
                self.shared.rouse();
                ledger.ledger().reclaim(&**self.device().timeline());
                let again = ledger.acquire(request);
                if let Err(Refusal::Full { oldest: Some(stamp), .. }) = again {
                    // Its stream seals with its next submission, so that a later request can succeed.
                    self.device().gate().ask_for_seal(stamp.queue.0 as usize);
                }
                Ok(again?)
            }
            other => Ok(other?),
        }
    }

    /// As [`acquire`](Self::acquire), but waits for memory that is pending on `streams`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), when nothing that these streams could complete would help.
    pub fn acquire_waiting(
        &self,
        streams: &mut [&mut Stream],
        request: &Request,
    ) -> Result<BufferView, LaunchError> {
        for stream in &*streams {
            stream.same_device(self.device())?;
        }
        let mut drained = 0;
        loop {
            let refused = match self.acquire(request) {
                Err(LaunchError::Refused(refused)) => refused,
                other => return other,
            };
            let Refusal::Full { oldest: Some(stamp), .. } = refused else { return Err(refused.into()) };
            let open = !stamp.is_complete(&**self.device().timeline());
            match streams.iter_mut().find(|stream| open && stream.queue() == stamp.queue) {
                Some(stream) => {
                    stream.seal()?;
                    stream.wait_epoch(stamp.epoch)?;
                }
                // The stamp that is named has completed, and the bytes wait for another one besides: of any stream.
                None => {
                    let Some(stream) = streams.get_mut(drained) else { return Err(refused.into()) };
                    let epoch = stream.seal()?;
                    stream.wait_epoch(epoch)?;
                    drained += 1;
                }
            }
        }
    }

    /// Releases a whole grant; its bytes stay pending until the work that uses them has completed.
    ///
    /// # Errors
    /// [`LaunchError::View`], [`LaunchError::Ledger`] (pinned by a bound launch or a graph, a slice).
    pub fn release(&self, view: BufferView) -> Result<(), LaunchError> {
        Ok(self.shared.ledger.lock().release(view)?)
    }

    /// Ends every grant that is not resident.
    ///
    /// # Errors
    /// [`LaunchError::Ledger`]: pinned grants, or an allocator that does not do that.
    pub fn clear(&self) -> Result<Rewound, LaunchError> {
        Ok(self.shared.ledger.lock().clear()?)
    }

    /// A point to [`restore`](Self::restore).
    ///
    /// # Errors
    /// [`LaunchError::Ledger`] with `Unsupported` from an allocator without scopes.
    pub fn checkpoint(&self) -> Result<Checkpoint, LaunchError> {
        Ok(self.shared.ledger.lock().ledger().push_scope()?)
    }

    /// Ends every grant that is not resident and was acquired since `checkpoint`.
    ///
    /// # Errors
    /// [`LaunchError::Ledger`].
    pub fn restore(&self, checkpoint: Checkpoint) -> Result<Rewound, LaunchError> {
        Ok(self.shared.ledger.lock().rewind(checkpoint)?)
    }

    /// Frees released bytes whose work has completed; how many. Never waits.
    pub fn reclaim(&self) -> u64 {
        self.shared.rouse();
        self.shared.ledger.lock().ledger().reclaim(&**self.device().timeline())
    }

    /// The allocator's counters.
    pub fn stats(&self) -> Stats {
        self.shared.ledger.lock().ledger().stats()
    }

    /// Maps `extra_bytes` more behind the slab and tells the allocator; the new capacity. Nothing moves, and running
    /// kernels are not waited for; the fill of the new bytes is.
    ///
    /// # Errors
    /// [`LaunchError::CannotGrow`], [`LaunchError::Ledger`] from an allocator that cannot grow,
    /// [`LaunchError::Driver`] (out of memory).
    pub fn grow(&self, extra_bytes: u64) -> Result<u64, LaunchError> {
        range!("grow slab");
        self.device().gate().alive()?;
        let mut range = self.shared.range.lock();
        let capacity = self.shared.ledger.lock().ledger().stats().capacity_bytes;
        let cannot = LaunchError::CannotGrow {
            bytes: extra_bytes,
            mapped: range.mapped(),
            reserved: range.reserved(),
        };
        let Some(wanted) = capacity.checked_add(extra_bytes) else { return Err(cannot) };
        // Bytes that were mapped before, for a fill that failed or an allocator that refused, serve the next attempt.
        range.map_to(wanted)?;
        fill(self.device(), &mut range, self.shared.poison)?;
        Ok(self.shared.ledger.lock().grow(extra_bytes)?)
    }

    /// The device address of a live view.
    ///
    /// # Errors
    /// [`LaunchError::View`].
    pub fn address_of(&self, view: &BufferView) -> Result<u64, LaunchError> {
        self.shared.pins.check(view)?;
        Ok(self.shared.base + view.offset())
    }

    #[inline]
    pub(crate) fn base(&self) -> DeviceAddress {
        self.shared.base
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.shared.pins
    }

    /// Notes that work about to be submitted to `on` uses the view, whose address is returned. Until that epoch has
    /// completed the bytes go to nobody else, whatever happens to the grant.
    pub(crate) fn use_on(&self, on: &mut Stream, view: &BufferView) -> Result<DeviceAddress, LaunchError> {
        let lease = self.shared.pins.pin(view)?;
        lease.mark_use(on.stamp())?;
        Ok(self.shared.base + view.offset())
    }

    /// As [`use_on`](Self::use_on) for `work` that may seal epochs between its submissions: all that it went on in are
    /// noted, and meanwhile the view is pinned, because a release would know of the first alone.
    pub(crate) fn use_over(
        &self,
        on: &mut Stream,
        view: &BufferView,
        work: impl FnOnce(&mut Stream, DeviceAddress) -> Result<(), LaunchError>,
    ) -> Result<(), LaunchError> {
        let lease = self.shared.pins.pin(view)?;
        let first = on.open_epoch();
        lease.mark_use(on.stamp())?;
        let outcome = work(on, self.shared.base + view.offset());
        if on.open_epoch() != first {
            lease.mark_use(on.last_stamp())?;
        }
        outcome
    }
}

/// Fills what is fresh of the memory, and waits for that alone.
fn fill(device: &Device, range: &mut AddressRange, poison: Option<u8>) -> Result<(), LaunchError> {
    let (at, bytes) = range.unfilled();
    if bytes == 0 {
        return Ok(());
    }
    let gate = device.gate();
    let stream = OwnStream::new(gate, 0)?;
    // SAFETY: the bytes were mapped just now and nobody knows of them yet; the range stays mapped until it is known that
    // they are filled.
    gate.check(unsafe { gate.api().memset_d8_async(at, poison.unwrap_or(0), bytes as usize, stream.raw()) })?;
    range.set_filling();
    stream.wait()?;
    range.set_filled();
    Ok(())
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("id", &self.id()).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
