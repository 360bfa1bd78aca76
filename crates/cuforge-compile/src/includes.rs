//! Which header folders belong to an NVRTC library, for each layout that toolkits, distributions and wheels use.

use std::path::{Path, PathBuf};

/// A header that every layout has in its main folder; it tells a header folder from any other `include`.
const WITNESS: &str = "cuda_fp16.h";

/// The header folders for the library in `folder`, in the order they are to be passed.
///
/// The main folder comes first, then those that hold `crt/` and the C++ core libraries where these are apart:
/// `include/cccl` since CUDA 13, separate wheels in CUDA 12.
pub(crate) fn belonging_to(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in folder.ancestors().take(4) {
        let mains = [
            root.join("include"),
            root.join("targets/x86_64-linux/include"),
            root.join("targets/sbsa-linux/include"),
            root.join("cuda_runtime/include"),
        ];
        if let Some(main) = mains.into_iter().find(|main| main.join(WITNESS).is_file()) {
            let apart = [
                main.join("cccl"),
                root.join("cuda_nvcc/include"),
                root.join("cuda_crt/include"),
                root.join("cuda_cccl/include"),
            ];
            found.push(main);
            found.extend(apart.into_iter().filter(|dir| dir.is_dir()));
            return found;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(name: &str, files: &[&str]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("cuforge-includes-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn the_split_wheels_of_cuda_12_give_three_folders() {
        let files = [
            "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "nvidia/cuda_runtime/include/cuda_fp16.h",
            "nvidia/cuda_nvcc/include/crt/mma.h",
            "nvidia/cuda_cccl/include/cuda/std/array",
        ];
        let root = tree("wheels12", &files);
        let got = belonging_to(&root.join("nvidia/cuda_nvrtc/lib"));
        let want =
            ["cuda_runtime", "cuda_nvcc", "cuda_cccl"].map(|c| root.join("nvidia").join(c).join("include"));
        assert_eq!(got, want);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_core_libraries_of_cuda_13_are_found_in_their_own_folder() {
        let files = ["cu13/lib/libnvrtc.so.13", "cu13/include/cuda_fp16.h", "cu13/include/cccl/cuda/barrier"];
        let root = tree("cccl13", &files);
        let got = belonging_to(&root.join("cu13/lib"));
        assert_eq!(got, [root.join("cu13/include"), root.join("cu13/include/cccl")]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_toolkit_with_targets_is_found_from_its_library_folder() {
        let files =
            ["cuda/targets/x86_64-linux/include/cuda_fp16.h", "cuda/targets/x86_64-linux/lib/libnvrtc.so.12"];
        let root = tree("targets", &files);
        let got = belonging_to(&root.join("cuda/targets/x86_64-linux/lib"));
        assert_eq!(got, [root.join("cuda/targets/x86_64-linux/include")]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_folder_without_headers_gives_none() {
        let root = tree("none", &["lib/libnvrtc.so.12", "include/stdio.h"]);
        assert!(belonging_to(&root.join("lib")).is_empty());
        fs::remove_dir_all(root).unwrap();
    }
}
