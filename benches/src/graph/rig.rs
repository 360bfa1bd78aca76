//! What the graph bench measures with: a device, its kernels, and chains of them.

use super::raw::{Kernel, Raw};
use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Digest, Element, Extent, KernelSpec, ModuleImage,
    Parameter, Request, Schedule,
};
use cuforge_launch::{BoundLaunch, Device, Graph, LaunchOptions, Slab, SlabOptions, Stream};
use cuforge_slab::RegionSlab;
use std::error::Error;
use std::sync::Arc;

const KERNELS: [&str; 2] =
    [include_str!("../../../tests/kernels/graph.ptx"), include_str!("../../../tests/kernels/graph_sm90.ptx")];

/// Kernels of the token loop.
pub(super) const KERNELS_A_TOKEN: usize = 10;

pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) slab: Slab,
    pub(super) stream: Stream,
    pub(super) word: BufferView,
    pub(super) raw: Raw,
    pub(super) raw_step: Kernel,
    pub(super) ptx: &'static str,
}

impl Bench {
    pub(super) fn new() -> Result<Self, Box<dyn Error>> {
        let device = Device::open(0)?;
        let raw = Raw::open(device.driver().library(), device.raw_context())?;
        raw.make_current()?;
        let slab = Slab::new(&device, Box::new(RegionSlab::new(64 << 20)?), SlabOptions::default())?;
        let stream = Stream::new(&device)?;
        let word = slab.acquire(&Request::new(4))?.bound_to(0, 0, Access::StorageReadWrite)?;
        let newer = device.adapter().compute_capability.is_some_and(|capability| capability.major >= 9);
        let ptx = KERNELS[usize::from(newer)];
        let packed = [&slab.address_of(&word)?.to_le_bytes()[..], &1u32.to_le_bytes()].concat();
        let raw_step = Kernel { function: raw.load(ptx, "increment")?, threads: 32, packed };
        Ok(Self { device, slab, stream, word, raw, raw_step, ptx })
    }

    /// Adds one to a word: hardly any work.
    pub(super) fn increment(&self, word: &BufferView) -> Result<BoundLaunch, Box<dyn Error>> {
        self.kernel("increment", word, &[("n", Element::U32)], &1u32.to_le_bytes())
    }

    /// A kernel of the tests' file over one buffer and scalars.
    pub(super) fn kernel(
        &self,
        entry: &'static str,
        word: &BufferView,
        scalars: &[(&'static str, Element)],
        by_value: &[u8],
    ) -> Result<BoundLaunch, Box<dyn Error>> {
        let mut parameters = vec![Parameter::buffer("out", 0, Element::U32, Access::StorageReadWrite)];
        parameters.extend(scalars.iter().map(|(name, element)| Parameter::scalar(*name, *element)));
        let block = DeclaredBlock { workgroup_size: [32, 1, 1], items_per_invocation: 1 };
        // SAFETY: the kernels stay inside the words and the mapped memory that this bench gives them.
        let spec =
            unsafe { KernelSpec::ptx(entry, entry, self.ptx, parameters) }.with_declared_blocks(vec![block]);
        let image = Arc::new(ModuleImage {
            cubin: None,
            ptx: Some(self.ptx.into()),
            entry_points: Vec::new(),
            lowered_names: Vec::new(),
            target: self.device.target(),
            decision: "given".into(),
            compiler: "NVRTC 12.9".into(),
            log: String::new(),
            digest: Digest([2; 32]),
        });
        // SAFETY: the image is the specification's own text.
        let pipeline = unsafe { self.device.pipeline(&image, &spec, &Schedule::new([32, 1, 1])) }?;
        let arguments = Arguments { views: &[*word], by_value };
        Ok(pipeline.bind(&self.slab, arguments, Extent::Elements(1))?)
    }

    pub(super) fn chain(&mut self, nodes: usize, options: LaunchOptions) -> Result<Graph, Box<dyn Error>> {
        let mut kernel = self.increment(&self.word)?;
        let recording = self.stream.capture(|scope| {
            kernel.launch(scope)?;
            scope.mark_scalar::<u32>("n", "n")?;
            (1..nodes).try_for_each(|_| kernel.launch_with(scope, options))
        })?;
        let mut graph = recording.instantiate()?;
        graph.upload(&mut self.stream)?;
        Ok(graph)
    }
}
