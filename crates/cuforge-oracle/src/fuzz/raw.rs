//! The one place that vouches for the memory accesses of random kernels.
#![allow(unsafe_code, reason = "specs of raw kernels are made by unsafe functions; see the SAFETY comments")]

use cuforge_core::{DeclaredBlock, KernelSpec, Parameter};

/// The spec of a printed program.
pub(crate) fn spec(
    source: String,
    is_ptx: bool,
    parameters: Vec<Parameter>,
    block: DeclaredBlock,
) -> KernelSpec {
    if is_ptx {
        // SAFETY: the printers read inputs at the own index below `n` or at one reduced modulo `n`, write below `n` or
        // at the own block, and cases have buffers of `n` elements, and of one a block where that is what is written.
        unsafe { KernelSpec::ptx("fuzz", "fuzz", source, parameters) }.with_declared_blocks(vec![block])
    } else {
        // SAFETY: as above.
        unsafe { KernelSpec::cuda_c("fuzz", "fuzz", source, parameters) }
    }
}
