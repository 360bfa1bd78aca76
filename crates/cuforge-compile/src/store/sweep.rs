//! Keeping a cache folder within its bounds: least recently used entries, temporaries of dead writers, quarantine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::store::stats::Counters;

/// Suffix of every entry.
pub(crate) const ENTRY_SUFFIX: &str = ".entry";
/// Folder of files that are being written.
pub(crate) const TEMPORARY_FOLDER: &str = "writing";
/// Folder of damaged entries.
pub(crate) const QUARANTINE_FOLDER: &str = "damaged";
/// Folder of notes about rejected images.
pub(crate) const REJECTS_FOLDER: &str = "rejected";
/// Folder of notes about compilers.
pub(crate) const COMPILERS_FOLDER: &str = "compilers";
/// Where locks do not work, a temporary of this age has no writer any more.
const DEAD_AFTER: Duration = Duration::from_secs(3600);
/// Notes are forgotten this long after they were made.
const NOTE_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// What a sweep of a cache folder removed and kept.
///
/// ```
/// let swept = cuforge_compile::Swept::default();
/// assert_eq!(swept.to_string(), "kept 0 entries of 0 bytes; removed 0 entries, 0 temporaries, 0 damaged");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Entries left.
    pub kept_entries: u64,
    /// Their size in bytes.
    pub kept_bytes: u64,
    /// Entries removed, least recently used first.
    pub evicted: u64,
    /// Temporary files of dead writers removed.
    pub temporaries: u64,
    /// Damaged entries removed from where they were set aside.
    pub damaged: u64,
}

impl std::fmt::Display for Swept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "kept {} entries of {} bytes; removed {} entries, {} temporaries, {} damaged",
            self.kept_entries, self.kept_bytes, self.evicted, self.temporaries, self.damaged
        )
    }
}

/// One file as a sweep sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    bytes: u64,
    used: SystemTime,
}

/// Sweeps the folder down to `limit_bytes`. Other processes may sweep, read and publish at the same time: a file that
/// is gone already is no failure, and a reader that holds an evicted entry reads it to its end.
pub(crate) fn run(root: &Path, limit_bytes: u64, counters: &Counters) -> Swept {
    let mut swept = Swept {
        temporaries: sweep_temporaries(&root.join(TEMPORARY_FOLDER)),
        damaged: remove_all(&root.join(QUARANTINE_FOLDER)),
        ..Swept::default()
    };
    Counters::add(&counters.swept, swept.temporaries);
    forget_old(&root.join(REJECTS_FOLDER), limit_bytes == 0);
    forget_old(&root.join(COMPILERS_FOLDER), limit_bytes == 0);

    let mut all = entries(root);
    let mut total: u64 = all.iter().map(|(_, seen)| seen.bytes).sum();
    if total > limit_bytes {
        all.sort_by_key(|(_, seen)| seen.used);
        // Some room below the limit, so that the next entry does not sweep again.
        let goal = limit_bytes - limit_bytes / 8;
        for (path, seen) in &all {
            if total <= goal {
                break;
            }
            if remove(path, counters) {
                total -= seen.bytes;
                swept.evicted += 1;
            }
        }
        Counters::add(&counters.evicted, swept.evicted);
    }
    swept.kept_bytes = total;
    swept.kept_entries = u64::try_from(all.len()).unwrap_or(0).saturating_sub(swept.evicted);
    tracing::debug!(evicted = swept.evicted, %swept, root = %root.display(), "cache folder swept");
    swept
}

/// Every entry of a folder.
pub(crate) fn entries(root: &Path) -> Vec<(PathBuf, Seen)> {
    let Ok(shards) = fs::read_dir(root) else { return Vec::new() };
    let shards = shards.flatten().filter(|shard| shard.file_name().len() == 2);
    shards.flat_map(|shard| files(&shard.path())).filter(|(path, _)| is_entry(path)).collect()
}

/// Bytes in one shard.
pub(crate) fn shard_bytes(shard: &Path) -> u64 {
    files(shard).iter().map(|(_, seen)| seen.bytes).sum()
}

fn is_entry(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENTRY_SUFFIX))
}

fn files(folder: &Path) -> Vec<(PathBuf, Seen)> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    let seen = |entry: fs::DirEntry| {
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        // An unknown time counts as the oldest.
        let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some((entry.path(), Seen { bytes: meta.len(), used }))
    };
    listing.flatten().filter_map(seen).collect()
}

/// Whether the file is gone now because of this call.
fn remove(path: &Path, counters: &Counters) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        // Another sweep was faster; its bytes are gone all the same.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => {
            counters.io_error("evicting", path, &error);
            false
        }
    }
}

/// A living writer holds a lock on its temporary file, so one that can be locked has no writer.
fn sweep_temporaries(folder: &Path) -> u64 {
    let mut removed = 0;
    for (path, seen) in files(folder) {
        let dead = match File::open(&path).map(|file| file.try_lock()) {
            Ok(Ok(())) => true,
            Ok(Err(fs::TryLockError::WouldBlock)) => false,
            // No locks here, or not for us.
            Ok(Err(fs::TryLockError::Error(_))) | Err(_) => {
                seen.used.elapsed().is_ok_and(|age| age > DEAD_AFTER)
            }
        };
        if dead && fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    removed
}

fn remove_all(folder: &Path) -> u64 {
    let removed = files(folder).iter().filter(|(path, _)| fs::remove_file(path).is_ok()).count();
    u64::try_from(removed).unwrap_or(0)
}

fn forget_old(folder: &Path, all: bool) {
    for (path, seen) in files(folder) {
        if all || seen.used.elapsed().is_ok_and(|age| age > NOTE_KEPT) {
            let _ = fs::remove_file(path);
        }
    }
}
