//! What is known of one header file, and what tells that it has changed.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::scan::{self, Include, Scan};
use crate::bytes::{Reader, Writer};

/// A file that was changed this shortly before it was read may be changed again within one tick of the file system's
/// clock, so that its stamp stays the same: its stamp alone is not believed.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// One header file as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) stamp: Stamp,
    /// Whether an equal stamp means equal content.
    pub(super) settled: bool,
    pub(super) digest: [u8; 32],
    pub(super) scan: Scan,
}

/// What tells a changed file without reading it. Times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
    inode: u64,
    device: u64,
}

impl Stamp {
    /// The stamp of a regular file; `None` if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().filter(Metadata::is_file).map(|meta| Self::from_metadata(&meta))
    }

    fn from_metadata(meta: &Metadata) -> Self {
        let modified_ns = meta.modified().map_or(i128::MIN, nanos);
        #[cfg(unix)]
        let (inode, device, changed_ns) = {
            use std::os::unix::fs::MetadataExt;
            let changed_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
            (meta.ino(), meta.dev(), changed_ns)
        };
        #[cfg(not(unix))]
        let (inode, device, changed_ns) = (0, 0, modified_ns);
        Self { bytes: meta.len(), modified_ns, changed_ns, inode, device }
    }
}

impl Facts {
    /// Reads the file that had this stamp.
    pub(super) fn read(path: &Path, stamp: Stamp) -> io::Result<Self> {
        let now = nanos(SystemTime::now());
        let text = fs::read(path)?;
        let latest = stamp.modified_ns.max(stamp.changed_ns);
        let settled =
            now.saturating_sub(latest) > i128::try_from(SETTLED_AFTER.as_nanos()).unwrap_or(i128::MAX);
        Ok(Self { stamp, settled, digest: Sha256::digest(&text).into(), scan: scan::scan(&text) })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let Stamp { bytes, modified_ns, changed_ns, inode, device } = self.stamp;
        writer.u64(bytes).u64(inode).u64(device);
        for time in [modified_ns, changed_ns] {
            writer.field(&time.to_le_bytes());
        }
        writer.field(&self.digest);
        writer.u32(u32::from(self.scan.by_macro) | u32::from(self.scan.leaves) << 1);
        writer.optional(self.scan.odd.map(str::as_bytes));
        writer.list(self.scan.includes.iter().map(|include| include.path().as_os_str().as_encoded_bytes()));
        writer.list(self.scan.includes.iter().map(|include| [u8::from(include.quoted)]));
    }

    /// Reads what [`Facts::write`] wrote.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let (bytes, inode, device) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mut time = || Some(i128::from_le_bytes(reader.field()?.try_into().ok()?));
        let (modified_ns, changed_ns) = (time()?, time()?);
        let stamp = Stamp { bytes, modified_ns, changed_ns, inode, device };
        let digest = reader.field()?.try_into().ok()?;
        let flags = reader.u32()?;
        let odd = match reader.optional()? {
            Some(why) => Some(scan::ODD.iter().find(|known| known.as_bytes() == why).copied()?),
            None => None,
        };
        let (names, quotes) = (reader.fields()?, reader.fields()?);
        let includes =
            names.iter().zip(quotes).map(|(name, quoted)| Include::new(name, quoted == [1])).collect();
        let scan = Scan { includes, by_macro: flags & 1 != 0, leaves: flags & 2 != 0, odd };
        Some(Self { stamp, settled: true, digest, scan })
    }
}

fn nanos(time: SystemTime) -> i128 {
    let whole = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => whole(after),
        Err(before) => -whole(before.duration()),
    }
}
