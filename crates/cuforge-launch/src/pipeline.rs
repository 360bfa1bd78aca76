//! Pipelines: a kernel out of a module, checked against its specification, ready to be bound and launched.

use crate::error::{LaunchError, Rejection};
use crate::ffi::RawFunction;
use crate::function::{self, FunctionAttributes};
use crate::gate::Gate;
use crate::module::Module;
use crate::ranges::Name;
use cuforge_core::{
    Constraints, Digest, Extent, KernelSpec, LaunchGeometry, ModuleImage, ParameterLayout, Schedule,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Dynamic shared memory that needs no opt-in, in bytes.
const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// A kernel ready for launches on one device. `Clone` (a reference count), `Send`, `Sync`; owns its module, borrows
/// nothing. Made by [`Device::pipeline`](crate::Device::pipeline).
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) built: Arc<Built>,
}

/// What a pipeline is made of.
pub(crate) struct Built {
    pub(crate) gate: Arc<Gate>,
    pub(crate) function: RawFunction,
    pub(crate) layout: ParameterLayout,
    /// Whether the driver has `cuLaunchKernelEx`.
    pub(crate) has_launch_ex: bool,
    /// Whether the kernel's text waits for the kernel before it.
    pub(crate) waits: bool,
    module: Arc<Module>,
    spec: KernelSpec,
    schedule: Schedule,
    constraints: Arc<Constraints>,
    attributes: FunctionAttributes,
    /// What a profiler calls its launches: the kernel's name.
    pub(crate) name: Name,
    /// Dynamic shared bytes that this pipeline knows the function to be opted into; its module knows of all pipelines.
    shared_allowed: AtomicU32,
}

// SAFETY: function handles may be used from any thread.
unsafe impl Send for Built {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Built {}

impl Pipeline {
    pub(crate) fn build(
        gate: &Arc<Gate>,
        constraints: &Arc<Constraints>,
        module: Arc<Module>,
        spec: &KernelSpec,
        schedule: &Schedule,
    ) -> Result<Self, LaunchError> {
        spec.defines(schedule)?;
        let layout = ParameterLayout::new(spec.parameters())?;
        let entry = spec.entry_point();
        let _context = gate.enter()?;
        let function = module.function(entry)?;
        if let Some(own) = function::own_layout(gate, function)? {
            function::hold_against(entry, &own, &layout)?;
        }
        let attributes = function::attributes(gate, function)?;
        function::preload(gate, function)?;
        let built = Built {
            gate: gate.clone(),
            function,
            layout,
            has_launch_ex: gate.api().has_launch_kernel_ex(),
            waits: waits(spec, module.image()),
            module,
            spec: spec.clone(),
            schedule: schedule.clone(),
            constraints: constraints.clone(),
            attributes,
            name: Name::new(entry),
            shared_allowed: AtomicU32::new(
                SHARED_WITHOUT_OPT_IN.saturating_sub(attributes.static_shared_bytes),
            ),
        };
        Ok(Self { built: Arc::new(built) })
    }

    /// The kernel's name in its module.
    pub fn entry_point(&self) -> &str {
        self.built.spec.entry_point()
    }

    /// The specification that it was made of.
    pub fn spec(&self) -> &KernelSpec {
        &self.built.spec
    }

    /// The schedule that it was made with.
    pub fn schedule(&self) -> &Schedule {
        &self.built.schedule
    }

    /// The image that was loaded.
    pub fn image(&self) -> &Arc<ModuleImage> {
        self.built.module.image()
    }

    /// Why the driver did not take the image's machine code, where it took the PTX beside it: something to tell the
    /// compiler (`KernelCompiler::reject`).
    pub fn rejection(&self) -> Option<&Rejection> {
        self.built.module.rejection()
    }

    /// Registers, static shared, local and constant memory of the compiled kernel.
    pub fn attributes(&self) -> FunctionAttributes {
        self.built.attributes
    }

    /// Whether the kernel's text waits for the kernel before it, so that it can be launched before that has ended
    /// ([`LaunchOptions::programmatic`](crate::LaunchOptions::programmatic)).
    pub fn waits_for_predecessor(&self) -> bool {
        self.built.waits
    }

    /// Where each parameter lies in the packed block that a launch hands over.
    pub fn layout(&self) -> &ParameterLayout {
        &self.built.layout
    }

    /// Blocks of the schedule's size, with `shared_bytes` of dynamic shared memory each, that one multiprocessor runs
    /// at once. Three driver calls.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn blocks_per_multiprocessor(&self, shared_bytes: u32) -> Result<u32, LaunchError> {
        let built = &self.built;
        let threads = product(&built.schedule.workgroup_size);
        built.allow_shared(shared_bytes)?;
        let _context = built.gate.enter()?;
        function::occupancy(&built.gate, built.function, threads, shared_bytes)
    }

    /// The `CUfunction`, for calls that this crate does not make. Alive as long as any clone of the pipeline.
    pub fn raw_function(&self) -> *mut std::ffi::c_void {
        self.built.function
    }

    /// The launch that `extent` asks for, checked against device, kernel and schedule.
    ///
    /// # Errors
    /// [`LaunchError::Schedule`], [`LaunchError::BlockMismatch`], [`LaunchError::SharedTooSmall`],
    /// [`LaunchError::BlockTooLargeForKernel`].
    pub fn geometry(&self, extent: Extent) -> Result<LaunchGeometry, LaunchError> {
        self.built.geometry(extent)
    }
}

/// Threads or blocks of a shape; as many as the type can say where there are more, which no driver takes.
pub(crate) fn product(shape: &[u32; 3]) -> u32 {
    shape.iter().fold(1, |all: u32, one| all.saturating_mul(*one))
}

/// Whether the kernel waits for the one before it, by its PTX or, where there is none, by its source.
fn waits(spec: &KernelSpec, image: &ModuleImage) -> bool {
    let words = ["griddepcontrol.wait", "cudaGridDependencySynchronize"];
    let in_text = |text: &str| words.iter().any(|word| text.contains(word));
    match image.ptx.as_deref().and_then(|ptx| entry_text(ptx, spec.entry_point())) {
        Some(body) => in_text(body),
        None => in_text(&spec.body().text),
    }
}

/// The text of one kernel in a PTX module.
fn entry_text<'t>(ptx: &'t str, entry: &str) -> Option<&'t str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let mut kernels = ptx.split(".entry").skip(1).map(str::trim_start);
    kernels.find(|text| text.strip_prefix(entry).is_some_and(|rest| !rest.starts_with(is_name)))
}

impl Built {
    pub(crate) fn entry_point(&self) -> &str {
        self.spec.entry_point()
    }

    pub(crate) fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    pub(crate) fn geometry(&self, extent: Extent) -> Result<LaunchGeometry, LaunchError> {
        let geometry = match extent {
            Extent::Elements(elements) => {
                self.schedule.geometry(elements, self.spec.shared_memory(), &self.constraints)?
            }
            Extent::Geometry(given) => {
                let need = self.schedule.shared_bytes(self.spec.shared_memory(), &self.constraints)?;
                if given.block != self.schedule.workgroup_size {
                    return Err(LaunchError::BlockMismatch {
                        entry: self.spec.entry_point().to_owned(),
                        given: given.block,
                        built: self.schedule.workgroup_size,
                    });
                }
                if given.shared_bytes < need {
                    return Err(LaunchError::SharedTooSmall {
                        entry: self.spec.entry_point().to_owned(),
                        given: given.shared_bytes,
                        need,
                    });
                }
                given.validate(&self.constraints)?
            }
        };
        let threads = u32::try_from(geometry.threads_per_block()).unwrap_or(u32::MAX);
        if threads > self.attributes.max_threads_per_block {
            return Err(LaunchError::BlockTooLargeForKernel {
                entry: self.spec.entry_point().to_owned(),
                threads,
                max: self.attributes.max_threads_per_block,
            });
        }
        self.allow_shared(geometry.shared_bytes)?;
        Ok(geometry)
    }

    /// Opts the kernel into more dynamic shared memory, once for each new maximum.
    fn allow_shared(&self, bytes: u32) -> Result<(), LaunchError> {
        if bytes <= self.shared_allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _context = self.gate.enter_even_capturing()?;
        self.module.allow_shared(self.function, bytes)?;
        self.shared_allowed.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn is(&self, image: &Arc<ModuleImage>, spec: &KernelSpec, schedule: &Schedule) -> bool {
        let mine = self.module.image();
        (Arc::ptr_eq(mine, image) || mine == image) && self.schedule == *schedule && self.spec == *spec
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("entry_point", &self.entry_point())
            .field("attributes", &self.attributes())
            .finish_non_exhaustive()
    }
}

/// Pipelines and modules of one device, by image. A hash only locates an entry; the whole key is compared.
#[derive(Default)]
pub(crate) struct PipelineCache {
    by_image: Mutex<HashMap<Digest, Vec<Pipeline>>>,
}

impl PipelineCache {
    /// The pipeline that is there already. No allocation, no driver call.
    pub(crate) fn find(
        &self,
        image: &Arc<ModuleImage>,
        spec: &KernelSpec,
        schedule: &Schedule,
    ) -> Option<Pipeline> {
        let by_image = self.by_image.lock();
        by_image.get(&image.digest)?.iter().find(|pipeline| pipeline.built.is(image, spec, schedule)).cloned()
    }

    /// The pipeline of PTX text as it stands that is there already. No allocation, no driver call.
    pub(crate) fn find_text(&self, spec: &KernelSpec, schedule: &Schedule) -> Option<Pipeline> {
        let by_image = self.by_image.lock();
        let same = |pipeline: &&Pipeline| {
            let image = pipeline.image();
            image.cubin.is_none()
                && image.ptx.as_deref() == Some(&*spec.body().text)
                && pipeline.built.schedule == *schedule
                && pipeline.built.spec == *spec
        };
        by_image.values().flatten().find(same).cloned()
    }

    /// The image's module, if a pipeline of it is there.
    pub(crate) fn module(&self, image: &Arc<ModuleImage>) -> Option<Arc<Module>> {
        let by_image = self.by_image.lock();
        let pipelines = by_image.get(&image.digest)?;
        pipelines.iter().find(|p| p.image() == image).map(|p| p.built.module.clone())
    }

    pub(crate) fn keep(&self, pipeline: &Pipeline) {
        let digest = pipeline.image().digest;
        self.by_image.lock().entry(digest).or_default().push(pipeline.clone());
    }

    /// Drops what nothing but the cache refers to; how many pipelines.
    pub(crate) fn trim(&self) -> usize {
        let mut dropped = 0;
        self.by_image.lock().retain(|_, pipelines| {
            let before = pipelines.len();
            pipelines.retain(|pipeline| Arc::strong_count(&pipeline.built) > 1);
            dropped += before - pipelines.len();
            !pipelines.is_empty()
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_one_kernel_ends_where_the_next_begins() {
        let ptx =
            ".visible .entry one(\n) { ret; }\n.visible .entry one_more() { griddepcontrol.wait; ret; }";
        assert!(entry_text(ptx, "one").is_some_and(|text| !text.contains("griddepcontrol")));
        assert!(entry_text(ptx, "one_more").is_some_and(|text| text.contains("griddepcontrol.wait")));
        assert_eq!(entry_text(ptx, "two"), None);
    }
}
