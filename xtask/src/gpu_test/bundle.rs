//! The corpus kernels compiled ahead of time, for a machine with a GPU and without NVRTC.

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use cuforge_compile::{CacheOptions, Compiler, Nvrtc, SearchPaths};
use cuforge_core::{BuildOptions, CompileRequest, ComputeCapability, DriverVersion, Target};
use cuforge_oracle::corpus::{self, Form};

use crate::ending::Stop;
use crate::toolchain::{self, Version};

/// What it is compiled for: data centre and desktop GPUs from Turing on.
const CAPABILITIES: &[u16] = &[75, 80, 86, 89, 90, 100, 120];

/// Compiles every kernel of the corpus under its default schedule for every capability into `file`; what was done, in
/// words.
///
/// # Errors
///
/// There is no NVRTC, or a kernel does not compile.
pub(super) fn write(file: &Path) -> Result<String, Stop> {
    let failed = |what: &str, error: &dyn Display| Stop::failed(format!("{what}: {error}"));
    let made =
        toolchain::ensure(&[Version::V12_9]).map_err(|error| failed("the bundle needs NVRTC", &error))?;
    let paths = SearchPaths::only(made.into_iter().map(|made| made.root));
    let nvrtc = Nvrtc::find(&paths).map_err(|error| failed("the bundle needs NVRTC", &error))?;
    let (major, minor) = nvrtc.version();
    let number = |part: u32| u16::try_from(part).unwrap_or(u16::MAX);
    let driver = DriverVersion { major: number(major), minor: number(minor) };
    let cache = env::temp_dir().join(format!("cuforge-bundle-{}", std::process::id()));
    let compiler = Compiler::with_nvrtc(nvrtc).with_cache(CacheOptions::in_folder(&cache));
    let done = compile(&compiler, driver).and_then(|()| {
        let mine = compiler.engine().identity().clone();
        compiler
            .export(file, &mut |entry| entry.compiler == mine)
            .map_err(|error| failed("writing the bundle", &error))
    });
    // A folder that stays behind costs some megabytes of a temporary folder.
    let _ = fs::remove_dir_all(&cache);
    let report = done?;
    if report.failed > 0 {
        return Err(Stop::failed(format!("{} images could not be put into the bundle", report.failed)));
    }
    Ok(format!("{} images by NVRTC {major}.{minor} in {}", report.copied, file.display()))
}

fn compile(compiler: &Compiler, driver: DriverVersion) -> Result<(), Stop> {
    for kernel in corpus::ALL {
        let Some(spec) = kernel.spec(Form::CudaC) else { continue };
        let schedule = kernel.default_schedule();
        for &sm in CAPABILITIES {
            let target = Target::new(ComputeCapability::from_sm(sm));
            // The simulated device has no driver, and a GPU's driver is at least as new as this compiler.
            for target in [target, target.with_driver(driver)] {
                let name = kernel.name();
                let wrong = |error: &dyn Display| Stop::failed(format!("{name} for sm_{sm}: {error}"));
                let request = CompileRequest::for_kernel(&spec, &schedule, &BuildOptions::default(), target)
                    .map_err(|error| wrong(&error))?;
                compiler.image(&request).map_err(|error| wrong(&error))?;
            }
        }
    }
    Ok(())
}
