//! Kernels in WGSL on a Vulkan device, by the oracle: reference, Vulkan, and the simulated device on the emitted PTX.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use std::sync::Arc;

use cuforge_core::{Constant, Element, Extent, KernelSpec, Schedule};
use cuforge_oracle::{
    Case, Evaluation, Fill, OracleError, Real, Reference, Report, Verdict, WgpuContext, verify,
};
use cuforge_tests::toolchain::OLDER;

const AFFINE: &str = include_str!("../wgsl/affine.wgsl");

struct Affine;

impl Reference for Affine {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (scale, bias) = (run.scalar("scale")?, run.scalar("bias")?);
        let input = run.reals("input")?;
        run.store("output", input.into_iter().map(|x| x * scale + bias))
    }
}

/// What the oracle says of `source` in place of the kernel.
fn judged(source: &'static str, block: u32, elements: u32) -> Report {
    let schedule = Schedule::new([block, 1, 1]).with_constant("NEGATE", Constant::Bool(false));
    let bare = KernelSpec::wgsl("affine", "affine", source, vec![]);
    let parameters = cuforge_wgsl::emit(&bare, &schedule).unwrap().parameters;
    let case = Case::builder(KernelSpec::wgsl("affine", "affine", source, parameters), Affine)
        .schedule(schedule)
        .input("input", Element::F32, elements.into(), Fill::Uniform { low: -8.0, high: 8.0 })
        .output("output", Element::F32, elements.into())
        .uniform("n", elements)
        .uniform("scale", 1.75f32)
        .uniform("bias", -0.3f32)
        .extent(Extent::Elements(elements.into()))
        .build()
        .unwrap();
    let compiler = Arc::new(OLDER.compiler().unwrap());
    let mut context = WgpuContext::builder().compiler(compiler).build().unwrap();
    verify(&case, &mut context).unwrap()
}

#[test]
#[ignore = "needs Vulkan: and NVRTC 12.9.86"]
fn affine_passes_on_vulkan_with_three_legs_that_agree() {
    for (block, elements) in [(256, 4095), (96, 1000), (64, 300)] {
        let report = judged(AFFINE, block, elements);
        assert_eq!(report.verdict, Verdict::Passed, "{elements}: {report:?}");
        let legs = report.legs.unwrap();
        assert!(legs.blame().is_none(), "{legs:?}");
    }
}

#[test]
#[ignore = "needs Vulkan: and NVRTC 12.9.86"]
fn a_wrong_kernel_fails_on_vulkan_and_the_kernel_is_blamed() {
    let wrong = AFFINE.replace("* params.scale", "+ params.scale");
    assert_ne!(wrong, AFFINE);
    let report = judged(wrong.leak(), 256, 4095);
    assert_eq!(report.verdict, Verdict::Failed);
    let blame = report.legs.unwrap().blame().unwrap();
    assert_eq!(blame, cuforge_oracle::Blame::Kernel);
}
