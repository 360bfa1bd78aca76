//! Devices as data: who an adapter is and what it allows. Read from the device, never assumed.

use alloc::string::String;
use core::fmt;

/// An NVIDIA compute capability, such as 9.0.
///
/// ```
/// use cuforge_core::ComputeCapability;
/// let hopper = ComputeCapability { major: 9, minor: 0 };
/// assert_eq!((hopper.to_string().as_str(), hopper.sm()), ("9.0", 90));
/// assert_eq!(ComputeCapability::from_sm(103), ComputeCapability { major: 10, minor: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The part before the dot.
    pub major: u16,
    /// The part behind the dot, 0 to 9.
    pub minor: u16,
}

impl ComputeCapability {
    /// The number in `sm_90`.
    pub const fn sm(self) -> u16 {
        self.major * 10 + self.minor
    }

    /// From the number in `sm_90`.
    pub const fn from_sm(sm: u16) -> Self {
        Self { major: sm / 10, minor: sm % 10 }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The CUDA version that a driver supports, such as 13.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// The part before the dot.
    pub major: u16,
    /// The part behind the dot.
    pub minor: u16,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What kind of backend runs the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// An NVIDIA GPU through the CUDA driver.
    Cuda,
    /// The simulated CUDA device.
    Simulated,
    /// Vulkan, through wgpu.
    Vulkan,
    /// A backend from elsewhere.
    Other(&'static str),
}

/// What kind of hardware it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceType {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A CPU that plays a GPU.
    Cpu,
    /// Unknown.
    Other,
}

/// Who a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The device's name, as its driver says it.
    pub name: String,
    /// What runs kernels on it.
    pub backend: Backend,
    /// What it is.
    pub device_type: DeviceType,
    /// PCI vendor id, 0 if there is none.
    pub vendor_id: u32,
    /// PCI device id, 0 if there is none.
    pub device_id: u32,
    /// Device UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// PCI address (`domain:bus:device.function`), if it has one.
    pub pci_address: Option<String>,
    /// Name and build of the driver.
    pub driver: String,
    /// The CUDA version that the driver supports, for CUDA and simulated devices.
    pub driver_version: Option<DriverVersion>,
    /// Compute capability, for CUDA and simulated devices.
    pub compute_capability: Option<ComputeCapability>,
}

/// What a device allows. The default is the guaranteed minimum of compute capability 7.5 without opt-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraints {
    /// Threads a block.
    pub max_threads_per_block: u32,
    /// Block size in x, y, z.
    pub max_block: [u32; 3],
    /// Grid size in x, y, z.
    pub max_grid: [u32; 3],
    /// Shared memory a block, in bytes, without opt-in.
    pub max_shared_bytes: u32,
    /// Shared memory a block, in bytes, with opt-in.
    pub max_shared_bytes_opt_in: u32,
    /// Threads a warp.
    pub warp_size: u32,
    /// Blocks run side by side on so many multiprocessors; 0 if unknown.
    pub multiprocessors: u32,
    /// Bytes of kernel parameters.
    pub max_parameter_bytes: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// The longest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// Buffers start at multiples of this many bytes.
    pub min_buffer_align: u64,
    /// The last cache before device memory, in bytes; 0 if unknown.
    pub cache_bytes: u64,
    /// What device memory can deliver at most, in bytes a second; 0 if unknown.
    pub memory_bytes_per_second: u64,
    /// The multiprocessors' highest clock rate, in hertz; 0 if unknown.
    pub max_clock_hz: u64,
}

impl Default for Constraints {
    fn default() -> Self {
        Self {
            max_threads_per_block: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [2_147_483_647, 65_535, 65_535],
            max_shared_bytes: 49_152,
            max_shared_bytes_opt_in: 65_536,
            warp_size: 32,
            multiprocessors: 0,
            max_parameter_bytes: 4_096,
            memory_bytes: u64::MAX,
            max_buffer_bytes: u64::MAX,
            min_buffer_align: 256,
            cache_bytes: 0,
            memory_bytes_per_second: 0,
            max_clock_hz: 0,
        }
    }
}
