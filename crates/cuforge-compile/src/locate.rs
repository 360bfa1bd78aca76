//! Where NVRTC, nvJitLink and CUDA's headers lie on this machine: the search order, and a record of where it looked.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::iter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::includes;
use crate::places::{self, Origin, System, name_of, numbers, sorted_entries};

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
        self.find_in(&System::here())
    }

    pub(crate) fn find_in(&self, system: &System<'_>) -> Found {
        let mut candidates = Vec::new();
        let looked = self.search(system, &mut |candidate| {
            candidates.push(candidate);
            ControlFlow::Continue(())
        });
        Found { candidates, looked }
    }

    /// Shows `take` every library, best first and each once, until it has enough; where it looked.
    pub(crate) fn search(
        &self,
        system: &System<'_>,
        take: &mut dyn FnMut(Candidate) -> ControlFlow<()>,
    ) -> Vec<Looked> {
        let mut looked = Vec::new();
        let (mut seen_places, mut seen_libraries) = (BTreeSet::new(), BTreeSet::new());
        let roots = self.roots.iter().map(|root| (Origin::Option, root.clone())).collect();
        let parts = places::OF_SYSTEM.iter().filter(|_| self.system).map(|part| part(system));
        for (origin, place) in iter::once(roots).chain(parts).flatten() {
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
            looked.push(Looked { origin, path: place, outcome });
            for library in libraries {
                let Ok(library) = fs::canonicalize(&library) else { continue };
                if seen_libraries.insert(library.clone()) && take(self.candidate(library, origin)).is_break()
                {
                    return looked;
                }
            }
        }
        looked
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
    let folders = iter::once(folder.to_path_buf()).chain(sibling);
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
