//! Atomics of many threads on one word.

use crate::harness::{Bench, fault, load, module, run};

#[test]
fn sums_over_all_blocks_are_complete() {
    let body = "atom.global.add.u32 %r6, [%rd2], 1;\nred.global.add.u32 [%rd2+4], %r4;\n\
                atom.global.max.u32 %r7, [%rd2+8], %r4;\nred.global.or.b32 [%rd2+12], 64;";
    let kernel = load(&module("", body));
    let mut bench = Bench::new(512);
    for at in 0..4 {
        bench.memory.write(bench.b + at * 4, &0u32.to_le_bytes()).unwrap();
    }
    bench.launch(&kernel, 8, 64).unwrap();
    let mut bytes = [0; 16];
    bench.memory.read(bench.b, &mut bytes).unwrap();
    let words: Vec<u32> = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [512, 511 * 512 / 2, 511, 64]);
}

#[test]
fn float_sums_come_out_the_same_each_time() {
    let body =
        "cvt.rn.f32.u32 %f1, %r4;\ndiv.rn.f32 %f1, %f1, 0f40400000;\natom.global.add.f32 %f2, [%rd1], %f1;";
    let kernel = load(&module("", body));
    let sum = |threads, seed| {
        let mut bench = Bench::new(4);
        bench.options.threads = threads;
        bench.options.seed = seed;
        bench.memory.write(bench.a, &0u32.to_le_bytes()).unwrap();
        bench.launch(&kernel, 16, 96).unwrap();
        bench.result()[0]
    };
    let first = sum(1, 3);
    assert!([2, 3, 4].into_iter().all(|threads| sum(threads, 3) == first));
    let value = f64::from(f32::from_bits(first));
    let exact = (0..1536).map(f64::from).sum::<f64>() / 3.0;
    assert!((value - exact).abs() < exact * 1e-4, "{value} {exact}");
}

#[test]
fn a_histogram_in_shared_memory_counts_all() {
    let body = ".shared .align 4 .b8 bins[32];\nsetp.lt.u32 %p1, %r2, 8;\nshl.b32 %r6, %r2, 2;\nmov.u32 %r7, bins;\n\
                add.u32 %r6, %r6, %r7;\n@%p1 st.shared.u32 [%r6], 0;\nbar.sync 0;\nand.b32 %r8, %r2, 7;\n\
                shl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r8, %r7;\natom.shared.inc.u32 %r9, [%r8], 1000;\nbar.sync 0;\n\
                @%p1 ld.shared.u32 %r9, [%r6];\nst.global.u32 [%rd3], %r9;";
    let result = run("", body, 2, 128).unwrap();
    assert_eq!((&result[..8], &result[128..136]), (&[16; 8][..], &[16; 8][..]));
}

#[test]
fn atomics_are_checked_like_other_accesses() {
    let found = fault("", "atom.global.add.u32 %r6, [%rd4+4096], 1;", 1, 1);
    assert!(found.to_string().contains("atomic of 4 bytes out of bounds"), "{found}");
    let found = fault("", "atom.global.add.u64 %rd5, [%rd4+4], 1;", 1, 1);
    assert!(found.to_string().contains("misaligned"), "{found}");
}
