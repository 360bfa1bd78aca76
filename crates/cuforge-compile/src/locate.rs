//! Where NVRTC, nvJitLink and CUDA's headers lie on this machine: the search order, and a record of where it looked.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::includes;

/// Folders, below a root, in which a toolkit, a distribution or a wheel keeps its libraries.
const LIBRARY_FOLDERS: &[&str] = &[
    "",
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "bin",
];

/// How a library was found, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Named in [`SearchPaths::roots`].
    Option,
    /// The variable `CUFORGE_NVRTC`, a library or a folder.
    CuforgeNvrtc,
    /// The variable `CUDA_PATH` or `CUDA_HOME`.
    CudaPath,
    /// A wheel in an active virtual or conda environment.
    ActiveEnvironment,
    /// A folder of the dynamic loader (`LD_LIBRARY_PATH`, `/etc/ld.so.conf`, the system folders).
    Loader,
    /// A usual toolkit folder such as `/usr/local/cuda`.
    Toolkit,
    /// A wheel in the `site-packages` of the `python3` on the path, or of the user.
    SitePackages,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Option => "search option",
            Self::CuforgeNvrtc => "CUFORGE_NVRTC",
            Self::CudaPath => "CUDA_PATH or CUDA_HOME",
            Self::ActiveEnvironment => "active python environment",
            Self::Loader => "loader path",
            Self::Toolkit => "toolkit folder",
            Self::SitePackages => "python site-packages",
        })
    }
}

/// One place that was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Why it was searched.
    pub origin: Origin,
    /// The folder or file.
    pub path: PathBuf,
    /// What was there: "no such folder", "no libnvrtc", or why the library there was refused.
    pub outcome: String,
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.path.display(), self.origin, self.outcome)
    }
}

/// Where to look. The default is every place that [`Origin`] names.
///
/// ```
/// use cuforge_compile::SearchPaths;
/// // Only this folder, whatever the environment says.
/// let paths = SearchPaths::only(["/opt/wheels/nvrtc-13.5.37"]);
/// assert!(paths.find().candidates.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct SearchPaths {
    /// Searched first, in order: a toolkit root, a folder with the library, a `pip install --target` tree, or the
    /// library itself.
    pub roots: Vec<PathBuf>,
    /// Whether environment variables, loader folders, toolkit folders and wheels are searched after `roots`.
    pub system: bool,
    /// Searched for headers before those that belong to the library found.
    pub include_dirs: Vec<PathBuf>,
}

impl Default for SearchPaths {
    fn default() -> Self {
        Self { roots: Vec::new(), system: true, include_dirs: Vec::new() }
    }
}

/// An NVRTC library on disk, not yet loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Absolute path of the library, symbolic links resolved.
    pub library: PathBuf,
    /// `libnvrtc-builtins` of the same folder, if there is one.
    pub builtins: Option<PathBuf>,
    /// Major and minor version, where file names tell (from the builtins library).
    pub version: Option<(u32, u32)>,
    /// Folders with CUDA's headers that belong to it, in the order they are passed.
    pub includes: Vec<PathBuf>,
    /// nvJitLink beside it, if there is one.
    pub nvjitlink: Option<PathBuf>,
    /// How it was found.
    pub origin: Origin,
}

/// What a search gave.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Libraries, best first, each once.
    pub candidates: Vec<Candidate>,
    /// Every place that was searched.
    pub looked: Vec<Looked>,
}

impl SearchPaths {
    /// Only these roots: a search that no environment can change.
    pub fn only<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self { roots: roots.into_iter().map(Into::into).collect(), system: false, include_dirs: Vec::new() }
    }

    /// These roots first, then everything the system offers.
    pub fn first<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self { system: true, ..Self::only(roots) }
    }

    /// Searches the file system; opens no library. A few hundred file status calls.
    pub fn find(&self) -> Found {
        let mut places: Vec<(Origin, PathBuf)> =
            self.roots.iter().map(|root| (Origin::Option, root.clone())).collect();
        if self.system {
            places.extend(system_places());
        }
        let mut found = Found::default();
        let (mut seen_places, mut seen_libraries) = (BTreeSet::new(), BTreeSet::new());
        for (origin, place) in places {
            if !seen_places.insert(place.clone()) {
                continue;
            }
            let mut libraries = Vec::new();
            let outcome = match fs::metadata(&place) {
                Err(_) => "no such file or folder".to_owned(),
                Ok(what) if what.is_file() => {
                    libraries.push(place.clone());
                    "a file".to_owned()
                }
                Ok(_) => {
                    libraries = nvrtc_below(&place);
                    match libraries.len() {
                        0 => "no libnvrtc".to_owned(),
                        n => format!("{n} libnvrtc"),
                    }
                }
            };
            found.looked.push(Looked { origin, path: place, outcome });
            for library in libraries {
                let Ok(library) = fs::canonicalize(&library) else { continue };
                if seen_libraries.insert(library.clone()) {
                    found.candidates.push(self.candidate(library, origin));
                }
            }
        }
        found
    }

    fn candidate(&self, library: PathBuf, origin: Origin) -> Candidate {
        let folder = library.parent().unwrap_or(Path::new("/")).to_path_buf();
        let (builtins, version) = builtins_in(&folder, &library);
        let mut includes: Vec<PathBuf> = self.include_dirs.clone();
        for dir in includes::belonging_to(&folder) {
            if !includes.contains(&dir) {
                includes.push(dir);
            }
        }
        let major = version.map(|(major, _)| major).or_else(|| suffix_number(&library));
        let nvjitlink = nvjitlink_near(&folder, major);
        Candidate { library, builtins, version, includes, nvjitlink, origin }
    }
}

/// Every place the system suggests, in the order of [`Origin`].
fn system_places() -> Vec<(Origin, PathBuf)> {
    let mut places = Vec::new();
    let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    places.extend(var("CUFORGE_NVRTC").map(|path| (Origin::CuforgeNvrtc, path)));
    places.extend(["CUDA_PATH", "CUDA_HOME"].iter().filter_map(|n| var(n)).map(|p| (Origin::CudaPath, p)));
    for prefix in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| var(name)) {
        places.extend(site_packages(&prefix).into_iter().map(|path| (Origin::ActiveEnvironment, path)));
        places.push((Origin::ActiveEnvironment, prefix));
    }
    places.extend(loader_folders().into_iter().map(|path| (Origin::Loader, path)));
    places.extend(toolkit_folders().into_iter().map(|path| (Origin::Toolkit, path)));
    if let Some(prefix) = python_prefix() {
        places.extend(site_packages(&prefix).into_iter().map(|path| (Origin::SitePackages, path)));
    }
    if let Some(home) = var("HOME") {
        places.extend(site_packages(&home.join(".local")).into_iter().map(|p| (Origin::SitePackages, p)));
    }
    for prefix in ["/usr", "/usr/local"] {
        places.extend(site_packages(Path::new(prefix)).into_iter().map(|p| (Origin::SitePackages, p)));
    }
    places
}

/// `<prefix>/lib/python3*/site-packages` (and Debian's `dist-packages`) that hold an `nvidia` folder.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        for python in sorted_entries(&prefix.join(lib)) {
            if !name_of(&python).starts_with("python3") {
                continue;
            }
            found.extend(["site-packages", "dist-packages"].iter().map(|name| python.join(name)));
        }
    }
    found.retain(|folder| folder.join("nvidia").is_dir());
    found
}

/// The prefix of the `python3` that a shell would start, links resolved.
fn python_prefix() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let python = env::split_paths(&path).map(|dir| dir.join("python3")).find(|file| file.is_file())?;
    let real = fs::canonicalize(python).ok()?;
    Some(real.parent()?.parent()?.to_path_buf())
}

fn loader_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = env::var_os("LD_LIBRARY_PATH")
        .map(|value| env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    let mut conf_files = vec![PathBuf::from("/etc/ld.so.conf")];
    conf_files.extend(sorted_entries(Path::new("/etc/ld.so.conf.d")));
    for file in conf_files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        folders.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    folders.extend(
        ["/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
            .map(PathBuf::from),
    );
    folders
}

/// `/usr/local/cuda` first, then the versioned folders, newest first.
fn toolkit_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/local/cuda")];
    let mut versioned: Vec<PathBuf> = sorted_entries(Path::new("/usr/local"))
        .into_iter()
        .filter(|p| name_of(p).starts_with("cuda-"))
        .collect();
    versioned.sort_by_key(|path| std::cmp::Reverse(numbers(&name_of(path))));
    folders.extend(versioned);
    folders.extend(["/opt/cuda", "/usr/lib/cuda"].map(PathBuf::from));
    folders
}

/// The NVRTC libraries of a root, whatever its layout, highest version first.
fn nvrtc_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in library_folders(root) {
        let mut here: Vec<PathBuf> =
            sorted_entries(&folder).into_iter().filter(|path| is_nvrtc(&name_of(path))).collect();
        here.sort_by_key(|path| std::cmp::Reverse(numbers(&name_of(path))));
        found.extend(here);
    }
    found
}

fn library_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = LIBRARY_FOLDERS.iter().map(|folder| root.join(folder)).collect();
    for component in sorted_entries(&root.join("nvidia")) {
        folders.push(component.join("lib"));
    }
    folders
}

fn is_nvrtc(name: &str) -> bool {
    if cfg!(windows) {
        return name.starts_with("nvrtc64_") && name.ends_with("_0.dll");
    }
    name == "libnvrtc.so"
        || name.strip_prefix("libnvrtc.so.").is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
}

/// The builtins library that belongs to `library`: same folder, same major version, the highest minor.
fn builtins_in(folder: &Path, library: &Path) -> (Option<PathBuf>, Option<(u32, u32)>) {
    let wanted = suffix_number(library);
    let mut best: Option<(Vec<u32>, PathBuf)> = None;
    for path in sorted_entries(folder) {
        let name = name_of(&path);
        if !name.starts_with("libnvrtc-builtins.so.") && !name.starts_with("nvrtc-builtins64_") {
            continue;
        }
        let version = numbers(name.trim_start_matches("nvrtc-builtins64_"));
        if wanted.is_some() && version.first().copied() != wanted {
            continue;
        }
        if best.as_ref().is_none_or(|(known, _)| *known < version) {
            best = Some((version, path));
        }
    }
    let Some((version, path)) = best else { return (None, None) };
    let pair = match version.as_slice() {
        [major, minor, ..] => Some((*major, *minor)),
        _ => None,
    };
    (fs::canonicalize(path).ok(), pair)
}

/// nvJitLink in the same folder or in the sibling wheel of CUDA 12, of the same major version.
fn nvjitlink_near(folder: &Path, major: Option<u32>) -> Option<PathBuf> {
    let sibling = folder.parent().and_then(Path::parent).map(|nvidia| nvidia.join("nvjitlink").join("lib"));
    let folders = std::iter::once(folder.to_path_buf()).chain(sibling);
    for folder in folders {
        let libraries = sorted_entries(&folder);
        let fits = |path: &&PathBuf| {
            name_of(path).starts_with("libnvJitLink.so.") && (major.is_none() || suffix_number(path) == major)
        };
        if let Some(path) = libraries.iter().find(fits) {
            return fs::canonicalize(path).ok();
        }
    }
    None
}

/// 13 in `libnvrtc.so.13` and in `libnvrtc.so.13.0.88`.
fn suffix_number(path: &Path) -> Option<u32> {
    let name = name_of(path);
    numbers(name.split_once(".so.").map_or("", |(_, version)| version)).first().copied()
}

/// The numbers in a text, in order, so that versions compare as numbers.
fn numbers(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
