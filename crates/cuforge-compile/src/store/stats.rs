//! Counters of a cache, and the one warning that a broken folder is worth.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a cache has done since it was made. Bytes and counts, never times.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Live counters; relaxed, because nothing is decided by them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            warned: AtomicBool,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> CacheStats {
                CacheStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl fmt::Display for CacheStats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut first = true;
                $(if self.$name != 0 {
                    let gap = if std::mem::take(&mut first) { "" } else { ", " };
                    write!(f, "{gap}{} {}", self.$name, stringify!($name).replace('_', " "))?;
                })*
                if first { f.write_str("nothing yet") } else { Ok(()) }
            }
        }
    };
}

counters! {
    /// Requests answered from memory.
    memory_hits,
    /// Requests answered from disk.
    disk_hits,
    /// Requests that had to be compiled.
    misses,
    /// Compilations that the compiler ended well.
    compiled,
    /// Compilations that failed.
    failed,
    /// Requests that waited for another thread's compilation of the same key.
    shared_flights,
    /// Requests that no key can hold (a macro as include name, `__TIME__`), compiled without the cache.
    uncacheable,
    /// Links of PTX in user space.
    linked,
    /// Entries written to disk.
    published,
    /// Bytes written to disk.
    published_bytes,
    /// Entries found torn, damaged or foreign, and set aside.
    quarantined,
    /// Sound entries met under another key.
    collisions,
    /// File operations that failed; each cost at most a compilation.
    io_errors,
    /// Entries evicted from disk.
    evicted,
    /// Images evicted from memory.
    memory_evicted,
    /// Temporary files of dead writers that were removed.
    swept,
    /// Images that a driver rejected.
    rejected,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn one(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    /// Counts a failed file operation; the first one is also worth a warning.
    pub(crate) fn io_error(&self, doing: &'static str, path: &Path, error: &io::Error) {
        Self::one(&self.io_errors);
        if self.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(doing, path = %path.display(), %error, "cache folder");
        } else {
            tracing::warn!(
                doing,
                path = %path.display(),
                %error,
                "cache folder not usable as it is: kernels are compiled anew where it fails (said once)"
            );
        }
    }
}
