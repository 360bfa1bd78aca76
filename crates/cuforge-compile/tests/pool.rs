//! Compilation in helper processes: the same results, and nothing that happens to one of them reaches the caller.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cuforge_compile::{
    CacheOptions, CancelToken, Candidate, CompileError, Compiler, Engine, HelperPool, Limits, Nvrtc,
    SearchPaths,
};
use cuforge_core::{CompileRequest, ComputeCapability, Target};

const HELPER: &str = env!("CARGO_BIN_EXE_cuforge-compile-helper");

fn candidate(version: &str) -> Candidate {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda").join(format!("nvrtc-{version}"));
    SearchPaths::only([root]).find().candidates.remove(0)
}

fn request(source: &str) -> CompileRequest {
    CompileRequest::cuda_c("k.cu", source, Target::new(ComputeCapability::from_sm(90)))
}

fn pool(processes: usize) -> HelperPool {
    HelperPool::start(HELPER, &candidate("13.5.37"), processes).unwrap()
}

fn compiler(pool: HelperPool, limits: Limits) -> Compiler {
    let headers = candidate("13.5.37").includes;
    Compiler::with_engine(Arc::new(pool), headers).with_cache(CacheOptions::none()).with_limits(limits)
}

/// A source that keeps NVRTC busy for many seconds.
fn slow() -> String {
    let mut source = String::from("extern \"C\" __global__ void k(float *x) { float a = x[0], b = x[1];\n");
    for step in 0..60_000 {
        source.push_str(&format!(
            "a = sinf(a * b + {step}.5f) + powf(b, a); b = cosf(a) / (b + {step}.25f);\n"
        ));
    }
    source + "x[0] = a + b; }"
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn a_helper_gives_what_the_same_compiler_gives_in_this_process() {
    let found = candidate("13.5.37");
    let here = Nvrtc::load(&found).unwrap();
    let pool = pool(1);
    assert_eq!(pool.identity(), here.identity(), "the two would not share cache entries");
    assert_eq!(pool.supported_archs(), here.supported_archs());
    let there = compiler(pool, Limits::default());
    let here = Compiler::with_nvrtc(here).with_cache(CacheOptions::none());
    let source = "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half *x) { *x = 1.0f; }";
    assert_eq!(there.image(&request(source)).unwrap(), here.image(&request(source)).unwrap());
    let broken = "__global__ void k() { nothing_here; }";
    let (one, other) =
        (there.image(&request(broken)).unwrap_err(), here.image(&request(broken)).unwrap_err());
    assert_eq!(one.to_string(), other.to_string());
    assert!(matches!(one, CompileError::Source { .. }));
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn a_time_limit_holds_and_the_pool_goes_on() {
    let limit = Duration::from_millis(1500);
    let compiler = compiler(pool(1), Limits { time: Some(limit), cancel: None });
    let start = Instant::now();
    let error = compiler.image(&request(&slow())).unwrap_err();
    assert!(matches!(error, CompileError::TimedOut { limit: told } if told == limit), "{error}");
    assert!(start.elapsed() < limit * 10, "it took {:?}", start.elapsed());
    // A new helper has to start within the limit too, on a busy machine.
    let again = (0..20).any(|_| compiler.image(&request("__global__ void k() {}")).is_ok());
    assert!(again, "the pool does not recover");
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn a_cancelled_compilation_ends_soon() {
    let token = CancelToken::default();
    let limits = Limits { time: None, cancel: Some(token.clone()) };
    let compiler = compiler(pool(1), limits);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| compiler.image(&request(&slow())));
        std::thread::sleep(Duration::from_millis(300));
        token.cancel();
        let error = busy.join().unwrap().unwrap_err();
        assert!(matches!(error, CompileError::Cancelled), "{error}");
    });
}

fn kill(process: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn a_helper_killed_while_idle_is_replaced_unseen() {
    let pool = pool(1);
    let first = pool.idle_helpers();
    kill(first[0]);
    std::thread::sleep(Duration::from_millis(100));
    let job = cuforge_compile::Job {
        name: "k.cu".into(),
        source: "__global__ void k() {}".into(),
        options: Vec::new(),
        headers: Vec::new(),
        name_expressions: Vec::new(),
    };
    pool.run(&job, &Limits::default()).unwrap();
    assert_ne!(pool.idle_helpers(), first);
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn a_helper_killed_at_work_is_an_error_that_says_so_and_the_next_job_runs() {
    let pool = Arc::new(pool(1));
    let victim = pool.idle_helpers()[0];
    let headers = candidate("13.5.37").includes;
    let compiler = Compiler::with_engine(pool.clone(), headers).with_cache(CacheOptions::none());
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| compiler.image(&request(&slow())));
        // Killed while idle it would be replaced unseen, however long a busy machine takes to hand it the job.
        while !pool.idle_helpers().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(victim);
        let error = busy.join().unwrap().unwrap_err();
        assert!(
            matches!(&error, CompileError::Helper { reason, .. } if reason.contains("signal: 9")),
            "{error}"
        );
    });
    compiler.image(&request("__global__ void k() {}")).unwrap();
}

#[test]
#[ignore = "needs NVRTC: 13.5.37"]
fn many_threads_share_a_bounded_pool() {
    let compiler = compiler(pool(2), Limits::default());
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let compiler = &compiler;
            scope.spawn(move || {
                let source = format!("extern \"C\" __global__ void k{thread}(int *x) {{ *x = {thread}; }}");
                let image = compiler.image(&request(&source)).unwrap();
                assert_eq!(image.entry_points, [format!("k{thread}")]);
            });
        }
    });
}

#[test]
fn a_program_that_is_no_helper_is_named() {
    let nothing = Candidate {
        library: PathBuf::from("/nowhere/libnvrtc.so"),
        builtins: None,
        version: None,
        includes: Vec::new(),
        nvjitlink: None,
        origin: cuforge_compile::Origin::Option,
    };
    for (program, want) in
        [("/nowhere/helper", "cannot be started"), ("/bin/true", "no greeting"), (HELPER, "/nowhere")]
    {
        let error = HelperPool::start(program, &nothing, 1).unwrap_err();
        let CompileError::Helper { helper, reason } = &error else { panic!("{error}") };
        assert_eq!(helper, Path::new(program));
        assert!(reason.contains(want), "{reason}");
    }
}
