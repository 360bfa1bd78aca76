//! The corpus on a GPU: no seed makes a right kernel fail there, and planted defects are caught.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cuforge::Session;
use cuforge_compile::{CacheOptions, Compiler, SearchPaths};
use cuforge_core::{
    BuildOptions, CompileFailure, CompileRequest, KernelCompiler, ModuleImage, OracleContext, Schedule,
};
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::{Case, CheckOptions, CudaContext, Sweep, check, sweep};
use cuforge_tests::defects::{self, Defect};
use cuforge_tests::outputs::run_over;
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

/// Runs over `all` on several threads, on each with a worker of its own; results in order of completion.
fn side_by_side<'a, T: Sync, R: Send, W: FnMut(&'a T) -> R>(
    all: &'a [T],
    threads: usize,
    worker: impl Fn() -> W + Sync,
) -> Vec<R> {
    let (next, done) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut work = worker();
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

/// Has the assembler leave its code as it comes.
struct Unoptimised(Compiler);

impl KernelCompiler for Unoptimised {
    fn compile(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure> {
        let mut request = request.clone();
        request.options.raw.push("--ptxas-options=-O0".to_owned());
        self.0.compile(&request)
    }

    fn reject(&self, image: &ModuleImage, why: &str) {
        self.0.reject(image, why);
    }
}

/// What `case` leaves in its buffers, and its machine code.
fn left_by(case: &Case, context: &mut CudaContext) -> (Vec<Vec<u8>>, Arc<[u8]>) {
    let prepared = context.prepare(case.kernel(), case.schedule(), case.build_options()).unwrap();
    let code = prepared.image.cubin.clone().unwrap_or_else(|| panic!("{}: no machine code", case.name()));
    (run_over(case, &case.contents(7).unwrap(), context).unwrap(), code)
}

#[test]
#[ignore = "needs a GPU: machine code"]
fn machine_code_that_was_not_optimised_leaves_the_same_bits() {
    let compiler = Compiler::find_with(&SearchPaths::default(), CacheOptions::default()).unwrap();
    // SAFETY: its images are what NVRTC made of the sources.
    let builder =
        unsafe { Session::builder().slab_bytes(64 << 20).compiler(Arc::new(Unoptimised(compiler))) };
    let (mut optimised, mut plain) = (context(), CudaContext::new(builder.build().unwrap()));
    for kernel in corpus::ALL {
        let shape = &kernel.small_shapes()[0];
        let case = kernel.case(Form::CudaC, shape, &kernel.default_schedule()).unwrap();
        let (right, fast) = left_by(&case, &mut optimised);
        let (left, slow) = left_by(&case, &mut plain);
        assert_ne!(fast, slow, "{}: the assembler was told nothing", kernel.name());
        assert!(left == right, "{}: the assembler's optimisation changes results", kernel.name());
    }
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
    let mut verdicts = side_by_side(&all, 12, || |defect| (defect, judge_apart(defect, THIS)));
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

/// One kernel in one form under one schedule.
type Cut = (CorpusKernel, Form, Schedule);

/// All there are, every kernel's first schedule before any second: images are compiled side by side.
fn cuts() -> Vec<Cut> {
    let mut cuts: Vec<(usize, Cut)> = Vec::new();
    for kernel in corpus::ALL {
        for form in [Form::CudaC, Form::WrittenPtx] {
            let schedules = kernel.schedules(form).into_iter().enumerate();
            cuts.extend(schedules.map(|(place, schedule)| (place, (kernel, form, schedule))));
        }
    }
    cuts.sort_by_key(|(place, _)| *place);
    cuts.into_iter().map(|(_, cut)| cut).collect()
}

/// Sweeps the seeds, which walk over the kernel's small shapes; fused and, where there is something to compile, unfused.
fn sweep_cut((kernel, form, schedule): &Cut, seeds: u64, context: &mut CudaContext) -> Sweep {
    let fused = BuildOptions::default();
    let builds = [fused, BuildOptions { fmad: false, ..fused }];
    let builds = if *form == Form::CudaC { &builds[..] } else { &builds[..1] };
    let shapes = kernel.small_shapes();
    let mut found = Sweep::default();
    for (index, shape) in shapes.iter().enumerate() {
        let case = kernel.case(*form, shape, schedule).unwrap();
        let seeds = (index as u64..seeds).step_by(shapes.len());
        let swept = sweep(&case, builds, seeds, context);
        found.absorb(
            swept.unwrap_or_else(|error| panic!("{} {form:?} {shape} {schedule:?}: {error}", kernel.name())),
        );
    }
    found
}

#[test]
#[ignore = "needs a GPU: soak"]
fn no_seed_makes_a_right_kernel_fail_on_a_gpu() {
    let seeds = env::var("CUFORGE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = seeds.unwrap_or(if at_full_length() { 200 } else { 10 });
    let threads = thread::available_parallelism().map_or(4, usize::from);
    let (cuts, opening, start) = (cuts(), Mutex::new(()), Instant::now());
    let results = side_by_side(&cuts, threads, || {
        let mut context = {
            // Contexts are made one after the other; the kernels then run side by side.
            let _alone = opening.lock();
            context()
        };
        move |cut| (cut, sweep_cut(cut, seeds, &mut context))
    });
    let mut kernels: BTreeMap<&str, Sweep> = BTreeMap::new();
    for (cut, found) in results {
        for failure in &found.failures {
            println!("{} {:?} {:?}: {failure:?}", cut.0.name(), cut.1, cut.2);
        }
        kernels.entry(cut.0.name()).or_default().absorb(found);
    }
    let mut all = Sweep::default();
    for (kernel, found) in kernels {
        let (checks, failures) = (found.checks, found.failures.len());
        println!(
            "{kernel}: {checks} checks, {failures} failures, largest error {:.3} of its bound",
            found.worst_ratio
        );
        all.absorb(found);
    }
    let (failures, seconds) = (all.failures.len(), start.elapsed().as_secs_f64());
    println!("{} checks of {} elements, {failures} failures, {seconds:.1} s", all.checks, all.elements);
    assert_eq!(failures, 0);
}
