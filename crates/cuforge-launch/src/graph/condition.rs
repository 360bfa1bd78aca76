//! Conditional nodes: graphs in a graph that run where a word on the device says so, or until it does.

use crate::error::LaunchError;
use crate::ffi::{ConditionalNodeParams, KernelNodeParams, RawGraph, RawGraphNode, extra};
use crate::gate::Gate;
use crate::graph::builtin;
use crate::graph::counter::Counts;
use crate::graph::handles::Template;
use crate::graph::inside::{child_of, rename};
use crate::graph::packed::{Packed, one_block};
use crate::graph::pinned_view::PinnedView;
use crate::graph::recorded::{Form, Recorded, Work};
use crate::graph::recording::{Recording, Within};
use crate::graph::scope::CaptureScope;
use crate::graph_error::GraphError;
use crate::launch::BoundLaunch;
use crate::pipeline::Pipeline;
use crate::slab::Slab;
use crate::stream::Stream;
use cuforge_core::{Access, Arguments, BufferView};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// `CU_GRAPH_NODE_TYPE_CONDITIONAL`, and `CU_GRAPH_COND_ASSIGN_DEFAULT`.
const CONDITIONAL: i32 = 13;
const ASSIGN_DEFAULT: u32 = 1;

/// A 32-bit word on the device that kernels write and conditional nodes obey. `Send`.
pub struct Condition {
    word: PinnedView,
    set: Pipeline,
    iteration: Pipeline,
    counts: Arc<Counts>,
}

impl Condition {
    /// The condition in `word`, whose four bytes are all of the view. Loads two kernels, and waits for the stream.
    ///
    /// # Errors
    /// [`GraphError::ViewLength`]; [`LaunchError::ImageRejected`] where the driver has no conditional nodes (before
    /// CUDA 12.4); those of the driver.
    pub fn new(on: &mut Stream, slab: &Slab, word: &BufferView) -> Result<Self, LaunchError> {
        if word.len() != 4 {
            let what = "a condition";
            return Err(GraphError::ViewLength { what, need: 4, bytes: word.len() }.into());
        }
        Ok(Self {
            word: PinnedView::new(slab, word)?,
            set: builtin::condition(slab.device())?,
            iteration: builtin::iteration(slab.device())?,
            counts: Arc::new(Counts::new(on, slab)?),
        })
    }

    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    fn view(&self) -> Result<BufferView, LaunchError> {
        Ok(self.word.view.bound_to(0, 0, Access::StorageRead)?)
    }

    /// The kernel that hands the word to a conditional node.
    fn setter(&self, handle: u64) -> Result<BoundLaunch, LaunchError> {
        let (views, values) = ([self.view()?], Packed::default().wide(handle).0);
        self.set.bind_plain(&self.word.slab, Arguments { views: &views, by_value: &values }, one_block(1))
    }

    /// The kernel that ends an iteration.
    fn iteration(&self, handle: u64, most: u32) -> Result<BoundLaunch, LaunchError> {
        let views = [self.view()?, self.counts.counter.bound(1)?];
        let values = Packed::default().wide(self.counts.report_address()).wide(handle).word(most).0;
        self.iteration.bind_plain(
            &self.word.slab,
            Arguments { views: &views, by_value: &values },
            one_block(1),
        )
    }
}

impl CaptureScope<'_> {
    /// Runs `then` where the condition is not 0 when the graph gets here, `otherwise` where it is. Two nodes.
    ///
    /// # Errors
    /// [`GraphError::NotNestable`] for graphs with conditional nodes, timestamps, parameter blocks or result rings;
    /// [`LaunchError::MissingSymbol`] and [`LaunchError::Driver`] where the driver has no such nodes (12.4; 12.8 for
    /// `otherwise`).
    pub fn if_else(
        &mut self,
        condition: &Condition,
        then: &Recording,
        otherwise: Option<&Recording>,
    ) -> Result<(), LaunchError> {
        let bodies: Vec<&Recording> = [Some(then), otherwise].into_iter().flatten().collect();
        self.choose(condition, Form::If, &bodies)
    }

    /// Runs the graph of the condition's number, counted from 0; none where there is none. Two nodes.
    ///
    /// # Errors
    /// As [`if_else`](Self::if_else), from CUDA 12.8 on; [`GraphError::Empty`] without graphs.
    pub fn switch(&mut self, condition: &Condition, cases: &[&Recording]) -> Result<(), LaunchError> {
        if cases.is_empty() {
            return Err(GraphError::Empty.into());
        }
        self.choose(condition, Form::Switch, cases)
    }

    /// Runs `body` until the condition is 0 after it, at most `most` times and at least once. One node. The body may
    /// post results. A condition repeats one graph, and the recording can be instantiated once: the iterations are
    /// counted on the device.
    ///
    /// # Errors
    /// [`GraphError::ConditionTaken`] for a condition that repeats another graph; as [`if_else`](Self::if_else).
    pub fn repeat_while(
        &mut self,
        condition: &Condition,
        most: u32,
        body: &Recording,
    ) -> Result<(), LaunchError> {
        let form = Form::While { most: most.max(1) };
        let front = self.front()?;
        let gate = self.line().device().gate().clone();
        gate.api().need_conditions()?;
        let _context = gate.within_context()?;
        let handle = new_handle(&gate, front.graph, 1, ASSIGN_DEFAULT)?;
        let end = condition.iteration(handle, most.max(1))?;
        let mut recorded = body.nestable(&gate, Within::Loop)?;
        self.check_slots(std::slice::from_ref(&recorded))?;
        condition.counts.record()?;
        let (node, graphs) = add(&gate, front.graph, &front.last, handle, form, 1)?;
        let inside = fill(&gate, graphs[0], body.template(), &mut recorded)?;
        add_kernel(&gate, graphs[0], inside, &end)?;
        let counts = Some((condition.counts.clone(), condition.iteration.clone()));
        let word = condition.word.again()?;
        self.follow(node, Work::Conditional { form, word, bodies: vec![recorded], counts })
    }

    fn choose(
        &mut self,
        condition: &Condition,
        form: Form,
        bodies: &[&Recording],
    ) -> Result<(), LaunchError> {
        let gate = self.line().device().gate().clone();
        gate.api().need_conditions()?;
        let _context = gate.within_context()?;
        let mut recorded =
            bodies.iter().map(|body| body.nestable(&gate, Within::Branch)).collect::<Result<Vec<_>, _>>()?;
        self.check_slots(&recorded)?;
        let handle = new_handle(&gate, self.front()?.graph, 0, 0)?;
        condition.setter(handle)?.launch(self)?;
        let front = self.front()?;
        let (node, graphs) = add(&gate, front.graph, &front.last, handle, form, bodies.len())?;
        for ((graph, body), recorded) in graphs.iter().zip(bodies).zip(&mut recorded) {
            fill(&gate, *graph, body.template(), recorded)?;
        }
        self.follow(
            node,
            Work::Conditional { form, word: condition.word.again()?, bodies: recorded, counts: None },
        )
    }
}

/// A handle that kernels set and a conditional node of `graph` obeys.
fn new_handle(gate: &Gate, graph: RawGraph, default: u32, flags: u32) -> Result<u64, LaunchError> {
    let mut handle = 0;
    // SAFETY: the graph and the context are alive; the pointer is valid for one handle.
    let status =
        unsafe { gate.api().graph_condition(&raw mut handle, graph, gate.context(), default, flags) }?;
    gate.check(status).map(|()| handle)
}

/// Adds a conditional node; it and its graphs, which are empty.
fn add(
    gate: &Gate,
    graph: RawGraph,
    after: &[RawGraphNode],
    handle: u64,
    form: Form,
    bodies: usize,
) -> Result<(RawGraphNode, Vec<RawGraph>), LaunchError> {
    let mut parameters = ConditionalNodeParams {
        kind: CONDITIONAL,
        reserved: [0; 3],
        handle,
        condition: match form {
            Form::If => 0,
            Form::While { .. } => 1,
            Form::Switch => 2,
        },
        size: bodies as u32,
        bodies: ptr::null_mut(),
        context: gate.context(),
        rest: [0; 25],
        reserved_end: 0,
    };
    let mut node = ptr::null_mut();
    let (last, count) = (after.as_ptr(), after.len());
    // SAFETY: graph, nodes and context are alive, the parameters have the size of the driver's union; the pointers are
    // valid for what the function reads and writes.
    let status = unsafe {
        gate.api().graph_add_node(&raw mut node, graph, last, ptr::null(), count, &raw mut parameters)
    }?;
    gate.check(status)?;
    if parameters.bodies.is_null() {
        let why = "the driver made no graphs for the conditional node";
        return Err(LaunchError::Unsupported { what: "a conditional node", why });
    }
    // SAFETY: the driver points at an array of its own with a graph for each body, which the node owns.
    let graphs = unsafe { std::slice::from_raw_parts(parameters.bodies, bodies) };
    Ok((node, graphs.to_vec()))
}

/// Puts a recording into a conditional node's graph; its nodes take the names that they have there.
fn fill(
    gate: &Gate,
    graph: RawGraph,
    body: &Template,
    recorded: &mut Recorded,
) -> Result<RawGraphNode, LaunchError> {
    let mut node = ptr::null_mut();
    // SAFETY: both graphs are alive; the pointer is valid for one node. The driver copies the child.
    let status = unsafe { gate.api().graph_add_child(&raw mut node, graph, ptr::null(), 0, body.raw()) }?;
    gate.check(status)?;
    rename(gate, body.raw(), child_of(gate, node)?, recorded)?;
    Ok(node)
}

/// Adds a kernel behind `after`.
fn add_kernel(
    gate: &Gate,
    graph: RawGraph,
    after: RawGraphNode,
    kernel: &BoundLaunch,
) -> Result<(), LaunchError> {
    let (geometry, packed) = (kernel.geometry(), kernel.packed_arguments());
    let mut bytes = packed.len();
    let mut extra = extra(packed, &mut bytes);
    let parameters = KernelNodeParams {
        function: kernel.pipeline().built.function,
        grid: geometry.grid,
        block: geometry.block,
        shared_bytes: geometry.shared_bytes,
        parameters: ptr::null_mut(),
        extra: extra.as_mut_ptr(),
        kernel: ptr::null_mut(),
        context: ptr::null_mut(),
    };
    let mut node = ptr::null_mut();
    // SAFETY: graph, node and function are alive; the arguments have the function's own layout, and the driver copies
    // them. The conditional node that holds them keeps what they name.
    let status = unsafe {
        gate.api().graph_add_kernel(&raw mut node, graph, &raw const after, 1, &raw const parameters)
    }?;
    gate.check(status)
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("word", &self.word.view).finish_non_exhaustive()
    }
}
