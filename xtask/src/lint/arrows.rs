//! Proves the arrows between crates: dependencies as cargo tells them, held against the floor table.

use std::collections::{BTreeMap, BTreeSet};

use super::floors::{Allowed, Room, room};
use crate::metadata::Package;

/// Every arrow that the floor table does not allow, in words that name both ends.
///
/// Dependencies of every kind count, `dev` included: a test that needs two siblings belongs in the tests package.
pub(crate) fn wrong(house: &[Room], packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some(from) = room(house, &package.name) else {
            wrong.push(format!("{} has no floor: give it one in the floor table", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let kind = dependency.kind.as_deref().unwrap_or("normal");
            let arrow = format!("{} -> {} ({kind})", package.name, dependency.name);
            let ours = packages.iter().any(|other| other.name == dependency.name);
            if ours && let Some(reason) = refused(house, from, &dependency.name) {
                wrong.push(format!("{arrow}: {reason}"));
            }
            if let Some((_, reason)) = from.forbidden.iter().find(|(name, _)| *name == dependency.name) {
                wrong.push(format!("{arrow}: {reason}"));
            }
            for (name, feature, reason) in from.forbidden_features {
                if *name == dependency.name && dependency.features.iter().any(|on| on == feature) {
                    wrong.push(format!("{arrow} with feature {feature}: {reason}"));
                }
            }
        }
    }
    wrong
}

/// Why `from` may not depend on the workspace crate `to`.
fn refused(house: &[Room], from: &Room, to: &str) -> Option<String> {
    let Allowed::These(allowed) = from.may_use else { return None };
    if allowed.contains(&to) {
        return None;
    }
    let place =
        room(house, to).map_or_else(String::new, |to| format!(", {} is on floor {}", to.name, to.floor));
    let allowed =
        if allowed.is_empty() { "no crate of the workspace".to_owned() } else { allowed.join(", ") };
    Some(format!("{} is on floor {}{place}; it may depend on {allowed}", from.name, from.floor))
}

/// Every crate that reaches a forbidden one through crates from elsewhere, by the lock file.
///
/// Only normal and build dependencies are followed: what tests pull in never reaches a user.
pub(crate) fn hidden(house: &[Room], packages: &[Package], lock: &Lock, target: &str) -> Vec<String> {
    let mut hidden = Vec::new();
    for package in packages {
        let Some(from) = room(house, &package.name) else { continue };
        if !from.forbidden.iter().any(|(name, _)| *name == target) {
            continue;
        }
        let starts = package.dependencies.iter().filter(|dependency| {
            dependency.kind.as_deref() != Some("dev")
                && packages.iter().all(|other| other.name != dependency.name)
        });
        for start in starts {
            if start.name != target && lock.reaches(&start.name, target) {
                hidden.push(format!("{} -> {} -> .. -> {target}", package.name, start.name));
            }
        }
    }
    hidden
}

/// Which package names which others, as the lock file says. Versions are merged: that can only find more.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Lock {
    /// Reads the text of a `Cargo.lock`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lock = Self::default();
        let mut name = String::new();
        let mut listing = false;
        for line in text.lines().map(str::trim) {
            if line == "[[package]]" {
                (name, listing) = (String::new(), false);
            } else if let Some(value) = line.strip_prefix("name = ") {
                value.trim_matches('"').clone_into(&mut name);
            } else if line.starts_with("dependencies = [") {
                listing = !line.ends_with(']');
            } else if line == "]" {
                listing = false;
            } else if listing {
                let entry = line.trim_matches(|c| c == '"' || c == ',');
                let to = entry.split(' ').next().unwrap_or(entry);
                lock.edges.entry(name.clone()).or_default().insert(to.to_owned());
            }
        }
        lock
    }

    fn reaches(&self, from: &str, target: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(name) = open.pop() {
            if name == target {
                return true;
            }
            if seen.insert(name) {
                open.extend(self.edges.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::floors::HOUSE;
    use super::*;
    use crate::metadata::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>, &[&str])]) -> Package {
        Package {
            name: name.into(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind, features)| Dependency {
                    name: (*name).into(),
                    kind: kind.map(Into::into),
                    features: features.iter().map(|&feature| feature.into()).collect(),
                })
                .collect(),
            ..Package::default()
        }
    }

    fn all(extra: Package) -> Vec<Package> {
        let mut packages = vec![extra];
        for name in
            ["cuforge-core", "cuforge-slab", "cuforge-sim", "cuforge-launch", "cuforge-oracle", "xtask"]
        {
            if packages[0].name != name {
                packages.push(package(name, &[]));
            }
        }
        packages
    }

    #[test]
    fn downward_arrows_are_allowed() {
        let oracle = package(
            "cuforge-oracle",
            &[("cuforge-core", None, &[]), ("cuforge-sim", None, &[]), ("serde", None, &[])],
        );
        assert_eq!(wrong(HOUSE, &all(oracle)), Vec::<String>::new());
        let xtask = package("xtask", &[("cuforge-oracle", None, &[]), ("cudarc", None, &[])]);
        assert_eq!(wrong(HOUSE, &all(xtask)), Vec::<String>::new());
        let launch = package("cuforge-launch", &[("cuforge-core", None, &[]), ("cudarc", None, &["driver"])]);
        assert_eq!(wrong(HOUSE, &all(launch)), Vec::<String>::new());
    }

    #[test]
    fn a_sideways_arrow_names_both_crates() {
        let wrong = wrong(HOUSE, &all(package("cuforge-sim", &[("cuforge-slab", None, &[])])));
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("cuforge-sim -> cuforge-slab (normal)"), "{}", wrong[0]);
    }

    #[test]
    fn an_upward_arrow_for_tests_alone_is_still_wrong() {
        let wrong = wrong(HOUSE, &all(package("cuforge-core", &[("cuforge-slab", Some("dev"), &[])])));
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("cuforge-core -> cuforge-slab (dev)"), "{}", wrong[0]);
    }

    #[test]
    fn only_the_launcher_may_depend_on_cudarc() {
        for name in ["cuforge-core", "cuforge-slab", "cuforge-sim", "cuforge-oracle"] {
            let wrong = wrong(HOUSE, &all(package(name, &[("cudarc", None, &[])])));
            assert_eq!(wrong.len(), 1, "{name}");
            assert!(wrong[0].contains(name) && wrong[0].contains("cudarc"), "{}", wrong[0]);
        }
    }

    #[test]
    fn the_launcher_may_not_turn_on_nvrtc() {
        let wrong = wrong(HOUSE, &all(package("cuforge-launch", &[("cudarc", None, &["driver", "nvrtc"])])));
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("feature nvrtc"), "{}", wrong[0]);
    }

    #[test]
    fn a_crate_without_a_floor_is_named() {
        let wrong = wrong(HOUSE, &all(package("cuforge-cellar", &[])));
        assert_eq!(wrong, ["cuforge-cellar has no floor: give it one in the floor table"]);
    }

    const LOCK: &str = r#"
[[package]]
name = "helper"
version = "1.0.0"
dependencies = [
 "deeper 2.0.0",
 "other",
]

[[package]]
name = "deeper"
version = "2.0.0"
dependencies = [
 "cudarc",
]

[[package]]
name = "other"
version = "1.0.0"
"#;

    #[test]
    fn a_forbidden_crate_behind_another_is_found() {
        let lock = Lock::parse(LOCK);
        let packages = all(package("cuforge-oracle", &[("helper", None, &[])]));
        assert_eq!(hidden(HOUSE, &packages, &lock, "cudarc"), ["cuforge-oracle -> helper -> .. -> cudarc"]);
        let packages = all(package("cuforge-oracle", &[("other", None, &[]), ("helper", Some("dev"), &[])]));
        assert_eq!(hidden(HOUSE, &packages, &lock, "cudarc"), Vec::<String>::new());
    }
}
