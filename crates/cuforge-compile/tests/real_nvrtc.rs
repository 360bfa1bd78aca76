//! The real NVRTC libraries of `target/cuda`, which `cargo xtask test` fetches; no GPU needed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;
mod toolchains;

use cuforge_compile::{CacheOptions, CompileError, Compiler, Nvrtc};
use cuforge_core::{CompileFailureKind, CompileOptions, CompileRequest, KernelCompiler};
use fake::Folder;
use toolchains::{VERSIONS, candidate, compiler, nvrtc, target};

const SAXPY: &str = "extern \"C\" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {\n\
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) y[i] = a * x[i] + y[i];\n}\n";

#[test]
#[ignore = "needs NVRTC"]
fn every_version_compiles_side_by_side_to_cubin_and_ptx() {
    for (version, number, _) in VERSIONS {
        let nvrtc = nvrtc(version);
        assert_eq!(nvrtc.version(), number);
        let compiler = Compiler::with_nvrtc(nvrtc).with_cache(CacheOptions::memory_only());
        let image = compiler.compile(&CompileRequest::cuda_c("saxpy.cu", SAXPY, target(90))).unwrap();
        assert_eq!(image.entry_points, ["saxpy"]);
        assert!(image.cubin.as_deref().unwrap().starts_with(b"\x7fELF"), "{version}");
        assert!(image.ptx.as_deref().unwrap().contains(".target sm_90"), "{version}");
        assert_eq!(image.log, "", "{version}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn an_error_carries_the_whole_log_with_the_users_file_and_line() {
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        let source = "\n\nextern \"C\" __global__ void k() { int x = nothing_here; }";
        let failure =
            compiler.compile(&CompileRequest::cuda_c("my/kernel.cu", source, target(90))).unwrap_err();
        assert_eq!(failure.kind, CompileFailureKind::Source);
        assert!(failure.log.contains("my/kernel.cu(3)") && failure.log.contains("nothing_here"), "{failure}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn a_source_with_headers_keeps_its_name_in_messages_and_line_info() {
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        let request = |source: &str| CompileRequest::cuda_c("my/kernel.cu", source, target(90));
        let broken = request("#include <cuda_fp16.h>\n\n__global__ void k() { int x = nothing_here; }");
        let failure = compiler.compile(&broken).unwrap_err();
        assert!(failure.log.contains("my/kernel.cu(3)") && !failure.log.contains("/dev/null"), "{failure}");
        assert!(failure.log.contains("the compilation of \"my/kernel.cu\""), "{failure}");
        let lined = CompileOptions { line_info: true, ..CompileOptions::default() };
        let good = request("#include <cuda_fp16.h>\n__global__ void k(__half *x) { *x = 1.0f; }")
            .with_options(lined);
        let image = compiler.compile(&good).unwrap();
        let ptx = image.ptx.as_deref().unwrap();
        assert!(ptx.contains("my/kernel.cu\"") && !ptx.contains("/dev/null"), "{version}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn headers_in_the_working_folder_or_beside_the_name_are_not_seen() {
    let dir = std::env::temp_dir().join(format!("cuforge-beside-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("beside.h"), "#define BESIDE 1\n").unwrap();
    let name = dir.join("k.cu");
    let source = "#include \"beside.h\"\nextern \"C\" __global__ void k(int *x) { *x = BESIDE; }";
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        let request = CompileRequest::cuda_c(name.to_str().unwrap(), source, target(80));
        let failure = compiler.compile(&request).unwrap_err();
        assert!(failure.log.contains("beside.h"), "{version}: {failure}");
        // Named as a folder it is found.
        let folder = CompileOptions {
            include_folders: vec![dir.to_str().unwrap().into()],
            ..CompileOptions::default()
        };
        compiler.compile(&request.with_options(folder)).unwrap();
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "needs NVRTC"]
fn the_headers_of_every_layout_compile_out_of_the_box() {
    let headers = [
        "mma.h",
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cooperative_groups.h",
        "cuda/std/array",
        "cuda/barrier",
        "nv/target",
        "vector_types.h",
    ];
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        for header in headers {
            let source = format!("#include <{header}>\nextern \"C\" __global__ void k() {{}}");
            let image = compiler.image(&CompileRequest::cuda_c("k.cu", source, target(80)));
            assert!(image.is_ok(), "{version} {header}: {}", image.unwrap_err());
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn defines_and_lowered_names_reach_the_image() {
    let source = "template <int N> __global__ void k(int *x) { *x = N + CUFORGE_ITEMS; }";
    let options = CompileOptions {
        defines: vec![("CUFORGE_ITEMS".into(), "4".into())],
        name_expressions: vec!["k<7>".into(), "&k<9>".into()],
        ..CompileOptions::default()
    };
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        let request = CompileRequest::cuda_c("k.cu", source, target(80)).with_options(options.clone());
        let image = compiler.compile(&request).unwrap();
        assert_eq!(image.lowered_names.len(), 2);
        for (_, lowered) in &image.lowered_names {
            assert!(
                image.entry_points.contains(lowered),
                "{version}: {lowered} not in {:?}",
                image.entry_points
            );
        }
        assert!(image.ptx.as_deref().unwrap().contains("11"), "{version}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn bad_options_and_zero_bytes_are_named() {
    let compiler = compiler("13.5.37");
    let raw = CompileOptions { raw: vec!["--no-such-thing".into()], ..CompileOptions::default() };
    let error =
        compiler.image(&CompileRequest::cuda_c("k.cu", SAXPY, target(90)).with_options(raw)).unwrap_err();
    assert!(
        matches!(&error, CompileError::InvalidOption { log, .. } if log.contains("no-such-thing")),
        "{error}"
    );
    let error = compiler.image(&CompileRequest::cuda_c("k.cu", "int\0x;", target(90))).unwrap_err();
    assert!(matches!(error, CompileError::NulByte { what: "source", at: 3 }), "{error}");
    let error = compiler.image(&CompileRequest::cuda_c("k.cu", SAXPY, target(70))).unwrap_err();
    assert!(matches!(error, CompileError::Target { .. }), "{error}");
}

#[test]
#[ignore = "needs NVRTC"]
fn another_build_of_a_loaded_version_is_refused_and_the_same_build_elsewhere_is_not() {
    let folder = Folder::new("patch");
    let loaded = nvrtc("12.4.127");
    let mut copy = candidate("12.4.127");
    let mut bytes = std::fs::read(&copy.library).unwrap();
    copy.library = folder.path().join("libnvrtc.so.12");
    std::fs::write(&copy.library, &bytes).unwrap();
    assert_eq!(Nvrtc::load(&copy).unwrap().library(), loaded.library(), "the same build is loaded once");
    // Another build id is another build; the file is refused before it is opened, so what it holds does not matter.
    let note = bytes
        .windows(16)
        .position(|head| head[..4] == [4, 0, 0, 0] && head[8..] == *b"\x03\0\0\0GNU\0")
        .unwrap();
    bytes[note + 16] ^= 0xff;
    std::fs::write(&copy.library, &bytes).unwrap();
    let error = Nvrtc::load(&copy).unwrap_err();
    assert!(matches!(&error, CompileError::PatchConflict { version: (12, 4), .. }), "{error}");
    assert!(error.to_string().contains("nvrtc-12.4.127"), "{error}");
}

#[test]
#[ignore = "needs NVRTC"]
fn bundled_headers_replace_a_missing_toolkit() {
    let folder = Folder::new("bundled");
    let mut bare = candidate("13.5.37");
    bare.includes.clear();
    let nvrtc = Nvrtc::load(&bare).unwrap();
    assert!(nvrtc.include_dirs().is_empty());
    let nvrtc = nvrtc.with_bundled_headers(&folder.path().join("headers")).unwrap();
    let compiler = Compiler::with_nvrtc(nvrtc).with_cache(CacheOptions::memory_only());
    for header in ["mma.h", "cuda_fp16.h", "cuda/std/array", "cooperative_groups.h"] {
        let source = format!("#include <{header}>\nextern \"C\" __global__ void k() {{}}");
        let image = compiler.image(&CompileRequest::cuda_c("k.cu", source, target(80)));
        assert!(image.is_ok(), "{header}: {}", image.unwrap_err());
    }
    assert!(Nvrtc::load(&candidate("12.9.86")).unwrap().with_bundled_headers(folder.path()).is_err());
}

/// Set for the process that has a cache folder of its own.
const ALONE: &str = "CUFORGE_TEST_BUNDLED";

#[test]
#[ignore = "needs NVRTC"]
fn without_a_header_folder_the_bundled_headers_are_unpacked_into_the_cache_folder() {
    if std::env::var_os(ALONE).is_none() {
        let folder = Folder::new("bundled-default");
        let name = "without_a_header_folder_the_bundled_headers_are_unpacked_into_the_cache_folder";
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--include-ignored"])
            .env(ALONE, "1")
            .env("CUFORGE_CACHE", folder.path())
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        assert!(!folder.files("cuda_fp16.h").is_empty());
        return;
    }
    let mut bare = candidate("13.5.37");
    bare.includes.clear();
    let compiler = Compiler::with_nvrtc(Nvrtc::load(&bare).unwrap());
    let source = "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half *x) { *x = 1.0f; }";
    compiler.image(&CompileRequest::cuda_c("k.cu", source, target(80))).unwrap();
}

#[cfg(unix)]
#[test]
#[ignore = "needs NVRTC"]
fn include_folders_beyond_ascii_or_utf_8_work() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("include-names");
    for name in ["\u{fc}n\u{ef}-\u{65e5}\u{672c}".as_bytes(), b"not \xff utf-8"] {
        let inner = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("a.h"), "#define A 7\n").unwrap();
        for (version, ..) in VERSIONS {
            let mut found = candidate(version);
            found.includes.insert(0, inner.clone());
            let compiler =
                Compiler::with_nvrtc(Nvrtc::load(&found).unwrap()).with_cache(CacheOptions::none());
            let source = "#include <a.h>\nextern \"C\" __global__ void k(int *x) { *x = A; }";
            let image = compiler.image(&CompileRequest::cuda_c("k.cu", source, target(80)));
            assert!(image.is_ok(), "{version} {name:?}: {}", image.unwrap_err());
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn a_source_of_50_mb_works_or_says_why() {
    let mut source = String::from(SAXPY);
    while source.len() < 50 << 20 {
        source.push_str(
            "// a comment that makes this source as large as no source should be, and then some more\n",
        );
    }
    let image = compiler("13.5.37").image(&CompileRequest::cuda_c("large.cu", source, target(90))).unwrap();
    assert_eq!(image.entry_points, ["saxpy"]);
}

#[test]
#[ignore = "needs NVRTC"]
fn unknown_architectures_are_named_with_what_there_is() {
    let unknown = target(90).with_variant(cuforge_core::TargetVariant::Family);
    for (target, want) in [(target(60), "sm_60"), (unknown, "sm_90f")] {
        let error = compiler("13.5.37").image(&CompileRequest::cuda_c("k.cu", SAXPY, target)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(want) && text.contains("sm 75 80"), "{text}");
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn the_assemblers_words_on_registers_and_spills_are_kept_with_the_entry() {
    let folder = Folder::new("verbose");
    let verbose = CompileOptions { raw: vec!["--ptxas-options=-v".into()], ..CompileOptions::default() };
    let request = CompileRequest::cuda_c("k.cu", SAXPY, target(90)).with_options(verbose);
    for (version, ..) in VERSIONS {
        let logs = [(), ()].map(|()| {
            let options = CacheOptions::in_folder(folder.path()).with_memory_bytes(0);
            let compiler = Compiler::with_nvrtc(nvrtc(version)).with_cache(options);
            compiler.image(&request).unwrap().log.clone()
        });
        assert!(logs[0].contains("registers") && logs[0].contains("spill stores"), "{version}: {}", logs[0]);
        assert_eq!(logs[0], logs[1], "{version}: a hit tells less than the compilation did");
    }
}
