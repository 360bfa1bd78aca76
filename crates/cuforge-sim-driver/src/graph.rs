//! Graphs: nodes with what they do, and the edges between them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::capturing::{EdgeData, PLAIN_EDGE};
use crate::codes::{Answer, Code};
use crate::event::Event;
use crate::function::Launch;
use crate::handles::{Kind, Registry};
use crate::transfer::{Copy, Fill};
use crate::work::{Call, Until, Word};

/// All graphs and nodes by their handles.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) graphs: Registry<Graph>,
    pub(crate) nodes: Registry<Node>,
}

impl Default for Tables {
    fn default() -> Self {
        Self { graphs: Registry::new(Kind::Graph), nodes: Registry::new(Kind::Node) }
    }
}

/// A graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) handle: u64,
    /// Whether a node has it, a child or the body of a condition, so that the program cannot destroy it.
    pub(crate) owned: bool,
    /// Whether a capture made it.
    pub(crate) captured: bool,
    inner: Mutex<Inner>,
}

/// What is in a graph, in the order in which it was put there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inner {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) edges: Vec<Edge>,
}

/// From one node to another, by their handles.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Edge {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) data: EdgeData,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) handle: u64,
    pub(crate) graph: u64,
    payload: Mutex<Payload>,
    /// Buffers that the program has been given pointers to.
    pub(crate) lent: Mutex<Vec<Lent>>,
}

/// Memory of the driver that a getter pointed to; stays where it is until the node goes.
#[derive(Debug)]
#[expect(dead_code, reason = "only kept alive: the program reads it")]
pub(crate) struct Lent {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) words: Box<[usize]>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Kernel(Arc<Launch>),
    Copy(Copy),
    Fill(Fill),
    Call(Call),
    Child(Arc<Graph>),
    Empty,
    WaitEvent(Arc<Event>),
    RecordEvent(Arc<Event>),
    Words(Vec<WordWork>),
    /// Address, bytes, context.
    Alloc(u64, u64, u64),
    Free(u64),
    Conditional(Arc<Conditional>),
}

/// A word that is written or waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WordWork {
    Write(Word),
    Await(Word, Until),
}

/// A node that runs its bodies by the value of a condition.
#[derive(Debug)]
pub(crate) struct Conditional {
    /// The condition's handle: the address of its value.
    pub(crate) condition: u64,
    pub(crate) kind: Choice,
    pub(crate) bodies: Vec<Arc<Graph>>,
}

/// `CUgraphConditionalNodeType`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Choice {
    If,
    While,
    Switch,
}

impl Payload {
    /// `CUgraphNodeType`
    pub(crate) fn number(&self) -> i32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Call(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::WaitEvent(_) => 6,
            Self::RecordEvent(_) => 7,
            Self::Alloc(..) => 10,
            Self::Free(_) => 11,
            Self::Words(_) => 12,
            Self::Conditional(_) => 13,
        }
    }

    /// A label for a drawing.
    fn label(&self) -> String {
        match self {
            Self::Kernel(launch) => {
                format!("KERNEL\\n{} {:?} {:?}", launch.function.kernel.name(), launch.grid, launch.block)
            }
            Self::Copy(copy) => format!("MEMCPY\\n{} x {} x {}", copy.width, copy.height, copy.depth),
            Self::Fill(fill) => format!("MEMSET\\n{:#x} x {} x {}", fill.value, fill.width, fill.height),
            Self::Call(_) => "HOST".to_owned(),
            Self::Child(_) => "CHILD GRAPH".to_owned(),
            Self::Empty => "EMPTY".to_owned(),
            Self::WaitEvent(_) => "EVENT WAIT".to_owned(),
            Self::RecordEvent(_) => "EVENT RECORD".to_owned(),
            Self::Words(words) => format!("BATCH MEM OP\\n{}", words.len()),
            Self::Alloc(_, bytes, ..) => format!("MEM ALLOC\\n{bytes}"),
            Self::Free(_) => "MEM FREE".to_owned(),
            Self::Conditional(conditional) => format!("CONDITIONAL\\n{:?}", conditional.kind),
        }
    }
}

impl Node {
    pub(crate) fn payload(&self) -> Payload {
        self.payload.lock().clone()
    }

    /// Replaces what it does by something of the same kind.
    pub(crate) fn set_payload(&self, payload: Payload) -> Answer {
        let mut now = self.payload.lock();
        if now.number() != payload.number() {
            return Err(Code::INVALID_VALUE);
        }
        *now = payload;
        Ok(())
    }
}

impl Graph {
    pub(crate) fn new(handle: u64, owned: bool) -> Self {
        Self { handle, owned, captured: false, inner: Mutex::default() }
    }

    /// A graph that a capture fills.
    pub(crate) fn of_capture(handle: u64) -> Self {
        Self { captured: true, ..Self::new(handle, false) }
    }

    /// What is in it, for as long as the answer is kept.
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Adds a node behind others.
    pub(crate) fn add(
        &self,
        tables: &Tables,
        payload: Payload,
        after: &[(u64, EdgeData)],
    ) -> Answer<Arc<Node>> {
        let mut inner = self.inner.lock();
        inner.check_dependencies(after)?;
        let node = tables.nodes.add(|handle| Node {
            handle,
            graph: self.handle,
            payload: Mutex::new(payload),
            lent: Mutex::default(),
        });
        inner.nodes.push(Arc::clone(&node));
        let edges = after.iter().map(|(from, data)| Edge { from: *from, to: node.handle, data: *data });
        inner.edges.extend(edges);
        Ok(node)
    }

    /// A copy with nodes of its own, children and bodies too; gives the new handle of each node.
    pub(crate) fn copied(&self, tables: &Tables, owned: bool) -> Answer<(Arc<Self>, HashMap<u64, u64>)> {
        let copy = tables.graphs.add(|handle| Self::new(handle, owned));
        let inner = self.inner.lock().clone();
        let mut names = HashMap::new();
        for node in &inner.nodes {
            let payload = match node.payload() {
                Payload::Child(child) => Payload::Child(child.copied(tables, true)?.0),
                // Only one graph can have a condition.
                Payload::Conditional(_) => return Err(Code::NOT_SUPPORTED),
                other => other,
            };
            names.insert(node.handle, copy.add(tables, payload, &[])?.handle);
        }
        let renamed = inner.edges.iter().filter_map(|edge| {
            Some(Edge { from: *names.get(&edge.from)?, to: *names.get(&edge.to)?, data: edge.data })
        });
        copy.inner.lock().edges = renamed.collect();
        Ok((copy, names))
    }

    /// Ends the handles of it, its nodes, children and bodies.
    pub(crate) fn end(&self, tables: &Tables) {
        // Whoever still uses an object keeps it; only names end here, and each once.
        let _ = tables.graphs.remove(self.handle);
        for node in &self.inner.lock().nodes {
            let _ = tables.nodes.remove(node.handle);
            end_payload(tables, &node.payload());
        }
    }

    /// Takes a node out, with its edges.
    pub(crate) fn remove(&self, tables: &Tables, node: &Node) -> Answer {
        let mut inner = self.inner.lock();
        inner.nodes.retain(|other| other.handle != node.handle);
        inner.edges.retain(|edge| edge.from != node.handle && edge.to != node.handle);
        tables.nodes.remove(node.handle)?;
        end_payload(tables, &node.payload());
        Ok(())
    }

    /// As Graphviz reads it.
    pub(crate) fn drawing(&self) -> String {
        let mut text = String::from("digraph dot {\n");
        self.draw_into(&mut text, "graph_0");
        text.push_str("}\n");
        text
    }

    fn draw_into(&self, text: &mut String, name: &str) {
        let inner = self.inner.lock().clone();
        text.push_str(&format!("subgraph cluster_{name} {{\nlabel=\"{name}\"\n"));
        let place: HashMap<u64, usize> =
            inner.nodes.iter().enumerate().map(|(at, node)| (node.handle, at)).collect();
        for (at, node) in inner.nodes.iter().enumerate() {
            let payload = node.payload();
            text.push_str(&format!(
                "\"{name}_node_{at}\" [shape=record, label=\"{at}\\n{}\"];\n",
                payload.label()
            ));
        }
        for edge in &inner.edges {
            if let (Some(from), Some(to)) = (place.get(&edge.from), place.get(&edge.to)) {
                let style = if edge.data == PLAIN_EDGE { "" } else { " [style=dashed]" };
                text.push_str(&format!("\"{name}_node_{from}\" -> \"{name}_node_{to}\"{style};\n"));
            }
        }
        text.push_str("}\n");
        for (at, node) in inner.nodes.iter().enumerate() {
            match node.payload() {
                Payload::Child(child) => child.draw_into(text, &format!("{name}_{at}")),
                Payload::Conditional(conditional) => {
                    for (number, body) in conditional.bodies.iter().enumerate() {
                        body.draw_into(text, &format!("{name}_{at}_body_{number}"));
                    }
                }
                _ => {}
            }
        }
    }
}

fn end_payload(tables: &Tables, payload: &Payload) {
    match payload {
        Payload::Child(child) => child.end(tables),
        Payload::Conditional(conditional) => conditional.bodies.iter().for_each(|body| body.end(tables)),
        _ => {}
    }
}

impl Inner {
    /// Every one of them a node of this graph, none twice.
    fn check_dependencies(&self, after: &[(u64, EdgeData)]) -> Answer {
        let mut seen = BTreeSet::new();
        for (from, data) in after {
            let known = self.nodes.iter().find(|node| node.handle == *from);
            let known = known.ok_or(Code::INVALID_VALUE)?;
            let kernel = matches!(*known.payload.lock(), Payload::Kernel(_));
            // Only kernels have other ports than the full completion.
            if !seen.insert(*from) || data[1] != 0 || data[2] > 1 || data[0] > 2 || data[0] != 0 && !kernel {
                return Err(Code::INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Adds an edge; `INVALID_VALUE` for one that is there or leads to where it comes from. One that closes a larger circle
    /// is found when the graph is instantiated, as measured.
    pub(crate) fn connect(&mut self, edge: Edge) -> Answer {
        self.check_dependencies(&[(edge.from, edge.data)])?;
        self.check_dependencies(&[(edge.to, PLAIN_EDGE)])?;
        let there = self.edges.iter().any(|other| (other.from, other.to) == (edge.from, edge.to));
        if there || edge.from == edge.to {
            return Err(Code::INVALID_VALUE);
        }
        self.edges.push(edge);
        Ok(())
    }

    /// Takes an edge away; one that is not there is no error, as measured.
    pub(crate) fn disconnect(&mut self, edge: Edge) -> Answer {
        self.check_dependencies(&[(edge.from, edge.data)])?;
        self.check_dependencies(&[(edge.to, PLAIN_EDGE)])?;
        self.edges.retain(|other| *other != edge);
        Ok(())
    }

    /// Whether a path leads from one node to another.
    pub(crate) fn reaches(&self, from: u64, to: u64) -> bool {
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(node) = open.pop() {
            if node == to {
                return true;
            }
            if seen.insert(node) {
                open.extend(self.edges.iter().filter(|edge| edge.from == node).map(|edge| edge.to));
            }
        }
        false
    }

    /// Nodes that no edge leads to.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Arc<Node>> + Clone {
        self.nodes.iter().filter(|node| self.edges.iter().all(|edge| edge.to != node.handle))
    }
}
