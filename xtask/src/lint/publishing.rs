//! What a crate must bring before it can be published: the registry's card, a README, its licences, how docs.rs builds it.

use std::path::Path;

use crate::metadata::Package;

/// A registry takes no more of either.
const KEYWORDS: usize = 5;

/// The texts of what `MIT OR Apache-2.0` names: who gets the crate alone must get them with it.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Every finding in the manifests of `packages`; `toolchain` is the text of `rust-toolchain.toml`, and `exists` tells
/// whether a file beside a manifest is there.
pub(crate) fn findings(packages: &[Package], toolchain: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.is_published()) {
        let mut missing = |what: &str| findings.push(format!("{}: its manifest has no {what}", package.name));
        let card = &package.card;
        for (what, there) in [
            ("description", card.description.is_some()),
            ("license", card.license.is_some()),
            ("repository", card.repository.is_some()),
            ("rust-version", card.rust_version.is_some()),
            ("keywords", !card.keywords.is_empty()),
            ("categories", !card.categories.is_empty()),
            ("readme", card.readme.is_some()),
            // Without a list docs.rs builds for five platforms; CUDA is on one of them.
            ("[package.metadata.docs.rs] targets", card.metadata["docs"]["rs"]["targets"].is_array()),
        ] {
            if !there {
                missing(what);
            }
        }
        let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
        if let Some(readme) = &card.readme
            && !exists(&folder.join(readme))
        {
            findings.push(format!("{}: there is no {}", package.name, readme.display()));
        }
        for licence in LICENCES.iter().filter(|name| !exists(&folder.join(name))) {
            findings.push(format!("{}: there is no {licence}", package.name));
        }
        if card.keywords.len() > KEYWORDS || card.categories.len() > KEYWORDS {
            findings.push(format!("{}: more than {KEYWORDS} keywords or categories", package.name));
        }
        // The oldest compiler that is promised is the one that everything is built with, so the promise is tested.
        if let Some(version) = &card.rust_version
            && !toolchain.contains(&format!("\"{version}."))
            && !toolchain.contains(&format!("\"{version}\""))
        {
            findings.push(format!("{}: rust-version {version} is not the pinned toolchain", package.name));
        }
    }
    findings
}

/// Features of `packages` that `page`, the reference of features, has no row for: a row names the crate and the feature, both
/// in backticks.
pub(crate) fn features_without_a_row(packages: &[Package], page: &str) -> Vec<String> {
    let has = |row: &str, name: &str| row.contains(&format!("`{name}`"));
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.is_published()) {
        for feature in package.features.keys().filter(|feature| *feature != "default") {
            let mut rows = page.lines().filter(|line| line.starts_with('|'));
            if !rows.any(|row| has(row, &package.name) && has(row, feature)) {
                findings.push(format!("{}: feature {feature} has no row in the reference", package.name));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(fields: &str) -> Package {
        let text =
            format!(r#"{{"name": "x", "dependencies": [], "manifest_path": "/w/x/Cargo.toml"{fields}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    const WHOLE: &str = r#", "description": "d", "license": "MIT", "repository": "r", "rust_version": "1.95",
        "keywords": ["cuda"], "categories": ["science"], "readme": "README.md",
        "metadata": {"docs": {"rs": {"targets": ["x86_64-unknown-linux-gnu"]}}}"#;

    fn found(fields: &str) -> Vec<String> {
        let there = |path: &Path| {
            ["README.md", "LICENSE-MIT", "LICENSE-APACHE"]
                .iter()
                .any(|name| path == Path::new("/w/x").join(name))
        };
        findings(&[package(fields)], "channel = \"1.95.0\"", &there)
    }

    #[test]
    fn a_whole_card_is_fine_and_each_missing_part_is_named() {
        assert_eq!(found(WHOLE), Vec::<String>::new());
        assert_eq!(found("").len(), 8);
        let other = found(&WHOLE.replace("README.md", "OTHER.md"));
        assert_eq!(other, ["x: there is no OTHER.md"]);
        let bare = findings(&[package(WHOLE)], "channel = \"1.95.0\"", &|path| path.ends_with("README.md"));
        assert_eq!(bare, ["x: there is no LICENSE-MIT", "x: there is no LICENSE-APACHE"]);
    }

    #[test]
    fn the_promised_compiler_is_the_one_that_is_used() {
        assert_eq!(
            found(&WHOLE.replace("1.95", "1.80")),
            ["x: rust-version 1.80 is not the pinned toolchain"]
        );
    }

    #[test]
    fn every_feature_has_a_row_in_the_reference_with_its_crate() {
        let packages = [package(r#", "features": {"default": [], "nvtx": [], "wide": []}"#)];
        let found = |page: &str| features_without_a_row(&packages, page);
        assert_eq!(found("| `x`, `y` | `nvtx` | |\n| `x` | `wide` | |"), Vec::<String>::new());
        assert_eq!(found("| `y` | `nvtx` | |\n`x` and `wide`").len(), 2);
    }

    #[test]
    fn what_is_never_published_needs_no_card() {
        assert_eq!(found(r#", "publish": []"#), Vec::<String>::new());
    }
}
