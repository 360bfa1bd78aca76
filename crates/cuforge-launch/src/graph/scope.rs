//! What takes submissions while a capture runs: launches, fills, copies, child graphs, timestamps, forks and joins.

use crate::error::LaunchError;
use crate::ffi::{RawGraphNode, RawStream};
use crate::gate::Gate;
use crate::graph::inside::{child_of, rename, timestamps};
use crate::graph::pinned_view::PinnedView;
use crate::graph::recorded::{KernelNode, Role, Work};
use crate::graph::recorder::{Front, Recorder};
use crate::graph::recording::{Recording, Within};
use crate::graph_error::{GraphError, NodeKind};
use crate::mapped::MappedWords;
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use crate::submit::Submit;
use crate::submit::sealed::{Launched, Origin, Place, Target};
use cuforge_core::BufferView;
use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// `CU_STREAM_SET_CAPTURE_DEPENDENCIES`.
const SET: u32 = 1;

/// What a capture records to: one stream of it. Launches go to it as they go to a stream. Not
/// `Send`.
///
/// Made by [`Stream::capture`], and by [`fork`](Self::fork) for the branches. It has no method for what a capture does
/// not allow.
pub struct CaptureScope<'s> {
    recorder: Rc<RefCell<Recorder>>,
    line: Arc<Line>,
    /// The last node that this scope recorded, by place.
    last: Option<usize>,
    stream: PhantomData<&'s mut Stream>,
}

impl<'s> CaptureScope<'s> {
    pub(crate) fn new(recorder: Rc<RefCell<Recorder>>, line: Arc<Line>) -> Self {
        Self { recorder, line, last: None, stream: PhantomData }
    }

    pub(crate) fn recorder(&self) -> &Rc<RefCell<Recorder>> {
        &self.recorder
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub(crate) fn last(&self) -> Option<usize> {
        self.last
    }

    /// The kernel recorded last has a part in the graph beyond being run.
    pub(crate) fn make_last(&mut self, role: Role) {
        let Some(place) = self.last else { return };
        if let Some(Work::Kernel(kernel)) =
            self.recorder.borrow_mut().recorded.nodes.get_mut(place).map(|node| &mut node.work)
        {
            kernel.role = role;
        }
    }

    /// Whether what is recorded next depends on one kernel and nothing else.
    pub(crate) fn follows_a_kernel(&self) -> bool {
        let recorder = self.recorder.borrow();
        let last = self.last.and_then(|place| recorder.recorded.nodes.get(place));
        last.is_some_and(|node| matches!(node.work, Work::Kernel(_)))
    }

    /// Nodes recorded so far, by all scopes of the capture.
    pub fn node_count(&self) -> usize {
        self.recorder.borrow().recorded.nodes.len()
    }

    /// Sets every byte of `view`.
    ///
    /// # Errors
    /// [`LaunchError::View`], [`LaunchError::OtherDevice`], [`LaunchError::Graph`], those of the driver.
    pub fn fill(&mut self, slab: &Slab, view: &BufferView, byte: u8) -> Result<(), LaunchError> {
        let to = self.pinned(slab, view)?;
        if view.is_empty() {
            return Ok(());
        }
        let (at, bytes) = (to.address(), view.len() as usize);
        self.record(
            "a fill",
            // SAFETY: the graph that the node goes into keeps the view; the stream is alive.
            |gate, stream| gate.check(unsafe { gate.api().memset_d8_async(at, byte, bytes, stream) }),
            Work::Fill { to, byte },
        )
    }

    /// Copies the start of `from` to the start of `to`, as many bytes as `from` has.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`] where `to` is shorter; as [`fill`](Self::fill).
    pub fn copy(&mut self, slab: &Slab, from: &BufferView, to: &BufferView) -> Result<(), LaunchError> {
        let (source, target) = (self.pinned(slab, from)?, self.pinned(slab, to)?);
        fits(from.len(), to.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let (a, b, bytes) = (source.address(), target.address(), from.len() as usize);
        self.record(
            "a copy",
            // SAFETY: the graph that the node goes into keeps both views; the stream is alive.
            |gate, stream| gate.check(unsafe { gate.api().copy_on_device(b, a, bytes, stream) }),
            Work::Copy { from: source, to: target },
        )
    }

    /// Copies the first `bytes` of pinned memory to the start of `view` at each replay. The graph keeps the memory,
    /// and nobody can write it meanwhile: what changes from replay to replay goes through a slot or a
    /// parameter block.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`] where either is shorter; as [`fill`](Self::fill).
    pub fn upload(
        &mut self,
        slab: &Slab,
        view: &BufferView,
        source: &Arc<PinnedBuffer>,
        bytes: usize,
    ) -> Result<(), LaunchError> {
        let to = self.pinned(slab, view)?;
        fits(bytes as u64, view.len())?;
        fits(bytes as u64, source.len() as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        let (at, from) = (to.address(), source.as_ptr().cast::<c_void>().cast_const());
        self.record(
            "an upload",
            // SAFETY: the graph that the node goes into keeps view and source; the stream is alive.
            |gate, stream| gate.check(unsafe { gate.api().copy_to_device(at, from, bytes, stream) }),
            Work::Upload { from: source.clone(), to, bytes: bytes as u64 },
        )
    }

    /// The graph keeps `words`: for kernels that were given their device address by value.
    ///
    /// # Errors
    /// [`GraphError::Ended`], [`LaunchError::OtherDevice`].
    pub fn keep(&mut self, words: &Arc<MappedWords>) -> Result<(), LaunchError> {
        let mut recorder = self.recorder.borrow_mut();
        recorder.admit()?;
        self.on_this_device(words.gate())?;
        recorder.recorded.kept.push(words.clone());
        Ok(())
    }

    /// Notes the device's time at this point of each replay, under a name that is not taken yet; see
    /// [`Graph::nanoseconds_between`](crate::Graph::nanoseconds_between).
    ///
    /// # Errors
    /// [`GraphError::SlotType`] for a name that is taken; as [`fill`](Self::fill).
    pub fn timestamp(&mut self, name: &str) -> Result<(), LaunchError> {
        self.recorder.borrow().admit()?;
        self.new_timestamp(name)?;
        let event = Arc::new(self.line.device().events().take_for_good(true)?);
        let recorded = event.clone();
        self.record(
            "a timestamp",
            // SAFETY: the stream is alive and of the pool's context.
            move |_, stream| unsafe { recorded.record_in_graph(stream) },
            Work::Timestamp { name: name.to_owned(), event },
        )
    }

    /// Puts another recording in here as one node. It can go into several graphs. Its slots and timestamps are those of the
    /// graph around it, by the same names; slots of one name are set together.
    ///
    /// # Errors
    /// [`GraphError::NotNestable`] for one with conditional nodes, a parameter block or a result ring;
    /// [`GraphError::SlotType`] for a slot of another type by the same name, or a timestamp's name that is taken;
    /// [`LaunchError::OtherDevice`]; those of the driver.
    pub fn child(&mut self, recording: &Recording) -> Result<(), LaunchError> {
        let mut recorded = recording.nestable(self.line.device().gate(), Within::Child)?;
        self.check_slots(std::slice::from_ref(&recorded))?;
        timestamps(&recorded).into_iter().try_for_each(|name| self.new_timestamp(name))?;
        self.line.device().gate().api().need_children()?;
        let child = recording.template().raw();
        let front = self.front()?;
        let gate = self.line.device().gate().clone();
        let mut node = ptr::null_mut();
        let (last, count) = (front.last.as_ptr(), front.last.len());
        // SAFETY: both graphs are alive, the dependencies are nodes of the first; the pointer is valid for one node.
        // The driver copies the child.
        let status = unsafe { gate.api().graph_add_child(&raw mut node, front.graph, last, count, child) }?;
        gate.check(status)?;
        rename(&gate, child, child_of(&gate, node)?, &mut recorded)?;
        self.follow(node, Work::Child(recorded))
    }

    /// Lets another library record to the capture: `submit` gets the raw stream. It says how many nodes of which kind
    /// that makes; what it submits elsewhere is missing in the census at the end.
    ///
    /// # Errors
    /// Those of `submit`; [`LaunchError::Graph`].
    ///
    /// # Safety
    /// Whatever memory and code these nodes use stays until the last replay of every graph made of this capture has
    /// completed. `submit` does not end the capture.
    pub unsafe fn raw<T>(
        &mut self,
        expected: &[(NodeKind, usize)],
        submit: impl FnOnce(*mut c_void) -> Result<T, LaunchError>,
    ) -> Result<T, LaunchError> {
        self.recorder.borrow().admit()?;
        let outcome = submit(self.line.raw())?;
        let mut recorder = self.recorder.borrow_mut();
        recorder.front(self.line.raw(), &|| "what another library submitted".to_owned())?;
        for (kind, count) in expected {
            for _ in 0..*count {
                recorder.push(ptr::null_mut(), Work::Foreign(*kind));
            }
        }
        drop(recorder);
        self.last = None;
        Ok(outcome)
    }

    /// Another stream takes part from here on: what is recorded to the branch depends on all that was recorded here so
    /// far, and runs beside what follows here. [`join`](Self::join) it before the end.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`], [`GraphError::Capturing`] for a stream of another capture,
    /// [`LaunchError::Unsupported`] for the legacy stream; those of the driver.
    pub fn fork<'b>(&mut self, side: &'b mut Stream) -> Result<CaptureScope<'b>, LaunchError> {
        self.recorder.borrow().admit()?;
        side.same_device(self.line.device())?;
        side.can_be_captured()?;
        let line = side.line().clone();
        let known = self.recorder.borrow().recorded.lines.iter().any(|taken| Arc::ptr_eq(taken, &line));
        if !known {
            line.not_capturing()?;
            // Nothing can be sealed while the stream captures.
            side.seal()?;
        }
        let gate = self.line.device().gate();
        gate.capture_takes(line.queue());
        if let Err(error) = self.order(self.line.raw(), line.raw()) {
            if !known {
                gate.capture_lets_go(line.queue());
            }
            return Err(error);
        }
        let mut recorder = self.recorder.borrow_mut();
        recorder.takes(&line);
        recorder.open += 1;
        drop(recorder);
        Ok(CaptureScope::new(self.recorder.clone(), line))
    }

    /// What follows here depends on all that the branch recorded.
    ///
    /// # Errors
    /// [`GraphError::ForeignBranch`]; those of the driver.
    pub fn join(&mut self, branch: CaptureScope<'_>) -> Result<(), LaunchError> {
        self.recorder.borrow().admit()?;
        if !Rc::ptr_eq(&self.recorder, &branch.recorder) {
            return Err(GraphError::ForeignBranch.into());
        }
        self.order(branch.line.raw(), self.line.raw())?;
        let mut recorder = self.recorder.borrow_mut();
        recorder.open = recorder.open.saturating_sub(1);
        drop(recorder);
        self.last = None;
        Ok(())
    }

    /// What follows on `later` depends on what `first` has.
    fn order(&self, first: RawStream, later: RawStream) -> Result<(), LaunchError> {
        let event = self.line.device().events().take(false)?;
        // SAFETY: both streams are alive and of the pool's context.
        unsafe { event.record(first) }?;
        // SAFETY: as above.
        unsafe { event.hold(later) }?;
        self.recorder.borrow_mut().events.push(event);
        Ok(())
    }

    pub(crate) fn pinned(&self, slab: &Slab, view: &BufferView) -> Result<PinnedView, LaunchError> {
        self.recorder.borrow().admit()?;
        self.on_this_device(slab.device().gate())?;
        PinnedView::new(slab, view)
    }

    pub(crate) fn on_this_device(&self, gate: &Arc<Gate>) -> Result<(), LaunchError> {
        if Arc::ptr_eq(self.line.device().gate(), gate) {
            Ok(())
        } else {
            Err(LaunchError::OtherDevice { what: "capture" })
        }
    }

    /// Where the capture stands on this stream.
    pub(crate) fn front(&self) -> Result<Front, LaunchError> {
        let mut recorder = self.recorder.borrow_mut();
        recorder.admit()?;
        recorder.front(self.line.raw(), &|| "a graph".to_owned())
    }

    /// Makes a node that was added to the graph by hand the one that what follows depends on, and records it.
    pub(crate) fn follow(&mut self, node: RawGraphNode, work: Work) -> Result<(), LaunchError> {
        let gate = self.line.device().gate();
        let (raw, mut node) = (self.line.raw(), node);
        // SAFETY: the stream is alive, the node is of its capture's graph; one node is read.
        let newer =
            unsafe { gate.api().capture_set_dependencies_v2(raw, &raw mut node, ptr::null(), 1, SET) };
        let status = match newer {
            Ok(status) => status,
            // SAFETY: as above, by the older function.
            Err(_) => unsafe { gate.api().capture_set_dependencies(raw, &raw mut node, 1, SET) }?,
        };
        gate.check(status)?;
        self.last = Some(self.recorder.borrow_mut().push(node, work));
        self.take_slots();
        Ok(())
    }

    /// No timestamp of the capture has that name.
    fn new_timestamp(&self, name: &str) -> Result<(), LaunchError> {
        if !timestamps(&self.recorder.borrow().recorded).contains(&name) {
            return Ok(());
        }
        let (is, asked) = ("a timestamp".to_owned(), "another one".to_owned());
        Err(GraphError::SlotType { slot: name.to_owned(), is, asked }.into())
    }

    /// Submits, takes the node's name, and records what it does.
    pub(crate) fn record(
        &mut self,
        operation: &'static str,
        submit: impl FnOnce(&Gate, RawStream) -> Result<(), LaunchError>,
        work: Work,
    ) -> Result<(), LaunchError> {
        let mut recorder = self.recorder.borrow_mut();
        recorder.admit()?;
        let gate = self.line.device().gate();
        // A copy that is captured without a current context cannot be changed later: the driver (580.159.04) then does
        // not know of which context its ends are.
        let _context = gate.within_context()?;
        let outcome = submit(gate, self.line.raw());
        recorder.judge(outcome, &|| operation.to_owned())?;
        let node = recorder.made(self.line.raw(), &|| operation.to_owned())?;
        self.last = Some(recorder.push(node, work));
        Ok(())
    }
}

impl Submit for CaptureScope<'_> {}

impl Target for CaptureScope<'_> {
    fn admit(&mut self, origin: Origin<'_>) -> Result<Place, LaunchError> {
        self.on_this_device(origin.0)?;
        self.recorder.borrow().admit()?;
        Ok(Place { stream: self.line.raw(), queue: self.line.queue(), captured: true })
    }

    fn submitted(&mut self, launched: Launched<'_>) -> Result<(), LaunchError> {
        let mut recorder = self.recorder.borrow_mut();
        let entry = launched.held.pipeline.entry_point();
        let node = recorder.made(self.line.raw(), &|| format!("the launch of `{entry}`"))?;
        let work = Work::Kernel(Box::new(KernelNode::of(launched)?));
        self.last = Some(recorder.push(node, work));
        Ok(())
    }

    fn as_stream(&mut self) -> Option<&mut Stream> {
        None
    }
}

fn fits(bytes: u64, view_bytes: u64) -> Result<(), LaunchError> {
    if bytes > view_bytes { Err(LaunchError::TooLong { bytes, view_bytes }) } else { Ok(()) }
}

impl fmt::Debug for CaptureScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureScope").field("nodes", &self.node_count()).finish_non_exhaustive()
    }
}
