//! Images in memory: a hit takes one read lock, compares the whole request and allocates nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuforge_core::{CompileRequest, Digest, ModuleImage};
use parking_lot::RwLock;

use crate::store::stats::Counters;

/// Shards, so that threads with different kernels do not meet at one lock.
const SHARDS: usize = 16;

/// Images by request, bounded by bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    shards: [RwLock<Shard>; SHARDS],
    limit_bytes: u64,
    bytes: AtomicU64,
    /// Counts uses; a slot's last use is the value at that time.
    clock: AtomicU64,
    seed: u64,
    counters: Arc<Counters>,
}

type Shard = HashMap<u64, Vec<Slot>, BuildHasherDefault<AsIs>>;

#[derive(Debug)]
struct Slot {
    request: Arc<CompileRequest>,
    image: Arc<ModuleImage>,
    /// Digest of the header files that the image was made with, if there were any.
    headers: Option<Digest>,
    bytes: u64,
    used: AtomicU64,
}

impl Memory {
    pub(crate) fn new(limit_bytes: u64, counters: Arc<Counters>) -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            limit_bytes,
            bytes: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            seed: RandomState::new().hash_one(0_u8),
            counters,
        }
    }

    /// Locates a request; equal requests have equal hashes, and the reverse is never relied on.
    pub(crate) fn hash(&self, request: &CompileRequest) -> u64 {
        let mut hasher = Folding(self.seed);
        request.hash(&mut hasher);
        hasher.finish()
    }

    /// The image of exactly this request, and the digest of the header files it was made with.
    pub(crate) fn get(
        &self,
        hash: u64,
        request: &CompileRequest,
    ) -> Option<(Arc<ModuleImage>, Option<Digest>)> {
        let shard = self.shard(hash).read();
        let slot = shard.get(&hash)?.iter().find(|slot| same(&slot.request, request))?;
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some((Arc::clone(&slot.image), slot.headers))
    }

    /// The stored request that equals this one, so that later comparisons end at the pointer.
    pub(crate) fn interned(&self, hash: u64, request: &CompileRequest) -> Option<Arc<CompileRequest>> {
        let shard = self.shard(hash).read();
        let slot = shard.get(&hash)?.iter().find(|slot| same(&slot.request, request))?;
        Some(Arc::clone(&slot.request))
    }

    pub(crate) fn put(
        &self,
        hash: u64,
        request: &Arc<CompileRequest>,
        image: &Arc<ModuleImage>,
        headers: Option<Digest>,
    ) {
        let bytes = request_bytes(request) + image_bytes(image);
        if bytes > self.limit_bytes {
            return;
        }
        {
            let mut shard = self.shard(hash).write();
            let slots = shard.entry(hash).or_default();
            if let Some(at) = slots.iter().position(|slot| same(&slot.request, request)) {
                self.bytes.fetch_sub(slots.swap_remove(at).bytes, Ordering::Relaxed);
            }
            let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
            let (request, image) = (Arc::clone(request), Arc::clone(image));
            slots.push(Slot { request, image, headers, bytes, used });
        }
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit_bytes {
            self.evict();
        }
    }

    /// Forgets every image with this digest.
    pub(crate) fn forget(&self, image: Digest) {
        self.retain(|slot| slot.image.digest != image);
    }

    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Removes the least recently used images until an eighth of the limit is free.
    fn evict(&self) {
        let mut uses = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            uses.extend(shard.values().flatten().map(|slot| (slot.used.load(Ordering::Relaxed), slot.bytes)));
        }
        uses.sort_unstable();
        let mut excess = self.bytes().saturating_sub(self.limit_bytes - self.limit_bytes / 8);
        let mut newest_out = None;
        for (used, bytes) in uses {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            newest_out = Some(used);
        }
        let Some(newest_out) = newest_out else { return };
        let removed = self.retain(|slot| slot.used.load(Ordering::Relaxed) > newest_out);
        Counters::add(&self.counters.memory_evicted, removed);
        tracing::debug!(removed, bytes = self.bytes(), "images evicted from memory");
    }

    fn retain(&self, keep: impl Fn(&Slot) -> bool) -> u64 {
        let mut removed = 0;
        for shard in &self.shards {
            let mut shard = shard.write();
            for slots in shard.values_mut() {
                slots.retain(|slot| {
                    let kept = keep(slot);
                    if !kept {
                        removed += 1;
                        self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
                    }
                    kept
                });
            }
            shard.retain(|_, slots| !slots.is_empty());
        }
        removed
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // The upper bits: the map itself uses the lower ones.
        &self.shards[usize::from((hash >> 60) as u8) % SHARDS]
    }
}

/// Equality that ends at the pointer where it can.
fn same(stored: &Arc<CompileRequest>, request: &CompileRequest) -> bool {
    std::ptr::eq(Arc::as_ptr(stored), request) || **stored == *request
}

fn request_bytes(request: &CompileRequest) -> u64 {
    let headers: usize = request.options.headers.iter().map(|(name, text)| name.len() + text.len()).sum();
    size(request.source.len() + headers) + 512
}

fn image_bytes(image: &ModuleImage) -> u64 {
    let cubin = image.cubin.as_deref().map_or(0, <[u8]>::len);
    size(cubin + image.ptx.as_deref().map_or(0, str::len) + image.log.len()) + 512
}

fn size(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// The hash is made already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Folded 128-bit products, eight bytes at a time: kilobytes of source in a few hundred nanoseconds. Not a
/// cryptographic hash, and nothing but speed depends on it.
#[derive(Debug)]
struct Folding(u64);

impl Folding {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high.rotate_left(29);
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        // Four lanes hide the latency of the products.
        let (groups, words) = words.as_chunks::<4>();
        if !groups.is_empty() {
            let mut lanes = [1, 2, 3, 4].map(|lane| Self(self.0.wrapping_mul(2 * lane + 1)));
            for group in groups {
                for (lane, word) in lanes.iter_mut().zip(group) {
                    lane.mix(u64::from_le_bytes(*word));
                }
            }
            lanes.iter().for_each(|lane| self.mix(lane.0));
        }
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        self.mix(size(bytes.len()));
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0.rotate_left(32)
    }
}
