//! Barriers: who must come, who came, and what they compute.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{Checks, ExitedThreads, Fault, Missing};

#[test]
fn an_exited_thread_is_missed() {
    let body = "setp.ge.u32 %p1, %r2, 40;\n@%p1 ret;\nbar.sync 0;\nst.global.u32 [%rd3], %r2;";
    let found = fault("", body, 1, 64);
    let Fault::BarrierDivergence { place, barrier: 0, missing } = found else { panic!("{found}") };
    assert_eq!((place.line, place.thread), (LINES_BEFORE_BODY + 3, [0, 0, 0]));
    assert_eq!(missing, Missing::Exited { thread: [40, 0, 0] });
    let kernel = load(&module("", body));
    let mut bench = Bench::new(64);
    bench.options.checks = Checks { exited_threads: ExitedThreads::Ignore, ..Checks::default() };
    assert!(bench.launch(&kernel, 1, 64).is_ok());
    assert_eq!(bench.result()[..3], [0, 1, 2]);
}

#[test]
fn lanes_at_different_barriers_diverge() {
    let body = "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra A;\nbar.sync 0;\nbra END;\nA:\nbar.sync 0;\nEND:";
    let found = fault("", body, 1, 32);
    let Fault::BarrierDivergence { missing: Missing::Waits { .. }, .. } = found else { panic!("{found}") };
    // Whole warps may: the barrier's number is what counts.
    assert!(run("", &body.replace("%r2, 8;", "%r2, 32;"), 1, 96).is_ok());
}

#[test]
fn lanes_may_come_to_an_unaligned_barrier_from_different_places() {
    let body = "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra A;\nbarrier.sync 0;\nbra END;\nA:\nbarrier.sync 0;\nEND:\n\
                st.global.u32 [%rd3], %r2;";
    assert_eq!(run("", body, 1, 64).unwrap()[63], 63);
}

#[test]
fn warps_at_different_barriers_deadlock() {
    let body = "setp.lt.u32 %p1, %r2, 32;\n@%p1 bra A;\nbar.sync 1;\nbra END;\nA:\nbar.sync 2;\nEND:";
    let found = fault("", body, 1, 64);
    let Fault::BarrierDivergence { barrier: 1, missing, .. } = found else { panic!("{found}") };
    assert_eq!(missing, Missing::Waits { thread: [0, 0, 0], line: LINES_BEFORE_BODY + 6 });
}

#[test]
fn a_barrier_of_more_threads_than_there_are_never_completes() {
    let found = fault("", "bar.sync 1, 96;", 1, 64);
    assert!(
        matches!(found, Fault::BarrierDivergence { missing: Missing::TooFewThreads { threads: 96 }, .. }),
        "{found}"
    );
    let found = fault("", "bar.sync 1, 33;", 1, 64);
    assert!(
        matches!(found, Fault::BarrierDivergence { missing: Missing::ThreadCount { threads: 33 }, .. }),
        "{found}"
    );
}

#[test]
fn a_barrier_in_a_loop_that_lanes_leave_early_diverges() {
    let body = |bound: &str| {
        format!(
            "mov.u32 %r6, 0;\nAGAIN:\nbar.sync 0;\nadd.u32 %r6, %r6, 1;\nsetp.le.u32 %p1, %r6, {bound};\n\
             @%p1 bra AGAIN;\nst.global.u32 [%rd3], %r6;"
        )
    };
    assert!(matches!(fault("", &body("%r2"), 1, 32), Fault::BarrierDivergence { .. }));
    assert_eq!(run("", &body("4"), 1, 64).unwrap(), [5; 64]);
}

#[test]
fn reductions_at_a_barrier_count_all_threads() {
    let body = "setp.lt.u32 %p1, %r2, 70;\nbar.red.popc.u32 %r6, 0, %p1;\nbar.red.and.pred %p2, 0, %p1;\n\
                bar.red.or.pred %p3, 0, !%p1;\nselp.u32 %r7, 1000, 0, %p2;\nselp.u32 %r8, 2000, 0, %p3;\n\
                add.u32 %r6, %r6, %r7;\nadd.u32 %r6, %r6, %r8;\nst.global.u32 [%rd3], %r6;";
    assert_eq!(run("", body, 1, 96).unwrap(), [2070; 96]);
    assert_eq!(run("", body, 1, 64).unwrap(), [1064; 64]);
}

#[test]
fn a_producer_arrives_without_waiting() {
    let body = ".shared .align 4 .b8 s[128];\nmov.u32 %r6, s;\nand.b32 %r7, %r2, 31;\nshl.b32 %r7, %r7, 2;\n\
                add.u32 %r6, %r6, %r7;\nsetp.lt.u32 %p1, %r2, 32;\n@!%p1 bra CONSUMER;\nst.shared.u32 [%r6], %r2;\n\
                bar.arrive 3, 64;\nbra END;\nCONSUMER:\nbar.sync 3, 64;\nld.shared.u32 %r8, [%r6];\n\
                st.global.u32 [%rd3], %r8;\nEND:";
    assert_eq!(run("", body, 1, 64).unwrap()[32..36], [0, 1, 2, 3]);
    let wrong = body.replace("bar.arrive 3, 64;\n", "");
    assert!(run("", &wrong, 1, 64).is_err());
}

#[test]
fn a_partial_last_warp_meets_at_barriers() {
    assert_eq!(run("", "bar.sync 0;\nst.global.u32 [%rd3], %r2;", 2, 45).unwrap()[44], 44);
}

#[test]
fn lanes_that_never_meet_their_members_are_reported() {
    let body = "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra A;\nbra END;\nA:\nshfl.sync.bfly.b32 %r6, %r2, 1, 31, -1;\n\
                ld.global.u32 %r7, [%rd4];\nEND:\nbar.sync 0;";
    let found = fault("", body, 1, 32);
    assert!(
        matches!(found, Fault::BarrierDivergence { .. } | Fault::WarpDivergence { members: u32::MAX, .. }),
        "{found}"
    );
    let body = "setp.lt.u32 %p1, %r2, 8;\n@!%p1 ret;\nshfl.sync.bfly.b32 %r6, %r2, 1, 31, -1;\n\
                st.global.u32 [%rd3], %r6;";
    // Lanes that have exited are not waited for.
    assert_eq!(run("", body, 1, 32).unwrap()[..4], [1, 0, 3, 2]);
    let found = fault("", "shfl.sync.bfly.b32 %r6, %r2, 1, 31, 0xff;", 1, 32);
    assert!(matches!(found, Fault::WarpDivergence { members: 0xff, .. }), "{found}");
}
