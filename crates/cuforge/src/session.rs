//! The session: one device, one slab, one stream and a compiler, wired together.

use crate::code::Code;
use crate::error::SessionError;
use bytemuck::Pod;
use cuforge_core::{
    Arguments, BufferView, BuildOptions, Checkpoint, CompileRequest, Digest, Elapsed, Extent, KernelSpec,
    Language, ModuleImage, Request, Rewound, Schedule,
};
use cuforge_launch::{
    BoundLaunch, CaptureScope, Closed, Device, DeviceLoop, Graph, LaunchError, ParameterBlock, Pipeline,
    Prefetched, Prefetcher, Recording, ResultRing, Slab, Stream,
};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device with slab, stream and compiler, ready for kernels.
///
/// `Send`, not `Sync`: one thread drives its stream. Pipelines and bound launches own what they need and borrow nothing
/// of it, so allocating, binding and launching never stand in each other's way.
pub struct Session {
    device: Device,
    slab: Slab,
    stream: Stream,
    code: Code,
    prefetch_depth: usize,
    tuned: Option<PathBuf>,
    /// By a hash of the request that only locates; the whole request is compared.
    built: HashMap<u64, Vec<Built>>,
}

struct Built {
    spec: KernelSpec,
    schedule: Schedule,
    options: BuildOptions,
    pipeline: Pipeline,
}

impl Session {
    pub(crate) fn new(
        device: Device,
        slab: Slab,
        stream: Stream,
        code: Code,
        prefetch_depth: usize,
        tuned: Option<PathBuf>,
    ) -> Self {
        Self { device, slab, stream, code, prefetch_depth, tuned, built: HashMap::new() }
    }

    pub(crate) fn tuned_folder(&self) -> Option<&Path> {
        self.tuned.as_deref()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The slab.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// The stream that the session's copies and runs go to.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Device memory for `request`; waits for memory that is pending on the session's stream where there is no other.
    ///
    /// # Errors
    /// [`SessionError::Launch`] with the allocator's refusal.
    pub fn allocate(&mut self, request: &Request) -> Result<BufferView, SessionError> {
        Ok(self.slab.acquire_waiting(&mut [&mut self.stream], request)?)
    }

    /// Writes to the start of a view; see [`Slab::write`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn write(&mut self, view: &BufferView, bytes: &[u8]) -> Result<(), SessionError> {
        Ok(self.slab.write(&mut self.stream, view, bytes)?)
    }

    /// Buffers of the slab as `request` says, as many as the builder's prefetch depth, with a copy stream: uploads into
    /// them run while the session's stream computes. [`take`](Self::take) leases one to that stream.
    ///
    /// # Errors
    /// [`SessionError::Launch`] as in [`Prefetcher::new`].
    ///
    /// ```no_run
    /// use cuforge::{Session, SessionError};
    /// # fn compute(session: &mut Session, view: cuforge::core::BufferView) -> Result<(), SessionError> { Ok(()) }
    /// # fn batches(batches: Vec<Vec<u8>>) -> Result<(), SessionError> {
    /// let mut session = Session::builder().prefetch_depth(3).build()?;
    /// let mut prefetcher = session.prefetcher(&cuforge::core::Request::new(64 << 20))?;
    /// let mut batches = batches.into_iter();
    /// if let Some(first) = batches.next() {
    ///     prefetcher.push_owned(first).map_err(|unsent| unsent.error)?;
    /// }
    /// while let Some(batch) = session.take(&mut prefetcher)? {
    ///     if let Some(next) = batches.next() {
    ///         prefetcher.push_owned(next).map_err(|unsent| unsent.error)?;
    ///     }
    ///     compute(&mut session, batch.view())?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn prefetcher(&self, request: &Request) -> Result<Prefetcher, SessionError> {
        Ok(Prefetcher::new(&self.slab, request, self.prefetch_depth)?)
    }

    /// The oldest filled buffer, leased to the session's stream; `None` if none is filled. See [`Prefetcher::take`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn take(&mut self, prefetcher: &mut Prefetcher) -> Result<Option<Prefetched>, SessionError> {
        Ok(prefetcher.take(&mut self.stream)?)
    }

    /// Reads the start of a view and waits for it; see [`Slab::read`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn read(&mut self, view: &BufferView, bytes: &mut [u8]) -> Result<(), SessionError> {
        Ok(self.slab.read(&mut self.stream, view, bytes)?)
    }

    /// All elements of a view; see [`Slab::read_vec`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn read_vec<T: Pod>(&mut self, view: &BufferView) -> Result<Vec<T>, SessionError> {
        Ok(self.slab.read_vec(&mut self.stream, view)?)
    }

    /// Gives a view's memory back: it is granted again once the work that uses it has completed.
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn retire(&mut self, view: BufferView) -> Result<(), SessionError> {
        Ok(self.slab.release(view)?)
    }

    /// Ends all grants but resident ones.
    ///
    /// # Errors
    /// [`SessionError::Launch`] while bound launches pin some of them, or from an allocator that does not do that.
    pub fn clear(&mut self) -> Result<Rewound, SessionError> {
        Ok(self.slab.clear()?)
    }

    /// A point to [`restore`](Self::restore).
    ///
    /// # Errors
    /// [`SessionError::Launch`] with `Unsupported` from an allocator without scopes.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, SessionError> {
        Ok(self.slab.checkpoint()?)
    }

    /// Ends all grants since the checkpoint but resident ones.
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn restore(&mut self, checkpoint: Checkpoint) -> Result<Rewound, SessionError> {
        Ok(self.slab.restore(checkpoint)?)
    }

    /// The kernel, compiled and loaded. A repeated request compares the request and does nothing else.
    ///
    /// An image that the driver rejects is reported to the compiler, which is asked for the next form that it has; so is
    /// machine code that it rejects while it takes the PTX beside it.
    ///
    /// # Errors
    /// [`SessionError::Schedule`], [`SessionError::Compile`], [`SessionError::NoCompiler`],
    /// [`SessionError::Language`], [`SessionError::Launch`].
    pub fn prepare(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Pipeline, SessionError> {
        let key = locate(spec, schedule, options);
        let same =
            |built: &&Built| built.options == *options && built.schedule == *schedule && built.spec == *spec;
        if let Some(built) = self.built.get(&key).and_then(|list| list.iter().find(same)) {
            return Ok(built.pipeline.clone());
        }
        let pipeline = self.load(spec, schedule, options)?;
        let (spec, schedule, options) = (spec.clone(), schedule.clone(), *options);
        let built = Built { spec, schedule, options, pipeline: pipeline.clone() };
        self.built.entry(key).or_default().push(built);
        Ok(pipeline)
    }

    /// Compiles if need be, runs and waits; how long it took on the device.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare) and [`Pipeline::run`].
    pub fn run(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<Elapsed, SessionError> {
        let pipeline = self.prepare(spec, schedule, &BuildOptions::default())?;
        self.run_pipeline(&pipeline, arguments, extent)
    }

    /// Runs a prepared kernel and waits; how long it took on the device.
    ///
    /// # Errors
    /// Those of [`Pipeline::run`].
    pub fn run_pipeline(
        &mut self,
        pipeline: &Pipeline,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<Elapsed, SessionError> {
        Ok(pipeline.run(&mut self.stream, &self.slab, arguments, extent)?)
    }

    /// Binds a prepared kernel for launches on [`stream`](Self::stream).
    ///
    /// # Errors
    /// Those of [`Pipeline::bind`].
    pub fn bind(
        &self,
        pipeline: &Pipeline,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<BoundLaunch, SessionError> {
        Ok(pipeline.bind(&self.slab, arguments, extent)?)
    }

    /// Records what `record` submits, in place of running it; see [`Stream::capture`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn capture(
        &mut self,
        record: impl FnOnce(&mut CaptureScope<'_>) -> Result<(), LaunchError>,
    ) -> Result<Recording, SessionError> {
        Ok(self.stream.capture(record)?)
    }

    /// Replays a graph on the session's stream; see [`Graph::replay`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn replay(&mut self, graph: &mut Graph) -> Result<(), SessionError> {
        Ok(graph.replay(&mut self.stream)?)
    }

    /// A loop over `body` on the device; see [`Stream::device_loop`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn device_loop(
        &mut self,
        word: &BufferView,
        most: u32,
        body: impl FnOnce(&mut CaptureScope<'_>) -> Result<(), LaunchError>,
    ) -> Result<DeviceLoop, SessionError> {
        Ok(self.stream.device_loop(&self.slab, word, most, body)?)
    }

    /// Values that change from replay to replay; see [`ParameterBlock`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn parameter_block(&mut self, view: &BufferView) -> Result<ParameterBlock, SessionError> {
        Ok(ParameterBlock::new(&mut self.stream, &self.slab, view)?)
    }

    /// Results that graphs post while they run; see [`ResultRing`].
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn result_ring(&mut self, bytes: usize, slots: usize) -> Result<ResultRing, SessionError> {
        Ok(ResultRing::new(&mut self.stream, &self.slab, bytes, slots)?)
    }

    /// Waits for the session's stream.
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn synchronize(&mut self) -> Result<(), SessionError> {
        Ok(self.stream.synchronize()?)
    }

    /// Ends the session: waits for the device, frees what waited for that, and says what drops could not free.
    ///
    /// # Errors
    /// [`SessionError::Launch`].
    pub fn close(self) -> Result<Closed, SessionError> {
        let Self { device, slab, stream, built, .. } = self;
        drop((slab, stream, built));
        Ok(device.close()?)
    }

    fn load(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
    ) -> Result<Pipeline, SessionError> {
        match spec.body().language {
            Language::Ptx => Ok(self.device.ptx_pipeline(spec, schedule)?),
            Language::CudaC => {
                let target = options.target.unwrap_or(self.device.target());
                let request = CompileRequest::for_kernel(spec, schedule, options, target)?;
                self.load_compiled(spec, schedule, &request)
            }
            language => Err(SessionError::Language { kernel: spec.id().to_owned(), language }),
        }
    }

    /// Compiles and loads; what the driver rejects goes back to the compiler, which offers the next form.
    fn load_compiled(
        &mut self,
        spec: &KernelSpec,
        schedule: &Schedule,
        request: &CompileRequest,
    ) -> Result<Pipeline, SessionError> {
        let mut rejected: Vec<Digest> = Vec::new();
        loop {
            let image = self.compile(spec, request)?;
            match self.pipeline(&image, spec, schedule) {
                // A compiler that offers one of them again has nothing else.
                Err(LaunchError::ImageRejected(rejection)) if !rejected.contains(&image.digest) => {
                    self.code.compiler(spec)?.reject(&image, &rejection.to_string());
                    rejected.push(image.digest);
                }
                Ok(pipeline) => {
                    if let Some(rejection) = pipeline.rejection() {
                        self.code.compiler(spec)?.reject(&image, &rejection.to_string());
                    }
                    return Ok(pipeline);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn compile(
        &mut self,
        spec: &KernelSpec,
        request: &CompileRequest,
    ) -> Result<Arc<ModuleImage>, SessionError> {
        self.code.compiler(spec)?.compile(request).map_err(SessionError::Compile)
    }

    fn pipeline(
        &self,
        image: &Arc<ModuleImage>,
        spec: &KernelSpec,
        schedule: &Schedule,
    ) -> Result<Pipeline, LaunchError> {
        // SAFETY: the image is the specification's own text, or what the compiler made of it under this schedule; that
        // compilers keep to their sources is promised where one is brought in.
        #[allow(unsafe_code, reason = "the one place where image and specification meet")]
        unsafe {
            self.device.pipeline(image, spec, schedule)
        }
    }
}

fn locate(spec: &KernelSpec, schedule: &Schedule, options: &BuildOptions) -> u64 {
    let mut hasher = DefaultHasher::new();
    (spec.id(), spec.entry_point(), schedule, options).hash(&mut hasher);
    hasher.finish()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("device", &self.device)
            .field("slab", &self.slab)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>() {}
    fn is_shareable<T: Send + Sync>() {}

    #[test]
    fn sessions_move_between_threads_and_their_parts_are_shared() {
        is_send::<Session>();
        is_send::<Stream>();
        is_send::<BoundLaunch>();
        is_send::<Prefetcher>();
        is_send::<Prefetched>();
        is_send::<cuforge_launch::Upload>();
        is_send::<cuforge_launch::OwnedUpload<Vec<u8>>>();
        is_send::<cuforge_launch::Readback>();
        is_send::<cuforge_launch::Mailbox>();
        is_shareable::<cuforge_launch::PinnedBuffer>();
        is_shareable::<cuforge_launch::Driver>();
        is_shareable::<LaunchError>();
        is_shareable::<Device>();
        is_shareable::<Slab>();
        is_shareable::<Pipeline>();
        is_shareable::<SessionError>();
    }
}
