//! The driver: everything that a copy of the library has, made at the first call.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::calls;
use crate::capture::Capture;
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::device::Device;
use crate::event::Event;
use crate::exec::Exec;
use crate::function::Function;
use crate::graph::{Graph, Node};
use crate::handles::{Kind, Registry};
use crate::hold::Hold;
use crate::module::Module;
use crate::order::Order;
use crate::pool::{PhysicalMemory, Pool};
use crate::settings::Settings;
use crate::space::{Owner, Space};
use crate::stream::Stream;
use crate::work::{Op, Word};

/// The driver of this copy of the library. Each copy of the file that a process loads has one of its own.
#[derive(Debug)]
pub(crate) struct Driver {
    settings: Settings,
    initialised: AtomicBool,
    pub(crate) devices: Vec<Arc<Device>>,
    pub(crate) space: Space,
    pub(crate) hold: Hold,
    pub(crate) order: Order,
    pub(crate) contexts: Registry<Context>,
    pub(crate) streams: Registry<Stream>,
    pub(crate) events: Registry<Event>,
    pub(crate) modules: Registry<Module>,
    pub(crate) functions: Registry<Function>,
    pub(crate) physicals: Registry<PhysicalMemory>,
    pub(crate) pools: Registry<Pool>,
    pub(crate) graphs: Registry<Graph>,
    pub(crate) nodes: Registry<Node>,
    pub(crate) execs: Registry<Exec>,
    /// Captures that are going on.
    pub(crate) captures: Mutex<Vec<Arc<Capture>>>,
    next_capture: AtomicU64,
    /// Of each clone, the new handle of each node.
    pub(crate) clones: Mutex<HashMap<u64, HashMap<u64, u64>>>,
    /// Addresses of the values of conditions, with the value at the start of each launch if there is one.
    conditions: Mutex<HashMap<u64, Condition>>,
}

/// A condition of a graph.
#[derive(Clone, Copy, Debug)]
struct Condition {
    /// Its value at the start of each launch, if it is set then.
    default: Option<u32>,
    /// Whether a node has it.
    used: bool,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

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
        let device = |ordinal| Arc::new(Device::new(ordinal, settings.memory_bytes));
        let driver = Self {
            devices: (0..settings.devices).map(device).collect(),
            initialised: AtomicBool::new(false),
            space: Space::default(),
            hold: Hold::default(),
            order: Order::default(),
            contexts: Registry::new(Kind::Context),
            streams: Registry::new(Kind::Stream),
            events: Registry::new(Kind::Event),
            modules: Registry::new(Kind::Module),
            functions: Registry::new(Kind::Function),
            physicals: Registry::new(Kind::Physical),
            pools: Registry::new(Kind::Pool),
            graphs: Registry::new(Kind::Graph),
            nodes: Registry::new(Kind::Node),
            execs: Registry::new(Kind::Exec),
            captures: Mutex::default(),
            next_capture: AtomicU64::new(1),
            clones: Mutex::default(),
            conditions: Mutex::default(),
            settings,
        };
        for ordinal in 0..driver.settings.devices {
            driver.pools.add(|handle| Pool::of_device(handle, ordinal));
        }
        driver
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
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

    /// Loses every device.
    pub(crate) fn lose_all(&self, code: Code, what: &str) {
        for device in &self.devices {
            device.lose(code, what);
        }
    }

    /// A device by its ordinal, which is its `CUdevice` too.
    pub(crate) fn device(&self, ordinal: i32) -> Answer<&Arc<Device>> {
        let ordinal = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        self.devices.get(ordinal).ok_or(Code::INVALID_DEVICE)
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
    pub(crate) fn retain_primary(&self, device: &Arc<Device>) -> Answer<Arc<Context>> {
        device.check()?;
        let mut primary = device.primary.lock();
        let context = match &primary.context {
            Some(context) => Arc::clone(context),
            None => {
                let flags = primary.flags;
                let context =
                    self.contexts.add(|handle| Context::new(handle, Arc::clone(device), true, flags));
                primary.context = Some(Arc::clone(&context));
                context
            }
        };
        primary.retained += 1;
        Ok(context)
    }

    /// Ends a context and all that belongs to it.
    pub(crate) fn destroy_context(&self, context: &Context) {
        context.destroy(self);
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

    /// A condition: its handle is where its value lies, so that a kernel sets it by a store.
    pub(crate) fn create_condition(&self, context: &Context, default: u32, assign: bool) -> Answer<u64> {
        let address = self.allocate(context, 4, Owner::Variable)?;
        self.space.store(address, &default.to_le_bytes())?;
        self.conditions.lock().insert(address, Condition { default: assign.then_some(default), used: false });
        Ok(address)
    }

    /// Gives a condition to a node; `INVALID_VALUE` if there is none or another node has it.
    pub(crate) fn use_condition(&self, handle: u64) -> Answer {
        let mut conditions = self.conditions.lock();
        let condition = conditions.get_mut(&handle).filter(|condition| !condition.used);
        condition.ok_or(Code::INVALID_VALUE)?.used = true;
        Ok(())
    }

    /// Sets a condition to the value it has at the start of a launch, in stream order.
    pub(crate) fn reset_condition(&self, handle: u64, stream: &Arc<Stream>) -> Answer {
        let condition = self.conditions.lock().get(&handle).copied().ok_or(Code::INVALID_VALUE)?;
        let Some(value) = condition.default else { return Ok(()) };
        let word = Word { address: handle, value: value.into(), bytes: 4 };
        stream.context()?.submit(stream, Op::Write(word)).map(|_| ())
    }
}
