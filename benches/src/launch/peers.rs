//! Launches through other projects, in one Python process that is asked for bursts.

use std::error::Error;

use crate::peers::{Python, python};

/// The peers that are installed.
pub(super) struct Peers {
    process: Python,
    /// Name and version of each.
    ready: Vec<(String, String)>,
}

impl Peers {
    /// Starts them all; those that are absent are named with the reason.
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let mut peers = Self { process: Python::start(python("launch_peers.py"))?, ready: Vec::new() };
        loop {
            let line = peers.process.line()?;
            match line.split_once(' ') {
                Some(("ready", told)) => {
                    let (name, version) = told.split_once(' ').unwrap_or((told, ""));
                    peers.ready.push((name.to_owned(), version.to_owned()));
                }
                Some(("absent", why)) => println!("  not measured: {why}"),
                _ if line == "done" => return Ok(peers),
                _ => return Err(format!("the peers say {line:?}").into()),
            }
        }
    }

    pub(super) fn ready(&self) -> Vec<(String, String)> {
        self.ready.clone()
    }

    /// Nanoseconds of one launch, in one burst.
    pub(super) fn burst(&mut self, name: &str) -> Result<f64, Box<dyn Error>> {
        self.process.ask(name)
    }
}
