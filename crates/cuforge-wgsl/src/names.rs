//! Names: those of the WGSL text kept, unless C++, CUDA or the prelude has taken them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Names that are taken in one scope of the emitted text, those of the scope around it included.
#[derive(Debug, Default)]
pub(crate) struct Names {
    outer: Option<Rc<Names>>,
    taken: HashSet<String>,
    /// The suffix that each name was last given.
    suffixes: HashMap<String, u32>,
}

impl Names {
    /// An empty scope within another.
    pub(crate) fn within(outer: &Rc<Self>) -> Self {
        Self { outer: Some(Rc::clone(outer)), ..Self::default() }
    }

    /// A name as close to `wanted` as possible that nothing else in this scope has.
    pub(crate) fn take(&mut self, wanted: &str) -> String {
        let base = identifier(wanted);
        let mut name = base.clone();
        let mut suffix = self.suffixes.get(&base).copied().unwrap_or(0);
        if suffix > 0 || self.is_taken(&name) {
            loop {
                suffix += 1;
                name = if suffix == 1 { format!("{base}_") } else { format!("{base}_{suffix}") };
                if !self.is_taken(&name) {
                    break;
                }
            }
            self.suffixes.insert(base, suffix);
        }
        self.taken.insert(name.clone());
        name
    }

    fn is_taken(&self, name: &str) -> bool {
        is_reserved(name)
            || self.taken.contains(name)
            || self.outer.as_ref().is_some_and(|outer| outer.is_taken(name))
    }
}

/// `wanted` with what C++ takes in a name; other characters become their number.
fn identifier(wanted: &str) -> String {
    let mut name = String::with_capacity(wanted.len());
    for character in wanted.trim_start_matches('_').chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(character),
            // The one separator that names of predeclared types have.
            '<' | '>' | ',' | ' ' => name.push('_'),
            other => name.push_str(&format!("u{:x}_", u32::from(other))),
        }
    }
    // Two underscores in a row are C++'s own, anywhere in a name.
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        name.insert(0, 'n');
    }
    name
}

fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok() || is_cuda_vector(name) || is_prelude_type(name)
}

/// `float4`, `make_uint2`, `longlong2`: types of CUDA and their constructors.
fn is_cuda_vector(name: &str) -> bool {
    let base = name.strip_prefix("make_").unwrap_or(name);
    let Some(base) = base.strip_suffix(['1', '2', '3', '4']) else { return false };
    let scalar = base.strip_prefix('u').unwrap_or(base);
    matches!(scalar, "char" | "short" | "int" | "long" | "longlong" | "float" | "double")
}

/// `vec3`, `mat4x2` and the scalars.
fn is_prelude_type(name: &str) -> bool {
    let shape = |text: &str| text.len() == 1 && matches!(text, "2" | "3" | "4");
    name.strip_prefix("vec").is_some_and(shape)
        || name.strip_prefix("mat").and_then(|s| s.split_once('x')).is_some_and(|(c, r)| shape(c) && shape(r))
}

/// Keywords of C++, names that CUDA's headers declare without being asked, and names of the prelude. Sorted.
const RESERVED: &[&str] = &[
    "EOF",
    "INFINITY",
    "NAN",
    "NULL",
    "abort",
    "abs",
    "acos",
    "acosf",
    "acosh",
    "acoshf",
    "alignas",
    "aligned_vec3",
    "alignof",
    "and",
    "and_eq",
    "array",
    "asin",
    "asinf",
    "asinh",
    "asinhf",
    "asm",
    "assert",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "atanh",
    "atanhf",
    "atomicAdd",
    "atomicAnd",
    "atomicCAS",
    "atomicExch",
    "atomicMax",
    "atomicMin",
    "atomicOr",
    "atomicSub",
    "atomicXor",
    "auto",
    "bitand",
    "bitor",
    "blockDim",
    "blockIdx",
    "bool",
    "break",
    "case",
    "catch",
    "cbrt",
    "ceil",
    "ceilf",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "clock",
    "clock64",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "copysign",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "decltype",
    "default",
    "delete",
    "dim3",
    "div",
    "div_t",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "erf",
    "erfc",
    "exit",
    "exp",
    "exp10",
    "exp2",
    "exp2f",
    "expf",
    "explicit",
    "expm1",
    "export",
    "extern",
    "f16",
    "f32",
    "f64",
    "fabs",
    "fabsf",
    "false",
    "fdim",
    "float",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmax",
    "fmaxf",
    "fmin",
    "fminf",
    "fmod",
    "fmodf",
    "for",
    "free",
    "frexp",
    "friend",
    "goto",
    "gridDim",
    "half",
    "half2",
    "hypot",
    "i16",
    "i32",
    "i64",
    "if",
    "ilogb",
    "inline",
    "int",
    "isfinite",
    "isinf",
    "isnan",
    "isnormal",
    "j0",
    "j1",
    "jn",
    "labs",
    "ldexp",
    "ldiv",
    "lgamma",
    "llabs",
    "llrint",
    "llround",
    "log",
    "log10",
    "log1p",
    "log2",
    "log2f",
    "logb",
    "logf",
    "long",
    "lrint",
    "lround",
    "main",
    "malloc",
    "max",
    "memcpy",
    "memset",
    "min",
    "modf",
    "mutable",
    "namespace",
    "nan",
    "nanosleep",
    "nearbyint",
    "new",
    "nextafter",
    "noexcept",
    "norm",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "pow",
    "powf",
    "printf",
    "private",
    "protected",
    "ptrdiff_t",
    "public",
    "rcbrt",
    "register",
    "reinterpret_cast",
    "remainder",
    "remquo",
    "requires",
    "return",
    "rint",
    "rnorm",
    "round",
    "roundf",
    "rsqrt",
    "rsqrtf",
    "scalbn",
    "short",
    "signbit",
    "signed",
    "sin",
    "sincos",
    "sinf",
    "sinh",
    "sinhf",
    "size_t",
    "sizeof",
    "sqrt",
    "sqrtf",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "template",
    "tgamma",
    "this",
    "threadIdx",
    "thread_local",
    "throw",
    "trap",
    "true",
    "trunc",
    "truncf",
    "try",
    "typedef",
    "typeid",
    "typename",
    "u16",
    "u32",
    "u64",
    "union",
    "unsigned",
    "using",
    "va_list",
    "virtual",
    "void",
    "volatile",
    "warpSize",
    "wchar_t",
    "wgsl",
    "while",
    "xor",
    "xor_eq",
    "y0",
    "y1",
    "yn",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_sorted_so_that_all_of_them_are_found() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn names_are_kept_unless_they_are_taken() {
        let mut names = Names::default();
        let mut take = |wanted: &str| names.take(wanted);
        assert_eq!(take("particles"), "particles");
        assert_eq!(take("x1"), "x1");
        assert_eq!(take("x1"), "x1_");
        assert_eq!(take("x1"), "x1_2");
        assert_eq!(take("int"), "int_");
        assert_eq!(take("float4"), "float4_");
        assert_eq!(take("vec3"), "vec3_");
        assert_eq!(take("vec3f"), "vec3f");
        assert_eq!(take("größe"), "gruf6_udf_e");
        assert_eq!(take("a__b"), "a_b");
        assert_eq!(take("__modf_result_f32"), "modf_result_f32");
    }
}
