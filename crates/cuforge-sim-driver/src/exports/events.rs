//! Events.

use std::sync::Arc;

use crate::boundary::{Out, exports};
use crate::capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::event::Event;
use crate::graph::Payload;
use crate::work::Op;

exports! {
    Live cuEventCreate(event: Out<u64>, flags: u32) since 2000,
    "Timed or not; between processes is NOT_SUPPORTED.", |driver| {
        event.required()?;
        let context = Context::current()?;
        let handle = driver.events.fresh();
        driver.events.put(handle, Arc::new(Event::new(handle, context.handle, flags)?));
        event.put(handle)
    }

    Initialised cuEventDestroy_v2(event: u64) since 4000,
    "Returns at once; streams that wait for it go on waiting.", |driver| {
        check(driver, &*driver.events.remove(event)?)
    }

    Live cuEventRecord(event: u64, stream: u64) since 2000,
    "In stream order. In a capture it marks the stream's front.", |driver| {
        record(driver, event, stream, 0)
    }

    Live cuEventRecordWithFlags(event: u64, stream: u64, flags: u32) since 11010,
    "As `cuEventRecord`; an external record in a capture is a node.", |driver| {
        record(driver, event, stream, flags)
    }

    Live cuEventQuery(event: u64) since 2000,
    "NOT_READY until the stream has come to it; CAPTURED_EVENT for one recorded in a capture.", |driver| {
        let event = driver.events.get(event)?;
        let asked = event.asked()?;
        capture::forbid_unsafe_call(driver)?;
        match asked {
            Some(mark) if mark.time().is_none() => Err(Code::NOT_READY),
            mark => {
                mark.iter().for_each(|mark| driver.order.host_saw(&mark.clock()));
                check(driver, &event)
            }
        }
    }

    Live cuEventSynchronize(event: u64) since 2000,
    "Waits; answers the code of a fault.", |driver| {
        let event = driver.events.get(event)?;
        let asked = event.asked()?;
        capture::forbid_unsafe_call(driver)?;
        if let Some(mark) = asked {
            let _waiting = driver.hold.host_waits();
            let waited = Arc::clone(&mark);
            driver.turns.wait_until(move || waited.time().is_some());
            mark.wait();
            driver.order.host_saw(&mark.clock());
        }
        check(driver, &event)
    }

    Live cuEventElapsedTime(milliseconds: Out<f32>, start: u64, end: u64) since 2000,
    "Time of the host's clock between the two marks.", |driver| {
        elapsed(driver, milliseconds, start, end)
    }

    Live cuEventElapsedTime_v2(milliseconds: Out<f32>, start: u64, end: u64) since 12080,
    "Time of the host's clock between the two marks.", |driver| {
        elapsed(driver, milliseconds, start, end)
    }
}

fn record(driver: &Driver, event: u64, stream: u64, flags: u32) -> Answer {
    let (event, stream) = (driver.events.get(event)?, driver.stream(stream)?);
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    match driver.capture_of(&stream) {
        Some(_) if flags == 1 => capture::record(driver, &stream, Payload::RecordEvent(event)).map(|_| ()),
        Some(capture) => capture::record_event(&capture, &stream, &event),
        None if stream.context_handle != event.context => Err(Code::INVALID_HANDLE),
        None => {
            stream.device.check()?;
            let mark = event.fresh_mark();
            capture::submit(driver, &stream, Op::Reach(mark)).map(|_| ())
        }
    }
}

fn check(driver: &Driver, event: &Event) -> Answer {
    driver.contexts.get(event.context).map_or(Ok(()), |context| context.device.check())
}

fn elapsed(driver: &Driver, milliseconds: Out<f32>, start: u64, end: u64) -> Answer {
    let (start, end) = (driver.events.get(start)?, driver.events.get(end)?);
    milliseconds.put(end.milliseconds_since(&start)?)
}
