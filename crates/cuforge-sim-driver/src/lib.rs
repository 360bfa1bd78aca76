//! The CUDA driver API over a simulated device: a libcuda.so.1 for machines without a GPU
//!
//! The library file that this crate builds is a CUDA driver for any program that loads one: put into a folder of its
//! own as `libcuda.so.1` it is found by `LD_LIBRARY_PATH`, or it is opened by its path. Handles and memory are objects
//! of the host, streams are threads, PTX is run by `cuforge-sim`. What it simulates and what not is told function by
//! function in the crate's README, from the same table as [`functions`].
//!
//! The Rust library is for tests and tools: it finds the file ([`Library`]) and puts copies of it where they are wanted.
//! It calls no driver.
//!
//! ```no_run
//! use cuforge_sim_driver::Library;
//!
//! let folder = std::env::temp_dir().join("sim-driver");
//! let library = Library::built()?.install(&folder)?;
//! std::process::Command::new("my-cuda-program").env("LD_LIBRARY_PATH", library.folder()).status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Exported functions bear the driver's names.
#![allow(non_snake_case, reason = "the driver's own names")]

mod addresses;
mod allocate;
mod attributes;
mod boundary;
mod calls;
mod capture;
mod captured;
mod capturing;
mod codes;
mod conditions;
mod context;
mod device;
mod driver;
mod event;
mod exec;
mod exports;
mod function;
mod graph;
mod handles;
mod hold;
mod host_clock;
mod library;
mod machine;
mod marks;
mod module;
mod order;
mod physical;
mod pool;
mod progress;
mod scene;
mod settings;
mod space;
mod stream;
mod transfer;
mod turns;
mod work;

pub use library::{Library, LibraryError};

/// One function of the simulated driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FunctionNote {
    /// What it belongs to.
    pub area: &'static str,
    /// Its exported name.
    pub name: &'static str,
    /// The CUDA version that brought it, 1000 x major + 10 x minor.
    pub since: i32,
    /// What is simulated of it, and what is not.
    pub note: &'static str,
}

/// Every driver function that the library exports. One that is not here is not there: looking it up fails.
///
/// ```
/// let launch = cuforge_sim_driver::functions().find(|function| function.name == "cuLaunchKernel");
/// assert_eq!(launch.map(|function| function.area), Some("Launches"));
/// ```
pub fn functions() -> impl Iterator<Item = FunctionNote> {
    let of = |(area, entries): &(&'static str, &'static [boundary::Entry])| {
        let area = *area;
        entries.iter().map(move |entry| FunctionNote {
            area,
            name: entry.site.name,
            since: entry.site.since,
            note: entry.note,
        })
    };
    exports::AREAS.iter().flat_map(of)
}

/// The tables of settings and functions as Markdown, which the README has word for word.
pub fn tables() -> String {
    let mut text = String::from("| setting | what it is |\n|---|---|\n");
    for (name, meaning) in settings() {
        text.push_str(&format!("| `{name}` | {meaning} |\n"));
    }
    let mut area = "";
    for function in functions() {
        if function.area != area {
            area = function.area;
            text.push_str(&format!(
                "\n### {area}\n\n| function | since | what is simulated |\n|---|---|---|\n"
            ));
        }
        let (major, minor) = (function.since / 1000, function.since % 1000 / 10);
        text.push_str(&format!("| `{}` | {major}.{minor} | {} |\n", function.name, function.note));
    }
    text
}

/// Every setting: the environment variable and what it means.
pub fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    settings::NAMES.iter().copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_has_the_tables_as_they_are() {
        let readme = include_str!("../README.md");
        let tables = super::tables();
        let missing: Vec<&str> = tables.lines().filter(|line| !readme.contains(line)).collect();
        assert!(readme.contains(&tables), "print them with --example function_table; missing: {missing:#?}");
    }
}
