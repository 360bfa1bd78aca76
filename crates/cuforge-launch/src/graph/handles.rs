//! The driver's graphs: owned handles, what they hold, and the calls that change an executable one.

use crate::error::LaunchError;
use crate::ffi::{
    CopyNodeParams, EdgeData, KernelNodeParams, MemsetNodeParams, RawFunction, RawGraph, RawGraphExec,
    RawGraphNode, RawStream, extra,
};
use crate::gate::{Gate, Retired};
use crate::graph_error::NodeKind;
use cuforge_core::LaunchGeometry;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A `CUgraph` of our own: the template of executable graphs, by whose nodes theirs are named.
pub(crate) struct Template {
    gate: Arc<Gate>,
    raw: RawGraph,
    /// Told from every other template of the process.
    serial: u64,
}

/// A `CUgraphExec` of our own.
pub(crate) struct Exec {
    gate: Arc<Gate>,
    raw: RawGraphExec,
}

// SAFETY: graph handles may be used from any thread, by one at a time; nothing here changes through a shared reference.
unsafe impl Send for Template {}
// SAFETY: as above.
unsafe impl Sync for Template {}
// SAFETY: as above; what changes an executable graph takes `&mut self`.
unsafe impl Send for Exec {}
// SAFETY: as above.
unsafe impl Sync for Exec {}

impl Template {
    /// # Safety
    /// `raw` is a graph of the gate's driver that nobody else destroys.
    pub(crate) unsafe fn own(gate: &Arc<Gate>, raw: RawGraph) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { gate: gate.clone(), raw, serial: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(crate) fn raw(&self) -> RawGraph {
        self.raw
    }

    /// Its nodes. Two driver calls.
    pub(crate) fn nodes(&self) -> Result<Vec<RawGraphNode>, LaunchError> {
        nodes_of(&self.gate, self.raw)
    }

    /// The kind of one of its nodes.
    pub(crate) fn kind(&self, node: RawGraphNode) -> Result<NodeKind, LaunchError> {
        kind_of(&self.gate, node)
    }

    /// Its edges, each with whether it is programmatic.
    pub(crate) fn edges(&self) -> Result<Vec<(RawGraphNode, RawGraphNode, bool)>, LaunchError> {
        edges_of(&self.gate, self.raw)
    }

    /// An executable graph of it.
    pub(crate) fn instantiate(&self, with_priorities: bool) -> Result<Exec, LaunchError> {
        self.gate.api().need_replays()?;
        let _context = self.gate.enter()?;
        let mut raw = ptr::null_mut();
        let flags = if with_priorities { USE_NODE_PRIORITY } else { 0 };
        // SAFETY: the graph is alive; the pointer is valid for one handle.
        let status = unsafe { self.gate.api().graph_instantiate(&raw mut raw, self.raw, flags) }?;
        self.gate.check(status)?;
        Ok(Exec { gate: self.gate.clone(), raw })
    }

    /// What a fill node does.
    fn fill_of(&self, node: RawGraphNode) -> Result<MemsetNodeParams, LaunchError> {
        let mut found = MemsetNodeParams::default();
        // SAFETY: a fill node of this graph; the pointer is valid for its parameters.
        self.gate.check(unsafe { self.gate.api().graph_memset_params(node, &raw mut found) }?)?;
        Ok(found)
    }

    /// What a copy node does.
    fn copy_of(&self, node: RawGraphNode) -> Result<CopyNodeParams, LaunchError> {
        // SAFETY: numbers and pointers that may be null: zero is a value of all of them.
        let mut found: CopyNodeParams = unsafe { std::mem::zeroed() };
        // SAFETY: a copy node of this graph; the pointer is valid for its parameters.
        self.gate.check(unsafe { self.gate.api().graph_copy_params(node, &raw mut found) }?)?;
        Ok(found)
    }
}

/// The nodes of a graph that is alive. Two driver calls.
pub(crate) fn nodes_of(gate: &Gate, graph: RawGraph) -> Result<Vec<RawGraphNode>, LaunchError> {
    let api = gate.api();
    let mut count = 0;
    // SAFETY: the graph is alive; without an array the function tells the count.
    gate.check(unsafe { api.graph_nodes(graph, ptr::null_mut(), &raw mut count) }?)?;
    let mut nodes = vec![ptr::null_mut(); count];
    if count > 0 {
        // SAFETY: the array has room for `count` nodes.
        gate.check(unsafe { api.graph_nodes(graph, nodes.as_mut_ptr(), &raw mut count) }?)?;
    }
    nodes.truncate(count);
    Ok(nodes)
}

/// The kind of a node of a graph that is alive.
pub(crate) fn kind_of(gate: &Gate, node: RawGraphNode) -> Result<NodeKind, LaunchError> {
    let mut kind = 0;
    // SAFETY: the node's graph is alive; the pointer is valid for one number.
    gate.check(unsafe { gate.api().graph_node_type(node, &raw mut kind) }?)?;
    Ok(NodeKind::of(kind))
}

/// The edges of a graph that is alive, each with whether it is programmatic.
pub(crate) fn edges_of(
    gate: &Gate,
    graph: RawGraph,
) -> Result<Vec<(RawGraphNode, RawGraphNode, bool)>, LaunchError> {
    let api = gate.api();
    let mut count = 0;
    let none = ptr::null_mut();
    // SAFETY: the graph is alive; without arrays the function tells the count.
    let asked = unsafe { api.graph_edges_v2(graph, none, none, ptr::null_mut(), &raw mut count) };
    let has_data = asked.is_ok();
    match asked {
        Ok(status) => gate.check(status)?,
        Err(_) => {
            // SAFETY: as above, by the older function.
            gate.check(unsafe { api.graph_edges(graph, none, none, &raw mut count) }?)?;
        }
    }
    let (mut from, mut to) = (vec![ptr::null_mut(); count], vec![ptr::null_mut(); count]);
    let mut data = vec![EdgeData::default(); count];
    if count > 0 {
        let (a, b, d) = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
        let status = if has_data {
            // SAFETY: each array has room for `count` entries.
            unsafe { api.graph_edges_v2(graph, a, b, d, &raw mut count) }
        } else {
            // SAFETY: as above.
            unsafe { api.graph_edges(graph, a, b, &raw mut count) }
        };
        gate.check(status?)?;
    }
    Ok(from.into_iter().zip(to).zip(data).map(|((a, b), d)| (a, b, d.kind == PROGRAMMATIC)).collect())
}

/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`, `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`.
const PROGRAMMATIC: u8 = 1;
const USE_NODE_PRIORITY: u64 = 8;

impl Exec {
    /// Launches. One driver call.
    ///
    /// # Safety
    /// The stream is alive and of the graph's context; what the nodes use stays until the launch has completed.
    #[inline]
    pub(crate) unsafe fn launch(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: the caller's promise.
        self.gate.check(unsafe { self.gate.api().graph_launch(self.raw, stream) }?)
    }

    /// Sends it to the device ahead of its first launch.
    ///
    /// # Safety
    /// The stream is alive and of the graph's context.
    pub(crate) unsafe fn upload(&self, stream: RawStream) -> Result<(), LaunchError> {
        // SAFETY: the caller's promise.
        self.gate.check(unsafe { self.gate.api().graph_upload(self.raw, stream) }?)
    }

    /// Changes a kernel node for later launches. One driver call, no allocation.
    ///
    /// # Safety
    /// The node is a kernel of the template; the packed arguments have the function's own layout, and what they name
    /// stays as long as launches of this graph may use it.
    pub(crate) unsafe fn set_kernel(
        &mut self,
        node: RawGraphNode,
        function: RawFunction,
        geometry: LaunchGeometry,
        packed: &[u8],
    ) -> Result<(), LaunchError> {
        let mut bytes = packed.len();
        let mut extra = extra(packed, &mut bytes);
        let parameters = KernelNodeParams {
            function,
            grid: geometry.grid,
            block: geometry.block,
            shared_bytes: geometry.shared_bytes,
            parameters: ptr::null_mut(),
            extra: extra.as_mut_ptr(),
            kernel: ptr::null_mut(),
            context: ptr::null_mut(),
        };
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        self.gate
            .check(unsafe { self.gate.api().graph_exec_set_kernel(self.raw, node, &raw const parameters) }?)
    }

    /// Lets later launches run a node, or pass it by. One driver call.
    ///
    /// # Safety
    /// The node is a kernel, copy or fill of the template.
    pub(crate) unsafe fn set_enabled(&mut self, node: RawGraphNode, on: bool) -> Result<(), LaunchError> {
        // SAFETY: the caller's promise.
        self.gate.check(unsafe { self.gate.api().exec_set_enabled(self.raw, node, u32::from(on)) }?)
    }

    /// Changes where and what a fill node fills.
    ///
    /// # Safety
    /// As [`set_kernel`](Self::set_kernel), for a fill node.
    pub(crate) unsafe fn set_fill(
        &mut self,
        template: &Template,
        node: RawGraphNode,
        (to, bytes, byte): (u64, u64, u8),
    ) -> Result<(), LaunchError> {
        // What the driver made of one row of bytes may be wider elements: bytes of one value are set anew.
        let found = MemsetNodeParams { height: 1, element_bytes: 1, ..template.fill_of(node)? };
        let new = MemsetNodeParams { to, value: u32::from(byte), width: bytes as usize, ..found };
        let context = self.gate.context();
        // SAFETY: the caller's promise.
        self.gate.check(unsafe { self.gate.api().exec_set_memset(self.raw, node, &raw const new, context) }?)
    }

    /// Changes the ends of a copy node. `from_host` says which address space its source is in, as before.
    ///
    /// # Safety
    /// As [`set_kernel`](Self::set_kernel), for a copy node.
    pub(crate) unsafe fn set_copy(
        &mut self,
        template: &Template,
        node: RawGraphNode,
        (from, from_host, to, bytes): (u64, bool, u64, u64),
    ) -> Result<(), LaunchError> {
        let mut new = template.copy_of(node)?;
        if from_host {
            new.from.host = ptr::with_exposed_provenance(from as usize);
        }
        // A driver that names pinned memory by its device address finds it here.
        new.from.device = from;
        new.to.device = to;
        new.width = bytes as usize;
        let context = self.gate.context();
        // SAFETY: the caller's promise.
        self.gate.check(unsafe { self.gate.api().exec_set_copy(self.raw, node, &raw const new, context) }?)
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        match self.gate.quiet() {
            // SAFETY: the handle is our own; executable graphs live on without their template.
            Some(_quiet) => match unsafe { self.gate.api().graph_destroy(self.raw) } {
                Ok(status) => self.gate.note_in_drop(status),
                Err(error) => tracing::warn!(%error, "a graph stays"),
            },
            None => self.gate.retire(Retired::Graph(self.raw)),
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        match self.gate.quiet() {
            // SAFETY: the handle is our own; the driver lets launches in flight finish.
            Some(_quiet) => match unsafe { self.gate.api().graph_exec_destroy(self.raw) } {
                Ok(status) => self.gate.note_in_drop(status),
                Err(error) => tracing::warn!(%error, "an executable graph stays"),
            },
            None => self.gate.retire(Retired::Exec(self.raw)),
        }
    }
}
