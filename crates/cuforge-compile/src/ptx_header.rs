//! What must be known of a PTX text before a driver sees it: version, target, address size, entry points.

use std::fmt;

use cuforge_core::{ComputeCapability, TargetVariant};

use crate::error::CompileError;

/// A PTX ISA version, such as 8.8.
///
/// ```
/// use cuforge_compile::PtxVersion;
/// assert!(PtxVersion::new(8, 10) > PtxVersion::new(8, 9));
/// assert_eq!(PtxVersion::new(7, 8).to_string(), "7.8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// The part before the dot.
    pub major: u16,
    /// The part behind the dot.
    pub minor: u16,
}

impl PtxVersion {
    /// From its two parts.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The head of a PTX module, with the lines that its parts stand on.
///
/// ```
/// use cuforge_compile::PtxHeader;
/// let text = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
/// let header = PtxHeader::parse(text)?;
/// assert_eq!((header.version.major, header.sm, header.entry_points.as_slice()), (7, 90, &["k".to_owned()][..]));
/// # Ok::<(), cuforge_compile::CompileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxHeader {
    /// `.version`.
    pub version: PtxVersion,
    /// 1-based line of the version.
    pub version_line: u32,
    /// Byte range of the version number in the text.
    pub version_span: (usize, usize),
    /// The number in `.target sm_90a`.
    pub sm: u16,
    /// The suffix of the target.
    pub variant: TargetVariant,
    /// 1-based line of the target.
    pub target_line: u32,
    /// `.address_size`, 64 if the module does not say.
    pub address_bits: u16,
    /// Kernels, in order.
    pub entry_points: Vec<String>,
}

impl PtxHeader {
    /// Reads the head and the names of the kernels; the instructions are not looked at.
    ///
    /// # Errors
    ///
    /// [`CompileError::Ptx`] with line and reason: no `.version` first, no `.target`, a malformed number or target, an
    /// address size other than 64, a zero byte.
    pub fn parse(text: &str) -> Result<Self, CompileError> {
        let mut tokens = Tokens { text, at: 0, line: 1 };
        let fail = |line: u32, reason: String| CompileError::Ptx { line, reason };
        if let Some(at) = text.bytes().position(|byte| byte == 0) {
            let line = 1 + text[..at].bytes().filter(|&byte| byte == b'\n').count();
            return Err(fail(u32::try_from(line).unwrap_or(u32::MAX), "zero byte in the text".to_owned()));
        }
        let first = tokens.next().ok_or_else(|| fail(1, "empty module".to_owned()))?;
        if first.text != ".version" {
            return Err(fail(first.line, format!("module starts with {:?}, not with .version", first.text)));
        }
        let number = tokens.next().ok_or_else(|| fail(first.line, ".version without a number".to_owned()))?;
        let version = parse_version(number.text)
            .ok_or_else(|| fail(number.line, format!("{:?} is no PTX version", number.text)))?;
        let target = tokens.next().filter(|token| token.text == ".target");
        let target = target.ok_or_else(|| fail(number.line, "no .target after .version".to_owned()))?;
        let name = tokens.next().ok_or_else(|| fail(target.line, ".target without a name".to_owned()))?;
        let (sm, variant) = parse_target(name.text)
            .ok_or_else(|| fail(name.line, format!("{:?} is no target of the form sm_90a", name.text)))?;

        let mut header = Self {
            version,
            version_line: number.line,
            version_span: (number.start, number.start + number.text.len()),
            sm,
            variant,
            target_line: name.line,
            address_bits: 64,
            entry_points: Vec::new(),
        };
        while let Some(token) = tokens.next() {
            if token.text == ".address_size" {
                let size = tokens.next();
                if size.as_ref().map(|size| size.text) != Some("64") {
                    let got = size.map_or("nothing", |size| size.text);
                    return Err(fail(token.line, format!("address size {got}, only 64 is supported")));
                }
            } else if token.text == ".entry" {
                let name = tokens.next().filter(|name| is_identifier(name.text));
                let name = name.ok_or_else(|| fail(token.line, ".entry without a name".to_owned()))?;
                header.entry_points.push(name.text.to_owned());
            }
        }
        Ok(header)
    }

    /// The target as PTX writes it.
    pub fn target(&self) -> String {
        let suffix = match self.variant {
            TargetVariant::Base => "",
            TargetVariant::Architecture => "a",
            TargetVariant::Family => "f",
        };
        format!("sm_{}{suffix}", self.sm)
    }

    /// Why code for this target cannot run on `device`, if it cannot: base targets run on every later capability, `a`
    /// targets on exactly theirs, `f` targets on later ones of their major version.
    pub fn unfit(&self, device: ComputeCapability) -> Option<&'static str> {
        let own = ComputeCapability::from_sm(self.sm);
        match self.variant {
            TargetVariant::Base if own > device => Some("the target is newer than the device"),
            TargetVariant::Architecture if own != device => {
                Some("an `a` target runs on exactly its own capability")
            }
            TargetVariant::Family if own.major != device.major || own > device => {
                Some("an `f` target runs on later capabilities of its own major version only")
            }
            _ => None,
        }
    }
}

struct Token<'a> {
    text: &'a str,
    start: usize,
    line: u32,
}

/// Words and single marks; comments and strings are skipped, strings as one token.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        self.skip_blank();
        let (start, line) = (self.at, self.line);
        let &first = bytes.get(start)?;
        if first == b'"' {
            self.at += 1;
            self.skip_until(|rest| rest[0] == b'"', 1);
        } else if is_word(first) {
            while self.at < bytes.len() && is_word(bytes[self.at]) {
                self.at += 1;
            }
        } else {
            // A whole character, so that the slice below stays on a boundary.
            self.at += self.text[start..].chars().next().map_or(1, char::len_utf8);
        }
        Some(Token { text: &self.text[start..self.at], start, line })
    }

    fn skip_blank(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            if rest[0] == b'\n' {
                self.line += 1;
                self.at += 1;
            } else if rest[0].is_ascii_whitespace() {
                self.at += 1;
            } else if rest.starts_with(b"//") {
                self.skip_until(|rest| rest[0] == b'\n', 0);
            } else if rest.starts_with(b"/*") {
                self.at += 2;
                self.skip_until(|rest| rest.starts_with(b"*/"), 2);
            } else {
                return;
            }
        }
    }

    /// Moves to the first place where `end` holds and `past` bytes behind it, counting lines.
    fn skip_until(&mut self, end: impl Fn(&[u8]) -> bool, past: usize) {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            if end(&bytes[self.at..]) {
                self.at += past;
                return;
            }
            self.line += u32::from(bytes[self.at] == b'\n');
            self.at += 1;
        }
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'%')
}

fn is_identifier(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%'))
}

fn parse_version(text: &str) -> Option<PtxVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(PtxVersion { major: digits(major)?, minor: digits(minor)? })
}

/// `sm_90`, `sm_90a`, `sm_100f`.
pub(crate) fn parse_target(text: &str) -> Option<(u16, TargetVariant)> {
    let rest = text.strip_prefix("sm_")?;
    let (number, variant) = match rest.strip_suffix(['a', 'f']) {
        Some(number) if rest.ends_with('a') => (number, TargetVariant::Architecture),
        Some(number) => (number, TargetVariant::Family),
        None => (rest, TargetVariant::Base),
    };
    Some((digits(number)?, variant))
}

fn digits(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "//\n// made by hand\n/* two\nlines */\n.version 8.0\n.target sm_90a, debug\n.address_size 64\n";

    #[test]
    fn comments_lines_and_entries_are_read() {
        let text = format!(
            "{HEAD}.func helper() {{ ret; }}\n// .entry no\n.visible .entry _Z1kPf(.param .u64 p)\n{{ ret; }}\n.entry second() {{ }}"
        );
        let header = PtxHeader::parse(&text).unwrap();
        assert_eq!((header.version, header.version_line), (PtxVersion::new(8, 0), 5));
        assert_eq!((header.target().as_str(), header.target_line), ("sm_90a", 6));
        assert_eq!(header.entry_points, ["_Z1kPf", "second"]);
        assert_eq!(&text[header.version_span.0..header.version_span.1], "8.0");
    }

    #[test]
    fn each_broken_head_is_an_error_with_its_line() {
        let cases = [
            ("", 1, "empty module"),
            ("\n\n.target sm_90\n", 3, "not with .version"),
            (".version 8\n.target sm_90", 1, "no PTX version"),
            (".version 8.x\n.target sm_90", 1, "no PTX version"),
            (".version 8.0\n\n.entry k", 1, "no .target"),
            (".version 8.0\n.target\n compute_90", 3, "no target"),
            (".version 8.0\n.target sm_90\n.address_size 32\n", 3, "address size 32"),
            (".version 8.0\n.target sm_90\n\n.visible .entry\n(", 4, "without a name"),
            (".version 8.0\n.target sm_90\nx\0", 3, "zero byte"),
            ("ü", 1, "not with .version"),
        ];
        for (text, want_line, want) in cases {
            match PtxHeader::parse(text) {
                Err(CompileError::Ptx { line, reason }) => {
                    assert_eq!(line, want_line, "{text:?}: {reason}");
                    assert!(reason.contains(want), "{text:?}: {reason}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_target_runs_only_where_its_suffix_allows() {
        let header = |target: &str| PtxHeader::parse(&format!(".version 9.0\n.target {target}\n")).unwrap();
        let fits = |target: &str, sm| header(target).unfit(ComputeCapability::from_sm(sm)).is_none();
        assert!(fits("sm_75", 90) && fits("sm_90", 90) && fits("sm_90", 120) && !fits("sm_90", 89));
        assert!(fits("sm_90a", 90) && !fits("sm_90a", 100));
        assert!(
            fits("sm_100f", 100) && fits("sm_100f", 103) && !fits("sm_100f", 120) && !fits("sm_103f", 100)
        );
    }
}
