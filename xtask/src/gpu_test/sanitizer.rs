//! NVIDIA's compute-sanitizer around a test: how it is started, and what its report says.
//!
//! It ends with 0 whatever it finds unless told otherwise, and with the test's own code if it could not attach; so the
//! exit code is forced, and a report without its summary line counts against the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

const PROGRAM: &str = "compute-sanitizer";
/// Where CUDA keeps it beside what is in `PATH`.
const FOLDERS: &[&str] = &["/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"];
/// The exit code of a process in which something was found.
const FOUND: &str = "86";
/// Findings kept of one test.
const KEPT: usize = 20;

/// Which of the sanitizer's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Memcheck,
    Racecheck,
    Initcheck,
    Synccheck,
}

impl FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Memcheck, Self::Racecheck, Self::Initcheck, Self::Synccheck]
            .into_iter()
            .find(|tool| tool.name() == text)
            .ok_or_else(|| format!("no sanitizer named {text}: memcheck, racecheck, initcheck or synccheck"))
    }
}

impl Tool {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Racecheck => "racecheck",
            Self::Initcheck => "initcheck",
            Self::Synccheck => "synccheck",
        }
    }

    /// A command that runs `program` under this tool, the report going to `log`.
    ///
    /// API errors are left out: the launcher asks for one parameter more than a kernel has, by design, and tests of
    /// errors make them. Processes that a test starts are left alone: some of them fault on purpose.
    pub(super) fn around(self, sanitizer: &Path, program: &Path, log: &Path) -> Command {
        let mut command = Command::new(sanitizer);
        command.args(["--tool", self.name(), "--report-api-errors", "no", "--error-exitcode", FOUND]);
        command.args(["--target-processes", "application-only", "--log-file"]).arg(log).arg(program);
        command
    }
}

/// The sanitizer of this machine.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// What a report says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// How many errors and hazards, by the closing summary; `None` if there is no summary.
    pub(super) count: Option<u64>,
    /// The first line of each, as far as they are kept.
    pub(super) lines: Vec<String>,
}

impl Findings {
    /// Reads the report in the file `log`.
    pub(super) fn read(log: &Path) -> Self {
        fs::read(log).map_or_else(|_| Self::default(), |bytes| Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> Self {
        let mut findings = Self::default();
        for line in text.lines() {
            // `========= TEXT`; details are indented further, and a rule of `=` alone separates findings.
            let Some(said) = line.strip_prefix("========= ") else { continue };
            if let Some((_, summary)) = said.split_once(" SUMMARY: ") {
                let number = summary.split_whitespace().next().and_then(|word| word.parse().ok());
                // With several processes there is a summary each.
                findings.count = findings.count.map_or(number, |sum| number.map(|one: u64| sum + one));
            } else if !said.starts_with([' ', '\t'])
                && !said.trim().is_empty()
                && !said.starts_with("COMPUTE-SANITIZER")
                && findings.lines.len() < KEPT
            {
                findings.lines.push(said.trim_end().to_owned());
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at stray+0x50
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f0000000000 is out of bounds
=========
========= ERROR SUMMARY: 1 error
";

    #[test]
    fn the_summary_counts_and_the_first_line_of_each_finding_is_kept() {
        let findings = Findings::parse(MEMCHECK);
        assert_eq!(findings.count, Some(1));
        assert_eq!(findings.lines, ["Invalid __global__ write of size 4 bytes"]);
        let race = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n";
        assert_eq!(Findings::parse(race).count, Some(2));
    }

    #[test]
    fn a_report_without_a_summary_is_no_clean_report() {
        assert_eq!(Findings::parse("========= COMPUTE-SANITIZER\n").count, None);
        assert_eq!(Findings::parse("").count, None);
        assert_eq!(
            Findings::parse("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n").count,
            Some(0)
        );
    }

    #[test]
    fn tools_go_by_their_names() {
        assert_eq!("racecheck".parse(), Ok(Tool::Racecheck));
        assert!("leakcheck".parse::<Tool>().is_err());
    }
}
