//! Warm starts: what a cache folder holds is answered without loading NVRTC, and nothing is answered for another NVRTC.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;
mod toolchains;

use cuforge_compile::{CacheOptions, Compiler, SearchPaths};
use cuforge_core::CompileRequest;
use fake::Folder;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolchains::{candidate, root, target};

const SOURCE: &str = "extern \"C\" __global__ void one(float *x) { *x = 1.0f; }";

/// What a process of its own said, run with a cache folder and an NVRTC; see [`in_a_process`].
#[derive(Debug, PartialEq, Eq)]
struct Said {
    digest: String,
    compiler: String,
    loaded: bool,
}

const CACHE: &str = "CUFORGE_TEST_WARM_CACHE";
const NVRTC: &str = "CUFORGE_TEST_WARM_NVRTC";
const TEXT: &str = "CUFORGE_TEST_WARM_TEXT";

/// Compiles `source` with the NVRTC below `nvrtc`, in a new process: digest of the image, compiler, and whether NVRTC (or
/// its builtins, or nvJitLink) was loaded.
fn start(cache: &Path, nvrtc: &Path, source: &str) -> Said {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process", "--include-ignored", "--nocapture"])
        .env(CACHE, cache)
        .env(NVRTC, nvrtc)
        .env(TEXT, source)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let line = text.lines().find_map(|line| line.split_once("said ")).expect("the process says something").1;
    let mut parts = line.split('|');
    let mut part = || parts.next().unwrap().to_owned();
    Said { digest: part(), compiler: part(), loaded: part() == "true" }
}

/// What [`start`] runs.
#[test]
#[ignore = "needs NVRTC"]
fn in_a_process() {
    let Some(cache) = std::env::var_os(CACHE) else {
        let folder = Folder::new("warm-alone");
        assert!(start(folder.path(), &root("12.9.86"), SOURCE).loaded);
        return;
    };
    let paths = SearchPaths::only([PathBuf::from(std::env::var_os(NVRTC).unwrap())]);
    let compiler = Compiler::find_with(&paths, CacheOptions::in_folder(cache)).unwrap();
    let source = std::env::var(TEXT).unwrap();
    let image = compiler.image(&CompileRequest::cuda_c("one.cu", source, target(90))).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let loaded = maps.contains("nvrtc") || maps.contains("nvJitLink");
    println!("said {}|{}|{loaded}", image.digest, compiler.engine().identity());
}

/// A folder with the NVRTC of a release and nothing else, as files that a test may replace.
fn installed(name: &str, version: &str) -> Folder {
    let folder = Folder::new(name);
    install(&folder, version);
    folder
}

fn install(folder: &Folder, version: &str) {
    let found = candidate(version);
    std::fs::copy(&found.library, folder.path().join("libnvrtc.so.12")).unwrap();
    let builtins = found.builtins.unwrap();
    let minor = if version.starts_with("12.4") { "12.4" } else { "12.9" };
    std::fs::copy(builtins, folder.path().join(format!("libnvrtc-builtins.so.{minor}"))).unwrap();
}

#[test]
#[ignore = "needs NVRTC"]
fn what_the_folder_holds_is_answered_without_loading_nvrtc() {
    for version in ["12.4.127", "12.9.86", "13.0.88", "13.5.37"] {
        let folder = Folder::new(&format!("warm-{version}"));
        let cold = start(folder.path(), &root(version), SOURCE);
        let warm = start(folder.path(), &root(version), SOURCE);
        assert!(cold.loaded && !warm.loaded, "{version}: {cold:?} {warm:?}");
        assert_eq!((&cold.digest, &cold.compiler), (&warm.digest, &warm.compiler), "{version}");
        // What it does not hold is compiled by the same NVRTC, loaded then.
        let other = start(folder.path(), &root(version), &SOURCE.replace("1.0f", "2.0f"));
        assert!(other.loaded && other.compiler == cold.compiler && other.digest != cold.digest, "{other:?}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn another_nvrtc_in_the_same_place_is_another_compiler() {
    let (cache, place) = (Folder::new("warm-replaced"), installed("warm-replaced-nvrtc", "12.4.127"));
    let first = start(cache.path(), place.path(), SOURCE);
    assert!(!start(cache.path(), place.path(), SOURCE).loaded);
    for file in place.files("libnvrtc") {
        std::fs::remove_file(file).unwrap();
    }
    install(&place, "12.9.86");
    let second = start(cache.path(), place.path(), SOURCE);
    assert!(second.loaded && second.compiler.contains("12.9"), "{second:?}");
    let fresh = Folder::new("warm-replaced-fresh");
    assert_eq!(second.digest, start(fresh.path(), place.path(), SOURCE).digest);
    assert_ne!(second.compiler, first.compiler);
}

#[test]
#[ignore = "needs NVRTC"]
fn a_damaged_note_costs_a_load_and_nothing_else() {
    let folder = Folder::new("warm-damaged");
    let cold = start(folder.path(), &root("12.9.86"), SOURCE);
    let note = folder.files("/compilers/").remove(0);
    let whole = std::fs::read(&note).unwrap();
    let places = [0, 8, whole.len() / 3, whole.len() / 2, whole.len() - 33, whole.len() - 1];
    for at in places {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&note, bytes).unwrap();
        assert_eq!(start(folder.path(), &root("12.9.86"), SOURCE), cold, "byte {at}");
        assert_eq!(std::fs::read(&note).unwrap(), whole, "byte {at}: the note was not made anew");
    }
    for len in [0, 31, 32, whole.len() - 1] {
        std::fs::write(&note, &whole[..len]).unwrap();
        assert_eq!(start(folder.path(), &root("12.9.86"), SOURCE), cold, "{len} bytes");
    }
    assert!(!start(folder.path(), &root("12.9.86"), SOURCE).loaded);
}

#[test]
#[ignore = "needs NVRTC"]
fn a_known_nvrtc_that_cannot_be_loaded_any_more_is_replaced_by_a_new_search() {
    let cache = Folder::new("warm-gone");
    let fallback = Folder::new("warm-gone-both");
    let behind = fallback.path().join("lib");
    // Two libraries of one root: the first is known, and then it cannot be loaded though its build id is as it was.
    std::fs::create_dir_all(&behind).unwrap();
    install(&fallback, "12.9.86");
    let found = candidate("12.4.127");
    std::fs::copy(&found.library, behind.join("libnvrtc.so.12")).unwrap();
    std::fs::copy(found.builtins.unwrap(), behind.join("libnvrtc-builtins.so.12.4")).unwrap();
    assert!(start(cache.path(), fallback.path(), SOURCE).compiler.contains("12.9"));
    let library = fallback.path().join("libnvrtc.so.12");
    let mut bytes = std::fs::read(&library).unwrap();
    // Of another machine (`e_machine`), with the build id that it had.
    bytes[18] ^= 1;
    std::fs::write(&library, bytes).unwrap();
    let known = start(cache.path(), fallback.path(), SOURCE);
    assert!(!known.loaded && known.compiler.contains("12.9"), "{known:?}");
    // A source that is not there compiles all the same, by the other one.
    let other = SOURCE.replace("1.0f", "3.0f");
    let compiled = start(cache.path(), fallback.path(), &other);
    assert!(compiled.loaded, "{compiled:?}");
    let by_other = start(Folder::new("warm-gone-fresh").path(), &behind, &other);
    assert_eq!(compiled.digest, by_other.digest);
    // The next process knows that the first one is no use.
    assert!(start(cache.path(), fallback.path(), SOURCE).compiler.contains("12.4"));
}
