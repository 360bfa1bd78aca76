//! Stream capture: work that becomes nodes of a graph, and what ends a capture, by the rules measured on hardware.
//!
//! A capture belongs to its stream and, unless it is relaxed, to the thread that began it. What the driver cannot do
//! while one is going on answers `STREAM_CAPTURE_UNSUPPORTED` and invalidates it: later work and the end answer
//! `STREAM_CAPTURE_INVALIDATED`.

use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::event::{Event, Recorded};
use crate::graph::{EdgeData, Graph, PLAIN_EDGE, PROGRAMMATIC_EDGE, Payload, WordWork};
use crate::pool::Pool;
use crate::stream::{Role, Stream};
use crate::work::{Call, Op};

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

    fn number(self) -> i32 {
        match self {
            Self::Global => 0,
            Self::ThreadLocal => 1,
            Self::Relaxed => 2,
        }
    }
}

thread_local! {
    /// How the thread's own calls go with captures.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// The nodes that the next one follows.
pub(crate) type Front = Vec<(u64, EdgeData)>;

/// A capture that is going on, or was.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    /// The stream it began in.
    origin: Arc<Stream>,
    thread: ThreadId,
    mode: Mode,
    pub(crate) graph: Arc<Graph>,
    /// Whether the graph was there before.
    into: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    invalidated: bool,
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
    pub(crate) fn is_invalidated(&self) -> bool {
        self.state.lock().invalidated
    }

    /// Whether it is going on and can be ended with a graph.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_invalidated() && self.origin.capture().is_some_and(|now| now.id == self.id)
    }

    /// Ends it: nothing can be captured any more.
    pub(crate) fn invalidate(&self) {
        self.state.lock().invalidated = true;
    }

    /// Adds a node behind the stream's front.
    fn record(&self, driver: &Driver, stream: &Arc<Stream>, payload: Payload) -> Answer<u64> {
        let mut state = self.state.lock();
        if state.invalidated {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let (_, front) = state.fronts.get_mut(&stream.handle).ok_or(Code::STREAM_CAPTURE_INVALIDATED)?;
        let after = edges_to(driver, front, &payload);
        let node = self.graph.add(driver, payload, &after)?;
        *front = vec![(node.handle, PLAIN_EDGE)];
        Ok(node.handle)
    }

    /// The front of a stream that takes part.
    fn front(&self, stream: &Stream) -> Front {
        self.state.lock().fronts.get(&stream.handle).map(|(_, front)| front.clone()).unwrap_or_default()
    }

    pub(crate) fn info(&self, stream: &Stream) -> Info {
        let mut state = self.state.lock();
        let front = state.fronts.get(&stream.handle).map(|(_, front)| front.clone()).unwrap_or_default();
        let nodes: Box<[u64]> = front.iter().map(|(node, _)| *node).collect();
        let edges: Box<[EdgeData]> = front.iter().map(|(_, data)| *data).collect();
        let info = Info {
            id: self.id,
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
fn edges_to(driver: &Driver, front: &Front, payload: &Payload) -> Front {
    let early = matches!(payload, Payload::Kernel(launch) if launch.shape.programmatic);
    let kernel =
        |node: u64| driver.nodes.get(node).is_ok_and(|node| matches!(node.payload(), Payload::Kernel(_)));
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

/// Queues work, or captures it.
pub(crate) fn submit(driver: &Driver, stream: &Arc<Stream>, op: Op) -> Answer<u64> {
    let Some(capture) = stream.capture() else {
        let context = stream.context()?;
        if stream.role == Role::Legacy {
            forbid_legacy_work(&context)?;
        }
        return context.submit(stream, op);
    };
    let payload = match op {
        Op::Copy(copy) => Payload::Copy(copy),
        Op::Fill(fill) => Payload::Fill(fill),
        Op::Kernel(launch) => Payload::Kernel(launch),
        Op::Call(call @ Call::Host(..)) => Payload::Call(call),
        Op::Write(word) => Payload::Words(vec![WordWork::Write(word)]),
        Op::Await(word, until) => Payload::Words(vec![WordWork::Await(word, until)]),
        Op::Free(address) => Payload::Free(address),
        _ => {
            capture.invalidate();
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
    };
    capture.record(driver, stream, payload)
}

/// Adds a node that no plain work makes.
pub(crate) fn record(driver: &Driver, stream: &Arc<Stream>, payload: Payload) -> Answer<u64> {
    stream.capture().ok_or(Code::ILLEGAL_STATE)?.record(driver, stream, payload)
}

/// Memory in stream order: at once, or as a node.
pub(crate) fn allocate_in_stream(
    driver: &Driver,
    stream: &Arc<Stream>,
    pool: &Pool,
    bytes: u64,
) -> Answer<u64> {
    let context = stream.context()?;
    let Some(capture) = stream.capture() else { return driver.allocate_from(&context, pool, bytes) };
    if bytes == 0 || pool.ordinal != context.device.ordinal {
        return Err(Code::INVALID_VALUE);
    }
    let address = driver.space.arena.take(bytes)?;
    capture.record(driver, stream, Payload::Alloc(address, bytes, context.handle))?;
    Ok(address)
}

/// `cuStreamBeginCapture`, also to a graph that is there.
pub(crate) fn begin(
    driver: &Driver,
    stream: &Arc<Stream>,
    mode: Mode,
    into: Option<(Arc<Graph>, Front)>,
) -> Answer {
    if stream.role == Role::Legacy {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    stream.device.check()?;
    if stream.is_capturing() {
        return Err(Code::ILLEGAL_STATE);
    }
    let is_into = into.is_some();
    let (graph, front) = match into {
        Some(into) => into,
        None => (driver.graphs.add(Graph::of_capture), Front::new()),
    };
    let mut state = State::default();
    state.fronts.insert(stream.handle, (Arc::clone(stream), front));
    let capture = Arc::new(Capture {
        id: driver.next_capture(),
        origin: Arc::clone(stream),
        thread: thread::current().id(),
        mode,
        graph,
        into: is_into,
        state: Mutex::new(state),
    });
    driver.captures.lock().push(Arc::clone(&capture));
    stream.set_capture(Some(capture));
    Ok(())
}

/// `cuStreamEndCapture`: the graph's handle.
pub(crate) fn end(driver: &Driver, stream: &Arc<Stream>) -> Answer<u64> {
    let capture = stream.capture().ok_or(Code::ILLEGAL_STATE)?;
    if !Arc::ptr_eq(&capture.origin, stream) {
        capture.invalidate();
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    // Ending it in the wrong thread ends it all the same, as measured.
    let stranger = capture.mode != Mode::Relaxed && capture.thread != thread::current().id();
    driver.captures.lock().retain(|other| other.id != capture.id);
    let (invalidated, fronts) = {
        let mut state = capture.state.lock();
        (state.invalidated, std::mem::take(&mut state.fronts))
    };
    fronts.values().for_each(|(stream, _)| stream.set_capture(None));
    let end = fronts.get(&stream.handle).map(|(_, front)| front.clone()).unwrap_or_default();
    let inner = capture.graph.inner().clone();
    let joined =
        |front: &Front| front.iter().all(|(node, _)| end.iter().any(|(last, _)| inner.reaches(*node, *last)));
    let code = match fronts.values().all(|(_, front)| joined(front)) {
        _ if stranger => Code::STREAM_CAPTURE_WRONG_THREAD,
        _ if invalidated => Code::STREAM_CAPTURE_INVALIDATED,
        false => Code::STREAM_CAPTURE_UNJOINED,
        true => return Ok(capture.graph.handle),
    };
    if !capture.into {
        capture.graph.end(driver);
    }
    Err(code)
}

/// `cuEventRecord` in a stream that is being captured.
pub(crate) fn record_event(capture: &Arc<Capture>, stream: &Stream, event: &Event) -> Answer {
    if capture.is_invalidated() {
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    event.set_recorded(Recorded::Capture(Arc::clone(capture), capture.front(stream)));
    Ok(())
}

/// `cuStreamWaitEvent` where the stream, the event or both are being captured.
pub(crate) fn wait_event(stream: &Arc<Stream>, event: &Event) -> Answer {
    match (stream.capture(), event.recorded()) {
        (Some(own), Recorded::Capture(other, front)) => {
            if own.id != other.id {
                own.invalidate();
                other.invalidate();
                return Err(Code::STREAM_CAPTURE_MERGE);
            }
            let mut state = own.state.lock();
            if state.invalidated {
                return Err(Code::STREAM_CAPTURE_INVALIDATED);
            }
            if let Some((_, now)) = state.fronts.get_mut(&stream.handle) {
                join(now, &front);
            }
            Ok(())
        }
        (Some(own), Recorded::Stream(_)) => {
            // Work outside cannot be waited for inside.
            own.invalidate();
            Err(Code::STREAM_CAPTURE_ISOLATION)
        }
        (Some(_), Recorded::Never) => Ok(()),
        (None, Recorded::Capture(other, front)) => {
            if !other.is_live() {
                return Err(Code::INVALID_VALUE);
            }
            if stream.role == Role::Legacy {
                other.invalidate();
                return Err(Code::STREAM_CAPTURE_IMPLICIT);
            }
            other.state.lock().fronts.insert(stream.handle, (Arc::clone(stream), front));
            stream.set_capture(Some(other));
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

/// What allocates or frees, as long as a capture forbids it to this thread.
pub(crate) fn forbid_unsafe_call(driver: &Driver) -> Answer {
    let (own, here) = (MODE.with(Cell::get), thread::current().id());
    let captures = driver.captures.lock();
    let forbids = |capture: &&Arc<Capture>| match (own, capture.mode) {
        (Mode::Relaxed, _) | (_, Mode::Relaxed) => false,
        (Mode::ThreadLocal, _) | (_, Mode::ThreadLocal) => capture.thread == here,
        (Mode::Global, Mode::Global) => true,
    };
    let mut forbidden = false;
    for capture in captures.iter().filter(forbids) {
        capture.invalidate();
        forbidden = true;
    }
    if forbidden { Err(Code::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// What waits for a whole context: invalidates every capture in it, from any thread.
pub(crate) fn forbid_in_context(driver: &Driver, context: &Context) -> Answer {
    let captures = driver.captures.lock();
    let here = captures.iter().filter(|capture| capture.origin.context_handle == context.handle);
    let mut forbidden = false;
    for capture in here {
        capture.invalidate();
        forbidden = true;
    }
    if forbidden { Err(Code::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// What asks for or waits for a stream: invalidates the capture it takes part in, from any thread, and of other streams
/// what a capture of this thread does not allow.
pub(crate) fn forbid_on_stream(driver: &Driver, stream: &Stream) -> Answer {
    match stream.capture() {
        Some(capture) => {
            capture.invalidate();
            Err(Code::STREAM_CAPTURE_UNSUPPORTED)
        }
        None => forbid_unsafe_call(driver),
    }
}

/// Work of the legacy stream would wait for blocking streams, which a captured one cannot be waited for.
pub(crate) fn forbid_legacy_work(context: &Context) -> Answer {
    let captured = context.streams().into_iter().filter(|stream| stream.is_blocking());
    let mut forbidden = false;
    for capture in captured.filter_map(|stream| stream.capture()) {
        capture.invalidate();
        forbidden = true;
    }
    if forbidden { Err(Code::STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
}

/// The end of a stream that is being captured.
pub(crate) fn abandon(driver: &Driver, stream: &Stream) {
    if let Some(capture) = stream.capture() {
        capture.invalidate();
        if std::ptr::eq(&*capture.origin, stream) {
            driver.captures.lock().retain(|other| other.id != capture.id);
            let fronts = std::mem::take(&mut capture.state.lock().fronts);
            fronts.values().for_each(|(stream, _)| stream.set_capture(None));
        }
    }
}

/// `cuThreadExchangeStreamCaptureMode`: sets the thread's mode and gives the one before.
pub(crate) fn exchange_mode(mode: Mode) -> i32 {
    MODE.with(|now| now.replace(mode)).number()
}
