//! Control flow: lanes that part and meet, loops, tables, budgets.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{Fault, LaunchOptions};

#[test]
fn lanes_take_their_own_ways_and_meet_again() {
    let body = "and.b32 %r6, %r2, 3;\nsetp.eq.u32 %p1, %r6, 0;\n@%p1 bra ZERO;\nsetp.eq.u32 %p2, %r6, 1;\n\
                @%p2 bra ONE;\nmov.u32 %r7, 30;\nbra MEET;\nZERO:\nmov.u32 %r7, 10;\nbra MEET;\nONE:\n\
                mov.u32 %r7, 20;\nMEET:\nactivemask.b32 %r8;\npopc.b32 %r8, %r8;\nadd.u32 %r7, %r7, %r8;\n\
                st.global.u32 [%rd3], %r7;";
    assert_eq!(run("", body, 1, 32).unwrap()[..4], [42, 52, 62, 62]);
}

#[test]
fn lanes_leave_a_loop_one_by_one_and_meet_behind_it() {
    let body = "mov.u32 %r6, 0;\nAGAIN:\nsetp.ge.u32 %p1, %r6, %r2;\n@%p1 bra OUT;\nadd.u32 %r6, %r6, 1;\n\
                bra AGAIN;\nOUT:\nvote.sync.ballot.b32 %r7, %p1, -1;\npopc.b32 %r7, %r7;\n\
                mad.lo.u32 %r6, %r6, 100, %r7;\nst.global.u32 [%rd3], %r6;";
    let result = run("", body, 1, 64).unwrap();
    assert!(result.iter().enumerate().all(|(thread, value)| *value == thread as u32 * 100 + 32));
}

#[test]
fn parted_lanes_wait_for_their_members() {
    // Lanes above 15 come late to the shuffle, from a branch that lies behind it.
    let body = "setp.gt.u32 %p1, %r2, 15;\n@%p1 bra LATE;\nMEET:\nshfl.sync.bfly.b32 %r6, %r2, 16, 31, -1;\n\
                st.global.u32 [%rd3], %r6;\nret;\nLATE:\nadd.u32 %r7, %r2, 1;\nbra MEET;";
    let result = run("", body, 1, 32).unwrap();
    assert!(result.iter().enumerate().all(|(lane, value)| *value == lane as u32 ^ 16), "{result:?}");
}

#[test]
fn groups_of_a_warp_synchronise_on_their_own() {
    let body = "setp.lt.u32 %p1, %r2, 16;\nselp.b32 %r6, 0xffff, 0xffff0000, %p1;\n@%p1 bra LOW;\n\
                add.u32 %r2, %r2, 100;\nLOW:\nredux.sync.max.u32 %r7, %r2, %r6;\nst.global.u32 [%rd3], %r7;";
    let result = run("", body, 1, 32).unwrap();
    assert_eq!((result[0], result[15], result[16], result[31]), (15, 15, 131, 131));
}

#[test]
fn a_lock_between_lanes_of_a_warp_makes_progress() {
    // A lane that holds the lock is behind those that spin for it.
    let body = "SPIN:\natom.global.cas.b32 %r6, [%rd2], 0, 1;\nsetp.ne.u32 %p1, %r6, 0;\n@%p1 bra SPIN;\n\
                ld.volatile.global.u32 %r7, [%rd1];\nadd.u32 %r7, %r7, 1;\nst.volatile.global.u32 [%rd1], %r7;\n\
                membar.gl;\natom.global.exch.b32 %r8, [%rd2], 0;";
    let kernel = load(&module("", body));
    let mut bench = Bench::new(4);
    bench.memory.write(bench.a, &0u32.to_le_bytes()).unwrap();
    bench.launch(&kernel, 2, 64).unwrap();
    assert_eq!(bench.result()[0], 128);
}

#[test]
fn a_flag_between_warps_of_a_block_makes_progress() {
    let body = ".shared .align 4 .b8 flag[4];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 st.shared.u32 [flag], 0;\nbar.sync 0;\n\
                setp.ge.u32 %p1, %r2, 32;\n@%p1 bra RAISE;\nWAIT:\nld.volatile.shared.u32 %r6, [flag];\n\
                setp.eq.u32 %p3, %r6, 0;\n@%p3 bra WAIT;\nst.global.u32 [%rd3], %r6;\nret;\nRAISE:\n\
                setp.eq.u32 %p4, %r2, 32;\n@%p4 st.volatile.shared.u32 [flag], 9;";
    for seed in 0..4 {
        let kernel = load(&module("", body));
        let mut bench = Bench::new(64);
        bench.options.seed = seed;
        bench.launch(&kernel, 1, 64).unwrap();
        assert_eq!(bench.result()[31], 9);
    }
}

#[test]
fn an_indirect_branch_goes_by_its_table() {
    let body = "and.b32 %r6, %r2, 3;\nTABLE: .branchtargets A, B, C, D;\nbrx.idx %r6, TABLE;\nA:\nmov.u32 %r7, 1;\n\
                bra END;\nB:\nmov.u32 %r7, 2;\nbra END;\nC:\nmov.u32 %r7, 3;\nbra END;\nD:\nmov.u32 %r7, 4;\nEND:\n\
                st.global.u32 [%rd3], %r7;";
    assert_eq!(run("", body, 1, 6).unwrap(), [1, 2, 3, 4, 1, 2]);
}

#[test]
fn an_endless_loop_uses_its_budget_up() {
    let kernel =
        load(&module("", "setp.ne.u32 %p1, %r2, 5;\n@%p1 ret;\nLOOP:\nadd.u32 %r6, %r6, 1;\nbra LOOP;"));
    let mut bench = Bench::new(64);
    bench.options = LaunchOptions { step_budget: 100_000, ..bench.options };
    let Err(Fault::StepBudget { place, budget: 100_000 }) = bench.launch(&kernel, 3, 64) else {
        panic!("no fault")
    };
    assert_eq!((place.block, place.thread), ([0, 0, 0], [5, 0, 0]));
    assert!((LINES_BEFORE_BODY + 4..=LINES_BEFORE_BODY + 5).contains(&place.line), "{place}");
}

#[test]
fn a_loop_within_its_budget_ends() {
    let body = "mov.u32 %r6, 0;\nLOOP:\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 100000;\n@%p1 bra LOOP;\n\
                st.global.u32 [%rd3], %r6;";
    assert_eq!(run("", body, 1, 2).unwrap(), [100_000; 2]);
}

#[test]
fn a_trap_is_a_fault_where_a_thread_comes_to_it() {
    let body = "setp.ne.u32 %p1, %r2, 7;\n@%p1 ret;\ntrap;";
    let Fault::Trap { place } = fault("", body, 1, 32) else { panic!("no trap") };
    assert_eq!((place.line, place.thread), (LINES_BEFORE_BODY + 3, [7, 0, 0]));
    assert!(run("", body, 1, 7).is_ok());
}

#[test]
fn an_unknown_form_faults_only_where_a_thread_comes_to_it() {
    let body = "setp.gt.u32 %p1, %r4, 3;\n@%p1 wgmma.fence.sync.aligned;\nst.global.u32 [%rd3], %r4;";
    let text = module("", body);
    let parsed = cuforge_sim::ptx::Module::parse(&text).unwrap();
    let kernel = cuforge_sim::Program::load(&parsed).unwrap().kernel("k").unwrap();
    let unknown: Vec<_> = kernel.unsupported().collect();
    assert_eq!(unknown, [(LINES_BEFORE_BODY + 2, "wgmma.fence.sync.aligned")]);
    let mut bench = Bench::new(8);
    assert!(bench.launch(&kernel, 1, 4).is_ok());
    let Err(Fault::Unsupported { place, form }) = bench.launch(&kernel, 2, 4) else { panic!("no fault") };
    assert_eq!((form.as_str(), place.block), ("wgmma.fence.sync.aligned", [1, 0, 0]));
}

#[test]
fn registers_of_inner_scopes_are_their_own() {
    let body = "mov.u32 %r6, 1;\n{ .reg .b32 %r6; mov.u32 %r6, 50; add.u32 %r7, %r6, 0; }\nadd.u32 %r7, %r7, %r6;\n\
                { .reg .b32 t<3>; mov.u32 t2, 100; add.u32 %r7, %r7, t2; }\nst.global.u32 [%rd3], %r7;";
    assert_eq!(run("", body, 1, 1).unwrap(), [151]);
}
