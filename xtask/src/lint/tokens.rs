//! Rust source cut into the tokens that paths are made of; comments, literals and test-only items are left out.

/// One token that matters for paths and blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or keyword.
    Word(String),
    /// `::`.
    Path,
    /// Any other single character of punctuation.
    Mark(char),
}

/// A token and the line it stands on, from 1.
pub(crate) type Placed = (Token, usize);

/// The tokens of `source` without items that only tests see.
pub(crate) fn of(source: &str) -> Vec<Placed> {
    without_tests(&all(source))
}

fn all(source: &str) -> Vec<Placed> {
    let mut reader = Reader { rest: source, line: 1 };
    let mut tokens = Vec::new();
    while let Some(first) = reader.rest.chars().next() {
        let line = reader.line;
        if reader.skip_blank_or_comment(first) || reader.skip_literal(first) {
            continue;
        }
        if first.is_alphabetic() || first == '_' {
            let end =
                reader.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(reader.rest.len());
            let word = reader.rest[..end].to_owned();
            reader.advance(end);
            tokens.push((Token::Word(word), line));
        } else if reader.rest.starts_with("::") {
            reader.advance(2);
            tokens.push((Token::Path, line));
        } else {
            reader.advance(first.len_utf8());
            tokens.push((Token::Mark(first), line));
        }
    }
    tokens
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.rest.len());
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    fn skip_blank_or_comment(&mut self, first: char) -> bool {
        if first.is_whitespace() {
            self.advance(first.len_utf8());
        } else if self.rest.starts_with("//") {
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.advance(block_comment_bytes(self.rest));
        } else {
            return false;
        }
        true
    }

    /// Strings of every kind, characters and numbers. A lifetime is skipped too: it is part of no path.
    fn skip_literal(&mut self, first: char) -> bool {
        let prefix = self.rest.find(|c: char| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(self.rest.len());
        let after = &self.rest[prefix..];
        let raw = prefix <= 2 && self.rest[..prefix].ends_with('r');
        if raw && (after.starts_with('"') || after.starts_with('#')) {
            let hashes = after.find(|c| c != '#').unwrap_or(after.len());
            if after[hashes..].starts_with('"') {
                let close = format!("\"{}", "#".repeat(hashes));
                let body = &after[hashes + 1..];
                let end = body.find(&close).map_or(body.len(), |at| at + close.len());
                self.advance(prefix + hashes + 1 + end);
            } else {
                // `r#word`: the marks go, the word stays.
                self.advance(prefix + hashes);
            }
            return true;
        }
        if prefix <= 1 && after.starts_with('"') {
            self.advance(prefix + quoted_bytes(after, '"'));
            return true;
        }
        if prefix <= 1 && after.starts_with('\'') && self.rest[..prefix] != *"r" {
            let mut inner = after.chars().skip(1);
            let (one, two) = (inner.next(), inner.next());
            if one == Some('\\') || two == Some('\'') {
                self.advance(prefix + quoted_bytes(after, '\''));
                return true;
            }
            if prefix == 0 {
                let end =
                    after[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len() - 1);
                self.advance(1 + end);
                return true;
            }
        }
        if first.is_ascii_digit() {
            let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
            self.advance(end);
            return true;
        }
        false
    }
}

fn block_comment_bytes(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Drops every item under a `cfg` attribute that names `test` and does not negate it.
fn without_tests(tokens: &[Placed]) -> Vec<Placed> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = test_attribute(&tokens[at..]) {
            at += end;
            at += item_length(&tokens[at..]);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The length of a leading `#[cfg(.. test ..)]` or `#[test]`.
fn test_attribute(tokens: &[Placed]) -> Option<usize> {
    let mut it = tokens.iter().map(|(token, _)| token);
    if it.next() != Some(&Token::Mark('#')) || it.next() != Some(&Token::Mark('[')) {
        return None;
    }
    let mut depth = 1;
    let (mut names_test, mut negated) = (false, false);
    let head = it.next()?;
    if *head != Token::Word("cfg".into()) && *head != Token::Word("test".into()) {
        return None;
    }
    names_test |= *head == Token::Word("test".into());
    for (index, token) in it.enumerate() {
        match token {
            Token::Mark('[') => depth += 1,
            Token::Mark(']') => depth -= 1,
            Token::Word(word) if word == "test" => names_test = true,
            Token::Word(word) if word == "not" => negated = true,
            _ => {}
        }
        if depth == 0 {
            return (names_test && !negated).then_some(index + 4);
        }
    }
    None
}

/// The length of one item: up to its closing brace, or its semicolon outside braces.
fn item_length(tokens: &[Placed]) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (index, (token, _)) in tokens.iter().enumerate() {
        match token {
            Token::Mark('{') => braces += 1,
            Token::Mark('(' | '[') => others += 1,
            Token::Mark(')' | ']') => others = others.saturating_sub(1),
            Token::Mark('}') => {
                braces = braces.saturating_sub(1);
                if braces == 0 && others == 0 {
                    // `use a::{b};` closes its brace before its semicolon.
                    let semicolon = tokens.get(index + 1).is_some_and(|(next, _)| *next == Token::Mark(';'));
                    return index + 1 + usize::from(semicolon);
                }
            }
            Token::Mark(';') if braces == 0 && others == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        of(source)
            .into_iter()
            .filter_map(|(token, _)| if let Token::Word(word) = token { Some(word) } else { None })
            .collect()
    }

    #[test]
    fn comments_and_literals_are_no_paths() {
        let source = r####"
            // crate::a
            /* crate::b /* nested */ crate::c */
            let s = "crate::d \" crate::e"; let r = r#"crate::f " crate::g"#; let b = b"x"; let c = 'x'; let q = '\'';
            fn f<'a>(x: &'a str) {} let n = 0x1f_u32; let raw = r#type; last
        "####;
        assert_eq!(
            words(source),
            [
                "let", "s", "let", "r", "let", "b", "let", "c", "let", "q", "fn", "f", "x", "str", "let",
                "n", "let", "raw", "type", "last"
            ]
        );
    }

    #[test]
    fn test_only_items_are_left_out_and_the_rest_stays() {
        let source = "
            #[cfg(test)] use crate::only_in_tests::{a, b};
            use crate::real;
            #[cfg(not(test))] mod not_test;
            #[cfg(test)] mod fixture;
            #[cfg(all(test, unix))] mod tests { use super::*; fn f() { { crate::x(); } } }
            fn end() {}
        ";
        assert_eq!(
            words(source),
            ["use", "crate", "real", "cfg", "not", "test", "mod", "not_test", "fn", "end"]
        );
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let tokens = of("a \"x\ny\" /* \n */ b");
        assert_eq!(tokens, [(Token::Word("a".into()), 1), (Token::Word("b".into()), 3)]);
    }
}
