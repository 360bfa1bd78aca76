//! Values that nothing has written: where they may go, and where they are faults.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{Fault, MemorySpace, UndefinedSource, UndefinedUse};

/// The use, the line of it within the body, and the origin of an undefined value.
fn found(declarations: &str, body: &str, threads: u32) -> (UndefinedUse, u32, UndefinedSource) {
    let fault = fault(declarations, body, 1, threads);
    let Fault::Uninitialised { place, used_as, origin } = fault else { panic!("{fault}\n{body}") };
    let origin = match origin {
        UndefinedSource::Memory { space, line } => {
            UndefinedSource::Memory { space, line: line - LINES_BEFORE_BODY }
        }
        origin => origin,
    };
    (used_as, place.line - LINES_BEFORE_BODY, origin)
}

fn memory(space: MemorySpace, line: u32) -> UndefinedSource {
    UndefinedSource::Memory { space, line }
}

#[test]
fn registers_that_were_never_written_decide_nothing() {
    let register = UndefinedSource::Register;
    for (body, used_as, line) in [
        ("st.global.u32 [%rd3], %r9;", UndefinedUse::Output, 1),
        (
            "add.u32 %r10, %r9, 1;\nxor.b32 %r11, %r10, %r2;\nst.global.u32 [%rd3], %r11;",
            UndefinedUse::Output,
            3,
        ),
        ("setp.eq.u32 %p1, %r9, 0;\n@%p1 bra L;\nL:", UndefinedUse::Branch, 2),
        ("@%p4 st.global.u32 [%rd3], %r2;", UndefinedUse::Branch, 1),
        ("add.s64 %rd9, %rd3, %rd10;\nld.global.u32 %r9, [%rd9];", UndefinedUse::Address, 2),
        ("st.global.u32 [%rd11], %r2;", UndefinedUse::Address, 1),
        ("red.global.add.u32 [%rd2], %r9;", UndefinedUse::Output, 1),
        (
            "cvt.rn.f32.u32 %f1, %r9;\nsqrt.rn.f32 %f2, %f1;\nst.global.f32 [%rd3], %f2;",
            UndefinedUse::Output,
            3,
        ),
        (
            "mul.wide.u32 %rd9, %r9, 4;\ncvt.u32.u64 %r10, %rd9;\nst.global.u32 [%rd3], %r10;",
            UndefinedUse::Output,
            3,
        ),
        ("shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1;\nst.global.u32 [%rd3], %r10;", UndefinedUse::Output, 2),
    ] {
        assert_eq!(found("", body, 32), (used_as, line, register), "{body}");
    }
}

#[test]
fn memory_that_was_never_written_is_followed_to_where_it_matters() {
    for (declarations, body, used_as, line, origin) in [
        (
            "",
            "ld.global.u32 %r9, [%rd3];\nadd.u32 %r9, %r9, 1;\nst.global.u32 [%rd4], %r9;",
            UndefinedUse::Output,
            3,
            memory(MemorySpace::Global, 1),
        ),
        (
            "",
            "ld.global.u8 %r9, [%rd3+3];\nsetp.gt.u32 %p1, %r9, 4;\n@%p1 ret;",
            UndefinedUse::Branch,
            3,
            memory(MemorySpace::Global, 1),
        ),
        (
            "",
            "ld.global.u32 %r10, [%rd1];\nmad.wide.u32 %rd9, %r10, 4, %rd2;\nld.global.u32 %r11, [%rd9];",
            UndefinedUse::Address,
            3,
            memory(MemorySpace::Global, 1),
        ),
        (
            ".shared .align 4 .b8 s[256];",
            "mov.u32 %r9, s;\nld.shared.u32 %r10, [%r9+128];\nst.global.u32 [%rd3], %r10;",
            UndefinedUse::Output,
            3,
            memory(MemorySpace::Shared, 2),
        ),
        (
            "",
            ".local .align 4 .b8 l[16];\nst.local.u32 [l], %r2;\nld.local.u32 %r9, [l];\nld.local.u32 %r10, [l+4];\n\
             st.global.u32 [%rd3], %r9;\nst.global.u32 [%rd3], %r10;",
            UndefinedUse::Output,
            6,
            memory(MemorySpace::Local, 4),
        ),
        (
            "",
            "ld.global.u32 %r9, [%rd3];\n.local .align 4 .b8 l[16];\nst.local.u32 [l], %r9;\nld.local.u32 %r10, [l];\n\
             st.global.u32 [%rd3], %r10;",
            UndefinedUse::Output,
            5,
            memory(MemorySpace::Local, 4),
        ),
        ("", "atom.global.add.u32 %r9, [%rd3], 1;", UndefinedUse::Output, 1, memory(MemorySpace::Global, 1)),
        (
            ".shared .align 4 .b8 s[256];",
            "atom.shared.cas.b32 %r9, [s+4], 1, 2;",
            UndefinedUse::Output,
            1,
            memory(MemorySpace::Shared, 1),
        ),
    ] {
        assert_eq!(found(declarations, body, 1), (used_as, line, origin), "{body}");
    }
}

#[test]
fn what_does_not_decide_may_be_undefined() {
    for body in [
        // Read and thrown away.
        "ld.global.u32 %r9, [%rd3];\nst.global.u32 [%rd3], %r2;",
        // Chosen away, lane by lane.
        "setp.lt.u32 %p1, %r2, 99;\nselp.u32 %r10, %r2, %r9, %p1;\nst.global.u32 [%rd3], %r10;",
        // Decided by the other side.
        "setp.lt.u32 %p1, %r2, 99;\nsetp.lt.u32 %p2, %r9, 5;\nor.pred %p3, %p1, %p2;\n@%p3 st.global.u32 [%rd3], %r2;",
        "setp.gt.u32 %p1, %r2, 99;\nsetp.lt.and.u32 %p2, %r9, 5, %p1;\n@%p2 st.global.u32 [%rd3], 7;",
        // Written in those lanes that read it.
        "setp.lt.u32 %p1, %r2, 16;\n@%p1 mov.u32 %r9, %r2;\n@!%p1 mov.u32 %r9, 5;\nst.global.u32 [%rd3], %r9;",
        // Neighbouring bytes.
        ".local .align 4 .b8 l[4];\nst.local.u8 [l+1], %r2;\nld.local.u8 %r9, [l+1];\nst.global.u32 [%rd3], %r9;",
        // Exchanged for something.
        "atom.global.exch.b32 %r9, [%rd3], %r2;\nld.global.u32 %r10, [%rd3];\nst.global.u32 [%rd4], %r10;",
    ] {
        let done = run("", body, 1, 32);
        assert!(done.is_ok(), "{body}: {done:?}");
    }
}

#[test]
fn an_undefined_element_spoils_its_row_or_column_of_a_product_only() {
    // A by rows from `b`, but for the upper eight rows those of `a`, which nobody has written.
    let body = |store: &str| {
        format!(
            "shr.u32 %r40, %r2, 2;\nand.b32 %r41, %r2, 3;\nshl.b32 %r42, %r40, 4;\nmad.lo.u32 %r42, %r41, 4, %r42;\n\
             cvt.u64.u32 %rd9, %r42;\nadd.s64 %rd10, %rd2, %rd9;\nadd.s64 %rd11, %rd1, %rd9;\n\
             ld.global.u32 %r10, [%rd10];\nld.global.u32 %r11, [%rd11];\nld.global.u32 %r12, [%rd10];\n\
             mov.f32 %f1, 0f00000000;\n\
             mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f2, %f3, %f4, %f5}}, {{%r10, %r11}}, {{%r12}}, \
             {{%f1, %f1, %f1, %f1}};\n{store}"
        )
    };
    assert!(run("", &body("st.global.f32 [%rd3], %f2;\nst.global.f32 [%rd3], %f3;"), 1, 32).is_ok());
    let (used_as, line, origin) = found("", &body("st.global.f32 [%rd3], %f4;"), 32);
    assert_eq!((used_as, line, origin), (UndefinedUse::Output, 13, memory(MemorySpace::Global, 9)));
}

#[test]
fn what_a_kernel_has_written_is_known_to_the_next() {
    let write = load(&module("", "setp.ge.u32 %p1, %r2, 16;\n@%p1 ret;\nst.global.u32 [%rd3], %r2;"));
    let read = load(&module("", "ld.global.u32 %r9, [%rd3];\nst.global.u32 [%rd4], %r9;"));
    let mut bench = Bench::new(32);
    bench.launch(&write, 1, 32).unwrap();
    assert_eq!(bench.memory.first_unwritten(bench.a, 128).unwrap(), Some(bench.a + 64));
    assert!(bench.launch(&read, 1, 16).is_ok());
    let Err(Fault::Uninitialised { place, .. }) = bench.launch(&read, 1, 32) else { panic!("not found") };
    assert_eq!(place.thread, [16, 0, 0]);
    bench.memory.fill(bench.a, 128, 0).unwrap();
    assert!(bench.launch(&read, 1, 32).is_ok());
    bench.memory.poison(bench.a + 8, 4).unwrap();
    bench.memory.copy(bench.a, bench.a + 64, 64).unwrap();
    assert_eq!(bench.memory.first_unwritten(bench.a + 12, 116).unwrap(), Some(bench.a + 72));
}

#[test]
fn parameters_and_padding_of_calls_keep_what_is_known_of_each_byte() {
    let declarations = ".func (.param .b32 r) f(.param .align 4 .b8 s[8]) { .reg .b32 %x<3>; ld.param.u8 %x1, [s]; \
                        ld.param.u32 %x2, [s+4]; add.u32 %x1, %x1, %x2; st.param.u32 [r], %x1; ret; }";
    let body = "{ .param .align 4 .b8 p[8]; .param .b32 q;\nst.param.u8 [p], %r2; st.param.u32 [p+4], %r2;\n\
                call (q), f, (p); ld.param.u32 %r9, [q]; }\nst.global.u32 [%rd3], %r9;";
    assert_eq!(run(declarations, body, 1, 32).unwrap()[31], 62);
    let (used_as, line, _) = found(declarations, &body.replace("st.param.u8 [p], %r2; ", ""), 32);
    assert_eq!((used_as, line), (UndefinedUse::Output, 4));
}

#[test]
fn a_local_variable_that_is_overrun_is_not_its_neighbour() {
    let body = ".local .align 4 .b8 l[16];\n.local .align 4 .b8 m[16];\nst.local.u32 [m], 1;\nmov.u32 %r9, l;\n\
                st.local.u32 [%r9+16], %r2;";
    let found = fault("", body, 1, 32);
    let Fault::OutOfBounds { place, space: MemorySpace::Local, address: 16, .. } = found else {
        panic!("{found}")
    };
    assert_eq!(place.line, LINES_BEFORE_BODY + 5);
}
