//! The places that a system suggests for CUDA libraries: variables, environments, loader folders, toolkits, wheels.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// How a library was found, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Named in [`SearchPaths::roots`](crate::SearchPaths::roots).
    Option,
    /// The variable `CUFORGE_NVRTC`, a library or a folder.
    CuforgeNvrtc,
    /// The variable `CUDA_PATH` or `CUDA_HOME`.
    CudaPath,
    /// A wheel in an active virtual or conda environment: somebody activated it, so it comes before what the system has.
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

/// What a search asks the system: its variables and its file tree.
pub(crate) struct System<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// `/`, or a tree that a test made.
    pub(crate) root: &'a Path,
}

impl System<'static> {
    /// This machine as it is.
    pub(crate) fn here() -> Self {
        Self { variable: &|name| env::var_os(name), root: Path::new("/") }
    }
}

impl System<'_> {
    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The folders of a list variable such as `PATH`.
    fn list(&self, name: &str) -> Vec<PathBuf> {
        let value = (self.variable)(name).unwrap_or_default();
        env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Every place the system suggests, in the order of [`Origin`], a part at a time: a search that ends early does not look
/// for the places of later parts.
pub(crate) const OF_SYSTEM: [Part; 4] = [of_environment, of_loader, of_toolkits, of_python];

/// Some of the places.
type Part = fn(&System<'_>) -> Vec<(Origin, PathBuf)>;

fn of_environment(system: &System<'_>) -> Vec<(Origin, PathBuf)> {
    let mut places = Vec::new();
    let var = |name: &str| system.path(name);
    places.extend(var("CUFORGE_NVRTC").map(|path| (Origin::CuforgeNvrtc, path)));
    places.extend(["CUDA_PATH", "CUDA_HOME"].iter().filter_map(|n| var(n)).map(|p| (Origin::CudaPath, p)));
    for prefix in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| var(name)) {
        places.extend(site_packages(&prefix).into_iter().map(|path| (Origin::ActiveEnvironment, path)));
        places.push((Origin::ActiveEnvironment, prefix));
    }
    places
}

fn of_loader(system: &System<'_>) -> Vec<(Origin, PathBuf)> {
    loader_folders(system).into_iter().map(|path| (Origin::Loader, path)).collect()
}

fn of_toolkits(system: &System<'_>) -> Vec<(Origin, PathBuf)> {
    toolkit_folders(system).into_iter().map(|path| (Origin::Toolkit, path)).collect()
}

fn of_python(system: &System<'_>) -> Vec<(Origin, PathBuf)> {
    let mut places = Vec::new();
    for prefix in python_prefixes(system) {
        places.extend(site_packages(&prefix).into_iter().map(|path| (Origin::SitePackages, path)));
    }
    if let Some(home) = system.path("HOME") {
        places.extend(site_packages(&home.join(".local")).into_iter().map(|p| (Origin::SitePackages, p)));
    }
    for prefix in ["/usr", "/usr/local"] {
        places.extend(site_packages(&system.at(prefix)).into_iter().map(|p| (Origin::SitePackages, p)));
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

/// The prefixes of the `python3` that a shell would start: as it stands on the path (a virtual environment that is not
/// activated), with links resolved, and behind pyenv's shims.
fn python_prefixes(system: &System<'_>) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    let python = system.list("PATH").into_iter().map(|dir| dir.join("python3")).find(|file| file.is_file());
    if let Some(python) = python {
        let prefix = |file: &Path| Some(file.parent()?.parent()?.to_path_buf());
        prefixes.extend(prefix(&python));
        prefixes.extend(fs::canonicalize(&python).ok().and_then(|real| prefix(&real)));
    }
    let pyenv = system.path("PYENV_ROOT").or_else(|| system.path("HOME").map(|home| home.join(".pyenv")));
    prefixes.extend(pyenv.map(|root| sorted_entries(&root.join("versions"))).unwrap_or_default());
    prefixes
}

fn loader_folders(system: &System<'_>) -> Vec<PathBuf> {
    let mut folders = system.list("LD_LIBRARY_PATH");
    let mut conf_files = vec![system.at("/etc/ld.so.conf")];
    conf_files.extend(sorted_entries(&system.at("/etc/ld.so.conf.d")));
    for file in conf_files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        folders.extend(lines.map(|line| system.at(line)));
    }
    let usual = ["/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    folders.extend(usual.map(|folder| system.at(folder)));
    folders
}

/// `/usr/local/cuda` first, then the versioned folders, newest first.
fn toolkit_folders(system: &System<'_>) -> Vec<PathBuf> {
    let mut folders = vec![system.at("/usr/local/cuda")];
    let mut versioned = sorted_entries(&system.at("/usr/local"));
    versioned.retain(|path| name_of(path).starts_with("cuda-"));
    versioned.sort_by_key(|path| std::cmp::Reverse(numbers(&name_of(path))));
    folders.extend(versioned);
    folders.extend(["/opt/cuda", "/usr/lib/cuda"].map(|folder| system.at(folder)));
    folders
}

/// The numbers in a text, in order, so that versions compare as numbers.
pub(crate) fn numbers(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The last part of a path as text.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

/// What a folder holds, by name; nothing if it cannot be listed.
pub(crate) fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate::SearchPaths;

    /// A file tree of a test's own.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[&str]) -> Self {
            let root = env::temp_dir().join(format!("cuforge-places-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for file in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            Self(fs::canonicalize(root).unwrap())
        }

        /// The libraries found, best first, as paths within the tree.
        fn libraries(&self, variables: &[(&str, &str)]) -> Vec<(Origin, String)> {
            let variable = |name: &str| {
                let value = variables.iter().find(|(known, _)| *known == name)?;
                Some(self.0.join(value.1).into_os_string())
            };
            let found = SearchPaths::default().find_in(&System { variable: &variable, root: &self.0 });
            let within = |path: &Path| path.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned();
            found.candidates.iter().map(|candidate| (candidate.origin, within(&candidate.library))).collect()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_place_is_searched_in_the_order_of_precedence() {
        let venv = "venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
        let files = [
            "named/libnvrtc.so.12",
            "toolkit/lib64/libnvrtc.so.12",
            venv,
            "loader/libnvrtc.so.13",
            "usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so.13",
            "usr/local/cuda-12.9/lib64/libnvrtc.so.12",
            "usr/local/cuda-13.1/lib64/libnvrtc.so.13",
            "home/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "home/.pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "usr/lib/x86_64-linux-gnu/libnvrtc.so.12.4.127",
        ];
        let tree = Tree::new("order", &files);
        let variables = [
            ("CUFORGE_NVRTC", "named/libnvrtc.so.12"),
            ("CUDA_HOME", "toolkit"),
            ("VIRTUAL_ENV", "venv"),
            ("LD_LIBRARY_PATH", "loader"),
            ("HOME", "home"),
        ];
        let want = [
            (Origin::CuforgeNvrtc, files[0]),
            (Origin::CudaPath, files[1]),
            (Origin::ActiveEnvironment, files[2]),
            (Origin::Loader, files[3]),
            (Origin::Loader, files[9]),
            (Origin::Toolkit, files[4]),
            (Origin::Toolkit, files[6]),
            (Origin::Toolkit, files[5]),
            (Origin::SitePackages, files[8]),
            (Origin::SitePackages, files[7]),
        ];
        assert_eq!(tree.libraries(&variables), want.map(|(origin, path)| (origin, path.to_owned())));
    }

    #[test]
    fn a_folder_of_the_loader_s_configuration_is_searched_and_builtins_are_no_nvrtc() {
        let files = [
            "etc/ld.so.conf.d/cuda.conf",
            "opt/nv/libnvrtc-builtins.so.13.0",
            "opt/nv/libnvrtc.alt.so.13",
            "opt/nv/libnvrtc.so.13",
            "opt/nv/libnvrtc_static.a",
        ];
        let tree = Tree::new("conf", &files);
        fs::write(tree.0.join(files[0]), "# comment\n/opt/nv\n").unwrap();
        assert_eq!(tree.libraries(&[]), [(Origin::Loader, files[3].to_owned())]);
    }

    #[test]
    fn an_empty_machine_gives_nothing_and_says_where_it_looked() {
        let tree = Tree::new("empty", &["etc/hostname"]);
        let found = SearchPaths::default().find_in(&System { variable: &|_| None, root: &tree.0 });
        assert!(found.candidates.is_empty());
        let told: Vec<String> = found.looked.iter().map(ToString::to_string).collect();
        assert!(
            told.iter().any(|line| line.contains("usr/local/cuda (toolkit folder): no such file")),
            "{told:?}"
        );
    }
}
