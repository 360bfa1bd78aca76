//! The planted defects: real bugs in the corpus kernels, each of which the oracle must catch.

use std::collections::BTreeMap;
use std::sync::Arc;

use cuforge_core::{KernelCompiler, KernelSpec};
use cuforge_oracle::corpus::{self, CorpusKernel, Form, Shape};
use cuforge_oracle::{Case, SimContext, Verdict, verify};
use cuforge_tests::defects::{self, CLASSES, Defect};
use cuforge_tests::toolchain::{NEWER, OLDER, at_full_length};

/// The case that shows a defect: the kernel's own case, with the defective text in the kernel's place.
fn case_of(defect: &Defect) -> Result<Case, String> {
    let kernel = corpus_kernel(defect)?;
    let schedules = kernel.schedules(Form::CudaC);
    let schedule = schedules.get(defect.schedule).ok_or("no such schedule")?;
    let shape: Shape = defect.shape.parse().map_err(|error| format!("its shape: {error}"))?;
    // SAFETY: no promise about accesses can be made for a defect; this spec is run on the simulated device alone, whose
    // memory is no memory of this process and whose every access is checked.
    let spec = unsafe {
        KernelSpec::cuda_c(defect.name.clone(), kernel.name(), defect.source.clone(), kernel.parameters())
    };
    kernel.case_for(spec, &shape, schedule).map_err(|error| error.to_string())
}

fn corpus_kernel(defect: &Defect) -> Result<CorpusKernel, String> {
    corpus::find(&defect.kernel).ok_or_else(|| format!("{}: no kernel `{}`", defect.name, defect.kernel))
}

/// The lines of a source that mean something to the compiler.
fn code(source: &str) -> Vec<&str> {
    let bare = source.lines().map(|line| line.split("//").next().unwrap_or(line).trim());
    bare.filter(|line| !line.is_empty()).collect()
}

#[test]
fn there_are_three_defects_of_each_class_and_every_kernel_has_some() {
    let all = defects::all().unwrap();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for defect in &all {
        *classes.entry(&defect.class).or_default() += 1;
    }
    assert_eq!(classes, CLASSES.iter().map(|class| (*class, 3)).collect());
    for kernel in corpus::ALL {
        let count = all.iter().filter(|defect| defect.kernel == kernel.name()).count();
        assert!(count >= 3, "{}: {count}", kernel.name());
    }
}

#[test]
fn a_defect_is_its_kernel_but_for_a_few_lines() {
    for defect in defects::all().unwrap() {
        let kernel = corpus_kernel(&defect).unwrap();
        let (right, wrong) = (code(kernel.source()), code(&defect.source));
        let only_in =
            |these: &[&str], others: &[&str]| these.iter().filter(|line| !others.contains(line)).count();
        let changed = only_in(&wrong, &right) + only_in(&right, &wrong);
        let moved = right.len().abs_diff(wrong.len());
        assert!(changed + moved > 0, "{} is no defect", defect.name);
        assert!(changed <= 9, "{}: {changed} lines differ from {}", defect.name, defect.kernel);
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn every_defect_is_caught_and_the_kernel_that_it_was_made_of_passes_the_same_case() {
    let toolchains = if at_full_length() { &[OLDER, NEWER][..] } else { &[OLDER] };
    let mut missed = Vec::new();
    for toolchain in toolchains {
        let compiler: Arc<dyn KernelCompiler> = Arc::new(toolchain.compiler().unwrap());
        let mut context = SimContext::builder().compiler(compiler).build().unwrap();
        for defect in defects::all().unwrap() {
            // An error would be a text that does not compile, or a case that does not fit: no catch.
            let report = verify(&case_of(&defect).unwrap(), &mut context).unwrap();
            println!("{}: {}", defect.name, report.verdict);
            if !matches!(report.verdict, Verdict::Failed | Verdict::Fault(_)) {
                missed.push(format!("{} by {toolchain}: {}", defect.name, report.verdict));
            }

            let kernel = corpus_kernel(&defect).unwrap();
            let schedule = &kernel.schedules(Form::CudaC)[defect.schedule];
            let case = kernel.case(Form::CudaC, &defect.shape.parse().unwrap(), schedule).unwrap();
            let report = verify(&case, &mut context).unwrap();
            let (name, shape) = (kernel.name(), &defect.shape);
            assert_eq!(report.verdict, Verdict::Passed, "{name} at {shape}: {:?}", report.notes);
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}
