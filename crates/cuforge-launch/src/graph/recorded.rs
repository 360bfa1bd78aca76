//! What a capture recorded: its nodes with all that they reference, their order, and the places marked as slots.

use crate::error::LaunchError;
use crate::events::Event;
use crate::ffi::RawGraphNode;
use crate::graph::counter::Counts;
use crate::graph::feed::Feed;
use crate::graph::pinned_view::{PinnedView, Uses, lease_used};
use crate::graph::ring::Ring;
use crate::graph_error::NodeKind;
use crate::held::Held;
use crate::mapped::MappedWords;
use crate::options::LaunchOptions;
use crate::pinned::PinnedBuffer;
use crate::pipeline::Pipeline;
use crate::slab::Slab;
use crate::stream::Line;
use crate::submit::sealed::Launched;
use cuforge_core::{BufferView, LaunchGeometry, Lease};
use std::sync::Arc;

/// Nodes in the order of their submission, and what else the graph keeps alive.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) nodes: Vec<Node>,
    /// (from, to, programmatic), by place in `nodes`, in order.
    pub(crate) edges: Vec<(usize, usize, bool)>,
    pub(crate) slots: Vec<Marked>,
    /// The streams that were captured.
    pub(crate) lines: Vec<Arc<Line>>,
    /// Whether nodes have priorities of their own.
    pub(crate) with_priorities: bool,
    /// Words that kernels know by their address.
    pub(crate) kept: Vec<Arc<MappedWords>>,
}

/// One node.
pub(crate) struct Node {
    pub(crate) raw: RawGraphNode,
    pub(crate) work: Work,
}

// SAFETY: a node handle is a name; what is done with it goes through the graph that owns it.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

/// What a node does, with what it keeps alive.
pub(crate) enum Work {
    Kernel(Box<KernelNode>),
    Fill {
        to: PinnedView,
        byte: u8,
    },
    Copy {
        from: PinnedView,
        to: PinnedView,
    },
    Upload {
        from: Arc<PinnedBuffer>,
        to: PinnedView,
        bytes: u64,
    },
    Timestamp {
        name: String,
        event: Arc<Event>,
    },
    Child(Recorded),
    Conditional {
        form: Form,
        word: PinnedView,
        bodies: Vec<Recorded>,
        /// Of a loop: what counts its iterations, and the kernel that does.
        counts: Option<(Arc<Counts>, Pipeline)>,
    },
    /// What another library submitted.
    Foreign(NodeKind),
}

/// What a conditional node does with its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Runs the first graph where it is not 0, else the second if there is one.
    If,
    /// Runs its graph until it is 0, at most so often.
    While { most: u32 },
    /// Runs the graph of that number, if there is one.
    Switch,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::If => f.write_str("if"),
            Self::While { most } => write!(f, "while, at most {most} times"),
            Self::Switch => f.write_str("switch"),
        }
    }
}

/// What else a kernel is to its graph.
#[derive(Clone)]
pub(crate) enum Role {
    Plain,
    /// It takes a parameter block's values out of mapped memory.
    Feed(Arc<Feed>),
    /// It puts results into mapped memory.
    Post(Arc<Ring>),
}

/// A kernel as the graph launches it: the shadow of what the driver holds, which cannot be asked.
pub(crate) struct KernelNode {
    pub(crate) pipeline: Pipeline,
    pub(crate) slab: Slab,
    pub(crate) views: Box<[BufferView]>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) geometry: LaunchGeometry,
    pub(crate) packed: Box<[u8]>,
    pub(crate) options: LaunchOptions,
    pub(crate) role: Role,
}

/// A slot: its name, what it takes, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) name: String,
    pub(crate) kind: SlotKind,
    pub(crate) places: Vec<Site>,
}

/// A place where a slot's value goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The way to the kernel's node, further inside where a recording with slots was put into another one.
    pub(crate) path: Box<[usize]>,
    /// The node's number among all of the graph and of those inside; known once the recording is complete.
    pub(crate) number: usize,
    /// The parameter's place among the kernel's parameters; for a view among its bound views.
    pub(crate) parameter: usize,
}

/// What a slot takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Scalar(cuforge_core::Element),
    Uniform { bytes: usize },
    Grid,
    View,
}

impl std::fmt::Display for SlotKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar(element) => write!(f, "a scalar {}", element.name()),
            Self::Uniform { bytes } => write!(f, "a uniform block of {bytes} bytes"),
            Self::Grid => f.write_str("a grid"),
            Self::View => f.write_str("a view"),
        }
    }
}

impl KernelNode {
    /// What was launched, its views pinned for the graph.
    pub(crate) fn of(launched: Launched<'_>) -> Result<Self, LaunchError> {
        let Launched { held, geometry, packed, options } = launched;
        let Held { pipeline, slab, views, .. } = held;
        Ok(Self {
            pipeline: pipeline.clone(),
            slab: slab.clone(),
            leases: views.iter().map(|view| slab.pins().pin(view)).collect::<Result<_, _>>()?,
            views: views.clone(),
            geometry,
            packed: packed.into(),
            options,
            role: Role::Plain,
        })
    }

    fn again(&self) -> Result<Self, LaunchError> {
        let Self { pipeline, slab, views, geometry, packed, options, role, .. } = self;
        Ok(Self {
            pipeline: pipeline.clone(),
            slab: slab.clone(),
            leases: views.iter().map(|view| slab.pins().pin(view)).collect::<Result<_, _>>()?,
            views: views.clone(),
            geometry: *geometry,
            packed: packed.clone(),
            options: *options,
            role: role.clone(),
        })
    }

    pub(crate) fn entry(&self) -> &str {
        self.pipeline.entry_point()
    }
}

impl Work {
    pub(crate) fn kind(&self) -> NodeKind {
        match self {
            Self::Kernel(_) => NodeKind::Kernel,
            Self::Fill { .. } => NodeKind::Fill,
            Self::Copy { .. } | Self::Upload { .. } => NodeKind::Copy,
            Self::Timestamp { .. } => NodeKind::Timestamp,
            Self::Child(_) => NodeKind::Child,
            Self::Conditional { .. } => NodeKind::Conditional,
            Self::Foreign(kind) => *kind,
        }
    }

    /// The same, everything pinned once more.
    pub(crate) fn again(&self) -> Result<Self, LaunchError> {
        Ok(match self {
            Self::Kernel(kernel) => Self::Kernel(Box::new(kernel.again()?)),
            Self::Fill { to, byte } => Self::Fill { to: to.again()?, byte: *byte },
            Self::Copy { from, to } => Self::Copy { from: from.again()?, to: to.again()? },
            Self::Upload { from, to, bytes } => {
                Self::Upload { from: from.clone(), to: to.again()?, bytes: *bytes }
            }
            Self::Timestamp { name, event } => Self::Timestamp { name: name.clone(), event: event.clone() },
            Self::Child(recorded) => Self::Child(recorded.again()?),
            Self::Conditional { form, word, bodies, counts } => Self::Conditional {
                form: *form,
                word: word.again()?,
                bodies: bodies.iter().map(Recorded::again).collect::<Result<_, _>>()?,
                counts: counts.clone(),
            },
            Self::Foreign(kind) => Self::Foreign(*kind),
        })
    }

    /// Notes the uses of all that it references.
    pub(crate) fn used(&self, uses: &Uses) {
        match self {
            Self::Kernel(kernel) => {
                kernel.leases.iter().for_each(|lease| lease_used(&kernel.slab, lease, uses));
            }
            Self::Fill { to, .. } | Self::Upload { to, .. } => to.used(uses),
            Self::Copy { from, to } => {
                from.used(uses);
                to.used(uses);
            }
            Self::Child(recorded) => recorded.used(uses),
            Self::Conditional { word, bodies, counts, .. } => {
                word.used(uses);
                counts.iter().for_each(|(counts, _)| counts.counter.used(uses));
                bodies.iter().for_each(|body| body.used(uses));
            }
            Self::Timestamp { .. } | Self::Foreign(_) => {}
        }
    }
}

impl Recorded {
    /// The same, everything pinned once more.
    pub(crate) fn again(&self) -> Result<Self, LaunchError> {
        let again = |node: &Node| node.work.again().map(|work| Node { raw: node.raw, work });
        Ok(Self {
            nodes: self.nodes.iter().map(again).collect::<Result<_, _>>()?,
            edges: self.edges.clone(),
            slots: self.slots.clone(),
            lines: self.lines.clone(),
            with_priorities: self.with_priorities,
            kept: self.kept.clone(),
        })
    }

    /// Notes the uses of all that the nodes reference.
    pub(crate) fn used(&self, uses: &Uses) {
        self.nodes.iter().for_each(|node| node.work.used(uses));
    }
}
