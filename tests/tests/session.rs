//! The facade on the simulated driver: what a session does with its parts, seen in every test run.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge::{Session, SessionError};
use cuforge_core::{
    Access, Arguments, BuildOptions, CompileFailure, CompileRequest, Digest, Extent, KernelCompiler,
    KernelSpec, ModuleImage, Request, Schedule, TuneKey, TuneRecord,
};
use cuforge_launch::LaunchError;
use cuforge_oracle::source_digest;
use cuforge_tests::sim::Sim;
use launch_support::{image, saxpy};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Offers two images that no driver takes, in turn and for ever.
#[derive(Default)]
struct Stubborn {
    compiled: AtomicUsize,
    rejected: Mutex<Vec<String>>,
}

impl KernelCompiler for Stubborn {
    fn compile(&self, _: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure> {
        let turn = self.compiled.fetch_add(1, Ordering::Relaxed);
        Ok(image(["no PTX", "none either"][turn % 2]))
    }

    fn reject(&self, image: &ModuleImage, _: &str) {
        self.rejected.lock().unwrap().push(image.ptx.as_deref().unwrap_or_default().to_owned());
    }
}

fn session(sim: &Sim) -> Session {
    Session::builder().device(sim.device().unwrap()).slab_bytes(16 << 20).build().unwrap()
}

#[test]
fn a_compiler_that_offers_rejected_images_again_is_not_asked_for_ever() {
    let sim = Sim::new(&[]).unwrap();
    let compiler = Arc::new(Stubborn::default());
    let builder = Session::builder().device(sim.device().unwrap()).slab_bytes(16 << 20);
    // SAFETY: no image of this compiler is ever loaded.
    let mut session = unsafe { builder.compiler(compiler.clone()) }.build().unwrap();
    // SAFETY: the kernel is never launched.
    let spec = unsafe { KernelSpec::cuda_c("k", "k", "extern \"C\" __global__ void k() {}", Vec::new()) };
    let prepared = session.prepare(&spec, &Schedule::new([32, 1, 1]), &BuildOptions::default());
    let error = prepared.map(|_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Launch(LaunchError::ImageRejected(_))), "{error}");
    assert_eq!(compiler.compiled.load(Ordering::Relaxed), 3);
    assert_eq!(*compiler.rejected.lock().unwrap(), ["no PTX", "none either"]);
}

#[test]
fn a_session_runs_a_kernel_and_prepares_it_once() {
    let sim = Sim::new(&[]).unwrap();
    let mut session = session(&sim);
    let floats = Request::new(1000 * 4);
    let y = session.allocate(&floats).unwrap().bound_to(0, 0, Access::StorageReadWrite).unwrap();
    let x = session.allocate(&floats).unwrap().bound_to(0, 1, Access::StorageRead).unwrap();
    let ones: Vec<u8> = (0..1000).flat_map(|_| 1f32.to_le_bytes()).collect();
    session.write(&y, &ones).unwrap();
    session.write(&x, &ones).unwrap();
    let values = [3f32.to_le_bytes(), 1000u32.to_le_bytes()].concat();
    let (views, schedule) = ([x, y], Schedule::new([128, 1, 1]));
    for round in 1..=2u32 {
        let arguments = Arguments { views: &views, by_value: &values };
        session.run(&saxpy(), &schedule, arguments, Extent::Elements(1000)).unwrap();
        let expected = 1.0 + 3.0 * round as f32;
        assert!(session.read_vec::<f32>(&y).unwrap().iter().all(|value| *value == expected));
    }
    assert_eq!(sim.calls("cuModuleLoadDataEx"), 1);
}

#[test]
fn clear_restore_and_retire_end_grants_and_close_reports() {
    let sim = Sim::new(&[]).unwrap();
    let mut session = session(&sim);
    let before = session.allocate(&Request::new(256)).unwrap();
    let checkpoint = session.checkpoint().unwrap();
    let since = session.allocate(&Request::new(256)).unwrap();
    assert_eq!(session.restore(checkpoint).unwrap().grants, 1);
    let stale = session.write(&since, &[1]).unwrap_err();
    assert!(matches!(stale, SessionError::Launch(LaunchError::View(_))), "{stale}");
    session.write(&before, &[1]).unwrap();
    session.retire(before).unwrap();
    let twice = session.retire(before).unwrap_err();
    assert!(matches!(twice, SessionError::Launch(LaunchError::View(_))), "{twice}");
    session.allocate(&Request::new(256)).unwrap();
    assert_eq!(session.clear().unwrap().grants, 1);
    assert_eq!(session.close().unwrap().drop_errors, 0);
    assert_eq!((sim.count("mapped_bytes"), sim.count("streams")), (0, 0));
}

#[test]
fn a_tuned_schedule_is_picked_up_for_its_own_text_shape_and_device_and_for_nothing_else() {
    let sim = Sim::new(&[]).unwrap();
    let folder = std::env::temp_dir().join(format!("cuforge-tuned-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let builder = Session::builder().device(sim.device().unwrap()).slab_bytes(16 << 20);
    let session = builder.tuned_folder(&folder).build().unwrap();
    let spec = saxpy();
    assert_eq!(session.tuned_schedule(&spec, "1000"), None);

    let key = TuneKey::new(session.device().adapter(), &spec, source_digest(&spec), "1000");
    let file = folder.join(key.file_name());
    let schedule = Schedule::new([64, 1, 1]).with_items_per_invocation(2);
    let record = |key: &TuneKey| TuneRecord {
        key: key.clone(),
        schedule: schedule.clone(),
        median_ns: 9,
        default_median_ns: 12,
        samples: 40,
        candidates: 12,
    };
    std::fs::write(&file, record(&key).to_string()).unwrap();
    assert_eq!(session.tuned_schedule(&spec, "1000"), Some(schedule.clone()));
    assert_eq!(session.tuned_schedule(&spec, "1001"), None);
    assert_eq!(self::session(&sim).tuned_schedule(&spec, "1000"), None, "without a folder");

    // In the right place, but of another device, driver, text or version; and no record at all.
    let others = [
        TuneKey { adapter: "another".to_owned(), ..key.clone() },
        TuneKey { driver: "another".to_owned(), ..key.clone() },
        TuneKey { source: Digest([7; 32]), ..key.clone() },
        TuneKey { semantic_version: key.semantic_version + 1, ..key.clone() },
    ];
    for text in others.iter().map(|key| record(key).to_string()).chain([String::new()]) {
        std::fs::write(&file, &text).unwrap();
        assert_eq!(session.tuned_schedule(&spec, "1000"), None, "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
