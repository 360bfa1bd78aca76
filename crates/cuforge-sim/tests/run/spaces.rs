//! State spaces: generic addresses, module variables, constants, local memory, special registers.

use crate::harness::{Bench, load, module, run};
use cuforge_sim::{Memory, Program, ptx::Module};

#[test]
fn generic_addresses_reach_every_space() {
    let body = ".shared .align 4 .b8 s[128]; .local .align 4 .b8 l[4];\nmov.u64 %rd5, s;\ncvta.shared.u64 %rd5, %rd5;\n\
                mul.wide.u32 %rd6, %r2, 4;\nadd.s64 %rd5, %rd5, %rd6;\nmov.u64 %rd7, l;\ncvta.local.u64 %rd7, %rd7;\n\
                add.u32 %r6, %r2, 10;\nadd.u32 %r7, %r2, 20;\nst.u32 [%rd5], %r6;\nst.u32 [%rd7], %r7;\n\
                ld.u32 %r8, [%rd5];\nld.u32 %r9, [%rd7];\nld.u32 %r10, [%rd4];\nadd.u32 %r8, %r8, %r9;\n\
                add.u32 %r8, %r8, %r10;\nst.u32 [%rd3], %r8;";
    assert_eq!(run("", body, 1, 4).unwrap(), [30, 33, 36, 39]);
}

#[test]
fn lanes_of_one_instruction_may_be_in_different_spaces() {
    let body = ".shared .align 4 .b8 s[4];\nst.shared.u32 [s], 77;\nmov.u64 %rd5, s;\ncvta.shared.u64 %rd5, %rd5;\n\
                setp.eq.u32 %p1, %r2, 0;\nselp.b64 %rd6, %rd5, %rd4, %p1;\nld.u32 %r6, [%rd6];\n\
                isspacep.shared %p2, %rd6;\nisspacep.global %p3, %rd6;\n@%p2 add.u32 %r6, %r6, 1000;\n\
                @%p3 add.u32 %r6, %r6, 2000;\nst.global.u32 [%rd3], %r6;";
    let body =
        body.replace("st.shared.u32 [s], 77;", "setp.eq.u32 %p4, %r2, 0;\n@%p4 st.shared.u32 [s], 77;");
    assert_eq!(run("", &body, 1, 3).unwrap(), [1077, 2001, 2002]);
}

#[test]
fn module_variables_start_with_their_values_and_keep_what_kernels_write() {
    let declarations = ".global .align 4 .u32 counter = 5; .const .align 4 .f32 table[3] = {0f3F800000, 2.0, 3.0}; \
                        .global .align 8 .u64 where = counter; .const .align 2 .b16 grid[2][2] = {{1, 2}, {3, 4}};";
    let body = "ld.global.u32 %r6, [counter];\nadd.u32 %r7, %r6, 1;\nst.global.u32 [counter], %r7;\n\
                ld.const.f32 %f1, [table+4];\ncvt.rzi.u32.f32 %r8, %f1;\nld.global.u64 %rd5, [where];\n\
                ld.global.u32 %r9, [%rd5];\nmov.u64 %rd6, grid;\nld.const.u16 %h1, [%rd6+6];\ncvt.u32.u16 %r10, %h1;\n\
                mad.lo.u32 %r6, %r6, 1000, %r8;\nmad.lo.u32 %r6, %r6, 100, %r9;\nmad.lo.u32 %r6, %r6, 10, %r10;\n\
                st.global.u32 [%rd3], %r6;";
    let text = module(declarations, body);
    let kernel = load(&text);
    let mut bench = Bench::new(1);
    bench.launch(&kernel, 1, 1).unwrap();
    assert_eq!(bench.result(), [(5 * 1000 + 2) * 1000 + 6 * 10 + 4]);
    bench.launch(&kernel, 1, 1).unwrap();
    assert_eq!(bench.result(), [(6 * 1000 + 2) * 1000 + 7 * 10 + 4]);
    let program = Program::load(&Module::parse(&text).unwrap()).unwrap();
    let mut memory = Memory::new(1024);
    let (address, bytes) = program.variable("counter", &mut memory).unwrap().unwrap();
    let mut value = [0; 4];
    memory.read(address, &mut value).unwrap();
    assert_eq!((bytes, value), (4, [5, 0, 0, 0]));
    assert_eq!(program.variable("nothing", &mut memory).unwrap(), None);
}

#[test]
fn every_thread_has_local_memory_of_its_own() {
    let body = ".local .align 4 .b8 l[64];\nmov.u64 %rd5, l;\nand.b32 %r6, %r2, 15;\nmul.wide.u32 %rd6, %r6, 4;\n\
                add.s64 %rd5, %rd5, %rd6;\nst.local.u32 [%rd5], %r2;\nbar.sync 0;\nld.local.u32 %r7, [%rd5];\n\
                st.local.u8 [%rd5+3], 1;\nld.local.s8 %r8, [%rd5];\nadd.u32 %r7, %r7, %r8;\nst.global.u32 [%rd3], %r7;";
    let result = run("", body, 2, 64).unwrap();
    assert!(result.iter().enumerate().all(|(at, value)| *value == (at as u32 % 64) * 2));
}

#[test]
fn special_registers_tell_where_a_thread_is() {
    let body = "mov.u32 %r6, %tid.x;\nmov.u32 %r7, %tid.y;\nmov.u32 %r8, %tid.z;\nmov.u32 %r9, %ntid.x;\n\
                mov.u32 %r10, %ntid.y;\nmad.lo.u32 %r11, %r8, %r10, %r7;\nmad.lo.u32 %r11, %r11, %r9, %r6;\n\
                mov.u32 %r12, %ctaid.y;\nmov.u32 %r13, %nctaid.x;\nmov.u32 %r14, %ctaid.x;\n\
                mad.lo.u32 %r12, %r12, %r13, %r14;\nmad.lo.u32 %r12, %r12, 48, %r11;\nmul.wide.u32 %rd5, %r12, 4;\n\
                add.s64 %rd5, %rd1, %rd5;\nmov.u32 %r15, %laneid;\nmov.u32 %r16, %warpid;\nmad.lo.u32 %r15, %r16, 32, %r15;\n\
                mov.u32 %r17, %lanemask_lt;\npopc.b32 %r17, %r17;\nmad.lo.u32 %r15, %r15, 100, %r17;\n\
                st.global.u32 [%rd5], %r15;";
    let kernel = load(&module("", body));
    let mut bench = Bench::new(6 * 48);
    bench.launch_with(&kernel, [3, 2, 1], [4, 3, 4], 0).unwrap();
    for (at, value) in bench.result().into_iter().enumerate() {
        let thread = at as u32 % 48;
        assert_eq!(value, thread * 100 + thread % 32);
    }
}

#[test]
fn vectors_load_and_store_their_parts_in_order() {
    let body = "mul.wide.u32 %rd5, %r2, 16;\nadd.s64 %rd6, %rd2, %rd5;\nadd.s64 %rd7, %rd1, %rd5;\n\
                ld.global.nc.v4.u32 {%r6, _, %r8, %r9}, [%rd6];\nst.global.v4.b32 [%rd7], {%r9, %r8, %r6, %r6};";
    let kernel = load(&module("", body));
    let mut bench = Bench::new(8);
    bench.launch(&kernel, 1, 2).unwrap();
    assert_eq!(bench.result(), [3, 2, 0, 0, 7, 6, 4, 4]);
}

#[test]
fn sub_word_accesses_extend_as_their_type_says() {
    let declarations = ".global .align 4 .b8 bytes[4] = {0x80, 0xff, 0x01, 0x7f};";
    let body = "ld.global.s8 %r6, [bytes];\nld.global.u8 %r7, [bytes+1];\nld.global.s16 %r8, [bytes];\n\
                ld.global.s8 %rd5, [bytes+1];\ncvt.u32.u64 %r9, %rd5;\nld.global.u16 %h1, [bytes+2];\n\
                cvt.u32.u16 %r10, %h1;\nst.global.v4.u32 [%rd1], {%r6, %r7, %r8, %r9};\nst.global.u32 [%rd1+16], %r10;";
    let kernel = load(&module(declarations, body));
    let mut bench = Bench::new(5);
    bench.launch(&kernel, 1, 1).unwrap();
    assert_eq!(bench.result(), [0xffff_ff80, 0xff, 0xffff_ff80, u32::MAX, 0x7f01]);
}
