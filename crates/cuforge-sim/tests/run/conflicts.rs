//! Conflicts between blocks in global memory.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{AccessKind, Checks, Fault};

#[test]
fn reading_what_another_block_writes_is_found_and_both_are_named() {
    // Every block writes its own words, then reads one of block 0.
    let body = "st.global.u32 [%rd3], %r2; bar.sync 0;\nld.global.u32 %r6, [%rd1+8];";
    let kernel = load(&module("", body));
    for threads in 1..=4 {
        let mut bench = Bench::new(256);
        bench.options.threads = threads;
        let Err(Fault::GlobalConflict { place, access, address, other }) = bench.launch(&kernel, 8, 32)
        else {
            panic!("not found")
        };
        assert_eq!((place.block, place.line), ([0, 0, 0], LINES_BEFORE_BODY + 1));
        assert_eq!((access, address), (AccessKind::Write, bench.a + 8));
        assert_eq!((other.access, other.block), (AccessKind::Read, [1, 0, 0]));
        assert_eq!((other.line, other.thread), (LINES_BEFORE_BODY + 2, None));
    }
}

#[test]
fn two_blocks_that_write_one_word_conflict() {
    let found = fault("", "st.global.u32 [%rd1], 7;\n", 4, 1);
    let Fault::GlobalConflict { place, other, .. } = found else { panic!("{found}") };
    assert_eq!((place.block, other.block, other.access), ([0, 0, 0], [1, 0, 0], AccessKind::Write));
}

#[test]
fn blocks_that_share_only_what_they_read_do_not_conflict() {
    let body = "ld.global.u32 %r6, [%rd2];\nadd.u32 %r6, %r6, %r4;\nst.global.u32 [%rd3], %r6;";
    assert_eq!(run("", body, 16, 8).unwrap()[127], 127);
    // In place: every block reads and writes its own words.
    let body = "st.global.u32 [%rd3], %r4;\nld.global.u32 %r6, [%rd3];\nst.global.u32 [%rd3], %r6;";
    assert_eq!(run("", body, 16, 8).unwrap()[100], 100);
}

#[test]
fn bytes_of_one_word_may_belong_to_different_blocks() {
    let body = "cvt.u64.u32 %rd5, %r4;\nadd.s64 %rd5, %rd1, %rd5;\nst.global.u8 [%rd5], %r4;";
    let kernel = load(&module("", body));
    for threads in [1, 2, 4] {
        let mut bench = Bench::new(16);
        bench.options.threads = threads;
        bench.launch(&kernel, 64, 1).unwrap();
        assert_eq!(bench.result()[15], 0x3f3e_3d3c);
    }
    let both = "mov.u64 %rd5, %rd1;\nst.global.u8 [%rd5+3], %r4;";
    assert!(matches!(fault("", both, 2, 1), Fault::GlobalConflict { .. }));
}

/// Every block leaves a word and counts itself; the last one to do so adds up what all others left. `before` and `after` stand
/// around the counting.
fn last_block(before: &str, after: &str, load: &str) -> String {
    format!(
        "mul.wide.u32 %rd5, %r3, 4;\nadd.s64 %rd5, %rd1, %rd5;\nadd.u32 %r6, %r3, 1;\n\
         st.global.u32 [%rd5+16], %r6;\n{before}\natom.global.add.u32 %r7, [%rd2], 1;\n{after}\n\
         setp.ne.u32 %p1, %r7, 3;\n@%p1 bra END;\n{load}.u32 %r8, [%rd1+16];\n{load}.u32 %r9, [%rd1+20];\n\
         {load}.u32 %r10, [%rd1+24];\n{load}.u32 %r11, [%rd1+28];\n\
         add.u32 %r8, %r8, %r9;\nadd.u32 %r8, %r8, %r10;\nadd.u32 %r8, %r8, %r11;\n\
         st.global.u32 [%rd1], %r8;\nEND:"
    )
}

#[test]
fn blocks_that_order_what_they_share_may_do_so_under_every_seed() {
    let kernel = load(&module("", &last_block("membar.gl;", "fence.acq_rel.gpu;", "ld.global")));
    assert!(kernel.communicates());
    for threads in [1, 4] {
        for seed in 0..50 {
            let mut bench = Bench::new(16);
            bench.options.threads = threads;
            bench.options.seed = seed;
            bench.launch(&kernel, 4, 1).unwrap();
            assert_eq!(bench.result()[0], 10);
        }
    }
}

#[test]
fn a_missing_fence_between_blocks_is_found_and_both_threads_are_named() {
    let (fence, none) = ("membar.gl;", "");
    for (before, after) in
        [(none, fence), (fence, none), (none, none), ("membar.cta;", fence), (fence, "membar.cta;")]
    {
        // Without any wide fence, the launch is judged at its end, by blocks.
        let wide = [before, after].contains(&fence);
        let kernel = load(&module("", &last_block(before, after, "ld.global")));
        let found = Bench::new(16).launch(&kernel, 4, 1).unwrap_err();
        let Fault::GlobalConflict { place, access, other, .. } = found else { panic!("{found}") };
        let lines = if wide { [place.line, other.line] } else { [other.line, place.line] };
        assert_eq!(lines, [LINES_BEFORE_BODY + 10, LINES_BEFORE_BODY + 4], "{before} {after}");
        if wide {
            assert_eq!(
                (access, other.access, other.thread),
                (AccessKind::Read, AccessKind::Write, Some([0, 0, 0]))
            );
            assert_ne!(place.block, other.block);
        }
    }
}

#[test]
fn acquiring_and_releasing_accesses_order_blocks_as_fences_do() {
    // Block 0 writes and raises a flag; block 1 waits for the flag and reads.
    let body = |put: &str, take: &str| {
        format!(
            "setp.ne.u32 %p1, %r3, 0;\n@%p1 bra WAIT;\nst.global.u32 [%rd2], 41;\n{put}.u32 [%rd2+8], 99;\nbra END;\n\
             WAIT:\n{take}.u32 %r6, [%rd2+8];\nsetp.ne.u32 %p2, %r6, 99;\n@%p2 bra WAIT;\n\
             ld.global.u32 %r7, [%rd2];\nst.global.u32 [%rd1], %r7;\nEND:"
        )
    };
    let launched = |body: &str, seed| {
        let mut bench = Bench::new(4);
        bench.options.seed = seed;
        bench.launch(&load(&module("", body)), 2, 1).map(|_| bench.result()[0])
    };
    for seed in 0..20 {
        let right = body("st.release.gpu.global", "ld.acquire.gpu.global");
        assert_eq!(launched(&right, seed).unwrap(), 41, "seed {seed}");
        for (put, take) in [
            ("st.relaxed.gpu.global", "ld.acquire.gpu.global"),
            ("st.release.gpu.global", "ld.relaxed.gpu.global"),
            ("st.release.cta.global", "ld.acquire.gpu.global"),
        ] {
            let found = launched(&body(put, take), seed);
            assert!(
                matches!(found, Err(Fault::GlobalConflict { .. })),
                "{put} {take} seed {seed}: {found:?}"
            );
        }
    }
}

#[test]
fn a_block_may_wait_for_a_later_one() {
    // Block 0 waits for what block 3 writes; all four meet at a barrier of the grid.
    let body = "membar.gl;\natom.global.add.u32 %r6, [%rd2], 1;\nWAIT:\nld.volatile.global.u32 %r7, [%rd2];\n\
                setp.lt.u32 %p1, %r7, 4;\n@%p1 bra WAIT;\nmembar.gl;\nst.global.u32 [%rd3], %r7;";
    for seed in [0, 1, 2] {
        let mut bench = Bench::new(4);
        bench.options.seed = seed;
        bench.launch(&load(&module("", body)), 4, 1).unwrap();
        assert_eq!(bench.result(), [4; 4], "seed {seed}");
    }
}

#[test]
fn the_fault_of_a_racy_kernel_is_the_same_for_any_number_of_host_threads() {
    // Later blocks read an address that earlier ones write: whether they find it, and fault there, is up to the threads.
    let body = "mul.wide.u32 %rd5, %r3, 4;\nadd.s64 %rd5, %rd2, %rd5;\nsetp.lt.u32 %p1, %r3, 8;\n\
                @%p1 bra PUT;\nld.global.u32 %r6, [%rd5+-32];\nsetp.lt.u32 %p2, %r6, 1000;\n@%p2 bra END;\n\
                ld.global.u32 %r7, [%rd1+1000000];\nbra END;\nPUT:\nst.global.u32 [%rd5], 5000;\nEND:\n\
                st.global.u32 [%rd3], %r3;";
    let kernel = load(&module("", body));
    let ended = |threads| {
        let mut bench = Bench::new(64);
        bench.options.threads = threads;
        (
            bench.launch(&kernel, 64, 1).unwrap_err(),
            bench.result(),
            bench.memory.first_unwritten(bench.a, 256).unwrap(),
        )
    };
    let first = ended(1);
    for threads in [2, 3, 4, 8] {
        for _ in 0..10 {
            assert_eq!(ended(threads), first, "{threads} threads");
        }
    }
}

#[test]
fn conflicts_can_be_switched_off() {
    let kernel = load(&module("", "st.global.u32 [%rd1], 7;\n"));
    let mut bench = Bench::new(4);
    bench.options.checks = Checks { global_conflicts: false, ..Checks::default() };
    assert!(bench.launch(&kernel, 4, 1).is_ok());
}

#[test]
fn an_atomic_elsewhere_hides_no_conflict_of_plain_accesses() {
    let count = "red.global.add.u32 [%rd2], 1;\n";
    for threads in [1, 4] {
        let launched = |body: &str| {
            let mut bench = Bench::new(256);
            bench.options.threads = threads;
            bench.launch(&load(&module("", body)), 4, 1)
        };
        for (body, lines) in [
            ("st.global.u32 [%rd1], %r3;\n".to_owned(), (0, 0)),
            (format!("{count}st.global.u32 [%rd1], %r3;\n"), (1, 1)),
            (format!("{count}ld.global.u32 %r9, [%rd2];\n"), (0, 1)),
            (format!("{count}st.global.u32 [%rd2], %r3;\n"), (1, 1)),
            ("st.volatile.global.u32 [%rd2], 1;\nld.global.u32 %r9, [%rd2];\n".to_owned(), (0, 1)),
        ] {
            let found = launched(&body);
            let Err(Fault::GlobalConflict { place, other, .. }) = found else { panic!("{body}: {found:?}") };
            let expected = (LINES_BEFORE_BODY + 1 + lines.0, LINES_BEFORE_BODY + 1 + lines.1);
            assert_eq!((place.line, other.line), expected, "{body}");
            assert_ne!(place.block, other.block);
        }
        // Atomics among themselves, strong reads, and words that only one block touches plainly are all right.
        for body in [
            format!("{count}{count}"),
            format!("{count}ld.relaxed.gpu.global.u32 %r9, [%rd2];\n"),
            "atom.global.add.u32 %r9, [%rd2], 1;\nst.global.u32 [%rd3], %r9;\nld.global.u32 %r9, [%rd3];\n"
                .to_owned(),
        ] {
            let found = launched(&body);
            assert!(found.is_ok(), "{body}: {found:?}");
        }
    }
}
