//! A folder of entries, shared by any number of processes without a lock: read, verify, publish by rename.
//!
//! Nothing here is synchronised to the platter: after a power cut an entry may be torn, its digest shows that, and it is
//! compiled anew, which is cheaper than a synchronous write on every miss.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::artifact::{self, Artifact, Unreadable};
use crate::headers::IndexPlace;
use crate::record::Locator;
use crate::store::stats::Counters;
use crate::store::sweep::{self, Swept};

/// Name of the format's own folder below the one that the user names; nothing outside it is touched.
const FORMAT_FOLDER: &str = "cuforge-v1";
/// Larger files are not read: no compilation gives them.
const ENTRY_LIMIT_BYTES: u64 = 1 << 30;
/// An entry used again after this long gets a new time stamp, so that eviction sees the use.
const TOUCH_AFTER: Duration = Duration::from_secs(600);
/// A full sweep is due after this part of the limit was written by this process.
const SWEEP_PART: u64 = 32;

/// Distinguishes the temporary files of one process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// One cache folder.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    limit_bytes: u64,
    locator: Locator,
    counters: Arc<Counters>,
    /// Bytes that may still be written before the next full sweep.
    until_sweep: AtomicU64,
}

impl Disk {
    /// Touches nothing yet: a folder that cannot be used shows at the first use, and only costs.
    pub(crate) fn new(folder: &Path, limit_bytes: u64, locator: Locator, counters: Arc<Counters>) -> Self {
        let until_sweep = AtomicU64::new(limit_bytes / SWEEP_PART);
        Self { root: folder.join(FORMAT_FOLDER), limit_bytes, locator, counters, until_sweep }
    }

    /// The folder that holds the entries.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where notes about compilers are kept.
    pub(crate) fn compiler_notes(folder: &Path) -> PathBuf {
        folder.join(FORMAT_FOLDER).join(sweep::COMPILERS_FOLDER)
    }

    /// Where what is known of header files is kept.
    pub(crate) fn header_index(&self) -> IndexPlace {
        let scratch = self.root.join(sweep::TEMPORARY_FOLDER);
        IndexPlace { file: self.root.join("headers").join("index"), scratch }
    }

    /// The artifact for exactly this key, or nothing: every kind of failure is a miss.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Artifact> {
        let place = self.place(key);
        let entry = match read(&place) {
            Ok(entry) => entry,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.counters.io_error("reading", &place, &error);
                return None;
            }
        };
        match artifact::decode(&entry, key) {
            Ok(artifact) => Some(artifact),
            Err(Unreadable::OtherKey) => {
                Counters::one(&self.counters.collisions);
                None
            }
            Err(Unreadable::Corrupt) => {
                self.quarantine(&place);
                None
            }
        }
    }

    /// Publishes an entry. A failure is counted and costs nothing else.
    pub(crate) fn put(&self, key: &[u8], artifact: &Artifact) {
        let entry = artifact::encode(key, artifact);
        self.put_entry(key, &entry);
    }

    /// Publishes an encoded entry of this key.
    pub(crate) fn put_entry(&self, key: &[u8], entry: &[u8]) -> bool {
        let len = u64::try_from(entry.len()).unwrap_or(u64::MAX);
        if len > self.limit_bytes || len > ENTRY_LIMIT_BYTES {
            return false;
        }
        let place = self.place(key);
        if let Err(error) = self.publish(&place, entry) {
            self.counters.io_error("publishing", &place, &error);
            return false;
        }
        Counters::one(&self.counters.published);
        Counters::add(&self.counters.published_bytes, len);
        tracing::debug!(place = %place.display(), bytes = len, "entry published");
        self.sweep_if_due(&place, len);
        true
    }

    /// Evicts down to the limit, removes what dead writers left and all that was set aside.
    pub(crate) fn gc(&self) -> Swept {
        let swept = sweep::run(&self.root, self.limit_bytes, &self.counters);
        self.until_sweep.store(self.next_sweep(swept.kept_bytes), Ordering::Relaxed);
        swept
    }

    /// Removes every entry, and what is known of header files.
    pub(crate) fn clear(&self) -> Swept {
        // There may be none, and one that stays costs nothing.
        let _ = fs::remove_file(self.header_index().file);
        sweep::run(&self.root, 0, &self.counters)
    }

    /// Calls `visit` with every sound entry, its key and its encoded form.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        for (path, _) in sweep::entries(&self.root) {
            let Ok(entry) = read(&path) else { continue };
            if let Some((key, _)) = artifact::decode_any(&entry) {
                visit(key, &entry);
            }
        }
    }

    /// Where the entry of a key lies.
    pub(crate) fn place(&self, key: &[u8]) -> PathBuf {
        let name = (self.locator)(key).to_string();
        let (shard, rest) = name.split_at(2);
        self.root.join(shard).join(format!("{rest}{}", sweep::ENTRY_SUFFIX))
    }

    fn publish(&self, place: &Path, entry: &[u8]) -> io::Result<()> {
        let (temporary, mut file) = match self.temporary() {
            Ok(made) => made,
            // The usual reason is that the folder is new (or was just removed under us).
            Err(_) => {
                fs::create_dir_all(self.root.join(sweep::TEMPORARY_FOLDER))?;
                self.temporary()?
            }
        };
        let written = file.write_all(entry).and_then(|()| rename(&temporary, place));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// A new file that no sweep takes for a dead writer's: it is locked before anything is in it.
    fn temporary(&self) -> io::Result<(PathBuf, File)> {
        let folder = self.root.join(sweep::TEMPORARY_FOLDER);
        let mut last = io::Error::other("temporary file removed again and again");
        for _ in 0..8 {
            let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}-{}", std::process::id(), nanos_now()));
            let file = match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A file system without locks falls back to the age of temporaries.
            let _ = file.try_lock();
            // A sweep may have come between the creation and the lock; then the name is gone.
            if path.exists() {
                return Ok((path, file));
            }
        }
        Err(last)
    }

    /// Sets a damaged file aside, so that it is neither read again nor lost for a look.
    fn quarantine(&self, place: &Path) {
        Counters::one(&self.counters.quarantined);
        tracing::warn!(place = %place.display(), "cache entry is damaged: set aside, compiled anew");
        let folder = self.root.join(sweep::QUARANTINE_FOLDER);
        let name = place.file_name().unwrap_or_default();
        let aside = fs::create_dir_all(&folder).and_then(|()| fs::rename(place, folder.join(name)));
        if let Err(error) = aside
            && error.kind() != io::ErrorKind::NotFound
        {
            self.counters.io_error("setting aside", place, &error);
        }
    }

    /// Full sweeps are rare: after a part of the limit was written here, or when this entry's shard alone suggests that
    /// the folder (1 of 256 shards) is over its limit, as it is when many short-lived processes each write little.
    fn sweep_if_due(&self, place: &Path, written: u64) {
        let left = self.until_sweep.load(Ordering::Relaxed);
        let now_left = left.saturating_sub(written);
        self.until_sweep.store(now_left, Ordering::Relaxed);
        let shard = place.parent().map_or(0, sweep::shard_bytes);
        let suggests_full = shard.saturating_mul(256) > self.limit_bytes && now_left < self.limit_bytes / 64;
        if now_left == 0 || suggests_full {
            self.gc();
        }
    }

    /// How much may be written after a sweep that kept so much.
    fn next_sweep(&self, kept_bytes: u64) -> u64 {
        let room = self.limit_bytes.saturating_sub(kept_bytes);
        (room / 2).max(self.limit_bytes / SWEEP_PART).max(1)
    }
}

/// Reads a whole entry and marks its use.
fn read(place: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(place)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if meta.len() > ENTRY_LIMIT_BYTES {
        return Err(io::Error::other("larger than any entry"));
    }
    let mut entry = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
    (&file).take(ENTRY_LIMIT_BYTES).read_to_end(&mut entry)?;
    let now = SystemTime::now();
    // A stamp from the future (a clock that jumped) is set right too.
    let old = meta.modified().is_ok_and(|at| now.duration_since(at).map_or(true, |age| age > TOUCH_AFTER));
    if old {
        // Failing to mark a use only makes eviction less exact.
        let _ = file.set_modified(now);
    }
    Ok(entry)
}

/// Renames into a shard folder that may have to be made first.
fn rename(temporary: &Path, place: &Path) -> io::Result<()> {
    match fs::rename(temporary, place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(shard) = place.parent() {
                fs::create_dir_all(shard)?;
            }
            fs::rename(temporary, place)
        }
        other => other,
    }
}

fn nanos_now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_nanos())
}
