//! Environment variables of this project: each that the source names is in the reference.

use std::collections::BTreeSet;
use std::path::Path;

use super::tidy::TextFile;

/// The page that lists them.
const PAGE: &str = "docs/reference/environment.md";
/// Families with a page of their own, or private to a test.
const ELSEWHERE: &[&str] = &["CUFORGE_SIM_", "CUFORGE_TEST_", "CUFORGE_BENCH_"];

/// Every finding in `files`.
pub(crate) fn findings(files: &[TextFile]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == Path::new(PAGE)) else {
        return vec![format!("{PAGE} is missing")];
    };
    let sources =
        files.iter().filter(|file| file.path.extension().is_some_and(|extension| extension == "rs"));
    let named: BTreeSet<&str> = sources.flat_map(|file| literals(&file.text)).collect();
    named
        .into_iter()
        .filter(|name| !name.ends_with('_') && !ELSEWHERE.iter().any(|family| name.starts_with(family)))
        .filter(|name| !page.text.contains(&format!("`{name}`")))
        .map(|name| format!("{PAGE}: {name} is read by the source and not listed"))
        .collect()
}

/// The string literals that are a name of this project's variables and nothing else.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("\"CUFORGE_").filter_map(|(at, _)| {
        let name = text[at + 1..].split('"').next()?;
        name.bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            .then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_the_reference_does_not_list_is_found() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [
            file(PAGE, "| `CUFORGE_NVRTC` |"),
            // In two parts, so that this file does not name them.
            file(
                "a.rs",
                &[
                    "\"CUFORGE",
                    "_NVRTC\" \"CUFORGE",
                    "_NEW\" \"CUFORGE",
                    "_TEST_X\" \"CUFORGE",
                    "_ and more\"",
                ]
                .concat(),
            ),
        ];
        let name = ["CUFORGE", "_NEW"].concat();
        assert_eq!(findings(&files), [format!("{PAGE}: {name} is read by the source and not listed")]);
        assert_eq!(findings(&files[1..]).len(), 1);
    }
}
