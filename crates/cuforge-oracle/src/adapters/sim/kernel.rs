//! A loaded kernel and the memory it shares with its context.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cuforge_core::{
    Arguments, BufferView, Compute, Constraints, ContextError, ContextErrorKind, Elapsed, ElapsedSource,
    Extent, KernelSpec, LaunchGeometry, ParameterLayout, Pins, Schedule, ViewError,
};
use cuforge_sim::{Kernel, LaunchOptions, Memory, launch};

use super::error::{SimError, bind_error, fault, memory_error, schedule_error};

/// The memory and the settings that a context shares with its kernels.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) memory: Mutex<Memory>,
    pub(super) base: u64,
    pub(super) options: LaunchOptions,
    pub(super) instructions: AtomicU64,
}

impl Device {
    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        // A launch that panicked leaves bytes behind, never broken bookkeeping.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One kernel on the simulated device.
pub(super) struct SimKernel {
    pub(super) id: String,
    pub(super) entry: Kernel,
    pub(super) layout: ParameterLayout,
    pub(super) packed: Vec<u8>,
    pub(super) spec: KernelSpec,
    pub(super) schedule: Schedule,
    pub(super) constraints: Constraints,
    pub(super) pins: Pins,
    pub(super) device: Arc<Device>,
}

impl SimKernel {
    fn geometry(&self, extent: Extent) -> Result<LaunchGeometry, ContextError> {
        let wrong = |error| schedule_error("launch", error);
        match extent {
            Extent::Elements(elements) => {
                self.schedule.geometry(elements, self.spec.shared_memory(), &self.constraints).map_err(wrong)
            }
            Extent::Geometry(geometry) => {
                if geometry.block != self.schedule.workgroup_size {
                    let error = SimError::Block {
                        kernel: self.id.clone(),
                        prepared: self.schedule.workgroup_size,
                        launched: geometry.block,
                    };
                    return Err(ContextError::new(ContextErrorKind::Misuse, "launch", error));
                }
                geometry.validate(&self.constraints).map_err(wrong)
            }
        }
    }

    fn mark(&self, memory: &mut Memory, views: &[BufferView]) -> Result<(), ContextError> {
        for view in views {
            memory
                .mark(self.device.base + view.offset(), view.len())
                .map_err(|error| memory_error("launch", error))?;
        }
        Ok(())
    }

    fn unmark(&self, memory: &mut Memory, views: &[BufferView]) {
        for view in views {
            // Only what was marked is taken away, so this cannot fail; a mark left behind would only allow more.
            let _ = memory.unmark(self.device.base + view.offset(), view.len());
        }
    }
}

impl Compute for SimKernel {
    fn dispatch(&mut self, arguments: Arguments<'_>, extent: Extent) -> Result<Elapsed, ContextError> {
        let stale = |error: ViewError| ContextError::new(ContextErrorKind::Misuse, "launch", error);
        arguments.views.iter().try_for_each(|view| self.pins.check(view)).map_err(stale)?;
        let base = self.device.base;
        let packed = self
            .layout
            .pack(&arguments, base, &mut self.packed)
            .map_err(|source| bind_error("launch", &self.spec, source))?;
        let geometry = self.geometry(extent)?;
        self.device.instructions.store(0, Ordering::Relaxed);
        let start = Instant::now();
        if !geometry.is_empty() {
            let mut memory = self.device.memory();
            self.mark(&mut memory, arguments.views)?;
            let outcome =
                launch(&self.entry, &geometry, &self.packed[..packed], &mut memory, &self.device.options);
            self.unmark(&mut memory, arguments.views);
            let report = outcome.map_err(fault)?;
            self.device.instructions.store(report.instructions, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Elapsed { nanoseconds, source: ElapsedSource::HostClock })
    }
}
