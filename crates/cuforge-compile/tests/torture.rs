//! Eight processes hammer one folder while they are killed at random moments: no wrong artifact, no error, no leftover.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cuforge_compile::{CacheOptions, Compiler};
use fake::{Fake, Folder, compiler_of, request};

/// Set for a process that plays the hammer: the folder to hammer and the seed.
const FOLDER: &str = "CUFORGE_TEST_TORTURE_FOLDER";
const SEED: &str = "CUFORGE_TEST_TORTURE_SEED";
const ROUNDS: &str = "CUFORGE_TEST_TORTURE_ROUNDS";
/// The bound is for a parent that died before it killed.
const ENDLESS: &str = "2000000";
/// Different kernels: few enough that the processes meet at the same entries all the time.
const KERNELS: u64 = 40;
/// Large enough that a kill often falls into a write.
const CUBIN_BYTES: usize = 200_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Small bound, so that evictions happen all the time too.
fn cache(folder: &Path) -> Compiler {
    let options = CacheOptions::in_folder(folder).with_memory_bytes(0).with_disk_bytes(KERNELS * 150_000);
    let mut fake = Fake::new("0");
    fake.cubin_bytes = CUBIN_BYTES;
    compiler_of(fake, options).0
}

/// Asks for a kernel and checks every byte of the answer.
fn check(compiler: &Compiler, kernel: u64) {
    let source = format!("int kernel_{kernel};");
    let image = compiler.image(&request(&source)).expect("the cache made a request fail");
    assert_eq!(image.ptx.as_deref(), Some(fake::ptx(&source).as_str()));
    let fresh = compiler_of(
        {
            let mut fake = Fake::new("0");
            fake.cubin_bytes = CUBIN_BYTES;
            fake
        },
        CacheOptions::none(),
    );
    assert_eq!(image.cubin, fresh.0.image(&request(&source)).unwrap().cubin, "a wrong artifact for {source}");
}

/// A hammer alone, for a few rounds; as a child of the test below it goes on until it is killed.
#[test]
fn a_folder_under_its_own_evictions_gives_right_artifacts_only() {
    let alone = Folder::new("torture-alone");
    let folder = std::env::var_os(FOLDER).map_or_else(|| alone.path().to_path_buf(), Into::into);
    let rounds: u64 = std::env::var(ROUNDS).map_or(5, |rounds| rounds.parse().unwrap());
    let mut random = Random(std::env::var(SEED).map_or(1, |seed| seed.parse().unwrap()));
    for round in 0..rounds {
        let compiler = cache(&folder);
        for _ in 0..20 {
            check(&compiler, random.below(KERNELS));
        }
        if round % 16 == random.below(16) {
            compiler.gc();
        }
    }
}

fn start(folder: &Path, seed: u64, rounds: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_folder_under_its_own_evictions_gives_right_artifacts_only", "--nocapture"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .env(ROUNDS, rounds)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[test]
fn killed_at_random_moments_no_process_sees_a_wrong_artifact_or_an_error() {
    let kills = if std::env::var_os("CUFORGE_LONG").is_some() { 200 } else { 20 };
    let folder = Folder::new("torture");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut hammers: Vec<Child> = (1..=8).map(|seed| start(folder.path(), seed, ENDLESS)).collect();
    let mut temporaries_seen = 0;
    // Beyond the wanted number only until one kill or look has met a write: else the test would show nothing.
    for kill in 0..400 {
        if kill >= kills && temporaries_seen > 0 {
            break;
        }
        std::thread::sleep(Duration::from_micros(20_000 + random.below(150_000)));
        // A hammer that ended by itself has found something wrong, and has said it.
        for hammer in &mut hammers {
            assert_eq!(hammer.try_wait().unwrap(), None, "a process ended by itself");
        }
        let victim = random.below(8) as usize;
        hammers[victim].kill().unwrap();
        hammers[victim].wait().unwrap();
        temporaries_seen += folder.files("/writing/").len();
        hammers[victim] = start(folder.path(), 100 + kill, ENDLESS);
    }
    for hammer in &mut hammers {
        assert_eq!(hammer.try_wait().unwrap(), None, "a process ended by itself");
        hammer.kill().unwrap();
        hammer.wait().unwrap();
    }
    assert!(temporaries_seen > 0, "no kill and no look ever met a write");

    let compiler = cache(folder.path());
    let swept = compiler.gc();
    assert!(folder.files("/writing/").is_empty() && folder.files("/damaged/").is_empty(), "{swept}");
    assert!(swept.kept_bytes <= KERNELS * 150_000, "{swept}");
    for entry in folder.entries() {
        assert!(entry.metadata().unwrap().len() > CUBIN_BYTES as u64, "a torn entry was published");
    }
    for kernel in 0..KERNELS {
        check(&compiler, kernel);
    }
    let stats = compiler.stats();
    assert_eq!((stats.quarantined, stats.io_errors), (0, 0), "{stats}");
}

#[test]
fn sixteen_processes_on_a_cold_folder_all_get_good_artifacts() {
    let folder = Folder::new("torture-cold");
    let mut all: Vec<Child> = (1..=16).map(|seed| start(folder.path(), seed, "3")).collect();
    for process in &mut all {
        assert!(process.wait().unwrap().success());
    }
    let compiler = cache(folder.path());
    (0..KERNELS).for_each(|kernel| check(&compiler, kernel));
    assert_eq!(compiler.stats().quarantined, 0);
}

/// The control: with a publication that is not a rename, the same damage is found, so the checks above can fail.
#[test]
fn half_written_entries_in_place_are_found_and_set_aside() {
    let folder = Folder::new("torture-control");
    let compiler = cache(folder.path());
    (0..KERNELS / 2).for_each(|kernel| check(&compiler, kernel));
    for entry in folder.entries() {
        let whole = std::fs::read(&entry).unwrap();
        std::fs::write(&entry, &whole[..whole.len() / 2]).unwrap();
    }
    (0..KERNELS / 2).for_each(|kernel| check(&compiler, kernel));
    assert!(compiler.stats().quarantined > 0);
}
