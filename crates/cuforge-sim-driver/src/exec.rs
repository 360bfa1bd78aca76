//! Executable graphs: a frozen copy of a graph, patched node by node, run on a stream as one piece of work.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::capturing::EdgeData;
use crate::codes::{Answer, Code};
use crate::conditions::Conditions;
use crate::context::Context;
use crate::device::Device;
use crate::graph::{Choice, Graph, Payload, WordWork};
use crate::handles::Registry;
use crate::machine::Machine;
use crate::order::{self, Span};
use crate::scene::Scene;
use crate::space::{Charge, Owner, Range, fresh_range};
use crate::stream::Stream;
use crate::work::{self, Op, Replay};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub(crate) const AUTO_FREE: u64 = 1;

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) handle: u64,
    pub(crate) flags: u64,
    /// Whether a capture made the graph that it comes from.
    pub(crate) captured: bool,
    plan: Mutex<Arc<Plan>>,
    /// Where it was launched last: replays of one executable follow each other.
    last: Mutex<Option<Arc<Stream>>>,
    /// Graphs whose conditions it has; only one executable can.
    conditions: Vec<u64>,
}

/// A graph ready to run. Never changed while a replay may use it: changes make a new one.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In the order in which the graph got its nodes.
    pub(crate) steps: Vec<Step>,
    pub(crate) edges: Vec<(usize, usize, EdgeData)>,
    /// An order in which every step comes behind those it depends on.
    order: Vec<usize>,
}

/// One node of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Handle of the graph's node.
    pub(crate) node: u64,
    pub(crate) payload: Payload,
    /// Plans of the child, or of the condition's bodies.
    pub(crate) inner: Vec<Arc<Plan>>,
    pub(crate) enabled: bool,
}

/// What two graphs differ in first, as `CUgraphExecUpdateResult` has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Difference {
    pub(crate) result: i32,
    /// The new graph's node, or 0.
    pub(crate) node: u64,
    /// The node at the other end of an edge, or 0.
    pub(crate) from: u64,
}

/// `CUgraphExecUpdateResult`
const TOPOLOGY_CHANGED: i32 = 2;
const NODE_TYPE_CHANGED: i32 = 3;
const PARAMETERS_CHANGED: i32 = 5;
const NOT_SUPPORTED: i32 = 6;
const UNSUPPORTED_FUNCTION_CHANGE: i32 = 7;

impl Plan {
    /// Freezes a graph.
    pub(crate) fn of(graph: &Graph) -> Answer<Self> {
        Self::within(graph, false)
    }

    /// Freezes a graph, which may be in the body of a condition: no events there, as measured.
    fn within(graph: &Graph, conditional: bool) -> Answer<Self> {
        let inner = graph.inner().clone();
        let place: HashMap<u64, usize> =
            inner.nodes.iter().enumerate().map(|(at, node)| (node.handle, at)).collect();
        let mut steps = Vec::with_capacity(inner.nodes.len());
        for node in &inner.nodes {
            let payload = node.payload();
            let bodies = match &payload {
                Payload::Child(child) => vec![Arc::new(Self::within(child, conditional)?)],
                Payload::Conditional(conditional) => conditional
                    .bodies
                    .iter()
                    .map(|body| Self::within(body, true).map(Arc::new))
                    .collect::<Answer<_>>()?,
                Payload::RecordEvent(_) | Payload::WaitEvent(_) if conditional => {
                    return Err(Code::INVALID_VALUE);
                }
                _ => Vec::new(),
            };
            steps.push(Step { node: node.handle, payload, inner: bodies, enabled: true });
        }
        let edge =
            |edge: &crate::graph::Edge| Some((*place.get(&edge.from)?, *place.get(&edge.to)?, edge.data));
        let edges: Vec<_> = inner.edges.iter().filter_map(edge).collect();
        let order = sorted(steps.len(), &edges).ok_or(Code::INVALID_VALUE)?;
        Ok(Self { steps, edges, order })
    }

    /// The payloads of a plan of the same shape under this one's nodes, or what differs first.
    pub(crate) fn taken_over(&self, new: &Self) -> Result<Self, Difference> {
        first_difference(self, new).map_or_else(|| Ok(merged(self, new)), Err)
    }

    /// All payloads, those of children and bodies too.
    fn payloads<'a>(&'a self, each: &mut dyn FnMut(&'a Payload)) {
        for step in &self.steps {
            each(&step.payload);
            step.inner.iter().for_each(|plan| plan.payloads(each));
        }
    }

    /// Does all steps, each behind those it depends on.
    pub(crate) fn run(&self, scene: Scene<'_>) {
        for &at in &self.order {
            let step = &self.steps[at];
            if step.enabled {
                step.run(scene);
            }
        }
    }
}

impl Replay for Plan {
    fn replay(&self, scene: Scene<'_>) {
        self.run(scene);
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        self.payloads(&mut |payload| match payload {
            Payload::Copy(copy) => order::of_copy(copy, &mut spans),
            Payload::Fill(fill) => order::of_fill(fill, &mut spans),
            _ => {}
        });
        spans
    }
}

/// An order that respects the edges, earlier nodes first; `None` if they make a circle.
fn sorted(count: usize, edges: &[(usize, usize, EdgeData)]) -> Option<Vec<usize>> {
    let mut waits = vec![0usize; count];
    let mut next = vec![Vec::new(); count];
    for (from, to, _) in edges {
        waits[*to] += 1;
        next[*from].push(*to);
    }
    let mut ready: VecDeque<usize> = (0..count).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(at) = ready.pop_front() {
        order.push(at);
        for &to in &next[at] {
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    (order.len() == count).then_some(order)
}

impl Step {
    fn run(&self, scene: Scene<'_>) {
        let Scene { machine, device, .. } = scene;
        let perform = |op| work::perform(scene, op);
        match &self.payload {
            Payload::Kernel(launch) => perform(Op::Kernel(Arc::clone(launch))),
            Payload::Copy(copy) => perform(Op::Copy(copy.clone())),
            Payload::Fill(fill) => perform(Op::Fill(fill.clone())),
            Payload::Call(call) => perform(Op::Call(*call)),
            Payload::Child(_) => self.inner.iter().for_each(|plan| plan.run(scene)),
            Payload::Empty => {}
            Payload::WaitEvent(event) => {
                if let Some(mark) = event.mark() {
                    perform(Op::Wait(mark));
                }
            }
            Payload::RecordEvent(event) => perform(Op::Reach(event.fresh_mark())),
            Payload::Words(words) => {
                for word in words {
                    perform(match word {
                        WordWork::Write(word) => Op::Write(*word),
                        WordWork::Await(word, until) => Op::Await(*word, *until),
                    });
                }
            }
            Payload::Alloc(address, bytes, context) => {
                if let Err(code) = allocate(machine, device, *address, *bytes, *context) {
                    device.lose(code, "the memory of a graph's allocation is not there");
                }
            }
            Payload::Free(address) => perform(Op::Free(*address)),
            Payload::Conditional(conditional) => {
                let value = || match machine.space.load(conditional.condition, 4) {
                    Ok(value) if device.lost().is_none() => Some(value as usize),
                    _ => None,
                };
                match (conditional.kind, value()) {
                    (_, None) => {}
                    (Choice::If, Some(value)) => {
                        let body = if value != 0 { 0 } else { 1 };
                        self.inner.get(body).into_iter().for_each(|plan| plan.run(scene));
                    }
                    (Choice::Switch, Some(value)) => {
                        self.inner.get(value).into_iter().for_each(|plan| plan.run(scene));
                    }
                    (Choice::While, Some(_)) => {
                        while value().is_some_and(|value| value != 0) {
                            self.inner.iter().for_each(|plan| plan.run(scene));
                        }
                    }
                }
            }
        }
    }
}

fn allocate(machine: &Machine, device: &Device, address: u64, bytes: u64, context: u64) -> Answer {
    let charge = Charge::take(&device.used, bytes, device.capacity)?;
    let physical = crate::physical::Physical::fresh(bytes, machine.settings().poison)?;
    // Memory of graphs counts apart from that of pools.
    let range = fresh_range(address, bytes, physical, Owner::Pool(0), machine.space.fresh_id());
    machine.space.add(Range { device: device.ordinal, context, charge: Some(charge), ..range })?;
    let now = machine.space.bytes_of(device.ordinal, Owner::Pool(0));
    device.most_graph_bytes.fetch_max(now, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

impl Exec {
    /// Makes a graph executable.
    pub(crate) fn new(execs: &Registry<Self>, graph: &Graph, flags: u64) -> Answer<Arc<Self>> {
        // Auto free, upload, device launch, node priority.
        if flags & !0xf != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if flags & 4 != 0 {
            // Launching from a kernel.
            return Err(Code::NOT_SUPPORTED);
        }
        let plan = Plan::of(graph)?;
        let mut conditions = Vec::new();
        plan.payloads(&mut |payload| {
            if let Payload::Conditional(conditional) = payload {
                conditions.push(conditional.condition);
            }
        });
        let taken = execs
            .all()
            .iter()
            .any(|exec| exec.conditions.iter().any(|condition| conditions.contains(condition)));
        if taken {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(execs.add(|handle| Self {
            handle,
            flags,
            captured: graph.captured,
            plan: Mutex::new(Arc::new(plan)),
            last: Mutex::default(),
            conditions,
        }))
    }

    /// What a launch runs now.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.lock())
    }

    /// Queues a replay; what it does is fixed here, later changes are for later replays.
    pub(crate) fn launch(
        &self,
        machine: &Machine,
        conditions: &Conditions,
        context: &Arc<Context>,
        stream: &Arc<Stream>,
    ) -> Answer {
        let plan = self.plan();
        let mut taken = Vec::new();
        plan.payloads(&mut |payload| match payload {
            Payload::Alloc(address, ..) => taken.push(*address),
            Payload::Free(address) => taken.retain(|other| other != address),
            _ => {}
        });
        let mut last = self.last.lock();
        for address in taken {
            if machine.space.around(address).is_some() {
                if self.flags & AUTO_FREE == 0 {
                    return Err(Code::INVALID_VALUE);
                }
                context.submit(stream, Op::Free(address))?;
            }
        }
        if let Some(before) = &*last
            && !Arc::ptr_eq(before, stream)
        {
            context.submit(stream, before.after())?;
        }
        for word in self.conditions.iter().filter_map(|condition| conditions.at_launch(*condition)) {
            context.submit(stream, Op::Write(word))?;
        }
        context.submit(stream, Op::Graph(plan))?;
        *last = Some(Arc::clone(stream));
        Ok(())
    }

    /// Changes one node, of a child graph too.
    pub(crate) fn change(&self, node: u64, change: impl FnOnce(&mut Step) -> Answer) -> Answer {
        let mut plan = self.plan.lock();
        let mut changed = Plan::clone(&plan);
        let step = step_of(&mut changed, node).ok_or(Code::INVALID_VALUE)?;
        change(step)?;
        *plan = Arc::new(changed);
        Ok(())
    }

    /// Takes everything over from another graph of the same shape; otherwise says what differs and stays as it was.
    pub(crate) fn update(&self, graph: &Graph) -> Answer<Option<Difference>> {
        let new = Plan::of(graph)?;
        let mut plan = self.plan.lock();
        match plan.taken_over(&new) {
            Ok(merged) => {
                *plan = Arc::new(merged);
                Ok(None)
            }
            Err(difference) => Ok(Some(difference)),
        }
    }
}

fn step_of(plan: &mut Plan, node: u64) -> Option<&mut Step> {
    if let Some(at) = plan.steps.iter().position(|step| step.node == node) {
        return plan.steps.get_mut(at);
    }
    plan.steps
        .iter_mut()
        .flat_map(|step| step.inner.iter_mut())
        .find_map(|plan| step_of(Arc::make_mut(plan), node))
}

fn first_difference(old: &Plan, new: &Plan) -> Option<Difference> {
    let difference = |result, node, from| Some(Difference { result, node, from });
    if old.steps.len() != new.steps.len() {
        return difference(TOPOLOGY_CHANGED, 0, 0);
    }
    for (was, is) in old.steps.iter().zip(&new.steps) {
        if was.payload.number() != is.payload.number() {
            return difference(NODE_TYPE_CHANGED, is.node, 0);
        }
    }
    let missing = |in_: &Plan, of: &Plan| {
        let same = |edge: &(usize, usize, EdgeData)| in_.edges.contains(edge);
        of.edges.iter().find(|edge| !same(edge)).copied()
    };
    if let Some((from, to, _)) = missing(old, new).or_else(|| missing(new, old)) {
        return difference(TOPOLOGY_CHANGED, new.steps[to].node, new.steps[from].node);
    }
    for (was, is) in old.steps.iter().zip(&new.steps) {
        match (&was.payload, &is.payload) {
            (Payload::Kernel(was), Payload::Kernel(now)) if was.function.context != now.function.context => {
                return difference(UNSUPPORTED_FUNCTION_CHANGE, is.node, 0);
            }
            (Payload::Copy(was), Payload::Copy(now)) if !was.is_like(now) => {
                return difference(PARAMETERS_CHANGED, is.node, 0);
            }
            (Payload::Fill(was), Payload::Fill(now)) if (was.height > 1) != (now.height > 1) => {
                return difference(PARAMETERS_CHANGED, is.node, 0);
            }
            (Payload::Alloc(..) | Payload::Free(_), _) => return difference(NOT_SUPPORTED, is.node, 0),
            (Payload::Conditional(was), Payload::Conditional(now)) if was.condition != now.condition => {
                return difference(NOT_SUPPORTED, is.node, 0);
            }
            _ => {}
        }
        let bodies = was.inner.iter().zip(&is.inner);
        if let Some(inner) = bodies.filter_map(|(was, is)| first_difference(was, is)).next() {
            return Some(inner);
        }
    }
    None
}

/// The new payloads under the old nodes' handles.
fn merged(old: &Plan, new: &Plan) -> Plan {
    let step = |(was, is): (&Step, &Step)| Step {
        node: was.node,
        payload: is.payload.clone(),
        inner: was.inner.iter().zip(&is.inner).map(|(was, is)| Arc::new(merged(was, is))).collect(),
        enabled: was.enabled,
    };
    let steps = old.steps.iter().zip(&new.steps).map(step).collect();
    Plan { steps, edges: old.edges.clone(), order: old.order.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_comes_behind_what_it_depends_on_and_a_circle_has_no_order() {
        let edge = |from, to| (from, to, [0; 8]);
        let edges = [edge(3, 0), edge(0, 1), edge(3, 2), edge(2, 1)];
        let order = sorted(4, &edges).unwrap();
        let at = |step| order.iter().position(|other| *other == step).unwrap();
        assert!(edges.iter().all(|(from, to, _)| at(*from) < at(*to)), "{order:?}");
        assert_eq!(sorted(2, &[edge(0, 1), edge(1, 0)]), None);
    }
}
