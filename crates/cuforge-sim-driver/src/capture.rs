//! Stream capture: work that becomes nodes of a graph, and what ends a capture, by the rules measured on hardware.
//!
//! A capture belongs to its stream and, unless it is relaxed, to the thread that began it. What the driver cannot do
//! while one is going on answers `STREAM_CAPTURE_UNSUPPORTED` and invalidates it: later work and the end answer
//! `STREAM_CAPTURE_INVALIDATED`.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use crate::captured::{Capture, Mode};
use crate::capturing::Front;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::event::{Event, Recorded};
use crate::graph::{Graph, Payload, WordWork};
use crate::pool::Pool;
use crate::stream::{Role, Stream};
use crate::work::{Call, Op};

thread_local! {
    /// How the thread's own calls go with captures.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Queues work, or captures it.
pub(crate) fn submit(driver: &Driver, stream: &Arc<Stream>, op: Op) -> Answer<u64> {
    let Some(capture) = driver.capture_of(stream) else {
        let context = driver.context_of(stream)?;
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
            capture.mark.invalidate();
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
    };
    capture.record(&driver.tables, stream, payload)
}

/// Adds a node that no plain work makes.
pub(crate) fn record(driver: &Driver, stream: &Arc<Stream>, payload: Payload) -> Answer<u64> {
    driver.capture_of(stream).ok_or(Code::ILLEGAL_STATE)?.record(&driver.tables, stream, payload)
}

/// Memory in stream order: at once, or as a node.
pub(crate) fn allocate_in_stream(
    driver: &Driver,
    stream: &Arc<Stream>,
    pool: &Pool,
    bytes: u64,
) -> Answer<u64> {
    let context = driver.context_of(stream)?;
    let Some(capture) = driver.capture_of(stream) else { return driver.allocate_from(&context, pool, bytes) };
    if bytes == 0 || pool.ordinal != context.device.ordinal {
        return Err(Code::INVALID_VALUE);
    }
    let address = driver.space.arena.take(bytes)?;
    driver.space.promise(address, bytes);
    capture.record(&driver.tables, stream, Payload::Alloc(address, bytes, context.handle))?;
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
    let into = match into {
        Some((graph, front)) => (graph, front, true),
        None => (driver.tables.graphs.add(Graph::of_capture), Front::new(), false),
    };
    let capture = Arc::new(Capture::new(driver.next_capture(), stream, mode, into));
    stream.set_capture(Some(Arc::clone(&capture.mark)));
    driver.captures.lock().push(capture);
    Ok(())
}

/// `cuStreamEndCapture`: the graph's handle.
pub(crate) fn end(driver: &Driver, stream: &Arc<Stream>) -> Answer<u64> {
    let capture = driver.capture_of(stream).ok_or(Code::ILLEGAL_STATE)?;
    if !Arc::ptr_eq(&capture.origin, stream) {
        capture.mark.invalidate();
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    // Ending it in the wrong thread ends it all the same, as measured.
    let stranger = capture.mode != Mode::Relaxed && capture.thread != thread::current().id();
    driver.captures.lock().retain(|other| other.mark.id != capture.mark.id);
    let (end, others) = capture.finish();
    let inner = capture.graph.inner().clone();
    let joined =
        |front: &Front| front.iter().all(|(node, _)| end.iter().any(|(last, _)| inner.reaches(*node, *last)));
    let code = match others.iter().all(joined) {
        _ if stranger => Code::STREAM_CAPTURE_WRONG_THREAD,
        _ if capture.mark.is_invalidated() => Code::STREAM_CAPTURE_INVALIDATED,
        false => Code::STREAM_CAPTURE_UNJOINED,
        true => return Ok(capture.graph.handle),
    };
    if !capture.into {
        capture.graph.end(&driver.tables);
    }
    Err(code)
}

/// `cuEventRecord` in a stream that is being captured.
pub(crate) fn record_event(capture: &Capture, stream: &Stream, event: &Event) -> Answer {
    if capture.mark.is_invalidated() {
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    event.set_recorded(Recorded::Capture(Arc::clone(&capture.mark), capture.front(stream)));
    Ok(())
}

/// `cuStreamWaitEvent` where the stream, the event or both are being captured.
pub(crate) fn wait_event(driver: &Driver, stream: &Arc<Stream>, event: &Event) -> Answer {
    match (driver.capture_of(stream), event.recorded()) {
        (Some(own), Recorded::Capture(other, front)) => {
            if own.mark.id != other.id {
                own.mark.invalidate();
                other.invalidate();
                return Err(Code::STREAM_CAPTURE_MERGE);
            }
            if own.mark.is_invalidated() {
                return Err(Code::STREAM_CAPTURE_INVALIDATED);
            }
            own.join(stream, &front);
            Ok(())
        }
        (Some(own), Recorded::Stream(_)) => {
            // Work outside cannot be waited for inside.
            own.mark.invalidate();
            Err(Code::STREAM_CAPTURE_ISOLATION)
        }
        (None, Recorded::Capture(other, front)) => {
            if !other.is_live() {
                return Err(Code::INVALID_VALUE);
            }
            if stream.role == Role::Legacy {
                other.invalidate();
                return Err(Code::STREAM_CAPTURE_IMPLICIT);
            }
            driver.capture(other.id).ok_or(Code::INVALID_VALUE)?.admit(stream, front);
            Ok(())
        }
        (Some(_) | None, _) => Ok(()),
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
        capture.mark.invalidate();
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
        capture.mark.invalidate();
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
    if let Some(capture) = driver.capture_of(stream) {
        capture.mark.invalidate();
        if std::ptr::eq(&*capture.origin, stream) {
            driver.captures.lock().retain(|other| other.mark.id != capture.mark.id);
            capture.finish();
        }
    }
}

/// `cuThreadExchangeStreamCaptureMode`: sets the thread's mode and gives the one before.
pub(crate) fn exchange_mode(mode: Mode) -> i32 {
    MODE.with(|now| now.replace(mode)).number()
}
