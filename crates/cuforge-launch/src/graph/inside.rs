//! Graphs inside a graph: paths to their nodes, numbers for them, and the names that the driver gives them.

use crate::error::LaunchError;
use crate::ffi::{RawGraph, RawGraphNode};
use crate::gate::Gate;
use crate::graph::handles::{edges_of, kind_of, nodes_of};
use crate::graph::recorded::{KernelNode, Node, Recorded, Work};
use std::collections::HashMap;
use std::ptr;

/// Where a node is: its place among the nodes of the graph; for one further inside that of the node around it, which of
/// the graphs in there, and so on.
pub(crate) type Path = Box<[usize]>;

impl Work {
    /// The graphs inside a node: one of a child, one for each branch of a conditional node.
    pub(crate) fn inside(&self) -> &[Recorded] {
        match self {
            Self::Child(child) => std::slice::from_ref(child),
            Self::Conditional { bodies, .. } => bodies,
            _ => &[],
        }
    }

    pub(crate) fn inside_mut(&mut self) -> &mut [Recorded] {
        match self {
            Self::Child(child) => std::slice::from_mut(child),
            Self::Conditional { bodies, .. } => bodies,
            _ => &mut [],
        }
    }
}

/// The node of that path.
pub(crate) fn node<'n>(nodes: &'n [Node], path: &[usize]) -> Option<&'n Node> {
    let (place, rest) = path.split_first()?;
    let found = nodes.get(*place)?;
    match rest {
        [] => Some(found),
        [graph, rest @ ..] => node(&found.work.inside().get(*graph)?.nodes, rest),
    }
}

/// The kernel of that path.
pub(crate) fn kernel<'n>(nodes: &'n [Node], path: &[usize]) -> Option<&'n KernelNode> {
    match &node(nodes, path)?.work {
        Work::Kernel(kernel) => Some(kernel),
        _ => None,
    }
}

/// The kernel of that path, to be changed. No allocation.
pub(crate) fn kernel_mut<'n>(nodes: &'n mut [Node], path: &[usize]) -> Option<&'n mut KernelNode> {
    let (place, rest) = path.split_first()?;
    let found = nodes.get_mut(*place)?;
    match (rest, &mut found.work) {
        ([], Work::Kernel(kernel)) => Some(kernel),
        ([graph, rest @ ..], work) => kernel_mut(&mut work.inside_mut().get_mut(*graph)?.nodes, rest),
        _ => None,
    }
}

/// Paths of all nodes further inside, always in the same order: they are numbered by it, after the graph's own nodes.
pub(crate) fn paths(recorded: &Recorded) -> Vec<Path> {
    fn collect(recorded: &Recorded, before: &[usize], found: &mut Vec<Path>) {
        for (place, node) in recorded.nodes.iter().enumerate() {
            for (graph, inner) in node.work.inside().iter().enumerate() {
                let around = [before, &[place, graph]].concat();
                found.extend((0..inner.nodes.len()).map(|inside| [&around[..], &[inside]].concat().into()));
                collect(inner, &around, found);
            }
        }
    }
    let mut found = Vec::new();
    collect(recorded, &[], &mut found);
    found
}

/// The recording `from` was put inside another graph, where the driver's copy of it is `to`: each node takes the name
/// that it has there.
///
/// The driver does not say which node of a copy is whose. It lists them in the same order: kinds and edges must agree.
pub(crate) fn rename(
    gate: &Gate,
    from: RawGraph,
    to: RawGraph,
    recorded: &mut Recorded,
) -> Result<(), LaunchError> {
    let (before, now) = (nodes_of(gate, from)?, nodes_of(gate, to)?);
    let kinds = |nodes: &[RawGraphNode]| -> Result<Vec<_>, LaunchError> {
        nodes.iter().map(|node| kind_of(gate, *node)).collect()
    };
    if kinds(&before)? != kinds(&now)? || shape(gate, from, &before)? != shape(gate, to, &now)? {
        let why = "the driver lists the nodes of its copy in another order";
        return Err(LaunchError::Unsupported { what: "a graph inside another one", why });
    }
    let names: HashMap<RawGraphNode, RawGraphNode> = before.into_iter().zip(now).collect();
    for node in &mut recorded.nodes {
        let Some(name) = names.get(&node.raw).copied() else { continue };
        let old = std::mem::replace(&mut node.raw, name);
        if let Work::Child(inner) = &mut node.work {
            rename(gate, child_of(gate, old)?, child_of(gate, name)?, inner)?;
        }
    }
    Ok(())
}

/// The edges by the places of their ends, in order.
fn shape(
    gate: &Gate,
    graph: RawGraph,
    nodes: &[RawGraphNode],
) -> Result<Vec<(usize, usize, bool)>, LaunchError> {
    let places: HashMap<RawGraphNode, usize> =
        nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
    let edges = edges_of(gate, graph)?.into_iter();
    let mut shape: Vec<_> =
        edges.filter_map(|(from, to, early)| Some((*places.get(&from)?, *places.get(&to)?, early))).collect();
    shape.sort_unstable();
    Ok(shape)
}

/// The graph of a child node, which the node owns.
pub(crate) fn child_of(gate: &Gate, node: RawGraphNode) -> Result<RawGraph, LaunchError> {
    let mut graph = ptr::null_mut();
    // SAFETY: a child node of a graph that is alive; the pointer is valid for one handle.
    gate.check(unsafe { gate.api().graph_of_child(node, &raw mut graph) }?)?;
    Ok(graph)
}

/// Gives the nodes of `new` the names of those of `old`, which has the same shape. Timestamps change sides, as the driver
/// records the events of the old ones.
pub(crate) fn take_names(old: &mut [Node], new: &mut [Node]) {
    for (old, new) in old.iter_mut().zip(&mut *new) {
        new.raw = old.raw;
        for (old, new) in old.work.inside_mut().iter_mut().zip(new.work.inside_mut()) {
            take_names(&mut old.nodes, &mut new.nodes);
        }
        if matches!(old.work, Work::Timestamp { .. }) {
            std::mem::swap(&mut old.work, &mut new.work);
        }
    }
}

/// The names of the timestamps of a graph and of those inside.
pub(crate) fn timestamps(recorded: &Recorded) -> Vec<&str> {
    let mut found = Vec::new();
    for node in &recorded.nodes {
        match &node.work {
            Work::Timestamp { name, .. } => found.push(&**name),
            work => found.extend(work.inside().iter().flat_map(timestamps)),
        }
    }
    found
}
