//! What a test process was doing when it hung or died: the last driver call, kept in a file that outlives the process.
//!
//! Built under the feature `breadcrumbs` alone, and silent unless `CUFORGE_BREADCRUMBS` names a folder. Each process
//! writes a file named after its id: line 1 is the last driver call (`in NAME` while it runs, `after NAME CODE` once it
//! has answered), line 2 the first answer that means a lost device. Lines have a fixed length, so a call costs two
//! small writes and no allocation, and the driver makes no call that it would not make without.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that names the folder.
const VARIABLE: &str = "CUFORGE_BREADCRUMBS";
/// Bytes of a line, its end included.
const LINE_BYTES: usize = 80;

static CRUMBS: OnceLock<Option<Crumbs>> = OnceLock::new();

struct Crumbs {
    file: File,
    faulted: AtomicBool,
}

/// Notes that `call` is about to be made.
pub(crate) fn before(call: &'static str) {
    if let Some(crumbs) = crumbs() {
        crumbs.write(0, format_args!("in {call}"));
    }
}

/// Notes what a call answered, and whether that means a lost device.
pub(crate) fn after(call: &'static str, code: i32, lost: bool) {
    let Some(crumbs) = crumbs() else { return };
    crumbs.write(0, format_args!("after {call} {code}"));
    if lost && !crumbs.faulted.swap(true, Ordering::Relaxed) {
        crumbs.write(1, format_args!("fault {call} {code}"));
    }
}

fn crumbs() -> Option<&'static Crumbs> {
    let made = CRUMBS.get_or_init(|| {
        let folder = std::env::var_os(VARIABLE)?;
        let path = Path::new(&folder).join(std::process::id().to_string());
        // A folder that cannot be written costs the crumbs and nothing else: the tests still tell their outcomes.
        let file = File::create(path).ok()?;
        Some(Crumbs { file, faulted: AtomicBool::new(false) })
    });
    made.as_ref()
}

impl Crumbs {
    /// Replaces a line; text that is too long loses its end.
    fn write(&self, line: u64, text: std::fmt::Arguments<'_>) {
        let bytes = padded(text);
        let offset = line * LINE_BYTES as u64;
        // As above: a full disk costs the crumb.
        #[cfg(unix)]
        let _ = std::os::unix::fs::FileExt::write_all_at(&self.file, &bytes, offset);
        #[cfg(windows)]
        let _ = std::os::windows::fs::FileExt::seek_write(&self.file, &bytes, offset);
    }
}

fn padded(text: std::fmt::Arguments<'_>) -> [u8; LINE_BYTES] {
    let mut bytes = [b' '; LINE_BYTES];
    let mut room = &mut bytes[..LINE_BYTES - 1];
    // Fails where the room ends, which is where the text is cut.
    let _ = room.write_fmt(text);
    bytes[LINE_BYTES - 1] = b'\n';
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_length_whatever_it_says() {
        let short = padded(format_args!("in {}", "cuInit"));
        assert!(short.starts_with(b"in cuInit   ") && short.ends_with(b" \n"));
        let long = padded(format_args!("{}", "x".repeat(200)));
        assert_eq!((long[LINE_BYTES - 2], long[LINE_BYTES - 1]), (b'x', b'\n'));
    }

    #[test]
    fn without_the_variable_nothing_is_kept() {
        if std::env::var_os(VARIABLE).is_none() {
            before("cuInit");
            assert!(crumbs().is_none());
        }
    }
}
