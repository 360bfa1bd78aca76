//! What the CUDA driver says of this machine, asked in a process of its own: a driver that crashes or hangs breaks a
//! child and not the command that asks. Every verb that needs to know asks here, so none of them disagree.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use cuforge::launch::{Device, Driver, LaunchError};
use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::ending::{Ending, Stop};
use crate::process;

/// The hidden verb of the child.
pub(crate) const VERB: &str = "probe";
const USAGE: &str = "usage: cargo xtask probe\n\nPrints what the CUDA driver says of this machine, as JSON.";
/// A driver that takes longer to say who it is hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// The driver library by its real path, if one could be opened.
    pub(crate) library: Option<PathBuf>,
    /// The CUDA version that it supports.
    pub(crate) cuda: Option<String>,
    /// Its build, such as `580.159.04`.
    pub(crate) build: Option<String>,
    /// The library is the simulated driver.
    pub(crate) simulated: bool,
    /// The devices that can be used.
    pub(crate) devices: Vec<Found>,
    /// Why there are none, or not all.
    pub(crate) trouble: Option<String>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The driver's number for it.
    pub(crate) ordinal: u32,
    /// Its name.
    pub(crate) name: String,
    /// Its compute capability, such as `9.0`.
    pub(crate) compute_capability: Option<String>,
    /// Its memory in bytes.
    pub(crate) memory_bytes: u64,
    /// What `CUDA_VISIBLE_DEVICES` takes for it.
    pub(crate) uuid: Option<String>,
}

impl Probe {
    /// Why no device can be used; `None` if one can.
    pub(crate) fn without_a_device(&self) -> Option<&str> {
        self.devices.is_empty().then(|| self.trouble.as_deref().unwrap_or("the driver lists no device"))
    }

    /// Why no GPU can be used: no device, or the simulated one alone; `None` if one can.
    pub(crate) fn without_silicon(&self) -> Option<String> {
        if self.simulated {
            return Some(format!("{} is the simulated driver", self.driver_line()));
        }
        self.without_a_device().map(str::to_owned)
    }

    /// The driver in one line: real path, CUDA version, build.
    pub(crate) fn driver_line(&self) -> String {
        let library =
            self.library.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
        let cuda = self.cuda.as_deref().map_or_else(String::new, |cuda| format!(", CUDA {cuda}"));
        let build = self.build.as_deref().map_or_else(String::new, |build| format!(", build {build}"));
        format!("{library}{cuda}{build}")
    }
}

impl Found {
    /// The device in one line.
    pub(crate) fn line(&self) -> String {
        let capability = self.compute_capability.as_deref().unwrap_or("unknown");
        format!("{}, compute capability {capability}, {} MiB", self.name, self.memory_bytes >> 20)
    }
}

/// Asks the driver that a child with `variables` set would find.
pub(crate) fn ask(variables: &[(String, String)]) -> Probe {
    let broken = |why: String| Probe { trouble: Some(why), ..Probe::default() };
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return broken(format!("this program has no path: {error}")),
    };
    let mut command = Command::new(program);
    command.arg(VERB).envs(variables.iter().map(|(name, value)| (name, value)));
    let captured = match process::capture_group(command, LIMIT) {
        Ok(captured) => captured,
        Err(error) => return broken(format!("the driver could not be asked: {error}")),
    };
    if !captured.succeeded() {
        return broken(format!("asking the CUDA driver ended with {}", captured.ending()));
    }
    let last = captured.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| broken(format!("the driver's answer: {error}")))
}

/// The child: opens every device, tells, and ends.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    arguments.options(USAGE).none()?;
    let text = serde_json::to_string(&look())
        .map_err(|error| Stop::failed(format!("the report cannot be written as JSON: {error}")))?;
    println!("{text}");
    Ok(Ending::Good)
}

fn look() -> Probe {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            return Probe {
                library: library_of(&error),
                trouble: Some(error.to_string()),
                ..Probe::default()
            };
        }
    };
    let mut probe = Probe {
        library: Some(driver.library().to_path_buf()),
        cuda: Some(driver.version().to_string()),
        build: driver.build().map(str::to_owned),
        simulated: driver.is_simulated(),
        ..Probe::default()
    };
    let count = driver.device_count().unwrap_or_else(|error| {
        probe.trouble = Some(error.to_string());
        0
    });
    for ordinal in 0..count {
        match Device::open_on(driver, ordinal) {
            Ok(device) => probe.devices.push(found(&device)),
            Err(error) => probe.trouble = Some(format!("device {ordinal}: {error}")),
        }
    }
    probe
}

fn library_of(error: &LaunchError) -> Option<PathBuf> {
    match error {
        LaunchError::NoDevice { library }
        | LaunchError::DriverTooOld { library, .. }
        | LaunchError::MissingSymbol { library, .. } => Some(library.clone()),
        _ => None,
    }
}

fn found(device: &Device) -> Found {
    let adapter = device.adapter();
    Found {
        ordinal: device.ordinal(),
        name: adapter.name.clone(),
        compute_capability: adapter.compute_capability.map(|capability| capability.to_string()),
        memory_bytes: device.constraints().memory_bytes,
        uuid: adapter.uuid.map(visible_name),
    }
}

/// `GPU-8-4-4-4-12`, the form that `nvidia-smi -L` shows.
fn visible_name(uuid: [u8; 16]) -> String {
    let mut name = String::from("GPU-");
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            name.push('-');
        }
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_as_the_driver_takes_it() {
        let uuid = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(visible_name(uuid), "GPU-12345678-9abc-def0-0102-030405060708");
    }

    #[test]
    fn a_probe_without_devices_says_why() {
        let probe = Probe { trouble: Some("no CUDA driver".into()), ..Probe::default() };
        assert_eq!(probe.without_a_device(), Some("no CUDA driver"));
        assert_eq!(Probe::default().without_a_device(), Some("the driver lists no device"));
    }
}
