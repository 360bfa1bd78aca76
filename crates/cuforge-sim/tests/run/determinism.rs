//! The same bits and the same faults for any number of host threads.

use crate::harness::{Bench, load, module};

/// Shared memory, shuffles, divergence and floats in one kernel.
const MIXED: &str = ".shared .align 4 .b8 s[512];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r6, %r6, %r7;\n\
    ld.global.nc.u32 %r8, [%rd4];\ncvt.rn.f32.u32 %f1, %r8;\nsqrt.rn.f32 %f1, %f1;\nex2.approx.ftz.f32 %f2, %f1;\n\
    and.b32 %r9, %r2, 1;\nsetp.eq.u32 %p1, %r9, 0;\n@%p1 bra EVEN;\nadd.rn.f32 %f2, %f2, %f1;\nEVEN:\n\
    st.shared.f32 [%r6], %f2;\nbar.sync 0;\nmov.u32 %r10, s;\nxor.b32 %r11, %r7, 64;\nadd.u32 %r10, %r10, %r11;\n\
    ld.shared.f32 %f3, [%r10];\nshfl.sync.down.b32 %f4, %f3, 3, 31, -1;\nfma.rn.f32 %f3, %f3, %f4, %f2;\n\
    st.global.f32 [%rd3], %f3;";

#[test]
fn results_and_counts_do_not_depend_on_host_threads_or_seed() {
    let kernel = load(&module("", MIXED));
    let outcome = |threads, seed| {
        let mut bench = Bench::new(64 * 128);
        bench.options.threads = threads;
        bench.options.seed = seed;
        let report = bench.launch(&kernel, 64, 128).unwrap();
        (bench.result(), report)
    };
    let first = outcome(1, 0);
    for threads in 2..=4 {
        assert!(outcome(threads, 0) == first, "{threads} threads");
    }
    // No hazards, so the order of warps does not matter either.
    assert!(outcome(2, 99) == first);
}

#[test]
fn the_lowest_faulting_block_is_named_for_any_number_of_host_threads() {
    // Blocks from 5 on run out of bounds; later ones sooner.
    let body = "setp.lt.u32 %p1, %r3, 5;\n@%p1 ret;\nsub.u32 %r6, 100, %r3;\nLOOP:\nsub.u32 %r6, %r6, 1;\n\
                setp.gt.u32 %p2, %r6, 0;\n@%p2 bra LOOP;\nld.global.u32 %r7, [%rd4+65536];";
    let kernel = load(&module("", body));
    let outcome = |threads| {
        let mut bench = Bench::new(64);
        bench.options.threads = threads;
        bench.launch(&kernel, 64, 64).unwrap_err()
    };
    let first = outcome(1);
    assert_eq!(first.place().unwrap().block, [5, 0, 0]);
    for threads in 2..=4 {
        for _ in 0..5 {
            assert_eq!(outcome(threads), first);
        }
    }
}

#[test]
fn a_seed_replays_a_racy_kernel_exactly() {
    let body = ".shared .align 4 .b8 s[4];\nst.volatile.shared.u32 [s], %r2;\nbar.sync 0;\nld.shared.u32 %r6, [s];\n\
                st.global.u32 [%rd3], %r6;";
    let kernel = load(&module("", body));
    let winner = |seed| {
        let mut bench = Bench::new(512);
        bench.options.seed = seed;
        bench.launch(&kernel, 1, 512).unwrap();
        bench.result()[0]
    };
    let winners: Vec<u32> = (0..20).map(winner).collect();
    assert_eq!(winners, (0..20).map(winner).collect::<Vec<_>>());
    assert!(winners.iter().any(|other| *other != winners[0]), "{winners:?}");
}
