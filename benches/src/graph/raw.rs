//! Raw driver calls on graphs: the rivals of the graph bench, with nothing between them and the driver.

use std::error::Error;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
struct KernelNode {
    function: *mut c_void,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: *mut c_void,
    context: *mut c_void,
}

/// `CUgraphNodeParams` of a conditional node.
#[repr(C)]
struct Conditional {
    kind: c_int,
    reserved: [c_int; 3],
    handle: u64,
    condition: c_int,
    size: c_uint,
    bodies: *mut *mut c_void,
    context: *mut c_void,
    rest: [u64; 26],
}

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($kind:ty),*);)*) => {
        /// The functions, resolved from the library that the launcher runs on.
        #[derive(Clone, Copy)]
        pub(super) struct Raw {
            $($name: unsafe extern "system" fn($($kind),*) -> c_int,)*
            context: *mut c_void,
        }

        impl Raw {
            pub(super) fn open(library: &Path, context: *mut c_void) -> Outcome<Self> {
                // SAFETY: the library is the driver, which is loaded already and never unloaded.
                let library = unsafe { libloading::Library::new(library) }?;
                let raw = Self {
                    // SAFETY: the driver's function of this name has this signature.
                    $($name: *unsafe { library.get($symbol.as_bytes()) }?,)*
                    context,
                };
                std::mem::forget(library);
                Ok(raw)
            }
        }
    };
}

functions! {
    push: "cuCtxPushCurrent_v2" (*mut c_void);
    load: "cuModuleLoadData" (*mut *mut c_void, *const c_void);
    function: "cuModuleGetFunction" (*mut *mut c_void, *mut c_void, *const std::ffi::c_char);
    launch: "cuLaunchKernel" (*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void, *mut *mut c_void);
    synchronize: "cuStreamSynchronize" (*mut c_void);
    begin: "cuStreamBeginCapture_v2" (*mut c_void, c_int);
    end: "cuStreamEndCapture" (*mut c_void, *mut *mut c_void);
    nodes: "cuGraphGetNodes" (*mut c_void, *mut *mut c_void, *mut usize);
    instantiate: "cuGraphInstantiateWithFlags" (*mut *mut c_void, *mut c_void, u64);
    upload: "cuGraphUpload" (*mut c_void, *mut c_void);
    replay: "cuGraphLaunch" (*mut c_void, *mut c_void);
    set: "cuGraphExecKernelNodeSetParams_v2" (*mut c_void, *mut c_void, *const KernelNode);
    create: "cuGraphCreate" (*mut *mut c_void, c_uint);
    add_kernel: "cuGraphAddKernelNode_v2" (*mut *mut c_void, *mut c_void, *const *mut c_void, usize, *const KernelNode);
    add_node: "cuGraphAddNode_v2" (*mut *mut c_void, *mut c_void, *const *mut c_void, *const c_void, usize, *mut Conditional);
    condition: "cuGraphConditionalHandleCreate" (*mut u64, *mut c_void, *mut c_void, c_uint, c_uint);
    to_device: "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, *mut c_void);
    to_host: "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
}

/// One kernel of one block with its packed arguments.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) function: *mut c_void,
    pub(super) threads: u32,
    pub(super) packed: Vec<u8>,
}

/// A raw executable graph with the first node of its template.
#[derive(Clone, Copy)]
pub(super) struct Exec {
    raw: *mut c_void,
    first: *mut c_void,
}

impl Kernel {
    /// What a node of it has; its arguments live in `scratch`.
    fn with_node<T>(&self, call: impl FnOnce(*const KernelNode) -> T) -> T {
        let mut bytes = self.packed.len();
        let mut extra = extra(&self.packed, &mut bytes);
        let node = KernelNode {
            function: self.function,
            grid: [1; 3],
            block: [self.threads, 1, 1],
            shared_bytes: 0,
            parameters: ptr::null_mut(),
            extra: extra.as_mut_ptr(),
            kernel: ptr::null_mut(),
            context: ptr::null_mut(),
        };
        call(&raw const node)
    }
}

fn extra(packed: &[u8], bytes: &mut usize) -> [*mut c_void; 5] {
    let mark = ptr::without_provenance_mut;
    [mark(1), packed.as_ptr().cast_mut().cast(), mark(2), ptr::from_mut(bytes).cast(), mark(0)]
}

impl Raw {
    /// Makes the context current on this thread, as raw code has it.
    pub(super) fn make_current(&self) -> Outcome<()> {
        // SAFETY: the device outlives the bench.
        judge("cuCtxPushCurrent", unsafe { (self.push)(self.context) })
    }

    pub(super) fn load(&self, ptx: &str, entry: &str) -> Outcome<*mut c_void> {
        let (text, name) = (CString::new(ptx)?, CString::new(entry)?);
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the text ends with NUL; the pointer is valid for one handle.
        judge("cuModuleLoadData", unsafe { (self.load)(&raw mut module, text.as_ptr().cast()) })?;
        // SAFETY: the module is loaded; as above.
        judge("cuModuleGetFunction", unsafe { (self.function)(&raw mut function, module, name.as_ptr()) })?;
        Ok(function)
    }

    /// `count` launches of a kernel, captured.
    pub(super) fn capture(&self, stream: *mut c_void, kernel: &Kernel, count: usize) -> Outcome<Exec> {
        // SAFETY: the stream is alive.
        judge("cuStreamBeginCapture", unsafe { (self.begin)(stream, 1) })?;
        for _ in 0..count {
            let mut bytes = kernel.packed.len();
            let mut extra = extra(&kernel.packed, &mut bytes);
            let (none, threads) = (ptr::null_mut(), kernel.threads);
            // SAFETY: function and stream are alive, the arguments packed as the kernel has them.
            let code = unsafe {
                (self.launch)(kernel.function, 1, 1, 1, threads, 1, 1, 0, stream, none, extra.as_mut_ptr())
            };
            judge("cuLaunchKernel", code)?;
        }
        let mut graph = ptr::null_mut();
        // SAFETY: the capture began above; the pointer is valid for one handle.
        judge("cuStreamEndCapture", unsafe { (self.end)(stream, &raw mut graph) })?;
        self.executable(graph, stream)
    }

    fn executable(&self, graph: *mut c_void, stream: *mut c_void) -> Outcome<Exec> {
        let (mut first, mut one, mut raw) = (ptr::null_mut(), 1, ptr::null_mut());
        // SAFETY: the graph is alive; the pointers are valid for one node and a count of one.
        judge("cuGraphGetNodes", unsafe { (self.nodes)(graph, &raw mut first, &raw mut one) })?;
        // SAFETY: the graph is alive; the pointer is valid for one handle.
        judge("cuGraphInstantiate", unsafe { (self.instantiate)(&raw mut raw, graph, 0) })?;
        // SAFETY: graph and stream are alive.
        judge("cuGraphUpload", unsafe { (self.upload)(raw, stream) })?;
        Ok(Exec { raw, first })
    }

    /// A conditional graph by hand: `body` kernels in a chain and `last`, which is given the handle.
    pub(super) fn loops(
        &self,
        stream: *mut c_void,
        body: &[Kernel],
        last: impl FnOnce(u64) -> Kernel,
    ) -> Outcome<Exec> {
        let (mut graph, mut handle, mut node) = (ptr::null_mut(), 0, ptr::null_mut());
        // SAFETY: the pointer is valid for one handle.
        judge("cuGraphCreate", unsafe { (self.create)(&raw mut graph, 0) })?;
        // SAFETY: graph and context are alive; as above.
        let code = unsafe { (self.condition)(&raw mut handle, graph, self.context, 1, 1) };
        judge("cuGraphConditionalHandleCreate", code)?;
        let mut parameters = Conditional {
            kind: 13,
            reserved: [0; 3],
            handle,
            condition: 1,
            size: 1,
            bodies: ptr::null_mut(),
            context: self.context,
            rest: [0; 26],
        };
        // SAFETY: the parameters are those of a conditional node, in the size of the driver's union.
        let code = unsafe {
            (self.add_node)(&raw mut node, graph, ptr::null(), ptr::null(), 0, &raw mut parameters)
        };
        judge("cuGraphAddNode", code)?;
        // SAFETY: the driver's array of the one body.
        let inside = unsafe { *parameters.bodies };
        let mut before: Option<*mut c_void> = None;
        for kernel in body.iter().chain([&last(handle)]) {
            let mut made = ptr::null_mut();
            let (after, count) = (before.as_ref().map_or(ptr::null(), ptr::from_ref), before.iter().count());
            // SAFETY: graph and nodes are alive; the driver copies the arguments.
            let add = |node| unsafe { (self.add_kernel)(&raw mut made, inside, after, count, node) };
            judge("cuGraphAddKernelNode", kernel.with_node(add))?;
            before = Some(made);
        }
        self.executable(graph, stream)
    }

    #[inline]
    pub(super) fn replay(&self, exec: Exec, stream: *mut c_void) -> Outcome<()> {
        // SAFETY: graph and stream are alive.
        judge("cuGraphLaunch", unsafe { (self.replay)(exec.raw, stream) })
    }

    #[inline]
    pub(super) fn set(&self, exec: Exec, kernel: &Kernel) -> Outcome<()> {
        // SAFETY: the node is of the graph's template; the driver copies the arguments.
        judge("SetParams", kernel.with_node(|node| unsafe { (self.set)(exec.raw, exec.first, node) }))
    }

    /// One token of a loop with ordinary memory: four bytes in, a replay, four bytes out.
    pub(super) fn token(&self, exec: Exec, stream: *mut c_void, word: u64, value: u32) -> Outcome<u32> {
        let mut out = 0u32;
        // SAFETY: live memory of four bytes at both ends; the driver has read ordinary memory when it returns.
        judge("cuMemcpyHtoDAsync", unsafe { (self.to_device)(word, (&raw const value).cast(), 4, stream) })?;
        self.replay(exec, stream)?;
        // SAFETY: as above; the wait below ends before `out` does.
        judge("cuMemcpyDtoHAsync", unsafe { (self.to_host)((&raw mut out).cast(), word, 4, stream) })?;
        self.wait(stream)?;
        Ok(out)
    }

    pub(super) fn wait(&self, stream: *mut c_void) -> Outcome<()> {
        // SAFETY: the stream is alive.
        judge("cuStreamSynchronize", unsafe { (self.synchronize)(stream) })
    }

    /// Nanoseconds of one call, in a burst into a drained stream.
    pub(super) fn burst(
        &self,
        stream: *mut c_void,
        calls: usize,
        mut call: impl FnMut() -> Outcome<()>,
    ) -> Outcome<f64> {
        self.wait(stream)?;
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / calls as f64)
    }
}

#[inline]
fn judge(call: &str, code: c_int) -> Outcome<()> {
    if code == 0 { Ok(()) } else { Err(format!("{call} answered {code}").into()) }
}
