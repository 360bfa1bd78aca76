//! Streams: making, waiting, asking, functions of the program in them, and capture.

use std::ffi::c_int;
use std::sync::Arc;

use crate::boundary::{In, Out, exports, planned_failure};
use crate::capture;
use crate::captured::{Capture, Mode};
use crate::capturing::{EdgeData, PLAIN_EDGE};
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::stream::{NON_BLOCKING, PRIORITIES, Role, Stream};
use crate::work::{Call, Op};

exports! {
    Live cuStreamCreate(stream: Out<u64>, flags: u32) since 2000,
    "A queue with a thread of its own: streams really run beside each other and the host.", |driver| {
        create(driver, stream, flags, 0)
    }

    Live cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, priority: c_int) since 5050,
    "As `cuStreamCreate`; the priority is kept and decides nothing.", |driver| {
        create(driver, stream, flags, priority)
    }

    Initialised cuStreamDestroy_v2(stream: u64) since 4000,
    "Returns at once; what is queued is still done.", |driver| {
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        let stream = driver.streams.remove(stream)?;
        capture::abandon(driver, &stream);
        stream.close();
        stream.device.check()
    }

    Live cuStreamSynchronize(stream: u64) since 2000,
    "Waits; answers the code of a fault. Invalidates captures as `cuStreamQuery` does.", |driver| {
        let stream = driver.stream(stream)?;
        capture::forbid_on_stream(driver, &stream)?;
        driver.wait_for_stream(&stream, stream.submitted())
    }

    Live cuStreamQuery(stream: u64) since 2000,
    "NOT_READY while work is queued or running. Invalidates its own capture, and those that the calling thread must not disturb, as measured.", |driver| {
        let stream = driver.stream(stream)?;
        capture::forbid_on_stream(driver, &stream)?;
        stream.device.check()?;
        if !stream.is_idle() {
            return Err(Code::NOT_READY);
        }
        driver.order.host_saw(&stream.clock());
        stream.device.check()
    }

    Live cuStreamWaitEvent(stream: u64, event: u64, flags: u32) since 3020,
    "What was recorded when it is called. In captures it forks and joins; a record outside is isolated.", |driver| {
        let (stream, event) = (driver.stream(stream)?, driver.events.get(event)?);
        match flags {
            0 => {}
            // An external wait is a node.
            1 if stream.is_capturing() => {
                let payload = crate::graph::Payload::WaitEvent(event);
                return capture::record(driver, &stream, payload).map(|_| ());
            }
            1 => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        capture::wait_event(driver, &stream, &event)?;
        match event.mark() {
            Some(mark) if !stream.is_capturing() => capture::submit(driver, &stream, Op::Wait(mark)).map(|_| ()),
            _ => Ok(()),
        }
    }

    Live cuStreamGetFlags(stream: u64, flags: Out<u32>) since 5050,
    "The flags it was made with.", |driver| {
        flags.put(driver.stream(stream)?.flags)
    }

    Live cuStreamGetPriority(stream: u64, priority: Out<c_int>) since 5050,
    "The priority it was made with, in the range there is.", |driver| {
        priority.put(driver.stream(stream)?.priority)
    }

    Live cuStreamGetCtx(stream: u64, context: Out<u64>) since 9020,
    "The context it was made in.", |driver| {
        context.put(driver.stream(stream)?.context_handle)
    }

    Live cuStreamGetId(stream: u64, id: Out<u64>) since 12000,
    "A number that no other stream has.", |driver| {
        let stream = driver.stream(stream)?;
        id.put(stream.handle << 32 >> 32 | (stream.context_handle << 40))
    }

    Live cuStreamGetDevice(stream: u64, device: Out<c_int>) since 12080,
    "The device of its context.", |driver| {
        device.put(driver.stream(stream)?.device.ordinal as c_int)
    }

    Live cuLaunchHostFunc(stream: u64, function: Option<extern "C" fn(usize)>, data: usize) since 10000,
    "Called by the stream's thread, in order.", |driver| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        capture::submit(driver, &driver.stream(stream)?, Op::Call(Call::Host(function, data))).map(|_| ())
    }

    Live cuStreamAddCallback(stream: u64, function: Option<extern "C" fn(u64, c_int, usize)>, data: usize, flags: u32) since 5000,
    "Called by the stream's thread, in order; not in a capture.", |driver| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let call = Call::Callback(function, stream, data);
        capture::submit(driver, &driver.stream(stream)?, Op::Call(call)).map(|_| ())
    }

    Live cuStreamBeginCapture_v2(stream: u64, mode: c_int) since 10010,
    "Not of the legacy stream.", |driver| {
        capture::begin(driver, &driver.stream(stream)?, Mode::of(mode)?, None)
    }

    Live cuStreamBeginCaptureToGraph(stream: u64, graph: u64, dependencies: In<u64>, edges: In<EdgeData>, count: usize, mode: c_int) since 12030,
    "Adds to a graph that is there, behind some of its nodes.", |driver| {
        let graph = driver.tables.graphs.get(graph)?;
        let front = front(dependencies, edges, count)?;
        let known = |node: u64| graph.inner().nodes.iter().any(|other| other.handle == node);
        if !front.iter().all(|(node, _)| known(*node)) {
            return Err(Code::INVALID_VALUE);
        }
        capture::begin(driver, &driver.stream(stream)?, Mode::of(mode)?, Some((graph, front)))
    }

    Live cuStreamEndCapture(stream: u64, graph: Out<u64>) since 10000,
    "UNMATCHED, WRONG_THREAD, INVALIDATED and UNJOINED as by the rules; then the graph is null.", |driver| {
        graph.required()?;
        let planned = planned_failure();
        let mut ended = capture::end(driver, &driver.stream(stream)?);
        if let (Some(code), Ok(made)) = (planned, &ended) {
            driver.tables.graphs.get(*made)?.end(&driver.tables);
            ended = Err(code);
        }
        graph.put(*ended.as_ref().unwrap_or(&0))?;
        ended.map(|_| ())
    }

    Live cuStreamIsCapturing(stream: u64, status: Out<c_int>) since 10000,
    "None, active or invalidated.", |driver| {
        status.put(status_of(&*driver.stream(stream)?))
    }

    Live cuStreamGetCaptureInfo(stream: u64, status: Out<c_int>, id: Out<u64>) since 10010,
    "Status and id.", |driver| {
        info(driver, &*driver.stream(stream)?, status, id, [Out::inner(0), Out::inner(0), Out::inner(0)], Out::inner(0))
    }

    Live cuStreamGetCaptureInfo_v2(stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>) since 11030,
    "Status, id, graph and the nodes that the next one follows; the list stays for as long as the capture.", |driver| {
        info(driver, &*driver.stream(stream)?, status, id, [graph, nodes, Out::inner(0)], count)
    }

    Live cuStreamGetCaptureInfo_v3(stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) since 12030,
    "As `_v2`, with the data of the edges.", |driver| {
        info(driver, &*driver.stream(stream)?, status, id, [graph, nodes, edges], count)
    }

    Live cuStreamUpdateCaptureDependencies(stream: u64, nodes: In<u64>, count: usize, flags: u32) since 11030,
    "Adds to or replaces what the next node follows.", |driver| {
        update(driver, stream, front(nodes, In::inner(0), count)?, flags)
    }

    Live cuStreamUpdateCaptureDependencies_v2(stream: u64, nodes: In<u64>, edges: In<EdgeData>, count: usize, flags: u32) since 12030,
    "As before, with the data of the edges.", |driver| {
        update(driver, stream, front(nodes, edges, count)?, flags)
    }

    Initialised cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) since 10010,
    "How the thread's own calls go with captures.", |_driver| {
        let next = Mode::of(mode.current()?)?;
        mode.put(capture::exchange_mode(next))
    }
}

fn create(driver: &Driver, out: Out<u64>, flags: u32, priority: c_int) -> Answer {
    out.required()?;
    let context = Context::current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let handle = driver.streams.fresh();
    driver.streams.put(handle, context.make_stream(handle, flags, priority, Role::Made));
    out.put(handle)
}

/// Nodes with the data of their edges, which may be left out.
pub(super) fn front(nodes: In<u64>, edges: In<EdgeData>, count: usize) -> Answer<Vec<(u64, EdgeData)>> {
    let nodes = nodes.list(count)?;
    let edges = if edges.is_null() { vec![PLAIN_EDGE; count] } else { edges.list(count)? };
    Ok(nodes.into_iter().zip(edges).collect())
}

fn status_of(stream: &Stream) -> c_int {
    match stream.capture() {
        None => 0,
        Some(capture) if capture.is_invalidated() => 2,
        Some(_) => 1,
    }
}

fn info(
    driver: &Driver,
    stream: &Stream,
    status: Out<c_int>,
    id: Out<u64>,
    [graph, nodes, edges]: [Out<usize>; 3],
    count: Out<usize>,
) -> Answer {
    status.put(status_of(stream))?;
    let live = |capture: &Arc<Capture>| !capture.mark.is_invalidated();
    let Some(capture) = driver.capture_of(stream).filter(live) else { return Ok(()) };
    let info = capture.info(stream);
    id.offer(info.id);
    graph.offer(info.graph as usize);
    nodes.offer(info.nodes);
    edges.offer(info.edges);
    count.offer(info.count);
    Ok(())
}

fn update(driver: &Driver, stream: u64, front: Vec<(u64, EdgeData)>, flags: u32) -> Answer {
    let stream = driver.stream(stream)?;
    let capture = driver.capture_of(&stream).ok_or(Code::ILLEGAL_STATE)?;
    if capture.mark.is_invalidated() {
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    match flags {
        0 | 1 => capture.set_front(&stream, front, flags == 0),
        _ => Err(Code::INVALID_VALUE),
    }
}
