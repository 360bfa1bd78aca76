//! Kernels in WGSL, emitted as CUDA C, compiled by NVRTC and run on the simulated device.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use std::sync::Arc;

use cuforge_core::{Constant, Element, Extent, KernelCompiler, KernelSpec, Schedule};
use cuforge_oracle::{Case, Evaluation, Fill, OracleError, Real, Reference, SimContext, Verdict, verify};
use cuforge_tests::toolchain::{NEWER, OLDER};
use cuforge_wgsl::Emitted;

const AFFINE: &str = include_str!("../wgsl/affine.wgsl");

/// What the emitter made of `source`, as a kernel in CUDA C.
fn emitted(source: &'static str, entry: &'static str, schedule: &Schedule) -> KernelSpec {
    let spec = KernelSpec::wgsl(entry, entry, source, vec![]);
    let Emitted { cuda_c, entry_point, parameters, shared_memory, .. } =
        cuforge_wgsl::emit(&spec, schedule).unwrap();
    // SAFETY: the text is as the emitter wrote it, with all its checks, and so are the parameters.
    unsafe { KernelSpec::cuda_c(entry, entry_point, cuda_c, parameters) }.with_shared_memory(shared_memory)
}

struct Affine;

impl Reference for Affine {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (scale, bias) = (run.scalar("scale")?, run.scalar("bias")?);
        let input = run.reals("input")?;
        run.store("output", input.into_iter().map(|x| x * scale + bias))
    }
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn affine_in_wgsl_passes_the_oracle_with_both_compilers() {
    for toolchain in [OLDER, NEWER] {
        let compiler: Arc<dyn KernelCompiler> = Arc::new(toolchain.compiler().unwrap());
        let mut context = SimContext::builder().compiler(compiler).build().unwrap();
        for (block, elements) in [(256, 4095_u32), (96, 1000), (64, 300)] {
            let schedule = Schedule::new([block, 1, 1]).with_constant("NEGATE", Constant::Bool(false));
            let spec = emitted(AFFINE, "affine", &schedule);
            let case = Case::builder(spec, Affine)
                .schedule(Schedule::new([block, 1, 1]))
                .input("input", Element::F32, elements.into(), Fill::Uniform { low: -8.0, high: 8.0 })
                .output("output", Element::F32, elements.into())
                .uniform("n", elements)
                .uniform("scale", 1.75f32)
                .uniform("bias", -0.3f32)
                .extent(Extent::Elements(elements.into()))
                .build()
                .unwrap();
            let report = verify(&case, &mut context).unwrap();
            assert_eq!(report.verdict, Verdict::Passed, "{toolchain} {elements}: {report:?}");
        }
    }
}
