//! The planted defects: real bugs in the corpus kernels, each of which the oracle must catch.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cuforge_core::KernelCompiler;
use cuforge_oracle::corpus::{self, Form};
use cuforge_oracle::{Report, SimContext, Verdict, verify};
use cuforge_tests::defects::{self, Defect, KINDS};
use cuforge_tests::toolchain::{NEWER, OLDER, at_full_length};

#[test]
fn there_are_ten_defects_of_each_kind_and_every_kernel_has_some() {
    let all = defects::all().unwrap();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for defect in &all {
        *kinds.entry(defect.kind).or_default() += 1;
    }
    assert_eq!(kinds, KINDS.iter().map(|kind| (*kind, 10)).collect());
    for kernel in corpus::ALL {
        let count = all.iter().filter(|defect| defect.kernel.name() == kernel.name()).count();
        assert!(count >= 2, "{}: {count}", kernel.name());
    }
    assert!(all.iter().filter(|defect| defect.form == Form::WrittenPtx).count() >= 10);
}

#[test]
fn a_defect_is_its_kernel_but_for_a_few_lines() {
    for defect in defects::all().unwrap() {
        defect.source().unwrap();
        assert!(defect.changed_lines() <= 20, "{}: {}", defect.name, defect.changed_lines());
    }
}

/// The verdict on a defect on a simulated device.
fn judge(defect: &Defect, context: &mut SimContext) -> Report {
    // SAFETY: the simulated device checks every access and touches no memory of this process.
    let case = unsafe { defect.case() }.unwrap();
    // An error would be a text that does not compile, or a case that does not fit: no catch.
    verify(&case, context).unwrap_or_else(|error| panic!("{}: {error}", defect.name))
}

/// The defects of `all` that are not caught; the kernels they were made of must pass the same cases.
fn missed<'a>(all: impl Iterator<Item = &'a Defect>, context: &mut SimContext) -> Vec<String> {
    let mut passed = HashSet::new();
    let mut missed = Vec::new();
    for defect in all {
        let report = judge(defect, context);
        println!("{}: {}", defect.name, report.verdict);
        if !matches!(report.verdict, Verdict::Failed | Verdict::Fault(_)) {
            missed.push(format!("{}: {}", defect.name, report.verdict));
        }
        let (name, shape) = (defect.kernel.name(), &defect.shape);
        if passed.insert((name, defect.form, shape.clone(), defect.schedule)) {
            let report = verify(&defect.case_without().unwrap(), context).unwrap();
            assert_eq!(report.verdict, Verdict::Passed, "{name} at {shape}: {:?}", report.notes);
        }
    }
    missed
}

#[test]
fn every_defect_in_hand_written_ptx_is_caught() {
    let mut context = SimContext::builder().build().unwrap();
    let all = defects::all().unwrap();
    let missed = missed(all.iter().filter(|defect| defect.form == Form::WrittenPtx), &mut context);
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn every_defect_in_cuda_c_is_caught_and_the_kernel_that_it_was_made_of_passes_the_same_case() {
    let toolchains = if at_full_length() { &[OLDER, NEWER][..] } else { &[OLDER] };
    for toolchain in toolchains {
        let compiler: Arc<dyn KernelCompiler> = Arc::new(toolchain.compiler().unwrap());
        let mut context = SimContext::builder().compiler(compiler).build().unwrap();
        let all = defects::all().unwrap();
        let missed = missed(all.iter().filter(|defect| defect.form == Form::CudaC), &mut context);
        assert!(missed.is_empty(), "{toolchain} misses {}:\n{}", missed.len(), missed.join("\n"));
    }
}
