//! Planted faults: every kind, in every space it can be in, is found, named and placed.

use std::collections::BTreeSet;

use crate::harness::{Bench, LINES_BEFORE_BODY, module};
use cuforge_sim::{Fault, Missing, Program, UndefinedSource, ptx::Module};

/// What a fault is, in words.
fn kind(fault: &Fault) -> String {
    match fault {
        Fault::OutOfBounds { access, space, .. } => format!("{space} {access} out of bounds"),
        Fault::Misaligned { access, space, .. } => format!("{space} {access} misaligned"),
        Fault::SharedHazard { access, other, .. } => {
            let mut parties = [access.to_string(), other.access.to_string()];
            parties.sort();
            format!("hazard {} {}", parties[0], parties[1])
        }
        Fault::GlobalHazard { access, other, .. } => {
            let mut parties = [access.to_string(), other.access.to_string()];
            parties.sort();
            format!("global hazard {} {}", parties[0], parties[1])
        }
        Fault::GlobalConflict { access, other, .. } => {
            let mut parties = [access.to_string(), other.access.to_string()];
            parties.sort();
            format!("conflict {} {}", parties[0], parties[1])
        }
        Fault::Uninitialised { used_as, origin, .. } => match origin {
            UndefinedSource::Register => format!("register as {used_as}"),
            UndefinedSource::Memory { space, .. } => format!("{space} as {used_as}"),
            _ => String::new(),
        },
        Fault::BarrierDivergence { missing: Missing::Exited { .. }, .. } => "barrier after exit".into(),
        Fault::BarrierDivergence { missing: Missing::Waits { .. }, .. } => "barrier diverged".into(),
        Fault::BarrierDivergence { .. } => "barrier count".into(),
        Fault::WarpDivergence { .. } => "warp".into(),
        Fault::StepBudget { .. } => "budget".into(),
        Fault::Trap { .. } => "trap".into(),
        Fault::AssertionFailed { .. } => "assertion".into(),
        Fault::Unsupported { .. } => "unsupported".into(),
        _ => String::new(),
    }
}

/// The lines, within the body, of the fault and of the other party or the origin, sorted; and the faulting thread.
fn place(fault: &Fault) -> (Vec<u32>, [u32; 3]) {
    let place = fault.place().unwrap();
    let other = match fault {
        Fault::SharedHazard { other, .. }
        | Fault::GlobalHazard { other, .. }
        | Fault::GlobalConflict { other, .. } => Some(other.line),
        Fault::Uninitialised { origin: UndefinedSource::Memory { line, .. }, .. } => Some(*line),
        _ => None,
    };
    let mut lines: Vec<u32> =
        [place.line].into_iter().chain(other).map(|line| line - LINES_BEFORE_BODY).collect();
    lines.sort_unstable();
    (lines, place.thread)
}

/// A fault: what it is, its lines, its thread (of those that are sure), blocks and threads, declarations, body.
type Planted = (&'static str, &'static [u32], Option<u32>, [u32; 2], &'static str, &'static str);

const SHARED: &str = ".shared .align 16 .b8 s[256]; .shared .align 16 .b8 t[256];";

const BOUNDS: &[Planted] = &[
    ("global read out of bounds", &[1], Some(0), [1, 32], "", "ld.global.u32 %r9, [%rd4+128];"),
    ("global read out of bounds", &[1], Some(31), [1, 32], "", "ld.global.u32 %r9, [%rd4+4];"),
    ("global read out of bounds", &[1], Some(0), [1, 32], "", "ld.global.u8 %r9, [%rd2+-1];"),
    (
        "global read out of bounds",
        &[1],
        Some(0),
        [1, 32],
        "",
        "ld.global.nc.v4.u32 {%r9, %r10, %r11, %r12}, [%rd2+128];",
    ),
    (
        "global write out of bounds",
        &[2],
        Some(7),
        [1, 32],
        "",
        "setp.ne.u32 %p1, %r2, 7;\n@!%p1 st.global.u32 [%rd3+4096], %r2;",
    ),
    (
        "global write out of bounds",
        &[1],
        Some(16),
        [1, 32],
        "",
        "add.s64 %rd9, %rd3, %rd3; sub.s64 %rd9, %rd9, %rd1; st.global.v2.u32 [%rd9], {%r2, %r2};",
    ),
    (
        "global write out of bounds",
        &[2],
        Some(0),
        [1, 32],
        "",
        "mov.u64 %rd9, 0;\nst.global.u32 [%rd9], %r2;",
    ),
    ("global atomic out of bounds", &[1], Some(31), [1, 32], "", "atom.global.add.u32 %r9, [%rd4+4], 1;"),
    ("global atomic out of bounds", &[1], Some(0), [1, 32], "", "red.global.max.u64 [%rd2+128], %rd2;"),
    (
        "global read out of bounds",
        &[2],
        Some(0),
        [1, 32],
        "",
        "add.s64 %rd9, %rd4, 8192;\nld.u32 %r9, [%rd9];",
    ),
    (
        "global read out of bounds",
        &[1],
        Some(0),
        [1, 32],
        SHARED,
        "cp.async.cg.shared.global [s], [%rd2+128], 16;",
    ),
    (
        "global read out of bounds",
        &[1],
        None,
        [1, 32],
        "",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd2], 16;",
    ),
    (
        "global write out of bounds",
        &[1],
        None,
        [1, 32],
        "",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%r2, %r2, %r2, %r2, %r2, %r2, %r2, %r2}, 16;",
    ),
    (
        "shared read out of bounds",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.u32 %r11, [%r9+256];",
    ),
    (
        "shared write out of bounds",
        &[2],
        Some(31),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9+132], %r2;",
    ),
    (
        "shared write out of bounds",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, t;\nst.shared.u32 [%r9+-4], %r2;",
    ),
    (
        "shared atomic out of bounds",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\natom.shared.exch.b32 %r11, [%r9+512], 1;",
    ),
    (
        "shared read out of bounds",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [s+256];",
    ),
    (
        "shared read out of bounds",
        &[3],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\ncvt.u64.u32 %rd9, %r9; cvta.shared.u64 %rd9, %rd9;\nld.u32 %r11, [%rd9+4000];",
    ),
    (
        "shared write out of bounds",
        &[1],
        Some(0),
        [1, 32],
        SHARED,
        "cp.async.ca.shared.global [s+256], [%rd2], 4;",
    ),
    (
        "shared read out of bounds",
        &[2],
        Some(16),
        [1, 32],
        SHARED,
        "shl.b32 %r11, %r2, 4; mov.u32 %r9, s; add.u32 %r9, %r9, %r11;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r9];",
    ),
    (
        "shared write out of bounds",
        &[2],
        Some(16),
        [1, 32],
        SHARED,
        "shl.b32 %r11, %r2, 4; mov.u32 %r9, s; add.u32 %r9, %r9, %r11;\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%r9], {%r2, %r2, %r2, %r2};",
    ),
    (
        "local read out of bounds",
        &[4],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nld.local.u32 %r11, [%r9+4096];",
    ),
    (
        "local write out of bounds",
        &[4],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nst.local.u32 [%r9+32], %r2;",
    ),
    (
        "local write out of bounds",
        &[4],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nst.local.v2.u32 [m+-8], {%r2, %r2};",
    ),
    (
        "local read out of bounds",
        &[5],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nmov.u64 %rd9, 33554560;\nld.u32 %r11, [%rd9];",
    ),
    (
        "parameter read out of bounds",
        &[2],
        Some(0),
        [1, 32],
        "",
        "mov.u64 %rd9, 50331672;\nld.u32 %r11, [%rd9];",
    ),
];

const ALIGNMENT: &[Planted] = &[
    ("global read misaligned", &[1], Some(0), [1, 32], "", "ld.global.u32 %r9, [%rd4+2];"),
    ("global write misaligned", &[1], Some(0), [1, 32], "", "st.global.u64 [%rd1+4], %rd1;"),
    ("global read misaligned", &[1], Some(1), [1, 32], "", "ld.global.v2.u32 {%r9, %r10}, [%rd4];"),
    (
        "global write misaligned",
        &[1],
        Some(0),
        [1, 32],
        "",
        "st.global.v4.u32 [%rd1+8], {%r2, %r2, %r2, %r2};",
    ),
    ("global atomic misaligned", &[1], Some(0), [1, 32], "", "red.global.add.u32 [%rd1+1], 1;"),
    ("global atomic misaligned", &[1], Some(0), [1, 32], "", "red.global.add.v2.f32 [%rd2+4], {%r2, %r2};"),
    (
        "shared read misaligned",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.u32 %r11, [%r9+1];",
    ),
    (
        "shared write misaligned",
        &[2],
        Some(1),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.v2.u32 [%r9], {%r2, %r2};",
    ),
    (
        "shared atomic misaligned",
        &[2],
        Some(0),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\natom.shared.add.u64 %rd9, [%r9+4], 1;",
    ),
    (
        "shared write misaligned",
        &[1],
        Some(0),
        [1, 32],
        SHARED,
        "cp.async.cg.shared.global [s+8], [%rd2], 16;",
    ),
    ("global read misaligned", &[1], Some(0), [1, 32], SHARED, "cp.async.ca.shared.global [s], [%rd2+4], 8;"),
    (
        "shared read misaligned",
        &[2],
        Some(1),
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r9];",
    ),
    (
        "global read misaligned",
        &[1],
        None,
        [1, 32],
        "",
        "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd2+16], 16;",
    ),
    (
        "local read misaligned",
        &[4],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nld.local.u32 %r11, [%r9+2];",
    ),
    (
        "local write misaligned",
        &[4],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nst.local.u64 [m+4], %rd1;",
    ),
];

const UNDEFINED: &[Planted] = &[
    ("register as a condition", &[2], Some(0), [1, 32], "", "setp.eq.u32 %p1, %r9, 0;\n@%p1 ret;"),
    ("register as a condition", &[1], Some(0), [1, 32], "", "@%p1 st.global.u32 [%rd3], %r2;"),
    ("register as an address", &[1], Some(0), [1, 32], "", "ld.global.u32 %r9, [%rd9];"),
    ("register as an output", &[1], Some(0), [1, 32], "", "st.global.u32 [%rd3], %r9;"),
    (
        "register as an output",
        &[2],
        Some(0),
        [1, 32],
        "",
        "shfl.sync.idx.b32 %r10, %r9, 0, 31, -1;\nst.global.u32 [%rd3], %r10;",
    ),
    (
        "global as a condition",
        &[1, 3],
        Some(0),
        [1, 32],
        "",
        "ld.global.u32 %r9, [%rd3];\nsetp.lt.u32 %p1, %r9, 5;\n@%p1 ret;",
    ),
    (
        "global as an address",
        &[1, 3],
        Some(0),
        [1, 32],
        "",
        "ld.global.u64 %rd9, [%rd1];\nadd.s64 %rd9, %rd9, %rd2;\nld.global.u32 %r9, [%rd9];",
    ),
    (
        "global as an output",
        &[1, 2],
        Some(0),
        [1, 32],
        "",
        "ld.global.u32 %r9, [%rd3];\nst.global.u32 [%rd4], %r9;",
    ),
    ("global as an output", &[1, 1], Some(0), [1, 32], "", "red.global.add.u32 [%rd3], 1;"),
    (
        "shared as an output",
        &[2, 3],
        Some(0),
        [1, 1],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.u32 %r11, [%r9];\nst.global.u32 [%rd3], %r11;",
    ),
    (
        "shared as a condition",
        &[2, 4],
        Some(0),
        [1, 1],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.u8 %r11, [%r9+3];\nsetp.eq.u32 %p1, %r11, 0;\n@%p1 ret;",
    ),
    (
        "shared as an address",
        &[2, 4],
        Some(0),
        [1, 1],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nld.shared.u64 %rd9, [s+64];\nadd.s64 %rd9, %rd9, 4;\nst.global.u32 [%rd9], %r2;",
    ),
    (
        "shared as an output",
        &[2, 2],
        Some(0),
        [1, 1],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\natom.shared.add.u32 %r11, [%r9], 1;",
    ),
    (
        "shared as an output",
        &[2, 3],
        Some(0),
        [1, 1],
        SHARED,
        "cp.async.ca.shared.global [s], [%rd1], 4; cp.async.wait_all;\nld.shared.u32 %r11, [s];\nst.global.u32 [%rd3], %r11;",
    ),
    (
        "local as an output",
        &[4, 5],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nld.local.u32 %r11, [%r9];\nst.global.u32 [%rd3], %r11;",
    ),
    (
        "local as an address",
        &[5, 6],
        Some(0),
        [1, 32],
        "",
        ".local .align 16 .b8 l[32];\n.local .align 16 .b8 m[32];\nmov.u32 %r9, l;\nst.local.u32 [m], %r2;\nld.local.u64 %rd9, [m];\nld.global.u32 %r11, [%rd9];",
    ),
];

const RACES: &[Planted] = &[
    (
        "hazard read write",
        &[2, 3],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nld.shared.u32 %r11, [%r10];\nst.global.u32 [%rd3], %r11;",
    ),
    (
        "hazard read write",
        &[4, 5],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nbar.sync 0;\nld.shared.u32 %r11, [%r10];\nst.shared.u32 [%r9], 7;",
    ),
    (
        "hazard write write",
        &[2, 2],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [s], %r2;",
    ),
    (
        "hazard write write",
        &[2, 3],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nst.shared.u8 [%r10+1], 7;",
    ),
    (
        "hazard atomic write",
        &[2, 3],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nred.shared.add.u32 [%r10], 1;",
    ),
    (
        "hazard read write",
        &[2, 3],
        None,
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nxor.b32 %r10, %r9, 4; ld.shared.u32 %r11, [%r10];",
    ),
    (
        "hazard read write",
        &[2, 4],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nbar.warp.sync -1;\nld.shared.u32 %r11, [%r10];",
    ),
    (
        "hazard read write",
        &[2, 4],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\ncp.async.ca.shared.global [%r9], [%rd4], 4;\nbar.sync 0;\nld.shared.u32 %r11, [%r10];",
    ),
    (
        "hazard read write",
        &[2, 4],
        None,
        [1, 64],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\ncp.async.ca.shared.global [%r9], [%rd4], 4;\ncp.async.wait_all;\nld.shared.u32 %r11, [%r10];",
    ),
    (
        "hazard read write",
        &[2, 3],
        None,
        [1, 32],
        SHARED,
        "mov.u32 %r9, s; shl.b32 %r10, %r2, 2; add.u32 %r9, %r9, %r10; xor.b32 %r10, %r9, 128;\nst.shared.u32 [%r9], %r2;\nshl.b32 %r11, %r2, 4; and.b32 %r11, %r11, 127; mov.u32 %r12, s; add.u32 %r11, %r11, %r12; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r13}, [%r11];",
    ),
    ("conflict write write", &[1, 1], None, [4, 1], "", "st.global.u32 [%rd1], %r3;"),
    ("global hazard write write", &[1, 1], None, [1, 32], "", "st.global.u32 [%rd1], %r2;"),
    (
        "global hazard write write",
        &[2, 2],
        None,
        [1, 64],
        "",
        "setp.eq.u32 %p1, %r2, 5; setp.eq.or.u32 %p1, %r2, 40, %p1;\n@%p1 st.global.u32 [%rd1], %r2;",
    ),
    (
        "global hazard read write",
        &[1, 2],
        None,
        [2, 64],
        "",
        "st.global.u32 [%rd3], %r2; xor.b32 %r9, %r4, 32; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, %rd1;\nld.global.u32 %r10, [%rd9];",
    ),
    (
        "global hazard read write",
        &[1, 2],
        None,
        [2, 64],
        "",
        "xor.b32 %r9, %r4, 1; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, %rd2; ld.global.u32 %r10, [%rd9];\nst.global.u32 [%rd4], %r10;",
    ),
    (
        "global hazard atomic read",
        &[1, 2],
        None,
        [1, 64],
        "",
        "red.global.add.u32 [%rd2], 1;\nld.global.u32 %r9, [%rd2];",
    ),
    (
        "global hazard atomic write",
        &[1, 2],
        None,
        [1, 64],
        "",
        "setp.ne.u32 %p1, %r2, 33; atom.global.add.u32 %r9, [%rd2], 1;\n@!%p1 st.global.u32 [%rd2], %r2;",
    ),
    // Only a warp barrier where the whole block must meet.
    (
        "global hazard read write",
        &[1, 3],
        None,
        [1, 64],
        "",
        "st.global.u32 [%rd3], %r2; xor.b32 %r9, %r4, 32;\nbar.warp.sync -1; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, %rd1;\nld.u32 %r10, [%rd9];",
    ),
    // A kernel with a fence, which orders nothing that the other warp waits for.
    (
        "global hazard read write",
        &[1, 3],
        None,
        [1, 64],
        "",
        "st.global.u32 [%rd3], %r2; xor.b32 %r9, %r4, 32;\nmembar.gl; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, %rd1;\nld.global.u32 %r10, [%rd9];",
    ),
    (
        "conflict read write",
        &[1, 2],
        None,
        [4, 1],
        "",
        "st.global.u32 [%rd4], 5;\nld.global.u32 %r9, [%rd2];",
    ),
    (
        "conflict read write",
        &[1, 2],
        None,
        [4, 1],
        "",
        "ld.global.u8 %r9, [%rd2+1];\nred.global.add.u32 [%rd2], 1;",
    ),
    (
        "conflict write write",
        &[2, 2],
        None,
        [4, 1],
        "",
        "mov.u32 %r9, 1;\nst.global.v2.u32 [%rd2+8], {%r9, %r9};\nst.global.u32 [%rd4], %r9;",
    ),
    (
        "conflict read write",
        &[1, 4],
        None,
        [4, 1],
        "",
        "st.global.u32 [%rd4], 5;\natom.global.exch.b32 %r9, [%rd1], 1;\nmembar.gl;\nld.global.u32 %r9, [%rd2];",
    ),
];

const MEETINGS: &[Planted] = &[
    (
        "barrier diverged",
        &[5],
        None,
        [1, 32],
        "",
        "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra A;\nbar.sync 0;\nbra END;\nA: bar.sync 0;\nEND:",
    ),
    ("barrier after exit", &[3], None, [1, 64], "", "setp.ge.u32 %p1, %r2, 40;\n@%p1 ret;\nbar.sync 0;"),
    ("barrier count", &[1], Some(0), [1, 64], "", "bar.sync 1, 96;"),
    ("barrier count", &[1], None, [1, 64], "", "barrier.sync 1, 40;"),
    (
        "barrier diverged",
        &[3],
        Some(32),
        [1, 64],
        "",
        "setp.lt.u32 %p1, %r2, 32;\n@%p1 bra A;\nbar.sync 1;\nbra END;\nA: bar.sync 2;\nEND:",
    ),
    (
        "barrier diverged",
        &[5],
        None,
        [1, 32],
        "",
        "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra A;\nbar.red.popc.u32 %r9, 0, %p1;\nbra END;\nA: bar.red.popc.u32 %r9, 0, %p1;\nEND:",
    ),
    ("warp", &[1], Some(8), [1, 32], "", "shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xff;"),
    ("warp", &[1], Some(8), [1, 32], "", "bar.warp.sync 0xff;"),
    (
        "warp",
        &[3],
        None,
        [1, 32],
        "",
        "setp.ge.u32 %p1, %r2, 8;\n@%p1 ret;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r9, %r2;",
    ),
    ("warp", &[2], Some(0), [1, 32], "", "setp.lt.u32 %p2, %r2, 9;\nvote.sync.any.pred %p1, %p2, 0x10000;"),
    ("budget", &[2], None, [1, 32], "", "L:\nbra L;"),
    ("trap", &[2], Some(9), [1, 32], "", "setp.eq.u32 %p1, %r2, 9;\n@%p1 trap;"),
    ("unsupported", &[2], Some(3), [1, 32], "", "setp.eq.u32 %p1, %r2, 3;\n@%p1 wgmma.fence.sync.aligned;"),
];

fn plant(
    (what, lines, thread, [blocks, threads], declarations, body): &Planted,
    seed: u64,
) -> Result<(), String> {
    let text = module(declarations, body);
    let kernel = Program::load(&Module::parse(&text).unwrap()).unwrap().kernel("k").unwrap();
    let mut bench = Bench::new((blocks * threads) as usize);
    bench.options.seed = seed;
    bench.options.step_budget = 10_000;
    let fault = match bench.launch(&kernel, *blocks, *threads) {
        Ok(_) => return Err(format!("{what} with seed {seed} is not found: {body}")),
        Err(fault) => fault,
    };
    let (found_lines, found_thread) = place(&fault);
    let right = kind(&fault) == *what
        && found_lines == *lines
        && thread.is_none_or(|thread| found_thread == [thread, 0, 0])
        && fault.place().unwrap().kernel == "k";
    if right {
        Ok(())
    } else {
        Err(format!("{what} at {lines:?} by {thread:?} with seed {seed} is told as {fault}: {body}"))
    }
}

#[test]
fn every_planted_fault_is_found_and_placed_under_several_seeds() {
    let all = [BOUNDS, ALIGNMENT, UNDEFINED, RACES, MEETINGS].concat();
    assert!(all.len() >= 80, "{} faults", all.len());
    let kinds: BTreeSet<_> = all.iter().map(|(what, ..)| what).collect();
    assert!(kinds.len() >= 30, "{} kinds", kinds.len());
    let wrong: Vec<String> =
        all.iter().flat_map(|planted| (0..4).filter_map(|seed| plant(planted, seed).err())).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 4 * all.len(), wrong.join("\n"));
}
