//! A bound launch as a graph of one kernel node: launching that costs the CPU less than half of a kernel launch.
//!
//! H200, driver 580.159.04, 2026-12-01: 1.2 us against 3.3 us, 6.2 us against 8.5 us with the wait for the kernel, and
//! twice as many kernels a second (docs/decisions/0006-bound-launches.md).

use crate::capture_mode::Relaxed;
use crate::error::LaunchError;
use crate::features::ONE_NODE_GRAPHS;
use crate::ffi::{KernelNodeParams, RawGraph, RawGraphExec, RawGraphNode, RawStream, Status, extra};
use crate::gate::Gate;
use crate::pipeline::Built;
use cuforge_core::LaunchGeometry;
use std::ptr;
use std::sync::Arc;

/// A graph of one kernel node with its executable form.
pub(crate) struct OneNode {
    gate: Arc<Gate>,
    /// Kept as long as the executable: its node names the node there.
    graph: RawGraph,
    node: RawGraphNode,
    exec: RawGraphExec,
    /// The queue that it is launched on, once it was. On any other a plain launch is made, because launches of one
    /// executable never overlap, and those of two streams should.
    queue: Option<usize>,
}

// SAFETY: graph handles may be used from any thread, one at a time; whoever has the owner by `&mut` is that one.
unsafe impl Send for OneNode {}
// SAFETY: shared references do nothing with the handles.
unsafe impl Sync for OneNode {}

impl OneNode {
    /// The graph that launches `built` with the packed arguments; `None` where the driver does not make one, which only
    /// costs time. Some 10 us, and 104 KiB of device memory: where the driver has none left of what it keeps for graphs it
    /// waits for running kernels to get more (H200, driver 580.159.04, 2026-12-01).
    pub(crate) fn new(built: &Built, geometry: LaunchGeometry, packed: &[u8]) -> Option<Self> {
        if geometry.is_empty() || !built.gate.api().has(ONE_NODE_GRAPHS) {
            return None;
        }
        let made = Self::try_new(built, geometry, packed);
        made.inspect_err(|error| tracing::debug!(%error, "launches stay plain kernel launches")).ok()
    }

    fn try_new(built: &Built, geometry: LaunchGeometry, packed: &[u8]) -> Result<Self, LaunchError> {
        let gate = &built.gate;
        let api = gate.api();
        let _context = gate.enter_even_capturing()?;
        let _allowed = Relaxed::new(gate)?;
        let mut graph = ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        gate.check(unsafe { api.graph_create(&raw mut graph, 0) }?)?;
        // From here on a failure destroys what is there.
        let (node, exec) = (ptr::null_mut(), ptr::null_mut());
        let mut made = Self { gate: gate.clone(), graph, node, exec, queue: None };
        with_params(built, geometry, packed, |params| {
            // SAFETY: the graph is alive, there are no dependencies, and the driver copies function and arguments.
            unsafe { api.graph_add_kernel(&raw mut made.node, graph, ptr::null(), 0, params) }
        })?;
        // SAFETY: the graph is alive, the pointer valid for one handle.
        gate.check(unsafe { api.graph_instantiate(&raw mut made.exec, graph, 0) }?)?;
        Ok(made)
    }

    /// Whether launches on that queue go through it.
    #[inline]
    pub(crate) fn serves(&mut self, queue: usize) -> bool {
        *self.queue.get_or_insert(queue) == queue
    }

    /// One driver call.
    #[inline]
    pub(crate) fn launch(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: the executable is alive and stream and function are of its context; the caller keeps what the kernel
        // uses, as for a plain launch.
        let status = unsafe { self.gate.api().graph_launch(self.exec, stream) }?;
        self.gate.check(status)
    }

    /// Other arguments and geometry for later launches; launches in flight keep theirs. One driver call, and one to three
    /// to have the context current: without one `cuGraphExecKernelNodeSetParams` crashes (driver 580.159.04).
    pub(crate) fn set(
        &self,
        built: &Built,
        geometry: LaunchGeometry,
        packed: &[u8],
    ) -> Result<(), LaunchError> {
        let _context = self.gate.within_context()?;
        with_params(built, geometry, packed, |params| {
            // SAFETY: executable and node are alive and belong together; the driver copies the arguments.
            unsafe { self.gate.api().graph_exec_set_kernel(self.exec, self.node, params) }
        })
    }
}

/// Calls the driver with the node's parameters.
fn with_params(
    built: &Built,
    geometry: LaunchGeometry,
    packed: &[u8],
    call: impl FnOnce(*const KernelNodeParams) -> Result<Status, LaunchError>,
) -> Result<(), LaunchError> {
    let mut bytes = packed.len();
    let mut extra = extra(packed, &mut bytes);
    let LaunchGeometry { grid, block, shared_bytes } = geometry;
    let params = KernelNodeParams {
        function: built.function,
        grid,
        block,
        shared_bytes,
        parameters: ptr::null_mut(),
        extra: extra.as_mut_ptr(),
        kernel: ptr::null_mut(),
        context: ptr::null_mut(),
    };
    built.gate.check(call(&raw const params)?)
}

impl Drop for OneNode {
    fn drop(&mut self) {
        // Destroying an executable in flight does not wait, and its work still completes (H200, driver 580.159.04,
        // 2026-12-01).
        let Ok(_context) = self.gate.enter_even_capturing() else { return };
        let Ok(_allowed) = Relaxed::new(&self.gate) else { return };
        let note = |status: Result<Status, LaunchError>| {
            // A driver that made it has the functions that destroy it.
            if let Ok(status) = status {
                self.gate.note_in_drop(status);
            }
        };
        if !self.exec.is_null() {
            // SAFETY: this was its only owner.
            note(unsafe { self.gate.api().graph_exec_destroy(self.exec) });
        }
        // SAFETY: as above.
        note(unsafe { self.gate.api().graph_destroy(self.graph) });
    }
}
