//! Executable graphs: instantiating, launching, patching, updating.

use std::ffi::c_int;
use std::sync::Arc;

use crate::boundary::{In, Out, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::exec::{Exec, Plan};
use crate::exports::copies::Copy3;
use crate::exports::graph_nodes::{FillParams, HostParams, KernelParams, NodeParams, any_payload};
use crate::graph::Payload;
use crate::space::Owner;
use crate::stream::Stream;
use crate::work::Op;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstantiateParams {
    flags: u64,
    stream: u64,
    node: u64,
    result: c_int,
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateResult {
    result: c_int,
    node: u64,
    from: u64,
}

exports! {
    Initialised cuGraphInstantiateWithFlags(exec: Out<u64>, graph: u64, flags: u64) since 11040,
    "Auto free on launch; upload and node priority change nothing; launch from the device is NOT_SUPPORTED. Events in the body of a condition are INVALID_VALUE. A graph with conditions can be instantiated once at a time.", |driver| {
        exec.required()?;
        exec.put(Exec::new(&driver.execs, &*driver.tables.graphs.get(graph)?, flags)?.handle)
    }

    Initialised cuGraphInstantiateWithParams(exec: Out<u64>, graph: u64, params: Out<InstantiateParams>) since 12000,
    "As before, with the result.", |driver| {
        exec.required()?;
        let given = params.current()?;
        let made = Exec::new(&driver.execs, &*driver.tables.graphs.get(graph)?, given.flags);
        let result = c_int::from(made.is_err());
        params.put(InstantiateParams { node: 0, result, ..given })?;
        exec.put(made?.handle)
    }

    Initialised cuGraphExecDestroy(exec: u64) since 10000,
    "Returns at once; replays that are queued are still done.", |driver| {
        driver.execs.remove(exec).map(|_| ())
    }

    Initialised cuGraphExecGetFlags(exec: u64, flags: Out<u64>) since 12000,
    "As it was made with.", |driver| {
        flags.put(driver.execs.get(exec)?.flags)
    }

    Live cuGraphLaunch(exec: u64, stream: u64) since 10000,
    "One piece of work in stream order: nodes one after the other in an order that the edges allow. Replays of one executable follow each other. Into a stream that is being captured it is not simulated: the capture is invalidated.", |driver| {
        let (exec, stream) = (driver.execs.get(exec)?, driver.stream(stream)?);
        if stream.is_capturing() {
            return capture_launch(driver, &exec, &stream);
        }
        exec.launch(driver, &driver.conditions, &driver.context_of(&stream)?, &stream)
    }

    Live cuGraphUpload(exec: u64, stream: u64) since 11010,
    "Checked and without effect: there is nothing to upload.", |driver| {
        driver.execs.get(exec)?;
        let stream = driver.stream(stream)?;
        if let Some(capture) = stream.capture() {
            capture.invalidate();
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    Initialised cuGraphExecKernelNodeSetParams_v2(exec: u64, node: u64, params: In<KernelParams>) since 12000,
    "For later replays; the function must be of the same context. INVALID_CONTEXT on a thread without a current one: a real driver dies there.", |driver| {
        Context::current()?;
        let new = params.get()?.payload(driver)?;
        driver.execs.get(exec)?.change(node, |step| match (&step.payload, new) {
            (Payload::Kernel(was), Payload::Kernel(now)) if was.function.context == now.function.context => {
                let shape = was.shape;
                let launch = crate::function::Launch { shape, ..crate::function::Launch::clone(&now) };
                step.payload = Payload::Kernel(Arc::new(launch));
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        })
    }

    Initialised cuGraphExecMemcpyNodeSetParams(exec: u64, node: u64, copy: In<Copy3>, context: u64) since 10020,
    "For later replays; kinds of memory and dimensions stay.", |driver| {
        let _ = context;
        let new = copy.get()?.read(driver)?;
        driver.space.check_copy(&new)?;
        driver.execs.get(exec)?.change(node, |step| match &step.payload {
            Payload::Copy(was) if was.is_like(&new) => {
                step.payload = Payload::Copy(new);
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        })
    }

    Initialised cuGraphExecMemsetNodeSetParams(exec: u64, node: u64, params: In<FillParams>, context: u64) since 10020,
    "For later replays; the number of dimensions stays.", |driver| {
        let _ = context;
        let new = params.get()?.payload(driver)?;
        driver.execs.get(exec)?.change(node, |step| match (&step.payload, &new) {
            (Payload::Fill(was), Payload::Fill(now)) if (was.height > 1) == (now.height > 1) => {
                step.payload = new;
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        })
    }

    Initialised cuGraphExecHostNodeSetParams(exec: u64, node: u64, params: In<HostParams>) since 10020,
    "For later replays.", |driver| {
        same_kind(driver, exec, node, params.get()?.payload()?)
    }

    Initialised cuGraphExecEventRecordNodeSetEvent(exec: u64, node: u64, event: u64) since 11010,
    "For later replays.", |driver| {
        same_kind(driver, exec, node, Payload::RecordEvent(driver.events.get(event)?))
    }

    Initialised cuGraphExecEventWaitNodeSetEvent(exec: u64, node: u64, event: u64) since 11010,
    "For later replays.", |driver| {
        same_kind(driver, exec, node, Payload::WaitEvent(driver.events.get(event)?))
    }

    Initialised cuGraphExecNodeSetParams(exec: u64, node: u64, params: In<NodeParams>) since 12020,
    "Kernel, memcpy, memset, host and event nodes.", |driver| {
        let kind = In::<c_int>::inner(params.address()).get()?;
        if matches!(kind, 4 | 13) {
            return Err(Code::NOT_SUPPORTED);
        }
        same_kind(driver, exec, node, any_payload(driver, kind, params.address() + 16)?)
    }

    Initialised cuGraphExecChildGraphNodeSetParams(exec: u64, node: u64, child: u64) since 11010,
    "Everything of a child of the same shape.", |driver| {
        let child = driver.tables.graphs.get(child)?;
        let plan = Plan::of(&child)?;
        driver.execs.get(exec)?.change(node, |step| {
            let inner = step.inner.first_mut().filter(|_| matches!(step.payload, Payload::Child(_)));
            let inner = inner.ok_or(Code::INVALID_VALUE)?;
            *inner = Arc::new(inner.taken_over(&plan).map_err(|_| Code::INVALID_VALUE)?);
            Ok(())
        })
    }

    Initialised cuGraphNodeSetEnabled(exec: u64, node: u64, enabled: u32) since 11060,
    "Kernel, memcpy and memset nodes.", |driver| {
        driver.execs.get(exec)?.change(node, |step| {
            if !matches!(step.payload, Payload::Kernel(_) | Payload::Copy(_) | Payload::Fill(_)) {
                return Err(Code::INVALID_VALUE);
            }
            step.enabled = enabled != 0;
            Ok(())
        })
    }

    Initialised cuGraphNodeGetEnabled(exec: u64, node: u64, enabled: Out<u32>) since 11060,
    "As it was set.", |driver| {
        let plan = driver.execs.get(exec)?.plan();
        let step = plan.steps.iter().find(|step| step.node == node).ok_or(Code::INVALID_VALUE)?;
        enabled.put(step.enabled.into())
    }

    Initialised cuGraphExecUpdate_v2(exec: u64, graph: u64, result: Out<UpdateResult>) since 12000,
    "Nodes are matched in the order in which they were added. What differs first is told, and the executable stays as it was.", |driver| {
        let (exec, graph) = (driver.execs.get(exec)?, driver.tables.graphs.get(graph)?);
        match exec.update(&graph)? {
            None => {
                result.offer(UpdateResult { result: 0, node: 0, from: 0 });
                Ok(())
            }
            Some(found) => {
                result.offer(UpdateResult { result: found.result, node: found.node, from: found.from });
                Err(Code::GRAPH_EXEC_UPDATE_FAILURE)
            }
        }
    }

    Initialised cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, value: Out<u64>) since 11040,
    "Memory of allocation nodes: what is used is what is reserved.", |driver| {
        let device = driver.device(device)?;
        let now = driver.space.bytes_of(device.ordinal, Owner::Pool(0));
        match attribute {
            0 | 2 => value.put(now),
            1 | 3 => value.put(device.most_graph_bytes.load(std::sync::atomic::Ordering::Relaxed).max(now)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    Initialised cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, value: In<u64>) since 11040,
    "Resets high-water marks.", |driver| {
        let device = driver.device(device)?;
        if !matches!(attribute, 1 | 3) || value.get()? != 0 {
            return Err(Code::INVALID_VALUE);
        }
        device.most_graph_bytes.store(0, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    Initialised cuDeviceGraphMemTrim(device: c_int) since 11040,
    "Without effect: nothing is kept back.", |driver| {
        driver.device(device).map(|_| ())
    }
}

fn same_kind(driver: &Driver, exec: u64, node: u64, new: Payload) -> Answer {
    driver.execs.get(exec)?.change(node, |step| {
        let alike = match (&step.payload, &new) {
            (Payload::Copy(was), Payload::Copy(now)) => was.is_like(now),
            (was, now) => was.number() == now.number(),
        };
        if !alike {
            return Err(Code::INVALID_VALUE);
        }
        step.payload = new;
        Ok(())
    })
}

/// A replay inside a capture is not simulated: it would be a child graph of the graph that the executable came from,
/// which may be gone.
fn capture_launch(driver: &Driver, exec: &Exec, stream: &Arc<Stream>) -> Answer {
    capture::submit(driver, stream, Op::Graph(exec.plan())).map(|_| ())
}
