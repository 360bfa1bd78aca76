//! Header facts kept beside the cache entries, so that a new process asks for the state of files and reads none.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::facts::Facts;
use crate::bytes::{Reader, Writer};

/// First bytes of an index; the last one is the version of the format.
const MAGIC: &[u8; 8] = b"CUFHIDX\x01";
/// An index of CUDA's whole header tree has less than 1 MB.
const LIMIT_BYTES: u64 = 64 << 20;

/// The facts of an index file; empty if there is none or it is damaged in any way.
pub(super) fn load(path: &Path) -> HashMap<PathBuf, Arc<Facts>> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(LIMIT_BYTES).read_to_end(&mut bytes));
    read.ok().and_then(|_| parse(&bytes)).unwrap_or_default()
}

/// Publishes an index by rename from the `scratch` folder, which sweeps keep clean. Of two writers the last one stays;
/// what the other one knew is read again.
pub(super) fn store<'a>(
    path: &Path,
    scratch: &Path,
    facts: impl Iterator<Item = (&'a PathBuf, &'a Arc<Facts>)>,
) -> std::io::Result<()> {
    let mut body = Writer::default();
    // A stamp that cannot be believed is not worth keeping.
    for (file, facts) in facts.filter(|(_, facts)| facts.settled) {
        body.field(file.as_os_str().as_encoded_bytes());
        facts.write(&mut body);
    }
    let body = body.finish();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&Sha256::digest(&body));
    bytes.extend_from_slice(&body);
    for folder in [path.parent().unwrap_or(scratch), scratch] {
        fs::create_dir_all(folder)?;
    }
    let temporary = scratch.join(format!("index-{}", std::process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

fn parse(bytes: &[u8]) -> Option<HashMap<PathBuf, Arc<Facts>>> {
    let mut reader = Reader::new(bytes);
    if reader.take(8)? != MAGIC {
        return None;
    }
    let digest = reader.take(32)?;
    if Sha256::digest(&bytes[40..]).as_slice() != digest {
        return None;
    }
    let mut all = HashMap::new();
    while !reader.is_empty() {
        let file = super::scan::path(reader.field()?);
        all.insert(file, Arc::new(Facts::parse(&mut reader)?));
    }
    Some(all)
}
