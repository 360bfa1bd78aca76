//! A compiler that answers at once, with bytes that name the job they were made for.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuforge_compile::{CacheOptions, CompileError, Compiler, Engine, Identity, Job, Limits, Output};
use cuforge_core::{CompileRequest, ComputeCapability, Target};

/// Counts its runs; a source with `broken` in it does not compile, one with `panic` brings the engine down.
#[derive(Debug)]
pub(crate) struct Fake {
    identity: Identity,
    pub(crate) runs: Arc<AtomicU64>,
    /// Bytes of a cubin.
    pub(crate) cubin_bytes: usize,
    pub(crate) delay: std::time::Duration,
}

impl Fake {
    pub(crate) fn new(build: &str) -> Self {
        let identity = Identity { kind: "fake".into(), version: (1, 0), build: build.into() };
        Self { identity, runs: Arc::default(), cubin_bytes: 256, delay: std::time::Duration::ZERO }
    }
}

impl Engine for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn supported_archs(&self) -> &[u32] {
        &[75, 80, 90]
    }

    fn run(&self, job: &Job, _limits: &Limits) -> Result<Output, CompileError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.delay);
        assert!(!job.source.contains("panic"), "the fake engine was told to panic");
        if job.source.contains("broken") {
            let (name, log) = (job.name.clone(), format!("{}(1): error: broken", job.name));
            return Err(CompileError::Source { name, log });
        }
        Ok(Output {
            ptx: Some(ptx(&job.source)),
            cubin: Some(cubin(&format!("{}|{job:?}", self.identity), self.cubin_bytes)),
            log: "warning: fake".into(),
            lowered: job.name_expressions.iter().map(|name| format!("lowered {name}")).collect(),
        })
    }
}

/// PTX that names its source.
pub(crate) fn ptx(source: &str) -> String {
    let source = source.replace('\n', "\n// ");
    format!(".version 7.8\n.target sm_75\n.address_size 64\n// {source}\n.visible .entry k() {{ ret; }}\n")
}

fn cubin(job: &str, len: usize) -> Vec<u8> {
    let mut bytes = job.as_bytes().to_vec();
    let mut state =
        bytes.iter().fold(1_u64, |state, &byte| state.wrapping_mul(31).wrapping_add(u64::from(byte)));
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.push((state >> 56) as u8);
    }
    bytes
}

pub(crate) fn request(source: &str) -> CompileRequest {
    CompileRequest::cuda_c("k.cu", source, Target::new(ComputeCapability::from_sm(90)))
}

/// A compiler over a fake engine, and the engine's run counter.
pub(crate) fn compiler(options: CacheOptions) -> (Compiler, Arc<AtomicU64>) {
    compiler_of(Fake::new("0"), options)
}

pub(crate) fn compiler_of(fake: Fake, options: CacheOptions) -> (Compiler, Arc<AtomicU64>) {
    let runs = Arc::clone(&fake.runs);
    (Compiler::with_engine(Arc::new(fake), Vec::new()).with_cache(options), runs)
}

pub(crate) fn count(runs: &AtomicU64) -> u64 {
    runs.load(Ordering::SeqCst)
}

/// A folder of a test's own, removed when it ends well.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cuforge-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Every file below it whose path contains `part`.
    pub(crate) fn files(&self, part: &str) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.0, &mut found);
        found.retain(|path| path.to_string_lossy().contains(part));
        found.sort();
        found
    }

    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        self.files(".entry")
            .into_iter()
            .filter(|path| !path.to_string_lossy().contains("/damaged/"))
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Runs `work` and counts the warnings that it gave on this thread.
pub(crate) fn warnings_of(work: impl FnOnce()) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    tracing::subscriber::with_default(Warnings(Arc::clone(&count)), work);
    count.load(Ordering::SeqCst)
}

struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() == tracing::Level::WARN {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
