//! The command line of `cargo xtask gpu-test`.

use std::path::PathBuf;
use std::time::Duration;

use super::partition::Partition;
use super::sanitizer::Tool;
use crate::arguments::{Arguments, Item};
use crate::device::Wish;
use crate::ending::Stop;

pub(super) const USAGE: &str = "\
usage: cargo xtask gpu-test [--device auto|cuda|sim] [--require-gpu]
           [--sanitizer memcheck|racecheck|initcheck|synccheck] [--archive DIR | --from-archive DIR]
           [--junit FILE] [--json FILE] [--partition K/N] [--limit SECONDS] [FILTER]

Runs every test that needs a GPU, each in a process of its own, one at a time on each GPU.
--device D          cuda: a GPU and nothing else; sim: the simulated driver; auto (the default): a GPU, else simulated
--require-gpu       no GPU ends with 2, and a test that was skipped or did not run is a failure
--sanitizer T       under NVIDIA's compute-sanitizer; what it finds is a failure of the test;
                    soaks and tests that fault on purpose are left out
--archive DIR       runs nothing: fills DIR with all that a machine with a GPU needs, DIR/run.sh runs it there
--from-archive DIR  runs what is in DIR and builds nothing (what DIR/run.sh does)
--junit FILE        also writes JUnit XML
--json FILE         also writes JSON
--partition K/N     the K-th of N parts of the tests (K from 1), to spread them over machines
--limit SECONDS     how long one test may take (300 unless given, ten times that under a sanitizer)
FILTER              only tests whose name holds this text";

/// Seconds a test may take unless asked otherwise.
const LIMIT_SECONDS: u64 = 300;
/// How much slower a sanitizer may make a test.
const SANITIZER_FACTOR: u64 = 10;

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) device: Wish,
    pub(super) require_gpu: bool,
    pub(super) sanitizer: Option<Tool>,
    pub(super) archive: Option<PathBuf>,
    pub(super) from_archive: Option<PathBuf>,
    pub(super) junit: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) partition: Partition,
    pub(super) filter: Option<String>,
    limit_seconds: Option<u64>,
}

impl Wanted {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// What the verb does not know, and options that exclude each other.
    pub(super) fn read(arguments: Arguments) -> Result<Self, Stop> {
        let mut options = arguments.options(USAGE);
        let mut wanted = Self::default();
        while let Some(item) = options.next()? {
            match &item {
                Item::Word(text) if wanted.filter.is_none() => wanted.filter = Some(text.clone()),
                Item::Word(_) => return Err(options.unknown(&item)),
                Item::Option(name) => match name.as_str() {
                    "device" => wanted.device = options.value()?,
                    "require-gpu" => wanted.require_gpu = true,
                    "sanitizer" => wanted.sanitizer = Some(options.value()?),
                    "archive" => wanted.archive = Some(options.path()?),
                    "from-archive" => wanted.from_archive = Some(options.path()?),
                    "junit" => wanted.junit = Some(options.path()?),
                    "json" => wanted.json = Some(options.path()?),
                    "partition" => wanted.partition = options.value()?,
                    "limit" => wanted.limit_seconds = Some(options.value()?),
                    _ => return Err(options.unknown(&item)),
                },
            }
        }
        match &wanted {
            Self { archive: Some(_), from_archive: Some(_), .. } => {
                Err(options.refuse("--archive and --from-archive exclude each other"))
            }
            Self { device: Wish::Sim, require_gpu: true, .. } => {
                Err(options.refuse("--require-gpu and --device sim exclude each other"))
            }
            Self { device: Wish::Sim, sanitizer: Some(_), .. } => {
                Err(options.refuse("--sanitizer needs a GPU: it excludes --device sim"))
            }
            _ => Ok(wanted),
        }
    }

    /// What runs if there is no GPU: nothing where one was required or a sanitizer asked for.
    pub(super) fn wish(&self) -> Wish {
        let silicon = self.require_gpu || self.sanitizer.is_some();
        if silicon { Wish::Cuda } else { self.device }
    }

    /// How long one test may take.
    pub(super) fn limit(&self) -> Duration {
        let factor = if self.sanitizer.is_some() { SANITIZER_FACTOR } else { 1 };
        Duration::from_secs(self.limit_seconds.unwrap_or(LIMIT_SECONDS * factor))
    }
}
