//! A graph updated from a new capture: only what differs is handed to the driver, or nothing at all.

use crate::error::LaunchError;
use crate::graph::difference::{between, changed};
use crate::graph::inside::take_names;
use crate::graph::recording::Recording;
use crate::graph::replay::Graph;
use crate::graph_error::GraphError;
use std::sync::Arc;

impl Graph {
    /// Makes this graph do what `recording` does, from the next replay on; how many nodes differed. Replays in flight
    /// are as they were. Slots are those of the recording, found by the same handles as before.
    ///
    /// Nodes, edges and slots must be the same; kernels (code, geometry, arguments), fills and copies may differ. One
    /// driver call for each kernel that differs, two for a fill or copy: the driver's own update walks all nodes.
    ///
    /// # Errors
    /// [`GraphError::Differs`] with the first difference in words; [`LaunchError::Driver`] where the driver refuses a
    /// node. This graph then does what it did before.
    pub fn update(&mut self, recording: &Recording) -> Result<usize, LaunchError> {
        if !Arc::ptr_eq(self.template.gate(), recording.template().gate()) {
            return Err(LaunchError::OtherDevice { what: "recording" });
        }
        let differences = between(&self.shadow, recording.recorded());
        if let Some(first) = differences.iter().find(|difference| !difference.in_place) {
            return Err(GraphError::Differs { difference: first.to_string() }.into());
        }
        let changed = changed(&self.shadow, recording.recorded());
        if changed.is_empty() {
            return Ok(0);
        }
        let mut new = recording.recorded().again()?;
        // The driver knows the nodes by the names of the first capture, and records that one's events.
        take_names(&mut self.shadow.nodes, &mut new.nodes);
        let mut old = std::mem::replace(&mut self.shadow, new);
        self.patches.refit(&self.shadow);
        changed.iter().for_each(|place| self.patches.changed(*place));
        if let Err(error) = self.patch() {
            std::mem::swap(&mut self.shadow, &mut old);
            take_names(&mut old.nodes, &mut self.shadow.nodes);
            self.patches.refit(&self.shadow);
            changed.iter().for_each(|place| self.patches.changed(*place));
            return Err(error);
        }
        old.used(&self.uses);
        Ok(changed.len())
    }
}
