//! The archive that this program runs out of, if it does: where it lies, and what its parts are called.

use std::env;
use std::path::PathBuf;

/// The corpus kernels, compiled ahead of time.
pub(crate) const BUNDLE: &str = "kernels.cuforge";

/// The archive's folder, as its `run.sh` names it.
pub(crate) fn here() -> Option<PathBuf> {
    env::var_os("CUFORGE_ARCHIVE").map(PathBuf::from)
}
