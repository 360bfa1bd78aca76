//! The simulated device with something about it changed, as a backend for tests.

use cuforge_core::{
    Adapter, Arguments, BufferView, BuildOptions, Constraints, ContextError, Extent, KernelSpec,
    OracleContext, Prepared, Request, Sampling, Schedule,
};
use cuforge_oracle::SimContext;

/// What is changed; nothing unless overridden.
pub(crate) trait Change {
    /// What is built in the place of `spec`.
    fn built(&self, _: &KernelSpec) -> Option<KernelSpec> {
        None
    }

    /// What a launch is said to take, by the device's own clock.
    fn launch_ns(&self) -> Option<u64> {
        None
    }

    /// The rate at which the device runs.
    fn clock_hz(&mut self) -> Option<u64> {
        None
    }
}

/// The device.
pub(crate) struct Changed<C> {
    pub(crate) device: SimContext,
    pub(crate) constraints: Constraints,
    pub(crate) change: C,
}

impl<C: Change> Changed<C> {
    pub(crate) fn new(device: SimContext, change: C) -> Self {
        let constraints = device.constraints().clone();
        Self { device, constraints, change }
    }
}

impl<C: Change> OracleContext for Changed<C> {
    fn adapter(&self) -> &Adapter {
        self.device.adapter()
    }

    fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    fn timestamp_supported(&self) -> bool {
        self.change.launch_ns().is_some()
    }

    fn clock_hz(&mut self) -> Result<Option<u64>, ContextError> {
        Ok(self.change.clock_hz())
    }

    fn allocate(&mut self, request: &Request) -> Result<BufferView, ContextError> {
        self.device.allocate(request)
    }

    fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), ContextError> {
        self.device.write(view, bytes)
    }

    fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), ContextError> {
        self.device.read(view, bytes)
    }

    fn clear(&mut self) -> Result<(), ContextError> {
        self.device.clear()
    }

    fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Prepared, ContextError> {
        let built = self.change.built(spec);
        self.device.prepare(built.as_ref().unwrap_or(spec), schedule, options)
    }

    fn run(
        &mut self,
        prepared: &mut Prepared,
        arguments: Arguments<'_>,
        extent: Extent,
        sampling: Sampling,
        samples: &mut Vec<u64>,
    ) -> Result<(), ContextError> {
        let before = samples.len();
        self.device.run(prepared, arguments, extent, sampling, samples)?;
        if let Some(launch_ns) = self.change.launch_ns() {
            samples[before..].fill(launch_ns);
        }
        Ok(())
    }
}
