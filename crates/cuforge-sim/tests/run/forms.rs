//! Forms that the instruction set does not have: unsupported, never taken for others.

use crate::harness::module;
use cuforge_sim::{Program, ptx::Module};

fn unsupported(instruction: &str) -> bool {
    let text = module("", instruction);
    let kernel = Program::load(&Module::parse(&text).unwrap()).unwrap().kernel("k").unwrap();
    kernel.unsupported().count() > 0
}

#[test]
fn a_register_of_another_width_than_the_type_is_never_read_or_written() {
    let wrong = [
        "mov.u32 %r9, %h1;",
        "mov.u16 %h1, %r9;",
        "add.u32 %r9, %r1, %h1;",
        "and.b16 %h1, %h2, %r1;",
        "fma.rn.f16 %h1, %h2, %h3, %r1;",
        "selp.b32 %r9, %h1, %r1, %p1;",
        "mul.lo.u32 %r9, %h1, %h2;",
    ];
    let taken: Vec<_> = wrong.into_iter().filter(|instruction| !unsupported(instruction)).collect();
    assert!(taken.is_empty(), "{taken:#?}");
    let right = [
        "mul.wide.u16 %r9, %h1, %h2;",
        "shl.b16 %h1, %h2, %r1;",
        "mov.b32 %r9, {%h1, %h2};",
        "mov.u64 %rd9, %rd1;",
    ];
    assert!(right.into_iter().all(|instruction| !unsupported(instruction)));
}

#[test]
fn a_modifier_or_type_that_an_instruction_does_not_have_is_never_ignored() {
    let wrong = [
        "cvt.rm.tf32.f32 %r9, %f1;",
        "cvt.rna.f16.f32 %h1, %f1;",
        "cvt.rn.satfinite.f32.f64 %f1, %fd1;",
        "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
        "cvt.pack.sat.u32.s32 %r9, %r1, %r2;",
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2}, {%r5, %r6}, {%f4, %f5, %f6, %f7};",
        "mma.sync.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2}, {%r5}, {%f4, %f5, %f6, %f7};",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];",
        "cp.async.cg.shared.global [%r1], [%rd1], 8;",
        "cp.async.ca.global.shared [%rd1], [%r1], 8;",
        "atom.global.add.v2.u32 {%r1, %r2}, [%rd1], {%r3, %r4};",
        "vabsdiff4.u32.s32.u32 %r1, %r2, %r3, %r4;",
        "vavrg4.u32.u32.u32 %r1, %r2, %r3, %r4;",
        "cvt.rzi.relu.u16.f32 %h1, %f1;",
        "cvt.ftz.u32.u16 %r9, %h1;",
        "min.xorsign.f32 %f1, %f2, %f3;",
        "add.NaN.f32 %f1, %f2, %f3;",
        "div.approx.NaN.f32 %f1, %f2, %f3;",
        "rcp.approx.NaN.f32 %f1, %f2;",
        "copysign.ftz.f32 %f1, %f2, %f3;",
        "copysign.sat.f32 %f1, %f2, %f3;",
        "neg.sat.f16 %h1, %h2;",
        "abs.relu.bf16 %h1, %h2;",
        "neg.ftz.bf16 %h1, %h2;",
        "add.sat.bf16 %h1, %h2, %h3;",
        "fma.rn.sat.relu.f16 %h1, %h2, %h3, %h4;",
        "tanh.approx.relu.f16 %h1, %h2;",
        "div.cc.u32 %r9, %r1, %r2;",
        "min.cc.u32 %r9, %r1, %r2;",
        "add.cc.u16 %h1, %h2, %h3;",
        "setp.lt.ftz.f64 %p1, %fd1, %fd2;",
        "setp.lt.ftz.bf16 %p1, %h1, %h2;",
        "slct.ftz.u32.s32 %r9, %r1, %r2, %r3;",
        "selp.f16x2 %r9, %r1, %r2, %p1;",
        "vote.sync.all.f64 %p1, %p2, -1;",
        "vote.sync.ballot.pred %r9, %p2, -1;",
        "bar.red.popc.f32 %r9, 0, %p1;",
        "bar.red.and.u32 %p2, 0, %p1;",
        "bfe.b16 %h1, %h2, 1, 2;",
        "bfe.f32 %f1, %f2, 1, 2;",
        "lop3.f32 %r9, %r1, %r2, %r3, 5;",
        "prmt.f32 %r9, %r1, %r2, %r3;",
        "popc.f32 %r9, %r1;",
        "shl.f32 %r9, %r1, 2;",
        "shf.l.wrap.f32 %r9, %r1, %r2, %r3;",
        "shfl.sync.up.f32 %r9, %r1, 1, 0, -1;",
        "fence.acquire.release.gpu;",
        "ld.global.L1::banana.u32 %r9, [%rd3];",
        "prefetch.banana [%rd1];",
        "nanosleep.u32.x 5;",
        "trap.foo;",
    ];
    let taken: Vec<_> = wrong.into_iter().filter(|instruction| !unsupported(instruction)).collect();
    assert!(taken.is_empty(), "{taken:#?}");
    let right = [
        "cvt.rna.tf32.f32 %r9, %f1;",
        "cvt.rz.tf32.f32 %r9, %f1;",
        "cvt.rn.relu.tf32.f32 %r9, %f1;",
        "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
        "atom.add.acq_rel.gpu.s32 %r9, [%rd1], 1;",
        "atom.global.acquire.gpu.cas.b32 %r9, [%rd1], 1, 2;",
        "max.s16x2.relu %r9, %r1, %r2;",
        "cp.async.ca.shared.global.L2::128B [%r1], [%rd1], 8, %r2;",
        "cp.async.wait_group 3;",
        "griddepcontrol.wait;",
        "cvt.rn.relu.bf16.f32 %h1, %f1;",
        "min.xorsign.abs.f32 %f1, %f2, %f3;",
        "max.NaN.f16 %h1, %h2, %h3;",
        "fma.rn.relu.bf16 %h1, %h2, %h3, %h4;",
        "prmt.b32.f4e %r9, %r1, %r2, %r3;",
        "madc.hi.cc.u32 %r9, %r1, %r2, %r3;",
        "bar.red.popc.u32 %r9, 0, %p1;",
        "vote.sync.ballot.b32 %r9, %p2, -1;",
        "ld.global.L1::no_allocate.L2::128B.u32 %r9, [%rd3];",
        "prefetch.global.L2::evict_last [%rd1];",
        "fence.acq_rel.gpu;",
        "setp.lt.ftz.f16 %p1, %h1, %h2;",
    ];
    let refused: Vec<_> = right.into_iter().filter(|instruction| unsupported(instruction)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
