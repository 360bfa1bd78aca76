//! The machine that figures come from: what a reader needs to know to compare them.

use std::env;
use std::fs;
use std::process::Command;

use cuforge_launch::Device;
use serde::{Deserialize, Serialize};

/// Where the figures of a run come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many cores this process may use.
    pub cores: usize,
    /// The operating system and its kernel's version.
    pub system: String,
    /// What the benches were built with.
    pub compiler: String,
    /// The commit that was measured, where git tells.
    pub commit: Option<String>,
    /// Processes that were ready to run, on average over the minute before: more than the cores means a busy machine.
    pub load: Option<f64>,
    /// The day, as `2026-12-01`.
    pub date: Option<String>,
    /// The first GPU.
    pub gpu: Option<String>,
    /// Its driver: library, build, CUDA version.
    pub driver: Option<String>,
    /// The GPU is a simulated one: its times say nothing of silicon.
    #[serde(default)]
    pub simulated: bool,
}

impl Machine {
    /// This machine, now.
    #[must_use]
    pub fn here() -> Self {
        let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(": ")?.1.trim().to_owned())
        });
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").ok();
        let mut machine = Self {
            processor: processor.unwrap_or_else(|| env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", env::consts::OS, kernel.trim()).trim().to_owned(),
            compiler: said("rustc", &["--version"]).unwrap_or_else(|| "unknown rustc".to_owned()),
            commit: said("git", &["rev-parse", "HEAD"]),
            load: load.and_then(|text| text.split(' ').next()?.parse().ok()),
            date: said("date", &["-u", "+%F"]),
            ..Self::default()
        };
        if let Ok(device) = Device::open(0) {
            let driver = device.driver();
            let build = driver.build().map_or_else(String::new, |build| format!(", build {build}"));
            machine.gpu = Some(device.adapter().name.clone());
            machine.driver =
                Some(format!("{}{build}, CUDA {}", driver.library().display(), driver.version()));
            machine.simulated = driver.is_simulated();
        }
        machine
    }

    /// Whether absolute figures of `other` compare with those of this machine.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cores, &self.gpu, &self.driver)
            == (&other.processor, other.cores, &other.gpu, &other.driver)
    }

    /// In two lines at most: processor and system, then the GPU if there is one.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let load = self.load.map_or_else(String::new, |load| format!(", load {load}"));
        let Self { processor, cores, system, compiler, .. } = self;
        let mut lines = vec![format!("{processor}, {cores} cores, {system}{load}; {compiler}")];
        if let Some(gpu) = &self.gpu {
            let simulated = if self.simulated { " (simulated: its times say nothing of a GPU)" } else { "" };
            lines.push(format!("{gpu}{simulated}, {}", self.driver.as_deref().unwrap_or("unknown driver")));
        }
        lines
    }
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    // Out of an archive there is no such folder, and no repository either.
    if fs::exists(env!("CARGO_MANIFEST_DIR")).unwrap_or(false) {
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
    }
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
