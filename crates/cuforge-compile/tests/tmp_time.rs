//! tmp
mod fake;
mod toolchains;
use cuforge_compile::*;
use cuforge_core::*;
#[test]
fn time() {
    let folder = fake::Folder::new("tmptime");
    for v in ["12.9.86", "13.5.37"] {
        for header in ["cuda_fp16.h", "mma.h", "cuda/barrier", "cub/block/block_reduce.cuh"] {
            let req = CompileRequest::cuda_c(
                "k.cu",
                format!("#include <{header}>\nextern \"C\" __global__ void k(int*x){{*x=1;}}"),
                toolchains::target(80),
            );
            let n = toolchains::nvrtc(v);
            for i in 0..3 {
                let c = Compiler::with_nvrtc(n.clone())
                    .with_cache(CacheOptions::in_folder(folder.path()).with_memory_bytes(0));
                let t = std::time::Instant::now();
                let r = c.image(&req);
                let a = t.elapsed();
                let t = std::time::Instant::now();
                let _ = c.image(&req);
                println!(
                    "{v} {header} {i}: first {:?} second {:?} ok {} {}",
                    a,
                    t.elapsed(),
                    r.is_ok(),
                    c.stats()
                );
            }
        }
    }
}
