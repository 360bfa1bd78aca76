//! `cargo xtask doctor`: what this machine has for cuforge, what is missing, and how to get it.

mod nvrtc;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::arguments::{Arguments, Item};
use crate::ending::{Ending, Stop};
use crate::probe::{self, Found, Probe};
use crate::toolchain::{self, Version};
use crate::{process, workspace};
use nvrtc::Nvrtc;

const USAGE: &str = "\
usage: cargo xtask doctor [--json FILE]

Reports the driver, devices, NVRTC, headers and Python of this machine. Nothing is fetched. The driver is asked in a
process of its own, the way every other verb asks it.";

/// The report. The keys of its JSON form are stable under one `schema`.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    driver: Option<Driver>,
    devices: Vec<Found>,
    /// Why there is no driver, or no device.
    trouble: Option<String>,
    /// The newest PTX ISA that the driver loads, where its CUDA version is known.
    driver_ptx_isa: Option<String>,
    nvrtc: Vec<Nvrtc>,
    toolchains: Vec<Tools>,
    python: Option<String>,
    pip: Option<String>,
    missing: Vec<Missing>,
}

/// A driver library that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Driver {
    /// The file itself, symbolic links resolved.
    real_path: PathBuf,
    /// Its build, such as `580.159.04`.
    build: Option<String>,
    /// The CUDA version that it supports.
    cuda: Option<String>,
    /// Whether it is the simulated one.
    simulated: bool,
}

/// One pinned toolchain below `target/cuda`.
#[derive(Debug, Serialize)]
struct Tools {
    nvrtc: &'static str,
    folder: PathBuf,
    ptxas: Option<PathBuf>,
}

/// Something that is not there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Missing {
    what: &'static str,
    without_it: &'static str,
    how: &'static str,
}

/// Looks, reports, and ends well: a machine without a GPU is no failure.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut options = arguments.options(USAGE);
    let mut json = None;
    while let Some(item) = options.next()? {
        match &item {
            Item::Option(name) if name == "json" => json = Some(options.path()?),
            _ => return Err(options.unknown(&item)),
        }
    }
    let report = look();
    print(&report);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Stop::failed(format!("the report cannot be written as JSON: {error}")))?;
        fs::write(&path, text + "\n")
            .map_err(|error| Stop::failed(format!("writing {}: {error}", path.display())))?;
    }
    Ok(Ending::Good)
}

fn look() -> Report {
    let toolchains = toolchain::present_here()
        .into_iter()
        .map(|made| Tools { nvrtc: made.version.number(), folder: made.root, ptxas: made.ptxas })
        .collect();
    let Probe { library, cuda, build, simulated, devices, trouble } = probe::ask(&[]);
    let driver_ptx_isa = cuda.as_deref().and_then(nvrtc::ptx_isa);
    let mut report = Report {
        schema: "cuforge-doctor/2",
        driver: library.map(|real_path| Driver { real_path, build, cuda, simulated }),
        devices,
        trouble,
        driver_ptx_isa,
        nvrtc: nvrtc::find(),
        toolchains,
        python: version_of("python3", &["--version"]),
        pip: version_of("python3", &["-m", "pip", "--version"]),
        missing: Vec::new(),
    };
    report.missing = missing(&report);
    report
}

fn version_of(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let captured = process::capture(command, Duration::from_secs(30)).ok()?;
    let line = captured.stdout.lines().next()?;
    // `pip 25.0 from FOLDER (python 3.12)`: the folder is nobody's business in a report that gets pasted.
    let line = line.split(" from ").next().unwrap_or(line);
    captured.succeeded().then(|| line.trim().to_owned())
}

fn missing(report: &Report) -> Vec<Missing> {
    let mut missing = Vec::new();
    if report.driver.is_none() {
        missing.push(Missing {
            what: "NVIDIA driver (libcuda.so.1)",
            without_it: "kernels run on the simulated device",
            how: "install the NVIDIA driver, 525 or later, on a machine with a GPU",
        });
    } else if report.devices.is_empty() {
        missing.push(Missing {
            what: "a visible GPU",
            without_it: "kernels run on the simulated device",
            how: "check `nvidia-smi`, and that CUDA_VISIBLE_DEVICES or the container does not hide it",
        });
    }
    let there = |version: &Version| report.toolchains.iter().any(|tools| tools.nvrtc == version.number());
    if !Version::CORPUS.iter().all(there) {
        missing.push(Missing {
            what: "NVRTC in target/cuda, in both versions that the kernels are built with",
            without_it: "only shipped PTX can be run, and tests that need NVRTC are skipped",
            how: "run `cargo xtask test` or `cargo xtask quickstart` with a network",
        });
    }
    if report.python.is_none() {
        missing.push(Missing {
            what: "python3",
            without_it: "NVRTC cannot be fetched",
            how: "install Python 3 from your distribution",
        });
    } else if report.pip.is_none() {
        missing.push(Missing {
            what: "pip",
            without_it: "NVRTC cannot be fetched",
            how: "run `python3 -m ensurepip` or install your distribution's pip package",
        });
    }
    missing
}

fn print(report: &Report) {
    match &report.driver {
        Some(driver) => {
            let simulated = if driver.simulated { " (simulated)" } else { "" };
            line("driver", &format!("{}{simulated}", driver.real_path.display()));
            let (build, cuda) = (known(&driver.build), known(&driver.cuda));
            let isa = known(&report.driver_ptx_isa);
            line("", &format!("build {build}, CUDA {cuda}, PTX ISA up to {isa}"));
        }
        None => line("driver", "none"),
    }
    if report.devices.is_empty() {
        line("devices", "none visible; the simulated device is always there");
    }
    if let Some(trouble) = &report.trouble {
        line("", trouble);
    }
    for device in &report.devices {
        line("device", &device.line());
    }
    for nvrtc in &report.nvrtc {
        let headers = if nvrtc.headers.is_empty() { "no headers" } else { "headers" };
        let link = if nvrtc.nvjitlink.is_some() { ", nvJitLink" } else { "" };
        let (cuda, isa) = (known(&nvrtc.cuda), known(&nvrtc.ptx_isa));
        line("nvrtc", &format!("CUDA {cuda}, PTX ISA up to {isa}, {headers}{link} ({})", nvrtc.origin));
        line("", &shown(&nvrtc.library));
    }
    for tools in &report.toolchains {
        let ptxas = if tools.ptxas.is_some() { "with ptxas" } else { "without ptxas" };
        line("toolchain", &format!("{} {ptxas} in {}", tools.nvrtc, shown(&tools.folder)));
    }
    line("python", report.python.as_deref().unwrap_or("none"));
    line("pip", report.pip.as_deref().unwrap_or("none"));
    for missing in &report.missing {
        line("missing", &format!("{}: {}", missing.what, missing.without_it));
        line("", &format!("to get it: {}", missing.how));
    }
}

fn line(label: &str, text: &str) {
    println!("{label:<12}{text}");
}

fn known(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("unknown")
}

/// A path from the workspace root where it lies below it.
fn shown(path: &Path) -> String {
    path.strip_prefix(workspace::root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVRTC: &str = "NVRTC in target/cuda, in both versions that the kernels are built with";

    fn bare() -> Report {
        Report {
            schema: "cuforge-doctor/2",
            driver: None,
            devices: Vec::new(),
            trouble: None,
            driver_ptx_isa: None,
            nvrtc: Vec::new(),
            toolchains: Vec::new(),
            python: None,
            pip: None,
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_bare_machine_is_told_how_to_get_each_thing_it_lacks() {
        let whats: Vec<&str> = missing(&bare()).iter().map(|missing| missing.what).collect();
        assert_eq!(whats, ["NVIDIA driver (libcuda.so.1)", NVRTC, "python3"]);
    }

    #[test]
    fn python_without_pip_and_a_driver_without_a_device_are_told_apart_from_absence() {
        let driver = Driver { real_path: "/l".into(), build: None, cuda: None, simulated: false };
        let report = Report { driver: Some(driver), python: Some("Python 3.12.0".into()), ..bare() };
        let whats: Vec<&str> = missing(&report).iter().map(|missing| missing.what).collect();
        assert_eq!(whats, ["a visible GPU", NVRTC, "pip"]);
    }

    #[test]
    fn the_json_keys_are_those_of_schema_2() {
        let value = serde_json::to_value(bare()).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "schema",
            "driver",
            "devices",
            "trouble",
            "driver_ptx_isa",
            "nvrtc",
            "toolchains",
            "python",
            "pip",
            "missing",
        ];
        expected.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }
}
