//! Clusters of several blocks: shared memory of others, their barrier, and what is not ordered by it.

use crate::harness::{Bench, LINES_BEFORE_BODY, load, module};
use cuforge_sim::{Fault, LaunchMisuse, Missing};

const SHARED: &str = ".shared .align 16 .b8 s[512]; .shared .align 8 .b64 gate;";
const MEET: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";

/// Runs a body over clusters of so many blocks, under one seed.
fn run_seeded(body: &str, cluster: u32, blocks: u32, threads: u32, seed: u64) -> Result<Vec<u32>, Fault> {
    let mut bench = Bench::new((blocks * threads) as usize);
    bench.options.cluster = Some([cluster, 1, 1]);
    bench.options.seed = seed;
    bench.launch(&load(&module(SHARED, body)), blocks, threads)?;
    Ok(bench.result())
}

/// The same result under some seeds.
fn run(body: &str, cluster: u32, blocks: u32, threads: u32) -> Vec<u32> {
    let result = |seed| {
        run_seeded(body, cluster, blocks, threads, seed)
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{body}"))
    };
    let first = result(0);
    (1..6).for_each(|seed| assert_eq!(result(seed), first, "seed {seed}"));
    first
}

fn fault(body: &str, cluster: u32, blocks: u32, threads: u32) -> Fault {
    match run_seeded(body, cluster, blocks, threads, 0) {
        Err(fault) => fault,
        Ok(_) => panic!("no fault: {body}"),
    }
}

/// Each thread puts its number in the grid into its block's shared memory.
const PUT: &str = "mov.u32 %r6, s; shl.b32 %r7, %r2, 2; add.u32 %r7, %r6, %r7; st.shared.u32 [%r7], %r4;\n\
                   mov.u32 %r10, %cluster_ctarank; mov.u32 %r11, %cluster_nctarank; add.u32 %r12, %r10, 1; rem.u32 %r12, %r12, %r11;\n";
/// Each thread takes the word of its neighbour in the next block of the cluster.
const TAKE: &str = "mapa.shared::cluster.u32 %r13, %r7, %r12;\nld.shared::cluster.u32 %r14, [%r13];\nst.global.u32 [%rd3], %r14;\n";

#[test]
fn blocks_of_a_cluster_read_the_shared_memory_of_each_other() {
    let body = format!("{PUT}{MEET}{TAKE}{MEET}");
    let result = run(&body, 4, 8, 64);
    let expected: Vec<u32> =
        (0..512u32).map(|t| (t / 256) * 256 + ((t / 64 + 1) % 4) * 64 + t % 64).collect();
    assert_eq!(result, expected);
    // Through generic addresses, and by atomics.
    let generic = "cvt.u64.u32 %rd9, %r7; cvta.shared.u64 %rd9, %rd9; mapa.u64 %rd10, %rd9, %r12;\nld.u32 %r14, [%rd10];\nst.global.u32 [%rd3], %r14;\n";
    assert_eq!(run(&format!("{PUT}{MEET}{generic}{MEET}"), 4, 8, 64), expected);
    let add = "mapa.shared::cluster.u32 %r13, %r6, 0;\natom.shared::cluster.add.u32 %r14, [%r13], 1;\n";
    let last = format!("{PUT}{MEET}{add}{MEET}ld.shared.u32 %r15, [s]; st.global.u32 [%rd3], %r15;");
    let result = run(&last, 2, 4, 64);
    assert_eq!((result[0], result[64], result[128], result[192]), (128, 64, 128 + 128, 192));
}

#[test]
fn special_registers_and_addresses_tell_the_place_in_the_cluster() {
    let body = "mov.u32 %r10, %cluster_ctaid.x; mov.u32 %r11, %cluster_nctaid.x; mov.u32 %r12, %clusterid.x; mov.u32 %r13, %nclusterid.x;\n\
        mov.u32 %r14, %cluster_ctarank; mov.u32 %r15, %cluster_nctarank;\n\
        shl.b32 %r11, %r11, 4; shl.b32 %r12, %r12, 8; shl.b32 %r13, %r13, 12; shl.b32 %r14, %r14, 16; shl.b32 %r15, %r15, 20;\n\
        or.b32 %r10, %r10, %r11; or.b32 %r10, %r10, %r12; or.b32 %r10, %r10, %r13; or.b32 %r10, %r10, %r14; or.b32 %r10, %r10, %r15;\n\
        mov.u32 %r20, s; mapa.shared::cluster.u32 %r21, %r20, 1; getctarank.shared::cluster.u32 %r22, %r21; getctarank.shared::cluster.u32 %r23, %r20;\n\
        shl.b32 %r22, %r22, 24; shl.b32 %r23, %r23, 28; or.b32 %r10, %r10, %r22; or.b32 %r10, %r10, %r23; st.global.u32 [%rd3], %r10;";
    assert_eq!(
        run(body, 2, 6, 1),
        [0x0120_3020, 0x1121_3021, 0x0120_3120, 0x1121_3121, 0x0120_3220, 0x1121_3221]
    );
    let spaces = "mov.u64 %rd9, s; cvta.shared.u64 %rd9, %rd9; mapa.u64 %rd10, %rd9, 1; mapa.u64 %rd11, %rd9, 0;\n\
        isspacep.shared::cta %p1, %rd10; isspacep.shared::cluster %p2, %rd10; isspacep.shared::cta %p3, %rd11; isspacep.shared::cluster %p4, %rd2;\n\
        selp.u32 %r10, 1, 0, %p1; selp.u32 %r11, 2, 0, %p2; selp.u32 %r12, 4, 0, %p3; selp.u32 %r13, 8, 0, %p4;\n\
        add.u32 %r10, %r10, %r11; add.u32 %r12, %r12, %r13; add.u32 %r10, %r10, %r12; st.global.u32 [%rd3], %r10;";
    assert_eq!(run(spaces, 2, 2, 1), [2 + 4, 1 + 2]);
}

#[test]
fn clusters_of_several_dimensions_are_tiles_of_the_grid() {
    let body = "mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %nctaid.x; mad.lo.u32 %r13, %r11, %r12, %r10;\n\
        mul.wide.u32 %rd9, %r13, 4; add.s64 %rd9, %rd9, %rd1; mov.u32 %r14, %cluster_ctarank; mov.u32 %r15, %clusterid.y; mad.lo.u32 %r14, %r15, 16, %r14;\n\
        st.shared.u32 [s], %r14; barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r16, s; xor.b32 %r17, %r14, 3; and.b32 %r17, %r17, 3;\n\
        mapa.shared::cluster.u32 %r16, %r16, %r17; ld.shared::cluster.u32 %r18, [%r16]; st.global.u32 [%rd9], %r18; barrier.cluster.arrive; barrier.cluster.wait;";
    let kernel = load(&module(SHARED, body));
    let mut bench = Bench::new(16);
    bench.options.cluster = Some([2, 2, 1]);
    bench.launch_with(&kernel, [4, 4, 1], [1, 1, 1], 0).unwrap();
    assert_eq!(bench.result(), [3, 2, 3, 2, 1, 0, 1, 0, 19, 18, 19, 18, 17, 16, 17, 16]);
    // What does not divide the grid, or is too large, is refused.
    for cluster in [[3, 1, 1], [0, 1, 1], [4, 4, 2]] {
        bench.options.cluster = Some(cluster);
        let refused = bench.launch_with(&kernel, [4, 4, 1], [1, 1, 1], 0).unwrap_err();
        assert!(
            matches!(refused, Fault::BadLaunch { reason: LaunchMisuse::Cluster { .. }, .. }),
            "{refused}"
        );
    }
}

#[test]
fn an_access_that_the_clusters_barrier_does_not_order_is_found_and_both_blocks_are_named() {
    for body in [
        // No barrier between the write and the reads; none between the reads and the next write; one that tells nothing.
        format!("{PUT}{TAKE}{MEET}"),
        format!("{PUT}{MEET}{TAKE}st.shared.u32 [%r7], 7;\n{MEET}"),
        format!("{PUT}barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n{TAKE}{MEET}"),
        // A barrier of each block.
        format!("{PUT}bar.sync 0;\n{TAKE}{MEET}"),
    ] {
        for seed in 0..4 {
            let found = run_seeded(&body, 2, 2, 64, seed).unwrap_err();
            let Fault::SharedHazard { place, other, .. } = &found else { panic!("{found}: {body}") };
            assert_ne!(place.block, other.block, "{found}");
        }
    }
    // Plain accesses to global memory are ordered by it, and only by it.
    let around = "add.u32 %r15, %r4, %r5; rem.u32 %r15, %r15, %r1; mul.wide.u32 %rd9, %r15, 4; add.s64 %rd9, %rd9, %rd1; ld.global.u32 %r16, [%rd9];\n";
    let put = "st.global.u32 [%rd3], %r4;\n";
    run(&format!("{put}{MEET}{around}"), 2, 2, 64);
    let found = fault(&format!("{put}{around}"), 2, 2, 64);
    assert!(matches!(found, Fault::GlobalConflict { .. }), "{found}");
}

#[test]
fn shared_memory_of_a_block_that_is_not_there_is_out_of_bounds() {
    let beyond =
        "mov.u32 %r6, s; mapa.shared::cluster.u32 %r13, %r6, 2;\nld.shared::cluster.u32 %r14, [%r13];";
    let found = fault(beyond, 2, 2, 32);
    assert!(matches!(found, Fault::OutOfBounds { .. }), "{found}");
    let outside =
        "mov.u32 %r6, s; mapa.shared::cluster.u32 %r13, %r6, 1;\nst.shared::cluster.u32 [%r13+4096], %r6;";
    let found = fault(outside, 2, 2, 32);
    assert!(matches!(found, Fault::OutOfBounds { .. }), "{found}");
    // One that has exited: nobody waits for the readers.
    let body = format!(
        "{PUT}{MEET}setp.eq.u32 %p1, %r10, 1;\n@%p1 bra END;\nmov.u32 %r20, 0;\nSPIN: add.u32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, 20000;\n@%p2 bra SPIN;\n{TAKE}END:"
    );
    let found = fault(&body, 2, 2, 32);
    assert!(matches!(found, Fault::OutOfBounds { .. }), "{found}");
    // `.shared` alone is the own block's.
    let own = "mov.u32 %r6, s; mapa.shared::cluster.u32 %r13, %r6, 1;\nld.shared.u32 %r14, [%r13];";
    let found = run_seeded(own, 2, 2, 32, 0).unwrap_err();
    assert!(matches!(found, Fault::OutOfBounds { .. }), "{found}");
}

#[test]
fn a_barrier_of_the_cluster_that_cannot_complete_is_told() {
    let waits = "mov.u32 %r10, %cluster_ctarank; setp.eq.u32 %p1, %r10, 0;\n@%p1 bra HERE;\nsetp.lt.u32 %p2, %r2, 32;\n@%p2 bra THERE;\nHERE: barrier.cluster.arrive; barrier.cluster.wait;\nbra.uni END;\nTHERE: bar.sync 1, 96;\nEND:";
    let found = fault(waits, 2, 2, 64);
    let Fault::BarrierDivergence { place, barrier: 16, missing: Missing::Waits { line, .. } } = found else {
        panic!("{found}")
    };
    assert_eq!((place.line, line), (LINES_BEFORE_BODY + 5, LINES_BEFORE_BODY + 7));
    for body in ["barrier.cluster.wait;", "barrier.cluster.arrive;\nbarrier.cluster.arrive;"] {
        let found = fault(body, 2, 2, 32);
        assert!(matches!(found, Fault::BarrierDivergence { missing: Missing::Unpaired, .. }), "{found}");
    }
    // Threads that have exited are not waited for.
    let leaves = "setp.lt.u32 %p1, %r2, 7;\n@%p1 ret;\nbarrier.cluster.arrive; barrier.cluster.wait;\nbarrier.cluster.arrive; barrier.cluster.wait; st.global.u32 [%rd3], 1;";
    assert_eq!(run(leaves, 2, 2, 64)[7..9], [1, 1]);
}

#[test]
fn one_block_fetches_for_all_and_signals_the_mbarrier_of_each() {
    let body = format!(
        "mov.u32 %r10, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared.b64 [gate], 1;\n\
         @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [gate], 256;\nfence.mbarrier_init.release.cluster;\n{MEET}\
         @%p1 mbarrier.arrive.shared.b64 _, [gate];\n\
         setp.eq.and.u32 %p2, %r10, 0, %p1; mov.b16 %h1, 3;\n\
         @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [%rd2], 256, [gate], %h1;\n\
         W: mbarrier.try_wait.parity.shared.b64 %p3, [gate], 0;\n@!%p3 bra W;\n\
         mov.u32 %r6, s; shl.b32 %r7, %r2, 2; add.u32 %r7, %r6, %r7; ld.shared.u32 %r9, [%r7]; st.global.u32 [%rd3], %r9;\n{MEET}"
    );
    let result = run(&body, 2, 2, 64);
    assert_eq!((result[5], result[63], result[64], result[127]), (5, 63, 0, 63));
    // Who does not wait reads what is not there yet.
    let eager = body.replace("@!%p3 bra W;", "");
    let eager = eager.replace("W: mbarrier.try_wait.parity.shared.b64 %p3, [gate], 0;", "");
    let found = fault(&eager, 2, 2, 64);
    assert!(matches!(found, Fault::SharedHazard { .. }), "{found}");
    // From shared memory to shared memory of the next block, and an arrival there by hand.
    let copy = format!(
        "mov.u32 %r10, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared.b64 [gate], 2;\n\
         mov.u32 %r6, s; shl.b32 %r7, %r2, 2; add.u32 %r7, %r6, %r7; st.shared.u32 [%r7], %r4;\nfence.proxy.async;\n{MEET}\
         @!%p1 bra W;\nmov.u32 %r8, gate; xor.b32 %r11, %r10, 1; mapa.shared::cluster.u32 %r12, %r8, %r11; add.u32 %r13, %r6, 256; mapa.shared::cluster.u32 %r13, %r13, %r11;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [gate], 256;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r13], [s], 256, [%r12];\n\
         W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [gate], 0;\n@!%p3 bra W;\n\
         ld.shared.u32 %r9, [%r7+256]; st.global.u32 [%rd3], %r9;\n{MEET}"
    );
    let result = run(&copy, 2, 2, 64);
    assert_eq!((result[5], result[63], result[64], result[127]), (69, 127, 0, 63));
}
