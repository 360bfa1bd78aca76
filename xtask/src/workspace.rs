//! Where the workspace lies.

use std::path::Path;

/// The workspace root: the folder above this package.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}
