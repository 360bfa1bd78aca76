//! Prints a program as CUDA C.

use std::fmt::Write as _;

use super::program::{Binary, Ending, Node, Program, Unary, Values};

/// The kernel `fuzz`, one thread an element, as many threads a block as the schedule says.
pub(crate) fn print(program: &Program) -> String {
    let value = match program.values {
        Values::Floats => "float",
        Values::Integers => "unsigned",
    };
    let mut text = "extern \"C\" __global__ void fuzz(".to_owned();
    for input in 0..program.inputs {
        let _ = write!(text, "const {value} *x{input}, ");
    }
    let _ = write!(text, "{value} *y, unsigned n");
    for scalar in 0..program.scalars.len() {
        let _ = write!(text, ", {value} s{scalar}");
    }
    text.push_str(") {\n    const unsigned t = threadIdx.x, i = blockIdx.x * CUFORGE_BLOCK_X + t;\n");
    let _ = writeln!(text, "    {value} v = 0;\n    if (i < n) v = {};", node(&program.root, program.values));
    text.push_str(&ending(program, value));
    text.push_str("}\n");
    text
}

fn ending(program: &Program, value: &str) -> String {
    let combine = |step: &str| match program.values {
        _ if program.ending == Ending::BlockSum => format!("tile[t] = tile[t] + {step}"),
        Values::Floats => format!("tile[t] = fmaxf(tile[t], {step})"),
        Values::Integers => format!("tile[t] = max(tile[t], {step})"),
    };
    match program.ending {
        Ending::Store => "    if (i < n) y[i] = v;\n".to_owned(),
        Ending::BlockSum | Ending::BlockMaximum => format!(
            "    __shared__ {value} tile[CUFORGE_BLOCK_X];\n    tile[t] = v;\n    __syncthreads();\n    \
             for (unsigned half = CUFORGE_BLOCK_X / 2; half > 0; half /= 2) {{\n        \
             if (t < half) {};\n        __syncthreads();\n    }}\n    if (t == 0) y[blockIdx.x] = tile[0];\n",
            combine("tile[t + half]")
        ),
        Ending::Exchange(places) => format!(
            "    __shared__ {value} tile[CUFORGE_BLOCK_X];\n    tile[t] = v;\n    __syncthreads();\n    \
             v = v + tile[(t + {places}u) % CUFORGE_BLOCK_X];\n    if (i < n) y[i] = v;\n"
        ),
        Ending::Butterfly(mask) => {
            format!("    v = v + __shfl_xor_sync(0xffffffffu, v, {mask});\n    if (i < n) y[i] = v;\n")
        }
    }
}

fn node(tree: &Node, values: Values) -> String {
    let sub = |operand: &Node| node(operand, values);
    let floats = values == Values::Floats;
    match tree {
        Node::Input { input, shift: 0 } => format!("x{input}[i]"),
        Node::Input { input, shift } => format!("x{input}[(i + {shift}u) % n]"),
        Node::Scalar(scalar) => format!("s{scalar}"),
        Node::Literal(value) => literal(*value, values),
        Node::Index if floats => "(float)(i % 64u)".to_owned(),
        Node::Index => "(i % 64u)".to_owned(),
        Node::Unary(operation, operand) => {
            let x = sub(operand);
            match operation {
                Unary::Negate => format!("(-{x})"),
                Unary::Magnitude => format!("fabsf({x})"),
                Unary::Root => format!("sqrtf(1.0f + fabsf({x}))"),
                Unary::Power => format!("exp2f(fminf(fmaxf({x}, -8.0f), 8.0f))"),
                Unary::Not => format!("(~{x})"),
                Unary::CountOnes => format!("(unsigned)__popc({x})"),
            }
        }
        Node::Binary(operation, left, right) => {
            let (a, b) = (sub(left), sub(right));
            match operation {
                Binary::Add => format!("({a} + {b})"),
                Binary::Subtract => format!("({a} - {b})"),
                Binary::Multiply => format!("({a} * {b})"),
                Binary::Maximum if floats => format!("fmaxf({a}, {b})"),
                Binary::Minimum if floats => format!("fminf({a}, {b})"),
                Binary::Maximum => format!("max({a}, {b})"),
                Binary::Minimum => format!("min({a}, {b})"),
                Binary::Divide if floats => format!("({a} / (1.0f + fabsf({b})))"),
                Binary::Divide => format!("({a} / ({b} | 1u))"),
                Binary::And => format!("({a} & {b})"),
                Binary::Xor => format!("({a} ^ {b})"),
                Binary::ShiftLeft => format!("({a} << ({b} & 31u))"),
                Binary::ShiftRight => format!("({a} >> ({b} & 31u))"),
            }
        }
        Node::MulAdd { operands, fused } => {
            let [a, b, c] = operands.each_ref().map(sub);
            if *fused && floats { format!("fmaf({a}, {b}, {c})") } else { format!("({a} * {b} + {c})") }
        }
        Node::Select { input, below, either } => {
            let [yes, no] = either.each_ref().map(sub);
            format!("(x{input}[i] < {} ? {yes} : {no})", literal(*below, values))
        }
    }
}

fn literal(value: i32, values: Values) -> String {
    match values {
        Values::Floats => format!("({value}.0f)"),
        Values::Integers => format!("{}u", value as u32),
    }
}
