//! The corpus on the simulated device: every kernel passes at its real size, and no seed makes a correct kernel fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use std::error::Error;
use std::sync::Arc;

use cuforge_core::{BuildOptions, ComputeCapability, KernelCompiler};
use cuforge_oracle::corpus::{self, CorpusKernel, Form, Shape};
use cuforge_oracle::{Origin, SimContext, Sweep, Verdict, sweep, verify};
use cuforge_tests::toolchain::{NEWER, OLDER, Toolchain, at_full_length};

#[test]
fn every_kernel_passes_at_its_real_size_from_shipped_and_from_written_ptx() {
    let mut context = SimContext::builder().build().unwrap();
    for kernel in corpus::ALL {
        for form in [Form::ShippedPtx, Form::WrittenPtx] {
            for schedule in kernel.schedules(form) {
                let case = kernel.case(form, &kernel.real_shape(), &schedule).unwrap();
                let report = verify(&case, &mut context).unwrap();
                let name = kernel.name();
                assert_eq!(report.verdict, Verdict::Passed, "{name} {form:?} {schedule:?}: {report:?}");
            }
        }
    }
}

#[test]
fn without_a_compiler_the_default_schedule_runs_from_shipped_ptx_and_says_so() {
    let mut context = SimContext::builder().build().unwrap();
    for kernel in corpus::ALL {
        let shape = &kernel.small_shapes()[0];
        let case = kernel.case(Form::CudaC, shape, &kernel.default_schedule()).unwrap();
        let report = verify(&case, &mut context).unwrap();
        assert_eq!((&report.verdict, report.origin), (&Verdict::Passed, Some(Origin::ShippedPtx)));
        let other = &kernel.schedules(Form::CudaC)[1];
        let report = verify(&kernel.case(Form::CudaC, shape, other).unwrap(), &mut context).unwrap();
        assert!(matches!(report.verdict, Verdict::NotRun(_)), "{}: {:?}", kernel.name(), report.verdict);
    }
}

/// Verifies every kernel as one compiler makes it for one architecture, under every so-many-th schedule from `first` on.
fn verify_all(
    toolchain: Toolchain,
    sm: u16,
    fast_math: bool,
    shape_of: impl Fn(&CorpusKernel) -> Shape,
    (first, every): (usize, usize),
) -> Result<Vec<String>, Box<dyn Error>> {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(toolchain.compiler()?);
    let capability = ComputeCapability::from_sm(sm);
    let mut context = SimContext::builder().capability(capability).compiler(compiler).build()?;
    let mut failures = Vec::new();
    for kernel in corpus::ALL {
        let shape = shape_of(&kernel);
        for schedule in kernel.schedules(Form::CudaC).into_iter().skip(first).step_by(every) {
            let build = BuildOptions { fast_math, ..BuildOptions::default() };
            let case = kernel.case(Form::CudaC, &shape, &schedule)?.with_build(build);
            let report = verify(&case, &mut context)?;
            // Only its own text counts: where there is a compiler, nothing may fall back to the shipped PTX.
            if report.verdict != Verdict::Passed || report.origin != Some(Origin::Own) {
                failures.push(format!(
                    "{} {shape}, {toolchain}, sm_{sm}, fast math {fast_math}: {report:?}",
                    kernel.name()
                ));
            }
        }
    }
    Ok(failures)
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn every_kernel_passes_at_its_real_size() {
    // At full length under every schedule, by both compilers, for all architectures, with and without fast math.
    let (toolchains, architectures, maths, every) = if at_full_length() {
        (&[OLDER, NEWER][..], &[75, 80, 90, 100][..], &[false, true][..], 1)
    } else {
        (&[OLDER][..], &[90][..], &[false][..], 3)
    };
    for &toolchain in toolchains {
        for (&sm, &fast_math) in architectures.iter().flat_map(|sm| maths.iter().map(move |math| (sm, math)))
        {
            let failures =
                verify_all(toolchain, sm, fast_math, CorpusKernel::real_shape, (0, every)).unwrap();
            println!("{toolchain}, sm_{sm}, fast math {fast_math}: {} failures", failures.len());
            assert!(failures.is_empty(), "{}", failures.join("\n"));
        }
    }
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn every_kernel_passes_on_an_edge_under_every_schedule_and_with_each_compiler_and_fast_math() {
    let edge = |kernel: &CorpusKernel| kernel.small_shapes()[0].clone();
    let ways = [(OLDER, false), (OLDER, true), (NEWER, false), (NEWER, true)];
    for (way, (toolchain, fast_math)) in ways.into_iter().enumerate() {
        // Every schedule once; the other three ways share them out, unless there is time for all.
        let some = if way == 0 || at_full_length() { (0, 1) } else { (way - 1, 3) };
        let failures = verify_all(toolchain, 90, fast_math, edge, some).unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn no_seed_makes_a_correct_kernel_fail() {
    let seeds = if at_full_length() { 96 } else { 24 };
    let compiler: Arc<dyn KernelCompiler> = Arc::new(OLDER.compiler().unwrap());
    let mut context = SimContext::builder().compiler(compiler).build().unwrap();
    let fused = BuildOptions::default();
    let unfused = BuildOptions { fmad: false, ..fused };
    let mut found = Sweep::default();
    for kernel in corpus::ALL {
        let schedules = kernel.schedules(Form::CudaC);
        for shape in kernel.small_shapes() {
            for (place, schedule) in schedules.iter().enumerate() {
                let case = kernel.case(Form::CudaC, &shape, schedule).unwrap();
                // Seeds walk over the schedules, so that each shape meets all of them, a third of them unfused too.
                let builds = if place % 3 == 0 { &[fused, unfused][..] } else { &[fused] };
                let seeds = (place as u64..seeds).step_by(schedules.len());
                let swept = sweep(&case, builds, seeds, &mut context);
                let swept =
                    swept.unwrap_or_else(|error| panic!("{} {shape} {schedule:?}: {error}", kernel.name()));
                assert!(swept.failures.is_empty(), "{} {shape} {schedule:?}: {swept:?}", kernel.name());
                found.absorb(swept);
            }
        }
    }
    println!(
        "{} checks of {} elements, largest error {} of its bound",
        found.checks, found.elements, found.worst_ratio
    );
    assert!(found.checks >= corpus::ALL.len() as u64 * 5 * seeds && found.worst_ratio > 0.0);
}
