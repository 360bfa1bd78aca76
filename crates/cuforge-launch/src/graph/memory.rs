//! Device memory that the driver keeps for graphs.

use crate::device::Device;
use crate::error::LaunchError;

/// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`, `.._RESERVED_MEM_CURRENT`.
const USED: i32 = 0;
const RESERVED: i32 = 2;

/// Device memory of the graphs of one device, of this process alone. Graphs of this crate allocate none: what is here
/// belongs to others, or to the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMemory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes kept for graphs.
    pub reserved: u64,
}

impl Device {
    /// What the driver keeps for graphs on this device.
    ///
    /// # Errors
    /// [`LaunchError::MissingSymbol`], [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn graph_memory(&self) -> Result<GraphMemory, LaunchError> {
        let gate = self.gate();
        let _context = gate.enter()?;
        let one = |attribute| {
            let mut value = 0;
            // SAFETY: the pointer is valid for the 64-bit value that both attributes have.
            gate.check(unsafe { gate.api().graph_memory(gate.device(), attribute, &raw mut value) }?)?;
            Ok::<u64, LaunchError>(value)
        };
        Ok(GraphMemory { used: one(USED)?, reserved: one(RESERVED)? })
    }
}
