//! Finds files of one crate that import each other, straight or in a ring.
//!
//! Names are followed through re-exports to the file that defines them. What cannot be resolved that way (names made by
//! macros or brought in by a glob) gives no finding, so a finding is always real.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::tokens::{self, Placed, Token};

/// Every ring of imports among the files below the crate root file `root`, one sentence a ring.
///
/// `read` gives the text of a file, or `None` where there is no such file.
pub(crate) fn rings(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut tree = Tree { read, files: Vec::new(), modules: Vec::new(), uses: Vec::new() };
    tree.add_file(root.to_path_buf(), None, "");
    let edges = tree.edges();
    let mut found = BTreeMap::new();
    for start in 0..tree.files.len() {
        if let Some(ring) = shortest_ring(&edges, start) {
            let members: BTreeSet<usize> = ring.iter().copied().collect();
            found.entry(members).or_insert(ring);
        }
    }
    found.values().map(|ring| tree.sentence(ring, &edges)).collect()
}

/// From one file to each file it imports, with the line of the first such import.
type Edges = BTreeMap<usize, BTreeMap<usize, usize>>;

fn shortest_ring(edges: &Edges, start: usize) -> Option<Vec<usize>> {
    let mut from = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for &next in edges.get(&file)?.keys() {
            if next == start {
                let mut ring = vec![file];
                while let Some(&previous) = from.get(ring.last()?) {
                    ring.push(previous);
                }
                ring.reverse();
                return Some(ring);
            }
            if edges.contains_key(&next) && !from.contains_key(&next) {
                from.insert(next, file);
                open.push_back(next);
            }
        }
    }
    None
}

struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
    imported: BTreeMap<String, Vec<String>>,
}

struct Use {
    module: usize,
    path: Vec<String>,
    line: usize,
}

struct Tree<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    files: Vec<PathBuf>,
    modules: Vec<Module>,
    uses: Vec<Use>,
}

impl Tree<'_> {
    fn sentence(&self, ring: &[usize], edges: &Edges) -> String {
        let steps: Vec<String> = ring
            .iter()
            .enumerate()
            .map(|(at, from)| {
                let to = ring[(at + 1) % ring.len()];
                let line = edges.get(from).and_then(|to_line| to_line.get(&to)).copied().unwrap_or(0);
                format!("{}:{line} imports {}", self.files[*from].display(), self.files[to].display())
            })
            .collect();
        format!("{}: imports must point one way", steps.join(", "))
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for file in 0..self.files.len() {
            edges.insert(file, BTreeMap::new());
        }
        for import in &self.uses {
            let from = self.modules[import.module].file;
            if let Some(to) = self.resolve(import.module, &import.path, 16)
                && to != from
            {
                edges.entry(from).or_default().entry(to).or_insert(import.line);
            }
        }
        edges
    }

    /// The file that defines what `path` names, seen from `module`.
    fn resolve(&self, module: usize, path: &[String], fuel: usize) -> Option<usize> {
        let fuel = fuel.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.modules[module].parent?,
            name => {
                if !self.modules[module].children.contains_key(name)
                    && !self.modules[module].imported.contains_key(name)
                {
                    return None;
                }
                rest = path;
                module
            }
        };
        while let Some((name, after)) = rest.split_first() {
            let here = &self.modules[at];
            if name == "super" {
                at = here.parent?;
            } else if name == "self" || name == "*" {
                return Some(here.file);
            } else if let Some(&child) = here.children.get(name) {
                at = child;
            } else if let Some(target) = here.imported.get(name) {
                let full: Vec<String> = target.iter().chain(after).cloned().collect();
                return self.resolve(at, &full, fuel);
            } else {
                return here.defined.contains(name).then_some(here.file);
            }
            rest = after;
        }
        Some(self.modules[at].file)
    }

    fn add_file(&mut self, path: PathBuf, parent: Option<usize>, name: &str) {
        let Some(text) = (self.read)(&path) else { return };
        let file = self.files.len();
        self.files.push(path);
        let module = self.add_module(file, parent, name);
        self.scan(&tokens::of(&text), module);
    }

    fn add_module(&mut self, file: usize, parent: Option<usize>, name: &str) -> usize {
        let module = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            defined: BTreeSet::new(),
            imported: BTreeMap::new(),
        });
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.to_owned(), module);
        }
        module
    }

    fn scan(&mut self, tokens: &[Placed], module: usize) {
        let (mut module, mut outer, mut depth) = (module, Vec::new(), 0_usize);
        let mut at = 0;
        while let Some((token, line)) = tokens.get(at) {
            let next = tokens.get(at + 1).map(|(token, _)| token);
            match (token, next) {
                (Token::Mark('{'), _) => depth += 1,
                (Token::Mark('}'), _) => {
                    depth = depth.saturating_sub(1);
                    if outer.last().is_some_and(|&(_, at)| at == depth) {
                        module = outer.pop().map_or(module, |(module, _)| module);
                    }
                }
                (Token::Word(word), Some(Token::Word(name))) if word == "mod" => {
                    at += 2;
                    if tokens.get(at).is_some_and(|(token, _)| *token == Token::Mark('{')) {
                        outer.push((module, depth));
                        depth += 1;
                        module = self.add_module(self.modules[module].file, Some(module), name);
                    } else {
                        self.add_submodule_file(module, name);
                    }
                }
                (Token::Word(word), _) if word == "use" => {
                    let reexport = is_public(&tokens[..at]);
                    at += 1;
                    self.scan_use(tokens, &mut at, module, Vec::new(), (reexport, *line));
                }
                (Token::Word(word), Some(Token::Word(name))) if DEFINES.contains(&word.as_str()) => {
                    self.modules[module].defined.insert(name.clone());
                }
                (Token::Word(_), Some(Token::Path)) if !continues(&tokens[..at]) => {
                    let path = plain_path(tokens, &mut at);
                    self.uses.push(Use { module, path, line: *line });
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn add_submodule_file(&mut self, module: usize, name: &str) {
        let file = &self.files[self.modules[module].file];
        let folder = file.parent().unwrap_or(Path::new(""));
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let below =
            if matches!(stem, "lib" | "main" | "mod") { folder.to_path_buf() } else { folder.join(stem) };
        for path in [below.join(format!("{name}.rs")), below.join(name).join("mod.rs")] {
            if (self.read)(&path).is_some() {
                self.add_file(path, Some(module), name);
                return;
            }
        }
    }

    /// One use tree, `at` standing on its first token; leaves `at` on the token after it.
    fn scan_use(
        &mut self,
        tokens: &[Placed],
        at: &mut usize,
        module: usize,
        mut path: Vec<String>,
        how: (bool, usize),
    ) {
        while let Some((token, _)) = tokens.get(*at) {
            match token {
                Token::Word(word) if word == "as" => {
                    let alias = match tokens.get(*at + 1) {
                        Some((Token::Word(alias), _)) => alias.clone(),
                        _ => String::new(),
                    };
                    *at += 2;
                    self.finish_use(module, path, &alias, how);
                    return;
                }
                Token::Word(word) => path.push(word.clone()),
                Token::Mark('*') => path.push("*".to_owned()),
                Token::Path => {}
                Token::Mark('{') => {
                    *at += 1;
                    while let Some((token, _)) = tokens.get(*at) {
                        match token {
                            Token::Mark('}') => {
                                *at += 1;
                                return;
                            }
                            Token::Mark(',') => *at += 1,
                            _ => self.scan_use(tokens, at, module, path.clone(), how),
                        }
                    }
                    return;
                }
                Token::Mark(_) => break,
            }
            *at += 1;
        }
        let name = match path.last() {
            Some(last) if last == "self" && path.len() > 1 => path[path.len() - 2].clone(),
            Some(last) => last.clone(),
            None => return,
        };
        self.finish_use(module, path, &name, how);
    }

    fn finish_use(&mut self, module: usize, path: Vec<String>, name: &str, (reexport, line): (bool, usize)) {
        if !name.is_empty() && name != "*" && name != "_" {
            self.modules[module].imported.insert(name.to_owned(), path.clone());
        }
        // A re-export hands a name on; the file does not itself rely on it.
        if !reexport {
            self.uses.push(Use { module, path, line });
        }
    }
}

const DEFINES: &[&str] = &["struct", "enum", "trait", "fn", "type", "const", "static", "union"];

fn is_public(before: &[Placed]) -> bool {
    let mut words = before.iter().rev().map(|(token, _)| token);
    match words.next() {
        Some(Token::Word(word)) => word == "pub",
        Some(Token::Mark(')')) => {
            words.find(|token| **token == Token::Mark('('));
            words.next() == Some(&Token::Word("pub".to_owned()))
        }
        _ => false,
    }
}

/// True when the next word goes on a path or a field access, or belongs to a macro's `$crate`.
fn continues(before: &[Placed]) -> bool {
    matches!(before.last(), Some((Token::Path | Token::Mark('.' | '$'), _)))
}

/// The words of a path outside `use`, `at` standing on its first word; leaves `at` after it.
fn plain_path(tokens: &[Placed], at: &mut usize) -> Vec<String> {
    let mut path = Vec::new();
    while let Some((Token::Word(word), _)) = tokens.get(*at) {
        path.push(word.clone());
        *at += 1;
        if !matches!(tokens.get(*at), Some((Token::Path, _))) {
            break;
        }
        *at += 1;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        rings(Path::new("lib.rs"), &read)
    }

    #[test]
    fn one_way_imports_are_no_ring() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn two_files_that_import_each_other_are_found_whatever_the_spelling() {
        for (first, second) in [
            ("use crate::b::B; pub struct A;", "use crate::a::A; pub struct B;"),
            (
                "use super::b::{self, B}; pub struct A; pub fn g() {}",
                "pub struct B; fn f() { super::a::g(); }",
            ),
            ("use crate::b; pub fn g() { b::h(); }", "use crate::{a::g as other}; pub fn h() {}"),
            ("use crate::b::*; pub struct A;", "use crate::a::*;"),
        ] {
            let rings = found(&[("lib.rs", "mod a; mod b;"), ("a.rs", first), ("b.rs", second)]);
            assert_eq!(rings.len(), 1, "{first} / {second}");
            assert!(rings[0].contains("a.rs:1 imports b.rs") && rings[0].contains("b.rs:1 imports a.rs"));
        }
    }

    #[test]
    fn a_ring_of_three_is_found_once() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn a_name_that_the_root_only_hands_on_leads_to_its_own_file() {
        let files = [
            ("lib.rs", "mod a; mod error; use a::A; pub use error::Error; fn f(_: A) {}"),
            ("a.rs", "use crate::Error; pub struct A(Error);"),
            ("error.rs", "pub enum Error {}"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn a_child_that_uses_what_its_parent_defines_while_the_parent_uses_it_is_a_ring() {
        let files = [
            ("lib.rs", "mod ring;"),
            ("ring.rs", "mod slot; use slot::Slot; pub struct Limit; fn f(_: Slot) {}"),
            ("ring/slot.rs", "use super::Limit; pub struct Slot(Limit);"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; use super::*; }"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        let files = [
            ("lib.rs", "mod a; pub mod inner { pub use crate::a::A; pub struct X; } fn f() {}"),
            ("a.rs", "use crate::inner::X; pub struct A(X);"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
