//! The table of opcodes: which family decodes what.

use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words, is_float};
use crate::decode::{bits, compare, convert, float, integer, memory, warp};
use crate::form::Op;
use crate::ptx::{Instruction, ScalarType};

/// Decodes any instruction that has nothing to do with the flow of control.
pub(crate) fn decode(names: &mut Names, instruction: &Instruction) -> Decoded<Op> {
    let words = Words::new(instruction);
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
        "dp4a" | "dp2a" => integer::dot(names, words, operands),
        "and" | "or" | "xor" | "not" | "cnot" => bits::logic(names, words, operands),
        "shl" | "shr" | "shf" => bits::shift(names, words, operands),
        "popc" | "clz" | "brev" | "bfind" => bits::count(names, words, operands),
        "bfe" | "bfi" | "lop3" | "prmt" | "szext" | "bmsk" => bits::field(names, words, operands),
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
        "membar" | "fence" => memory::fence(names, words, operands),
        // Hints, which change nothing that a program can see here.
        "prefetch" | "prefetchu" | "nanosleep" | "pmevent" | "applypriority" => Ok(Op::Nop),
        "shfl" => warp::shuffle(names, words, operands),
        "vote" => warp::vote(names, words, operands),
        "match" => warp::match_sync(names, words, operands),
        "redux" => warp::redux(names, words, operands),
        "activemask" => warp::activemask(names, words, operands),
        "elect" => warp::elect(names, words, operands),
        "bar" | "barrier" => warp::barrier(names, words, operands),
        "trap" => Ok(Op::Trap),
        _ => Err(Unknown),
    }
}

fn float_typed(instruction: &Instruction) -> bool {
    instruction.mnemonic.modifiers().last().and_then(ScalarType::from_name).is_some_and(is_float)
}
