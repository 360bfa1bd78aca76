//! Scalar functions for `f16`: computed in `f32` and rounded once, unless there is a better way.

use std::fmt::Write as _;

/// Arguments that a function takes, for those that compute on numbers alone.
fn arity(name: &str) -> usize {
    match name {
        "min" | "max" | "atan2" | "pow" | "step" => 2,
        "clamp" | "fma" | "mix" | "smoothstep" => 3,
        _ => 1,
    }
}

/// Writes the overload of the function `name` for `f16`, if the template of it does not do.
pub(crate) fn overload(name: &str, text: &mut String) {
    // Writing to a string cannot fail.
    _ = match name {
        // These are templates of operators that `f16` has.
        "add" | "mul" | "bit_and" | "bit_or" | "bit_xor" => Ok(()),
        "fma" => {
            writeln!(text, "__device__ inline f16 fma(f16 a, f16 b, f16 c) {{ return __hfma(a, b, c); }}")
        }
        "ldexp" => {
            writeln!(text, "__device__ inline f16 ldexp(f16 x, i32 e) {{ return f16(ldexp(f32(x), e)); }}")
        }
        "frexp_exp" => {
            writeln!(text, "__device__ inline i32 frexp_exp(f16 x) {{ return frexp_exp(f32(x)); }}")
        }
        name => {
            let names: Vec<&str> = ["a", "b", "c"].into_iter().take(arity(name)).collect();
            let parameters = names.iter().map(|n| format!("f16 {n}")).collect::<Vec<_>>().join(", ");
            let arguments = names.iter().map(|n| format!("f32({n})")).collect::<Vec<_>>().join(", ");
            writeln!(
                text,
                "__device__ inline f16 {name}({parameters}) {{ return f16({name}({arguments})); }}"
            )
        }
    };
}
