//! The packages of the workspace, as `cargo metadata` tells them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::ending::Stop;
use crate::process;

/// A package of the workspace.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// What it depends on, of every kind and for every platform.
    pub(crate) dependencies: Vec<Dependency>,
    /// What cargo builds of it.
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
    /// Its features, by name, with what each turns on.
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// Its manifest.
    #[serde(default)]
    pub(crate) manifest_path: PathBuf,
    /// Where it may be published: `None` anywhere, an empty list nowhere.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    /// What it says of itself.
    #[serde(flatten)]
    pub(crate) card: Card,
}

/// What a registry shows of a package.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Card {
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) repository: Option<String>,
    #[serde(default)]
    pub(crate) readme: Option<PathBuf>,
    #[serde(default)]
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
    /// `[package.metadata]`.
    #[serde(default)]
    pub(crate) metadata: serde_json::Value,
}

impl Package {
    /// Whether it goes to a registry.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|places| !places.is_empty())
    }
}

/// One thing that cargo builds of a package.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, `cdylib` and so on.
    pub(crate) kind: Vec<String>,
    /// The root source file.
    pub(crate) src_path: PathBuf,
}

/// One dependency of a package.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The name of the package depended on.
    pub(crate) name: String,
    /// `None` for a normal one, else `dev` or `build`.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Its features that are turned on.
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

/// The packages of the workspace, in cargo's order.
///
/// # Errors
///
/// `cargo metadata` could not be run, failed, or said what this program does not understand.
pub(crate) fn packages() -> Result<Vec<Package>, Stop> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut command = process::cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let captured = process::capture(command, Duration::from_secs(120))
        .map_err(|error| Stop::failed(format!("cargo metadata cannot be run: {error}")))?;
    if !captured.succeeded() {
        return Err(Stop::failed(format!("cargo metadata: {}\n{}", captured.ending(), captured.stderr)));
    }
    serde_json::from_str::<Metadata>(&captured.stdout)
        .map(|metadata| metadata.packages)
        .map_err(|error| Stop::failed(format!("cargo metadata is not understood: {error}")))
}
