//! What can go wrong with captures and graphs: misuse apart from what spoilt a capture.

/// Why a capture, a graph or a slot says no. After each of these the stream is usable and the capture can be tried
/// again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The call does not go with the capture under way; the capture is not harmed by it.
    #[error("{what} is capturing: end the capture first")]
    Capturing {
        /// What is capturing: the stream, this thread, the device.
        what: &'static str,
    },
    /// Two scopes that must be of one capture are of two.
    #[error("the branch is of another capture")]
    ForeignBranch,
    /// The scope was used after its capture had ended.
    #[error("the capture of this scope has ended")]
    Ended,
    /// Nothing was captured.
    #[error("nothing was captured")]
    Empty,
    /// Something that no capture allows spoilt it: a call of another library on this thread, or another thread that
    /// waited for the stream or the context.
    #[error("the capture was spoilt {when}, by a call that captures do not allow")]
    Invalidated {
        /// The first operation that saw it.
        when: String,
    },
    /// The driver does not allow a call while a stream captures; the call has spoilt the capture.
    #[error("{call} is not allowed while a stream captures")]
    Forbidden {
        /// The driver's function.
        call: &'static str,
    },
    /// A branch was forked and not joined.
    #[error("{branches} branches were forked and not joined")]
    Unjoined {
        /// How many.
        branches: usize,
    },
    /// A submission succeeded and is not in the graph: it ran, or it went elsewhere.
    #[error("{operation} escaped the capture: it is not in the graph")]
    Escaped {
        /// What was submitted.
        operation: String,
    },
    /// The captured graph does not hold what the scope recorded.
    #[error("{captured} {kind} nodes were captured, {recorded} were recorded")]
    Census {
        /// The kind of node.
        kind: NodeKind,
        /// How many the scope recorded.
        recorded: usize,
        /// How many the driver's graph has.
        captured: usize,
    },
    /// A slot was marked where nothing has been submitted that can have one.
    #[error("slot `{slot}`: the last submission is no kernel")]
    NothingToMark {
        /// The slot's name.
        slot: String,
    },
    /// A kernel has no such parameter.
    #[error("slot `{slot}`: kernel `{entry}` has no {parameter}")]
    NoSuchParameter {
        /// The slot's name.
        slot: String,
        /// The kernel.
        entry: String,
        /// What was looked for.
        parameter: String,
    },
    /// The graph has no slot of that name.
    #[error("the graph has no slot `{slot}`")]
    NoSuchSlot {
        /// The name asked for.
        slot: String,
    },
    /// A slot is of another type than what it is asked for, set to, or marked as before.
    #[error("slot `{slot}` is {is}, not {asked}")]
    SlotType {
        /// The slot's name.
        slot: String,
        /// What it is.
        is: String,
        /// What was asked for.
        asked: String,
    },
    /// A slot of another graph, or of the graph before its last update.
    #[error("the slot is of another graph")]
    ForeignSlot,
    /// The graph cannot become the other one in place.
    #[error("the graph cannot be updated in place: {difference}")]
    Differs {
        /// The first difference, in words.
        difference: String,
    },
    /// A programmatic launch of a kernel that never waits for its predecessor.
    #[error(
        "kernel `{entry}` does not wait for its predecessor, so it cannot be launched before that has ended"
    )]
    DoesNotWait {
        /// The kernel.
        entry: String,
    },
    /// No timestamp of that name.
    #[error("the graph has no timestamp `{name}`")]
    NoSuchTimestamp {
        /// The name asked for.
        name: String,
    },
    /// A replay could write over results that were not taken yet.
    #[error("all {slots} slots of the result ring are promised: take results first")]
    ResultsFull {
        /// How many slots the ring has.
        slots: usize,
    },
    /// Another stream still posts to the ring.
    #[error("the result ring is in use by replays on another stream")]
    ResultsElsewhere,
    /// A result was waited for that no replay so far posts.
    #[error("no result is on its way")]
    NoResult,
    /// A parameter block feeds one executable graph.
    #[error("the parameter block feeds another graph already")]
    BlockTaken,
    /// A condition repeats one graph, in one executable graph.
    #[error("the condition repeats another graph already")]
    ConditionTaken,
    /// A graph within another one must not hold that.
    #[error("{what} cannot be part of another graph")]
    NotNestable {
        /// What it holds.
        what: &'static str,
    },
    /// A view of another length than what it is used for has.
    #[error("{what} takes {need} bytes, the view has {bytes}")]
    ViewLength {
        /// What it is for.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes of the view.
        bytes: u64,
    },
}

/// The kinds of graph nodes, as the driver tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NodeKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A function of the host.
    Host,
    /// A graph in the graph.
    Child,
    /// Nothing: a joint.
    Empty,
    /// A wait for an event.
    Wait,
    /// A record of an event.
    Timestamp,
    /// An allocation or a release of memory.
    Memory,
    /// A write or a wait in stream order.
    StreamValue,
    /// A condition over graphs.
    Conditional,
    /// A kind that this crate does not know.
    Other,
}

impl NodeKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 12] = [
        Self::Kernel,
        Self::Copy,
        Self::Fill,
        Self::Host,
        Self::Child,
        Self::Empty,
        Self::Wait,
        Self::Timestamp,
        Self::Memory,
        Self::StreamValue,
        Self::Conditional,
        Self::Other,
    ];

    /// The kind of a `CUgraphNodeType`.
    pub(crate) const fn of(number: i32) -> Self {
        match number {
            0 => Self::Kernel,
            1 => Self::Copy,
            2 => Self::Fill,
            3 => Self::Host,
            4 => Self::Child,
            5 => Self::Empty,
            6 => Self::Wait,
            7 => Self::Timestamp,
            10 | 11 => Self::Memory,
            12 => Self::StreamValue,
            13 => Self::Conditional,
            _ => Self::Other,
        }
    }
}

impl std::fmt::Display for NodeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Host => "host function",
            Self::Child => "child graph",
            Self::Empty => "empty",
            Self::Wait => "event wait",
            Self::Timestamp => "event record",
            Self::Memory => "memory",
            Self::StreamValue => "stream value",
            Self::Conditional => "conditional",
            Self::Other => "unknown",
        })
    }
}
