//! Functions of scalars made into functions of vectors: the same, component by component.

use std::fmt::Write as _;

/// What a lifted function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Returns {
    /// A vector of its first argument's component.
    Same,
    /// A vector of truth values.
    Bool,
    /// A vector of `i32`.
    Int,
    /// A vector of the template argument that the scalar function is given: `to<u32>(x)`.
    Named,
}

/// A function or an operator on vectors of one size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lift {
    /// What it is called on vectors.
    pub(crate) name: &'static str,
    /// The function of scalars, which is a section of the prelude too.
    pub(crate) scalar: &'static str,
    /// Arguments.
    pub(crate) arity: u8,
    /// Components.
    pub(crate) size: u8,
    /// What it returns.
    pub(crate) returns: Returns,
}

impl Lift {
    pub(crate) fn write(&self, namespace: &str, text: &mut String) {
        let Self { name, scalar, arity, size, returns } = self;
        let arguments: Vec<char> = ('a'..='d').take((*arity).into()).collect();
        // Where arguments are of one type, saying so makes this the better match than the template for scalars.
        let mixed = matches!(*scalar, "shl" | "shr" | "ldexp" | "extract_bits" | "insert_bits");
        let types: Vec<String> =
            (0..*arity).map(|at| if at == 0 || !mixed { "T".to_owned() } else { format!("T{at}") }).collect();
        let distinct = if mixed { types.as_slice() } else { &types[..1] };
        let classes = distinct.iter().map(|t| format!("class {t}")).collect::<Vec<_>>().join(", ");
        let parameters = types.iter().zip(&arguments).map(|(t, a)| format!("vec{size}<{t}> {a}"));
        let (classes, result, call) = match returns {
            Returns::Same => (classes, "T", format!("{namespace}{scalar}")),
            Returns::Bool => (classes, "bool", format!("{namespace}{scalar}")),
            Returns::Int => (classes, "i32", format!("{namespace}{scalar}")),
            Returns::Named => (format!("class R, {classes}"), "R", format!("{namespace}{scalar}<R>")),
        };
        let components = ["x", "y", "z", "w"].iter().take((*size).into()).map(|component| {
            let each = arguments.iter().map(|a| format!("{a}.{component}")).collect::<Vec<_>>().join(", ");
            format!("{call}({each})")
        });
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "template <{classes}>\n__device__ vec{size}<{result}> {name}({}) {{\n    return vec{size}<{result}>({});\n}}",
            parameters.collect::<Vec<_>>().join(", "),
            components.collect::<Vec<_>>().join(", "),
        );
    }
}
