//! Device functions.

use crate::harness::{fault, run};
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
        let text = crate::harness::module(declarations, &body);
        let module = cuforge_sim::ptx::Module::parse(&text).unwrap();
        let kernel = cuforge_sim::Program::load(&module).unwrap().kernel("k").unwrap();
        let found = crate::harness::Bench::new(1).launch(&kernel, 1, 1);
        assert!(matches!(&found, Err(Fault::Unsupported { form, .. }) if form == "call.uni"), "{found:?}");
    }
}

#[test]
fn a_function_that_traps_is_named_by_the_kernel() {
    let found = fault(".func bad() { trap; }", "call.uni bad;", 1, 1);
    assert!(matches!(&found, Fault::Trap { place } if place.kernel == "k" && place.line == 4), "{found}");
}
