//! The process that candidates run in, and the side that starts it, asks it and ends it when it does not answer.
//!
//! One line a question (`check SCHEDULE`, `sample N SCHEDULE`), one line an answer (`right`, `times N N ..`,
//! `rejected WORD why`).

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use cuforge_core::{ContextError, ContextErrorKind, Schedule};
use cuforge_oracle::corpus::{self, Form};
use cuforge_oracle::{LocalTrials, Rejection, Trials};

use crate::arguments::{Arguments, Item};
use crate::device::{self, Wish};
use crate::ending::{Ending, Stop};
use crate::judge::{self, Code};

/// The hidden verb that a worker runs under.
pub(crate) const VERB: &str = "tune-worker";

const USAGE: &str = "usage: cargo xtask tune-worker KERNEL SEED --device cuda|sim";

/// How long one question may take before its process is ended: compiling, a cold start and sixty samples of a slow
/// candidate together stay far below.
const LIMIT: Duration = Duration::from_secs(60);

/// Answers questions from standard input until it ends.
pub(crate) fn run(arguments: Arguments) -> Result<Ending, Stop> {
    let mut options = arguments.options(USAGE);
    let (mut wish, mut words) = (Wish::default(), Vec::new());
    while let Some(item) = options.next()? {
        match item {
            Item::Option(name) if name == "device" => wish = options.value()?,
            Item::Word(word) => words.push(word),
            item => return Err(options.unknown(&item)),
        }
    }
    let [name, seed] = &words[..] else { return Err(options.refuse("a kernel and a seed are needed")) };
    let kernel = corpus::find(name).ok_or_else(|| options.refuse("no such kernel"))?;
    let seed: u64 = seed.parse().map_err(|error| options.refuse(error))?;
    let choice = device::choose(wish)?;
    let code = Code::find();
    let case = move |schedule: &Schedule| kernel.case(Form::CudaC, &kernel.real_shape(), schedule);
    let open = || {
        let failed = |stop: Stop| ContextError::new(ContextErrorKind::Unavailable, "open", stop.to_string());
        judge::context(&choice, &code).map_err(failed)
    };
    let mut trials = LocalTrials::new(case, open).with_seed(seed);
    for line in io::stdin().lines() {
        let line = line.map_err(|error| Stop::failed(format!("reading a question: {error}")))?;
        println!("{}", answer(&mut trials, &line));
    }
    Ok(Ending::Good)
}

fn answer(trials: &mut dyn Trials, line: &str) -> String {
    let unknown = || (Rejection::Unfit, format!("no question: {line}"));
    let answered = match line.split_once(' ') {
        Some(("check", schedule)) => match schedule.parse() {
            Ok(schedule) => trials.check(&schedule).map(|()| "right".to_owned()),
            Err(_) => Err(unknown()),
        },
        Some(("sample", rest)) => match rest.split_once(' ').map(|(n, text)| (n.parse(), text.parse())) {
            Some((Ok(samples), Ok(schedule))) => trials.sample(&schedule, samples).map(|times| {
                let times: Vec<String> = times.iter().map(u64::to_string).collect();
                format!("times {}", times.join(" "))
            }),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    };
    answered.unwrap_or_else(|(rejection, why)| {
        let one_line: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("rejected {} {one_line}", rejection.word())
    })
}

/// Trials in a worker process, started when it is needed and again after it died.
pub(crate) struct Workers {
    kernel: &'static str,
    device: String,
    seed: u64,
    limit: Duration,
    worker: Option<Worker>,
}

struct Worker {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may hang in a kernel; nothing that it holds outlives it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Workers {
    pub(crate) fn new(kernel: &'static str, device: &str, seed: u64) -> Self {
        Self { kernel, device: device.to_owned(), seed, limit: LIMIT, worker: None }
    }

    fn start(&self) -> io::Result<Worker> {
        let mut child = Command::new(env::current_exe()?)
            .args([VERB, self.kernel, &self.seed.to_string(), "--device", &self.device])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let taken = child.stdin.take().zip(child.stdout.take());
        let (questions, output) = taken.ok_or_else(|| io::Error::other("a worker without pipes"))?;
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, questions, answers })
    }

    fn ask(&mut self, question: &str) -> Result<String, (Rejection, String)> {
        let crashed = |error: &dyn std::fmt::Display| (Rejection::Crashed, error.to_string());
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.start().map_err(|error| crashed(&error))?,
        };
        writeln!(worker.questions, "{question}").map_err(|error| crashed(&error))?;
        let answer = match worker.answers.recv_timeout(self.limit) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err((Rejection::TimedOut, format!("no answer in {} s", self.limit.as_secs())));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = worker.child.wait().map_err(|error| crashed(&error))?;
                return Err((Rejection::Crashed, status.to_string()));
            }
        };
        let rejected = answer.strip_prefix("rejected ").and_then(|rest| {
            let (word, why) = rest.split_once(' ')?;
            Some((Rejection::of(word)?, why.to_owned()))
        });
        // After a fault a CUDA context is lost for the whole process: the next candidate gets a fresh one.
        if !matches!(rejected, Some((Rejection::Fault, _))) {
            self.worker = Some(worker);
        }
        rejected.map_or(Ok(answer), Err)
    }
}

impl Trials for Workers {
    fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)> {
        self.ask(&format!("check {schedule}")).map(drop)
    }

    fn sample(&mut self, schedule: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)> {
        let answer = self.ask(&format!("sample {samples} {schedule}"))?;
        let times = answer.strip_prefix("times ").map(|times| times.split(' ').map(str::parse).collect());
        match times {
            Some(Ok(times)) => Ok(times),
            _ => Err((Rejection::Crashed, format!("it answered `{answer}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Odd;

    impl Trials for Odd {
        fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)> {
            match schedule.workgroup_size[0] {
                1 => Err((Rejection::Wrong, "two\nlines".to_owned())),
                _ => Ok(()),
            }
        }

        fn sample(&mut self, _: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)> {
            Ok((0..u64::from(samples)).collect())
        }
    }

    #[test]
    fn every_question_gets_one_line() {
        let answer = |line: &str| answer(&mut Odd, line);
        assert_eq!(answer("check 32x1x1 items 1"), "right");
        assert_eq!(answer("check 1x1x1 items 1"), "rejected wrong two lines");
        assert_eq!(answer("sample 3 32x1x1 items 1 TILE=4"), "times 0 1 2");
        for odd in ["", "check", "check nothing", "sample x 1x1x1 items 1", "dance 1x1x1 items 1"] {
            assert!(answer(odd).starts_with("rejected unfit "), "{odd}");
        }
    }
}
