//! Matrix instructions of a warp, and copies beside the threads: what they compute, and what is wrong with using them.

use crate::harness::{LINES_BEFORE_BODY, fault, run};
use cuforge_sim::{AccessKind, Fault, MemorySpace};

/// Every thread copies its word of `b` to shared memory, waits as said, and stores its neighbour's to `a`.
fn copied(wait: &str) -> String {
    format!(
        ".shared .align 16 .b8 s[512];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r7, %r6, %r7;\n\
         cp.async.ca.shared.global [%r7], [%rd4], 4;\n{wait}\nxor.b32 %r8, %r2, 1;\nshl.b32 %r8, %r8, 2;\n\
         add.u32 %r8, %r6, %r8;\nld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd3], %r9;"
    )
}

#[test]
fn a_copy_has_landed_when_its_thread_has_waited_and_others_have_met_it() {
    for wait in [
        "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;",
        "cp.async.wait_all; bar.sync 0;",
        "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;",
    ] {
        assert_eq!(run("", &copied(wait), 1, 64).unwrap()[..4], [1, 0, 3, 2], "{wait}");
    }
}

#[test]
fn reading_a_copy_without_waiting_is_a_hazard_that_names_the_copy() {
    for (wait, lines) in [
        ("", 5),
        ("bar.sync 0;", 5),
        ("cp.async.wait_all;", 5),
        ("cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;", 5),
        // What is not committed is in no group.
        ("cp.async.wait_group 0; bar.sync 0;", 5),
    ] {
        let found = fault("", &copied(wait), 1, 64);
        let Fault::SharedHazard { place, access: AccessKind::Read, other, .. } = found else {
            panic!("{found}")
        };
        assert_eq!((place.line, other.line), (LINES_BEFORE_BODY + 10, LINES_BEFORE_BODY + lines), "{wait}");
        assert_eq!(other.access, AccessKind::Write);
    }
}

#[test]
fn a_copy_may_not_overtake_who_still_reads_what_it_replaces() {
    let body = ".shared .align 16 .b8 s[256];\nmov.u32 %r6, s;\nxor.b32 %r7, %r2, 32;\nshl.b32 %r7, %r7, 2;\n\
                add.u32 %r7, %r6, %r7;\nshl.b32 %r8, %r2, 2;\nadd.u32 %r8, %r6, %r8;\nst.shared.u32 [%r8], 0;\n\
                bar.sync 0;\nld.shared.u32 %r9, [%r7];\nBARRIER\ncp.async.ca.shared.global [%r8], [%rd4], 4;\n\
                cp.async.wait_all;";
    assert!(run("", &body.replace("BARRIER", "bar.sync 0;"), 1, 64).is_ok());
    let found = fault("", &body.replace("BARRIER", ""), 1, 64);
    // Which of the two comes later is the seed's choice.
    let Fault::SharedHazard { place, other, .. } = found else { panic!("{found}") };
    let mut lines = [place.line, other.line];
    lines.sort_unstable();
    assert_eq!(lines, [LINES_BEFORE_BODY + 10, LINES_BEFORE_BODY + 12]);
}

#[test]
fn a_copy_of_fewer_bytes_fills_up_with_zeros_and_reads_no_further() {
    let body = ".shared .align 16 .b8 s[64];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\n\
                cp.async.cg.shared.global [s], [%rd2], 16, 8;\nmov.u32 %r6, 0;\nmov.u64 %rd9, 16;\n\
                cp.async.ca.shared.global [s+16], [%rd9], 8, %r6;\ncp.async.wait_all;\n\
                ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [s];\nld.shared.u32 %r11, [s+16];\n\
                add.u32 %r7, %r7, %r8;\nadd.u32 %r7, %r7, %r9;\nadd.u32 %r7, %r7, %r10;\nadd.u32 %r7, %r7, %r11;\n\
                st.global.u32 [%rd3], %r7;\nEND:";
    assert_eq!(run("", body, 1, 32).unwrap()[0], 1);
    let found = fault("", &body.replace("mov.u32 %r6, 0;", "mov.u32 %r6, 4;"), 1, 32);
    let Fault::OutOfBounds { space: MemorySpace::Global, bytes: 4, address: 16, .. } = found else {
        panic!("{found}")
    };
}

#[test]
fn rows_of_a_matrix_are_checked_for_the_lane_that_gives_them() {
    let body = |by: u32| {
        format!(
            ".shared .align 16 .b8 s[128];\nmov.u32 %r6, s;\nmul.lo.u32 %r7, %r2, {by};\nadd.u32 %r6, %r6, %r7;\n\
             st.shared.u32 [%r6], 0;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r8}}, [%r6];"
        )
    };
    let found = fault("", &body(4), 1, 32);
    let Fault::Misaligned { place, bytes: 16, space: MemorySpace::Shared, .. } = found else {
        panic!("{found}")
    };
    assert_eq!((place.line, place.thread), (LINES_BEFORE_BODY + 6, [1, 0, 0]));
    let body = ".shared .align 16 .b8 s[64];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 4;\nadd.u32 %r6, %r6, %r7;\n\
                ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r6];";
    let found = fault("", body, 1, 32);
    let Fault::OutOfBounds { place, bytes: 16, .. } = found else { panic!("{found}") };
    assert_eq!(place.thread, [4, 0, 0]);
}

#[test]
fn a_matrix_instruction_needs_the_whole_warp() {
    let body = "setp.lt.u32 %p1, %r2, 8;\n@%p1 ret;\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r2;";
    let found = fault("", body, 1, 32);
    let Fault::WarpDivergence { members: u32::MAX, present: 0xffff_ff00, .. } = found else {
        panic!("{found}")
    };
    // Lanes that come by different ways meet.
    let body = "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra ON;\nadd.u32 %r2, %r2, 0;\nON:\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r2;\nst.global.u32 [%rd3], %r6;";
    let got = run("", body, 1, 32).unwrap();
    // Row 0 of the result is column 0: the low halves of every fourth lane.
    assert_eq!(got[..2], [0x0004_0000, 0x000c_0008]);
}

#[test]
fn a_matrix_of_a_wrong_stride_or_start_is_misaligned() {
    let load = |start: u32, stride: u32| {
        format!(
            "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, \
             [%rd2+{start}], {stride};"
        )
    };
    assert!(run("", &load(0, 16), 4, 32).is_ok());
    for (start, stride) in [(16, 16), (0, 15), (0, 20)] {
        let found = fault("", &load(start, stride), 4, 32);
        assert!(matches!(found, Fault::Misaligned { space: MemorySpace::Global, .. }), "{found}");
    }
    let found = fault("", &load(0, 16), 1, 32);
    assert!(matches!(found, Fault::OutOfBounds { space: MemorySpace::Global, .. }), "{found}");
}

#[test]
fn atomics_take_their_words_in_any_order_and_vectors_too() {
    let body = "atom.add.acq_rel.gpu.u32 %r6, [%rd2], 0;\nmov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40000000;\n\
                setp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\nmov.u32 %r9, 0;\nst.global.v2.u32 [%rd1], {%r9, %r9};\n\
                red.global.add.v2.f32 [%rd1], {%f1, %f2};\natom.global.add.v2.f32 {%f3, %f4}, [%rd1], {%f1, %f1};\n\
                st.global.v2.f32 [%rd1+8], {%f3, %f4};\nEND:";
    let got = run("", body, 1, 32).unwrap();
    assert_eq!(got[..4].iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>(), [2.0, 3.0, 1.0, 2.0]);
}
