//! Peers in Python: where their scripts lie, and a process of one that is asked for times over a pipe.

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A script in a process of its own, which is killed when this is dropped.
pub(crate) struct Python {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts `command`, which is [`python`] with arguments.
    ///
    /// # Errors
    ///
    /// There is no Python.
    pub(crate) fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("python3: {error}"))?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Self { child, orders, answers })
    }

    /// The next line that it says. Blocks until there is one.
    ///
    /// # Errors
    ///
    /// It ended.
    pub(crate) fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("its process ended".into());
        }
        Ok(line.trim().to_owned())
    }

    /// The number, nanoseconds in all scripts, that it answers to `order`.
    ///
    /// # Errors
    ///
    /// It ended, or says something else.
    pub(crate) fn ask(&mut self, order: &str) -> Result<f64, Box<dyn Error>> {
        writeln!(self.orders, "{order}")?;
        let said = self.line()?;
        said.parse().map_err(|_| format!("it answers {said:?} to {order:?}").into())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // A process that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Python with the script of that name, which lies in the repository or in the archive that this program runs out of.
pub(crate) fn python(script: &str) -> Command {
    let folder = match env::var_os("CUFORGE_ARCHIVE") {
        Some(archive) => Path::new(&archive).join("peers"),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers"),
    };
    let mut command = Command::new("python3");
    command.arg(folder.join(script));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(script: &str) -> Python {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Python::start(command).unwrap()
    }

    #[test]
    fn an_answer_is_a_number_and_anything_else_and_an_end_are_told() {
        let mut peer = played("echo ready 1.0; read a; echo 12.5; read b; echo $b is what; read c");
        assert_eq!(peer.line().unwrap(), "ready 1.0");
        assert!((peer.ask("burst").unwrap() - 12.5).abs() < f64::EPSILON);
        assert!(peer.ask("burst").unwrap_err().to_string().contains("burst is what"));
        assert!(peer.ask("burst").unwrap_err().to_string().contains("ended"));
    }

    #[test]
    fn a_missing_program_is_told_and_every_script_that_is_asked_for_is_there() {
        assert!(Python::start(Command::new("no-such-program-anywhere")).is_err());
        for script in ["launch_peers.py", "torch_graph.py", "cuda_core_cache.py", "cupy_cache.py"] {
            let command = python(script);
            assert!(command.get_args().any(|path| Path::new(path).is_file()), "{script}");
        }
    }
}
