//! A capture: the graph that it fills, and the nodes that each of its streams has come to.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use crate::capturing::{Capturing, EdgeData, Front, PLAIN_EDGE, PROGRAMMATIC_EDGE};
use crate::codes::{Answer, Code};
use crate::graph::{Graph, Payload, Tables};
use crate::stream::Stream;

/// `CUstreamCaptureMode`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// No thread may do what a capture does not allow.
    Global,
    /// The capturing thread may not.
    ThreadLocal,
    /// All may.
    Relaxed,
}

impl Mode {
    pub(crate) fn of(number: i32) -> Answer<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Global => 0,
            Self::ThreadLocal => 1,
            Self::Relaxed => 2,
        }
    }
}

/// A capture that is going on, or was.
#[derive(Debug)]
pub(crate) struct Capture {
    /// What streams and events know of it.
    pub(crate) mark: Arc<Capturing>,
    /// The stream it began in.
    pub(crate) origin: Arc<Stream>,
    pub(crate) thread: ThreadId,
    pub(crate) mode: Mode,
    pub(crate) graph: Arc<Graph>,
    /// Whether the graph was there before.
    pub(crate) into: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By stream.
    fronts: HashMap<u64, (Arc<Stream>, Front)>,
    /// Lists that the program has been given pointers to.
    lent: Vec<LentFront>,
}

/// Nodes and the data of their edges.
type LentFront = (Box<[u64]>, Box<[EdgeData]>);

/// What `cuStreamGetCaptureInfo` tells.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) id: u64,
    pub(crate) graph: u64,
    /// Where the driver keeps the front, and how long it is.
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    pub(crate) count: usize,
}

impl Capture {
    /// Begins at a stream, with a graph that the first node is put into behind others.
    pub(crate) fn new(
        id: u64,
        origin: &Arc<Stream>,
        mode: Mode,
        (graph, front, into): (Arc<Graph>, Front, bool),
    ) -> Self {
        let mut state = State::default();
        state.fronts.insert(origin.handle, (Arc::clone(origin), front));
        Self {
            mark: Arc::new(Capturing::new(id)),
            origin: Arc::clone(origin),
            thread: thread::current().id(),
            mode,
            graph,
            into,
            state: Mutex::new(state),
        }
    }

    /// Lets a stream take part from a front on.
    pub(crate) fn admit(&self, stream: &Arc<Stream>, front: Front) {
        self.state.lock().fronts.insert(stream.handle, (Arc::clone(stream), front));
        stream.set_capture(Some(Arc::clone(&self.mark)));
    }

    /// Lets a stream's next node follow more nodes.
    pub(crate) fn join(&self, stream: &Stream, front: &Front) {
        if let Some((_, now)) = self.state.lock().fronts.get_mut(&stream.handle) {
            join(now, front);
        }
    }

    /// Ends it: its streams are free. The front of each is told, the origin's first.
    pub(crate) fn finish(&self) -> (Front, Vec<Front>) {
        self.mark.finish();
        let mut fronts = std::mem::take(&mut self.state.lock().fronts);
        fronts.values().for_each(|(stream, _)| stream.set_capture(None));
        let own = fronts.remove(&self.origin.handle).map(|(_, front)| front).unwrap_or_default();
        (own, fronts.into_values().map(|(_, front)| front).collect())
    }

    /// Adds a node behind the stream's front.
    pub(crate) fn record(&self, tables: &Tables, stream: &Arc<Stream>, payload: Payload) -> Answer<u64> {
        let mut state = self.state.lock();
        if self.mark.is_invalidated() {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let (_, front) = state.fronts.get_mut(&stream.handle).ok_or(Code::STREAM_CAPTURE_INVALIDATED)?;
        let after = edges_to(tables, front, &payload);
        let node = self.graph.add(tables, payload, &after)?;
        *front = vec![(node.handle, PLAIN_EDGE)];
        Ok(node.handle)
    }

    /// The front of a stream that takes part.
    pub(crate) fn front(&self, stream: &Stream) -> Front {
        self.state.lock().fronts.get(&stream.handle).map(|(_, front)| front.clone()).unwrap_or_default()
    }

    /// What the program may ask of it.
    pub(crate) fn info(&self, stream: &Stream) -> Info {
        let mut state = self.state.lock();
        let front = state.fronts.get(&stream.handle).map(|(_, front)| front.clone()).unwrap_or_default();
        let nodes: Box<[u64]> = front.iter().map(|(node, _)| *node).collect();
        let edges: Box<[EdgeData]> = front.iter().map(|(_, data)| *data).collect();
        let info = Info {
            id: self.mark.id,
            graph: self.graph.handle,
            nodes: nodes.as_ptr().expose_provenance(),
            edges: edges.as_ptr().expose_provenance(),
            count: front.len(),
        };
        state.lent.push((nodes, edges));
        info
    }

    /// Changes what the next node of a stream follows.
    pub(crate) fn set_front(&self, stream: &Stream, front: Front, add: bool) -> Answer {
        let known = |node: &u64| self.graph.inner().nodes.iter().any(|other| other.handle == *node);
        if !front.iter().all(|(node, _)| known(node)) {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = self.state.lock();
        let (_, now) = state.fronts.get_mut(&stream.handle).ok_or(Code::ILLEGAL_STATE)?;
        if !add {
            now.clear();
        }
        join(now, &front);
        Ok(())
    }
}

/// The edges to a new node: a kernel that may start early follows kernels by their programmatic port.
fn edges_to(tables: &Tables, front: &Front, payload: &Payload) -> Front {
    let early = matches!(payload, Payload::Kernel(launch) if launch.shape.programmatic);
    let kernel =
        |node: u64| tables.nodes.get(node).is_ok_and(|node| matches!(node.payload(), Payload::Kernel(_)));
    let edge = |(node, data): &(u64, EdgeData)| {
        (*node, if early && kernel(*node) && *data == PLAIN_EDGE { PROGRAMMATIC_EDGE } else { *data })
    };
    front.iter().map(edge).collect()
}

/// Adds what is not there.
fn join(front: &mut Front, more: &Front) {
    for edge in more {
        if front.iter().all(|(node, _)| *node != edge.0) {
            front.push(*edge);
        }
    }
}
