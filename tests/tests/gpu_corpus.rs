//! The corpus on a GPU: no seed makes a right kernel fail there, and planted defects are caught.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use std::env;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use cuforge::Session;
use cuforge_core::BuildOptions;
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::{CheckOptions, CudaContext, check};
use cuforge_tests::defects::{self, Defect};
use cuforge_tests::toolchain::at_full_length;

/// Names the defect that a child process is to judge.
const DEFECT: &str = "CUFORGE_TEST_DEFECT";
/// What a child may take: a defect may never end.
const LIMIT: Duration = Duration::from_secs(40);

fn context() -> CudaContext {
    let session = Session::builder().slab_bytes(64 << 20).build();
    CudaContext::new(session.unwrap_or_else(|error| panic!("this test needs a GPU: {error}")))
}

/// What became of one defect on the GPU: one line, which begins with `caught` if it was.
fn judge(defect: &Defect) -> String {
    // SAFETY: this process does nothing else, and reports nothing but the verdict.
    let case = unsafe { defect.case() }.unwrap();
    let mut context = context();
    match check(&case, &mut context, &CheckOptions::default()) {
        Ok(found) if found.agrees() => "missed: all results agree".to_owned(),
        Ok(found) => {
            let wrong: u64 = found.outputs.iter().map(|output| output.comparison.mismatches).sum();
            format!("caught: {wrong} elements wrong, {} inputs changed", found.changed_inputs.len())
        }
        Err(error) => format!("caught: {error}"),
    }
}

/// Judges a defect in a process of its own, since some of them fault, for which no device is good afterwards.
fn judge_apart(defect: &Defect, test: &str) -> String {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(DEFECT, &defect.name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            return "caught: it never ends".to_owned();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = said.lines().find_map(|line| line.split_once("verdict ").map(|(_, verdict)| verdict));
    verdict.map_or_else(|| format!("broken: {}", output.status), str::to_owned)
}

/// Runs `work` over `all` on several threads; results in order of completion.
fn side_by_side<'a, T: Sync, R: Send>(
    all: &'a [T],
    threads: usize,
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(one) = next.lock().unwrap().next() else { return };
                    let result = work(one);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[test]
#[ignore = "needs a GPU: soak"]
fn every_defect_is_caught_on_a_gpu_but_races_that_are_not_lost() {
    const THIS: &str = "every_defect_is_caught_on_a_gpu_but_races_that_are_not_lost";
    let all = defects::all().unwrap();
    if let Some(name) = env::var_os(DEFECT) {
        let defect = all.iter().find(|defect| *defect.name == *name).unwrap();
        println!("verdict {}", judge(defect));
        return;
    }
    let mut verdicts = side_by_side(&all, 12, |defect| (defect, judge_apart(defect, THIS)));
    verdicts.sort_by(|left, right| left.0.name.cmp(&right.0.name));
    let (mut caught, mut missed) = (0, Vec::new());
    for (defect, verdict) in &verdicts {
        let race = if defect.race.is_some() { " (a race)" } else { "" };
        println!("{}{race}: {verdict}", defect.name);
        if verdict.starts_with("caught") {
            caught += 1;
        } else if defect.race.is_none() || !verdict.starts_with("missed") {
            missed.push(format!("{}: {verdict}", defect.name));
        }
    }
    println!("{caught} of {} caught", all.len());
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Checks one kernel under every schedule, shape and seed; how many checks, and those that failed.
fn sweep(kernel: &CorpusKernel, seeds: u64, threads: &Mutex<()>) -> (u64, Vec<String>) {
    // Contexts are made one after the other; the kernels then run side by side.
    let mut context = {
        let _alone = threads.lock();
        context()
    };
    let (mut checks, mut failures) = (0, Vec::new());
    for form in [Form::CudaC, Form::WrittenPtx] {
        for (schedule, fmad) in kernel.schedules(form).iter().flat_map(|s| [(s, true), (s, false)]) {
            for seed in 0..seeds {
                // Seeds walk over the shapes, so that each schedule meets all of them.
                let shapes = kernel.small_shapes();
                let shape = &shapes[seed as usize % shapes.len()];
                let build = BuildOptions { fmad, ..BuildOptions::default() };
                let case = kernel.case(form, shape, schedule).unwrap().with_build(build);
                let options = CheckOptions::default().with_seed(seed).once();
                checks += 1;
                match check(&case, &mut context, &options) {
                    Ok(found) if found.agrees() => {}
                    other => failures.push(format!(
                        "{} {form:?} {shape} seed {seed} fmad {fmad} {schedule:?}: {other:?}",
                        kernel.name()
                    )),
                }
            }
        }
    }
    (checks, failures)
}

#[test]
#[ignore = "needs a GPU: soak"]
fn no_seed_makes_a_right_kernel_fail_on_a_gpu() {
    let seeds = env::var("CUFORGE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = seeds.unwrap_or(if at_full_length() { 200 } else { 10 });
    let contexts = Mutex::new(());
    let results = side_by_side(&corpus::ALL, 14, |kernel| {
        let start = Instant::now();
        let (checks, failures) = sweep(kernel, seeds, &contexts);
        println!(
            "{}: {checks} checks, {} failures, {:.1} s",
            kernel.name(),
            failures.len(),
            start.elapsed().as_secs_f64()
        );
        (checks, failures)
    });
    let checks: u64 = results.iter().map(|(checks, _)| checks).sum();
    let failures: Vec<String> = results.into_iter().flat_map(|(_, failures)| failures).collect();
    println!("{checks} checks, {} failures", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
