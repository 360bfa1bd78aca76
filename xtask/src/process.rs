//! Runs other programs: cargo with its output shown, and anything with its output kept and a time limit.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::workspace;

/// A cargo command in the workspace root, with the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    // Set for this program by the cargo that started it; build scripts of another package must not see them.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// As [`cargo`], of the nightly toolchain: for what stable cargo does not offer.
pub(crate) fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").current_dir(workspace::root()).stdin(Stdio::null());
    // Set by the toolchain that started this program; the other one must find its own.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// What a finished program left.
#[derive(Debug)]
pub(crate) struct Captured {
    /// How it ended; `None` when it was stopped at the limit.
    pub(crate) status: Option<ExitStatus>,
    /// Its process id.
    pub(crate) process: u32,
    /// Its standard output, not UTF-8 replaced.
    pub(crate) stdout: String,
    /// Its standard error, not UTF-8 replaced.
    pub(crate) stderr: String,
}

impl Captured {
    /// True when the program ended by itself with exit code 0.
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    pub(crate) fn ending(&self) -> String {
        self.status.map_or_else(|| "stopped at its time limit".to_owned(), |status| status.to_string())
    }
}

/// Runs `command` with both outputs kept, and kills it at `limit`.
///
/// # Errors
///
/// The program could not be started or waited for.
pub(crate) fn capture(command: Command, limit: Duration) -> io::Result<Captured> {
    capture_with(command, limit, |_| {})
}

/// As [`capture`], for a program that may start others: whatever it leaves behind is killed with it, so that a hung
/// grandchild keeps neither a device nor the pipes.
///
/// # Errors
///
/// The program could not be started or waited for.
pub(crate) fn capture_group(mut command: Command, limit: Duration) -> io::Result<Captured> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    capture_with(command, limit, kill_group)
}

fn capture_with(mut command: Command, limit: Duration, finish: impl Fn(u32)) -> io::Result<Captured> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let process = child.id();
    let status = wait(&mut child, limit);
    finish(process);
    Ok(Captured { status: status?, process, stdout: collect(stdout), stderr: collect(stderr) })
}

/// Kills what is left of a group. The group's id stays taken while one of its members lives, so nobody else is hit.
fn kill_group(leader: u32) {
    if cfg!(unix) {
        let group = format!("-{leader}");
        // Nothing left to kill is the usual case, and an error to `kill`.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Both pipes are read at once: a program that fills one of them while nobody reads it would never end.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn collect(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Captured {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        capture(command, limit).unwrap()
    }

    #[test]
    fn both_outputs_and_the_exit_code_are_kept() {
        let captured = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60));
        assert_eq!((captured.stdout.as_str(), captured.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(captured.status.unwrap().code(), Some(3));
        assert!(!captured.succeeded());
    }

    #[test]
    fn a_program_that_hangs_is_stopped_and_did_not_succeed() {
        let captured = shell("echo begun; exec sleep 600", Duration::from_millis(300));
        assert!(captured.status.is_none());
        assert!(!captured.succeeded());
        assert_eq!(captured.ending(), "stopped at its time limit");
    }

    #[test]
    fn what_a_hung_program_started_is_killed_with_it_and_holds_no_pipe() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let captured = capture_group(command, Duration::from_millis(300)).unwrap();
        assert!(captured.status.is_none());
        let grandchild = captured.stdout.trim().to_owned();
        let alive = || {
            Command::new("kill").args(["-0", &grandchild]).stderr(Stdio::null()).status().unwrap().success()
        };
        // A killed process stays listed until its new parent has collected it.
        let gone = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            !alive() || fs_state(&grandchild) == Some('Z')
        });
        assert!(gone, "process {grandchild} lives on");
    }

    fn fs_state(process: &str) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn a_program_that_fills_both_pipes_still_ends() {
        let script = "i=0; while [ $i -lt 3000 ]; do printf '%0100d\\n' $i; printf '%0100d\\n' $i >&2; i=$((i+1)); done";
        let captured = shell(script, Duration::from_secs(60));
        assert!(captured.succeeded());
        assert_eq!(captured.stdout.len(), 3000 * 101);
        assert_eq!(captured.stderr.len(), 3000 * 101);
    }
}
