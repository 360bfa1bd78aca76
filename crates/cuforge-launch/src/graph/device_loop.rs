//! Loops on the device: a graph that repeats until a word says stop, without the host; or from the host where the driver
//! cannot.

use crate::error::LaunchError;
use crate::graph::condition::Condition;
use crate::graph::counter::Counts;
use crate::graph::replay::Graph;
use crate::graph::scope::CaptureScope;
use crate::slab::Slab;
use crate::stream::Stream;
use cuforge_core::BufferView;
use std::fmt;
use std::sync::Arc;

/// A loop that is ready to run. `Send`.
///
/// Its body runs at least once, and again while the word is not 0 after it, at most so often as it was made for. The
/// word is read after each iteration and not set back: whoever starts a run sets it. Results stream to the host through
/// a [`ResultRing`](crate::ResultRing) while the loop runs.
pub struct DeviceLoop {
    graph: Graph,
    most: u32,
    runs: u64,
    form: Form,
}

enum Form {
    /// A conditional node repeats the body; what it reports, and what was reported up to the last look.
    Device { counts: Arc<Counts>, seen: u64 },
    /// The host replays the body and reads the word after each.
    Host { slab: Slab, word: BufferView, iterations: u64 },
}

impl Stream {
    /// Captures `body` as the body of a loop over `word` (32 bits), of at most `most` iterations.
    ///
    /// Where the driver has conditional nodes (CUDA 12.4) the loop runs on the device; else the host runs it, with a
    /// wait for each iteration. [`DeviceLoop::is_on_device`] tells.
    ///
    /// # Errors
    /// As [`capture`](Self::capture); [`GraphError::NotNestable`](crate::GraphError::NotNestable).
    pub fn device_loop(
        &mut self,
        slab: &Slab,
        word: &BufferView,
        most: u32,
        body: impl FnOnce(&mut CaptureScope<'_>) -> Result<(), LaunchError>,
    ) -> Result<DeviceLoop, LaunchError> {
        self.same_device(slab.device())?;
        let (body, most) = (self.capture(body)?, most.max(1));
        let on_device = self.device().gate().api().need_conditions().is_ok();
        if !on_device {
            let form = Form::Host { slab: slab.clone(), word: *word, iterations: 0 };
            // The graph's own leases do not cover a word that no node of it names.
            return Ok(DeviceLoop { graph: body.instantiate()?, most, runs: 0, form });
        }
        let condition = Condition::new(self, slab, word)?;
        let counts = condition.counts().clone();
        let around = self.capture(|scope| scope.repeat_while(&condition, most, &body))?;
        let form = Form::Device { seen: counts.total(), counts };
        Ok(DeviceLoop { graph: around.instantiate()?, most, runs: 0, form })
    }
}

impl DeviceLoop {
    /// Whether the device runs the loop by itself.
    pub fn is_on_device(&self) -> bool {
        matches!(self.form, Form::Device { .. })
    }

    /// Iterations of one run at most.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Starts a run: one driver call, and the host goes on. Without conditional nodes it returns when the run is over.
    ///
    /// # Errors
    /// As [`Graph::replay`]; [`LaunchError::View`] for a word that is gone.
    pub fn run(&mut self, on: &mut Stream) -> Result<(), LaunchError> {
        match &mut self.form {
            Form::Device { .. } => {
                self.graph.replay(on)?;
                self.runs += 1;
                Ok(())
            }
            Form::Host { slab, word, iterations } => {
                for _ in 0..self.most {
                    self.graph.replay(on)?;
                    *iterations += 1;
                    let mut now = [0; 4];
                    slab.read(on, word, &mut now)?;
                    if now == [0; 4] {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Waits for the runs started on `on`; how many iterations they have had since this was asked last.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`], [`LaunchError::Driver`].
    pub fn iterations(&mut self, on: &mut Stream) -> Result<u64, LaunchError> {
        on.synchronize()?;
        match &mut self.form {
            Form::Device { counts, seen } => {
                let total = counts.total();
                let done = total.saturating_sub(std::mem::replace(seen, total));
                // Results of iterations that did not run will not come.
                let promised = std::mem::take(&mut self.runs) * u64::from(self.most);
                self.graph.forgo(promised.saturating_sub(done), u64::from(self.most));
                Ok(done)
            }
            Form::Host { iterations, .. } => Ok(std::mem::take(iterations)),
        }
    }

    /// The graph that a run replays.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The same, for its slots: those that the body marked, set from the next run on. Runs are started by
    /// [`run`](Self::run), which counts them.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

impl fmt::Debug for DeviceLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLoop")
            .field("most", &self.most)
            .field("on_device", &self.is_on_device())
            .finish_non_exhaustive()
    }
}
