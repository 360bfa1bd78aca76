//! `PyTorch`'s CUDA graphs, in a Python process of their own that is asked over a pipe.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running `PyTorch`.
pub(super) struct Torch {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Torch {
    /// Starts it, where there is one.
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/torch_graph.py");
        let mut child = Command::new("python3")
            .arg("-c")
            .arg(include_str!("../../peers/torch_graph.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("python3 for {}: {error}", script.display()))?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut torch = Self { child, orders, answers, version: String::new() };
        let said = torch.line()?;
        torch.version = said.strip_prefix("ready ").ok_or_else(|| said.clone())?.to_owned();
        Ok(torch)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Nanoseconds of one step of an order that the script knows.
    pub(super) fn ask(&mut self, order: &str) -> Result<f64, Box<dyn Error>> {
        writeln!(self.orders, "{order}")?;
        Ok(self.line()?.parse()?)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("PyTorch's process ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
