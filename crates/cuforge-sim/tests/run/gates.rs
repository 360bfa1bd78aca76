//! Mbarriers, and copies that tell them when they have landed.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{Fault, MbarrierMisuse};

const GATE: &str = ".shared .align 8 .b64 gate; .shared .align 8 .b64 other; .shared .align 16 .b8 s[1024]; .shared .align 16 .b8 t[1024];";

/// Thread 0 initialises `gate` for so many arrivals, and the block knows.
fn init(count: u32) -> String {
    format!(
        "setp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared::cta.b64 [gate], {count};\n\
         fence.mbarrier_init.release.cluster; bar.sync 0;\n"
    )
}

/// Waits until the phase of that parity is complete.
fn wait(name: &str, parity: u32) -> String {
    format!("{name}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [gate], {parity};\n@!%p9 bra {name};\n")
}

/// Runs a body under some seeds, which must agree.
fn same(declarations: &str, body: &str, blocks: u32, threads: u32) -> Vec<u32> {
    let kernel = load(&module(declarations, body));
    let results: Vec<Vec<u32>> = (0..6)
        .map(|seed| {
            let mut bench = Bench::new((blocks * threads) as usize);
            bench.options.seed = seed;
            bench
                .launch(&kernel, blocks, threads)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{body}"));
            bench.result()
        })
        .collect();
    assert!(results.iter().all(|result| *result == results[0]));
    results[0].clone()
}

const PUT: &str = "mov.u32 %r6, s; shl.b32 %r7, %r2, 2; add.u32 %r7, %r6, %r7; st.shared.u32 [%r7], %r4;\n";
/// The word of the thread 33 further.
const TAKE: &str = "add.u32 %r8, %r2, 33; and.b32 %r8, %r8, 127; shl.b32 %r8, %r8, 2; add.u32 %r8, %r6, %r8;\n\
                    ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd3], %r9;\n";

#[test]
fn an_mbarrier_orders_the_threads_that_arrive_with_those_that_wait() {
    let arrive = "mbarrier.arrive.shared.b64 %rd10, [gate];\n";
    let body = format!("{}{PUT}{arrive}{}{TAKE}", init(128), wait("W", 0));
    assert_eq!(same(GATE, &body, 2, 128)[..3], [33, 34, 35]);
    // By state, by test_wait, and with a hint of how long.
    for wait in [
        "W: mbarrier.test_wait.shared.b64 %p9, [gate], %rd10;\n@!%p9 bra W;\n",
        "W: mbarrier.try_wait.acquire.cta.shared::cta.b64 %p9, [gate], %rd10, 1000;\n@!%p9 bra W;\n",
    ] {
        let body = format!("{}{PUT}{arrive}{wait}{TAKE}", init(128));
        assert_eq!(same(GATE, &body, 1, 128)[127], 32);
    }
    // Phase after phase, through generic addresses.
    let again = "mov.u32 %r20, 0; mov.u64 %rd11, gate; cvta.shared.u64 %rd11, %rd11;\n\
        AGAIN: mbarrier.arrive.release.cta.b64 _, [%rd11];\nand.b32 %r21, %r20, 1;\n\
        W: mbarrier.try_wait.parity.acquire.cta.b64 %p9, [%rd11], %r21;\n@!%p9 bra W;\n\
        add.u32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, 5;\n@%p2 bra AGAIN;\n";
    assert_eq!(same(GATE, &format!("{}{PUT}{again}{TAKE}", init(128)), 1, 128)[0], 33);
}

#[test]
fn what_no_mbarrier_orders_is_a_hazard_still() {
    // Nobody waits.
    let body = format!("{}{PUT}mbarrier.arrive.shared.b64 %rd10, [gate];\n{TAKE}", init(128));
    assert!(matches!(fault(GATE, &body, 1, 128), Fault::SharedHazard { .. }));
    // The phase before the first is complete already.
    let body = format!("{}{PUT}mbarrier.arrive.shared.b64 _, [gate];\n{}{TAKE}", init(128), wait("W", 1));
    assert!(matches!(fault(GATE, &body, 1, 128), Fault::SharedHazard { .. }));
    // One lane arrives for its warp, which has not met.
    let one =
        "and.b32 %r10, %r2, 31; setp.eq.u32 %p3, %r10, 0;\n@%p3 mbarrier.arrive.shared.b64 _, [gate];\n";
    let body = |meet: &str| format!("{}{PUT}{meet}\n{one}{}{TAKE}", init(4), wait("W", 0));
    assert!(matches!(fault(GATE, &body(""), 1, 128), Fault::SharedHazard { .. }));
    // Who arrives relaxed tells nothing.
    let relaxed = "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [gate];\n";
    let body = format!("{}{PUT}{relaxed}{}{TAKE}", init(128), wait("W", 0));
    assert!(matches!(fault(GATE, &body, 1, 128), Fault::SharedHazard { .. }));
    // Initialised, and used without a barrier between.
    let body = format!("{}mbarrier.arrive.shared.b64 _, [gate];", init(64).replace("bar.sync 0;", ""));
    assert!(matches!(fault(GATE, &body, 1, 64), Fault::SharedHazard { .. }));
}

#[test]
fn states_counts_and_drops_follow_the_manual() {
    // 64 threads: those of the second warp arrive for two, those of the first drop out.
    let body = format!(
        "{}mbarrier.arrive.noComplete.shared.b64 %rd12, [gate], 1; mbarrier.pending_count.b64 %r12, %rd12;\n\
         bar.sync 0; setp.lt.u32 %p2, %r2, 32;\n@%p2 bra DROP;\n\
         mbarrier.arrive.shared::cta.b64 _, [gate], 2;\nbra.uni SECOND;\n\
         DROP: mbarrier.arrive_drop.shared.b64 _, [gate];\n\
         SECOND: {}@%p2 bra END;\nmbarrier.arrive.shared.b64 _, [gate], 4;\n{}END: st.global.u32 [%rd3], %r12;",
        init(160),
        wait("W", 0),
        wait("V", 1)
    );
    // 160 expected: 64 by all, 64 by the second warp, 32 by the first. Then 128: 32 times 4.
    let result = run(GATE, &body, 1, 64).unwrap();
    let mut pending: Vec<u32> = result.clone();
    pending.sort_unstable();
    assert_eq!(pending, (97..=160).collect::<Vec<_>>());
}

/// Copies 512 bytes of `b` into `s` by thread 0, and waits with all.
fn fetch(after: &str) -> String {
    format!(
        "{}@!%p1 bra HERE;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 512;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd2], 512, [gate];\nHERE: {after}",
        init(1)
    )
}

#[test]
fn a_bulk_copy_lands_before_its_mbarrier_says_so() {
    let body = fetch(&format!("{}mov.u32 %r6, s;\n{TAKE}", wait("W", 0)));
    let result = same(GATE, &body, 1, 128);
    assert_eq!((result[0], result[94], result[95], result[127]), (33, 127, 0, 32));
    // Looking without waiting is a hazard, under every schedule.
    let kernel = load(&module(GATE, &fetch(&format!("mov.u32 %r6, s;\n{TAKE}"))));
    for seed in 0..10 {
        let mut bench = Bench::new(128);
        bench.options.seed = seed;
        let found = bench.launch(&kernel, 1, 128).unwrap_err();
        let Fault::SharedHazard { place, other, .. } = &found else { panic!("{found}") };
        let copy = LINES_BEFORE_BODY + 6;
        assert!(place.line == copy || other.line == copy, "{found}");
    }
}

#[test]
fn bulk_copies_go_out_and_are_waited_for_in_groups() {
    let out = |wait: &str, after: &str| {
        format!(
            "{PUT}fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p1, %r2, 0;\n@!%p1 bra END;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 512;\ncp.async.bulk.commit_group;\n\
             {wait}\n{after}\nEND:"
        )
    };
    let result = same(GATE, &out("cp.async.bulk.wait_group 0;", "st.shared.u32 [s], 7;"), 1, 128);
    assert_eq!(result, (0..128).collect::<Vec<_>>());
    // The source is written again while it may still be read.
    let found = fault(GATE, &out("", "st.shared.u32 [s], 7;"), 1, 128);
    assert!(matches!(found, Fault::SharedHazard { .. }), "{found}");
    // Sums of two blocks in global memory, and of words in shared memory.
    let sum = format!(
        "{PUT}st.shared.u32 [%r7], 3; bar.sync 0; setp.eq.u32 %p1, %r2, 0;\n@!%p1 bra END;\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [s], 512;\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nEND:"
    );
    let mut bench = Bench::new(256);
    bench.launch(&load(&module(GATE, &sum)), 2, 128).unwrap();
    let mut bytes = vec![0; 8];
    bench.memory.read(bench.b + 4, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 0, 0, 0, 8, 0, 0, 0]);
}

#[test]
fn copies_of_a_thread_arrive_at_an_mbarrier_when_they_have_landed() {
    let body = |how: &str, count: u32| {
        format!(
            "{}mov.u32 %r6, s; shl.b32 %r7, %r2, 2; add.u32 %r7, %r6, %r7;\n\
             cp.async.ca.shared.global [%r7], [%rd4], 4;\ncp.async.mbarrier.arrive{how}.shared::cta.b64 [gate];\n\
             {}{TAKE}",
            init(count),
            wait("W", 0)
        )
    };
    assert_eq!(same(GATE, &body(".noinc", 128), 1, 128)[0], 33);
    // Without `.noinc` the arrival is one more than the phase waits for, so the threads must arrive too.
    let both = body("", 128).replace("W: ", "mbarrier.arrive.shared.b64 _, [gate];\nW: ");
    assert_eq!(same(GATE, &both, 1, 128)[0], 33);
}

fn misuse(body: &str, threads: u32) -> (MbarrierMisuse, u32) {
    match fault(GATE, body, 1, threads) {
        Fault::Mbarrier { misuse, place, .. } => (misuse, place.line - LINES_BEFORE_BODY),
        other => panic!("{other}: {body}"),
    }
}

#[test]
fn mbarriers_that_are_misused_are_told_with_their_place() {
    let ready = init(2);
    let then = |rest: &str| format!("{ready}@!%p1 bra END;\n{rest}\nEND:");
    for (body, expected, line) in [
        ("mbarrier.arrive.shared.b64 _, [gate];".to_owned(), MbarrierMisuse::NotThere, 1),
        ("mbarrier.init.shared.b64 [gate], 0;".to_owned(), MbarrierMisuse::Count { count: 0 }, 1),
        (
            then("mbarrier.arrive.shared.b64 _, [gate], 3;"),
            MbarrierMisuse::TooManyArrivals { count: 3, pending: 2 },
            5,
        ),
        (then("mbarrier.arrive.noComplete.shared.b64 _, [gate], 2;"), MbarrierMisuse::Completes, 5),
        (
            then("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [gate], 1048576;"),
            MbarrierMisuse::TooManyBytes { bytes: 1 << 20 },
            5,
        ),
        (
            then("mbarrier.inval.shared.b64 [gate];\nmbarrier.inval.shared.b64 [gate];"),
            MbarrierMisuse::NotThere,
            6,
        ),
        (then("st.shared.u32 [gate+4], 1;"), MbarrierMisuse::Overwritten, 5),
        (then("atom.shared.add.u32 %r9, [gate], 1;"), MbarrierMisuse::Overwritten, 5),
        (
            then(&format!("mbarrier.arrive.shared.b64 _, [gate];\n{}", wait("W", 0))),
            MbarrierMisuse::NeverCompletes { pending: 1, bytes: 0 },
            6,
        ),
        (
            then(&format!(
                "mbarrier.arrive.expect_tx.shared.b64 _, [gate], 64; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [gate], 48; mbarrier.arrive.shared.b64 _, [gate];\n{}",
                wait("W", 0)
            )),
            MbarrierMisuse::NeverCompletes { pending: 0, bytes: 16 },
            6,
        ),
    ] {
        let threads = if body.contains("END") { 64 } else { 1 };
        assert_eq!(misuse(&body, threads), (expected, line), "{body}");
    }
    // After it is invalidated its bytes are like any others.
    let body =
        format!("{ready}@!%p1 bra END;\nmbarrier.inval.shared.b64 [gate];\nst.shared.u64 [gate], 5;\nEND:");
    run(GATE, &body, 1, 64).unwrap();
}

#[test]
fn copies_out_of_bounds_and_misaligned_name_their_thread() {
    let copy = |target: &str, source: &str, bytes: u32| {
        fetch("").replace("[s], [%rd2], 512, [gate];", &format!("[{target}], [{source}], {bytes}, [gate];"))
    };
    for (body, out) in [
        (copy("s", "%rd2", 1040), true),
        (copy("s+1024", "%rd2", 16), true),
        (copy("s+8", "%rd2", 16), false),
        (copy("s", "%rd2+4", 16), false),
    ] {
        let found = fault(GATE, &body, 1, 128);
        let right = match &found {
            Fault::OutOfBounds { .. } => out,
            Fault::Misaligned { .. } => !out,
            _ => false,
        };
        let place = found.place().unwrap();
        assert!(right && place.thread == [0, 0, 0] && place.line == LINES_BEFORE_BODY + 6, "{found}");
    }
}

#[test]
fn a_producer_warp_feeds_consumers_through_a_ring() {
    // Warp 0 fetches 8 tiles of 64 bytes through two places; warps 1 and 2 add up what they see and give places back.
    let body = "\
        setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
        mov.u32 %r20, full; mbarrier.init.shared.b64 [%r20], 1; mbarrier.init.shared.b64 [%r20+8], 1;\n\
        mov.u32 %r21, empty; mbarrier.init.shared.b64 [%r21], 64; mbarrier.init.shared.b64 [%r21+8], 64;\n\
        READY: bar.sync 0;\nmov.u32 %r20, full; mov.u32 %r21, empty; mov.u32 %r22, 0; mov.u32 %r23, 0; mov.u32 %r30, s;\n\
        setp.lt.u32 %p2, %r2, 32;\n@!%p2 bra CONSUME;\n@%p1 bra END;\n\
        PRODUCE: and.b32 %r24, %r22, 1; shl.b32 %r25, %r24, 3; shr.u32 %r26, %r22, 1; and.b32 %r26, %r26, 1; xor.b32 %r26, %r26, 1;\n\
        add.u32 %r27, %r21, %r25;\nW1: mbarrier.try_wait.parity.shared.b64 %p3, [%r27], %r26;\n@!%p3 bra W1;\n\
        add.u32 %r28, %r20, %r25; mbarrier.arrive.expect_tx.shared.b64 _, [%r28], 64;\n\
        shl.b32 %r29, %r24, 6; add.u32 %r29, %r30, %r29;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r29], [%rd2], 64, [%r28];\n\
        add.s64 %rd2, %rd2, 64; add.u32 %r22, %r22, 1; setp.lt.u32 %p4, %r22, 8;\n@%p4 bra PRODUCE;\nbra.uni END;\n\
        CONSUME: and.b32 %r24, %r22, 1; shl.b32 %r25, %r24, 3; shr.u32 %r26, %r22, 1; and.b32 %r26, %r26, 1;\n\
        add.u32 %r28, %r20, %r25;\nW2: mbarrier.try_wait.parity.shared.b64 %p3, [%r28], %r26;\n@!%p3 bra W2;\n\
        shl.b32 %r29, %r24, 6; add.u32 %r29, %r30, %r29; and.b32 %r31, %r2, 15; shl.b32 %r31, %r31, 2; add.u32 %r29, %r29, %r31;\n\
        ld.shared.u32 %r32, [%r29]; add.u32 %r23, %r23, %r32;\n\
        add.u32 %r27, %r21, %r25; mbarrier.arrive.shared.b64 _, [%r27];\n\
        add.u32 %r22, %r22, 1; setp.lt.u32 %p4, %r22, 8;\n@%p4 bra CONSUME;\nst.global.u32 [%rd3], %r23;\nEND:";
    let declarations =
        ".shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2]; .shared .align 128 .b8 s[128];";
    let kernel = load(&module(declarations, body));
    for seed in 0..20 {
        let mut bench = Bench::new(128);
        bench.options.seed = seed;
        bench.launch(&kernel, 1, 96).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        // 8 tiles of 16 words: word w of each is w, w + 16, ...
        assert_eq!(
            bench.result()[32..48],
            (0..16).map(|w| 8 * w + 16 * 28).collect::<Vec<u32>>(),
            "seed {seed}"
        );
    }
    // Who does not wait for places arrives for a phase that is not over.
    let eager =
        body.replace("W1: mbarrier.try_wait.parity.shared.b64 %p3, [%r27], %r26;\n@!%p3 bra W1;\n", "");
    let kernel = load(&module(declarations, &eager));
    let mut bench = Bench::new(128);
    let found = bench.launch(&kernel, 1, 96).unwrap_err();
    let too_many = MbarrierMisuse::TooManyArrivals { count: 1, pending: 0 };
    assert!(matches!(&found, Fault::Mbarrier { misuse, .. } if *misuse == too_many), "{found}");
}
