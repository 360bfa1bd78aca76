//! What a cache may use, and where it lies if nobody says.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::headers::HeaderCheck;
use crate::record::{self, Locator};

/// Bytes of images kept in memory by default.
const MEMORY_BYTES: u64 = 256 << 20;
/// Bytes of entries kept on disk by default.
const DISK_BYTES: u64 = 1 << 30;

/// How a compiler caches. Both levels are optional; neither can make a request fail.
///
/// ```
/// use cuforge_compile::CacheOptions;
/// let options = CacheOptions::in_folder("/var/cache/kernels").with_disk_bytes(64 << 20);
/// assert_eq!(options.folder.as_deref(), Some("/var/cache/kernels".as_ref()));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Bytes of images and requests kept in memory; 0 keeps none.
    pub memory_bytes: u64,
    /// The folder; `None` keeps nothing on disk. Any number of processes and compiler versions may share one.
    pub folder: Option<PathBuf>,
    /// Bytes of entries kept in the folder, least recently used out first.
    pub disk_bytes: u64,
    /// How often header files are looked at again.
    pub header_check: HeaderCheck,
    /// Where a key lies; a test cuts it short.
    pub(crate) locator: Locator,
}

impl Default for CacheOptions {
    /// Memory, and the folder that `CUFORGE_CACHE` names (`off` for none), else `cuforge` below `XDG_CACHE_HOME` or
    /// `~/.cache`. Without any of them, memory only.
    fn default() -> Self {
        Self { folder: default_folder(&|name| env::var_os(name)), ..Self::memory_only() }
    }
}

impl CacheOptions {
    /// No cache at all.
    pub fn none() -> Self {
        Self { memory_bytes: 0, ..Self::memory_only() }
    }

    /// Memory only.
    pub fn memory_only() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES,
            folder: None,
            disk_bytes: DISK_BYTES,
            header_check: HeaderCheck::default(),
            locator: record::locate,
        }
    }

    /// Memory and this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), ..Self::memory_only() }
    }

    /// With another bound in memory, in bytes.
    #[must_use]
    pub fn with_memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// With another bound on disk, in bytes.
    #[must_use]
    pub fn with_disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = bytes;
        self
    }

    /// With another rule for header files.
    #[must_use]
    pub fn with_header_check(mut self, check: HeaderCheck) -> Self {
        self.header_check = check;
        self
    }

    /// Cuts the hash that locates entries to 8 bits, so that keys collide all the time. For tests: whole keys are
    /// compared, so this may only cost recompilations.
    #[doc(hidden)]
    #[must_use]
    pub fn with_8_bit_hash(mut self) -> Self {
        self.locator = |key| {
            let full = record::locate(key);
            let mut short = [0; 32];
            short[0] = full.0[0];
            cuforge_core::Digest(short)
        };
        self
    }
}

fn default_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let var = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(named) = var("CUFORGE_CACHE") {
        return (named != "off").then(|| named.into());
    }
    let base = var("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".cache")));
    if base.is_none() {
        tracing::warn!("no cache folder: neither CUFORGE_CACHE, XDG_CACHE_HOME nor HOME is set; memory only");
    }
    base.map(|base| base.join("cuforge"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(variables: &[(&str, &str)]) -> Option<PathBuf> {
        default_folder(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_folder_follows_the_environment_and_may_be_absent() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(folder(&[("CUFORGE_CACHE", "/a"), ("HOME", "/h")]), path("/a"));
        assert_eq!(folder(&[("CUFORGE_CACHE", "off"), ("HOME", "/h")]), None);
        assert_eq!(folder(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), path("/x/cuforge"));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]), path("/h/.cache/cuforge"));
        assert_eq!(folder(&[("HOME", "")]), None);
    }
}
