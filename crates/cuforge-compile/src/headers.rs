//! Which header files a source can read, by content: the closure of its includes over the folders it is given.
//!
//! NVRTC writes no dependency file, so the closure is found by reading the texts. It is an over-approximation: includes
//! behind conditions count, and of one name every file that any folder offers counts, not only the first. So a file that
//! appears in front of another changes the closure, whichever of them NVRTC would take. Where a macro names what is
//! included (thrust does that), every file below every folder counts.

#[cfg(test)]
mod closure_holds;
mod facts;
mod index;
pub(crate) mod scan;
mod tree;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cuforge_core::Digest;
use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};

use crate::bytes::Writer;
use facts::{Facts, Stamp};
use scan::{Include, Scan};

/// More files than this are not tracked; CUDA's whole header tree has 2,400.
const FILE_LIMIT: usize = 20_000;

/// How often header files are looked at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderCheck {
    /// Once for each [`Compiler`](crate::Compiler): a file that changes later is not seen until another one is made. A
    /// hit in memory then costs no file access. The first look reads nothing either where an index beside the cache
    /// entries knows a file of the same size, times, inode and device.
    #[default]
    Once,
    /// At every request: size, time, inode and device of every file of the closure, and every name that was looked for
    /// and not found (2 ms for `cuda/barrier`). What differs is read again.
    EveryRequest,
}

/// What is known of header files so far. Shared by all threads of a compiler.
#[derive(Debug)]
pub(crate) struct Headers {
    check: HeaderCheck,
    known: RwLock<HashMap<PathBuf, Option<Arc<Facts>>>>,
    /// Digests of whole folders, kept only where files are looked at once.
    trees: RwLock<HashMap<PathBuf, Option<[u8; 32]>>>,
    /// What an earlier process knew, and where it is kept.
    index: Option<IndexPlace>,
    earlier: OnceLock<HashMap<PathBuf, Arc<Facts>>>,
    /// Whether something is known that the index does not hold.
    learned: AtomicBool,
}

/// Where an index lies and where it is written first.
#[derive(Clone, Debug)]
pub(crate) struct IndexPlace {
    pub(crate) file: PathBuf,
    pub(crate) scratch: PathBuf,
}

/// The header files of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Closure {
    /// Folders and files with their digests, encoded for the key record.
    pub(crate) record: Vec<u8>,
    /// Why no key can hold this request, if so.
    pub(crate) uncacheable: Option<&'static str>,
    /// Files in it.
    pub(crate) files: usize,
}

impl Closure {
    /// Digest of the record, to tell in memory whether anything changed.
    pub(crate) fn digest(&self) -> Digest {
        Digest(Sha256::digest(&self.record).into())
    }
}

impl Headers {
    /// With an index file, if there is a place for one.
    pub(crate) fn new(check: HeaderCheck, index: Option<IndexPlace>) -> Self {
        Self {
            check,
            known: RwLock::default(),
            trees: RwLock::default(),
            index,
            earlier: OnceLock::new(),
            learned: AtomicBool::new(false),
        }
    }

    pub(crate) const fn check(&self) -> HeaderCheck {
        self.check
    }

    /// The closure of these texts over these folders. The texts lie in no folder.
    pub(crate) fn closure<'a>(&self, texts: impl Iterator<Item = &'a str>, folders: &[PathBuf]) -> Closure {
        let (files, seen) = (BTreeMap::new(), HashSet::new());
        let mut walk =
            Walk { headers: self, folders, files, seen, by_macro: false, leaves: false, odd: None };
        let mut waiting = Vec::new();
        for text in texts {
            let scan = scan::scan(text.as_bytes());
            walk.enter(&scan, None, &mut waiting);
        }
        while let Some(path) = waiting.pop() {
            if walk.files.contains_key(&path) {
                continue;
            }
            let Some(facts) = self.facts(&path) else { continue };
            walk.files.insert(path.clone(), facts.digest);
            if walk.files.len() > FILE_LIMIT {
                walk.odd = Some("it can read too many header files");
                break;
            }
            walk.enter(&facts.scan, path.parent(), &mut waiting);
        }
        let closure = walk.finish();
        self.remember();
        closure
    }

    /// Writes the index if this process knows more. A failure costs the next process some reading.
    fn remember(&self) {
        let Some(index) = &self.index else { return };
        if !self.learned.swap(false, Ordering::Relaxed) {
            return;
        }
        let known = self.known.read();
        let mut all: HashMap<&PathBuf, &Arc<Facts>> = self.earlier().iter().collect();
        all.extend(known.iter().filter_map(|(path, facts)| Some((path, facts.as_ref()?))));
        if let Err(error) = index::store(&index.file, &index.scratch, all.into_iter()) {
            tracing::debug!(index = %index.file.display(), %error, "header index cannot be written");
        }
    }

    fn earlier(&self) -> &HashMap<PathBuf, Arc<Facts>> {
        self.earlier
            .get_or_init(|| self.index.as_ref().map(|index| index::load(&index.file)).unwrap_or_default())
    }

    /// The digest of every file below a folder, or `None` if there are too many.
    fn tree(&self, folder: &Path) -> Option<[u8; 32]> {
        let known = self.trees.read().get(folder).copied();
        if self.check == HeaderCheck::Once
            && let Some(known) = known
        {
            return known;
        }
        let digest = tree::digest(folder, FILE_LIMIT, &|file| self.facts(file).map(|facts| facts.digest));
        self.trees.write().insert(folder.to_path_buf(), digest);
        digest
    }

    /// The file's facts, or `None` if there is no such file.
    fn facts(&self, path: &Path) -> Option<Arc<Facts>> {
        let known = self.known.read().get(path).cloned();
        if self.check == HeaderCheck::Once
            && let Some(known) = known
        {
            return known;
        }
        let facts = Stamp::of(path).and_then(|stamp| {
            let same = |facts: &&Arc<Facts>| facts.settled && facts.stamp == stamp;
            let held = known.flatten();
            if let Some(facts) = held.as_ref().filter(same).or_else(|| self.earlier().get(path).filter(same))
            {
                return Some(Arc::clone(facts));
            }
            self.learned.store(true, Ordering::Relaxed);
            // A file that cannot be read is none to the compiler either.
            Facts::read(path, stamp).ok().map(Arc::new)
        });
        self.known.write().insert(path.to_path_buf(), facts.clone());
        facts
    }
}

struct Walk<'a> {
    headers: &'a Headers,
    folders: &'a [PathBuf],
    files: BTreeMap<PathBuf, [u8; 32]>,
    /// Names looked for, each from one folder (quoted) or from anywhere.
    seen: HashSet<(Option<PathBuf>, Include)>,
    by_macro: bool,
    leaves: bool,
    odd: Option<&'static str>,
}

impl Walk<'_> {
    /// Queues every file that an include of `scan` could mean.
    fn enter(&mut self, scan: &Scan, folder: Option<&Path>, waiting: &mut Vec<PathBuf>) {
        if let Some(why) = scan.odd {
            self.odd.get_or_insert(why);
        }
        self.by_macro |= scan.by_macro;
        self.leaves |= scan.leaves;
        for include in &scan.includes {
            let own_folder = folder.filter(|_| include.quoted);
            if !self.seen.insert((own_folder.map(Path::to_path_buf), include.clone())) {
                continue;
            }
            // An absolute name makes each of these the same path.
            let places = own_folder.into_iter().chain(self.folders.iter().map(PathBuf::as_path));
            let mut places: Vec<PathBuf> = places.map(|place| straight(place.join(include.path()))).collect();
            if places.is_empty() {
                places.push(include.path().to_path_buf());
            }
            waiting.extend(
                places
                    .into_iter()
                    .filter(|path| !self.files.contains_key(path) && self.headers.facts(path).is_some()),
            );
        }
    }

    fn finish(mut self) -> Closure {
        let mut trees = Vec::new();
        if self.by_macro {
            if self.leaves {
                self.odd.get_or_insert(
                    "an include is named by a macro, and a macro holds a path outside the folders",
                );
            }
            for folder in self.folders {
                match self.headers.tree(folder) {
                    Some(digest) => trees.push(digest),
                    None => {
                        self.odd.get_or_insert(
                            "an include is named by a macro, and a folder is too large to track",
                        );
                    }
                }
            }
        }
        let mut writer = Writer::with_capacity(128 * self.files.len());
        writer.list(self.folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes()));
        writer.list(self.files.keys().map(|path| path.as_os_str().as_encoded_bytes()));
        writer.list(self.files.values()).list(trees.iter());
        Closure { record: writer.finish(), uncacheable: self.odd, files: self.files.len() }
    }
}

/// The path without `..`, if its folder exists: headers that include each other that way would get longer and longer
/// names. Only the folder is resolved, so that a linked file keeps the name that it was asked by.
fn straight(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return path };
    fs::canonicalize(folder).map_or_else(|_| path.clone(), |folder| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let tree =
                Self(std::env::temp_dir().join(format!("cuforge-headers-{name}-{}", std::process::id())));
            let _ = fs::remove_dir_all(&tree.0);
            files.iter().for_each(|(file, text)| tree.write(file, text));
            tree
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn closure(&self, source: &str, folders: &[&str]) -> Closure {
            let folders: Vec<PathBuf> = folders.iter().map(|folder| self.0.join(folder)).collect();
            Headers::new(HeaderCheck::EveryRequest, None).closure([source].into_iter(), &folders)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_changed_byte_anywhere_in_the_closure_changes_it() {
        let tree = Tree::new(
            "chain",
            &[
                ("a/one.h", "#include \"sub/two.h\"\n"),
                ("a/sub/two.h", "#include \"three.h\"\n"),
                ("a/sub/three.h", "1"),
            ],
        );
        let source = "#include <one.h>\n";
        let first = tree.closure(source, &["a"]);
        assert_eq!(first.files, 3);
        assert_eq!(first, tree.closure(source, &["a"]));
        tree.write("a/sub/three.h", "2");
        assert_ne!(first, tree.closure(source, &["a"]));
    }

    #[test]
    fn a_file_that_appears_where_it_was_looked_for_changes_the_closure() {
        let tree = Tree::new("shadow", &[("first/.keep", ""), ("second/x.h", "1")]);
        let source = "#include <x.h>\n#if __has_include(<y.h>)\n#endif\n";
        let before = tree.closure(source, &["first", "second"]);
        tree.write("first/x.h", "2");
        let shadowed = tree.closure(source, &["first", "second"]);
        assert_ne!(before, shadowed);
        tree.write("second/y.h", "");
        assert_ne!(shadowed, tree.closure(source, &["first", "second"]));
    }

    #[test]
    fn the_same_files_under_other_folders_or_in_another_order_are_another_closure() {
        let tree = Tree::new("order", &[("a/x.h", "1"), ("b/x.h", "1")]);
        let closure = |folders: &[&str]| tree.closure("#include <x.h>\n", folders);
        assert_ne!(closure(&["a", "b"]), closure(&["b", "a"]));
        assert_ne!(closure(&["a"]), closure(&["b"]));
    }

    #[test]
    fn an_index_spares_reading_and_never_hides_a_change() {
        let tree = Tree::new("index", &[("a/x.h", "#include \"y.h\"\n"), ("a/y.h", "1")]);
        let (index, folders) = (tree.0.join("index"), [tree.0.join("a")]);
        let closure = || {
            let place = IndexPlace { file: index.clone(), scratch: tree.0.join("writing") };
            let headers = Headers::new(HeaderCheck::Once, Some(place));
            headers.closure(["#include <x.h>\n"].into_iter(), &folders)
        };
        let fresh = closure();
        assert!(index::load(&index).is_empty(), "a file changed just now is not believed by its stamp");
        // Beyond the time in which a file counts as changed just now.
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        assert_eq!(closure(), fresh);
        assert_eq!(index::load(&index).len(), 2);
        let written = fs::metadata(&index).unwrap().modified().unwrap();
        assert_eq!(closure(), fresh);
        assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), written, "something was read again");
        tree.write("a/y.h", "2");
        assert_ne!(closure(), fresh);
        tree.write("a/y.h", "1");
        for garbage in ["", "CUFHIDX\u{1}", "something else"] {
            fs::write(&index, garbage).unwrap();
            assert_eq!(closure(), fresh);
        }
        assert_eq!(fs::read_dir(tree.0.join("writing")).unwrap().count(), 0);
    }

    #[test]
    fn cycles_end_and_folders_are_not_files() {
        let tree = Tree::new(
            "cycle",
            &[("a/x.h", "#include \"y.h\""), ("a/y.h", "#include <x.h>\n"), ("a/dir/z.h", "")],
        );
        assert_eq!(tree.closure("#include <x.h>\n#include <dir>\n", &["a"]).files, 2);
    }

    #[test]
    fn names_that_go_up_and_down_again_end_too() {
        let tree = Tree::new(
            "up",
            &[
                ("a/x/x.h", "#include \"../y/y.h\""),
                ("a/y/y.h", "#include \"../x/x.h\"\n#include \"../y/y.h\""),
            ],
        );
        assert_eq!(tree.closure("#include <x/x.h>\n", &["a"]).files, 2);
    }

    #[test]
    fn with_a_name_made_by_a_macro_every_file_of_the_folders_counts() {
        let tree = Tree::new("macro", &[("a/x.h", "#define N <y.h>\n#include N\n"), ("a/deep/y.h", "")]);
        let source = "#include <x.h>\n";
        let mut seen = vec![tree.closure(source, &["a"])];
        assert_eq!(seen[0].uncacheable, None);
        for (file, text) in [("a/deep/y.h", "1"), ("a/deep/new.h", ""), ("a/y.h", "")] {
            tree.write(file, text);
            let now = tree.closure(source, &["a"]);
            assert!(!seen.contains(&now), "{file}");
            seen.push(now);
        }
        assert_eq!(tree.closure(source, &["a"]), seen[3]);
        tree.write("a/x.h", "#define N \"/etc/passwd\"\n#include N\n");
        assert!(tree.closure(source, &["a"]).uncacheable.is_some());
    }

    #[test]
    fn checked_once_a_change_is_not_seen_and_checked_at_every_request_it_is() {
        let tree = Tree::new("check", &[("a/x.h", "1")]);
        let folders = [tree.0.join("a")];
        for (check, sees) in [(HeaderCheck::Once, false), (HeaderCheck::EveryRequest, true)] {
            tree.write("a/x.h", "1");
            let headers = Headers::new(check, None);
            let closure = || headers.closure(["#include <x.h>\n"].into_iter(), &folders);
            let before = closure();
            tree.write("a/x.h", "22");
            assert_eq!(closure() != before, sees, "{check:?}");
        }
    }
}
