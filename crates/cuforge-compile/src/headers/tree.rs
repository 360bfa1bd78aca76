//! One digest for all that lies below a folder, for includes that no reading of the texts can name.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Folders within folders deeper than this are not followed: a link that leads up again would never end.
const DEPTH_LIMIT: usize = 32;

/// The digest of names and contents of every file below `folder`, in order of their paths; `None` if there are more than
/// `limit` of them. 150 ms for the 2,400 files of CUDA's headers when they have to be read.
pub(super) fn digest(
    folder: &Path,
    limit: usize,
    content: &dyn Fn(&Path) -> Option<[u8; 32]>,
) -> Option<[u8; 32]> {
    let mut files = Vec::new();
    collect(folder, 0, limit, &mut files)?;
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        let Some(digest) = content(&file) else { continue };
        let name = file.as_os_str().as_encoded_bytes();
        hasher.update(u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(name);
        hasher.update(digest);
    }
    Some(hasher.finalize().into())
}

fn collect(folder: &Path, depth: usize, limit: usize, files: &mut Vec<PathBuf>) -> Option<()> {
    if depth > DEPTH_LIMIT {
        return None;
    }
    // A folder that cannot be listed has nothing that a compiler could read by a name it does not know.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links are followed, as the compiler does.
        if path.is_dir() {
            collect(&path, depth + 1, limit, files)?;
        } else {
            files.push(path);
        }
        if files.len() > limit {
            return None;
        }
    }
    Some(())
}
