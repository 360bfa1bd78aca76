//! The NVIDIA driver and its devices, looked up without loading the driver: a broken one cannot break the report.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::process;

const LIBRARY: &str = "libcuda.so.1";

/// Folders that hold the driver library where the loader's cache does not say so.
const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// A driver library that the loader would find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Driver {
    /// Where the loader finds it.
    pub(crate) path: PathBuf,
    /// The file itself, symbolic links resolved.
    pub(crate) real_path: PathBuf,
    /// The driver's version, where the file's name or the kernel module tells.
    pub(crate) version: Option<String>,
    /// The CUDA version that the driver supports, where `nvidia-smi` tells.
    pub(crate) cuda: Option<String>,
}

/// A device, as `nvidia-smi` or the kernel module tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// Its name.
    pub(crate) name: String,
    /// Its compute capability, such as `9.0`.
    pub(crate) compute_capability: Option<String>,
    /// Its memory in MiB.
    pub(crate) memory_mib: Option<u64>,
}

/// The driver library, if there is one.
pub(crate) fn find() -> Option<Driver> {
    let path = search_path().into_iter().find(|path| path.is_file())?;
    let real_path = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let module = fs::read_to_string("/sys/module/nvidia/version").ok().map(|text| text.trim().to_owned());
    let version = version_in_name(&real_path).or(module);
    let cuda = ask_smi(&[]).and_then(|said| cuda_version(&said));
    Some(Driver { path, real_path, version, cuda })
}

/// The devices, none where there is no driver.
pub(crate) fn devices() -> Vec<Device> {
    let query = ["--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits"];
    match ask_smi(&query) {
        Some(said) => said.lines().filter_map(device).collect(),
        None => kernel_devices(Path::new("/proc/driver/nvidia/gpus")),
    }
}

fn search_path() -> Vec<PathBuf> {
    let from_variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        env::split_paths(&from_variable).map(|folder| folder.join(LIBRARY)).collect();
    for program in ["ldconfig", "/sbin/ldconfig"] {
        let mut command = Command::new(program);
        command.arg("-p");
        if let Ok(captured) = process::capture(command, Duration::from_secs(20)) {
            paths.extend(cached(&captured.stdout));
            break;
        }
    }
    paths.extend(FOLDERS.iter().map(|folder| Path::new(folder).join(LIBRARY)));
    paths
}

/// The entries for the driver library in what `ldconfig -p` prints, those for this machine's word size first.
fn cached(listing: &str) -> Vec<PathBuf> {
    let (wide, narrow): (Vec<&str>, Vec<&str>) = listing
        .lines()
        .filter(|line| line.trim_start().starts_with(LIBRARY))
        .partition(|line| line.contains("64"));
    wide.iter()
        .chain(&narrow)
        .filter_map(|line| line.rsplit_once("=> "))
        .map(|(_, path)| PathBuf::from(path.trim()))
        .collect()
}

/// `580.159.04` in `libcuda.so.580.159.04`.
fn version_in_name(path: &Path) -> Option<String> {
    let version = path.file_name()?.to_str()?.strip_prefix("libcuda.so.")?;
    version.contains('.').then(|| version.to_owned())
}

fn ask_smi(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("nvidia-smi");
    command.args(arguments);
    let captured = process::capture(command, Duration::from_secs(30)).ok()?;
    captured.succeeded().then_some(captured.stdout)
}

fn cuda_version(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("CUDA Version")?;
    let version = rest.trim_start_matches([':', ' ']);
    let end = version.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(version.len());
    (end > 0).then(|| version[..end].to_owned())
}

fn device(line: &str) -> Option<Device> {
    let mut fields = line.rsplitn(3, ',').map(str::trim);
    let (memory, capability, name) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Device {
        name: name.to_owned(),
        compute_capability: capability.contains('.').then(|| capability.to_owned()),
        memory_mib: memory.parse().ok(),
    })
}

/// What the kernel module lists, where there is no `nvidia-smi` (slim containers).
fn kernel_devices(folder: &Path) -> Vec<Device> {
    let mut devices = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        if let Some(name) = text.lines().find_map(|line| line.strip_prefix("Model:")) {
            devices.push(Device { name: name.trim().to_owned(), compute_capability: None, memory_mib: None });
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_cache_gives_the_entry_of_this_word_size_first() {
        let listing = "2 libs found in cache\n\tlibcuda.so.1 (libc6) => /usr/lib32/libcuda.so.1\n\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1\n\tlibcudart.so.12 (libc6,x86-64) => /x\n";
        let found = cached(listing);
        assert_eq!(found[0], Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_driver_version_is_read_from_the_real_file_name_only() {
        assert_eq!(version_in_name(Path::new("/x/libcuda.so.580.159.04")), Some("580.159.04".into()));
        assert_eq!(version_in_name(Path::new("/x/libcuda.so.1")), None);
    }

    #[test]
    fn the_cuda_version_is_read_from_the_banner() {
        let banner = "| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0     |";
        assert_eq!(cuda_version(banner), Some("13.0".into()));
        assert_eq!(cuda_version("CUDA Version: N/A"), None);
    }

    #[test]
    fn a_device_line_is_read_from_its_end_because_names_may_hold_commas() {
        let device = device("NVIDIA A, B, 9.0, 143771").unwrap();
        assert_eq!((device.name.as_str(), device.memory_mib), ("NVIDIA A, B", Some(143_771)));
        assert_eq!(device.compute_capability.as_deref(), Some("9.0"));
    }
}
