//! The kernel corpus: real kernels with tunable schedules, each with its sources, inputs and reference.
//!
//! One file a kernel. The sources lie under `kernels/` of this crate: CUDA C, the PTX that NVRTC 12.9.86 makes of it
//! for `sm_75` under the default schedule, and for some kernels a version in hand-written PTX.

mod affine;
mod argmax;
mod axpy_f64;
mod bias_gelu;
mod bitonic_sort;
mod column_sum;
mod compact;
mod conv2d;
mod decode_attention;
mod dot_f64;
mod gather;
mod gemm;
mod gemm_wmma;
mod histogram;
mod kernel;
mod layer_norm;
mod lists;
mod matvec_q4;
mod matvec_q8;
mod matvec_ternary;
mod quantize_mx;
mod raw;
mod rms_norm;
mod rms_norm_heads;
mod rope;
mod scan;
mod segmented_sum;
mod shape;
mod softmax;
mod stencil;
mod swiglu;
mod top_k;
mod transpose;

pub use kernel::{CorpusKernel, Form};
pub use shape::Shape;

/// Every kernel of the corpus.
pub const ALL: [CorpusKernel; 29] = [
    affine::KERNEL,
    swiglu::KERNEL,
    softmax::KERNEL,
    rms_norm::KERNEL,
    top_k::KERNEL,
    gemm::KERNEL,
    matvec_q4::KERNEL,
    rms_norm_heads::KERNEL,
    decode_attention::KERNEL,
    layer_norm::KERNEL,
    rope::KERNEL,
    matvec_q8::KERNEL,
    matvec_ternary::KERNEL,
    histogram::KERNEL,
    scan::KERNEL,
    segmented_sum::KERNEL,
    transpose::KERNEL,
    conv2d::KERNEL,
    dot_f64::KERNEL,
    axpy_f64::KERNEL,
    argmax::KERNEL,
    gather::KERNEL,
    bias_gelu::KERNEL,
    quantize_mx::KERNEL,
    stencil::KERNEL,
    bitonic_sort::KERNEL,
    compact::KERNEL,
    column_sum::KERNEL,
    gemm_wmma::KERNEL,
];

/// The kernel of that name.
#[must_use]
pub fn find(name: &str) -> Option<CorpusKernel> {
    ALL.into_iter().find(|kernel| kernel.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OracleError;
    use cuforge_core::Schedule;
    use std::collections::HashSet;

    #[test]
    fn every_kernel_has_twelve_schedules_that_differ_and_whose_constants_its_source_consumes() {
        for kernel in ALL {
            let schedules = kernel.schedules(Form::CudaC);
            let distinct: HashSet<&Schedule> = schedules.iter().collect();
            assert!(distinct.len() == 12 && schedules.len() == 12, "{}", kernel.name());
            let spec = kernel.spec(Form::CudaC).unwrap();
            for schedule in &schedules {
                assert!(spec.defines(schedule).is_ok(), "{} {schedule:?}", kernel.name());
            }
        }
    }

    #[test]
    fn every_case_of_every_form_can_be_built() {
        for kernel in ALL {
            for form in [Form::CudaC, Form::ShippedPtx, Form::WrittenPtx] {
                for schedule in kernel.schedules(form) {
                    for shape in kernel.small_shapes().iter().chain([&kernel.real_shape()]) {
                        let case = kernel.case(form, shape, &schedule);
                        assert!(case.is_ok(), "{} {form:?} {shape}: {case:?}", kernel.name());
                    }
                }
            }
        }
    }

    #[test]
    fn shipped_and_written_ptx_declare_their_blocks() {
        for kernel in ALL {
            for form in [Form::ShippedPtx, Form::WrittenPtx] {
                let Some(spec) = kernel.spec(form) else { continue };
                for schedule in kernel.schedules(form) {
                    assert!(spec.defines(&schedule).is_ok(), "{} {form:?}", kernel.name());
                }
                assert!(spec.defines(&Schedule::new([7, 1, 1])).is_err());
            }
        }
    }

    #[test]
    fn small_shapes_have_at_most_4096_elements_a_buffer() {
        for kernel in ALL {
            for shape in kernel.small_shapes() {
                let case = kernel.case(Form::CudaC, &shape, &kernel.default_schedule()).unwrap();
                for buffer in case.buffers() {
                    assert!(buffer.elements <= 4096, "{} {shape}: {}", kernel.name(), buffer.name);
                }
            }
        }
    }

    #[test]
    fn another_number_of_axes_is_an_error_that_names_the_right_ones() {
        let gemm = find("gemm").unwrap();
        let error = gemm.case(Form::CudaC, &Shape::new(&[1, 2]), &gemm.default_schedule()).unwrap_err();
        assert!(error.to_string().contains("m, n, k"), "{error}");
        let missing = gemm.case(Form::WrittenPtx, &gemm.real_shape(), &gemm.default_schedule());
        assert!(matches!(missing, Err(OracleError::MissingForm { .. })));
    }
}
