//! What a device is and allows, read from the driver; nothing assumed.

use crate::driver::Driver;
use crate::error::LaunchError;
use crate::features::VIRTUAL_MEMORY;
use crate::ffi::{Status, code};
use cuforge_core::{Adapter, Backend, ComputeCapability, Constraints, DeviceType, DriverVersion};
use std::ffi::{CStr, c_char, c_int};
use std::fs;

const NVIDIA_VENDOR: u32 = 0x10de;

/// The CUDA version that widened kernel parameters.
const WIDE_PARAMETERS: DriverVersion = DriverVersion { major: 12, minor: 1 };

/// `CUdevice_attribute` numbers.
mod attribute {
    use std::ffi::c_int;

    pub(super) const MAX_THREADS_PER_BLOCK: c_int = 1;
    pub(super) const MAX_BLOCK: [c_int; 3] = [2, 3, 4];
    pub(super) const MAX_GRID: [c_int; 3] = [5, 6, 7];
    pub(super) const MAX_SHARED: c_int = 8;
    pub(super) const WARP_SIZE: c_int = 10;
    pub(super) const MAX_REGISTERS_PER_BLOCK: c_int = 12;
    pub(super) const CLOCK_KILOHERTZ: c_int = 13;
    pub(super) const MULTIPROCESSORS: c_int = 16;
    pub(super) const INTEGRATED: c_int = 18;
    pub(super) const MEMORY_KILOHERTZ: c_int = 36;
    pub(super) const MEMORY_BUS_BITS: c_int = 37;
    pub(super) const L2_BYTES: c_int = 38;
    pub(super) const MAX_THREADS_PER_MULTIPROCESSOR: c_int = 39;
    pub(super) const UNIFIED_ADDRESSING: c_int = 41;
    pub(super) const CAPABILITY: [c_int; 2] = [75, 76];
    pub(super) const SHARED_PER_MULTIPROCESSOR: c_int = 81;
    pub(super) const REGISTERS_PER_MULTIPROCESSOR: c_int = 82;
    pub(super) const COOPERATIVE: c_int = 95;
    pub(super) const MAX_SHARED_OPT_IN: c_int = 97;
    pub(super) const PAGEABLE_MEMORY_ACCESS: c_int = 88;
    pub(super) const CONCURRENT_MANAGED_ACCESS: c_int = 89;
    pub(super) const HOST_PAGE_TABLES: c_int = 100;
    pub(super) const VIRTUAL_MEMORY: c_int = 102;
    pub(super) const MAX_BLOCKS_PER_MULTIPROCESSOR: c_int = 106;
    pub(super) const CLUSTER: c_int = 120;
    pub(super) const STREAM_WRITE_64: c_int = 122;
}

/// What the driver tells beyond identity and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Threads that one multiprocessor runs at once.
    pub max_threads_per_multiprocessor: u32,
    /// Blocks that one multiprocessor runs at once; 0 where the driver does not tell.
    pub max_blocks_per_multiprocessor: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Registers (32 bits) of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Registers that a block may use.
    pub max_registers_per_block: u32,
    /// Level 2 cache in bytes.
    pub l2_bytes: u32,
    /// Shuffles and votes among the lanes of a warp (every capability that current drivers run has them).
    pub subgroups: bool,
    /// Tensor cores: capability 7.0 and above, but for 7.5 of the cards without them (the driver does not tell which).
    pub tensor_cores: bool,
    /// Ray-tracing cores; `None` where the driver does not tell. No CUDA driver up to 13.0 does: `CUdevice_attribute` has
    /// nothing of the kind, and capability and name do not decide (7.5 comes with and without).
    pub ray_tracing_cores: Option<bool>,
    /// Cooperative launches.
    pub cooperative_launch: bool,
    /// Clusters of blocks.
    pub cluster_launch: bool,
    /// Reserved address ranges with memory mapped behind them, device and driver both.
    pub virtual_memory: bool,
    /// Host and device share one range of addresses.
    pub unified_addressing: bool,
    /// Host and device may use managed memory at the same time.
    pub concurrent_managed_access: bool,
    /// Kernels may read ordinary host memory.
    pub pageable_memory_access: bool,
    /// The device reads ordinary host memory through the host's own page tables: one memory in hardware.
    pub host_page_tables: bool,
    /// Streams can write 64-bit words, device and driver both.
    pub stream_write_64: bool,
}

/// What was read of one device.
pub(crate) struct Properties {
    pub(crate) adapter: Adapter,
    pub(crate) constraints: Constraints,
    pub(crate) capabilities: Capabilities,
}

/// Reads everything. About forty driver calls, no context needed.
pub(crate) fn read(driver: Driver, device: c_int) -> Result<Properties, LaunchError> {
    let reader = Reader { driver, device };
    let one = |which| reader.attribute(which).map(|value| u32::try_from(value).unwrap_or(0));
    let three = |which: [c_int; 3]| Ok::<_, LaunchError>([one(which[0])?, one(which[1])?, one(which[2])?]);
    let flag = |which| one(which).map(|value| value != 0);
    let part = |which| one(which).map(|value| value as u16);
    let capability =
        ComputeCapability { major: part(attribute::CAPABILITY[0])?, minor: part(attribute::CAPABILITY[1])? };
    let memory_bytes = reader.memory_bytes()?;
    let pci_address = reader.text(16, |out, len| {
        // SAFETY: `out` is valid for `len` bytes.
        unsafe { driver.table().device_get_pci_bus_id(out, len, device) }
    })?;
    let adapter = Adapter {
        name: reader.text(256, |out, len| {
            // SAFETY: `out` is valid for `len` bytes.
            unsafe { driver.table().device_get_name(out, len, device) }
        })?,
        backend: Backend::Cuda,
        device_type: if flag(attribute::INTEGRATED)? { DeviceType::Integrated } else { DeviceType::Discrete },
        vendor_id: NVIDIA_VENDOR,
        device_id: pci_device_id(&pci_address).unwrap_or(0),
        uuid: Some(reader.uuid()?),
        pci_address: Some(pci_address),
        driver: match driver.build() {
            Some(build) => format!("NVIDIA {build} ({})", driver.library().display()),
            None => format!("NVIDIA ({})", driver.library().display()),
        },
        driver_version: Some(driver.version()),
        compute_capability: Some(capability),
    };
    let constraints = Constraints {
        max_threads_per_block: one(attribute::MAX_THREADS_PER_BLOCK)?,
        max_block: three(attribute::MAX_BLOCK)?,
        max_grid: three(attribute::MAX_GRID)?,
        max_shared_bytes: one(attribute::MAX_SHARED)?,
        max_shared_bytes_opt_in: one(attribute::MAX_SHARED_OPT_IN)?,
        warp_size: one(attribute::WARP_SIZE)?,
        multiprocessors: one(attribute::MULTIPROCESSORS)?,
        // CUDA 12.1 raised the limit from 4,096 to 32,764 bytes for capability 7.0 and above (programming guide,
        // "__global__ function parameters").
        max_parameter_bytes: if capability.major >= 7 && driver.version() >= WIDE_PARAMETERS {
            32_764
        } else {
            4_096
        },
        memory_bytes,
        max_buffer_bytes: memory_bytes,
        min_buffer_align: 256,
        cache_bytes: one(attribute::L2_BYTES)?.into(),
        memory_bytes_per_second: reader.memory_bytes_per_second(),
        max_clock_hz: reader.told(attribute::CLOCK_KILOHERTZ) * 1000,
    };
    let capabilities = Capabilities {
        max_threads_per_multiprocessor: one(attribute::MAX_THREADS_PER_MULTIPROCESSOR)?,
        max_blocks_per_multiprocessor: one(attribute::MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        shared_bytes_per_multiprocessor: one(attribute::SHARED_PER_MULTIPROCESSOR)?,
        registers_per_multiprocessor: one(attribute::REGISTERS_PER_MULTIPROCESSOR)?,
        max_registers_per_block: one(attribute::MAX_REGISTERS_PER_BLOCK)?,
        l2_bytes: one(attribute::L2_BYTES)?,
        subgroups: true,
        tensor_cores: capability.major >= 7,
        ray_tracing_cores: None,
        cooperative_launch: flag(attribute::COOPERATIVE)?,
        cluster_launch: flag(attribute::CLUSTER)?,
        virtual_memory: flag(attribute::VIRTUAL_MEMORY)? && driver.table().has(VIRTUAL_MEMORY),
        unified_addressing: flag(attribute::UNIFIED_ADDRESSING)?,
        concurrent_managed_access: flag(attribute::CONCURRENT_MANAGED_ACCESS)?,
        pageable_memory_access: flag(attribute::PAGEABLE_MEMORY_ACCESS)?,
        host_page_tables: flag(attribute::HOST_PAGE_TABLES)?,
        stream_write_64: flag(attribute::STREAM_WRITE_64)? && driver.table().has_stream_write_value(),
    };
    Ok(Properties { adapter, constraints, capabilities })
}

struct Reader {
    driver: Driver,
    device: c_int,
}

impl Reader {
    /// An attribute; 0 for one that this driver does not know.
    fn attribute(&self, which: c_int) -> Result<c_int, LaunchError> {
        let mut value: c_int = 0;
        // SAFETY: the pointer is valid for a c_int.
        let status = unsafe { self.driver.table().device_get_attribute(&raw mut value, which, self.device) };
        if status.code == code::INVALID_VALUE {
            return Ok(0);
        }
        self.driver.judge(status).map(|()| value)
    }

    fn memory_bytes(&self) -> Result<u64, LaunchError> {
        let mut bytes = 0;
        // SAFETY: the pointer is valid for a usize.
        let status = unsafe { self.driver.table().device_total_mem(&raw mut bytes, self.device) };
        self.driver.judge(status).map(|()| bytes as u64)
    }

    /// Two transfers a clock over the whole bus; 0 where the driver does not tell.
    fn memory_bytes_per_second(&self) -> u64 {
        self.told(attribute::MEMORY_KILOHERTZ) * 1000 * 2 * self.told(attribute::MEMORY_BUS_BITS) / 8
    }

    /// An attribute that is only there to judge times by: it must not keep a device from being opened.
    fn told(&self, which: c_int) -> u64 {
        self.attribute(which).ok().and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    fn uuid(&self) -> Result<[u8; 16], LaunchError> {
        let mut uuid = [0; 16];
        // SAFETY: the pointer is valid for 16 bytes.
        let status = unsafe { self.driver.table().device_get_uuid(&raw mut uuid, self.device) };
        self.driver.judge(status).map(|()| uuid)
    }

    fn text(
        &self,
        room: usize,
        ask: impl FnOnce(*mut c_char, c_int) -> Status,
    ) -> Result<String, LaunchError> {
        let mut bytes = vec![0u8; room];
        self.driver.judge(ask(bytes.as_mut_ptr().cast(), room as c_int))?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

/// The PCI device id, which CUDA does not tell but the system may.
fn pci_device_id(address: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/sys/bus/pci/devices/{}/device", address.to_lowercase())).ok()?;
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}
