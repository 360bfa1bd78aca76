//! The driver: everything that a copy of the library has, made at the first call.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::calls;
use crate::captured::Capture;
use crate::codes::{Answer, Code};
use crate::conditions::Conditions;
use crate::context::Context;
use crate::device::Device;
use crate::event::Event;
use crate::exec::Exec;
use crate::function::Function;
use crate::graph::Tables;
use crate::handles::{Kind, Registry};
use crate::machine::Machine;
use crate::module::Module;
use crate::settings::Settings;
use crate::stream::Stream;

/// The driver of this copy of the library. Each copy of the file that a process loads has one of its own. It has all
/// that its machine has.
#[derive(Debug)]
pub(crate) struct Driver {
    machine: Machine,
    initialised: AtomicBool,
    /// The primary context of each device.
    primaries: Vec<Mutex<Primary>>,
    pub(crate) contexts: Registry<Context>,
    pub(crate) streams: Registry<Stream>,
    pub(crate) events: Registry<Event>,
    pub(crate) modules: Registry<Module>,
    pub(crate) functions: Registry<Function>,
    pub(crate) tables: Tables,
    pub(crate) execs: Registry<Exec>,
    pub(crate) conditions: Conditions,
    /// Captures that are going on.
    pub(crate) captures: Mutex<Vec<Arc<Capture>>>,
    next_capture: AtomicU64,
    /// Of each clone, the new handle of each node.
    pub(crate) clones: Mutex<HashMap<u64, HashMap<u64, u64>>>,
}

/// The primary context of a device.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) retained: u32,
    pub(crate) flags: u32,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

impl Deref for Driver {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Driver {
    /// The one there is; the first call reads the settings, which stay as they are from then on.
    pub(crate) fn of_the_process() -> &'static Self {
        DRIVER.get_or_init(|| {
            calls::read_settings();
            Self::new(Settings::read())
        })
    }

    /// Whether the settings have been read.
    pub(crate) fn exists() -> bool {
        DRIVER.get().is_some()
    }

    fn new(settings: Settings) -> Self {
        Self {
            initialised: AtomicBool::new(false),
            primaries: (0..settings.devices).map(|_| Mutex::default()).collect(),
            contexts: Registry::new(Kind::Context),
            streams: Registry::new(Kind::Stream),
            events: Registry::new(Kind::Event),
            modules: Registry::new(Kind::Module),
            functions: Registry::new(Kind::Function),
            tables: Tables::default(),
            execs: Registry::new(Kind::Exec),
            conditions: Conditions::default(),
            captures: Mutex::default(),
            next_capture: AtomicU64::new(1),
            clones: Mutex::default(),
            machine: Machine::new(settings),
        }
    }

    /// `cuInit`.
    pub(crate) fn initialise(&self) -> Answer {
        if self.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        self.initialised.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn check_initialised(&self) -> Answer {
        if self.initialised.load(Ordering::Acquire) { Ok(()) } else { Err(Code::NOT_INITIALIZED) }
    }

    /// The code of a lost device, if it is that of the calling thread's context.
    pub(crate) fn check_current_device(&self) -> Answer {
        Context::top().map_or(Ok(()), |context| context.device.check())
    }

    /// The primary context of a device.
    pub(crate) fn primary(&self, device: &Device) -> Answer<&Mutex<Primary>> {
        self.primaries.get(device.ordinal).ok_or(Code::INVALID_DEVICE)
    }

    /// The context of a stream; `CONTEXT_IS_DESTROYED` once that is gone.
    pub(crate) fn context_of(&self, stream: &Stream) -> Answer<Arc<Context>> {
        self.contexts.get(stream.context_handle).map_err(|_| Code::CONTEXT_IS_DESTROYED)
    }

    /// The capture that a stream takes part in.
    pub(crate) fn capture_of(&self, stream: &Stream) -> Option<Arc<Capture>> {
        self.capture(stream.capture()?.id)
    }

    /// A capture that is going on.
    pub(crate) fn capture(&self, id: u64) -> Option<Arc<Capture>> {
        self.captures.lock().iter().find(|capture| capture.mark.id == id).cloned()
    }

    /// A context by its handle, or for 0 the calling thread's.
    pub(crate) fn context(&self, handle: u64) -> Answer<Arc<Context>> {
        if handle == 0 {
            return Context::current();
        }
        self.contexts.get(handle).map_err(|_| Code::INVALID_CONTEXT)
    }

    /// A stream by its handle: 0 and 1 are the legacy default stream, 2 the calling thread's.
    pub(crate) fn stream(&self, handle: u64) -> Answer<Arc<Stream>> {
        match handle {
            0 | 1 => Ok(Context::current()?.legacy()),
            2 => Ok(Context::current()?.per_thread()),
            _ => self.streams.get(handle),
        }
    }

    /// Makes the primary context, or one more user of it.
    pub(crate) fn retain_primary(&'static self, device: &Arc<Device>) -> Answer<Arc<Context>> {
        device.check()?;
        let mut primary = self.primary(device)?.lock();
        let context = match &primary.context {
            Some(context) => Arc::clone(context),
            None => {
                let flags = primary.flags;
                let context = self
                    .contexts
                    .add(|handle| Context::new(&self.machine, handle, Arc::clone(device), true, flags));
                primary.context = Some(Arc::clone(&context));
                context
            }
        };
        primary.retained += 1;
        Ok(context)
    }

    /// Ends a context and all that belongs to it.
    pub(crate) fn destroy_context(&self, context: &Context) {
        context.destroy();
        let handle = context.handle;
        // A context that is gone already has no handle to end.
        let _ = self.contexts.remove(handle);
        self.streams.remove_where(|stream| stream.context_handle == handle);
        self.events.remove_where(|event| event.context == handle);
        self.modules.remove_where(|module| module.context == handle);
        self.functions.remove_where(|function| function.context == handle);
        self.space.remove_where(|range| range.context == handle);
    }

    /// Waits until a stream has done all it was given; then the code of a device that was lost meanwhile.
    pub(crate) fn wait_for_stream(&self, stream: &Stream, position: u64) -> Answer {
        let _waiting = self.hold.host_waits();
        stream.wait_for(position);
        self.order.host_saw(&stream.clock());
        stream.device.check()
    }

    /// A number for a capture.
    pub(crate) fn next_capture(&self) -> u64 {
        self.next_capture.fetch_add(1, Ordering::Relaxed)
    }
}
