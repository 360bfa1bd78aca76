//! Where memory comes from and how it ends: plain allocations, pools, physical memory to be mapped, pinned memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::device::Device;
use crate::machine::Machine;
use crate::physical::{Physical, Window};
use crate::pool::{PhysicalMemory, Pool};
use crate::space::{Charge, Owner, Range, fresh_range};

/// What virtual memory is made in, in bytes.
pub(crate) const GRANULARITY: u64 = 2 << 20;

impl Machine {
    /// Device memory of a context; its address.
    pub(crate) fn allocate(&self, context: &Context, bytes: u64, owner: Owner) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = &context.device;
        let charge = Charge::take(&device.used, bytes, device.capacity)?;
        let physical = Physical::fresh(bytes, self.settings().poison)?;
        let base = match owner {
            Owner::Managed => physical.host_address() as u64,
            _ => self.space.arena.take(bytes)?,
        };
        let range = fresh_range(base, bytes, physical, owner, self.space.fresh_id());
        self.space.add(Range {
            device: device.ordinal,
            context: context.handle,
            charge: Some(charge),
            ..range
        })?;
        Ok(base)
    }

    /// Memory of a pool.
    pub(crate) fn allocate_from(&self, context: &Context, pool: &Pool, bytes: u64) -> Answer<u64> {
        if pool.ordinal != context.device.ordinal {
            return Err(Code::INVALID_VALUE);
        }
        let address = self.allocate(context, bytes, Owner::Pool(pool.handle))?;
        pool.count(bytes);
        Ok(address)
    }

    /// Ends an allocation of `cuMemAlloc`, a pool or `cuMemAllocManaged`.
    pub(crate) fn end_allocation(&self, address: u64) -> Answer {
        let freed = self.space.remove(address, |range| {
            matches!(range.owner, Owner::Device | Owner::Pool(_) | Owner::Managed)
        })?;
        if let Owner::Pool(pool) = freed.owner
            && let Ok(pool) = self.pools.get(pool)
        {
            pool.used_bytes.fetch_sub(freed.bytes, Relaxed);
        }
        Ok(())
    }

    /// Pinned host memory; where it lies.
    pub(crate) fn allocate_host(&self, context: &Context, bytes: u64, flags: u32) -> Answer<u64> {
        if flags & !0x7 != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if bytes == 0 {
            // A driver answers success and null, as measured.
            return Ok(0);
        }
        let physical = Physical::fresh(bytes, false)?;
        let base = physical.host_address() as u64;
        let range = fresh_range(base, bytes, physical, Owner::Host(flags), self.space.fresh_id());
        self.space.add(Range { device: context.device.ordinal, context: context.handle, ..range })?;
        Ok(base)
    }

    /// Pins memory that the program has.
    pub(crate) fn register_host(&self, context: &Context, at: usize, bytes: usize, flags: u32) -> Answer {
        if flags & !0xf != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let physical = Physical::lent(at, bytes)?;
        if self.space.overlaps(at as u64, bytes as u64) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let window = Window { offset: at - physical.host_address(), bytes, physical };
        self.space.add(Range {
            base: at as u64,
            bytes: bytes as u64,
            window,
            owner: Owner::Registered(flags),
            device: context.device.ordinal,
            context: context.handle,
            accessible: true,
            charge: None,
            id: self.space.fresh_id(),
        })
    }

    /// Physical memory of a device; its handle.
    pub(crate) fn create_physical(&self, device: &Device, bytes: u64) -> Answer<u64> {
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Code::INVALID_VALUE);
        }
        let charge = Charge::take(&device.used, bytes, device.capacity)?;
        let physical = Physical::fresh(bytes, self.settings().poison)?;
        let handle = self.physicals.fresh();
        let memory = PhysicalMemory { device: device.ordinal, physical, bytes, charge };
        self.physicals.put(handle, Arc::new(memory));
        Ok(handle)
    }

    /// Maps physical memory behind reserved addresses; nothing may reach it before access is set.
    pub(crate) fn map_physical(&self, base: u64, bytes: u64, offset: u64, handle: u64) -> Answer {
        let memory = self.physicals.get(handle).map_err(|_| Code::INVALID_VALUE)?;
        let whole = [base, bytes, offset].iter().all(|number| number.is_multiple_of(GRANULARITY));
        if bytes == 0 || !whole {
            return Err(Code::INVALID_VALUE);
        }
        if offset != 0 || bytes != memory.bytes {
            // Memory is mapped as a whole or not at all, as measured.
            return Err(Code::NOT_SUPPORTED);
        }
        if !self.space.is_reserved(base, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        let window =
            Window { physical: Arc::clone(&memory.physical), offset: offset as usize, bytes: bytes as usize };
        self.space.add(Range {
            base,
            bytes,
            window,
            owner: Owner::Mapped,
            device: memory.device,
            context: 0,
            accessible: false,
            charge: Some(Arc::clone(&memory.charge)),
            id: self.space.fresh_id(),
        })
    }
}
