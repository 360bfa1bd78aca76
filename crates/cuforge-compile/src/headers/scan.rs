//! Finds what a text can include. Errs on the side of too much: a name in a comment or behind a condition counts.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memmem;

/// One name that a text can include.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Include {
    name: PathBuf,
    /// Whether the folder of the including file is searched first.
    pub(crate) quoted: bool,
}

impl Include {
    pub(crate) fn new(name: &[u8], quoted: bool) -> Self {
        Self { name: path(name), quoted }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.name
    }
}

/// What one text can include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) includes: Vec<Include>,
    /// Whether the name of some include comes from a macro, so that any file of any folder may be meant.
    pub(crate) by_macro: bool,
    /// Whether some macro is defined as a path that leaves the folders: absolute, or with `..`.
    pub(crate) leaves: bool,
    /// Why a result that depends on this text cannot be cached, if so.
    pub(crate) odd: Option<&'static str>,
}

/// Reasons of [`Scan::odd`].
pub(super) const ODD: [&str; 2] =
    ["its result depends on the time of the compilation", "it holds trigraphs, which may hide an include"];

/// What every word that includes something holds: directives, `__has_include`, and wrappers of it.
const PARTS: [&[u8]; 2] = [b"include", b"INCLUDE"];

/// Scans a text for include directives and `__has_include`.
pub(crate) fn scan(text: &[u8]) -> Scan {
    let mut scan = Scan::default();
    let contains = |word: &[u8]| find(text, word, 0).is_some();
    if contains(b"__TIME__") || contains(b"__DATE__") || contains(b"__TIMESTAMP__") {
        scan.odd = Some(ODD[0]);
    }
    if contains(b"??=") || contains(b"??/") {
        scan.odd = Some(ODD[1]);
    }
    let text = spliced(text);
    scan.leaves = defines_a_path_that_leaves(&text);
    // In capitals too, because libraries wrap `__has_include` into macros named after it.
    for found in PARTS.iter().flat_map(|part| memmem::find_iter(&text, part)) {
        let behind = skip_word(&text, found + PARTS[0].len());
        let (open, start) = skip_blank(&text, behind);
        match text.get(start) {
            Some(b'<') => scan.push(&text, start, b'>'),
            Some(b'"') => scan.push(&text, start, b'"'),
            Some(&byte) if is_word(byte) && names_a_macro(&text, found..behind, open, start) => {
                scan.by_macro = true;
            }
            _ => {}
        }
    }
    scan
}

/// Whether a line that defines a macro holds something like a name of an include that leaves the folders.
fn defines_a_path_that_leaves(text: &[u8]) -> bool {
    for found in memmem::find_iter(text, b"define") {
        let directive = back_over_blank(text, found)
            .is_some_and(|mark| text[..mark].ends_with(b"#") || text[..mark].ends_with(b"%:"));
        let len = text[found..].iter().position(|&byte| byte == b'\n').unwrap_or(text.len() - found);
        if directive && leaves(&text[found..found + len]) {
            return true;
        }
    }
    false
}

/// Whether a text holds the start of a quoted or bracketed absolute path, or a step up.
pub(crate) fn leaves(text: &[u8]) -> bool {
    [&b"\"/"[..], b"</", b"../", b"/.."].iter().any(|mark| find(text, mark, 0).is_some())
}

impl Scan {
    fn push(&mut self, text: &[u8], start: usize, close: u8) {
        let rest = &text[start + 1..];
        let len = rest.iter().position(|&byte| byte == close || byte == b'\n');
        let Some(len) = len.filter(|&len| len > 0 && rest[len] == close) else { return };
        let include = Include::new(&rest[..len], close == b'"');
        if !self.includes.contains(&include) {
            self.includes.push(include);
        }
    }
}

/// Whether the word around `part` is a directive, or a `__has_include` with its bracket, and not just the word.
fn names_a_macro(text: &[u8], part: Range<usize>, open: bool, argument: usize) -> bool {
    let start = text[..part.start].iter().rposition(|&byte| !is_word(byte)).map_or(0, |at| at + 1);
    if asks(&text[start..part.end]) {
        return open && !wraps_the_question(text, start, argument);
    }
    if text[part.start] != PARTS[0][0] {
        return false;
    }
    // Back over blanks and comments to the mark, and from there to the start of the line.
    let Some(mark) = back_over_blank(text, part.start) else { return false };
    let before = if text[..mark].ends_with(b"#") {
        mark - 1
    } else if text[..mark].ends_with(b"%:") {
        mark - 2
    } else {
        return false;
    };
    back_over_blank(text, before).is_none_or(|at| text[at - 1] == b'\n')
}

/// Whether this `__has_include(X)` stands in `#define ..HAS_INCLUDE(X)`, or is that definition's own head: then the names
/// stand where the wrapper is used, and its own name makes sure that they are found there.
fn wraps_the_question(text: &[u8], word: usize, argument: usize) -> bool {
    let line = text[..word].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let end = text[line..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |len| line + len);
    let line = String::from_utf8_lossy(&text[line..end]);
    let Some(defined) = line.trim_start().strip_prefix('#').map(str::trim_start) else { return false };
    let Some((name, rest)) = defined.strip_prefix("define").and_then(|rest| rest.split_once('(')) else {
        return false;
    };
    let argument = &text[argument..skip_word(text, argument)];
    let parameters = rest.split(')').next().unwrap_or("");
    let takes_it = parameters.split(',').any(|parameter| parameter.trim().as_bytes() == argument);
    takes_it && asks(name.trim().as_bytes())
}

/// Whether a word is `__has_include` or a wrapper named after it.
fn asks(word: &[u8]) -> bool {
    [&b"has_include"[..], b"has_include_next", b"HAS_INCLUDE", b"HAS_INCLUDE_NEXT"]
        .iter()
        .any(|end| word.ends_with(end))
}

/// The end of the last thing before `at` that is neither blank nor comment; `None` at the start of the text.
fn back_over_blank(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let before = &text[..at];
        match before.last()? {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => at -= 1,
            b'/' if before.ends_with(b"*/") && at >= 4 => {
                let open = before[..at - 2].windows(2).rposition(|pair| pair == b"/*");
                at = open?;
            }
            _ => return Some(at),
        }
    }
}

/// Behind blanks, comments and brackets; whether there was a bracket.
fn skip_blank(text: &[u8], mut at: usize) -> (bool, usize) {
    let mut open = false;
    loop {
        match text.get(at) {
            Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => at += 1,
            Some(b'(') => {
                open = true;
                at += 1;
            }
            Some(b'/') if text[at..].starts_with(b"/*") => {
                at = find(text, b"*/", at + 2).map_or(text.len(), |end| end + 2);
            }
            _ => return (open, at),
        }
    }
}

/// Behind the rest of a word, such as the `_next` of `include_next`.
fn skip_word(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|&byte| is_word(byte)) {
        at += 1;
    }
    at
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Without spliced lines, as the preprocessor sees them.
fn spliced(text: &[u8]) -> Cow<'_, [u8]> {
    if find(text, b"\\\n", 0).is_none() && find(text, b"\\\r\n", 0).is_none() {
        return Cow::Borrowed(text);
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\' && tail.starts_with(b"\n") {
            rest = &tail[1..];
        } else if first == b'\\' && tail.starts_with(b"\r\n") {
            rest = &tail[2..];
        } else {
            joined.push(first);
            rest = tail;
        }
    }
    Cow::Owned(joined)
}

fn find(text: &[u8], word: &[u8], from: usize) -> Option<usize> {
    memmem::find(text.get(from..)?, word).map(|at| from + at)
}

/// A path from its bytes.
pub(super) fn path(name: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(OsStr::from_bytes(name))
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(OsStr::new(&*String::from_utf8_lossy(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, bool)> {
        let found = scan(text.as_bytes());
        found.includes.iter().map(|i| (i.name.to_str().unwrap().to_owned(), i.quoted)).collect()
    }

    #[test]
    fn every_way_to_write_an_include_is_found() {
        let ways = [
            "#include <a/b.h>",
            "  #  include\t<a/b.h> // why",
            "#include<a/b.h>",
            "#/* c */include/* d */ <a/b.h>",
            "%:include <a/b.h>",
            "#inc\\\nlude <a/b.h>",
            "#include \\\r\n <a/b.h>",
            "#include_next <a/b.h>",
            "#if __has_include(<a/b.h>)",
            "#if __has_include_next ( <a/b.h> )",
            "#if 0\n#include <a/b.h>\n#endif",
            "#define MY_HAS_INCLUDE(x) __has_include(x)\n#if MY_HAS_INCLUDE(<a/b.h>)",
        ];
        for way in ways {
            assert_eq!(names(way), [("a/b.h".to_owned(), false)], "{way}");
        }
        assert_eq!(
            names("#include \"a b.h\"\n#include <a b.h>"),
            [("a b.h".to_owned(), true), ("a b.h".to_owned(), false)]
        );
    }

    #[test]
    fn what_is_no_include_gives_no_name() {
        for text in [
            "int include;",
            "#include",
            "#include <unclosed\n>",
            "// include me",
            "x.includes(<",
            "#include \"\"",
        ] {
            assert_eq!(names(text), [], "{text}");
            assert_eq!((scan(text.as_bytes()).odd, scan(text.as_bytes()).by_macro), (None, false), "{text}");
        }
    }

    #[test]
    fn macros_that_name_paths_outside_the_folders_are_seen() {
        for text in [
            "#define N \"/etc/x.h\"",
            "#define N </etc/x.h>",
            "#  define N <../x.h>",
            "#define N \\\n \"a/../../x.h\"",
        ] {
            assert!(scan(text.as_bytes()).leaves, "{text}");
        }
        for text in ["#define N <a/x.h>", "#include \"../x.h\"", "x = \"/etc\";", "// <a>undefined</a>"] {
            assert!(!scan(text.as_bytes()).leaves, "{text}");
        }
    }

    #[test]
    fn names_from_macros_and_times_are_odd_and_only_as_directives() {
        for odd in [
            "#include NAME",
            "int x;\n # include /* c */ NAME\n",
            "%:include NAME",
            "#if __has_include(NAME)",
            "#define MY_HAS_INCLUDE(x) __has_include(x)\n#if MY_HAS_INCLUDE(NAME)",
            "#define ASK(x) __has_include(x)",
            "#define MY_HAS_INCLUDE(x) __has_include(y)",
            "#define My_Has_Include(x) __has_include(x)",
            "const char *t = __TIME__;",
            "??=include <x>",
        ] {
            let found = scan(odd.as_bytes());
            assert!(found.odd.is_some() || found.by_macro, "{odd}");
        }
        for even in [
            "// #include NAME",
            "#ifdef __has_include",
            "#if defined(__has_include)\n",
            "x = #include NAME",
            "/* include NAME */",
        ] {
            let found = scan(even.as_bytes());
            assert_eq!((found.odd, found.by_macro), (None, false), "{even}");
        }
    }
}
