//! Whether this machine has a Vulkan driver, hardware or software (Mesa's lavapipe), as the Vulkan loader would find it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variables that name driver manifests; they replace the usual folders.
const VARIABLES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// Where the manifests of drivers lie otherwise.
const FOLDERS: [&str; 3] = ["/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"];

/// The first driver manifest; `None` if no driver is installed.
pub(super) fn driver() -> Option<PathBuf> {
    found(VARIABLES.into_iter().find_map(env::var_os), &FOLDERS.map(Path::new))
}

fn found(named: Option<OsString>, folders: &[&Path]) -> Option<PathBuf> {
    if let Some(named) = named {
        return env::split_paths(&named).find(|path| path.exists());
    }
    let manifests = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let files = manifests.flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|name| name == "json")).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_manifest_is_a_driver_and_a_variable_goes_before_the_folders() {
        let folder = env::temp_dir().join(format!("cuforge-vulkan-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let here = folder.as_path();
        assert_eq!(found(None, &[here, &here.join("none")]), None);
        fs::write(here.join("notes.txt"), "").unwrap();
        assert_eq!(found(None, &[here]), None);
        let manifest = here.join("lvp_icd.x86_64.json");
        fs::write(&manifest, "{}").unwrap();
        assert_eq!(found(None, &[here]), Some(manifest.clone()));
        let gone = here.join("gone.json");
        assert_eq!(found(Some(gone.clone().into_os_string()), &[here]), None);
        let both = env::join_paths([gone, manifest.clone()]).unwrap();
        assert_eq!(found(Some(both), &[]), Some(manifest));
        fs::remove_dir_all(folder).unwrap();
    }
}
