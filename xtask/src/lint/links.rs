//! Markdown files: each link leads to a file and a heading that are there, each page of the book stands once in its table
//! of contents, and what a page shows in Rust is compiled.

use std::path::{Component, Path, PathBuf};

use super::tidy::TextFile;

/// The book.
const BOOK: &str = "docs";
/// Its table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The source that compiles what the pages show.
const EXAMPLES: &str = "tests/src/book.rs";
/// How a link to a file of the repository begins where a relative one would leave the book.
const HERE: &str = "https://github.com/cuforge/cuforge/blob/main/";

/// Every finding in the Markdown files of `files`, which lie below `root`.
pub(crate) fn findings(root: &Path, files: &[TextFile]) -> Vec<String> {
    let pages: Vec<&TextFile> = files
        .iter()
        .filter(|file| file.path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    let mut findings: Vec<String> = pages.iter().flat_map(|page| broken(root, page, &pages)).collect();
    findings.extend(contents(&pages));
    findings.extend(uncompiled(&pages, files));
    findings
}

/// The links of `page` that lead nowhere.
fn broken(root: &Path, page: &TextFile, pages: &[&TextFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for link in links(&page.text) {
        if let Some(file) = link.strip_prefix(HERE) {
            if !root.join(file).exists() {
                findings.push(format!("{}: the link to {link} leads nowhere", page.path.display()));
            }
            continue;
        }
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, heading) =
            link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
        let target = if file.is_empty() { page.path.clone() } else { beside(&page.path, file) };
        let here = page.path.display();
        if !root.join(&target).exists() {
            findings.push(format!("{here}: the link to {link} leads nowhere"));
        } else if let Some(heading) = heading {
            let there = pages.iter().find(|other| other.path == target);
            if there.is_some_and(|there| !headings(&there.text).iter().any(|name| name == heading)) {
                findings.push(format!("{here}: {} has no heading {heading}", target.display()));
            }
        }
    }
    findings
}

/// Pages of the book that its table of contents does not list, which nobody would find, or lists twice, which mdBook
/// does not take.
fn contents(pages: &[&TextFile]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|page| page.path == Path::new(SUMMARY)) else {
        return vec![format!("{SUMMARY} is missing")];
    };
    let listed: Vec<PathBuf> = links(&summary.text).map(|link| beside(&summary.path, link)).collect();
    let in_the_book = pages.iter().filter(|page| page.path.starts_with(BOOK) && page.path != summary.path);
    in_the_book
        .filter_map(|page| {
            let said = match listed.iter().filter(|path| **path == page.path).count() {
                0 => "not",
                1 => return None,
                _ => "more than once",
            };
            Some(format!("{}: {said} in {SUMMARY}", page.path.display()))
        })
        .collect()
}

/// Pages that show Rust which nothing compiles.
fn uncompiled(pages: &[&TextFile], files: &[TextFile]) -> Vec<String> {
    let compiled = files.iter().find(|file| file.path == Path::new(EXAMPLES));
    pages
        .iter()
        .filter(|page| page.text.lines().any(|line| line.starts_with("```rust")))
        .filter(|page| {
            let name = format!("\"../../{}\"", page.path.display());
            !compiled.is_some_and(|file| file.text.contains(&name))
        })
        .map(|page| format!("{}: its Rust is not compiled by {EXAMPLES}", page.path.display()))
        .collect()
}

/// `link` as it stands in `page`, from the root.
fn beside(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// The targets of `[text](target)`, outside code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        // Every second part stands between backticks.
        line.split('`').step_by(2).flat_map(|part| {
            part.split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', ' ']).next())
                .filter(|link| !link.is_empty())
        })
    })
}

/// The anchors of a page's headings, made as GitHub and mdBook make them.
fn headings(text: &str) -> Vec<String> {
    let lines = prose(text).filter(|line| line.starts_with('#'));
    lines.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// The lines of a page that are in no code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence && !line.starts_with("    ")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tidy;
    use super::*;
    use std::fs;

    #[test]
    fn links_in_code_are_none() {
        let text =
            "see [a](b.md) and `[c](d.md)`, [e](f.md#g)\n```\n[h](i.md)\n```\n    [j](k.md)\n[l](<>)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "f.md#g", "<>"]);
    }

    #[test]
    fn a_heading_has_the_anchor_that_browsers_follow() {
        assert_eq!(
            headings("# What `gpu-test` does, and why\n```\n# no\n```\n"),
            ["what-gpu-test-does-and-why"]
        );
    }

    #[test]
    fn a_link_to_nowhere_a_wrong_heading_a_page_without_one_place_and_uncompiled_code_are_found() {
        let root = std::env::temp_dir().join(format!("cuforge-links-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/how-to")).unwrap();
        fs::write(root.join("README.md"), "[a](docs/how-to/a.md#wrong) [b](b.md) [c](https://x.y)").unwrap();
        fs::create_dir_all(root.join("tests/src")).unwrap();
        fs::write(root.join(EXAMPLES), "b: \"../../docs/b.md\";").unwrap();
        fs::write(root.join("docs/SUMMARY.md"), "[a](how-to/a.md) [b](b.md) [again](b.md)").unwrap();
        fs::write(
            root.join("docs/how-to/a.md"),
            "# Right\n[up](../../README.md) [self](#right)\n```rust\n```\n",
        )
        .unwrap();
        fs::write(root.join("docs/b.md"), format!("```rust\n```\n[x]({HERE}README.md) [y]({HERE}gone.rs)"))
            .unwrap();
        fs::write(root.join("docs/how-to/lost.md"), "# Lost").unwrap();
        let found = findings(&root, &tidy::files(&root));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            [
                "README.md: docs/how-to/a.md has no heading wrong",
                "README.md: the link to b.md leads nowhere",
                &format!("docs/b.md: the link to {HERE}gone.rs leads nowhere"),
                "docs/b.md: more than once in docs/SUMMARY.md",
                "docs/how-to/lost.md: not in docs/SUMMARY.md",
                "docs/how-to/a.md: its Rust is not compiled by tests/src/book.rs",
            ]
        );
    }
}
