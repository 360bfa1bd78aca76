//! The one place of this crate that vouches for raw device code: specs of the corpus, whose sources lie beside it.
#![allow(unsafe_code, reason = "specs of raw kernels are made by unsafe functions; see the SAFETY comments")]

use std::borrow::Cow;

use cuforge_core::{KernelSpec, Parameter};

/// The spec of one of the sources under `kernels/`.
pub(super) fn cuda_c(
    id: impl Into<Cow<'static, str>>,
    entry_point: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
) -> KernelSpec {
    // SAFETY: each source guards every access by the sizes in its uniform block, and the cases of this corpus make
    // buffers of just these sizes and grids as the heads of the sources say.
    unsafe { KernelSpec::cuda_c(id, entry_point, source, parameters) }
}

/// The spec of one of the PTX texts under `kernels/`.
pub(super) fn ptx(
    id: impl Into<Cow<'static, str>>,
    entry_point: &'static str,
    text: &'static str,
    parameters: Vec<Parameter>,
) -> KernelSpec {
    // SAFETY: as above; the text is compiled from one of those sources, or guards its accesses in the same way.
    unsafe { KernelSpec::ptx(id, entry_point, text, parameters) }
}
