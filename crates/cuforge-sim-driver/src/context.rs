//! Contexts, and which of them is current in a thread.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};

use crate::codes::{Answer, Code};
use crate::device::Device;
use crate::machine::Machine;
use crate::stream::{Role, Stream};
use crate::work::Op;

/// A context: what streams, memory and modules belong to.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: u64,
    pub(crate) device: Arc<Device>,
    machine: &'static Machine,
    pub(crate) primary: bool,
    pub(crate) flags: AtomicU32,
    /// False once it has been destroyed.
    alive: AtomicBool,
    legacy: OnceLock<Arc<Stream>>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    /// All streams of the context, the default ones too.
    streams: Mutex<Vec<Weak<Stream>>>,
    /// Values of `CUlimit`, those that were set.
    pub(crate) limits: Mutex<HashMap<i32, usize>>,
}

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    pub(crate) fn new(
        machine: &'static Machine,
        handle: u64,
        device: Arc<Device>,
        primary: bool,
        flags: u32,
    ) -> Self {
        Self {
            handle,
            device,
            machine,
            primary,
            flags: AtomicU32::new(flags),
            alive: AtomicBool::new(true),
            legacy: OnceLock::new(),
            per_thread: Mutex::default(),
            streams: Mutex::default(),
            limits: Mutex::default(),
        }
    }

    /// The calling thread's context; `INVALID_CONTEXT` without one, `CONTEXT_IS_DESTROYED` if it is gone.
    pub(crate) fn current() -> Answer<Arc<Self>> {
        let context = Self::top().ok_or(Code::INVALID_CONTEXT)?;
        if context.is_alive() { Ok(context) } else { Err(Code::CONTEXT_IS_DESTROYED) }
    }

    /// The calling thread's context, whether or not it is still alive.
    pub(crate) fn top() -> Option<Arc<Self>> {
        STACK.try_with(|stack| stack.borrow().last().cloned()).ok().flatten()
    }

    pub(crate) fn push(context: Arc<Self>) {
        // A thread that is ending has no context any more.
        let _ = STACK.try_with(|stack| stack.borrow_mut().push(context));
    }

    pub(crate) fn pop() -> Answer<Arc<Self>> {
        let popped = STACK.try_with(|stack| stack.borrow_mut().pop()).ok().flatten();
        popped.ok_or(Code::INVALID_CONTEXT)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Ends it: its streams take no more work.
    pub(crate) fn destroy(&self) {
        self.alive.store(false, Ordering::Release);
        self.wait();
        for stream in self.streams() {
            stream.close();
        }
    }

    /// A stream of this context.
    pub(crate) fn make_stream(
        self: &Arc<Self>,
        handle: u64,
        flags: u32,
        priority: i32,
        role: Role,
    ) -> Arc<Stream> {
        let stream =
            Arc::new(Stream::new(self.machine, (&self.device, self.handle), handle, (flags, priority), role));
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        stream
    }

    /// The legacy default stream.
    pub(crate) fn legacy(self: &Arc<Self>) -> Arc<Stream> {
        Arc::clone(self.legacy.get_or_init(|| self.make_stream(1, 0, 0, Role::Legacy)))
    }

    /// The calling thread's default stream.
    pub(crate) fn per_thread(self: &Arc<Self>) -> Arc<Stream> {
        let mut streams = self.per_thread.lock();
        let stream = streams.entry(thread::current().id());
        Arc::clone(stream.or_insert_with(|| self.make_stream(2, 0, 0, Role::PerThread)))
    }

    /// Every stream that is still there.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until all work that was submitted is done.
    pub(crate) fn wait(&self) {
        let _waiting = self.machine.hold.host_waits();
        for stream in self.streams() {
            stream.wait_for(stream.submitted());
            self.machine.order.host_saw(&stream.clock());
        }
    }

    /// Queues work in a stream, behind what the rules of the legacy stream put before it.
    pub(crate) fn submit(self: &Arc<Self>, stream: &Arc<Stream>, op: Op) -> Answer<u64> {
        if !self.is_alive() {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        self.device.check()?;
        match stream.role {
            Role::Legacy => {
                for other in self.streams() {
                    let blocking = other.is_blocking() && !Arc::ptr_eq(&other, stream);
                    if blocking && !other.is_idle() {
                        stream.push(other.after())?;
                    }
                }
            }
            _ if stream.is_blocking() => {
                if let Some(legacy) = self.legacy.get()
                    && !legacy.is_idle()
                {
                    stream.push(legacy.after())?;
                }
            }
            _ => {}
        }
        stream.push(op)
    }
}
