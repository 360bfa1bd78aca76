//! Hazards in shared memory.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{AccessKind, Checks, Fault, UndefinedSource};

const PUT: &str = ".shared .align 4 .b8 s[1024];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r7, %r6, %r7;\n\
                   st.shared.u32 [%r7], %r2;\n";

/// Reads the word of the thread `distance` further, cyclically.
fn neighbour(distance: u32) -> String {
    format!(
        "add.u32 %r8, %r2, {distance};\nrem.u32 %r8, %r8, %r5;\nshl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r6, %r8;\n\
         ld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd3], %r9;"
    )
}

#[test]
fn a_missing_barrier_is_found_and_both_parties_are_named() {
    let found = fault("", &format!("{PUT}{}", neighbour(33)), 1, 128);
    let Fault::SharedHazard { place, access, address, other } = found else { panic!("{found}") };
    let (write, read) =
        ((AccessKind::Write, LINES_BEFORE_BODY + 5), (AccessKind::Read, LINES_BEFORE_BODY + 10));
    let (later, earlier) = ((access, place.line), (other.access, other.line));
    // Which comes first is up to the order of the warps.
    assert!([(write, read), (read, write)].contains(&(later, earlier)), "{later:?} {earlier:?}");
    let other = other.thread.unwrap()[0];
    let (writer, reader) = if later == write { (place.thread[0], other) } else { (other, place.thread[0]) };
    assert_eq!((address, (reader + 33) % 128), (u64::from(writer) * 4, writer));
}

#[test]
fn a_barrier_orders_the_block() {
    let body = format!("{PUT}bar.sync 0;\n{}", neighbour(33));
    assert_eq!(run("", &body, 3, 128).unwrap()[..3], [33, 34, 35]);
}

#[test]
fn a_missing_barrier_before_the_next_write_is_found() {
    let loop_body = |barrier: &str| {
        format!(
            "mov.u32 %r10, 0;\nAGAIN:\n{}bar.sync 0;\n{}\n{barrier}\nadd.u32 %r10, %r10, 1;\n\
             setp.lt.u32 %p1, %r10, 3;\n@%p1 bra AGAIN;",
            PUT.replace(".shared .align 4 .b8 s[1024];\n", ""),
            neighbour(40)
        )
    };
    let declarations = ".shared .align 4 .b8 s[1024];";
    let found = fault(declarations, &loop_body(""), 1, 128);
    let Fault::SharedHazard { access: AccessKind::Write, other, .. } = found else { panic!("{found}") };
    assert_eq!(other.access, AccessKind::Read);
    assert!(run(declarations, &loop_body("bar.sync 0;"), 1, 128).is_ok());
}

#[test]
fn a_warp_barrier_orders_only_the_warp() {
    let inside = "xor.b32 %r8, %r2, 1;\nshl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r6, %r8;\nld.shared.u32 %r9, [%r8];\n\
                  st.global.u32 [%rd3], %r9;";
    assert!(run("", &format!("{PUT}bar.warp.sync -1;\n{inside}"), 1, 128).is_ok());
    let found = fault("", &format!("{PUT}{inside}"), 1, 32);
    assert!(matches!(found, Fault::SharedHazard { .. }), "{found}");
    let found = fault("", &format!("{PUT}bar.warp.sync -1;\n{}", neighbour(32)), 1, 128);
    assert!(matches!(found, Fault::SharedHazard { .. }), "{found}");
}

#[test]
fn two_writers_of_one_byte_are_a_hazard_even_in_one_instruction() {
    let body = ".shared .align 4 .b8 s[4];\nst.shared.u32 [s], %r2;";
    let Fault::SharedHazard { place, other, .. } = fault("", body, 1, 2) else { panic!("not found") };
    assert_eq!((place.thread, other.thread), ([1, 0, 0], Some([0, 0, 0])));
    assert!(run("", body, 1, 1).is_ok());
}

#[test]
fn equal_values_may_be_allowed() {
    let kernel = load(&module("", ".shared .align 4 .b8 s[4];\nst.shared.u32 [s], %r1;"));
    let mut bench = Bench::new(64);
    assert!(bench.launch(&kernel, 1, 64).is_err());
    bench.options.checks = Checks { same_value_writes: true, ..Checks::default() };
    assert!(bench.launch(&kernel, 1, 64).is_ok());
    let different = load(&module("", ".shared .align 4 .b8 s[4];\nst.shared.u32 [s], %r2;"));
    assert!(bench.launch(&different, 1, 64).is_err());
}

#[test]
fn atomics_do_not_race_with_each_other_but_with_plain_reads() {
    let add = ".shared .align 4 .b8 s[4];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 st.shared.u32 [s], 0;\nbar.sync 0;\n\
               atom.shared.add.u32 %r6, [s], 1;\n";
    let read = "ld.shared.u32 %r7, [s];\nst.global.u32 [%rd3], %r7;";
    assert_eq!(run("", &format!("{add}bar.sync 0;\n{read}"), 1, 96).unwrap(), [96; 96]);
    let found = fault("", &format!("{add}{read}"), 1, 96);
    let Fault::SharedHazard { access: AccessKind::Read, other, .. } = found else { panic!("{found}") };
    assert_eq!(other.access, AccessKind::Atomic);
}

#[test]
fn neighbouring_bytes_do_not_race() {
    let body = ".shared .align 4 .b8 s[64];\nmov.u32 %r6, s;\nadd.u32 %r7, %r6, %r2;\nst.shared.u8 [%r7], %r2;\n\
                bar.sync 0;\nld.shared.u32 %r8, [s];\nst.global.u32 [%rd3], %r8;";
    assert_eq!(run("", body, 1, 64).unwrap()[0], 0x0302_0100);
    let racing = body.replace("bar.sync 0;\n", "");
    assert!(matches!(fault("", &racing, 1, 64), Fault::SharedHazard { .. }));
}

#[test]
fn warps_that_meet_at_a_named_barrier_are_ordered_and_others_are_not() {
    // Warps 0 and 1 meet at barrier 1; warp 1 reads what warp 0 wrote.
    let body = |source: u32| {
        format!(
            "{PUT}setp.ge.u32 %p1, %r2, 64;\n@%p1 bra END;\nbar.sync 1, 64;\nsetp.lt.u32 %p2, %r2, 32;\n\
             @%p2 bra END;\nxor.b32 %r8, %r2, {source};\nshl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r6, %r8;\n\
             ld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd3], %r9;\nEND:"
        )
    };
    assert!(run("", &body(32), 1, 128).is_ok());
    // Warp 2 never came to the barrier.
    assert!(matches!(fault("", &body(96), 1, 128), Fault::SharedHazard { .. }));
}

#[test]
fn hazards_can_be_switched_off() {
    let kernel = load(&module("", &format!("{PUT}{}", neighbour(33))));
    let mut bench = Bench::new(128);
    bench.options.checks = Checks { shared_hazards: false, uninitialised: false, ..Checks::default() };
    assert!(bench.launch(&kernel, 1, 128).is_ok());
}

#[test]
fn shared_memory_starts_poisoned_in_every_block() {
    let body = ".shared .align 4 .b8 s[4];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\nld.shared.u32 %r6, [s];\n\
                st.shared.u32 [s], 5;\nst.global.u32 [%rd3], %r6;\nEND:";
    let mut bench = Bench::new(128);
    bench.options.checks.uninitialised = false;
    bench.launch(&load(&module("", body)), 4, 32).unwrap();
    let result = bench.result();
    for block in 0..4 {
        assert!(f32::from_bits(result[block * 32]).is_nan(), "block {block}");
    }
}

#[test]
fn a_warp_barrier_of_some_lanes_orders_only_those() {
    // The lower lanes write and meet; then every lane reads what lane `n` of the lower ones wrote.
    let body = |members: &str, readers: &str| {
        format!(
            ".shared .align 4 .b8 s[256];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r7, %r6, %r7;\n\
             setp.ge.u32 %p1, %r2, 16;\n@%p1 bra OVER;\nst.shared.u32 [%r7], %r2;\nbar.warp.sync {members};\nOVER:\n\
             xor.b32 %r8, %r2, 1;\nand.b32 %r8, %r8, 15;\nshl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r6, %r8;\n{readers}\n\
             ld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd3], %r9;"
        )
    };
    assert_eq!(run("", &body("0xffff", "@%p1 ret;"), 1, 32).unwrap()[..3], [1, 0, 3]);
    let found = fault("", &body("0xffff", ""), 1, 32);
    assert!(matches!(found, Fault::SharedHazard { access: AccessKind::Read, .. }), "{found}");
}

#[test]
fn a_barrier_of_some_warps_does_not_hide_a_reader_of_another() {
    // Warps 0 to 2 read a word; all but one of them meet warp 3, which then writes it.
    let body = |missing: u32, threads: u32| {
        format!(
            ".shared .align 4 .b8 s[256];\nmov.u32 %r6, s;\nmov.u32 %r9, 0;\nshr.u32 %r7, %r2, 5;\n\
             setp.eq.u32 %p1, %r2, 0;\n\
             @%p1 st.shared.u32 [%r6], 7;\nbar.sync 0;\nsetp.eq.u32 %p2, %r7, 3;\n@%p2 bra WRITE;\n\
             ld.shared.u32 %r9, [%r6];\nsetp.eq.u32 %p3, %r7, {missing};\n@%p3 bra END;\nbar.sync 1, {threads};\n\
             bra END;\nWRITE:\nbar.sync 1, {threads};\nsetp.eq.u32 %p4, %r2, 96;\n@%p4 st.shared.u32 [%r6], 9;\n\
             END:\nst.global.u32 [%rd3], %r9;"
        )
    };
    for seed in 0..4 {
        for missing in 0..3 {
            let mut bench = Bench::new(128);
            bench.options.seed = seed;
            let found = bench.launch(&load(&module("", &body(missing, 96))), 1, 128);
            assert!(
                matches!(found, Err(Fault::SharedHazard { .. })),
                "seed {seed}, warp {missing}: {found:?}"
            );
        }
        let mut bench = Bench::new(128);
        bench.options.seed = seed;
        assert!(bench.launch(&load(&module("", &body(9, 128))), 1, 128).is_ok());
    }
}

#[test]
fn a_shuffle_from_a_lane_outside_the_member_mask_gives_poison() {
    // Both halves shuffle at once, each among itself, and read from the other half.
    let body = "setp.lt.u32 %p1, %r2, 16;\nselp.b32 %r8, 0xffff, 0xffff0000, %p1;\n\
                shfl.sync.bfly.b32 %r9, %r2, DISTANCE, 31, %r8;\nst.global.u32 [%rd3], %r9;";
    assert_eq!(run("", &body.replace("DISTANCE", "1"), 1, 32).unwrap()[..2], [1, 0]);
    let kernel = load(&module("", &body.replace("DISTANCE", "16")));
    let mut bench = Bench::new(32);
    let found = bench.launch(&kernel, 1, 32).unwrap_err();
    assert!(matches!(found, Fault::Uninitialised { origin: UndefinedSource::Register, .. }), "{found}");
    bench.options.checks.uninitialised = false;
    bench.launch(&kernel, 1, 32).unwrap();
    let outside = bench.result();
    assert!(outside.iter().all(|word| *word == cuforge_sim::POISON_WORD), "{outside:x?}");
}

#[test]
fn what_orders_the_threads_of_a_block_orders_them_in_global_memory_too() {
    let put = "st.global.u32 [%rd3], %r2;";
    let take = |distance: u32| {
        format!(
            "xor.b32 %r9, %r4, {distance}; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, %rd1;\n\
             ld.global.u32 %r10, [%rd9];\n"
        )
    };
    let all = |body: String| run("", &body, 3, 128).unwrap_or_else(|fault| panic!("{fault}: {body}"));
    all(format!("{put} bar.sync 0;\n{}", take(33)));
    all(format!("{put} bar.warp.sync -1;\n{}", take(1)));
    // Half a block each, by barriers of their own.
    let half = "shr.u32 %r11, %r2, 6; add.u32 %r11, %r11, 1; bar.sync %r11, 64;";
    all(format!("{put} {half}\n{}{half} {put}", take(32)));
    // Atomics and volatile accesses among themselves.
    all("red.global.add.u32 [%rd2], 1; atom.global.max.u32 %r9, [%rd2], %r2;".to_owned());
    all("st.volatile.global.u32 [%rd2], 1; ld.volatile.global.u32 %r9, [%rd2];".to_owned());
    // A flag of one warp for another, with fences; and who reads without the second fence.
    let message = |fence: &str| {
        format!(
            "setp.lt.u32 %p1, %r2, 32;\n@%p1 bra GIVE;\nWAIT: ld.volatile.global.u32 %r12, [%rd2+4];\n\
             setp.ne.u32 %p2, %r12, 77;\n@%p2 bra WAIT;\n{fence}\nld.global.u32 %r10, [%rd2+8];\nbra END;\n\
             GIVE: setp.ne.u32 %p3, %r2, 0;\n@%p3 bra END;\nst.global.u32 [%rd2+8], 5;\nmembar.gl;\n\
             st.volatile.global.u32 [%rd2+4], 77;\nEND:"
        )
    };
    run("", &message("membar.gl;"), 1, 64).unwrap();
    let found = fault("", &message(""), 1, 64);
    assert!(matches!(found, Fault::GlobalHazard { .. }), "{found}");
}
