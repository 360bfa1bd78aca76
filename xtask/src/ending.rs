//! How a verb ends: the exit codes that scripts depend on, and the error that stops a verb before its report.

use std::fmt;
use std::process::ExitCode;

/// How a verb ended. The numbers are a contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything that was asked for held.
    Good,
    /// Something failed.
    Failed,
    /// The required device was not there, or nothing ran.
    NothingRan,
    /// The device faulted.
    DeviceFault,
    /// The command line makes no sense.
    Usage,
    /// As a command that was run in somebody's name ended, with this code.
    OfCommand(u8),
}

impl Ending {
    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Failed => 1,
            Self::NothingRan => 2,
            Self::DeviceFault => 3,
            Self::Usage => 64,
            Self::OfCommand(code) => code,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}

/// Why a verb stopped early.
#[derive(Debug)]
pub(crate) struct Stop {
    ending: Ending,
    message: String,
}

impl Stop {
    /// Stops with `ending`, saying `message`.
    pub(crate) fn new(ending: Ending, message: impl Into<String>) -> Self {
        Self { ending, message: message.into() }
    }

    /// Stops because of the environment: a tool that cannot be run, a file that cannot be read.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Ending::Failed, message)
    }

    /// Stops because of the command line; `usage` is shown below the reason.
    pub(crate) fn usage(usage: &str, message: impl fmt::Display) -> Self {
        Self::new(Ending::Usage, format!("{message}\n\n{}", usage.trim_end()))
    }

    /// How the verb ended.
    pub(crate) const fn ending(&self) -> Ending {
        self.ending
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_scripts_depend_on() {
        let all = [Ending::Good, Ending::Failed, Ending::NothingRan, Ending::DeviceFault, Ending::Usage];
        assert_eq!(all.map(Ending::code), [0, 1, 2, 3, 64]);
    }

    #[test]
    fn a_usage_stop_shows_the_reason_before_the_usage() {
        let stop = Stop::usage("usage: x\n", "no verb named y");
        assert_eq!(stop.to_string(), "no verb named y\n\nusage: x");
        assert_eq!(stop.ending(), Ending::Usage);
    }
}
