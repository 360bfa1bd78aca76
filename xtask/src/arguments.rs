//! The command line of a verb: options in any order, `--name value` and `--name=value` alike, nothing ignored.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::{Arg, Parser, ValueExt};

use crate::ending::Stop;

/// What is left of a command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    words: VecDeque<OsString>,
}

/// One option or free word, as a verb sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// `--name`, without the dashes.
    Option(String),
    /// A word that belongs to no option.
    Word(String),
}

impl Arguments {
    /// The words after the program's name.
    pub(crate) fn from_command_line() -> Self {
        Self { words: env::args_os().skip(1).collect() }
    }

    /// Takes the first word as the verb; `--help` and `-h` are the verb `help`.
    pub(crate) fn verb(&mut self, usage: &str) -> Result<String, Stop> {
        let Some(first) = self.words.pop_front() else { return Err(Stop::usage(usage, "no verb given")) };
        let verb =
            first.into_string().map_err(|word| Stop::usage(usage, format!("no verb named {word:?}")))?;
        Ok(if verb == "--help" || verb == "-h" { "help".to_owned() } else { verb })
    }

    /// The words of a command behind `--`, none of which is an option of the verb.
    ///
    /// # Errors
    ///
    /// There is no `--`, or something before it.
    pub(crate) fn behind_the_dashes(mut self, usage: &str) -> Result<VecDeque<OsString>, Stop> {
        match self.words.pop_front() {
            Some(first) if first == "--" => Ok(self.words),
            Some(first) => Err(Stop::usage(usage, format!("{first:?} stands before --"))),
            None => Err(Stop::usage(usage, "no command given")),
        }
    }

    /// Starts reading the options of a verb whose usage text is `usage`.
    pub(crate) fn options(self, usage: &'static str) -> Options {
        Options { parser: Parser::from_args(self.words), usage }
    }
}

/// Reads a verb's options one by one.
#[derive(Debug)]
pub(crate) struct Options {
    parser: Parser,
    usage: &'static str,
}

impl Options {
    /// The next option or word; `None` at the end.
    ///
    /// # Errors
    ///
    /// A word that is not UTF-8, or a value given to an option that takes none.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Stop> {
        let usage = self.usage;
        let wrong = |error: lexopt::Error| Stop::usage(usage, error);
        Ok(match self.parser.next().map_err(wrong)? {
            None => None,
            Some(Arg::Long(name)) => Some(Item::Option(name.to_owned())),
            Some(Arg::Short(letter)) => Some(Item::Option(letter.to_string())),
            Some(Arg::Value(word)) => Some(Item::Word(word.string().map_err(wrong)?)),
        })
    }

    /// The value of the option just read, as a `T`.
    pub(crate) fn value<T: FromStr>(&mut self) -> Result<T, Stop>
    where
        T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    {
        let usage = self.usage;
        self.parser.value().and_then(|value| value.parse()).map_err(|error| Stop::usage(usage, error))
    }

    /// The value of the option just read, as a path.
    pub(crate) fn path(&mut self) -> Result<PathBuf, Stop> {
        let usage = self.usage;
        self.parser.value().map(PathBuf::from).map_err(|error| Stop::usage(usage, error))
    }

    /// The error for an item that the verb does not know.
    pub(crate) fn unknown(&self, item: &Item) -> Stop {
        match item {
            Item::Option(name) if name.chars().count() == 1 => {
                Stop::usage(self.usage, format!("unknown option -{name}"))
            }
            Item::Option(name) => Stop::usage(self.usage, format!("unknown option --{name}")),
            Item::Word(word) => Stop::usage(self.usage, format!("unexpected word {word:?}")),
        }
    }

    /// The error for a value that the verb does not take.
    pub(crate) fn refuse(&self, why: impl std::fmt::Display) -> Stop {
        Stop::usage(self.usage, why)
    }

    /// Ends a verb that takes no options at all.
    pub(crate) fn none(mut self) -> Result<(), Stop> {
        match self.next()? {
            None => Ok(()),
            Some(item) => Err(self.unknown(&item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;

    fn options(words: &[&str]) -> Options {
        Arguments { words: words.iter().map(OsString::from).collect() }.options("usage: t")
    }

    #[test]
    fn a_value_may_follow_an_equals_sign_or_a_space() {
        for words in [&["--seed=7"][..], &["--seed", "7"][..]] {
            let mut options = options(words);
            assert_eq!(options.next().unwrap(), Some(Item::Option("seed".into())));
            assert_eq!(options.value::<u64>().unwrap(), 7);
            assert_eq!(options.next().unwrap(), None);
        }
    }

    #[test]
    fn a_missing_or_malformed_value_is_a_usage_error() {
        for words in [&["--seed"][..], &["--seed", "seven"][..]] {
            let mut options = options(words);
            options.next().unwrap();
            assert_eq!(options.value::<u64>().unwrap_err().ending(), Ending::Usage);
        }
    }

    #[test]
    fn a_value_for_a_flag_is_not_dropped_in_silence() {
        let mut options = options(&["--long=yes"]);
        options.next().unwrap();
        assert_eq!(options.next().unwrap_err().ending(), Ending::Usage);
    }

    #[test]
    fn an_unknown_option_is_named() {
        let options = options(&[]);
        let stop = options.unknown(&Item::Option("quik".into()));
        assert!(stop.to_string().starts_with("unknown option --quik"));
    }

    #[test]
    fn a_command_stands_behind_dashes_and_keeps_its_options() {
        let behind = |words: &[&str]| {
            Arguments { words: words.iter().map(OsString::from).collect() }.behind_the_dashes("usage: t")
        };
        assert_eq!(behind(&["--", "cargo", "run", "--", "-x"]).unwrap(), ["cargo", "run", "--", "-x"]);
        for words in [&["cargo", "run"][..], &[][..]] {
            assert_eq!(behind(words).unwrap_err().ending(), Ending::Usage);
        }
    }

    #[test]
    fn no_words_at_all_is_a_usage_error_and_help_is_a_verb() {
        let mut none = Arguments { words: VecDeque::new() };
        assert_eq!(none.verb("usage: t").unwrap_err().ending(), Ending::Usage);
        let mut help = Arguments { words: ["-h".into()].into() };
        assert_eq!(help.verb("usage: t").unwrap(), "help");
    }
}
