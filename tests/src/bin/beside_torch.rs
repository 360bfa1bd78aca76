//! The planted defects and the correct corpus before two judges on one GPU: the oracle, and `torch.testing.assert_close`
//! with its default tolerances over fixed random inputs.
//!
//! `beside_torch FOLDER` runs every case in a process of its own, lets `python3` with `PyTorch` judge what the device left
//! in `FOLDER`, and prints the table. Needs a GPU, NVRTC and `PyTorch`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use cuforge_oracle::corpus::{self, Form};
use cuforge_oracle::{
    Case, CudaContext, ErrorModel, Expected, Inputs, MutantOptions, Verdict, VerifyOptions, verify_with,
};
use cuforge_tests::defects;
use cuforge_tests::outputs::run_over;

const SEED: u64 = 42;
const SCRIPT: &str = include_str!("beside_torch.py");

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [folder] => all(Path::new(folder)),
        [folder, name] => one(Path::new(folder), name),
        _ => Err("usage: beside_torch FOLDER".into()),
    }
}

/// Names of all cases: defects as they are called, correct kernels behind `correct/`.
fn names() -> Fallible<Vec<String>> {
    let mut names: Vec<String> = defects::all()?.into_iter().map(|defect| defect.name).collect();
    names.extend(corpus::ALL.iter().map(|kernel| format!("correct/{}", kernel.name())));
    Ok(names)
}

fn case_of(name: &str) -> Fallible<Case> {
    if let Some(kernel) = name.strip_prefix("correct/") {
        let kernel = corpus::find(kernel).ok_or("no such kernel")?;
        return Ok(kernel.case(Form::CudaC, &kernel.real_shape(), &kernel.default_schedule())?);
    }
    let defect = defects::all()?.into_iter().find(|defect| defect.name == name).ok_or("no such defect")?;
    // SAFETY: this process does nothing else, and ends with the case.
    #[allow(unsafe_code, reason = "a defect is raw device code, run in a process of its own")]
    let case = unsafe { defect.case() };
    Ok(case?)
}

/// One case before both judges: prints the oracle's verdict, leaves the outputs for the other.
fn one(folder: &Path, name: &str) -> Fallible<()> {
    let case = case_of(name)?;
    let folder = folder.join(name.replace('/', "__"));
    fs::create_dir_all(&folder)?;
    let open = || Ok::<_, Box<dyn Error>>(CudaContext::new(cuforge::Session::builder().build()?));
    // What stays on the device for the other judge comes first: the oracle may find a fault that ends the context.
    let ran = leave_outputs(&case, &mut open()?, &folder);
    if let Err(error) = &ran {
        fs::write(folder.join("error"), error.to_string())?;
    }
    let mutants = MutantOptions { limit: 4, ..MutantOptions::default() };
    let options = VerifyOptions { mutants, ..VerifyOptions::default() }.with_seed(SEED);
    let verdict = match open().and_then(|mut context| Ok(verify_with(&case, &mut context, &options)?)) {
        Ok(report) => report.verdict,
        Err(error) => Verdict::Fault(error.to_string()),
    };
    println!("verdict {}", verdict.word());
    Ok(())
}

/// Runs the case once over random inputs and writes, for every output, what the device left and what is right.
fn leave_outputs(case: &Case, context: &mut CudaContext, folder: &Path) -> Fallible<()> {
    let model = ErrorModel::native(case.format());
    // Normal inputs, as from `torch.randn`, where the kernel is made for them.
    let normal = case
        .with_inputs(Inputs::Normal)
        .filter(|case| case.contents(SEED).is_ok_and(|contents| case.expected(&contents, &model).is_ok()));
    let case = normal.as_ref().unwrap_or(case);
    let contents = case.contents(SEED)?;
    let expected = case.expected(&contents, &model)?;
    let all = run_over(case, &contents, context)?;
    for ((buffer, got), expected) in case.buffers().iter().zip(all).zip(&expected) {
        let Some(expected) = expected else { continue };
        let (kind, right) = match expected {
            Expected::Exact(bytes) => ("exact", bytes.clone()),
            Expected::Bounded { values, .. } => {
                ("f64", values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
        };
        let name = format!("{}.{}.{kind}", buffer.name, buffer.element.name());
        fs::write(folder.join(format!("{name}.got")), got)?;
        fs::write(folder.join(format!("{name}.right")), right)?;
    }
    Ok(())
}

/// Every case, each in its own process; then the other judge and the table.
fn all(folder: &Path) -> Fallible<()> {
    fs::create_dir_all(folder)?;
    let names = names()?;
    let (queue, verdicts) = (Mutex::new(names.clone()), Mutex::new(BTreeMap::new()));
    // Each case is mostly start-up of the driver and compilation on the host.
    let workers = thread::available_parallelism().map_or(4, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(name) = queue.lock().ok().and_then(|mut queue| queue.pop()) {
                    let verdict = child(folder, &name);
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.insert(name, verdict);
                    }
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().map_err(|_| "a worker panicked")?;
    let torch = torch(folder)?;
    show(&names, &verdicts, &torch);
    Ok(())
}

/// The oracle's word on a case; `died` if its process did.
fn child(folder: &Path, name: &str) -> String {
    let Ok(program) = std::env::current_exe() else { return "died".to_owned() };
    let limit = ["60", &program.to_string_lossy(), &folder.to_string_lossy(), name].map(str::to_owned);
    let output = Command::new("timeout").args(limit).stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let verdict = said.lines().find_map(|line| line.strip_prefix("verdict "));
    verdict.unwrap_or("died").to_owned()
}

/// What `assert_close` says of each case: `passed`, `failed`, or `raised` if there was nothing to compare.
fn torch(folder: &Path) -> Fallible<BTreeMap<String, String>> {
    let mut python = Command::new("python3");
    let mut running =
        python.args(["-", &folder.to_string_lossy()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    running.stdin.take().ok_or("no pipe")?.write_all(SCRIPT.as_bytes())?;
    let output = running.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("python3: {}", output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(name, word)| (name.replace("__", "/"), word.to_owned())).collect())
}

fn show(names: &[String], verdicts: &BTreeMap<String, String>, torch: &BTreeMap<String, String>) {
    let word = |of: &BTreeMap<String, String>, name: &str| {
        of.get(name).cloned().unwrap_or_else(|| "nothing".to_owned())
    };
    let accused = |word: &str| !matches!(word, "passed" | "vacuous");
    let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for name in names {
        let (ours, theirs) = (word(verdicts, name), word(torch, name));
        let kind = name.split('/').next().unwrap_or_default();
        let all = [true, accused(&ours), theirs == "failed", theirs == "raised"];
        let count = counts.entry(kind).or_default();
        count.iter_mut().zip(all).for_each(|(count, counts)| *count += usize::from(counts));
        if accused(&ours) != accused(&theirs) || (kind == "correct") == accused(&ours) {
            println!("{name}: oracle {ours}, assert_close {theirs}");
        }
    }
    let row = |kind: &str, [cases, ours, theirs, raised]: [usize; 4]| {
        println!("{kind:<14} {cases:>5} {ours:>7} {theirs:>12} {raised:>12}");
    };
    println!("\n{:<14} {:>5} {:>7} {:>12} {:>12}", "kind", "cases", "oracle", "assert_close", "launch fails");
    let mut planted = [0; 4];
    for (kind, count) in &counts {
        row(kind, *count);
        if *kind != "correct" {
            planted = std::array::from_fn(|column| planted[column] + count[column]);
        }
    }
    row("all planted", planted);
}
