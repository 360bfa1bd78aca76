//! The real NVRTC libraries of `target/cuda`, which `cargo xtask test` fetches; no GPU needed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

use std::path::PathBuf;

use cuforge_compile::{CacheOptions, CompileError, Compiler, Nvrtc, SearchPaths};
use cuforge_core::{
    CompileFailureKind, CompileOptions, CompileRequest, ComputeCapability, KernelCompiler, Target,
};

const VERSIONS: [(&str, (u32, u32)); 4] =
    [("12.4.127", (12, 4)), ("12.9.86", (12, 9)), ("13.0.88", (13, 0)), ("13.5.37", (13, 5))];

fn root(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda").join(format!("nvrtc-{version}"))
}

fn nvrtc(version: &str) -> Nvrtc {
    Nvrtc::find(&SearchPaths::only([root(version)])).unwrap()
}

/// Memory only: a test neither reads nor fills the cache of whoever runs it.
fn compiler(version: &str) -> Compiler {
    Compiler::with_nvrtc(nvrtc(version)).with_cache(CacheOptions::memory_only())
}

fn target(sm: u16) -> Target {
    Target::new(ComputeCapability::from_sm(sm))
}

const SAXPY: &str = "extern \"C\" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {\n\
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) y[i] = a * x[i] + y[i];\n}\n";

#[test]
#[ignore = "needs NVRTC"]
fn every_version_compiles_side_by_side_to_cubin_and_ptx() {
    for (version, number) in VERSIONS {
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
    for (version, _) in VERSIONS {
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
    for (version, _) in VERSIONS {
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
    for (version, _) in VERSIONS {
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
    let headers =
        ["mma.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "cuda/std/array", "cuda/barrier"];
    for (version, _) in VERSIONS {
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
    for (version, _) in VERSIONS {
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
