//! Compilation in helper processes: real parallelism, a time limit that holds, and a crash that costs one request.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::engine::{Engine, Identity, Job, Limits, Output};
use crate::error::CompileError;
use crate::locate::Candidate;
use crate::wire;

/// How often a waiting caller looks at its cancel token.
const LOOK: Duration = Duration::from_millis(10);
/// A helper that does not greet in this time will not.
const GREETING: Duration = Duration::from_secs(60);

/// NVRTC in a bounded pool of helper processes (the program `cuforge-compile-helper` of this crate).
///
/// NVRTC serialises much of its work inside one process and takes the process down when it crashes. Here a compilation
/// that runs past its limit, is cancelled or crashes costs one helper, which is replaced. A job costs two messages over a
/// local socket (some 50 us for 10 KiB).
///
/// ```no_run
/// use std::sync::Arc;
/// use cuforge_compile::{Compiler, HelperPool, SearchPaths};
/// let found = SearchPaths::default().find();
/// let candidate = found.candidates.first().ok_or("no NVRTC here")?;
/// let pool = HelperPool::start("/usr/lib/cuforge/cuforge-compile-helper", candidate, 4)?;
/// let compiler = Compiler::with_engine(Arc::new(pool), candidate.includes.clone());
/// # let _ = compiler;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HelperPool {
    helper: PathBuf,
    arguments: Vec<OsString>,
    identity: Identity,
    archs: Vec<u32>,
    most: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// Idle and busy ones.
    live: usize,
}

/// A helper process and the socket to it. Dropping it ends the process.
#[derive(Debug)]
struct Worker {
    child: Child,
    stream: UnixStream,
}

impl HelperPool {
    /// Starts the first helper and learns from it who the compiler is. More are started when they are needed, `processes`
    /// at most; 0 means as many as there are cores.
    ///
    /// # Errors
    ///
    /// [`CompileError::Helper`] if the program cannot be started, does not greet, or cannot load NVRTC.
    pub fn start(
        helper: impl Into<PathBuf>,
        candidate: &Candidate,
        processes: usize,
    ) -> Result<Self, CompileError> {
        let helper = helper.into();
        let mut arguments: Vec<OsString> = vec![candidate.library.clone().into()];
        arguments.extend(candidate.builtins.clone().map(Into::into));
        let (worker, identity, archs) = Worker::start(&helper, &arguments)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let most = if processes == 0 { cores() } else { processes };
        let state = Mutex::new(State { idle: vec![worker], live: 1 });
        Ok(Self { helper, arguments, identity, archs, most, state, returned: Condvar::new() })
    }

    /// Process ids of the helpers that are idle now.
    pub fn idle_helpers(&self) -> Vec<u32> {
        self.state.lock().idle.iter().map(|worker| worker.child.id()).collect()
    }

    /// A helper, waiting for one if all are busy.
    fn worker(&self, limits: &Limits, deadline: Option<Instant>) -> Result<Worker, CompileError> {
        let mut state = self.state.lock();
        loop {
            while let Some(mut worker) = state.idle.pop() {
                // One that died while idle (killed by someone) is no fault of this job.
                if matches!(worker.child.try_wait(), Ok(None)) {
                    return Ok(worker);
                }
                state.live -= 1;
            }
            if state.live < self.most {
                state.live += 1;
                drop(state);
                let started = Worker::start(&self.helper, &self.arguments);
                return match started {
                    Ok((worker, identity, _)) if identity == self.identity => Ok(worker),
                    Ok((worker, identity, _)) => {
                        drop(worker);
                        self.lost();
                        Err(self.failed(format!("the compiler has changed to {identity}")))
                    }
                    Err(error) => {
                        self.lost();
                        Err(error)
                    }
                };
            }
            stopped(limits, deadline)?;
            self.returned.wait_for(&mut state, LOOK);
        }
    }

    fn lost(&self) {
        self.state.lock().live -= 1;
        self.returned.notify_one();
    }

    fn failed(&self, reason: String) -> CompileError {
        CompileError::Helper { helper: self.helper.clone(), reason }
    }
}

impl Engine for HelperPool {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn supported_archs(&self) -> &[u32] {
        &self.archs
    }

    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError> {
        let deadline = limits.time.map(|limit| Instant::now() + limit);
        let mut worker = self.worker(limits, deadline)?;
        let answer = match worker.ask(&wire::job(job), limits, deadline) {
            Ok(body) => wire::read_answer(&body, &self.helper),
            Err(Ended::Stopped(error)) => {
                drop(worker);
                self.lost();
                return Err(error);
            }
            Err(Ended::Broken(error)) => {
                let how = worker.ending();
                drop(worker);
                self.lost();
                return Err(self.failed(format!("died while compiling {}: {error}; {how}", job.name)));
            }
        };
        let Some(answer) = answer else {
            drop(worker);
            self.lost();
            return Err(self.failed("its answer cannot be read".to_owned()));
        };
        self.state.lock().idle.push(worker);
        self.returned.notify_one();
        answer
    }
}

/// Why a job ended without an answer.
enum Ended {
    /// Limit or cancellation.
    Stopped(CompileError),
    /// The helper is gone or says nonsense.
    Broken(io::Error),
}

impl Worker {
    fn start(helper: &Path, arguments: &[OsString]) -> Result<(Self, Identity, Vec<u32>), CompileError> {
        let failed = |reason: String| CompileError::Helper { helper: helper.to_path_buf(), reason };
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(format!("no socket: {error}")))?;
        // The socket is the helper's standard input, in both directions; what libraries print cannot disturb it.
        let child = Command::new(helper)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(format!("cannot be started: {error}")))?;
        let mut worker = Self { child, stream: ours };
        let deadline = Some(Instant::now() + GREETING);
        let limits = Limits { time: Some(GREETING), cancel: None };
        let hello = match worker.receive(&limits, deadline) {
            Ok(hello) => wire::read_hello(&hello),
            Err(Ended::Stopped(error)) => return Err(failed(format!("no greeting: {error}"))),
            Err(Ended::Broken(error)) => {
                return Err(failed(format!("no greeting: {error}; {}", worker.ending())));
            }
        };
        match hello {
            Some(Ok((identity, archs))) => Ok((worker, identity, archs)),
            Some(Err(reason)) => Err(failed(reason)),
            None => Err(failed("is not the helper of this version".to_owned())),
        }
    }

    fn ask(&mut self, job: &[u8], limits: &Limits, deadline: Option<Instant>) -> Result<Vec<u8>, Ended> {
        // A helper reads the whole job before it works, so this blocks only on one that hangs.
        self.stream.set_write_timeout(limits.time.or(Some(GREETING))).map_err(Ended::Broken)?;
        wire::send(&mut self.stream, job).map_err(Ended::Broken)?;
        self.receive(limits, deadline)
    }

    /// One frame, looking at limit and token between the pieces.
    fn receive(&mut self, limits: &Limits, deadline: Option<Instant>) -> Result<Vec<u8>, Ended> {
        let mut head = [0; 8];
        self.fill(&mut head, limits, deadline)?;
        let mut body = vec![0; wire::frame_len(head).map_err(Ended::Broken)?];
        self.fill(&mut body, limits, deadline)?;
        Ok(body)
    }

    fn fill(&mut self, buffer: &mut [u8], limits: &Limits, deadline: Option<Instant>) -> Result<(), Ended> {
        let mut filled = 0;
        while filled < buffer.len() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let pause = left.map_or(LOOK, |left| left.clamp(Duration::from_millis(1), LOOK));
            // Nothing to look at: wait as long as it takes.
            let endless = deadline.is_none() && limits.cancel.is_none();
            let timeout = if endless { None } else { Some(pause) };
            self.stream.set_read_timeout(timeout).map_err(Ended::Broken)?;
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Err(Ended::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => filled += n,
                Err(error) if is_pause(&error) => stopped(limits, deadline).map_err(Ended::Stopped)?,
                Err(error) => return Err(Ended::Broken(error)),
            }
        }
        Ok(())
    }

    /// How the process ended, in words.
    fn ending(&mut self) -> String {
        let _ = self.child.kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn stopped(limits: &Limits, deadline: Option<Instant>) -> Result<(), CompileError> {
    if limits.cancel.as_ref().is_some_and(crate::engine::CancelToken::is_cancelled) {
        return Err(CompileError::Cancelled);
    }
    match (limits.time, deadline) {
        (Some(limit), Some(at)) if Instant::now() >= at => Err(CompileError::TimedOut { limit }),
        _ => Ok(()),
    }
}

/// What the helper program does: greets, then compiles what it is sent, until the other side is gone.
///
/// # Errors
///
/// A failure of the socket.
#[doc(hidden)]
pub fn serve(mut stream: impl Read + Write, library: PathBuf, builtins: Option<PathBuf>) -> io::Result<()> {
    let candidate = Candidate {
        library,
        builtins,
        version: None,
        includes: Vec::new(),
        nvjitlink: None,
        origin: crate::places::Origin::Option,
    };
    let nvrtc = match crate::nvrtc::Nvrtc::load(&candidate) {
        Ok(nvrtc) => nvrtc,
        Err(error) => return wire::send(&mut stream, &wire::hello(Err(&error))),
    };
    wire::send(&mut stream, &wire::hello(Ok((nvrtc.identity(), nvrtc.supported_archs()))))?;
    while let Some(body) = wire::receive(&mut stream)? {
        let job = wire::read_job(&body).ok_or_else(|| io::Error::other("a job that cannot be read"))?;
        wire::send(&mut stream, &wire::answer(&nvrtc.run(&job, &Limits::default())))?;
    }
    Ok(())
}
