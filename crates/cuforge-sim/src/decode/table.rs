//! The table of opcodes: which family decodes what.

use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words, is_float};
use crate::decode::{bits, compare, convert, copy, float, gate, integer, matrix, memory, warp};
use crate::form::Op;
use crate::ptx::{Instruction, ScalarType};

/// Decodes any instruction that has nothing to do with the flow of control.
pub(crate) fn decode(names: &mut Names, instruction: &Instruction) -> Decoded<Op> {
    let mut words = Words::new(instruction);
    if !has_type(instruction) || !widths_fit(names, instruction) {
        return Err(Unknown);
    }
    let operands = &instruction.operands[..];
    let line = instruction.span.line;
    match words.opcode {
        "add" | "sub" | "mul" | "mad" | "div" | "min" | "max" | "neg" | "abs" if float_typed(instruction) => {
            float::decode(names, words, operands)
        }
        "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "sad" | "mul24"
        | "mad24" | "addc" | "subc" | "madc" => integer::decode(names, words, operands),
        "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign" => {
            float::decode(names, words, operands)
        }
        "vabsdiff4" | "vadd4" | "vsub4" | "vmin4" | "vmax4" | "vabsdiff2" | "vadd2" | "vsub2" | "vmin2"
        | "vmax2" => integer::video(names, words, operands),
        "dp4a" | "dp2a" => integer::dot(names, words, operands),
        "and" | "or" | "xor" | "not" | "cnot" => bits::logic(names, words, operands),
        "shl" | "shr" | "shf" => bits::shift(names, words, operands),
        "popc" | "clz" | "brev" | "bfind" => bits::count(names, words, operands),
        "bfe" | "bfi" | "lop3" | "prmt" | "szext" | "bmsk" | "fns" => bits::field(names, words, operands),
        "setp" => compare::setp(names, words, operands),
        "set" => compare::set(names, words, operands),
        "selp" | "slct" => compare::select(names, words, operands),
        "testp" => compare::property(names, words, operands),
        "cvt" => convert::cvt(names, words, operands),
        "mov" => convert::mov(names, words, operands),
        "cvta" => convert::cvta(names, words, operands),
        "isspacep" => convert::isspacep(names, words, operands),
        "ld" | "ldu" => memory::load(names, words, operands, line),
        "st" => memory::store(names, words, operands, line),
        "atom" | "red" => memory::atomic(names, words, operands, line),
        "cp" => copy::decode(names, words, operands, line),
        "membar" | "fence" => memory::fence(names, words, operands),
        // Hints, which change nothing that a program can see here.
        "prefetch" | "prefetchu" | "nanosleep" | "pmevent" | "applypriority" => {
            words.skip(|word| matches!(word, "global" | "local" | "L1" | "L2" | "mask" | "u32"));
            words.skip(|word| matches!(word, "L2::evict_last" | "L2::evict_normal"));
            words.end()?;
            Ok(Op::Nop)
        }
        "shfl" => warp::shuffle(names, words, operands),
        "vote" => warp::vote(names, words, operands),
        "match" => warp::match_sync(names, words, operands),
        "redux" => warp::redux(names, words, operands),
        "activemask" => warp::activemask(names, words, operands),
        "elect" => warp::elect(names, words, operands),
        "bar" | "barrier" => warp::barrier(names, words, operands),
        "mma" => matrix::mma(names, words, operands),
        "wmma" => matrix::wmma(names, words, operands, line),
        "ldmatrix" => matrix::load_rows(names, words, operands, line),
        "stmatrix" => matrix::store_rows(names, words, operands, line),
        "movmatrix" => matrix::transpose(names, words, operands),
        "mbarrier" => gate::mbarrier(names, words, operands, line),
        "mapa" | "getctarank" => convert::place_in_cluster(names, words, operands),
        // Grids depend on nothing here that has not ended.
        "griddepcontrol" => {
            words.take_any(&["wait", "launch_dependents"]).ok_or(Unknown)?;
            words.end()?;
            Ok(Op::Nop)
        }
        "brkpt" => {
            words.end()?;
            Ok(Op::Trap)
        }
        "trap" => {
            words.end()?;
            Ok(Op::Trap)
        }
        _ => Err(Unknown),
    }
}

/// Whether the last word is a type that the opcode has, for those opcodes whose functions look at widths alone.
fn has_type(instruction: &Instruction) -> bool {
    use ScalarType::{B16, B32, B64, Bf16x2, F16x2, F32x2, Pred, S16, S32, S64, U16, U32, U64};
    let ty = instruction.mnemonic.modifiers().last().and_then(ScalarType::from_name);
    match instruction.opcode() {
        "shl" => matches!(ty, Some(B16 | B32 | B64)),
        "shr" => matches!(ty, Some(B16 | B32 | B64 | U16 | U32 | U64 | S16 | S32 | S64)),
        "popc" | "clz" | "brev" | "bfi" | "match" => matches!(ty, Some(B32 | B64)),
        "bfind" | "bfe" => matches!(ty, Some(U32 | U64 | S32 | S64)),
        "shf" | "lop3" | "bmsk" | "fns" | "shfl" | "activemask" => ty == Some(B32),
        // Its mode comes after its type.
        "prmt" => instruction.mnemonic.modifiers().next() == Some("b32"),
        "szext" => matches!(ty, Some(U32 | S32)),
        "vote" => matches!(ty, Some(B32 | Pred)),
        "selp" | "slct" => !matches!(ty, None | Some(Pred | F16x2 | Bf16x2 | F32x2)),
        _ => true,
    }
}

/// Whether registers are as wide as the type, for opcodes all operands of which have that type or are predicates: the
/// upper bits of a register of 16 bits mean nothing.
fn widths_fit(names: &mut Names, instruction: &Instruction) -> bool {
    let uniform = matches!(
        instruction.opcode(),
        "mov"
            | "add"
            | "sub"
            | "mul"
            | "mad"
            | "fma"
            | "div"
            | "rem"
            | "min"
            | "max"
            | "neg"
            | "abs"
            | "sad"
            | "and"
            | "or"
            | "xor"
            | "not"
            | "cnot"
            | "selp"
    );
    let ty = instruction.mnemonic.modifiers().last().and_then(ScalarType::from_name);
    let (true, Some(ty)) = (uniform && !instruction.mnemonic.modifiers().any(|word| word == "wide"), ty)
    else {
        return true;
    };
    let fits = |operand| names.width(operand).is_none_or(|width| width == ty.size_bytes());
    ty == ScalarType::Pred || instruction.operands.iter().all(fits)
}

fn float_typed(instruction: &Instruction) -> bool {
    instruction.mnemonic.modifiers().last().and_then(ScalarType::from_name).is_some_and(is_float)
}
