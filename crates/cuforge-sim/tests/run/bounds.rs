//! Out of bounds and misaligned accesses, in every space.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::{AccessKind, Fault, MemorySpace, Nearest};

#[test]
fn a_read_past_the_end_names_line_block_thread_and_address() {
    let mut bench = Bench::new(100);
    let kernel = load(&module("", "ld.global.u32 %r6, [%rd4];\nst.global.u32 [%rd3], %r6;"));
    bench.options.threads = 2;
    let Err(Fault::OutOfBounds { place, access, space, address, bytes, nearest }) =
        bench.launch(&kernel, 2, 64)
    else {
        panic!("not found")
    };
    assert_eq!((place.kernel.as_str(), place.line), ("k", LINES_BEFORE_BODY + 1));
    assert_eq!((place.block, place.thread), ([1, 0, 0], [36, 0, 0]));
    assert_eq!((access, space, address, bytes), (AccessKind::Read, MemorySpace::Global, bench.b + 400, 4));
    assert_eq!(nearest, Nearest::Range { start: bench.b, len: 400 });
}

#[test]
fn a_write_past_the_end_is_found_and_one_inside_is_not() {
    let body = "st.global.u32 [%rd3+4], %r2;";
    let found = fault("", body, 1, 64);
    assert!(matches!(found, Fault::OutOfBounds { access: AccessKind::Write, .. }), "{found}");
    assert!(run("", "st.global.u32 [%rd3], %r2;", 1, 64).is_ok());
}

#[test]
fn an_access_must_stay_inside_one_mark() {
    let kernel = load(&module("", "ld.global.u32 %r6, [%rd4];\nst.global.u32 [%rd3], %r6;"));
    let mut bench = Bench::new(64);
    bench.memory.mark(bench.b, 128).unwrap();
    assert!(bench.launch(&kernel, 1, 32).is_ok());
    let Err(Fault::OutOfBounds { place, nearest, .. }) = bench.launch(&kernel, 2, 32) else {
        panic!("not found")
    };
    assert_eq!((place.block, place.thread), ([1, 0, 0], [0, 0, 0]));
    assert_eq!(nearest, Nearest::Range { start: bench.b, len: 128 });
    // A vector that runs over the end of a mark is out of bounds too.
    let wide = load(&module("", "ld.global.v2.u32 {%r6, %r7}, [%rd2+120];\nst.global.u32 [%rd3], %r6;"));
    assert!(bench.launch(&wide, 1, 1).is_ok());
    let wide = load(&module("", "ld.global.v2.u32 {%r6, %r7}, [%rd2+128];\nst.global.u32 [%rd3], %r6;"));
    assert!(bench.launch(&wide, 1, 1).is_err());
}

#[test]
fn freed_memory_is_known_as_such() {
    let kernel = load(&module("", "ld.global.u32 %r6, [%rd4];\nst.global.u32 [%rd3], %r6;"));
    let mut bench = Bench::new(32);
    bench.memory.free(bench.b).unwrap();
    let Err(Fault::OutOfBounds { nearest, .. }) = bench.launch(&kernel, 1, 32) else { panic!("not found") };
    assert_eq!(nearest, Nearest::Freed { start: bench.b, len: 128 });
}

#[test]
fn lanes_that_are_switched_off_are_not_checked() {
    let body = "setp.lt.u32 %p1, %r2, 3;\n@%p1 ld.global.u32 %r6, [%rd4];\n@!%p1 mov.u32 %r6, 9;\n\
                setp.ge.u32 %p2, %r2, 3;\n@%p2 mov.u64 %rd4, 0;\n@%p1 st.global.u32 [%rd3], %r6;\n\
                @%p2 st.global.u32 [%rd3], %r6;";
    assert_eq!(run("", body, 1, 8).unwrap(), [0, 1, 2, 9, 9, 9, 9, 9]);
}

#[test]
fn misaligned_accesses_are_found_in_global_and_shared_memory() {
    let found = fault("", "ld.global.u32 %r6, [%rd4+2];", 1, 32);
    assert!(matches!(found, Fault::Misaligned { space: MemorySpace::Global, bytes: 4, .. }), "{found}");
    let found = fault("", "ld.global.v2.u32 {%r6, %r7}, [%rd4];", 1, 32);
    let Fault::Misaligned { place, address, bytes: 8, .. } = found else { panic!("{found}") };
    assert_eq!((place.thread, address % 8), ([1, 0, 0], 4));
    let body = ".shared .align 8 .b8 s[64];\nmov.u32 %r6, s;\nld.shared.u64 %rd5, [%r6+4];";
    let found = fault("", body, 1, 1);
    assert!(matches!(found, Fault::Misaligned { space: MemorySpace::Shared, .. }), "{found}");
    assert!(run("", "ld.global.u16 %h1, [%rd4+2];", 1, 31).is_ok());
}

#[test]
fn each_shared_variable_has_bounds_of_its_own() {
    let body = |offset| {
        format!(
            ".shared .align 4 .b8 s[128]; .shared .align 4 .b8 t[128];\nmov.u32 %r6, s;\nshl.b32 %r7, %r2, 2;\n\
             add.u32 %r6, %r6, %r7;\nst.shared.u32 [%r6+{offset}], %r2;\nst.shared.u32 [t], %r2;"
        )
    };
    assert!(run("", &body(0).replace("st.shared.u32 [t], %r2;", ""), 1, 32).is_ok());
    let found = fault("", &body(4), 1, 32);
    let Fault::OutOfBounds { place, space, address, nearest, .. } = found else { panic!("{found}") };
    assert_eq!((space, place.thread, address), (MemorySpace::Shared, [31, 0, 0], 128));
    assert_eq!((place.line, nearest), (LINES_BEFORE_BODY + 5, Nearest::Range { start: 0, len: 128 }));
}

#[test]
fn dynamic_shared_memory_ends_where_the_launch_says() {
    let body = "mov.u32 %r6, pool;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r6, %r6, %r7;\nst.shared.u32 [%r6], %r2;\n\
                ld.shared.u32 %r8, [%r6];\nst.global.u32 [%rd3], %r8;";
    let kernel = load(&module(".extern .shared .align 16 .b8 pool[];", body));
    let mut bench = Bench::new(32);
    assert!(bench.launch_with(&kernel, [1, 1, 1], [32, 1, 1], 128).is_ok());
    assert_eq!(bench.result(), (0..32).collect::<Vec<u32>>());
    let found = bench.launch_with(&kernel, [1, 1, 1], [32, 1, 1], 124);
    let Err(Fault::OutOfBounds { place, .. }) = found else { panic!("{found:?}") };
    assert_eq!(place.thread, [31, 0, 0]);
    assert!(bench.launch_with(&kernel, [1, 1, 1], [32, 1, 1], 0).is_err());
}

#[test]
fn local_memory_and_parameters_have_bounds() {
    let local =
        |offset| format!(".local .align 4 .b8 l[16];\nmov.u64 %rd5, l;\nst.local.u32 [%rd5+{offset}], %r2;");
    assert!(run("", &local(12), 1, 32).is_ok());
    let found = fault("", &local(16), 1, 32);
    assert!(matches!(found, Fault::OutOfBounds { space: MemorySpace::Local, address: 16, .. }), "{found}");
    let param =
        |offset| format!("mov.b64 %rd5, a;\nld.param.u32 %r6, [%rd5+{offset}];\nst.global.u32 [%rd3], %r6;");
    assert_eq!(run("", &param(16), 1, 2).unwrap(), [2, 2]);
    let found = fault("", &param(20), 1, 2);
    assert!(matches!(found, Fault::OutOfBounds { space: MemorySpace::Param, address: 20, .. }), "{found}");
}

#[test]
fn the_null_pointer_is_out_of_bounds() {
    let found = fault("", "mov.u64 %rd5, 0;\nld.global.u32 %r6, [%rd5];", 1, 1);
    assert!(matches!(found, Fault::OutOfBounds { address: 0, .. }), "{found}");
    let found = fault("", "mov.u64 %rd5, 0;\nld.u32 %r6, [%rd5];", 1, 1);
    assert!(matches!(found, Fault::OutOfBounds { address: 0, .. }), "{found}");
}
