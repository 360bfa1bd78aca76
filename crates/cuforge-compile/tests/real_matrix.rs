//! Kernels x NVRTC versions x targets through the real compilers, linkers and assemblers; one folder for all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;
mod toolchains;

use cuforge_compile::{CacheOptions, CompileError, Compiler, Linker, kernel_resources};
use cuforge_core::{CompileRequest, DriverVersion, TargetVariant};
use fake::Folder;
use toolchains::{VERSIONS, assemble, candidate, compiler, long, nvrtc, target};

/// Name, least architecture, text. Those with heavy headers come last: each takes NVRTC about a second.
const KERNELS: &[(&str, u16, &str)] = &[
    (
        "axpy",
        0,
        "extern \"C\" __global__ void k(float a, float *x) { x[threadIdx.x] = a * x[threadIdx.x] + 1.0f; }",
    ),
    (
        "shared",
        0,
        "extern \"C\" __global__ void k(int *x) { __shared__ int s[64]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); \
         x[threadIdx.x] = s[63 - threadIdx.x] + __shfl_xor_sync(~0u, x[0], 1) + atomicAdd(x, 1); }",
    ),
    (
        "math",
        0,
        "extern \"C\" __global__ void k(float *x, double *y) { *x = sinf(*x) + expf(x[1]); *y = pow(*y, y[1]); }",
    ),
    ("print", 0, "extern \"C\" __global__ void k(int *x) { printf(\"%d\\n\", *x); }"),
    (
        "half",
        0,
        "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half2 *x) { *x = __hfma2(*x, x[1], x[2]); }",
    ),
    (
        "bf16",
        80,
        "#include <cuda_bf16.h>\nextern \"C\" __global__ void k(__nv_bfloat16 *x) { *x = __hadd(*x, x[1]); }",
    ),
    (
        "wmma",
        0,
        "#include <mma.h>\nusing namespace nvcuda;\nextern \"C\" __global__ void k(const __half *a, float *c) {\n\
         wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;\n\
         wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;\n\
         wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;\n\
         wmma::fill_fragment(fc, 0.0f); wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, a, 16);\n\
         wmma::mma_sync(fc, fa, fb, fc); wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major); }",
    ),
    (
        "groups",
        0,
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nextern \"C\" __global__ void k(int *x) {\n\
         auto tile = cg::tiled_partition<32>(cg::this_thread_block()); *x = tile.shfl_down(*x, 1); }",
    ),
    (
        "barrier",
        80,
        "#include <cuda/barrier>\n#pragma nv_diag_suppress static_var_with_dynamic_init\nextern \"C\" __global__ void k(int *x) {\n\
         __shared__ cuda::barrier<cuda::thread_scope_block> b; if (threadIdx.x == 0) init(&b, blockDim.x);\n\
         __syncthreads(); b.arrive_and_wait(); *x = 1; }",
    ),
];

/// The slice that every run takes: all kernels but the heaviest, two targets.
fn slice() -> (&'static [(&'static str, u16, &'static str)], &'static [u16]) {
    if long() { (KERNELS, &[75, 80, 86, 89, 90, 100, 103, 120]) } else { (&KERNELS[..8], &[75, 90]) }
}

fn request(name: &str, source: &str, sm: u16) -> CompileRequest {
    CompileRequest::cuda_c(format!("{name}.cu"), source, target(sm))
}

#[test]
#[ignore = "needs NVRTC"]
fn every_version_makes_its_own_and_gets_its_own_back_from_one_shared_folder() {
    let folder = Folder::new("matrix");
    let (kernels, targets) = slice();
    let mut made = Vec::new();
    for round in 0..2 {
        let mut seen = 0;
        for (version, _, ptx_version) in VERSIONS {
            let options = CacheOptions::in_folder(folder.path().join("cache")).with_memory_bytes(0);
            let compiler = Compiler::with_nvrtc(nvrtc(version)).with_cache(options);
            let archs = compiler.engine().supported_archs().to_vec();
            for (name, least, source) in kernels {
                for &sm in targets.iter().filter(|sm| *sm >= least && archs.contains(&u32::from(**sm))) {
                    let image = compiler.image(&request(name, source, sm)).unwrap();
                    if round == 1 {
                        assert_eq!(image, made[seen], "{version} {name} sm_{sm}");
                        seen += 1;
                        continue;
                    }
                    let ptx = image.ptx.as_deref().unwrap();
                    assert!(ptx.contains(&format!(".version {ptx_version}\n")), "{version} {name} sm_{sm}");
                    assert!(ptx.contains(&format!(".target sm_{sm}\n")), "{version} {name} sm_{sm}");
                    assert!(
                        image.cubin.as_deref().unwrap().starts_with(b"\x7fELF"),
                        "{version} {name} sm_{sm}"
                    );
                    assert_eq!(
                        (image.entry_points.as_slice(), image.log.as_str()),
                        (&["k".to_owned()][..], "")
                    );
                    made.push(image);
                }
            }
            let stats = compiler.stats();
            assert_eq!((stats.collisions, stats.quarantined, stats.uncacheable), (0, 0, 0), "{version}");
            assert_eq!(
                (stats.compiled == 0, stats.disk_hits == 0),
                (round == 1, round == 0),
                "{version}: {stats}"
            );
        }
    }
    let cubins: std::collections::BTreeSet<_> = made.iter().map(|image| image.digest).collect();
    assert_eq!(cubins.len(), made.len(), "two of the matrix got the same artifact");
}

#[test]
#[ignore = "needs NVRTC"]
fn ptx_newer_than_the_driver_is_lowered_to_what_the_real_assembler_takes() {
    let folder = Folder::new("lowered");
    let maker = compiler("13.5.37");
    let (kernels, targets) = slice();
    let (mut lowered, mut kept) = (0, Vec::new());
    for (name, least, source) in kernels {
        for &sm in targets.iter().filter(|sm| *sm >= least) {
            let ptx = maker.image(&request(name, source, sm)).unwrap().ptx.clone().unwrap();
            let without_linker = compiler("13.5.37").with_linker(None);
            for driver in [(12, 0), (12, 4), (12, 8), (13, 0)] {
                let on_driver = target(sm).with_driver(DriverVersion { major: driver.0, minor: driver.1 });
                match without_linker.image(&CompileRequest::ptx("k.ptx", ptx.clone(), on_driver)) {
                    Ok(image) => {
                        let text = image.ptx.as_deref().unwrap();
                        let assembled = assemble("13.5.37", text, &format!("sm_{sm}"), folder.path());
                        assert_eq!(assembled, Ok(()), "{name} sm_{sm} {driver:?}: {}", image.decision);
                        lowered += 1;
                    }
                    Err(CompileError::Unloadable { tried, .. }) => {
                        kept.push(format!("{name} sm_{sm} {driver:?} {tried:?}"));
                    }
                    Err(error) => panic!("{name} sm_{sm}: {error}"),
                }
            }
        }
    }
    assert!(lowered > kept.len(), "hardly anything is lowered: {kept:#?}");
}

#[test]
#[ignore = "needs NVRTC"]
fn ptx_newer_than_the_driver_is_linked_where_there_is_a_linker_and_the_link_is_cached() {
    let folder = Folder::new("linked");
    let ptx = compiler("13.5.37").image(&request("axpy", KERNELS[0].2, 90)).unwrap().ptx.clone().unwrap();
    let on_driver = target(90).with_driver(DriverVersion { major: 12, minor: 4 });
    for links in [1, 0] {
        let options = CacheOptions::in_folder(folder.path()).with_memory_bytes(0);
        let linking = Compiler::with_nvrtc(nvrtc("13.5.37")).with_cache(options);
        let image = linking.image(&CompileRequest::ptx("k.ptx", ptx.clone(), on_driver)).unwrap();
        assert!(image.cubin.as_deref().unwrap().starts_with(b"\x7fELF"));
        assert!(image.decision.contains("linked in user space"), "{}", image.decision);
        assert_eq!(linking.stats().linked, links);
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn broken_ptx_is_refused_with_the_assemblers_own_line() {
    let broken = ".version 9.5\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n  no.such.instruction;\n  ret;\n}\n";
    let on_driver = target(90).with_driver(DriverVersion { major: 13, minor: 0 });
    let error = compiler("13.5.37").image(&CompileRequest::ptx("k.ptx", broken, on_driver)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("line 6") && text.contains("no.such"), "{text}");
}

#[test]
#[ignore = "needs NVRTC"]
fn a_linker_that_is_too_old_says_so_and_the_next_form_is_tried() {
    let old = Linker::load(candidate("12.9.86").nvjitlink.as_deref().unwrap()).unwrap();
    assert_eq!(old.newest_ptx().unwrap().to_string(), "8.8");
    let ptx = compiler("13.5.37").image(&request("axpy", KERNELS[0].2, 90)).unwrap().ptx.clone().unwrap();
    let on_driver = target(90).with_driver(DriverVersion { major: 12, minor: 4 });
    let compiler = compiler("13.5.37").with_linker(Some(old));
    let image = compiler.image(&CompileRequest::ptx("k.ptx", ptx, on_driver)).unwrap();
    assert!(image.decision.contains("lowered from 9.5 to 8.4"), "{}", image.decision);
    assert!(image.decision.contains("linking it failed"), "{}", image.decision);
}

#[test]
#[ignore = "needs NVRTC"]
fn a_device_newer_than_the_compiler_gets_ptx_that_newer_tools_take() {
    let folder = Folder::new("newer");
    let image = compiler("12.4.127").with_linker(None).image(&request("axpy", KERNELS[0].2, 100)).unwrap();
    assert!(
        image.cubin.is_none() && image.decision.contains("compute_90 is the highest below"),
        "{}",
        image.decision
    );
    let ptx = image.ptx.as_deref().unwrap();
    assert_eq!(assemble("13.5.37", ptx, "sm_100", folder.path()), Ok(()));
}

#[test]
#[ignore = "needs NVRTC"]
fn suffixed_targets_are_built_where_they_exist() {
    let cases = [("12.4.127", 90, TargetVariant::Architecture), ("12.9.86", 100, TargetVariant::Family)];
    for (version, sm, variant) in cases {
        let request = CompileRequest::cuda_c("k.cu", KERNELS[0].2, target(sm).with_variant(variant));
        let image = compiler(version).image(&request).unwrap();
        let name = request.target.to_string();
        assert!(image.ptx.as_deref().unwrap().contains(&format!(".target {name}\n")), "{name}");
        assert!(image.cubin.is_some());
    }
}

/// `Used 12 registers, used 1 barriers, 400 bytes smem` of the assembler's log.
fn number_before(log: &str, word: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains("Used "))?;
    let before = line.split(word).next()?.trim_end();
    if before.len() == line.len() { None } else { before.rsplit([' ', ',']).next()?.parse().ok() }
}

#[test]
#[ignore = "needs NVRTC"]
fn registers_and_shared_memory_read_from_a_cubin_are_those_that_the_assembler_told() {
    let (kernels, targets) = slice();
    for (version, ..) in VERSIONS {
        let compiler = compiler(version);
        for (name, least, source) in kernels.iter().filter(|(name, ..)| *name != "groups") {
            for &sm in targets.iter().filter(|sm| *sm >= least) {
                if !compiler.engine().supported_archs().contains(&u32::from(sm)) {
                    continue;
                }
                let mut request = request(name, source, sm);
                request.options.raw = vec!["--ptxas-options=-v".into()];
                let image = compiler.image(&request).unwrap();
                let found = kernel_resources(image.cubin.as_deref().unwrap());
                let kernel = found.iter().find(|kernel| kernel.name == "k").unwrap();
                let told = number_before(&image.log, "registers");
                assert_eq!(kernel.registers.map(u64::from), told, "{version} {name} sm_{sm}: {}", image.log);
                let told = number_before(&image.log, "bytes smem").unwrap_or(0);
                let shared = if told > 0 && sm >= 90 { told + 1024 } else { told };
                assert_eq!(kernel.shared_bytes, shared, "{version} {name} sm_{sm}: {}", image.log);
            }
        }
    }
}
