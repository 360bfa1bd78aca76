//! What a log collector is told: every hit, miss, compilation, decision and eviction, as events with fields.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use cuforge_compile::CacheOptions;
use fake::{Fake, Folder, compiler_of, request};
use tracing::field::{Field, Visit};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl tracing::Subscriber for Collector {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut line = Line(format!("span {} ", span.metadata().name()));
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What was told while `work` ran.
fn told(work: impl FnOnce()) -> String {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), work);
    let lines = collector.0.lock().unwrap();
    lines.join("\n")
}

#[test]
fn every_step_of_a_request_is_told_with_its_fields() {
    let folder = Folder::new("told");
    let mut fake = Fake::new("0");
    fake.cubin_bytes = 20_000;
    let options = CacheOptions::in_folder(folder.path()).with_disk_bytes(60_000).with_memory_bytes(50_000);
    let (compiler, _) = compiler_of(fake, options.clone());
    let miss = told(|| drop(compiler.image(&request("int a;")).unwrap()));
    for part in [
        "span compile name=\"k.cu\" target=sm_90",
        "ok=true elapsed_us=",
        "entry published",
        "decision=\"cubin with PTX kept",
        "digest=",
    ] {
        assert!(miss.contains(part), "{part} is not in:\n{miss}");
    }
    let hit = told(|| drop(compiler.image(&request("int a;")).unwrap()));
    assert!(hit.contains("memory hit") && hit.contains("digest="), "{hit}");
    let (again, _) = compiler_of(Fake::new("0"), options);
    let disk = told(|| drop(again.image(&request("int a;")).unwrap()));
    assert!(disk.contains("disk hit") && !disk.contains("elapsed_us"), "{disk}");
    let failed = told(|| drop(compiler.image(&request("broken")).unwrap_err()));
    assert!(failed.contains("ok=false"), "{failed}");
    let odd = told(|| drop(compiler.image(&request("// __TIME__")).unwrap()));
    assert!(odd.contains("not cached why="), "{odd}");
    let full = told(|| {
        (0..5).for_each(|kernel| drop(compiler.image(&request(&format!("int k{kernel};"))).unwrap()));
        compiler.gc();
    });
    assert!(full.contains("cache folder swept") && full.contains("evicted="), "{full}");
    assert!(full.contains("images evicted from memory"), "{full}");
}
