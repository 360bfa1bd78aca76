//! The library file: where cargo put it, and copies under the names that programs look for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file as cargo names it. Never `libcuda.so`: a build folder stands in front of `LD_LIBRARY_PATH` in tests.
const BUILT: &str = "libcuforge_sim_driver.so";

/// The names that programs look a driver up under.
const NAMES: (&str, &str) = ("libcuda.so.1", "libcuda.so");

/// Why there is no library file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It stands in none of the places where cargo puts it.
    #[error("the simulated driver is not built: no {BUILT} in {}", looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotBuilt {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The library has no such symbol.
    #[error("{symbol} is no symbol of the library")]
    NoSymbol {
        /// The symbol.
        symbol: String,
    },
}

/// A file that holds the simulated driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Library {
    path: PathBuf,
}

impl Library {
    /// The file that cargo built with this crate: beside the running program, or in `deps` beside or above it.
    ///
    /// # Errors
    /// [`LibraryError::NotBuilt`] with the places that were looked at.
    pub fn built() -> Result<Self, LibraryError> {
        let program = std::env::current_exe().unwrap_or_default();
        let folders = program.ancestors().skip(1).take(3);
        let looked: Vec<PathBuf> =
            folders.flat_map(|folder| [folder.join(BUILT), folder.join("deps").join(BUILT)]).collect();
        match looked.iter().find(|path| path.is_file()) {
            Some(path) => Ok(Self { path: path.clone() }),
            None => Err(LibraryError::NotBuilt { looked }),
        }
    }

    /// A file that is known to hold it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that the file is in, for `LD_LIBRARY_PATH`.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Puts a copy into a folder as `libcuda.so.1`, with a link `libcuda.so`. The folder is made if it is not there and
    /// is best one that nothing else looks into. What stands there under these names is replaced in one step each, so
    /// that programs which have it open keep it.
    ///
    /// # Errors
    /// [`LibraryError::File`].
    pub fn install(&self, folder: &Path) -> Result<Self, LibraryError> {
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let copied = self.copy(&folder.join(NAMES.0))?;
        let (link, fresh) = (folder.join(NAMES.1), folder.join(format!(".link-{}", std::process::id())));
        // One that was left behind.
        let _ = fs::remove_file(&fresh);
        link_to(Path::new(NAMES.0), &fresh).map_err(failed(&fresh))?;
        fs::rename(&fresh, &link).map_err(failed(&link))?;
        Ok(copied)
    }

    /// Puts a copy somewhere. A process that loads several copies has as many drivers, which share nothing.
    ///
    /// # Errors
    /// [`LibraryError::File`].
    pub fn copy(&self, path: &Path) -> Result<Self, LibraryError> {
        let bytes = fs::read(&self.path).map_err(failed(&self.path))?;
        write(path, &bytes)
    }

    /// Puts a copy somewhere that lacks symbols: their names are spoilt in the file, so that looking them up fails.
    ///
    /// # Errors
    /// [`LibraryError::File`]; [`LibraryError::NoSymbol`] for a symbol that the library does not export.
    pub fn copy_without(&self, symbols: &[&str], path: &Path) -> Result<Self, LibraryError> {
        let mut bytes = fs::read(&self.path).map_err(failed(&self.path))?;
        for symbol in symbols {
            // Names stand in the symbol table between zero bytes, and nowhere else in that form.
            let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
            let mut found = false;
            let mut at = 0;
            while let Some(next) = find(&bytes[at..], &name) {
                at += next + 1;
                bytes[at] = b'x';
                found = true;
            }
            if !found {
                return Err(LibraryError::NoSymbol { symbol: (*symbol).to_owned() });
            }
        }
        write(path, &bytes)
    }
}

fn find(bytes: &[u8], name: &[u8]) -> Option<usize> {
    let first = *name.get(1)?;
    let mut from = 1;
    // The second byte is rarer than the zero before it.
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(at - 1..at - 1 + name.len())? == name {
            return Some(at - 1);
        }
        from = at + 1;
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<Library, LibraryError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}-{}", std::process::id()));
    fs::write(&fresh, bytes).map_err(failed(&fresh))?;
    fs::rename(&fresh, path).map_err(failed(path))?;
    Ok(Library { path: path.to_path_buf() })
}

#[cfg(unix)]
fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    fs::copy(link.with_file_name(target), link).map(|_| ())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LibraryError {
    let path = path.to_path_buf();
    move |source| LibraryError::File { path, source }
}
