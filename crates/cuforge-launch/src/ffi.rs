//! The function table: every driver function that this crate calls, resolved by name, answering integer codes.
//!
//! Signatures follow `cuda.h` of CUDA 12.0 to 13.0. Codes are plain integers because a Rust enum that does not list
//! a newer driver's code would be undefined behaviour.

use crate::error::LaunchError;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

/// `CUcontext`.
pub(crate) type RawContext = *mut c_void;
/// `CUstream`.
pub(crate) type RawStream = *mut c_void;
/// `CUevent`.
pub(crate) type RawEvent = *mut c_void;
/// `CUmodule`.
pub(crate) type RawModule = *mut c_void;
/// `CUfunction`.
pub(crate) type RawFunction = *mut c_void;
/// `CUgraph`.
pub(crate) type RawGraph = *mut c_void;
/// `CUgraphNode`.
pub(crate) type RawGraphNode = *mut c_void;
/// `CUgraphExec`.
pub(crate) type RawGraphExec = *mut c_void;
/// `CUdeviceptr`.
pub(crate) type DeviceAddress = u64;

/// What a driver function answered.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Status {
    pub(crate) call: &'static str,
    pub(crate) code: i32,
}

impl Status {
    /// Whether this is an answer after which `cuda.h` says that the process must end: the context is inconsistent, or
    /// gone.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(self.code, 214 | 220 | 226 | 227 | 700 | 702 | 708..=710 | 714..=719)
    }
}

/// Codes that this crate decides on.
pub(crate) mod code {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const INVALID_VALUE: i32 = 1;
    pub(crate) const DEINITIALIZED: i32 = 4;
    pub(crate) const STUB_LIBRARY: i32 = 34;
    pub(crate) const NO_DEVICE: i32 = 100;
    pub(crate) const NOT_FOUND: i32 = 500;
    pub(crate) const NOT_READY: i32 = 600;
    pub(crate) const CAPTURE_UNSUPPORTED: i32 = 900;
    pub(crate) const CAPTURE_INVALIDATED: i32 = 901;
}

/// `CUmemLocation`: a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location: Location,
    pub(crate) win32_meta: *mut c_void,
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AccessDescription {
    pub(crate) location: Location,
    pub(crate) flags: c_int,
}

/// `CUlaunchAttribute`: an id and 64 bytes of value.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_uint,
    pub(crate) pad: [u8; 4],
    pub(crate) value: [u32; 16],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: RawStream,
    pub(crate) attributes: *mut LaunchAttribute,
    pub(crate) attribute_count: c_uint,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KernelNodeParams {
    pub(crate) function: RawFunction,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) parameters: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    /// `CUkernel`, looked at only where there is no function.
    pub(crate) kernel: *mut c_void,
    /// Looked at only where there is no function.
    pub(crate) context: RawContext,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemsetNodeParams {
    pub(crate) to: DeviceAddress,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_bytes: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One end of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyEnd {
    pub(crate) position: [usize; 4],
    pub(crate) memory: c_uint,
    pub(crate) host: *const c_void,
    pub(crate) device: DeviceAddress,
    pub(crate) array: *mut c_void,
    pub(crate) reserved: *mut c_void,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyNodeParams {
    pub(crate) from: CopyEnd,
    pub(crate) to: CopyEnd,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUgraphEdgeData`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeData {
    pub(crate) from_port: u8,
    pub(crate) to_port: u8,
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 5],
}

/// `CUgraphNodeParams` of a conditional node: 256 bytes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ConditionalNodeParams {
    pub(crate) kind: c_int,
    pub(crate) reserved: [c_int; 3],
    pub(crate) handle: u64,
    pub(crate) condition: c_int,
    pub(crate) size: c_uint,
    pub(crate) bodies: *mut RawGraph,
    pub(crate) context: RawContext,
    pub(crate) rest: [u64; 25],
    pub(crate) reserved_end: u64,
}

const _: () = assert!(size_of::<ConditionalNodeParams>() == 256 && size_of::<CopyNodeParams>() == 200);
const _: () = assert!(size_of::<KernelNodeParams>() == 72 && size_of::<MemsetNodeParams>() == 40);

/// The `extra` array of a launch that names its packed arguments: buffer pointer (1), buffer size (2), end (0).
#[inline]
pub(crate) fn extra(packed: &[u8], bytes: &mut usize) -> [*mut c_void; 5] {
    let mark = std::ptr::without_provenance_mut;
    let (buffer, size) = (packed.as_ptr().cast_mut().cast(), std::ptr::from_mut(bytes).cast());
    [mark(1), buffer, mark(2), size, mark(0)]
}

/// Makes a call and pairs its answer with its name; test builds note both where a hung process can be read.
#[inline]
fn told(call: &'static str, make: impl FnOnce() -> c_int) -> Status {
    #[cfg(feature = "breadcrumbs")]
    crate::breadcrumb::before(call);
    let status = Status { call, code: make() };
    #[cfg(feature = "breadcrumbs")]
    crate::breadcrumb::after(call, status.code, status.is_sticky());
    status
}

macro_rules! table {
    (
        required { $($name:ident = $first:literal $(| $older:literal)* ($($arg:ident: $kind:ty),*);)* }
        optional { $($rare:ident = $symbol:literal since $since:literal ($($rare_arg:ident: $rare_kind:ty),*);)* }
    ) => {
        /// The resolved functions. A required one is there or the table is not; a rare one is asked for each time.
        pub(crate) struct Table {
            $($name: unsafe extern "system" fn($($kind),*) -> c_int,)*
            $($rare: Option<unsafe extern "system" fn($($rare_kind),*) -> c_int>,)*
            path: std::path::PathBuf,
        }

        impl Table {
            /// Resolves every function of `library`, trying a newer name before older ones.
            ///
            /// # Safety
            /// `library` is a CUDA driver and stays loaded as long as the table is used.
            pub(crate) unsafe fn resolve(library: &libloading::Library, path: &Path) -> Result<Self, LaunchError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the caller promises a CUDA driver, whose functions of these names have these
                        // signatures (`cuda.h`, CUDA 12.0 to 13.0).
                        let newest = unsafe { library.get($first.as_bytes()) };
                        // SAFETY: as above.
                        let found = newest $(.or_else(|_| unsafe { library.get($older.as_bytes()) }))*;
                        *found.map_err(|_| LaunchError::MissingSymbol {
                            symbol: $first,
                            since: "12.0",
                            library: path.to_path_buf(),
                            required: true,
                        })?
                    },)*
                    $($rare: {
                        // SAFETY: as above.
                        unsafe { library.get($symbol.as_bytes()) }.ok().map(|found| *found)
                    },)*
                    path: path.to_path_buf(),
                })
            }

            /// Whether launches can carry attributes.
            pub(crate) fn has_launch_kernel_ex(&self) -> bool {
                self.launch_kernel_ex.is_some()
            }

            /// Whether streams can write words.
            pub(crate) fn has_stream_write_value(&self) -> bool {
                self.stream_write_value.is_some()
            }

            /// The error of a function that this driver lacks.
            pub(crate) fn missing(&self, symbol: &str) -> Option<LaunchError> {
                let (symbol, since) = match symbol {
                    $($symbol if self.$rare.is_none() => ($symbol, $since),)*
                    _ => return None,
                };
                let library = self.path.clone();
                Some(LaunchError::MissingSymbol { symbol, since, library, required: false })
            }

            /// Every name in the table.
            pub(crate) const NAMES: &[&str] = &[$($first,)* $($symbol,)*];

            $(
                /// The driver function of that name.
                ///
                /// # Safety
                /// As `cuda.h` says of it: handles alive, pointers valid for what the function reads and writes.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
                pub(crate) unsafe fn $name(&self, $($arg: $kind),*) -> Status {
                    // SAFETY: the caller keeps the function's own contract.
                    told($first, || unsafe { (self.$name)($($arg),*) })
                }
            )*
            $(
                /// The driver function of that name, if this driver has it.
                ///
                /// # Safety
                /// As `cuda.h` says of it: handles alive, pointers valid for what the function reads and writes.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
                pub(crate) unsafe fn $rare(&self, $($rare_arg: $rare_kind),*) -> Result<Status, LaunchError> {
                    let Some(function) = self.$rare else {
                        return Err(LaunchError::MissingSymbol {
                            symbol: $symbol,
                            since: $since,
                            library: self.path.clone(),
                            required: false,
                        });
                    };
                    // SAFETY: the caller keeps the function's own contract.
                    Ok(told($symbol, || unsafe { function($($rare_arg),*) }))
                }
            )*
        }
    };
}

table! {
    required {
        init = "cuInit" (flags: c_uint);
        driver_get_version = "cuDriverGetVersion" (version: *mut c_int);
        get_error_name = "cuGetErrorName" (code: c_int, name: *mut *const c_char);
        get_error_string = "cuGetErrorString" (code: c_int, text: *mut *const c_char);
        device_get_count = "cuDeviceGetCount" (count: *mut c_int);
        device_get = "cuDeviceGet" (device: *mut c_int, ordinal: c_int);
        device_get_name = "cuDeviceGetName" (name: *mut c_char, len: c_int, device: c_int);
        device_get_uuid = "cuDeviceGetUuid_v2" | "cuDeviceGetUuid" (uuid: *mut [u8; 16], device: c_int);
        device_total_mem = "cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
        device_get_attribute = "cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
        device_get_pci_bus_id = "cuDeviceGetPCIBusId" (text: *mut c_char, len: c_int, device: c_int);
        primary_retain = "cuDevicePrimaryCtxRetain" (context: *mut RawContext, device: c_int);
        primary_release = "cuDevicePrimaryCtxRelease_v2" | "cuDevicePrimaryCtxRelease" (device: c_int);
        ctx_push = "cuCtxPushCurrent_v2" (context: RawContext);
        ctx_pop = "cuCtxPopCurrent_v2" (context: *mut RawContext);
        ctx_synchronize = "cuCtxSynchronize" ();
        ctx_priority_range = "cuCtxGetStreamPriorityRange" (least: *mut c_int, greatest: *mut c_int);
        mem_get_info = "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
        mem_alloc = "cuMemAlloc_v2" (address: *mut DeviceAddress, bytes: usize);
        mem_free = "cuMemFree_v2" (address: DeviceAddress);
        host_alloc = "cuMemHostAlloc" (pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        host_free = "cuMemFreeHost" (pointer: *mut c_void);
        host_device_pointer = "cuMemHostGetDevicePointer_v2" (address: *mut DeviceAddress, pointer: *mut c_void, flags: c_uint);
        memset_d8_async = "cuMemsetD8Async" (address: DeviceAddress, value: u8, bytes: usize, stream: RawStream);
        copy_to_device = "cuMemcpyHtoDAsync_v2" (to: DeviceAddress, from: *const c_void, bytes: usize, stream: RawStream);
        copy_to_host = "cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: DeviceAddress, bytes: usize, stream: RawStream);
        copy_on_device = "cuMemcpyDtoDAsync_v2" (to: DeviceAddress, from: DeviceAddress, bytes: usize, stream: RawStream);
        stream_create = "cuStreamCreateWithPriority" (stream: *mut RawStream, flags: c_uint, priority: c_int);
        stream_destroy = "cuStreamDestroy_v2" (stream: RawStream);
        stream_synchronize = "cuStreamSynchronize" (stream: RawStream);
        stream_query = "cuStreamQuery" (stream: RawStream);
        stream_wait_event = "cuStreamWaitEvent" (stream: RawStream, event: RawEvent, flags: c_uint);
        event_create = "cuEventCreate" (event: *mut RawEvent, flags: c_uint);
        event_destroy = "cuEventDestroy_v2" (event: RawEvent);
        event_record = "cuEventRecord" (event: RawEvent, stream: RawStream);
        event_query = "cuEventQuery" (event: RawEvent);
        event_synchronize = "cuEventSynchronize" (event: RawEvent);
        event_elapsed = "cuEventElapsedTime" (milliseconds: *mut f32, start: RawEvent, end: RawEvent);
        module_load = "cuModuleLoadDataEx" (module: *mut RawModule, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut *mut c_void);
        module_unload = "cuModuleUnload" (module: RawModule);
        module_get_function = "cuModuleGetFunction" (function: *mut RawFunction, module: RawModule, name: *const c_char);
        func_get_attribute = "cuFuncGetAttribute" (value: *mut c_int, attribute: c_int, function: RawFunction);
        func_set_attribute = "cuFuncSetAttribute" (function: RawFunction, attribute: c_int, value: c_int);
        launch_kernel = "cuLaunchKernel" (function: RawFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: RawStream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        occupancy_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor" (blocks: *mut c_int, function: RawFunction, threads: c_int, shared_bytes: usize);
    }
    optional {
        address_reserve = "cuMemAddressReserve" since "10.2" (address: *mut DeviceAddress, bytes: usize, align: usize, hint: DeviceAddress, flags: u64);
        address_free = "cuMemAddressFree" since "10.2" (address: DeviceAddress, bytes: usize);
        mem_create = "cuMemCreate" since "10.2" (handle: *mut u64, bytes: usize, properties: *const AllocationProperties, flags: u64);
        mem_release = "cuMemRelease" since "10.2" (handle: u64);
        mem_map = "cuMemMap" since "10.2" (address: DeviceAddress, bytes: usize, offset: usize, handle: u64, flags: u64);
        mem_unmap = "cuMemUnmap" since "10.2" (address: DeviceAddress, bytes: usize);
        mem_set_access = "cuMemSetAccess" since "10.2" (address: DeviceAddress, bytes: usize, description: *const AccessDescription, count: usize);
        mem_granularity = "cuMemGetAllocationGranularity" since "10.2" (bytes: *mut usize, properties: *const AllocationProperties, option: c_int);
        stream_write_value = "cuStreamWriteValue64_v2" since "11.7" (stream: RawStream, address: DeviceAddress, value: u64, flags: c_uint);
        thread_capture_mode = "cuThreadExchangeStreamCaptureMode" since "10.1" (mode: *mut c_int);
        graph_create = "cuGraphCreate" since "10.0" (graph: *mut RawGraph, flags: c_uint);
        graph_destroy = "cuGraphDestroy" since "10.0" (graph: RawGraph);
        graph_add_kernel = "cuGraphAddKernelNode_v2" since "12.0" (node: *mut RawGraphNode, graph: RawGraph, dependencies: *const RawGraphNode, count: usize, params: *const KernelNodeParams);
        graph_instantiate = "cuGraphInstantiateWithFlags" since "11.4" (exec: *mut RawGraphExec, graph: RawGraph, flags: u64);
        graph_launch = "cuGraphLaunch" since "10.0" (exec: RawGraphExec, stream: RawStream);
        graph_exec_destroy = "cuGraphExecDestroy" since "10.0" (exec: RawGraphExec);
        graph_exec_set_kernel = "cuGraphExecKernelNodeSetParams_v2" since "12.0" (exec: RawGraphExec, node: RawGraphNode, params: *const KernelNodeParams);
        func_load = "cuFuncLoad" since "12.4" (function: RawFunction);
        func_get_param_info = "cuFuncGetParamInfo" since "12.4" (function: RawFunction, index: usize, offset: *mut usize, bytes: *mut usize);
        launch_kernel_ex = "cuLaunchKernelEx" since "11.8" (config: *const LaunchConfig, function: RawFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        occupancy_clusters = "cuOccupancyMaxActiveClusters" since "11.8" (clusters: *mut c_int, function: RawFunction, config: *const LaunchConfig);
        ctx_current = "cuCtxGetCurrent" since "4.0" (context: *mut RawContext);
        stream_flags = "cuStreamGetFlags" since "5.5" (stream: RawStream, flags: *mut c_uint);
        stream_priority = "cuStreamGetPriority" since "5.5" (stream: RawStream, priority: *mut c_int);
        event_record_with_flags = "cuEventRecordWithFlags" since "11.1" (event: RawEvent, stream: RawStream, flags: c_uint);
        capture_begin = "cuStreamBeginCapture_v2" since "10.1" (stream: RawStream, mode: c_int);
        capture_end = "cuStreamEndCapture" since "10.0" (stream: RawStream, graph: *mut RawGraph);
        capture_info_v3 = "cuStreamGetCaptureInfo_v3" since "12.3" (stream: RawStream, status: *mut c_int, id: *mut u64, graph: *mut RawGraph, dependencies: *mut *const RawGraphNode, data: *mut *const EdgeData, count: *mut usize);
        capture_info = "cuStreamGetCaptureInfo_v2" since "11.3" (stream: RawStream, status: *mut c_int, id: *mut u64, graph: *mut RawGraph, dependencies: *mut *const RawGraphNode, count: *mut usize);
        capture_set_dependencies_v2 = "cuStreamUpdateCaptureDependencies_v2" since "12.3" (stream: RawStream, dependencies: *mut RawGraphNode, data: *const EdgeData, count: usize, flags: c_uint);
        capture_set_dependencies = "cuStreamUpdateCaptureDependencies" since "11.3" (stream: RawStream, dependencies: *mut RawGraphNode, count: usize, flags: c_uint);
        graph_upload = "cuGraphUpload" since "11.1" (exec: RawGraphExec, stream: RawStream);
        graph_nodes = "cuGraphGetNodes" since "10.0" (graph: RawGraph, nodes: *mut RawGraphNode, count: *mut usize);
        graph_edges_v2 = "cuGraphGetEdges_v2" since "12.3" (graph: RawGraph, from: *mut RawGraphNode, to: *mut RawGraphNode, data: *mut EdgeData, count: *mut usize);
        graph_edges = "cuGraphGetEdges" since "10.0" (graph: RawGraph, from: *mut RawGraphNode, to: *mut RawGraphNode, count: *mut usize);
        graph_node_type = "cuGraphNodeGetType" since "10.0" (node: RawGraphNode, kind: *mut c_int);
        graph_add_child = "cuGraphAddChildGraphNode" since "10.0" (node: *mut RawGraphNode, graph: RawGraph, dependencies: *const RawGraphNode, count: usize, child: RawGraph);
        graph_of_child = "cuGraphChildGraphNodeGetGraph" since "10.0" (node: RawGraphNode, graph: *mut RawGraph);
        graph_add_node = "cuGraphAddNode_v2" since "12.3" (node: *mut RawGraphNode, graph: RawGraph, dependencies: *const RawGraphNode, data: *const EdgeData, count: usize, parameters: *mut ConditionalNodeParams);
        graph_condition = "cuGraphConditionalHandleCreate" since "12.4" (handle: *mut u64, graph: RawGraph, context: RawContext, default: c_uint, flags: c_uint);
        graph_memset_params = "cuGraphMemsetNodeGetParams" since "10.0" (node: RawGraphNode, parameters: *mut MemsetNodeParams);
        graph_copy_params = "cuGraphMemcpyNodeGetParams" since "10.0" (node: RawGraphNode, parameters: *mut CopyNodeParams);
        exec_set_enabled = "cuGraphNodeSetEnabled" since "11.6" (exec: RawGraphExec, node: RawGraphNode, enabled: c_uint);
        exec_set_memset = "cuGraphExecMemsetNodeSetParams" since "10.2" (exec: RawGraphExec, node: RawGraphNode, parameters: *const MemsetNodeParams, context: RawContext);
        exec_set_copy = "cuGraphExecMemcpyNodeSetParams" since "10.2" (exec: RawGraphExec, node: RawGraphNode, parameters: *const CopyNodeParams, context: RawContext);
        graph_memory = "cuDeviceGetGraphMemAttribute" since "11.4" (device: c_int, attribute: c_int, value: *mut u64);
    }
}
