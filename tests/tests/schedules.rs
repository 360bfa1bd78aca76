//! Every corpus kernel under every schedule: compiles without a warning, assembles with the real `ptxas`, parses.

use std::path::Path;

use cuforge_compile::Compiler;
use cuforge_core::{
    CompileOptions, CompileRequest, ComputeCapability, KernelCompiler, KernelSpec, Schedule, Target,
};
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_sim::ptx::Module;
use cuforge_tests::toolchain::{NEWER, OLDER, at_full_length};

const ARCHITECTURES: [u16; 4] = [75, 80, 90, 100];

/// The PTX of `spec` under `schedule`, or all that the compiler said.
fn compile(
    compiler: &Compiler,
    spec: &KernelSpec,
    schedule: &Schedule,
    sm: u16,
    fast_math: bool,
) -> Result<String, String> {
    let defines = spec.defines(schedule).map_err(|error| error.to_string())?;
    let target = Target::new(ComputeCapability::from_sm(sm));
    let name = format!("{}.cu", spec.id());
    let request = CompileRequest::cuda_c(name, spec.body().text.as_ref(), target)
        .with_options(CompileOptions { fast_math, defines, ..CompileOptions::default() });
    let image = compiler.compile(&request).map_err(|failure| failure.to_string())?;
    if !image.log.is_empty() {
        return Err(format!("a warning: {}", image.log));
    }
    image.ptx.as_deref().map(str::to_owned).ok_or_else(|| "no PTX".to_owned())
}

/// Parses `ptx` and makes sure that it is printed as it was.
fn parse(ptx: &str) -> Result<(), String> {
    let module = Module::parse(ptx).map_err(|error| error.to_string())?;
    if module.to_string() == ptx { Ok(()) } else { Err("it is printed otherwise than it was".to_owned()) }
}

fn all_forms() -> impl Iterator<Item = (CorpusKernel, Form, &'static str)> {
    corpus::ALL.into_iter().flat_map(|kernel| {
        let texts = [Form::ShippedPtx, Form::WrittenPtx].map(|form| (kernel, form, kernel.ptx(form)));
        texts.into_iter().filter_map(|(kernel, form, text)| text.map(|text| (kernel, form, text)))
    })
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn every_kernel_compiles_without_a_warning_assembles_and_parses_under_every_schedule() {
    let architectures = if at_full_length() { &ARCHITECTURES[..] } else { &[90] };
    let mut made = 0;
    let mut failures = Vec::new();
    for toolchain in [OLDER, NEWER] {
        let compiler = toolchain.compiler().unwrap();
        for kernel in corpus::ALL {
            let spec = kernel.spec(Form::CudaC).unwrap();
            for schedule in kernel.schedules(Form::CudaC) {
                for (&sm, fast_math) in architectures.iter().flat_map(|sm| [(sm, false), (sm, true)]) {
                    made += 1;
                    let outcome = compile(&compiler, &spec, &schedule, sm, fast_math).and_then(|ptx| {
                        toolchain.assemble(&ptx, sm).map_err(|error| error.to_string())?;
                        parse(&ptx)
                    });
                    if let Err(reason) = outcome {
                        let kernel = kernel.name();
                        failures.push(format!(
                            "{kernel}, {toolchain}, sm_{sm}, fast math {fast_math}, {schedule:?}: {reason}"
                        ));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {made} failed:\n{}", failures.len(), failures.join("\n"));
    // Twelve schedules a kernel, two toolchains, with and without fast math.
    assert_eq!(made, corpus::ALL.len() * 12 * 2 * 2 * architectures.len());
}

/// Run with `CUFORGE_RENEW=1` after a change of a source to write the shipped PTX anew.
#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn shipped_ptx_is_what_the_source_compiles_to() {
    let compiler = OLDER.compiler().unwrap();
    let mut stale = Vec::new();
    for kernel in corpus::ALL {
        let spec = kernel.spec(Form::CudaC).unwrap();
        let ptx = compile(&compiler, &spec, &kernel.default_schedule(), 75, false).unwrap();
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cuforge-oracle/kernels/ptx");
        if std::env::var_os("CUFORGE_RENEW").is_some() {
            std::fs::write(kernels.join(kernel.name()).with_extension("ptx"), &ptx).unwrap();
        }
        if kernel.ptx(Form::ShippedPtx).unwrap() != ptx {
            stale.push(kernel.name());
        }
    }
    // All are written before any is refused, so one run renews them.
    assert!(stale.is_empty(), "out of date: the shipped PTX (see above this test) of {}", stale.join(", "));
}

#[test]
fn shipped_and_written_ptx_parse_and_print_unchanged() {
    for (kernel, form, text) in all_forms() {
        assert_eq!(parse(text), Ok(()), "{} {form:?}", kernel.name());
    }
}

#[test]
#[ignore = "needs NVRTC: 12.9.86 and 13.5.37"]
fn shipped_and_written_ptx_assemble_for_every_architecture() {
    for (kernel, form, text) in all_forms() {
        for (toolchain, sm) in [OLDER, NEWER].into_iter().flat_map(|t| ARCHITECTURES.map(|sm| (t, sm))) {
            let outcome = toolchain.assemble(text, sm);
            assert!(outcome.is_ok(), "{} {form:?} sm_{sm}: {outcome:?}", kernel.name());
        }
    }
}
