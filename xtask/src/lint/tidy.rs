//! What no compiler checks: opening sentences, file sizes and names, inherited lints, paths of somebody's machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::floors::Room;

/// Code lines that one file may have.
const LIMIT_LINES: usize = 400;

/// Names that say nothing about what lives in the file or folder.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "base", "misc", "helpers", "types"];

/// The reasons for which a test may be left out of a plain run; the test verb knows each of them.
pub(crate) const IGNORE_REASONS: &[&str] =
    &["needs NVRTC", "needs a GPU", "needs Vulkan", "needs a recording", "long"];

/// A text file of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    /// Its path from the workspace root.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) text: String,
}

/// Every text file below `root`, in path order; build output, hidden folders of tools and fuzz corpora apart.
pub(crate) fn files(root: &Path) -> Vec<TextFile> {
    let mut files = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                let hidden =
                    name.starts_with('.') && !matches!(&*name, ".ci" | ".config" | ".cargo" | ".github");
                let fuzz = folder.file_name() == Some(OsStr::new("fuzz"));
                if !hidden && name != "target" && !(fuzz && matches!(&*name, "corpus" | "artifacts")) {
                    open.push(path);
                }
            } else if kind.is_ok_and(|kind| kind.is_file())
                && let Ok(text) = fs::read_to_string(&path)
            {
                files.push(TextFile { path: path.strip_prefix(root).unwrap_or(&path).to_path_buf(), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Every finding in one file.
pub(crate) fn findings(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    let shown = file.path.display();
    if let Some(name) = empty_name(&file.path) {
        findings.push(format!("{shown}: the name {name} does not say what lives there"));
    }
    if let Some(line) = home_path(&file.text) {
        findings.push(format!("{shown}:{line}: a path of somebody's machine"));
    }
    if file.path.extension() == Some(OsStr::new("rs")) {
        if !file.text.starts_with("//!") {
            findings.push(format!("{shown}: does not open with a //! sentence"));
        }
        let lines = code_lines(&file.text);
        if lines > LIMIT_LINES && !is_test_file(&file.path) {
            findings.push(format!("{shown}: {lines} code lines, at most {LIMIT_LINES}: split it by meaning"));
        }
        findings.extend(ignored_without_known_reason(&file.text).map(|line| {
            format!(
                "{shown}:{line}: an ignored test must say one of the reasons {}",
                IGNORE_REASONS.map_quoted()
            )
        }));
    }
    if file.path.extension() == Some(OsStr::new("rs"))
        && let Some(line) = skips_itself(&file.path, &file.text)
    {
        findings
            .push(format!("{shown}:{line}: a test that skips itself counts as passed; use #[ignore = ..]"));
    }
    if file.path.file_name() == Some(OsStr::new("Cargo.toml")) && !inherits_lints(&file.text) {
        findings.push(format!("{shown}: [lints] workspace = true is missing"));
    }
    findings
}

/// What the floor table asks of a crate's root file.
pub(crate) fn root_findings(room: &Room, path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (asked, attribute) in [(room.no_std, "#![no_std]"), (room.no_unsafe, "#![forbid(unsafe_code)]")] {
        if asked && !text.lines().any(|line| line.trim() == attribute) {
            findings.push(format!("{}: {} must say {attribute}", path.display(), room.name));
        }
    }
    findings
}

/// Lines that are neither blank nor comments, up to the test module at the end of the file.
pub(crate) fn code_lines(text: &str) -> usize {
    let (mut count, mut in_comment) = (0, false);
    for line in text.lines().take(test_module_line(text).unwrap_or(usize::MAX)).map(str::trim) {
        if in_comment || line.starts_with("/*") {
            in_comment = !line.contains("*/");
        } else if !line.is_empty() && !line.starts_with("//") {
            count += 1;
        }
    }
    count
}

/// Where the test module at the end of the file begins, from 0.
fn test_module_line(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let attribute = |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    let module = |line: &str| line.starts_with("mod ") && line.ends_with('{');
    (0..lines.len()).find(|&at| {
        let after = lines[at..].iter().find(|line| !line.starts_with("#["));
        attribute(lines[at]) && after.is_some_and(|line| module(line))
    })
}

/// Integration tests, benches and fuzz targets: what they hold is tests through and through.
fn is_test_file(path: &Path) -> bool {
    let mut folders = path.components().filter_map(|part| part.as_os_str().to_str()).collect::<Vec<_>>();
    folders.pop();
    let source = folders.iter().position(|&name| name == "src").unwrap_or(folders.len());
    folders[..source].iter().skip(1).any(|name| matches!(*name, "tests" | "benches"))
        || folders.contains(&"fuzz")
}

fn empty_name(path: &Path) -> Option<String> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Path::new(name).file_stem().and_then(OsStr::to_str),
        _ => None,
    });
    if path.extension() != Some(OsStr::new("rs")) {
        return None;
    }
    names.into_iter().find(|name| EMPTY_NAMES.contains(name)).map(str::to_owned)
}

/// The line of the first absolute path into a home folder.
fn home_path(text: &str) -> Option<usize> {
    let homes =
        [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!(":\\Us", "ers\\")];
    text.lines().position(|line| homes.iter().any(|home| starts_a_path(line, home))).map(|at| at + 1)
}

fn starts_a_path(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + home.len()..].chars().next();
        // `.../home/x` inside a longer path and `/home/` alone in prose are something else.
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '}' | ')' | '<' | '>'))
            && after.is_some_and(char::is_alphanumeric)
    })
}

/// The lines of `#[ignore]` attributes whose reason the test verb does not know.
fn ignored_without_known_reason(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let rest = line.trim().strip_prefix("#[ignore")?;
        let reason = rest.split('"').nth(1).unwrap_or_default();
        let known = IGNORE_REASONS.iter().any(|known| {
            reason.strip_prefix(known).is_some_and(|more| more.is_empty() || more.starts_with(':'))
        });
        (!known).then_some(at + 1)
    })
}

/// The first line of test code that prints that something is skipped: such a test returns, and counts as passed.
fn skips_itself(path: &Path, text: &str) -> Option<usize> {
    let tests_from = if is_test_file(path) { Some(0) } else { test_module_line(text) };
    let print = |line: &str| line.contains("println!(") && line.to_lowercase().contains(concat!("sk", "ip"));
    text.lines().enumerate().skip(tests_from?).find(|(_, line)| print(line)).map(|(at, _)| at + 1)
}

/// True when a manifest has no package, is a workspace of its own, or inherits the lints.
fn inherits_lints(manifest: &str) -> bool {
    let lines = || manifest.lines().map(str::trim);
    if lines().any(|line| line == "[workspace]") || !lines().any(|line| line == "[package]") {
        return true;
    }
    lines().any(|line| line == "lints.workspace = true")
        || lines().skip_while(|line| *line != "[lints]").nth(1).is_some_and(|line| line == "workspace = true")
}

trait Quoted {
    fn map_quoted(&self) -> String;
}

impl Quoted for [&str] {
    fn map_quoted(&self) -> String {
        self.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::floors::{HOUSE, room};
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        findings(&TextFile { path: path.into(), text: text.into() })
    }

    #[test]
    fn a_file_with_an_opening_sentence_and_a_telling_name_is_tidy() {
        assert_eq!(said("crates/x/src/ring.rs", "//! A ring.\n\nfn f() {}\n"), Vec::<String>::new());
    }

    #[test]
    fn a_file_without_an_opening_sentence_is_named() {
        let said = said("crates/x/src/ring.rs", "// A ring.\n");
        assert_eq!(said, ["crates/x/src/ring.rs: does not open with a //! sentence"]);
    }

    #[test]
    fn empty_names_are_refused_for_files_and_folders() {
        for path in ["crates/x/src/utils.rs", "crates/x/src/common/ring.rs", "crates/x/src/types.rs"] {
            assert_eq!(said(path, "//! X.\n").len(), 1, "{path}");
        }
        assert!(said("crates/x/src/typeset.rs", "//! X.\n").is_empty());
    }

    #[test]
    fn code_lines_leave_out_blanks_comments_docs_and_the_test_module() {
        let text = "//! X.\n\n/// Doc.\nfn f() {\n    // why\n    g(); // shown\n}\n/* a\nb */\n#[cfg(test)]\nmod tests {\n fn t() {}\n}\n";
        assert_eq!(code_lines(text), 3);
        // A test-only helper in the middle does not hide what follows it.
        assert_eq!(code_lines("#[cfg(test)]\nfn only() {}\nfn f() {}\n"), 3);
    }

    #[test]
    fn four_hundred_code_lines_pass_and_one_more_does_not() {
        let with = |lines: usize| format!("//! X.\n{}", "fn f() {}\n".repeat(lines));
        assert!(said("crates/x/src/a.rs", &with(400)).is_empty());
        assert_eq!(said("crates/x/src/a.rs", &with(401)).len(), 1);
        assert!(said("crates/x/tests/a.rs", &with(401)).is_empty());
        assert!(said("tests/tests/a.rs", &with(401)).is_empty());
        assert_eq!(said("tests/src/a.rs", &with(401)).len(), 1);
    }

    #[test]
    fn a_home_path_is_found_on_its_line_and_longer_paths_are_not() {
        let home = concat!("/ho", "me/ada/x");
        assert_eq!(
            said("docs/a.md", &format!("x\nsee {home}\n")),
            ["docs/a.md:2: a path of somebody's machine"]
        );
        assert!(said("docs/a.md", &format!("see target{home} and your /home folder\n")).is_empty());
    }

    #[test]
    fn an_ignored_test_needs_a_reason_that_the_test_verb_knows() {
        let test = |attribute: &str| format!("//! X.\n#[test]\n{attribute}\nfn t() {{}}\n");
        for good in [
            "#[ignore = \"needs NVRTC\"]",
            "#[ignore = \"needs a GPU: two of them\"]",
            "#[ignore = \"long\"]",
        ] {
            assert!(said("crates/x/tests/a.rs", &test(good)).is_empty(), "{good}");
        }
        for bad in ["#[ignore]", "#[ignore = \"flaky\"]", "#[ignore = \"longer\"]"] {
            assert_eq!(said("crates/x/tests/a.rs", &test(bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_test_that_prints_that_it_is_left_out_is_found_and_other_code_may_print_it() {
        let print = concat!("eprint", "ln!(\"no NVRTC, sk", "ipped\");");
        let inside = format!("//! X.\nfn f() {{}}\n#[cfg(test)]\nmod tests {{\n fn t() {{ {print} }}\n}}\n");
        assert_eq!(said("crates/x/src/a.rs", &inside).len(), 1);
        assert_eq!(said("crates/x/tests/a.rs", &format!("//! X.\nfn t() {{ {print} }}\n")).len(), 1);
        assert!(said("crates/x/src/a.rs", &format!("//! X.\nfn t() {{ {print} }}\n")).is_empty());
    }

    #[test]
    fn a_manifest_must_inherit_the_lints() {
        let head = "[package]\nname = \"x\"\n";
        assert_eq!(said("crates/x/Cargo.toml", head).len(), 1);
        assert_eq!(said("crates/x/Cargo.toml", &format!("{head}[lints]\nother = true\n")).len(), 1);
        assert!(said("crates/x/Cargo.toml", &format!("{head}[lints]\nworkspace = true\n")).is_empty());
        assert!(said("Cargo.toml", "[workspace]\nmembers = []\n").is_empty());
    }

    #[test]
    fn a_crate_that_must_not_use_std_or_unsafe_says_so_in_its_root() {
        let core = room(HOUSE, "cuforge-core").unwrap();
        let path = Path::new("crates/cuforge-core/src/lib.rs");
        assert_eq!(root_findings(core, path, "//! X.\n").len(), 1);
        assert!(root_findings(core, path, "//! X.\n#![no_std]\n").is_empty());
        let sim = room(HOUSE, "cuforge-sim").unwrap();
        assert_eq!(root_findings(sim, path, "//! X.\n// #![forbid(unsafe_code)]\n").len(), 1);
    }
}
