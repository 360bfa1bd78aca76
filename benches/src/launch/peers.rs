//! Launches through other projects, in one Python process that is asked for bursts over a pipe.

use crate::peers::script;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The peers that are installed.
pub(super) struct Peers {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Name and version of each.
    ready: Vec<(String, String)>,
}

impl Peers {
    /// Starts them all; those that are absent are named with the reason.
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new("python3");
        command
            .arg(script("launch_peers.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut peers = Self { child, orders, answers, ready: Vec::new() };
        loop {
            let line = peers.line()?;
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
        writeln!(self.orders, "{name}")?;
        Ok(self.line()?.parse()?)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the peers ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
