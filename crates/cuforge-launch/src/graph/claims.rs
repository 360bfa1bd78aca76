//! Claims on what serves one executable graph at most: parameter blocks and the counters of loops.

use crate::graph::recorded::{Recorded, Role, Work};
use crate::graph_error::GraphError;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every claim of a recording, or none: given up when dropped before [`keep`](Self::keep).
pub(crate) struct Claims<'r> {
    taken: Vec<&'r AtomicBool>,
}

impl<'r> Claims<'r> {
    /// Claims all that the recording's executable graph needs for itself.
    pub(crate) fn of(recorded: &'r Recorded) -> Result<Self, GraphError> {
        let mut claims = Self { taken: Vec::new() };
        for node in &recorded.nodes {
            match &node.work {
                Work::Kernel(kernel) => {
                    if let Role::Feed(feed) = &kernel.role {
                        claims.take(feed.claimed(), GraphError::BlockTaken)?;
                    }
                }
                Work::Conditional { counts: Some((counts, _)), .. } => {
                    claims.take(counts.claimed(), GraphError::ConditionTaken)?;
                }
                _ => {}
            }
        }
        Ok(claims)
    }

    fn take(&mut self, claimed: &'r AtomicBool, taken: GraphError) -> Result<(), GraphError> {
        if self.taken.iter().any(|own| ptr::eq(*own, claimed)) {
            return Ok(());
        }
        if claimed.swap(true, Ordering::AcqRel) {
            return Err(taken);
        }
        self.taken.push(claimed);
        Ok(())
    }

    /// The graph is made: what it claims is its own for good.
    pub(crate) fn keep(mut self) {
        self.taken.clear();
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for claimed in &self.taken {
            claimed.store(false, Ordering::Release);
        }
    }
}
