//! Device memory of a slab: a reserved address range with memory mapped behind its start, or one plain allocation.

use crate::error::LaunchError;
use crate::ffi::{AccessDescription, AllocationProperties, DeviceAddress, Location};
use crate::gate::{Gate, Retired};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const PINNED: i32 = 1;
const ON_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;

/// The addresses of one slab. Dropping it retires them: kernels may still use them.
pub(crate) struct AddressRange {
    gate: Arc<Gate>,
    base: DeviceAddress,
    reserved: u64,
    mapped: u64,
    /// How many of the mapped bytes have been filled.
    filled: u64,
    /// A fill was submitted and not seen to end.
    filling: bool,
    /// Mapped chunks with their handles; `None` where the memory is one plain allocation.
    chunks: Option<Vec<(DeviceAddress, usize, u64)>>,
    granularity: u64,
}

impl AddressRange {
    /// Reserves `reserve` bytes of addresses and maps memory behind the first `bytes`.
    pub(crate) fn reserve(gate: &Arc<Gate>, bytes: u64, reserve: u64) -> Result<Self, LaunchError> {
        let _context = gate.enter()?;
        let properties = properties(gate);
        let mut granularity = 0;
        // SAFETY: the pointers are valid for what the function writes and reads.
        gate.check(unsafe { gate.api().mem_granularity(&raw mut granularity, &raw const properties, 0) }?)?;
        let granularity = granularity.max(1) as u64;
        let up = |n: u64| n.max(1).checked_next_multiple_of(granularity);
        let too_large = LaunchError::CannotGrow { bytes: reserve, mapped: 0, reserved: 0 };
        let Some(reserved) = up(reserve.max(bytes)) else { return Err(too_large) };
        let mut base = 0;
        // SAFETY: the pointer is valid for one address.
        gate.check(unsafe { gate.api().address_reserve(&raw mut base, reserved as usize, 0, 0, 0) }?)?;
        let mut range = Self {
            gate: gate.clone(),
            base,
            reserved,
            mapped: 0,
            filled: 0,
            filling: false,
            chunks: Some(Vec::new()),
            granularity,
        };
        range.map_to(bytes)?;
        Ok(range)
    }

    /// One plain allocation, for devices without virtual memory management.
    pub(crate) fn plain(gate: &Arc<Gate>, bytes: u64) -> Result<Self, LaunchError> {
        let _context = gate.enter()?;
        let mut base = 0;
        // SAFETY: the pointer is valid for one address, and the context is current.
        gate.check(unsafe { gate.api().mem_alloc(&raw mut base, bytes.max(1) as usize) })?;
        Ok(Self {
            gate: gate.clone(),
            base,
            reserved: bytes,
            mapped: bytes,
            filled: 0,
            filling: false,
            chunks: None,
            granularity: 1,
        })
    }

    pub(crate) fn base(&self) -> DeviceAddress {
        self.base
    }

    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The mapped bytes that nobody has filled yet: where, and how many.
    pub(crate) fn unfilled(&self) -> (DeviceAddress, u64) {
        (self.base + self.filled, self.mapped - self.filled)
    }

    /// What is not filled is being filled.
    pub(crate) fn set_filling(&mut self) {
        self.filling = true;
    }

    /// All that is mapped has been filled.
    pub(crate) fn set_filled(&mut self) {
        self.filled = self.mapped;
        self.filling = false;
    }

    /// Maps memory until at least `bytes` from the base are backed. Returns at once while kernels run.
    pub(crate) fn map_to(&mut self, bytes: u64) -> Result<(), LaunchError> {
        let start = self.base + self.mapped;
        if bytes <= self.mapped {
            return Ok(());
        }
        let extra = (bytes - self.mapped).checked_next_multiple_of(self.granularity);
        let refused = LaunchError::CannotGrow {
            bytes: bytes - self.mapped,
            mapped: self.mapped,
            reserved: self.reserved,
        };
        let (Some(extra), Some(chunks)) = (extra, self.chunks.as_mut()) else { return Err(refused) };
        if extra > self.reserved - self.mapped {
            return Err(refused);
        }
        let gate = &self.gate;
        let _context = gate.enter()?;
        let properties = properties(gate);
        let mut handle = 0;
        // SAFETY: the pointers are valid for what the function writes and reads.
        gate.check(unsafe {
            gate.api().mem_create(&raw mut handle, extra as usize, &raw const properties, 0)
        }?)?;
        let mapped = map_chunk(gate, start, extra, handle);
        if let Err(error) = mapped {
            // SAFETY: the handle was created above and is mapped nowhere.
            if let Ok(status) = unsafe { gate.api().mem_release(handle) } {
                gate.note_in_drop(status);
            }
            return Err(error);
        }
        chunks.push((start, extra as usize, handle));
        self.mapped += extra;
        Ok(())
    }
}

fn map_chunk(gate: &Gate, at: DeviceAddress, bytes: u64, handle: u64) -> Result<(), LaunchError> {
    // SAFETY: the bytes lie in the reserved range, behind what is mapped; the handle has as many.
    gate.check(unsafe { gate.api().mem_map(at, bytes as usize, 0, handle, 0) }?)?;
    let access = AccessDescription { location: location(gate), flags: READ_WRITE };
    // SAFETY: the bytes were mapped just now; the pointer is valid for one description.
    let allowed = gate.check(unsafe { gate.api().mem_set_access(at, bytes as usize, &raw const access, 1) }?);
    if allowed.is_err() {
        // SAFETY: nothing has used the bytes yet.
        gate.note_in_drop(unsafe { gate.api().mem_unmap(at, bytes as usize) }?);
    }
    allowed
}

fn location(gate: &Gate) -> Location {
    Location { kind: ON_DEVICE, id: gate.device() }
}

fn properties(gate: &Gate) -> AllocationProperties {
    AllocationProperties {
        kind: PINNED,
        handle_types: 0,
        location: location(gate),
        win32_meta: ptr::null_mut(),
        flags: [0; 8],
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        if self.filling {
            // No stream of the device knows of the fill, so nothing would tell when it has ended.
            tracing::warn!(
                bytes = self.mapped,
                "memory whose fill was not seen to end stays with the context"
            );
            return;
        }
        self.gate.retire(match self.chunks.take() {
            Some(chunks) => Retired::Range { address: self.base, reserved: self.reserved as usize, chunks },
            None => Retired::DeviceMemory(self.base),
        });
    }
}

impl fmt::Debug for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressRange")
            .field("mapped", &self.mapped)
            .field("reserved", &self.reserved)
            .field("virtual", &self.chunks.is_some())
            .finish_non_exhaustive()
    }
}
