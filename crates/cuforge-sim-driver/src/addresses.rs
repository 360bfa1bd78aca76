//! Address space of the host: pages, and ranges without pages that device addresses are taken from.
//!
//! Device memory lies at addresses that the host has reserved and cannot touch: a host that follows a device address
//! crashes, as with a discrete GPU, and no host memory ever lies where device memory does.

use parking_lot::Mutex;

use crate::codes::{Answer, Code};

/// Bytes of addresses that are reserved at a time.
const ARENA_BYTES: u64 = 1 << 36;

/// What every device allocation is aligned to, as by the CUDA driver.
const ALIGN_BYTES: u64 = 512;

/// Least distance between two allocations, so that running off one never lands in another.
const GAP_BYTES: u64 = 4096;

/// Maps fresh pages, or for no protection reserves addresses without any.
pub(crate) fn map(bytes: usize, protection: i32) -> Answer<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address of the system's choice touches nothing that exists.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(at.cast()) }
}

/// Gives a mapping back.
pub(crate) fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: the mapping came from `map` with that size, and its owner gives it up here.
    let failed = unsafe { libc::munmap(at.cast(), bytes) };
    debug_assert_eq!(failed, 0, "a mapping of {bytes} bytes cannot be given back");
}

/// Addresses that are reserved and have no pages. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
}

impl Reservation {
    /// Reserves so many bytes at a multiple of `align`, a power of two.
    pub(crate) fn new(bytes: u64, align: u64) -> Answer<Self> {
        let pages = |bytes: u64| usize::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 46);
        let whole = bytes.checked_add(align).and_then(pages).ok_or(Code::OUT_OF_MEMORY)?;
        let at = map(whole, libc::PROT_NONE)?.expose_provenance() as u64;
        let base = at.next_multiple_of(align);
        // What lies before and behind goes back at once.
        let (before, behind) = (base - at, at + whole as u64 - (base + bytes));
        for (start, extra) in [(at, before), (base + bytes, behind)] {
            if extra > 0 {
                unmap(std::ptr::with_exposed_provenance_mut(start as usize), extra as usize);
            }
        }
        Ok(Self { base, bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(std::ptr::with_exposed_provenance_mut(self.base as usize), self.bytes as usize);
    }
}

/// Where plain device allocations get their addresses: each is used once, so that an access to freed memory is found.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Kept for good: an address that was device memory once never becomes the host's.
    reserved: Vec<Reservation>,
    next: u64,
    end: u64,
}

impl Arena {
    /// Addresses for so many bytes.
    pub(crate) fn take(&self, bytes: u64) -> Answer<u64> {
        let mut inner = self.inner.lock();
        let whole = bytes
            .checked_next_multiple_of(ALIGN_BYTES)
            .and_then(|bytes| bytes.checked_add(GAP_BYTES))
            .ok_or(Code::OUT_OF_MEMORY)?;
        if inner.end - inner.next < whole {
            let reservation = Reservation::new(whole.max(ARENA_BYTES).next_multiple_of(4096), 1 << 21)?;
            inner.next = reservation.base;
            inner.end = reservation.base + reservation.bytes;
            inner.reserved.push(reservation);
        }
        let base = inner.next;
        inner.next += whole;
        Ok(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_addresses_are_aligned_apart_and_never_the_same() {
        let arena = Arena::default();
        let (a, b) = (arena.take(1).unwrap(), arena.take(513).unwrap());
        let c = arena.take(ARENA_BYTES).unwrap();
        assert!(a % ALIGN_BYTES == 0 && b % ALIGN_BYTES == 0 && c % ALIGN_BYTES == 0);
        assert!(b - a >= ALIGN_BYTES + GAP_BYTES);
        assert!(c >= b + 513 || c + ARENA_BYTES <= a);
        assert!(arena.take(u64::MAX).is_err());
    }

    #[test]
    fn a_reservation_keeps_its_alignment() {
        let reservation = Reservation::new(3 << 21, 1 << 30).unwrap();
        assert_eq!(reservation.base % (1 << 30), 0);
    }
}
