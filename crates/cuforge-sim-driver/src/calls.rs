//! The books on driver calls: counts, planned failures and delays, the trace.

use parking_lot::Mutex;
use std::fmt::{self, Debug, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::codes::Code;
use crate::settings;

/// One function of the driver and what happened to it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) name: &'static str,
    /// When it asks for `cuInit`, and whether it answers a lost device's code.
    pub(crate) needs: Needs,
    /// The CUDA version that brought it, as `cuDriverGetVersion` counts.
    pub(crate) since: i32,
    calls: AtomicU64,
}

/// What must hold for a function to do its work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// `cuInit`.
    Initialised,
    /// `cuInit`, and that the current context's device is not lost.
    Live,
}

/// Calls of all functions.
static ALL: AtomicU64 = AtomicU64::new(0);
/// Whether any rule or trace is set: one relaxed load is what a call costs without.
static WATCHED: AtomicBool = AtomicBool::new(false);
static RULES: Mutex<Vec<Rule>> = Mutex::new(Vec::new());
static TRACE: Mutex<Option<File>> = Mutex::new(None);

/// What is planned for some calls of a function.
#[derive(Clone, Debug)]
struct Rule {
    function: String,
    /// Number of the first call, from 1, and of the first that it is over for.
    from: u64,
    until: u64,
    plan: Plan,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// It answers this and does nothing.
    Fail(Code),
    /// It takes that much longer.
    Delay(Duration),
    /// The device is lost with this code before it.
    Lose(Code),
}

impl Site {
    pub(crate) const fn new(name: &'static str, needs: Needs, since: i32) -> Self {
        Self { name, needs, since, calls: AtomicU64::new(0) }
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Counts a call and gives what is planned for it.
    pub(crate) fn enter(&self) -> Option<Plan> {
        ALL.fetch_add(1, Relaxed);
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        if !WATCHED.load(Relaxed) {
            return None;
        }
        let rules = RULES.lock();
        let fits = |rule: &&Rule| rule.function == self.name && (rule.from..rule.until).contains(&number);
        // The latest word counts.
        rules.iter().rev().find(fits).map(|rule| rule.plan)
    }
}

/// Calls of all functions so far.
pub(crate) fn all() -> u64 {
    ALL.load(Relaxed)
}

/// Plans something for the calls of a function from its `from`-th on (counted from its first), `count` of them or, for
/// 0, all.
pub(crate) fn plan(function: &str, from: u64, count: u64, plan: Plan) {
    let until = if count == 0 { u64::MAX } else { from.saturating_add(count) };
    RULES.lock().push(Rule { function: function.to_owned(), from, until, plan });
    WATCHED.store(true, Relaxed);
}

/// Forgets what is planned for a function.
pub(crate) fn forget(function: &str) {
    RULES.lock().retain(|rule| rule.function != function);
}

/// Writes each later call to a file; stops for `None`. False if the file cannot be made.
pub(crate) fn trace_to(path: Option<&str>) -> bool {
    let file = match path.map(File::create) {
        None => None,
        Some(Ok(file)) => Some(file),
        Some(Err(_)) => return false,
    };
    WATCHED.store(true, Relaxed);
    *TRACE.lock() = file;
    true
}

/// Takes up what the environment plans; words that are not understood are named on standard error.
pub(crate) fn read_settings() {
    if let Some(path) = settings::value("CUFORGE_SIM_TRACE")
        && !trace_to(Some(&path))
    {
        eprintln!("cuforge-sim-driver: the trace {path} cannot be written");
    }
    for (name, delay) in
        [("CUFORGE_SIM_FAIL", false), ("CUFORGE_SIM_LOSE", false), ("CUFORGE_SIM_DELAY", true)]
    {
        let Some(list) = settings::value(name) else { continue };
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((function, from, count, number)) = parsed(item) else {
                eprintln!("cuforge-sim-driver: {name}: {item} is not understood and ignored");
                continue;
            };
            let code = Code(number);
            plan(
                function,
                from,
                count,
                match name {
                    _ if delay => Plan::Delay(Duration::from_micros(u64::try_from(number).unwrap_or(0))),
                    "CUFORGE_SIM_LOSE" => Plan::Lose(code),
                    _ => Plan::Fail(code),
                },
            );
        }
    }
}

/// `function@3=2` (once), `function@3+=2` (from then on), `function=2` (each time).
fn parsed(item: &str) -> Option<(&str, u64, u64, i32)> {
    let (target, number) = item.split_once('=')?;
    let number = number.trim().parse().ok()?;
    let Some((function, at)) = target.split_once('@') else { return Some((target.trim(), 1, 0, number)) };
    let (at, count) = match at.strip_suffix('+') {
        Some(at) => (at, 0),
        None => (at, 1),
    };
    Some((function.trim(), at.parse().ok()?, count, number))
}

/// Whether calls are written down.
pub(crate) fn traced() -> bool {
    WATCHED.load(Relaxed) && TRACE.lock().is_some()
}

/// Writes a call down: thread, name, arguments, answer, microseconds.
pub(crate) fn write(site: &Site, arguments: &[&dyn Debug], answer: i32, since: Instant) {
    let mut line = String::with_capacity(96);
    // Writing to a string does not fail.
    let _ = write!(line, "{:?} {}(", std::thread::current().id(), site.name);
    for (at, argument) in arguments.iter().enumerate() {
        let _ = write!(line, "{}{argument:#x?}", if at == 0 { "" } else { ", " });
    }
    let _ = writeln!(line, ") = {answer} {} us", since.elapsed().as_micros());
    write_line(&line);
}

/// Writes down that a stream begins a piece of work.
pub(crate) fn write_work(stream: u64, number: u64, what: &str) {
    write_line(&format!("stream {stream} work {number}: {what}\n"));
}

fn write_line(line: &str) {
    if let Some(file) = TRACE.lock().as_mut()
        && file.write_all(line.as_bytes()).is_err()
    {
        eprintln!("cuforge-sim-driver: the trace cannot be written");
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} calls", self.name, self.calls())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planned_call_is_met_and_the_latest_plan_counts() {
        static SITE: Site = Site::new("cuTestOfPlans", Needs::Nothing, 0);
        plan("cuTestOfPlans", 2, 1, Plan::Fail(Code(4242)));
        assert!(SITE.enter().is_none());
        assert!(matches!(SITE.enter(), Some(Plan::Fail(Code(4242)))));
        assert!(SITE.enter().is_none());
        plan("cuTestOfPlans", 4, 0, Plan::Fail(Code(1)));
        plan("cuTestOfPlans", 5, 1, Plan::Fail(Code(2)));
        let told = [(); 3].map(|()| SITE.enter());
        assert!(matches!(
            told,
            [Some(Plan::Fail(Code(1))), Some(Plan::Fail(Code(2))), Some(Plan::Fail(Code(1)))]
        ));
        forget("cuTestOfPlans");
        assert!(SITE.enter().is_none());
        assert_eq!(SITE.calls(), 7);
    }

    #[test]
    fn plans_are_read_from_text() {
        assert_eq!(parsed("cuMemAlloc_v2@3=2"), Some(("cuMemAlloc_v2", 3, 1, 2)));
        assert_eq!(parsed("cuMemAlloc_v2@3+=2"), Some(("cuMemAlloc_v2", 3, 0, 2)));
        assert_eq!(parsed("cuMemFree_v2=999"), Some(("cuMemFree_v2", 1, 0, 999)));
        assert_eq!(parsed("cuMemFree_v2"), None);
    }
}
