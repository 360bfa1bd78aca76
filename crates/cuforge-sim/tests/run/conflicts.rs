//! Conflicts between blocks in global memory.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{AccessKind, Checks, Fault};

#[test]
fn reading_what_another_block_writes_is_found_and_both_are_named() {
    // Every block writes its own words, then reads one of block 0.
    let body = "st.global.u32 [%rd3], %r2;\nld.global.u32 %r6, [%rd1+8];";
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

#[test]
fn blocks_that_communicate_run_in_order_and_may_share() {
    // The last block to count itself adds up what all others left behind.
    let body = "mul.wide.u32 %rd5, %r3, 4;\nadd.s64 %rd5, %rd1, %rd5;\nadd.u32 %r6, %r3, 1;\n\
                st.global.u32 [%rd5+16], %r6;\nmembar.gl;\natom.global.add.u32 %r7, [%rd2], 1;\n\
                setp.ne.u32 %p1, %r7, 3;\n@%p1 bra END;\nld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd1+16];\n\
                add.u32 %r8, %r8, %r9;\nadd.u32 %r8, %r8, %r10;\nadd.u32 %r8, %r8, %r11;\n\
                st.global.u32 [%rd1], %r8;\nEND:";
    let kernel = load(&module("", body));
    assert!(kernel.communicates());
    for threads in [1, 4] {
        let mut bench = Bench::new(16);
        bench.options.threads = threads;
        bench.launch(&kernel, 4, 1).unwrap();
        assert_eq!(bench.result()[0], 10);
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
            bench.launch(&load(&module("", body)), 4, 32)
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
