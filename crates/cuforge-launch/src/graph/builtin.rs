//! The kernels that this crate brings: their texts, and pipelines of them.

use crate::device::Device;
use crate::error::LaunchError;
use crate::pipeline::Pipeline;
use cuforge_core::{
    Access, ComputeCapability, DeclaredBlock, Digest, Element, KernelSpec, ModuleImage, Parameter, Schedule,
    Target,
};
use std::sync::Arc;

/// A text of kernels, with the one for devices from compute capability 9.0 on.
struct Texts {
    name: &'static str,
    older: &'static str,
    sm90: &'static str,
}

const EXCHANGE: Texts = Texts {
    name: "exchange",
    older: include_str!("../../kernels/exchange.ptx"),
    sm90: include_str!("../../kernels/exchange_sm90.ptx"),
};

const CONDITION: Texts = Texts {
    name: "condition",
    older: include_str!("../../kernels/condition.ptx"),
    sm90: include_str!("../../kernels/condition_sm90.ptx"),
};

/// Threads of the exchanging kernels' one block.
pub(crate) const THREADS: u32 = 128;

/// The source of the kernels that set the conditions of graphs, in CUDA C: for those who write their own.
pub const CONDITION_SOURCE: &str = include_str!("../../kernels/condition.cu");

/// The same in PTX, for any device from compute capability 7.5 on.
pub const CONDITION_PTX: &str = CONDITION.older;

fn scalar(name: &'static str, element: Element) -> Parameter {
    Parameter::scalar(name, element)
}

fn words(name: &'static str, binding: u32, access: Access) -> Parameter {
    Parameter::buffer(name, binding, Element::U32, access)
}

/// Takes a parameter block's values out of mapped memory.
pub(crate) fn feed(device: &Device) -> Result<Pipeline, LaunchError> {
    let parameters = vec![
        words("out", 0, Access::StorageReadWrite),
        scalar("page", Element::U64),
        words("counter", 1, Access::StorageReadWrite),
        scalar("taken", Element::U64),
        scalar("words", Element::U32),
        scalar("stride", Element::U32),
        scalar("slots", Element::U32),
    ];
    pipeline(device, &EXCHANGE, "cuforge_feed", THREADS, parameters)
}

/// Puts results into mapped memory.
pub(crate) fn post(device: &Device) -> Result<Pipeline, LaunchError> {
    let parameters = vec![
        words("in", 0, Access::StorageRead),
        scalar("page", Element::U64),
        words("counter", 1, Access::StorageReadWrite),
        scalar("words", Element::U32),
        scalar("stride", Element::U32),
        scalar("slots", Element::U32),
    ];
    pipeline(device, &EXCHANGE, "cuforge_post", THREADS, parameters)
}

/// Ends an iteration of a device loop.
pub(crate) fn iteration(device: &Device) -> Result<Pipeline, LaunchError> {
    let parameters = vec![
        words("word", 0, Access::StorageRead),
        words("counter", 1, Access::StorageReadWrite),
        scalar("report", Element::U64),
        scalar("handle", Element::U64),
        scalar("most", Element::U32),
    ];
    pipeline(device, &CONDITION, "cuforge_loop", 1, parameters)
}

/// Hands a word to a conditional node.
pub(crate) fn condition(device: &Device) -> Result<Pipeline, LaunchError> {
    let parameters = vec![words("word", 0, Access::StorageRead), scalar("handle", Element::U64)];
    pipeline(device, &CONDITION, "cuforge_condition", 1, parameters)
}

fn pipeline(
    device: &Device,
    texts: &Texts,
    entry: &'static str,
    threads: u32,
    parameters: Vec<Parameter>,
) -> Result<Pipeline, LaunchError> {
    let newer = device.adapter().compute_capability.is_some_and(|capability| capability.major >= 9);
    let (text, capability) = if newer {
        (texts.sm90, ComputeCapability { major: 9, minor: 0 })
    } else {
        (texts.older, ComputeCapability { major: 7, minor: 5 })
    };
    let mut digest = [0; 32];
    let name = texts.name.as_bytes();
    digest[..name.len()].copy_from_slice(name);
    digest[31] = capability.major as u8;
    let image = Arc::new(ModuleImage {
        cubin: None,
        ptx: Some(text.into()),
        entry_points: Vec::new(),
        lowered_names: Vec::new(),
        target: Target::new(capability),
        decision: "shipped with the crate".into(),
        compiler: "NVRTC 12.9".into(),
        log: String::new(),
        digest: Digest(digest),
    });
    let block = DeclaredBlock { workgroup_size: [threads, 1, 1], items_per_invocation: 1 };
    // SAFETY: with the addresses and counts that this crate gives them, and nobody else can, these kernels stay inside
    // the views and the mapped memory that their graphs keep.
    let spec = unsafe { KernelSpec::ptx(entry, entry, text, parameters) }.with_declared_blocks(vec![block]);
    // SAFETY: the image is the specification's own text.
    unsafe { device.pipeline(&image, &spec, &Schedule::new([threads, 1, 1])) }
}
