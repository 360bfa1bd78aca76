//! Nodes of graphs: adding each kind, asking for and changing what one does.

use std::ffi::c_int;
use std::sync::Arc;

use crate::boundary::{In, Out, exports};
use crate::capturing::EdgeData;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::exports::copies::Copy3;
use crate::exports::launches::arguments;
use crate::exports::streams::front;
use crate::exports::words::{self, Operation};
use crate::function::{Launch, Shape};
use crate::graph::{Choice, Conditional, Graph, Lent, Node, Payload};
use crate::transfer::Fill;
use crate::work::Call;

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelParams {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: usize,
    extra: usize,
    kernel: u64,
    context: u64,
}

/// `CUDA_MEMSET_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillParams {
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostParams {
    function: Option<extern "C" fn(usize)>,
    data: usize,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordParams {
    context: u64,
    count: u32,
    operations: usize,
    flags: u32,
}

/// `CUgraphNodeParams`: the type, and where its own parameters begin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    own: [u64; 29],
    last: i64,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ConditionalParams {
    condition: u64,
    kind: c_int,
    size: u32,
    bodies: usize,
    context: u64,
}

/// Bytes from the start of `CUgraphNodeParams` to the bodies of a condition, where the driver answers.
const BODIES_AT: usize = 32;

exports! {
    Initialised cuGraphAddKernelNode_v2(node: Out<u64>, graph: u64, after: In<u64>, count: usize, params: In<KernelParams>) since 12000,
    "Arguments are taken when it is called, by pointers or packed.", |driver| {
        add(driver, node, graph, (after, In::inner(0), count), |driver| params.get()?.payload(driver))
    }

    Initialised cuGraphKernelNodeGetParams_v2(node: u64, params: Out<KernelParams>) since 12000,
    "In the form in which they were given; what they point to stays until the node goes.", |driver| {
        let node = driver.tables.nodes.get(node)?;
        let Payload::Kernel(launch) = node.payload() else { return Err(Code::INVALID_VALUE) };
        params.put(KernelParams::of(&node, &launch))
    }

    Initialised cuGraphKernelNodeSetParams_v2(node: u64, params: In<KernelParams>) since 12000,
    "For graphs instantiated later.", |driver| {
        let node = driver.tables.nodes.get(node)?;
        let Payload::Kernel(before) = node.payload() else { return Err(Code::INVALID_VALUE) };
        node.set_payload(keep_shape(params.get()?.payload(driver)?, before.shape))
    }

    Initialised cuGraphKernelNodeSetAttribute(node: u64, attribute: u32, value: In<[u32; 16]>) since 11000,
    "Cooperative, cluster, programmatic serialization and priority; others have no effect.", |driver| {
        let node = driver.tables.nodes.get(node)?;
        let Payload::Kernel(launch) = node.payload() else { return Err(Code::INVALID_VALUE) };
        let mut changed = Launch::clone(&launch);
        let [x, y, z, ..] = value.get()?;
        match attribute {
            2 => changed.shape.cooperative = x != 0,
            4 => changed.shape.cluster = (x != 0).then_some([x, y, z]),
            6 => changed.shape.programmatic = x != 0,
            8 => changed.shape.priority = x as c_int,
            1 | 5 | 9..=11 | 14 => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        node.set_payload(Payload::Kernel(Arc::new(changed)))
    }

    Initialised cuGraphKernelNodeGetAttribute(node: u64, attribute: u32, value: Out<[u32; 16]>) since 11000,
    "What can be set.", |driver| {
        let Payload::Kernel(launch) = driver.tables.nodes.get(node)?.payload() else { return Err(Code::INVALID_VALUE) };
        let mut words = [0; 16];
        match attribute {
            2 => words[0] = launch.shape.cooperative.into(),
            4 => words[..3].copy_from_slice(&launch.shape.cluster.unwrap_or_default()),
            6 => words[0] = launch.shape.programmatic.into(),
            8 => words[0] = launch.shape.priority as u32,
            _ => return Err(Code::INVALID_VALUE),
        }
        value.put(words)
    }

    Initialised cuGraphKernelNodeCopyAttributes(to: u64, from: u64) since 11000,
    "What can be set.", |driver| {
        let (to, from) = (driver.tables.nodes.get(to)?, driver.tables.nodes.get(from)?);
        let (Payload::Kernel(target), Payload::Kernel(source)) = (to.payload(), from.payload()) else {
            return Err(Code::INVALID_VALUE);
        };
        to.set_payload(keep_shape(Payload::Kernel(target), source.shape))
    }

    Initialised cuGraphAddMemcpyNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, copy: In<Copy3>, context: u64) since 10000,
    "Between host and device memory; arrays are NOT_SUPPORTED.", |driver| {
        let _ = context;
        add(driver, node, graph, (after, In::inner(0), count), |driver| copied(driver, copy))
    }

    Initialised cuGraphMemcpyNodeGetParams(node: u64, copy: Out<Copy3>) since 10000,
    "With the offsets added to the addresses.", |driver| {
        let Payload::Copy(found) = driver.tables.nodes.get(node)?.payload() else { return Err(Code::INVALID_VALUE) };
        copy.put(Copy3::of(&found))
    }

    Initialised cuGraphMemcpyNodeSetParams(node: u64, copy: In<Copy3>) since 10000,
    "For graphs instantiated later.", |driver| {
        driver.tables.nodes.get(node)?.set_payload(copied(driver, copy)?)
    }

    Initialised cuGraphAddMemsetNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, params: In<FillParams>, context: u64) since 10000,
    "Of 1, 2 or 4 bytes, in a row or a rectangle.", |driver| {
        let _ = context;
        add(driver, node, graph, (after, In::inner(0), count), |driver| params.get()?.payload(driver))
    }

    Initialised cuGraphMemsetNodeGetParams(node: u64, params: Out<FillParams>) since 10000,
    "As they are.", |driver| {
        let Payload::Fill(fill) = driver.tables.nodes.get(node)?.payload() else { return Err(Code::INVALID_VALUE) };
        let (width, height, pitch) = (fill.width as usize, fill.height as usize, fill.pitch as usize);
        params.put(FillParams { to: fill.address, pitch, value: fill.value, element: fill.element, width, height })
    }

    Initialised cuGraphMemsetNodeSetParams(node: u64, params: In<FillParams>) since 10000,
    "For graphs instantiated later.", |driver| {
        driver.tables.nodes.get(node)?.set_payload(params.get()?.payload(driver)?)
    }

    Initialised cuGraphAddHostNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, params: In<HostParams>) since 10000,
    "Called by the stream's thread.", |driver| {
        add(driver, node, graph, (after, In::inner(0), count), |_| params.get()?.payload())
    }

    Initialised cuGraphHostNodeGetParams(node: u64, params: Out<HostParams>) since 10000,
    "As they are.", |driver| {
        match driver.tables.nodes.get(node)?.payload() {
            Payload::Call(Call::Host(function, data)) => params.put(HostParams { function: Some(function), data }),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Initialised cuGraphHostNodeSetParams(node: u64, params: In<HostParams>) since 10000,
    "For graphs instantiated later.", |driver| {
        driver.tables.nodes.get(node)?.set_payload(params.get()?.payload()?)
    }

    Initialised cuGraphAddChildGraphNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, child: u64) since 10000,
    "A copy of the other graph; one with conditions is NOT_SUPPORTED.", |driver| {
        let child = driver.tables.graphs.get(child)?;
        add(driver, node, graph, (after, In::inner(0), count), |driver| {
            Ok(Payload::Child(child.copied(&driver.tables, true)?.0))
        })
    }

    Initialised cuGraphChildGraphNodeGetGraph(node: u64, graph: Out<u64>) since 10000,
    "The copy that the node has.", |driver| {
        match driver.tables.nodes.get(node)?.payload() {
            Payload::Child(child) => graph.put(child.handle),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Initialised cuGraphAddEmptyNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize) since 10000,
    "Does nothing but join.", |driver| {
        add(driver, node, graph, (after, In::inner(0), count), |_| Ok(Payload::Empty))
    }

    Initialised cuGraphAddEventRecordNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) since 11010,
    "Records at each replay.", |driver| {
        let event = driver.events.get(event)?;
        add(driver, node, graph, (after, In::inner(0), count), |_| Ok(Payload::RecordEvent(event)))
    }

    Initialised cuGraphEventRecordNodeGetEvent(node: u64, event: Out<u64>) since 11010,
    "As it is.", |driver| {
        match driver.tables.nodes.get(node)?.payload() {
            Payload::RecordEvent(found) => event.put(found.handle),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Initialised cuGraphEventRecordNodeSetEvent(node: u64, event: u64) since 11010,
    "For graphs instantiated later.", |driver| {
        driver.tables.nodes.get(node)?.set_payload(Payload::RecordEvent(driver.events.get(event)?))
    }

    Initialised cuGraphAddEventWaitNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) since 11010,
    "Waits at each replay for what was recorded last.", |driver| {
        let event = driver.events.get(event)?;
        add(driver, node, graph, (after, In::inner(0), count), |_| Ok(Payload::WaitEvent(event)))
    }

    Initialised cuGraphEventWaitNodeGetEvent(node: u64, event: Out<u64>) since 11010,
    "As it is.", |driver| {
        match driver.tables.nodes.get(node)?.payload() {
            Payload::WaitEvent(found) => event.put(found.handle),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Initialised cuGraphEventWaitNodeSetEvent(node: u64, event: u64) since 11010,
    "For graphs instantiated later.", |driver| {
        driver.tables.nodes.get(node)?.set_payload(Payload::WaitEvent(driver.events.get(event)?))
    }

    Initialised cuGraphAddBatchMemOpNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, params: In<WordParams>) since 11070,
    "Words that are written and waited for.", |driver| {
        add(driver, node, graph, (after, In::inner(0), count), |driver| params.get()?.payload(driver))
    }

    Initialised cuGraphAddNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, params: Out<NodeParams>) since 12020,
    "Kernel, memcpy, memset, host, child, empty, event and conditional nodes; others are NOT_SUPPORTED.", |driver| {
        add_any(driver, node, graph, (after, In::inner(0), count), params)
    }

    Initialised cuGraphAddNode_v2(node: Out<u64>, graph: u64, after: In<u64>, edges: In<EdgeData>, count: usize, params: Out<NodeParams>) since 12030,
    "As `cuGraphAddNode`, with the data of the edges.", |driver| {
        add_any(driver, node, graph, (after, edges, count), params)
    }

    Initialised cuGraphConditionalHandleCreate(condition: Out<u64>, graph: u64, context: u64, default: u32, flags: u32) since 12030,
    "The handle is the device address of the value, which `cudaGraphSetConditional` in a kernel stores to.", |driver| {
        condition.required()?;
        driver.tables.graphs.get(graph)?;
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let context = driver.context(context)?;
        condition.put(driver.conditions.create(driver, &context, default, flags == 1)?)
    }
}

/// Adds a node that `make` makes.
fn add(
    driver: &Driver,
    out: Out<u64>,
    graph: u64,
    (after, edges, count): (In<u64>, In<EdgeData>, usize),
    make: impl FnOnce(&Driver) -> Answer<Payload>,
) -> Answer {
    out.required()?;
    let graph = driver.tables.graphs.get(graph)?;
    let after = front(after, edges, count)?;
    out.put(graph.add(&driver.tables, make(driver)?, &after)?.handle)
}

fn copied(driver: &Driver, copy: In<Copy3>) -> Answer<Payload> {
    let copy = copy.get()?.read(driver)?;
    driver.space.check_copy(&copy)?;
    Ok(Payload::Copy(copy))
}

fn keep_shape(payload: Payload, shape: Shape) -> Payload {
    match payload {
        Payload::Kernel(launch) => Payload::Kernel(Arc::new(Launch { shape, ..Launch::clone(&launch) })),
        other => other,
    }
}

fn add_any(
    driver: &Driver,
    out: Out<u64>,
    graph: u64,
    after: (In<u64>, In<EdgeData>, usize),
    params: Out<NodeParams>,
) -> Answer {
    out.required()?;
    let kind = params.current()?.kind;
    let own = params.address() + 16;
    if kind == 13 {
        return add_conditional(driver, out, graph, after, params.address());
    }
    add(driver, out, graph, after, |driver| any_payload(driver, kind, own))
}

/// What a node of that type does, by its own part of `CUgraphNodeParams`.
pub(super) fn any_payload(driver: &Driver, kind: c_int, own: usize) -> Answer<Payload> {
    Ok(match kind {
        0 => In::<KernelParams>::inner(own).get()?.payload(driver)?,
        // Flags and a context stand before the copy.
        1 => copied(driver, In::inner(own + 16))?,
        2 => In::<FillParams>::inner(own).get()?.payload(driver)?,
        3 => In::<HostParams>::inner(own).get()?.payload()?,
        4 => {
            let child = driver.tables.graphs.get(In::<u64>::inner(own).get()?)?;
            Payload::Child(child.copied(&driver.tables, true)?.0)
        }
        5 => Payload::Empty,
        6 => Payload::WaitEvent(driver.events.get(In::<u64>::inner(own).get()?)?),
        7 => Payload::RecordEvent(driver.events.get(In::<u64>::inner(own).get()?)?),
        12 => In::<WordParams>::inner(own).get()?.payload(driver)?,
        8..=11 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn add_conditional(
    driver: &Driver,
    out: Out<u64>,
    graph: u64,
    (after, edges, count): (In<u64>, In<EdgeData>, usize),
    params: usize,
) -> Answer {
    let own = In::<ConditionalParams>::inner(params + 16).get()?;
    let (kind, most) = match own.kind {
        0 => (Choice::If, 2),
        1 => (Choice::While, 1),
        2 => (Choice::Switch, u32::MAX),
        _ => return Err(Code::INVALID_VALUE),
    };
    // Two bodies of an IF, and SWITCH, came with CUDA 12.8.
    let newer = kind == Choice::Switch || kind == Choice::If && own.size == 2;
    let version = driver.settings().driver_version;
    if own.size == 0 || own.size > most || newer && version < 12_080 {
        return Err(Code::INVALID_VALUE);
    }
    // A condition is for one node.
    driver.conditions.give(own.condition)?;
    let graph = driver.tables.graphs.get(graph)?;
    let after = front(after, edges, count)?;
    let bodies: Vec<_> =
        (0..own.size).map(|_| driver.tables.graphs.add(|handle| Graph::new(handle, true))).collect();
    let handles: Box<[usize]> = bodies.iter().map(|body| body.handle as usize).collect();
    let conditional = Conditional { condition: own.condition, kind, bodies };
    let node = graph.add(&driver.tables, Payload::Conditional(Arc::new(conditional)), &after)?;
    let at = handles.as_ptr().expose_provenance();
    node.lent.lock().push(Lent { bytes: Box::default(), words: handles });
    Out::<usize>::inner(params + BODIES_AT).put(at)?;
    out.put(node.handle)
}

impl KernelParams {
    /// The launch that the parameters describe.
    pub(super) fn payload(&self, driver: &Driver) -> Answer<Payload> {
        let function = driver.functions.get(self.function)?;
        let launch = Launch {
            arguments: arguments(&function, self.parameters, self.extra)?,
            function,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            packed: self.extra != 0,
            shape: Shape::default(),
        };
        launch.check(driver.settings())?;
        Ok(Payload::Kernel(Arc::new(launch)))
    }

    fn of(node: &Node, launch: &Launch) -> Self {
        let bytes: Box<[u8]> = launch.arguments.clone().into();
        let at = bytes.as_ptr().expose_provenance();
        let mut words: Box<[usize]> = if launch.packed {
            // Mark, buffer, mark, where the size stands, end, and the size.
            vec![1, at, 2, 0, 0, bytes.len()].into()
        } else {
            launch.function.parameters.iter().map(|(offset, _)| at + offset).collect()
        };
        let list = words.as_ptr().expose_provenance();
        if launch.packed {
            words[3] = list + 5 * size_of::<usize>();
        }
        node.lent.lock().push(Lent { bytes, words });
        let (parameters, extra) = if launch.packed { (0, list) } else { (list, 0) };
        Self {
            function: launch.function.handle,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            parameters,
            extra,
            kernel: 0,
            context: launch.function.context,
        }
    }
}

impl FillParams {
    /// The fill that the parameters describe.
    pub(super) fn payload(&self, driver: &Driver) -> Answer<Payload> {
        if !matches!(self.element, 1 | 2 | 4) || self.width == 0 || self.height == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (width, height, pitch) = (self.width as u64, self.height as u64, self.pitch as u64);
        let fill = Fill { address: self.to, pitch, value: self.value, element: self.element, width, height };
        driver.space.check_fill(&fill)?;
        Ok(Payload::Fill(fill))
    }
}

impl HostParams {
    /// The call that the parameters describe.
    pub(super) fn payload(&self) -> Answer<Payload> {
        Ok(Payload::Call(Call::Host(self.function.ok_or(Code::INVALID_VALUE)?, self.data)))
    }
}

impl WordParams {
    fn payload(&self, driver: &Driver) -> Answer<Payload> {
        if self.flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        Context::current().or_else(|_| driver.context(self.context))?;
        Ok(Payload::Words(words::read(driver, In::<Operation>::inner(self.operations), self.count)?))
    }
}
