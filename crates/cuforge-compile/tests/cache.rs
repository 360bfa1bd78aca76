//! What the cache promises when all goes well: one compilation per key, nothing served for another, bounds kept.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

use cuforge_compile::{Bundle, CacheOptions, CompileError, Compiler, HeaderCheck};
use cuforge_core::{
    CompileOptions, CompileRequest, ComputeCapability, DriverVersion, KernelCompiler, Target, TargetVariant,
};
use fake::{Fake, Folder, compiler, compiler_of, count, request};

fn no_memory(folder: &Folder) -> CacheOptions {
    CacheOptions::in_folder(folder.path()).with_memory_bytes(0)
}

#[test]
fn an_unchanged_request_hits_in_memory_on_disk_and_in_another_compiler() {
    let folder = Folder::new("hits");
    let (first, runs) = compiler(CacheOptions::in_folder(folder.path()));
    let made = first.image(&request("int a;")).unwrap();
    let again = first.image(&request("int a;")).unwrap();
    assert!(std::sync::Arc::ptr_eq(&made, &again));
    let prepared = first.prepare(&request("int a;"));
    assert!(std::sync::Arc::ptr_eq(&made, &first.prepared_image(&prepared).unwrap()));
    let (second, other_runs) = compiler(CacheOptions::in_folder(folder.path()));
    assert_eq!(second.image(&request("int a;")).unwrap(), made);
    assert_eq!((count(&runs), count(&other_runs)), (1, 0));
    assert_eq!((first.stats().memory_hits, second.stats().disk_hits), (2, 1));
    assert_eq!(made.log, "warning: fake", "the log of a success is kept");
}

#[test]
fn every_changed_input_is_compiled_anew_and_gets_its_own_image() {
    let folder = Folder::new("inputs");
    let base = || {
        let mut base = request("int a;");
        base.options.defines = vec![("A".into(), "1".into()), ("B".into(), "2".into())];
        base.options.headers = vec![("h.h".into(), "int h;".into())];
        base.options.name_expressions = vec!["k<1>".into()];
        base
    };
    let changes: &[fn(&mut CompileRequest)] = &[
        |_| {},
        |r| r.source = "int b;".into(),
        |r| r.name = "l.cu".into(),
        |r| r.target.capability = ComputeCapability::from_sm(80),
        |r| r.target.variant = TargetVariant::Architecture,
        |r| r.options.defines.reverse(),
        |r| r.options.defines[0].1 = "2".into(),
        |r| r.options.fast_math = true,
        |r| r.options.fmad = Some(false),
        |r| r.options.fmad = Some(true),
        |r| r.options.flush_to_zero = Some(true),
        |r| r.options.max_registers = Some(32),
        |r| r.options.line_info = true,
        |r| r.options.headers[0].1 = "int i;".into(),
        |r| r.options.headers[0].0 = "i.h".into(),
        |r| r.options.name_expressions[0] = "k<2>".into(),
        |r| r.options.raw = vec!["--std=c++20".into()],
        |r| r.options.raw = vec!["-a".into(), "-b".into()],
        |r| r.options.raw = vec!["-b".into(), "-a".into()],
    ];
    let (compiler, runs) = compiler(CacheOptions::in_folder(folder.path()));
    let mut cubins = Vec::new();
    for _ in 0..2 {
        for change in changes {
            let mut changed = base();
            change(&mut changed);
            cubins.push(compiler.image(&changed).unwrap().cubin.clone().unwrap());
        }
    }
    assert_eq!(count(&runs), changes.len() as u64);
    let (first, second) = cubins.split_at(changes.len());
    assert_eq!(first, second);
    for (at, cubin) in first.iter().enumerate() {
        assert!(!first[..at].contains(cubin), "change {at} got the image of an earlier one");
    }
}

#[test]
fn compilers_of_different_builds_share_a_folder_and_never_mix() {
    let folder = Folder::new("builds");
    for round in 0..2 {
        for build in ["12.9.41", "12.9.86", "13.5.37"] {
            let (compiler, runs) = compiler_of(Fake::new(build), no_memory(&folder));
            let image = compiler.image(&request("int a;")).unwrap();
            let text = String::from_utf8_lossy(image.cubin.as_deref().unwrap()).into_owned();
            assert!(text.contains(build), "{build} got {text}");
            assert_eq!(count(&runs), u64::from(round == 0));
        }
    }
}

#[test]
fn with_the_hash_cut_to_8_bits_a_hit_is_still_never_wrong() {
    let folder = Folder::new("8bit");
    let options = CacheOptions::in_folder(folder.path()).with_memory_bytes(0).with_8_bit_hash();
    let (compiler, _) = compiler(options);
    for _ in 0..2 {
        for kernel in 0..600 {
            let source = format!("int kernel_{kernel};");
            let image = compiler.image(&request(&source)).unwrap();
            assert_eq!(image.ptx.as_deref(), Some(fake::ptx(&source).as_str()));
        }
    }
    let stats = compiler.stats();
    assert!(stats.collisions > 100, "the hook cuts nothing: {stats}");
    assert_eq!(stats.quarantined, 0, "a collision is no damage");
    assert!(folder.entries().len() <= 256);
}

#[test]
fn sixteen_threads_on_one_cold_key_compile_once() {
    let folder = Folder::new("threads");
    let mut fake = Fake::new("0");
    fake.delay = Duration::from_millis(50);
    let (compiler, runs) = compiler_of(fake, CacheOptions::in_folder(folder.path()));
    let start = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                start.wait();
                compiler.image(&request("int a;")).unwrap();
            });
        }
    });
    assert_eq!(count(&runs), 1);
}

#[test]
fn an_error_wakes_every_waiter_and_is_not_remembered() {
    let mut fake = Fake::new("0");
    fake.delay = Duration::from_millis(30);
    let (compiler, runs) = compiler_of(fake, CacheOptions::memory_only());
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let error = compiler.image(&request("broken")).unwrap_err();
                assert!(error.log().unwrap().contains("k.cu(1)"), "{error}");
            });
        }
    });
    let before = count(&runs);
    compiler.image(&request("broken")).unwrap_err();
    assert_eq!(count(&runs), before + 1);
}

#[test]
fn a_panicking_engine_wakes_every_waiter_and_leaves_the_compiler_usable() {
    let mut fake = Fake::new("0");
    fake.delay = Duration::from_millis(30);
    let (compiler, _) = compiler_of(fake, CacheOptions::memory_only());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| compiler.image(&request("panic")))).collect();
        assert!(all.into_iter().all(|thread| thread.join().is_err()));
    });
    compiler.image(&request("int a;")).unwrap();
}

#[test]
fn a_source_that_fails_after_one_that_compiled_still_fails() {
    let folder = Folder::new("fails");
    let (compiler, _) = compiler(CacheOptions::in_folder(folder.path()));
    compiler.image(&request("int a;")).unwrap();
    assert!(matches!(compiler.image(&request("int a; broken")), Err(CompileError::Source { .. })));
}

#[test]
fn memory_keeps_its_bound_and_the_recently_used() {
    let mut fake = Fake::new("0");
    fake.cubin_bytes = 10_000;
    let (compiler, runs) = compiler_of(fake, CacheOptions::memory_only().with_memory_bytes(200_000));
    for kernel in 0..100 {
        compiler.image(&request(&format!("int k{kernel};"))).unwrap();
        compiler.image(&request("int hot;")).unwrap();
        assert!(compiler.memory_bytes() <= 200_000, "{} bytes", compiler.memory_bytes());
    }
    assert_eq!(count(&runs), 101, "the image used every time was evicted");
    assert!(compiler.stats().memory_evicted > 50);
}

#[test]
fn the_folder_keeps_its_bound_and_the_recently_used() {
    let folder = Folder::new("bound");
    let mut fake = Fake::new("0");
    fake.cubin_bytes = 10_000;
    let (compiler, runs) = compiler_of(fake, no_memory(&folder).with_disk_bytes(300_000));
    compiler.image(&request("int hot;")).unwrap();
    for kernel in 0..100 {
        compiler.image(&request(&format!("int k{kernel};"))).unwrap();
        // Everything is long ago, so that the next use marks the hot one.
        for entry in folder.entries() {
            let file = std::fs::File::options().write(true).open(entry).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(7_000 - 60 * kernel)).unwrap();
        }
        compiler.image(&request("int hot;")).unwrap();
    }
    let bytes: u64 = folder.entries().iter().map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(bytes <= 300_000 + 300_000 / 8, "{bytes} bytes");
    assert_eq!(count(&runs), 101, "the entry used every time was evicted");
    let swept = compiler.gc();
    assert!(swept.kept_bytes <= 300_000, "{swept}");
    assert_eq!(compiler.clear().kept_entries, 0);
    assert_eq!(folder.entries(), Vec::<PathBuf>::new());
}

#[test]
fn temporaries_of_dead_writers_are_swept_and_those_of_living_ones_are_not() {
    let folder = Folder::new("temporaries");
    let (compiler, _) = compiler(no_memory(&folder));
    compiler.image(&request("int a;")).unwrap();
    let writing = compiler.cache_folder().unwrap().join("writing");
    std::fs::write(writing.join("dead"), "half an entry").unwrap();
    let living = std::fs::File::create(writing.join("living")).unwrap();
    living.lock().unwrap();
    assert_eq!(compiler.gc().temporaries, 1);
    assert_eq!(folder.files("/writing/"), [writing.join("living")]);
}

fn with_header(folder: &Folder) -> CompileRequest {
    let options = CompileOptions {
        include_folders: vec![folder.path().join("inc").to_str().unwrap().into()],
        ..CompileOptions::default()
    };
    request("#include <a.h>\nint x = A;").with_options(options)
}

fn write_header(folder: &Folder, text: &str) {
    std::fs::create_dir_all(folder.path().join("inc")).unwrap();
    std::fs::write(folder.path().join("inc/a.h"), text).unwrap();
}

#[test]
fn an_edited_header_is_compiled_anew_and_an_unchanged_one_is_not() {
    let folder = Folder::new("header");
    let cache = || CacheOptions::in_folder(folder.path().join("cache"));
    write_header(&folder, "#define A 1\n");
    let runs_of = |options: CacheOptions| {
        let (compiler, runs) = compiler(options);
        compiler.image(&with_header(&folder)).unwrap();
        count(&runs)
    };
    assert_eq!((runs_of(cache()), runs_of(cache())), (1, 0));
    write_header(&folder, "#define A 2\n");
    assert_eq!((runs_of(cache()), runs_of(cache())), (1, 0));
    write_header(&folder, "#define A 1\n");
    assert_eq!(runs_of(cache()), 0, "the first content is still there");
}

#[test]
fn with_a_check_at_every_request_an_edit_is_seen_in_memory_too() {
    let folder = Folder::new("every");
    write_header(&folder, "#define A 1\n");
    let options = CacheOptions::memory_only().with_header_check(HeaderCheck::EveryRequest);
    let (compiler, runs) = compiler(options);
    let prepared = compiler.prepare(&with_header(&folder));
    compiler.prepared_image(&prepared).unwrap();
    compiler.prepared_image(&prepared).unwrap();
    assert_eq!(count(&runs), 1);
    write_header(&folder, "#define A 22\n");
    compiler.prepared_image(&prepared).unwrap();
    assert_eq!(count(&runs), 2);
}

#[test]
fn what_no_key_can_hold_is_compiled_every_time() {
    let folder = Folder::new("uncacheable");
    let (compiler, runs) = compiler(CacheOptions::in_folder(folder.path()));
    for source in ["#define N </etc/a.h>\n#include N\n", "const char *t = __TIME__;"] {
        let before = count(&runs);
        compiler.image(&request(source)).unwrap();
        compiler.image(&request(source)).unwrap();
        assert_eq!(count(&runs), before + 2, "{source}");
    }
    assert_eq!(compiler.stats().uncacheable, 4);
    assert_eq!(folder.entries(), Vec::<PathBuf>::new());
}

#[test]
fn a_rejected_image_is_not_served_to_that_adapter_and_driver_again_in_any_process() {
    let folder = Folder::new("reject");
    let mut on_driver = request("int a;");
    on_driver.target =
        on_driver.target.with_driver(DriverVersion { major: 13, minor: 0 }).with_adapter([7; 16]);
    let options = || CacheOptions::in_folder(folder.path());
    let (first, runs) = compiler(options());
    let refused = first.image(&on_driver).unwrap();
    assert!(refused.cubin.is_some());
    first.reject(&refused, "no kernel image is available");
    for (compiler, runs) in [(first, runs), compiler(options())] {
        let image = compiler.image(&on_driver).unwrap();
        assert!(image.cubin.is_none() && image.ptx.is_some(), "{}", image.decision);
        assert!(count(&runs) <= 1, "the entry itself is sound and stays");
        // Another driver, another adapter, and whoever does not say which it is have not said anything yet.
        for (driver, adapter) in [((13, 1), Some([7; 16])), ((13, 0), Some([8; 16])), ((13, 0), None)] {
            let mut elsewhere = on_driver.clone();
            elsewhere.target.driver = Some(DriverVersion { major: driver.0, minor: driver.1 });
            elsewhere.target.adapter = adapter;
            assert!(compiler.image(&elsewhere).unwrap().cubin.is_some(), "{driver:?} {adapter:?}");
        }
        assert!(count(&runs) <= 1, "who asks does not change what is compiled");
    }
}

#[test]
fn a_bundle_answers_where_there_is_neither_compiler_nor_header() {
    let folder = Folder::new("bundle");
    let file = folder.path().join("kernels.bundle");
    write_header(&folder, "#define A 1\n");
    let (maker, _) = compiler(CacheOptions::in_folder(folder.path().join("cache")));
    let plain = maker.image(&request("int a;")).unwrap();
    let with = maker.image(&with_header(&folder)).unwrap();
    maker.image(&request("int left_out;")).unwrap();
    let mut kept = 0;
    let report = maker.export(&file, &mut |_| {
        kept += 1;
        true
    });
    assert_eq!((report.unwrap().copied, kept), (3, 3));
    std::fs::remove_dir_all(folder.path().join("inc")).unwrap();

    let offline = Compiler::from_bundle(Bundle::open(&file).unwrap()).unwrap();
    assert_eq!(offline.image(&request("int a;")).unwrap(), plain);
    assert_eq!(offline.image(&with_header(&folder)).unwrap(), with);
    let error = offline.image(&request("int b;")).unwrap_err();
    assert!(matches!(error, CompileError::NvrtcNotFound { .. }), "{error}");

    let elsewhere = Folder::new("bundle-elsewhere");
    let (importer, runs) = compiler(CacheOptions::in_folder(elsewhere.path()));
    assert_eq!(importer.import(&Bundle::open(&file).unwrap()).unwrap().copied, 3);
    assert_eq!(importer.import(&Bundle::open(&file).unwrap()).unwrap().left_out, 3);
    assert_eq!(importer.image(&request("int a;")).unwrap(), plain);
    assert_eq!(count(&runs), 0);
}

#[test]
fn a_bundle_beside_a_compiler_never_hides_an_edited_header() {
    let folder = Folder::new("bundle-header");
    let file = folder.path().join("kernels.bundle");
    write_header(&folder, "#define A 1\n");
    let cache = || CacheOptions::in_folder(folder.path().join("cache"));
    let (maker, _) = compiler(cache());
    maker.image(&with_header(&folder)).unwrap();
    maker.export(&file, &mut |_| true).unwrap();
    let beside = |runs_wanted: u64| {
        let (compiler, runs) = compiler(CacheOptions::none());
        let compiler = compiler.with_bundle(Bundle::open(&file).unwrap());
        compiler.image(&with_header(&folder)).unwrap();
        assert_eq!(count(&runs), runs_wanted);
    };
    beside(0);
    write_header(&folder, "#define A 2\n");
    beside(1);
    // Made with two states of the header, it cannot say which one a machine without headers means.
    let (maker, _) = compiler(cache());
    maker.image(&with_header(&folder)).unwrap();
    maker.export(&file, &mut |_| true).unwrap();
    beside(0);
    let offline = Compiler::from_bundle(Bundle::open(&file).unwrap()).unwrap();
    assert!(matches!(offline.image(&with_header(&folder)), Err(CompileError::NvrtcNotFound { .. })));
}

#[test]
fn a_damaged_bundle_gives_what_is_sound_in_it_and_never_more() {
    let folder = Folder::new("bundle-damage");
    let file = folder.path().join("kernels.bundle");
    let (maker, _) = compiler(CacheOptions::in_folder(folder.path().join("cache")));
    let sources = ["int a;", "int b;"];
    sources.iter().for_each(|source| drop(maker.image(&request(source)).unwrap()));
    maker.export(&file, &mut |_| true).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.bundle");
    for len in (0..whole.len()).step_by(7) {
        std::fs::write(&cut, &whole[..len]).unwrap();
        let Ok(bundle) = Bundle::open(&cut) else { continue };
        assert!(bundle.damaged() > 0 && bundle.len() < 2, "cut to {len}");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(&cut, &changed).unwrap();
        let Ok(bundle) = Bundle::open(&cut) else { continue };
        assert!(bundle.damaged() > 0, "byte {at}");
        let offline = Compiler::from_bundle(bundle).unwrap();
        for source in sources {
            if let Ok(image) = offline.image(&request(source)) {
                assert_eq!(image.ptx.as_deref(), Some(fake::ptx(source).as_str()), "byte {at}");
            }
        }
    }
}

#[test]
fn hand_written_ptx_is_checked_and_left_alone() {
    let (compiler, runs) = compiler(CacheOptions::memory_only());
    let target = Target::new(ComputeCapability::from_sm(90));
    let text = ".version 7.8\n.target sm_80\n.visible .entry hand() { ret; }\n";
    let image = compiler.image(&CompileRequest::ptx("h.ptx", text, target)).unwrap();
    assert_eq!((image.ptx.as_deref(), image.entry_points.as_slice()), (Some(text), &["hand".to_owned()][..]));
    for (broken, line) in [(".target sm_90", 1), (".version 7.8\n.target sm_100", 2)] {
        let error = compiler.image(&CompileRequest::ptx("h.ptx", broken, target)).unwrap_err();
        assert!(matches!(error, CompileError::Ptx { line: at, .. } if at == line), "{error}");
    }
    let defined = CompileOptions { defines: vec![("A".into(), "1".into())], ..CompileOptions::default() };
    let error =
        compiler.image(&CompileRequest::ptx("h.ptx", text, target).with_options(defined)).unwrap_err();
    assert!(matches!(error, CompileError::Request(_)));
    assert_eq!(count(&runs), 0);
}
