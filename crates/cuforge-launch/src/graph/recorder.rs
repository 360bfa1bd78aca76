//! A capture under way: what its scopes have recorded so far, held against the driver's own account at its end.

use crate::error::LaunchError;
use crate::events::Event;
use crate::ffi::{EdgeData, RawGraph, RawGraphNode, RawStream};
use crate::gate::Gate;
use crate::graph::handles::Template;
use crate::graph::recorded::{Node, Recorded, Work};
use crate::graph_error::{GraphError, NodeKind};
use crate::stream::Line;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: i32 = 1;

/// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED`.
const UNJOINED: i32 = 904;

/// What the scopes of one capture share.
pub(crate) struct Recorder {
    pub(crate) gate: Arc<Gate>,
    pub(crate) recorded: Recorded,
    /// Branches forked and not joined.
    pub(crate) open: usize,
    /// No more is taken.
    pub(crate) ended: bool,
    /// What forks and joins were made with; not to be recorded by anybody else before the end.
    pub(crate) events: Vec<Event>,
    /// The operation that first saw the capture spoilt.
    spoilt: Option<String>,
}

/// What the driver says of a stream's capture.
pub(crate) struct Front {
    pub(crate) graph: RawGraph,
    /// The nodes that the next one will depend on.
    pub(crate) last: Vec<RawGraphNode>,
}

impl Recorder {
    pub(crate) fn new(gate: &Arc<Gate>, line: &Arc<Line>) -> Self {
        let recorded = Recorded { lines: vec![line.clone()], ..Recorded::default() };
        Self { gate: gate.clone(), recorded, open: 0, ended: false, events: Vec::new(), spoilt: None }
    }

    /// Takes one more submission.
    pub(crate) fn admit(&self) -> Result<(), LaunchError> {
        self.gate.alive()?;
        if self.ended { Err(GraphError::Ended.into()) } else { Ok(()) }
    }

    /// A line that takes part from now on.
    pub(crate) fn takes(&mut self, line: &Arc<Line>) {
        if !self.recorded.lines.iter().any(|known| Arc::ptr_eq(known, line)) {
            self.recorded.lines.push(line.clone());
        }
    }

    /// The node that a submission just made, which must be a new one of its own.
    pub(crate) fn made(
        &mut self,
        stream: RawStream,
        operation: &dyn Fn() -> String,
    ) -> Result<RawGraphNode, LaunchError> {
        let front = self.front(stream, operation)?;
        match front.last[..] {
            // The newest nodes are where a name that is not new would be found.
            [node] if self.recorded.nodes.iter().rev().all(|known| known.raw != node) => Ok(node),
            _ => Err(GraphError::Escaped { operation: operation() }.into()),
        }
    }

    /// Records a node; its place.
    pub(crate) fn push(&mut self, raw: RawGraphNode, work: Work) -> usize {
        self.recorded.nodes.push(Node { raw, work });
        self.recorded.nodes.len() - 1
    }

    /// The stream's capture as the driver has it.
    pub(crate) fn front(
        &mut self,
        stream: RawStream,
        operation: &dyn Fn() -> String,
    ) -> Result<Front, LaunchError> {
        let (mut status, mut id, mut count) = (0, 0, 0);
        let mut graph = ptr::null_mut();
        let mut last: *const RawGraphNode = ptr::null();
        let mut data: *const EdgeData = ptr::null();
        let api = self.gate.api();
        // SAFETY: the stream is alive; every pointer is valid for what the function writes.
        let newer = unsafe {
            api.capture_info_v3(
                stream,
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut last,
                &raw mut data,
                &raw mut count,
            )
        };
        let answer = match newer {
            Ok(answer) => answer,
            // SAFETY: as above, by the older function.
            Err(_) => unsafe {
                api.capture_info(
                    stream,
                    &raw mut status,
                    &raw mut id,
                    &raw mut graph,
                    &raw mut last,
                    &raw mut count,
                )
            }?,
        };
        self.judge(self.gate.check(answer), operation)?;
        if status != ACTIVE {
            return Err(self.spoilt(operation).into());
        }
        let last = if last.is_null() || count == 0 {
            Vec::new()
        } else {
            // SAFETY: the driver's array of `count` nodes, valid until the next call on this stream.
            unsafe { std::slice::from_raw_parts(last, count) }.to_vec()
        };
        Ok(Front { graph, last })
    }

    /// An outcome of a call on the capture: which operation first saw it spoilt is kept for whoever asks later.
    pub(crate) fn judge<T>(
        &mut self,
        outcome: Result<T, LaunchError>,
        operation: &dyn Fn() -> String,
    ) -> Result<T, LaunchError> {
        match outcome {
            Err(LaunchError::Graph(GraphError::Invalidated { .. })) => Err(self.spoilt(operation).into()),
            other => other,
        }
    }

    fn spoilt(&mut self, operation: &dyn Fn() -> String) -> GraphError {
        let when = || format!("before {} of node {}", operation(), self.recorded.nodes.len());
        let when = self.spoilt.clone().unwrap_or_else(when);
        GraphError::Invalidated { when: self.spoilt.insert(when).clone() }
    }

    /// Ends the capture of `stream`, whatever has become of it; the graph, if there is one. All streams that took part
    /// are free afterwards.
    pub(crate) fn end(&mut self, stream: RawStream) -> Result<Template, LaunchError> {
        self.ended = true;
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is alive, and this thread began its capture; the pointer is valid for one handle.
        let outcome = unsafe { self.gate.api().capture_end(stream, &raw mut graph) };
        for line in &self.recorded.lines {
            self.gate.capture_lets_go(line.queue());
        }
        self.gate.capture_ended();
        // SAFETY: the driver has handed the graph over.
        let template = (!graph.is_null()).then(|| unsafe { Template::own(&self.gate, graph) });
        match self.gate.check(outcome?) {
            Ok(()) => template.ok_or_else(|| GraphError::Empty.into()),
            Err(LaunchError::Driver(error)) if error.code() == UNJOINED => {
                Err(GraphError::Unjoined { branches: self.open.max(1) }.into())
            }
            Err(error) => self.judge(Err(error), &|| "the end".to_owned()),
        }
    }

    /// The census: the driver's graph holds what was recorded, and nothing else.
    pub(crate) fn census(&mut self, template: &Template) -> Result<(), LaunchError> {
        let nodes = template.nodes()?;
        if nodes.is_empty() && self.recorded.nodes.is_empty() {
            return Err(GraphError::Empty.into());
        }
        let mut captured = HashMap::<NodeKind, usize>::new();
        for node in &nodes {
            *captured.entry(template.kind(*node)?).or_default() += 1;
        }
        for kind in NodeKind::ALL {
            let recorded = self.recorded.nodes.iter().filter(|node| node.work.kind() == kind).count();
            let captured = captured.get(&kind).copied().unwrap_or(0);
            if recorded != captured {
                return Err(GraphError::Census { kind, recorded, captured }.into());
            }
        }
        self.name_foreign(template, &nodes)?;
        self.order(template)
    }

    /// Nodes of other libraries were only counted: each takes the name of one that nobody claimed.
    fn name_foreign(&mut self, template: &Template, nodes: &[RawGraphNode]) -> Result<(), LaunchError> {
        let known: HashSet<RawGraphNode> = self.recorded.nodes.iter().map(|node| node.raw).collect();
        let mut unclaimed: Vec<RawGraphNode> =
            nodes.iter().copied().filter(|node| !known.contains(node)).collect();
        for node in &mut self.recorded.nodes {
            let Work::Foreign(kind) = node.work else { continue };
            for at in 0..unclaimed.len() {
                if template.kind(unclaimed[at])? == kind {
                    node.raw = unclaimed.swap_remove(at);
                    break;
                }
            }
            if node.raw.is_null() {
                return Err(GraphError::Escaped { operation: format!("a {kind} of another library") }.into());
            }
        }
        Ok(())
    }

    /// Whether the streams that took part differ in priority, so that the nodes must keep theirs.
    pub(crate) fn read_priorities(&mut self) -> Result<(), LaunchError> {
        let mut found = Vec::with_capacity(self.recorded.lines.len());
        for line in &self.recorded.lines {
            let mut priority = 0;
            // SAFETY: the stream is alive; the pointer is valid for one number.
            match unsafe { self.gate.api().stream_priority(line.raw(), &raw mut priority) } {
                Ok(status) => self.gate.check(status)?,
                // A driver that cannot tell runs all at the priority of the stream of the replay.
                Err(_) => return Ok(()),
            }
            found.push(priority);
        }
        self.recorded.with_priorities = found.windows(2).any(|pair| pair[0] != pair[1]);
        Ok(())
    }

    fn order(&mut self, template: &Template) -> Result<(), LaunchError> {
        let places: HashMap<RawGraphNode, usize> =
            self.recorded.nodes.iter().enumerate().map(|(at, node)| (node.raw, at)).collect();
        let place = |(from, to, programmatic): (RawGraphNode, RawGraphNode, bool)| {
            Some((*places.get(&from)?, *places.get(&to)?, programmatic))
        };
        self.recorded.edges = template.edges()?.into_iter().filter_map(place).collect();
        self.recorded.edges.sort_unstable();
        Ok(())
    }
}
