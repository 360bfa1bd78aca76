//! What a compilation gives and the cache keeps: independent of any driver, encoded so that damage is always seen.

use std::sync::Arc;

use cuforge_core::Digest;
use sha2::{Digest as _, Sha256};

use crate::bytes::{Reader, Writer};

/// First bytes of every entry; the last one is the version of the format.
const MAGIC: &[u8; 8] = b"CUFORGE\x01";
/// Magic, body length, digest of the body.
const HEAD_BYTES: usize = 8 + 8 + 32;

/// The result of one compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) cubin: Option<Arc<[u8]>>,
    pub(crate) ptx: Option<Arc<str>>,
    /// Digest of the two together; made once, and kept in the entry.
    pub(crate) digest: Digest,
    pub(crate) entry_points: Vec<String>,
    /// Lowered names in the order of the request's name expressions.
    pub(crate) lowered: Vec<String>,
    pub(crate) log: String,
}

impl Artifact {
    /// Code alone; names and log are filled in by who has them.
    pub(crate) fn of(cubin: Option<Arc<[u8]>>, ptx: Option<Arc<str>>) -> Self {
        let digest = digest(cubin.as_deref(), ptx.as_deref());
        Self { cubin, ptx, digest, entry_points: Vec::new(), lowered: Vec::new(), log: String::new() }
    }
}

/// Digest of cubin and PTX together.
pub(crate) fn digest(cubin: Option<&[u8]>, ptx: Option<&str>) -> Digest {
    let mut hasher = Sha256::new();
    for part in [cubin, ptx.map(str::as_bytes)] {
        hasher.update([u8::from(part.is_some())]);
        let part = part.unwrap_or_default();
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    Digest(hasher.finalize().into())
}

/// Why bytes are no entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Torn, damaged or of another format.
    Corrupt,
    /// A sound entry, for another key: two keys share a place.
    OtherKey,
}

/// One entry as it lies on disk and in bundles: head, the whole key, the artifact.
pub(crate) fn encode(key: &[u8], artifact: &Artifact) -> Vec<u8> {
    let payload =
        artifact.cubin.as_deref().map_or(0, <[u8]>::len) + artifact.ptx.as_deref().map_or(0, str::len);
    let mut body = Writer::with_capacity(key.len() + payload + artifact.log.len() + 256);
    body.field(key)
        .optional(artifact.cubin.as_deref())
        .optional(artifact.ptx.as_deref().map(str::as_bytes))
        .field(&artifact.digest.0)
        .list(artifact.entry_points.iter())
        .list(artifact.lowered.iter())
        .field(artifact.log.as_bytes());
    let body = body.finish();
    let mut entry = Vec::with_capacity(HEAD_BYTES + body.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(&u64::try_from(body.len()).unwrap_or(u64::MAX).to_le_bytes());
    entry.extend_from_slice(&Sha256::digest(&body));
    entry.extend_from_slice(&body);
    entry
}

/// The artifact of an entry, if the entry is whole and its key is exactly `key`.
pub(crate) fn decode(entry: &[u8], key: &[u8]) -> Result<Artifact, Unreadable> {
    let (found, artifact) = open(entry).ok_or(Unreadable::Corrupt)?;
    if found != key {
        return Err(Unreadable::OtherKey);
    }
    parse(artifact).ok_or(Unreadable::Corrupt)
}

/// Key and artifact of a whole entry, whatever its key.
pub(crate) fn decode_any(entry: &[u8]) -> Option<(&[u8], Artifact)> {
    let (key, artifact) = open(entry)?;
    Some((key, parse(artifact)?))
}

/// Checks the head and the digest; gives the key and a reader at the artifact.
fn open(entry: &[u8]) -> Option<(&[u8], Reader<'_>)> {
    let mut reader = Reader::new(entry);
    if reader.take(8)? != MAGIC {
        return None;
    }
    let len = usize::try_from(reader.u64()?).ok()?;
    let digest = reader.take(32)?;
    let body = reader.take(len)?;
    if !reader.is_empty() || Sha256::digest(body).as_slice() != digest {
        return None;
    }
    let mut reader = Reader::new(body);
    Some((reader.field()?, reader))
}

fn parse(mut reader: Reader<'_>) -> Option<Artifact> {
    let cubin = reader.optional()?.map(Arc::from);
    let ptx = match reader.optional()? {
        Some(bytes) => Some(Arc::from(std::str::from_utf8(bytes).ok()?)),
        None => None,
    };
    let digest = Digest(reader.field()?.try_into().ok()?);
    let (entry_points, lowered) = (reader.texts()?, reader.texts()?);
    let log = reader.text()?.to_owned();
    reader.is_empty().then_some(Artifact { cubin, ptx, digest, entry_points, lowered, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Artifact {
        Artifact {
            entry_points: vec!["k".into(), "l".into()],
            lowered: vec!["_Z1kv".into()],
            log: "a warning".into(),
            ..Artifact::of(Some(Arc::from(&b"\x7fELF cubin"[..])), Some(Arc::from(".version 8.0 ü")))
        }
    }

    #[test]
    fn an_entry_gives_back_the_artifact_for_its_own_key_only() {
        let entry = encode(b"key", &sample());
        assert_eq!(decode(&entry, b"key"), Ok(sample()));
        assert_eq!(decode(&entry, b"kez"), Err(Unreadable::OtherKey));
        assert_eq!(decode_any(&entry), Some((&b"key"[..], sample())));
    }

    #[test]
    fn truncation_at_every_length_and_every_changed_byte_is_seen() {
        let entry = encode(b"key", &sample());
        for len in 0..entry.len() {
            assert_eq!(decode(&entry[..len], b"key"), Err(Unreadable::Corrupt), "cut to {len}");
        }
        for at in 0..entry.len() {
            for bit in 0..8 {
                let mut changed = entry.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(decode(&changed, b"key"), Err(Unreadable::Corrupt), "bit {bit} of byte {at}");
            }
        }
        let mut longer = entry;
        longer.push(0);
        assert_eq!(decode(&longer, b"key"), Err(Unreadable::Corrupt));
    }
}
