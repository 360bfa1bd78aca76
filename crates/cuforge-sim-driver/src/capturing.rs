//! Whether a capture is going on, and the edges that its nodes are put behind: what streams and events know of it.

use std::sync::atomic::{AtomicBool, Ordering};

/// `CUgraphEdgeData`: from port, to port, type.
pub(crate) type EdgeData = [u8; 8];

/// An edge of full completion.
pub(crate) const PLAIN_EDGE: EdgeData = [0; 8];
/// An edge from the programmatic port of a kernel.
pub(crate) const PROGRAMMATIC_EDGE: EdgeData = [1, 0, 1, 0, 0, 0, 0, 0];

/// The nodes that the next one follows.
pub(crate) type Front = Vec<(u64, EdgeData)>;

/// One capture.
#[derive(Debug)]
pub(crate) struct Capturing {
    /// No other capture has it.
    pub(crate) id: u64,
    invalidated: AtomicBool,
    over: AtomicBool,
}

impl Capturing {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, invalidated: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Nothing can be captured any more.
    pub(crate) fn invalidate(&self) {
        self.invalidated.store(true, Ordering::Release);
    }

    pub(crate) fn is_invalidated(&self) -> bool {
        self.invalidated.load(Ordering::Acquire)
    }

    /// It has been ended or left.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether it is going on and can be ended with a graph.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_invalidated() && !self.over.load(Ordering::Acquire)
    }
}
