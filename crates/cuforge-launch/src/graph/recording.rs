//! Recordings: captured graphs, checked and complete, of which executable ones are made.

use crate::error::LaunchError;
use crate::gate::Gate;
use crate::graph::claims::Claims;
use crate::graph::handles::Template;
use crate::graph::recorded::{Recorded, Role, Work};
use crate::graph::replay::Graph;
use crate::graph_error::GraphError;
use std::fmt;
use std::sync::Arc;

/// What a capture recorded. It owns all that its nodes use, so it cannot dangle: modules, views (leased: they can be
/// written, not released), pinned memory, events and streams.
///
/// `Send` and `Sync`. Instantiate it to replay it, put it into another capture as a child, or update a graph from it.
pub struct Recording {
    template: Arc<Template>,
    recorded: Recorded,
}

impl Recording {
    pub(crate) fn new(template: Template, mut recorded: Recorded) -> Self {
        recorded.number_sites();
        Self { template: Arc::new(template), recorded }
    }

    /// How many nodes it has, those of child graphs not counted.
    pub fn node_count(&self) -> usize {
        self.recorded.nodes.len()
    }

    /// An executable graph of it; as many as wanted, each with slots of its own. Some 100 us for a few nodes, 3 us a
    /// node for many.
    ///
    /// # Errors
    /// [`GraphError::BlockTaken`] and [`GraphError::ConditionTaken`] for the second graph that one parameter block would
    /// feed or one condition repeat;
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn instantiate(&self) -> Result<Graph, LaunchError> {
        let claims = Claims::of(&self.recorded)?;
        let shadow = self.recorded.again()?;
        let exec = self.template.instantiate(self.recorded.with_priorities)?;
        claims.keep();
        Ok(Graph::new(exec, self.template.clone(), shadow))
    }

    pub(crate) fn template(&self) -> &Arc<Template> {
        &self.template
    }

    pub(crate) fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Its nodes for a graph around it.
    pub(crate) fn nestable(&self, gate: &Arc<Gate>, within: Within) -> Result<Recorded, LaunchError> {
        if !Arc::ptr_eq(self.template.gate(), gate) {
            return Err(LaunchError::OtherDevice { what: "recording" });
        }
        if let Some(what) = unnestable(&self.recorded, within) {
            return Err(GraphError::NotNestable { what }.into());
        }
        self.recorded.again()
    }
}

/// What a recording becomes a part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// A child node. The driver records events there.
    Child,
    /// A branch of a conditional node, which runs or does not: nobody knows how many results it posts.
    Branch,
    /// The body of a loop: so many results at most.
    Loop,
}

/// What a graph holds that cannot be part of another. As measured (580.159.04), the driver makes no child of a graph with
/// conditional nodes, and no executable graph with event records in a conditional node.
fn unnestable(recorded: &Recorded, within: Within) -> Option<&'static str> {
    recorded.nodes.iter().find_map(|node| match &node.work {
        Work::Conditional { .. } => Some("a conditional node"),
        Work::Timestamp { .. } if within != Within::Child => Some("a timestamp"),
        Work::Child(child) => unnestable(child, within),
        Work::Kernel(kernel) => match kernel.role {
            Role::Feed(_) => Some("the feed of a parameter block"),
            Role::Post(_) if within != Within::Loop => Some("a post to a result ring"),
            _ => None,
        },
        _ => None,
    })
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("nodes", &self.node_count()).finish_non_exhaustive()
    }
}
