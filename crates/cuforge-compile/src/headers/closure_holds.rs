//! The real compilers read no file outside the closure: with nothing but the closure's files they give the same code.

use std::fs;
use std::path::{Path, PathBuf};

use super::{HeaderCheck, Headers};
use crate::bytes::Reader;
use crate::engine::{Engine, Job, Limits};
use crate::locate::SearchPaths;
use crate::nvrtc::Nvrtc;

fn files(record: &[u8]) -> Vec<PathBuf> {
    let mut reader = Reader::new(record);
    reader.fields().unwrap();
    reader.texts().unwrap().into_iter().map(PathBuf::from).collect()
}

fn compile(nvrtc: &Nvrtc, source: &str, folders: &[PathBuf]) -> String {
    let mut options = vec![b"--gpu-architecture=compute_80".to_vec()];
    options.extend(folders.iter().map(|folder| format!("-I{}", folder.display()).into_bytes()));
    let job = Job {
        name: "/dev/null/k.cu".into(),
        source: source.into(),
        options,
        headers: vec![],
        name_expressions: vec![],
    };
    nvrtc.run(&job, &Limits::default()).unwrap().ptx.unwrap()
}

fn holds(version: &str, header: &str) {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda").join(format!("nvrtc-{version}"));
    let nvrtc = Nvrtc::find(&SearchPaths::only([root])).unwrap();
    let source = format!("#include <{header}>\nextern \"C\" __global__ void k(int *x) {{ *x = 1; }}");
    let folders = nvrtc.include_dirs();
    let closure = Headers::new(HeaderCheck::Once, None).closure([&*source].into_iter(), folders);
    assert_eq!(closure.uncacheable, None, "{version} {header}");
    let copy = std::env::temp_dir().join(format!(
        "cuforge-closure-{}-{version}-{}",
        std::process::id(),
        header.replace('/', "-")
    ));
    let _ = fs::remove_dir_all(&copy);
    let copies: Vec<PathBuf> = (0..folders.len()).map(|at| copy.join(format!("{at}"))).collect();
    for file in files(&closure.record) {
        // Folders lie inside each other (`include/cccl`), so a file belongs into each that holds it.
        for (folder, copy) in folders.iter().zip(&copies) {
            if let Ok(inner) = file.strip_prefix(folder) {
                fs::create_dir_all(copy.join(inner).parent().unwrap()).unwrap();
                fs::copy(&file, copy.join(inner)).unwrap();
            }
        }
    }
    assert_eq!(compile(&nvrtc, &source, &copies), compile(&nvrtc, &source, folders), "{version} {header}");
    fs::remove_dir_all(copy).unwrap();
}

#[test]
#[ignore = "needs NVRTC"]
fn light_headers_are_covered_on_every_version() {
    for version in ["12.4.127", "12.9.86", "13.0.88", "13.5.37"] {
        for header in ["cuda_fp16.h", "cuda_bf16.h", "mma.h"] {
            holds(version, header);
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn the_core_libraries_are_covered() {
    for (version, header) in [("12.9.86", "cuda/barrier"), ("13.5.37", "cub/block/block_reduce.cuh")] {
        holds(version, header);
    }
}

#[test]
#[ignore = "long"]
fn every_header_is_covered_on_every_version() {
    for version in ["12.4.127", "12.9.86", "13.0.88", "13.5.37"] {
        for header in ["cooperative_groups.h", "cuda/std/array", "cuda/barrier", "cuda/atomic"] {
            holds(version, header);
        }
    }
    // Older ones include `<cstdio>`, which no compiler without a host has.
    for version in ["13.0.88", "13.5.37"] {
        holds(version, "cub/block/block_reduce.cuh");
    }
}
