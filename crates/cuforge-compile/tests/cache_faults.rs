//! What the cache promises when things go wrong: a recompilation and one warning, never an error, never a wrong image.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cuforge_compile::CacheOptions;
use fake::{Fake, Folder, compiler, compiler_of, count, request, warnings_of};

fn no_memory(folder: &Path) -> CacheOptions {
    CacheOptions::in_folder(folder).with_memory_bytes(0)
}

/// Asks twice with new compilers: the answer is right, and after `damage` exactly one compilation was needed.
fn costs_one_compilation(folder: &Folder, what: &str) {
    for expected in [1, 0] {
        let (compiler, runs) = compiler(no_memory(folder.path()));
        let image = compiler.image(&request("int a;")).unwrap();
        assert_eq!(image.ptx.as_deref(), Some(fake::ptx("int a;").as_str()), "{what}");
        assert_eq!(count(&runs), expected, "{what}");
    }
}

#[test]
fn truncation_at_every_length_costs_a_compilation() {
    let folder = Folder::new("truncate");
    let (compiler, _) = compiler(no_memory(folder.path()));
    compiler.image(&request("int a;")).unwrap();
    let entry = folder.entries()[0].clone();
    let whole = fs::read(&entry).unwrap();
    for len in 0..whole.len() {
        fs::write(&entry, &whole[..len]).unwrap();
        costs_one_compilation(&folder, &format!("cut to {len}"));
    }
}

#[test]
fn a_flip_of_every_byte_costs_a_compilation() {
    let folder = Folder::new("flip");
    let (compiler, _) = compiler(no_memory(folder.path()));
    compiler.image(&request("int a;")).unwrap();
    let entry = folder.entries()[0].clone();
    let whole = fs::read(&entry).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&entry, &changed).unwrap();
        costs_one_compilation(&folder, &format!("byte {at}"));
    }
    let damaged = folder.files("/damaged/").len();
    assert_eq!(damaged, 1, "damaged entries are set aside under their name, once");
    assert_eq!(compiler.gc().damaged, 1);
    assert!(folder.files("/damaged/").is_empty());
}

#[test]
fn another_entry_in_the_wrong_place_is_not_served() {
    let folder = Folder::new("swapped");
    let (compiler, _) = compiler(no_memory(folder.path()));
    compiler.image(&request("int b;")).unwrap();
    let foreign = fs::read(&folder.entries()[0]).unwrap();
    compiler.clear();
    compiler.image(&request("int a;")).unwrap();
    fs::write(&folder.entries()[0], foreign).unwrap();
    costs_one_compilation(&folder, "an entry of another key");
}

#[test]
fn garbage_and_foreign_things_in_the_folder_cost_at_most_a_compilation() {
    let folder = Folder::new("garbage");
    let (compiler, _) = compiler(no_memory(folder.path()));
    compiler.image(&request("int a;")).unwrap();
    let entry = folder.entries()[0].clone();
    let root = compiler.cache_folder().unwrap().to_path_buf();
    fs::write(&entry, vec![0; 1 << 20]).unwrap();
    costs_one_compilation(&folder, "zeros");
    fs::write(&entry, b"").unwrap();
    costs_one_compilation(&folder, "empty");
    fs::write(root.join("README"), "hello").unwrap();
    fs::create_dir_all(root.join("zz/inner")).unwrap();
    fs::write(root.join("zz/not an entry"), "hello").unwrap();
    compiler.gc();
    assert!(root.join("README").exists() && root.join("zz/not an entry").exists());
    fs::remove_file(&entry).unwrap();
    costs_one_compilation(&folder, "removed");
    fs::remove_dir_all(&root).unwrap();
    costs_one_compilation(&folder, "the whole folder removed");
}

#[test]
fn clock_jumps_cost_nothing() {
    let folder = Folder::new("clock");
    let (compiler, runs) = compiler(no_memory(folder.path()));
    compiler.image(&request("int a;")).unwrap();
    let year = Duration::from_secs(365 * 24 * 3600);
    for stamp in [SystemTime::UNIX_EPOCH, SystemTime::now() + 20 * year] {
        let file = fs::File::options().write(true).open(&folder.entries()[0]).unwrap();
        file.set_modified(stamp).unwrap();
        compiler.image(&request("int a;")).unwrap();
        assert_eq!(count(&runs), 1);
        let age = folder.entries()[0].metadata().unwrap().modified().unwrap().elapsed();
        assert!(age.is_ok_and(|age| age < year), "the stamp was not set right");
    }
}

/// A folder that cannot be used: every request is compiled, none fails, and there is one warning.
fn is_useless(folder: &Path, what: &str) {
    let mut compiled = 0;
    let warned = warnings_of(|| {
        let mut fake = Fake::new("0");
        fake.cubin_bytes = 100_000;
        let (compiler, runs) = compiler_of(fake, no_memory(folder));
        for kernel in 0..3 {
            for _ in 0..2 {
                compiler.image(&request(&format!("int k{kernel};"))).unwrap();
            }
        }
        compiler.gc();
        compiler.clear();
        compiled = count(&runs);
        assert!(compiler.stats().io_errors > 1, "{what}: {}", compiler.stats());
    });
    assert_eq!((compiled, warned), (6, 1), "{what}");
}

#[test]
fn a_folder_that_cannot_be_used_costs_compilations_and_one_warning() {
    let folder = Folder::new("useless");
    let file = folder.path().join("a file");
    fs::write(&file, "").unwrap();
    is_useless(&file, "the folder is a file");
    is_useless(&file.join("below"), "the folder lies below a file");
    is_useless(Path::new("/proc/cuforge"), "the folder cannot be made");
}

#[cfg(unix)]
#[test]
fn a_folder_on_which_a_rename_fails_costs_compilations_and_one_warning() {
    let folder = Folder::new("renames");
    let (compiler, _) = compiler(no_memory(folder.path()));
    let root = compiler.cache_folder().unwrap().to_path_buf();
    fs::create_dir_all(&root).unwrap();
    // Every shard is a file, so nothing can be renamed into one.
    for shard in 0..256 {
        fs::write(root.join(format!("{shard:02x}")), "").unwrap();
    }
    is_useless(folder.path(), "every shard is a file");
    assert!(folder.files("/writing/").is_empty(), "a failed publication leaves no temporary");
}

/// Set for the process that has no room: its folder.
#[cfg(unix)]
const FULL: &str = "CUFORGE_TEST_FULL_FOLDER";

/// A limit on the size of files stands in for a full disk: a write ends in the middle with an error.
#[cfg(unix)]
#[test]
fn a_disk_without_room_costs_compilations_and_one_warning() {
    if let Some(folder) = std::env::var_os(FULL) {
        is_useless(Path::new(&folder), "no room");
        return;
    }
    let folder = Folder::new("full");
    let name = "a_disk_without_room_costs_compilations_and_one_warning";
    let run = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(FULL, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
    assert!(folder.path().join("cuforge-v1/writing").is_dir(), "nothing was ever written");
    assert!(folder.files("/writing/").is_empty(), "a failed publication leaves no temporary");
}

#[test]
fn an_entry_larger_than_the_bound_is_served_and_not_kept() {
    let folder = Folder::new("large");
    let mut fake = Fake::new("0");
    fake.cubin_bytes = 50_000;
    let (compiler, runs) = compiler_of(fake, no_memory(folder.path()).with_disk_bytes(10_000));
    for _ in 0..2 {
        compiler.image(&request("int a;")).unwrap();
    }
    assert_eq!((count(&runs), folder.entries().len()), (2, 0));
}

#[cfg(unix)]
#[test]
fn a_folder_with_a_name_beyond_ascii_or_utf_8_works() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("names");
    for name in ["ünï-日本".as_bytes(), b"not \xff utf-8"] {
        let inner = folder.path().join(std::ffi::OsStr::from_bytes(name));
        for expected in [1, 0] {
            let (compiler, runs) = compiler(no_memory(&inner));
            compiler.image(&request("int a;")).unwrap();
            assert_eq!(count(&runs), expected);
        }
    }
}
