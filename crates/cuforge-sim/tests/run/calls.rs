//! Device functions.

use crate::harness::{Bench, LINES_BEFORE_BODY, fault, load, module, run};
use cuforge_sim::Fault;

const TWICE: &str = ".func (.param .b32 out) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; \
                     add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }";

#[test]
fn a_function_gets_its_arguments_and_gives_its_result() {
    let body = "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), twice, (p); \
                ld.param.b32 %r6, [q]; }\nst.global.u32 [%rd3], %r6;";
    assert_eq!(run(TWICE, body, 1, 4).unwrap(), [0, 2, 4, 6]);
}

#[test]
fn lanes_call_from_different_places_and_under_a_guard() {
    let call = |register: &str, guard: &str| {
        format!(
            "{{ .param .b32 p; .param .b32 q; st.param.b32 [p], {register}; {guard} call (q), twice, (p); \
             {guard} ld.param.b32 {register}, [q]; }}"
        )
    };
    let body = format!(
        "mov.u32 %r6, %r2;\nsetp.lt.u32 %p1, %r2, 2;\n@%p1 bra A;\n{}\n{}\nbra END;\nA:\n{}\nEND:\n\
         st.global.u32 [%rd3], %r6;",
        call("%r6", ""),
        call("%r6", "@!%p1"),
        call("%r6", "")
    );
    assert_eq!(run(TWICE, &body, 1, 4).unwrap(), [0, 2, 8, 12]);
}

#[test]
fn functions_call_functions_and_diverge_inside() {
    let declarations = format!(
        "{TWICE} .func (.param .b32 out) steps(.param .align 8 .b8 pair[16]) {{ .reg .b32 %r<6>; .reg .pred %p<2>; \
         ld.param.u32 %r1, [pair]; ld.param.u32 %r2, [pair+8]; setp.lt.u32 %p1, %r1, %r2; @%p1 bra SMALL; \
         sub.u32 %r3, %r1, %r2; st.param.b32 [out], %r3; ret; SMALL: {{ .param .b32 p; .param .b32 q; \
         st.param.b32 [p], %r1; call.uni (q), twice, (p); ld.param.b32 %r4, [q]; }} st.param.b32 [out], %r4; ret; }}"
    );
    let body = "{ .param .align 8 .b8 p[16]; .param .b32 q; st.param.b32 [p], %r2; st.param.b32 [p+8], 3; \
                call.uni (q), steps, (p); ld.param.b32 %r6, [q]; }\nst.global.u32 [%rd3], %r6;";
    assert_eq!(run(&declarations, body, 1, 6).unwrap(), [0, 2, 4, 0, 1, 2]);
}

#[test]
fn recursion_and_missing_functions_are_unsupported() {
    let declarations = ".func endless() { call.uni endless; ret; } .extern .func elsewhere();";
    for name in ["endless", "elsewhere"] {
        let body = format!("call.uni {name};");
        let text = module(declarations, &body);
        let module = cuforge_sim::ptx::Module::parse(&text).unwrap();
        let kernel = cuforge_sim::Program::load(&module).unwrap().kernel("k").unwrap();
        let found = Bench::new(1).launch(&kernel, 1, 1);
        assert!(matches!(&found, Err(Fault::Unsupported { form, .. }) if form == "call.uni"), "{found:?}");
    }
}

#[test]
fn a_function_that_traps_is_named_by_the_kernel() {
    let found = fault(".func bad() { trap; }", "call.uni bad;", 1, 1);
    assert!(matches!(&found, Fault::Trap { place } if place.kernel == "k" && place.line == 4), "{found}");
}

/// Two functions of one shape and one of another, their addresses in a table, and text to print.
const FUNCTIONS: &str = ".func (.param .b32 r) up(.param .b32 a) { .reg .b32 %x; ld.param.u32 %x, [a]; add.u32 %x, %x, 100; \
    st.param.u32 [r], %x; ret; } \
    .func (.param .b32 r) square(.param .b32 a) { .reg .b32 %x; ld.param.u32 %x, [a]; mul.lo.u32 %x, %x, %x; \
    st.param.u32 [r], %x; ret; } \
    .func nothing() { ret; } \
    .global .align 8 .u64 table[3] = {up, square, nothing}; \
    .global .align 1 .b8 format[15] = {116, 37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 33, 10, 0}; \
    .global .align 1 .b8 word[3] = {104, 105, 0}; \
    .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v); \
    .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);";

/// Calls what the table holds at `%r8`.
fn by_table(pick: &str) -> String {
    format!(
        "{pick}\nmov.u64 %rd9, table; mul.wide.u32 %rd10, %r8, 8; add.s64 %rd9, %rd9, %rd10; ld.global.u64 %rd9, [%rd9];\n\
         {{ .param .b32 p; .param .b32 q;\nst.param.u32 [p], %r2;\nshape: .callprototype (.param .b32 _) _ (.param .b32 _);\n\
         call (q), %rd9, (p), shape;\nld.param.u32 %r9, [q]; }}\nst.global.u32 [%rd3], %r9;"
    )
}

#[test]
fn a_call_by_address_goes_where_each_lane_says() {
    let got = run(FUNCTIONS, &by_table("and.b32 %r8, %r2, 1;"), 1, 64).unwrap();
    let want = |i: u32| if i.is_multiple_of(2) { i + 100 } else { i * i };
    assert!(got.iter().zip(0..).all(|(got, i)| *got == want(i)), "{got:?}");
    // The address of a function may be an operand too.
    let body = by_table("mov.u32 %r8, 0;").replace("ld.global.u64 %rd9, [%rd9];", "mov.u64 %rd9, square;");
    assert_eq!(run(FUNCTIONS, &body, 1, 32).unwrap()[9], 81);
}

#[test]
fn a_call_of_what_is_no_such_function_is_a_fault_where_it_stands() {
    let not_this = by_table("mov.u32 %r8, 2;");
    for body in [not_this.clone(), not_this.replace("ld.global.u64 %rd9, [%rd9];", "mov.u64 %rd9, %rd1;")] {
        let found = fault(FUNCTIONS, &body, 1, 32);
        let Fault::Unsupported { place, form } = found else { panic!("{found}") };
        assert_eq!((place.line, form.starts_with("call of")), (LINES_BEFORE_BODY + 6, true));
    }
}

const PRINT: &str = ".local .align 8 .b8 l[24];\nst.local.u32 [l], %r4; mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [l+8], %fd1;\n\
    mov.u64 %rd9, word; st.local.u64 [l+16], %rd9; mov.u64 %rd10, l; cvta.local.u64 %rd10, %rd10; mov.u64 %rd11, format;\n\
    { .param .b64 f; .param .b64 v; .param .b32 q; st.param.u64 [f], %rd11; st.param.u64 [v], %rd10;\n\
    call.uni (q), vprintf, (f, v);\nld.param.u32 %r9, [q]; }\nst.global.u32 [%rd3], %r9;";

#[test]
fn what_kernels_print_comes_block_by_block() {
    let kernel = load(&module(FUNCTIONS, PRINT));
    for threads in [1, 4] {
        let mut bench = Bench::new(12);
        bench.options.threads = threads;
        bench.launch(&kernel, 4, 3).unwrap();
        assert_eq!(bench.result(), [3; 12]);
        let text: String = (0..12).map(|i| format!("t{i} 1.5 hi!\n")).collect();
        assert_eq!(String::from_utf8(bench.memory.take_printed()).unwrap(), text);
        assert!(bench.memory.take_printed().is_empty());
    }
    let wild = PRINT.replace("mov.u64 %rd11, format;", "mov.u64 %rd11, 64;");
    let found = fault(FUNCTIONS, &wild, 1, 1);
    assert!(matches!(found, Fault::OutOfBounds { address: 64, .. }), "{found}");
}

#[test]
fn a_failed_assertion_says_so_and_is_no_trap() {
    let body = "mov.u64 %rd9, word; mov.u32 %r9, 7; setp.ne.u32 %p1, %r4, 5;\n@%p1 bra END;\n\
                { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.u64 [a], %rd9;\n\
                st.param.u64 [b], %rd9; st.param.u32 [c], %r9; st.param.u64 [d], %rd9; st.param.u64 [e], %rd9;\n\
                call.uni __assertfail, (a, b, c, d, e); }\nEND:";
    let kernel = load(&module(FUNCTIONS, body));
    let mut bench = Bench::new(16);
    let found = bench.launch(&kernel, 4, 4).unwrap_err();
    let Fault::AssertionFailed { place } = found else { panic!("{found}") };
    assert_eq!((place.line, place.block, place.thread), (LINES_BEFORE_BODY + 5, [1, 0, 0], [1, 0, 0]));
    let text = String::from_utf8(bench.memory.take_printed()).unwrap();
    assert_eq!(text, "hi:7: hi: block: [1,0,0], thread: [1,0,0] Assertion `hi` failed.\n");
}
