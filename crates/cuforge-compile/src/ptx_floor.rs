//! The oldest PTX version that a text can honestly claim: how far its `.version` may be lowered for an older driver.
//!
//! Built from lists of what is known to be old. Whatever is on no list keeps the text at its own version: an
//! instruction that is newer than this page is never sent to a driver that does not know it.

use cuforge_core::TargetVariant;

use crate::ptx_header::{PtxHeader, PtxVersion};

/// The oldest `.version` that `ptxas` accepts for a target (measured with `ptxas` 13.5.37 and, for 101, 12.9.86).
pub(crate) fn target_floor(sm: u16, variant: TargetVariant) -> Option<PtxVersion> {
    use TargetVariant::{Architecture, Base, Family};
    let floor = match (sm, variant) {
        (50 | 52 | 53, Base) => (4, 1),
        (60..=62, Base) => (5, 0),
        (70, Base) => (6, 0),
        (72, Base) => (6, 1),
        (75, Base) => (6, 3),
        (80, Base) => (7, 0),
        (86, Base) => (7, 1),
        (87, Base) => (7, 4),
        (89 | 90, Base) => (7, 8),
        (90, Architecture) => (8, 0),
        (100 | 101, Base | Architecture) => (8, 6),
        (120, Base | Architecture) => (8, 7),
        (103 | 121, Base | Architecture | Family) | (100 | 120, Family) => (8, 8),
        (88, Base) | (110, Base | Architecture | Family) => (9, 0),
        (107, Base | Architecture | Family) => (9, 4),
        _ => return None,
    };
    Some(PtxVersion::new(floor.0, floor.1))
}

/// The oldest version for this text, or the first word that is on no list.
pub(crate) fn floor(header: &PtxHeader, text: &str) -> Result<PtxVersion, String> {
    let target = target_floor(header.sm, header.variant).ok_or_else(|| header.target())?;
    let mut floor = target.max(PtxVersion::new(6, 3));
    for word in words(text) {
        let needs = word_floor(word).ok_or_else(|| word.to_owned())?;
        floor = floor.max(needs);
    }
    if parameter_bytes_above(text, 4_000) {
        floor = floor.max(PtxVersion::new(8, 1));
    }
    Ok(floor)
}

/// Words that carry a version: opcodes with their modifiers, directives, special registers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    // String operands name files and sections and say nothing of instructions.
    let lines = lines.filter(|line| !line.contains('"'));
    let separators = |c: char| c.is_whitespace() || ",;(){}[]<>|=+-!@".contains(c);
    lines.flat_map(move |line| line.split(separators)).filter(|word| {
        let first = word.bytes().next();
        first == Some(b'.') || first == Some(b'%') || first.is_some_and(|b| b.is_ascii_lowercase())
    })
}

fn word_floor(word: &str) -> Option<PtxVersion> {
    if let Some(register) = word.strip_prefix('%') {
        let name = register.split('.').next().unwrap_or(register);
        return Some(if NEW_REGISTERS.iter().any(|new| name.starts_with(new)) {
            PtxVersion::new(7, 8)
        } else {
            PtxVersion::new(6, 3)
        });
    }
    // A name of the program: a symbol, a label or a parameter.
    if !word.starts_with('.') && !word.contains('.') && !BARE_OPCODES.contains(&word) {
        return Some(PtxVersion::new(6, 3));
    }
    let mut parts = word.split('.');
    let opcode = parts.next().unwrap_or("");
    let mut floor = PtxVersion::new(6, 3);
    if !opcode.is_empty() {
        floor = floor.max(look_up(OPCODES, opcode)?);
    }
    for part in parts.filter(|part| !part.is_empty()) {
        floor = floor.max(look_up(MODIFIERS, part)?);
    }
    // What needs more than its parts do.
    let has = |part: &str| word.split('.').any(|p| p == part);
    let raised = match opcode {
        "cp" if has("bulk") => (8, 0),
        "mbarrier" if has("try_wait") => (7, 8),
        "barrier" if has("cluster") => (8, 0),
        "atom" | "red" if has("v2") || has("v4") || has("v8") => (8, 1),
        "add" | "sub" | "mul" if has("bf16") || has("bf16x2") => (7, 8),
        _ => (6, 3),
    };
    Some(floor.max(PtxVersion::new(raised.0, raised.1)))
}

/// A list by version: every word of a row needs at least that version.
type List = &'static [((u16, u16), &'static str)];

fn look_up(list: List, word: &str) -> Option<PtxVersion> {
    let row = list.iter().find(|(_, words)| words.split_ascii_whitespace().any(|known| known == word))?;
    Some(PtxVersion::new(row.0.0, row.0.1))
}

const NEW_REGISTERS: &[&str] =
    &["cluster", "is_explicit_cluster", "nclusterid", "reserved_smem", "current_graph_exec", "aggr_smem"];

/// Opcodes that stand without a modifier.
const BARE_OPCODES: &[&str] = &["ret", "exit", "trap", "brkpt"];

const OPCODES: List = &[
    (
        (6, 3),
        "abs activemask add addc and atom bar barrier bfe bfi bfind bra brev brkpt brx call clz cnot copysign cos cvt \
         cvta div dp2a dp4a ex2 exit fence fma fns isspacep ld ldu lg2 lop3 mad mad24 madc match max membar min mov mul \
         mul24 nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red rem ret rsqrt sad selp set setp shf \
         shfl shl shr sin slct sqrt st sub subc testp trap vote wmma xor",
    ),
    ((6, 5), "ldmatrix"),
    ((7, 0), "cp mbarrier redux tanh mma"),
    ((7, 4), "applypriority createpolicy discard"),
    ((7, 6), "bmsk szext"),
    ((7, 8), "getctarank griddepcontrol mapa movmatrix stmatrix"),
    ((8, 0), "elect setmaxnreg wgmma"),
];

const MODIFIERS: List = &[
    (
        (6, 3),
        "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 pred rn rz rm rp rni rzi rmi rpi ftz sat sat \
         approx full lo hi wide cc to global shared local const param v2 v4 x y z w eq ne lt le gt ge ls hs equ neu ltu \
         leu gtu geu num nan sync aligned uni up down bfly idx any all ballot and or xor add min max inc dec exch cas \
         popc volatile relaxed acquire release acq_rel sc cta gpu sys gl nc ca cg cs lu cv wb wt l r wrap clamp red \
         arrive warp mp noftz weak load store mma row col m16n16k16 m32n8k16 m8n32k16 version target address_size \
         visible extern entry func reg align maxntid reqntid minnctapersm maxnreg loc file section pragma noreturn \
         ptr shiftamt b4e rc8 ecl ecr rc16 f4e",
    ),
    ((6, 5), "m8n8 x1 x2 x4 trans m16n8k8"),
    (
        (7, 0),
        "async commit_group wait_group wait_all bf16 bf16x2 tf32 relu NaN init inval test_wait arrive_drop noComplete \
         pending_count m16n8k16 m16n8k4 m16n8k32 m16n8k64 m8n8k16 m8n8k32",
    ),
    (
        (7, 4),
        "L2::64B L2::128B L2::256B L2::cache_hint L2::evict_last L1::evict_last L1::no_allocate fractional",
    ),
    (
        (7, 8),
        "shared::cta shared::cluster cluster explicitcluster reqnctapercluster maxclusterrank wait launch_dependents",
    ),
    (
        (8, 0),
        "bulk tensor expect_tx proxy proxy::async mbarrier::complete_tx::bytes 1d 2d 3d 4d 5d tile im2col bulk_group \
         fence commit_group.sync",
    ),
];

/// Whether some kernel may take more parameter bytes than this; counts generously.
fn parameter_bytes_above(text: &str, limit: u64) -> bool {
    let mut bytes = 0_u64;
    for line in text.lines() {
        if line.contains(".entry") || line.contains(".func") {
            bytes = 0;
        }
        // A declaration, not the state space of a load: `.param .b8 p[64]` against `ld.param.b32`.
        let declarations = line.match_indices(".param").filter(|(at, _)| {
            !line[..*at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '.')
        });
        for (at, word) in declarations {
            let parameter = &line[at + word.len()..];
            let elements = parameter.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let elements: u64 = elements.map_or(1, |(count, _)| count.trim().parse().unwrap_or(u64::MAX));
            let size = if parameter.contains(".b8") { 1 } else { 16 };
            bytes = bytes.saturating_add(elements.saturating_mul(size));
        }
        if bytes > limit {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor_of(target: &str, body: &str) -> Result<String, String> {
        let text = format!(
            "//\n.version 9.5\n.target {target}\n.address_size 64\n.visible .entry k(\n.param .u64 k_param_0\n)\n{{\n{body}\n}}\n"
        );
        floor(&PtxHeader::parse(&text).unwrap(), &text).map(|version| version.to_string())
    }

    #[test]
    fn plain_code_needs_no_more_than_its_target() {
        let body = ".reg .b32 %r<9>;\nmov.u32 %r1, %tid.x;\n@%p1 bra $L__BB0_2;\nfma.rn.f32 %f1, %f2, %f3, %f4;\n\
                    bar.sync 0;\nst.global.v4.f32 [%rd1+16], {%f1, %f1, %f1, %f1};\nret;";
        assert_eq!(floor_of("sm_75", body), Ok("6.3".into()));
        assert_eq!(floor_of("sm_90", body), Ok("7.8".into()));
        assert_eq!(floor_of("sm_90a", body), Ok("8.0".into()));
        assert_eq!(floor_of("sm_100", body), Ok("8.6".into()));
    }

    #[test]
    fn newer_instructions_raise_the_floor() {
        let cases = [
            ("cp.async.ca.shared.global [%r1], [%rd1], 16;", "7.0"),
            ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2, %r3, %r4, %r5};", "7.8"),
            ("mov.u32 %r1, %cluster_ctaid.x;", "7.8"),
            ("cp.async.bulk.wait_group 0;", "8.0"),
            ("atom.global.add.v2.f32 {%f1, %f2}, [%rd1], {%f3, %f4};", "8.1"),
        ];
        for (body, want) in cases {
            assert_eq!(floor_of("sm_75", body), Ok(want.into()), "{body}");
        }
    }

    #[test]
    fn what_is_on_no_list_is_never_lowered() {
        for body in [
            "tcgen05.alloc.b32 [%r1], 32;",
            "ld.global.v8.f32 {%f1}, [%rd1];",
            "add.f32x2 %rd1, %rd2, %rd3;",
            "brand.new.b32 %r1;",
        ] {
            assert!(floor_of("sm_90", body).is_err(), "{body}");
        }
        assert!(floor_of("sm_130", "ret;").is_err());
    }

    #[test]
    fn large_parameter_blocks_need_8_1() {
        let text = ".version 9.0\n.target sm_75\n.entry k(.param .align 8 .b8 p[4400]) { ret; }";
        assert_eq!(floor(&PtxHeader::parse(text).unwrap(), text), Ok(PtxVersion::new(8, 1)));
        assert_eq!(
            floor_of("sm_75", "ld.param.u64 %rd1, [k_param_0];\nld.param.u32 %r1, [k_param_0+4];"),
            Ok("6.3".into())
        );
    }
}
