//! What the simulated machine is: read from the environment once, or set by a program before `cuInit`.

use cuforge_sim::{Checks, ExitedThreads, LaunchOptions};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The settings, and what each of them means. All may be absent.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("CUFORGE_SIM_DEVICES", "how many devices there are; default 1"),
    ("CUFORGE_SIM_NAME", "the devices' name; default `cuforge simulated device`"),
    ("CUFORGE_SIM_CAPABILITY", "compute capability, as `8.6`; default `9.0`"),
    ("CUFORGE_SIM_MEMORY", "bytes of memory a device, with a suffix K, M or G if wanted; default 16G"),
    ("CUFORGE_SIM_MULTIPROCESSORS", "multiprocessors a device; default 132"),
    (
        "CUFORGE_SIM_DRIVER_VERSION",
        "the CUDA version that the driver plays, as `12.4` or `12040`; default `13.0`",
    ),
    (
        "CUFORGE_SIM_ATTRIBUTES",
        "device attributes that differ, as `102=0,16=132`, by their numbers in `cuda.h`",
    ),
    (
        "CUFORGE_SIM_CHECKS",
        "`bounds`: what hardware finds; `races` (default): shared-memory hazards and conflicts between blocks \
         end a kernel too; `strict`: exited threads at a barrier as well",
    ),
    (
        "CUFORGE_SIM_STREAM_RACES",
        "`1`: work of different streams that touches the same bytes without an order between them loses the device; \
         costs some of the speed",
    ),
    (
        "CUFORGE_SIM_SEED",
        "order in which the warps of a block run, and other than 0 whose turn it is among streams that work one at a time, \
         in the same order in every run; default 0",
    ),
    ("CUFORGE_SIM_THREADS", "host threads of a kernel; default 0, one for each core"),
    (
        "CUFORGE_SIM_STEPS",
        "warp instructions that a block may run before the kernel has timed out; default 2^28",
    ),
    ("CUFORGE_SIM_POISON", "`0`: fresh device memory is zero instead of poisoned"),
    (
        "CUFORGE_SIM_RED_ZONE",
        "bytes that slabs leave unused behind each view, so that a kernel which leaves one does not land in the next; \
         default 0",
    ),
    ("CUFORGE_SIM_HIDE", "functions, by commas, that `cuGetProcAddress` does not find"),
    (
        "CUFORGE_SIM_FAIL",
        "calls that fail: `cuMemAlloc_v2@3=2` (the third answers 2), `..@3+=2` (and all later)",
    ),
    ("CUFORGE_SIM_DELAY", "calls that take longer: `cuMemAlloc_v2=500` microseconds, by commas"),
    ("CUFORGE_SIM_LOSE", "the device is lost with that call: `cuLaunchKernel@7=719`"),
    ("CUFORGE_SIM_TRACE", "file that gets a line for each call and for each piece of work"),
];

/// What a program has set, which goes before the environment.
static SET: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Sets one; false for a name that is none.
pub(crate) fn set(name: &str, value: &str) -> bool {
    let known = NAMES.iter().any(|(known, _)| *known == name);
    if known {
        SET.lock().insert(name.to_owned(), value.to_owned());
    }
    known
}

/// The value of a setting.
pub(crate) fn value(name: &str) -> Option<String> {
    SET.lock().get(name).cloned().or_else(|| std::env::var(name).ok())
}

/// The simulated machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) name: String,
    pub(crate) capability: (i32, i32),
    pub(crate) memory_bytes: u64,
    pub(crate) multiprocessors: i32,
    /// As `cuDriverGetVersion` has it: 1000 x major + 10 x minor.
    pub(crate) driver_version: i32,
    pub(crate) attributes: BTreeMap<i32, i32>,
    pub(crate) launch: LaunchOptions,
    pub(crate) stream_races: bool,
    pub(crate) poison: bool,
    pub(crate) red_zone_bytes: u64,
    pub(crate) hidden: Vec<String>,
}

impl Settings {
    /// As the environment and the program have it. A value that is not understood is named on standard error and left
    /// at its default: a driver has no other way to say so.
    pub(crate) fn read() -> Self {
        Self::from(&|name| value(name))
    }

    fn from(value: &dyn Fn(&str) -> Option<String>) -> Self {
        let checks = read(value, "CUFORGE_SIM_CHECKS", checks, Checks::default_of_hardware());
        let seed = read(value, "CUFORGE_SIM_SEED", |text| text.parse().ok(), 0);
        let threads = read(value, "CUFORGE_SIM_THREADS", |text| text.parse().ok(), 0);
        let step_budget = read(value, "CUFORGE_SIM_STEPS", |text| text.parse().ok(), 1 << 28);
        #[allow(clippy::needless_update, reason = "what the simulator may be told grows")]
        let launch = LaunchOptions { seed, threads, step_budget, checks, ..LaunchOptions::default() };
        let count = |text: &str| text.parse().ok().filter(|count| *count <= 64);
        Self {
            devices: read(value, "CUFORGE_SIM_DEVICES", count, 1),
            name: value("CUFORGE_SIM_NAME").unwrap_or_else(|| "cuforge simulated device".to_owned()),
            capability: read(value, "CUFORGE_SIM_CAPABILITY", pair, (9, 0)),
            memory_bytes: read(value, "CUFORGE_SIM_MEMORY", bytes, 16 << 30),
            multiprocessors: read(
                value,
                "CUFORGE_SIM_MULTIPROCESSORS",
                |text| text.parse().ok().filter(|n| *n > 0),
                132,
            ),
            driver_version: read(value, "CUFORGE_SIM_DRIVER_VERSION", version, 13_000),
            attributes: read(value, "CUFORGE_SIM_ATTRIBUTES", attributes, BTreeMap::new()),
            launch,
            stream_races: value("CUFORGE_SIM_STREAM_RACES").as_deref() == Some("1"),
            poison: value("CUFORGE_SIM_POISON").as_deref() != Some("0"),
            red_zone_bytes: read(value, "CUFORGE_SIM_RED_ZONE", bytes, 0),
            hidden: value("CUFORGE_SIM_HIDE")
                .map(|list| list.split(',').map(|name| name.trim().to_owned()).collect())
                .unwrap_or_default(),
        }
    }
}

trait OfHardware {
    fn default_of_hardware() -> Self;
}

impl OfHardware for Checks {
    /// Barriers ignore exited threads, as devices from compute capability 7.0 on do.
    fn default_of_hardware() -> Self {
        Self { exited_threads: ExitedThreads::Ignore, ..Self::default() }
    }
}

fn read<T>(
    value: &dyn Fn(&str) -> Option<String>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    default: T,
) -> T {
    let Some(text) = value(name) else { return default };
    parse(text.trim()).unwrap_or_else(|| {
        eprintln!("cuforge-sim-driver: {name}={text} is not understood and ignored");
        default
    })
}

fn checks(text: &str) -> Option<Checks> {
    match text {
        "bounds" => Some(Checks::none()),
        "races" => Some(Checks::default_of_hardware()),
        "strict" => Some(Checks::default()),
        _ => None,
    }
}

fn pair(text: &str) -> Option<(i32, i32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn version(text: &str) -> Option<i32> {
    match pair(text) {
        Some((major, minor)) => Some(major * 1000 + minor * 10),
        None => text.parse().ok(),
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn attributes(text: &str) -> Option<BTreeMap<i32, i32>> {
    let one = |item: &str| {
        let (name, value) = item.split_once('=')?;
        Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
    };
    text.split(',').filter(|item| !item.trim().is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_in_the_forms_people_write_and_nonsense_leaves_the_default() {
        let given = |name: &str| {
            let value = match name {
                "CUFORGE_SIM_CAPABILITY" => "8.6",
                "CUFORGE_SIM_MEMORY" => "3G",
                "CUFORGE_SIM_DRIVER_VERSION" => "12.4",
                "CUFORGE_SIM_ATTRIBUTES" => "102=0, 16=132",
                "CUFORGE_SIM_DEVICES" => "many",
                "CUFORGE_SIM_HIDE" => "cuMemMap, cuMemUnmap",
                "CUFORGE_SIM_CHECKS" => "bounds",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let settings = Settings::from(&given);
        assert_eq!((settings.capability, settings.memory_bytes), ((8, 6), 3 << 30));
        assert_eq!((settings.driver_version, settings.devices), (12_040, 1));
        assert_eq!(settings.attributes, BTreeMap::from([(102, 0), (16, 132)]));
        assert_eq!(settings.hidden, ["cuMemMap", "cuMemUnmap"]);
        assert!(!settings.launch.checks.shared_hazards);
        assert_eq!(version("12040"), Some(12_040));
        assert_eq!((bytes("17"), bytes("4T"), bytes("99999999999G")), (Some(17), None, None));
        assert_eq!(Settings::from(&|_| None).driver_version, 13_000);
    }
}
