//! Executable graphs: replayed with one driver call, patched where a slot changed, dropped without a wait.

use crate::error::LaunchError;
use crate::events::Event;
use crate::graph::feed::Feed;
use crate::graph::handles::{Exec, Template};
use crate::graph::inside::{Path, node, paths};
use crate::graph::pinned_view::Uses;
use crate::graph::recorded::{Form, Node, Recorded, Role, Work};
use crate::graph::ring::Ring;
use crate::graph_error::GraphError;
use crate::ranges::range;
use crate::stream::Stream;
use cuforge_core::MAX_QUEUES;
use std::fmt;
use std::sync::Arc;

/// A graph that can be replayed. `Send`.
///
/// It owns all that its nodes use. Captured views can be written as ever; on the stream of the replay such a write is
/// ordered before the next replay. Dropping it returns at once, also while it runs: what it owned goes back when its
/// last replay has completed.
///
/// ```
/// use cuforge_launch::{Graph, LaunchError, Recording, Stream};
/// fn run(recording: &Recording, stream: &mut Stream) -> Result<Graph, LaunchError> {
///     let mut graph = recording.instantiate()?;
///     graph.upload(stream)?;
///     graph.replay_times(stream, 1000)?;
///     Ok(graph)
/// }
/// ```
pub struct Graph {
    pub(crate) exec: Exec,
    pub(crate) template: Arc<Template>,
    /// What the driver's executable graph holds, or will before its next replay.
    pub(crate) shadow: Recorded,
    pub(crate) patches: Patches,
    pub(crate) uses: Uses,
    attached: Option<Box<Attached>>,
}

/// What a replay does beside launching: values to take along, results to have room for.
#[derive(Default)]
struct Attached {
    feeds: Vec<Arc<Feed>>,
    /// Each with the results that one replay posts at most.
    rings: Vec<(Arc<Ring>, u64)>,
}

/// Which nodes differ from what the driver holds. Nothing here grows after the graph was made.
pub(crate) struct Patches {
    /// Nodes to be patched before the next replay, each once, by number: the graph's own by place, then those inside.
    dirty: Vec<usize>,
    state: Box<[NodeState]>,
    inside: Box<[Path]>,
    /// Room to pack one kernel's arguments in, and values to pack with where only views are wanted.
    pub(crate) scratch: Box<[u8]>,
    pub(crate) zeros: Box<[u8]>,
}

#[derive(Clone, Copy, Default)]
struct NodeState {
    dirty: bool,
    disabled: bool,
}

impl Graph {
    pub(crate) fn new(exec: Exec, template: Arc<Template>, shadow: Recorded) -> Self {
        let attached = Attached::of(&shadow);
        let attached = Some(Box::new(attached)).filter(|a| !a.feeds.is_empty() || !a.rings.is_empty());
        let patches = Patches::of(&shadow);
        Self { exec, template, shadow, patches, uses: [0; MAX_QUEUES], attached }
    }

    /// Launches the graph. One driver call and no allocation, and one call more for each kernel that a slot has changed
    /// since the last replay; replays in flight keep the values that they were launched with.
    ///
    /// Replays of one graph run one after the other, whatever streams they are on.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`], [`GraphError::Capturing`] where the stream is being captured,
    /// [`GraphError::ResultsFull`] and [`GraphError::ResultsElsewhere`] where it posts results,
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    #[inline]
    pub fn replay(&mut self, on: &mut Stream) -> Result<(), LaunchError> {
        range!("replay");
        on.same_device_as(self.template.gate())?;
        on.admit()?;
        if !self.patches.dirty.is_empty() {
            self.patch()?;
        }
        if let Some(attached) = &self.attached {
            attached.before(on)?;
        }
        // SAFETY: the stream is alive and of the graph's context. All that the nodes use is held by the graph, and its
        // views stay until the epoch noted below has completed, whenever the graph is dropped.
        unsafe { self.exec.launch(on.line().raw()) }?;
        self.uses[on.queue_number()] = on.open_epoch();
        on.submitted();
        if let Some(attached) = &self.attached {
            attached.after(on);
        }
        Ok(())
    }

    /// Launches the graph `times` times in a row.
    ///
    /// # Errors
    /// As [`replay`](Self::replay), after the replays that succeeded.
    pub fn replay_times(&mut self, on: &mut Stream, times: usize) -> Result<(), LaunchError> {
        (0..times).try_for_each(|_| self.replay(on))
    }

    /// Sends the graph to the device, so that its first replay need not. What slots have changed goes with it.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn upload(&mut self, on: &mut Stream) -> Result<(), LaunchError> {
        on.same_device_as(self.template.gate())?;
        on.admit()?;
        self.patch()?;
        // SAFETY: the stream is alive and of the graph's context.
        unsafe { self.exec.upload(on.line().raw()) }?;
        on.submitted();
        Ok(())
    }

    /// How many nodes it has, those of child graphs not counted.
    pub fn node_count(&self) -> usize {
        self.shadow.nodes.len()
    }

    /// Nanoseconds on the device between two timestamps of the last replay; waits for the second.
    ///
    /// # Errors
    /// [`GraphError::NoSuchTimestamp`]; [`LaunchError::Driver`] before the first replay;
    /// [`LaunchError::DeviceLost`].
    pub fn nanoseconds_between(&self, start: &str, end: &str) -> Result<u64, LaunchError> {
        let find = |wanted: &str| {
            let found = event(&self.shadow, wanted);
            found.ok_or_else(|| GraphError::NoSuchTimestamp { name: wanted.to_owned() })
        };
        let (start, end) = (find(start)?, find(end)?);
        start.wait()?;
        end.wait()?;
        end.nanoseconds_since(start)
    }

    /// So many of the iterations that the replays so far were promised for did not run.
    pub(crate) fn forgo(&self, iterations: u64, of_each: u64) {
        for (ring, results) in self.attached.iter().flat_map(|attached| &attached.rings) {
            ring.forgo(results / of_each.max(1) * iterations);
        }
    }

    /// Hands changed nodes to the driver. What fails stays to be patched.
    #[cold]
    #[inline(never)]
    pub(crate) fn patch(&mut self) -> Result<(), LaunchError> {
        let Self { exec, template, shadow, patches, .. } = self;
        if patches.dirty.is_empty() {
            return Ok(());
        }
        let _context = template.gate().within_context()?;
        while let Some(&number) = patches.dirty.last() {
            let found = match number.checked_sub(shadow.nodes.len()) {
                None => shadow.nodes.get(number),
                Some(inside) => patches.inside.get(inside).and_then(|path| node(&shadow.nodes, path)),
            };
            if let Some(node) = found {
                patch_node(exec, template, node, &mut patches.state[number])?;
            }
            patches.dirty.pop();
            patches.state[number].dirty = false;
        }
        Ok(())
    }
}

/// The event of a timestamp of the graph or of one inside.
fn event<'r>(recorded: &'r Recorded, wanted: &str) -> Option<&'r Arc<Event>> {
    recorded.nodes.iter().find_map(|node| match &node.work {
        Work::Timestamp { name, event } if name == wanted => Some(event),
        work => work.inside().iter().find_map(|inner| event(inner, wanted)),
    })
}

fn patch_node(
    exec: &mut Exec,
    template: &Template,
    node: &Node,
    state: &mut NodeState,
) -> Result<(), LaunchError> {
    let kernel = match &node.work {
        Work::Kernel(kernel) => kernel,
        Work::Fill { to, byte } => {
            let fill = (to.address(), to.view.len(), *byte);
            // SAFETY: a fill node of the template; its view is pinned by the shadow.
            return unsafe { exec.set_fill(template, node.raw, fill) };
        }
        Work::Copy { from, to } => {
            let copy = (from.address(), false, to.address(), from.view.len());
            // SAFETY: as above, for a copy node.
            return unsafe { exec.set_copy(template, node.raw, copy) };
        }
        Work::Upload { from, to, bytes } => {
            let copy = (from.as_ptr().expose_provenance() as u64, true, to.address(), *bytes);
            // SAFETY: as above; the shadow owns the source.
            return unsafe { exec.set_copy(template, node.raw, copy) };
        }
        _ => return Ok(()),
    };
    let empty = kernel.geometry.is_empty();
    if empty != state.disabled {
        // SAFETY: a kernel node of the template that the executable graph was made of.
        unsafe { exec.set_enabled(node.raw, !empty) }?;
        state.disabled = empty;
    }
    if empty {
        return Ok(());
    }
    let function = kernel.pipeline.built.function;
    // SAFETY: as above; the shadow has the function's own layout and its views are pinned by it.
    unsafe { exec.set_kernel(node.raw, function, kernel.geometry, &kernel.packed) }
}

impl Attached {
    fn of(shadow: &Recorded) -> Self {
        let mut attached = Self::default();
        attached.add(shadow, 1);
        attached
    }

    fn add(&mut self, recorded: &Recorded, times: u64) {
        for node in &recorded.nodes {
            match &node.work {
                Work::Kernel(kernel) => match &kernel.role {
                    Role::Plain => {}
                    Role::Feed(feed) => {
                        if !self.feeds.iter().any(|known| Arc::ptr_eq(known, feed)) {
                            self.feeds.push(feed.clone());
                        }
                    }
                    Role::Post(ring) => {
                        match self.rings.iter_mut().find(|(known, _)| Arc::ptr_eq(known, ring)) {
                            Some((_, results)) => *results += times,
                            None => self.rings.push((ring.clone(), times)),
                        }
                    }
                },
                Work::Conditional { form: Form::While { most }, bodies, .. } => {
                    bodies.iter().for_each(|body| self.add(body, times * u64::from(*most)));
                }
                _ => {}
            }
        }
    }

    fn before(&self, on: &Stream) -> Result<(), LaunchError> {
        self.rings.iter().try_for_each(|(ring, results)| ring.admits(*results, on))?;
        self.feeds.iter().try_for_each(|feed| feed.stage(on))
    }

    fn after(&self, on: &Stream) {
        self.feeds.iter().for_each(|feed| feed.launched());
        self.rings.iter().for_each(|(ring, results)| ring.promise(*results, on));
    }
}

impl Patches {
    fn of(shadow: &Recorded) -> Self {
        let inside = paths(shadow);
        let nodes = shadow.nodes.len() + inside.len();
        let mut patches = Self {
            dirty: Vec::with_capacity(nodes),
            state: vec![NodeState::default(); nodes].into(),
            inside: inside.into(),
            scratch: Box::default(),
            zeros: Box::default(),
        };
        patches.refit(shadow);
        patches
    }

    /// Makes room for the kernels of another shadow with as many nodes.
    pub(crate) fn refit(&mut self, shadow: &Recorded) {
        let inside = self.inside.iter().filter_map(|path| node(&shadow.nodes, path));
        let kernels = shadow.nodes.iter().chain(inside).filter_map(|node| match &node.work {
            Work::Kernel(kernel) => Some(&kernel.pipeline.built.layout),
            _ => None,
        });
        let sizes = kernels.map(|layout| (layout.packed_bytes(), layout.by_value_bytes()));
        let (packed, by_value) = sizes.fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)));
        self.scratch = vec![0; packed].into();
        self.zeros = vec![0; by_value].into();
    }

    /// The node is to be patched before the next replay. No allocation.
    #[inline]
    pub(crate) fn changed(&mut self, number: usize) {
        if !self.state[number].dirty {
            self.state[number].dirty = true;
            self.dirty.push(number);
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.shadow.used(&self.uses);
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.node_count()).finish_non_exhaustive()
    }
}
