//! Where the scripts of peers in Python lie: in the repository, or in the archive that this program runs out of.

use std::env;
use std::path::{Path, PathBuf};

/// The script of that name.
pub(crate) fn script(name: &str) -> PathBuf {
    let folder = match env::var_os("CUFORGE_ARCHIVE") {
        Some(archive) => Path::new(&archive).join("peers"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("peers"),
    };
    folder.join(name)
}
