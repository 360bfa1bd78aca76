//! The part of the emitted text that is the same for all kernels, of which each gets what it uses.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::half;
use crate::linear;
pub(crate) use crate::need::Need;

/// What a text has asked for so far.
#[derive(Debug, Default)]
pub(crate) struct Prelude {
    needs: BTreeSet<Need>,
    missing: Option<&'static str>,
}

/// The shipped sections of functions of scalars, in the order in which they are written.
const EARLY: &[&str] = &[
    include_str!("prelude/integer.cuh"),
    include_str!("prelude/memory.cuh"),
    include_str!("prelude/float.cuh"),
    include_str!("prelude/bits.cuh"),
    include_str!("prelude/pack.cuh"),
    include_str!("prelude/atomic.cuh"),
    include_str!("prelude/subgroup.cuh"),
];

/// Those that are made of functions of vectors, which come before them.
const LATE: &[&str] = &[include_str!("prelude/late.cuh"), include_str!("prelude/warp.cuh")];

const HEAD: &str = "\
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef short i16;
typedef unsigned short u16;
typedef float f32;
typedef double f64;
";

impl Prelude {
    /// Asks for a piece and for what it is made of.
    pub(crate) fn need(&mut self, need: Need) {
        if self.needs.contains(&need) {
            return;
        }
        match &need {
            Need::AlignedVec3 => self.need(Need::Vector(3)),
            Need::Matrix(_, 3) => self.need(Need::AlignedVec3),
            Need::Matrix(_, rows) => self.need(Need::Vector(*rows)),
            Need::Lift(lift) => {
                self.need(Need::Vector(lift.size));
                self.section(lift.scalar);
            }
            Need::Section(name) => match sections().iter().flatten().find(|section| section.name == *name) {
                Some(section) => section.uses.split_whitespace().for_each(|used| self.section(used)),
                None => self.missing = Some(name),
            },
            Need::HalfOf(name) => {
                self.need(Need::Half);
                self.section(name);
            }
            other => linear::needs(other).into_iter().for_each(|need| self.need(need)),
        }
        self.needs.insert(need);
    }

    /// Asks for a section.
    pub(crate) fn section(&mut self, name: &'static str) {
        self.need(Need::Section(name));
    }

    /// A function that was asked for and that there is not.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// The text.
    pub(crate) fn write(&self) -> String {
        let mut text = String::new();
        if self.needs.contains(&Need::Half) {
            text.push_str("#include <cuda_fp16.h>\n\n");
        }
        text.push_str(HEAD);
        if self.needs.contains(&Need::Half) {
            text.push_str("typedef __half f16;\n");
        }
        for need in &self.needs {
            match need {
                Need::Vector(size) => vector(&mut text, *size, self.needs.contains(&Need::Joined(*size))),
                Need::AlignedVec3 => text.push_str(ALIGNED_VEC3),
                Need::Array => text.push_str(ARRAY),
                Need::Matrix(columns, rows) => matrix(&mut text, *columns, *rows),
                _ => {}
            }
        }
        let (mut functions, mut operators) = (String::new(), String::new());
        self.write_sections(&sections()[0], &mut functions);
        for need in &self.needs {
            if let Need::HalfOf(name) = need {
                half::overload(name, &mut functions);
            }
        }
        for need in &self.needs {
            match need {
                Need::Lift(lift) if lift.name.starts_with("operator") => lift.write("wgsl::", &mut operators),
                Need::Lift(lift) => lift.write("", &mut functions),
                need => {
                    linear::function(need, &mut functions);
                    linear::operator(need, &mut operators);
                }
            }
        }
        self.write_sections(&sections()[1], &mut functions);
        if !functions.is_empty() {
            _ = write!(text, "\nnamespace wgsl {{\n{functions}}}\n");
        }
        if !operators.is_empty() {
            _ = write!(text, "\n{operators}");
        }
        text
    }
}

impl Prelude {
    fn write_sections(&self, sections: &[Section], written: &mut String) {
        for section in sections.iter().filter(|s| self.needs.contains(&Need::Section(s.name))) {
            let text = section.text.trim_end();
            if !text.is_empty() {
                written.push_str(text);
                written.push('\n');
            }
        }
    }
}

/// A section of a shipped text: `//@ name: sections that it uses`, then what it says.
#[derive(Debug)]
struct Section {
    name: &'static str,
    uses: &'static str,
    text: &'static str,
}

/// The sections of both lists, read once.
fn sections() -> &'static [Vec<Section>; 2] {
    static READ: OnceLock<[Vec<Section>; 2]> = OnceLock::new();
    READ.get_or_init(|| [EARLY, LATE].map(read))
}

fn read(texts: &[&'static str]) -> Vec<Section> {
    let sections = texts.iter().flat_map(|text| text.split("//@ ").skip(1));
    let read = sections.map(|section| {
        let (head, text) = section.split_once('\n').unwrap_or((section, ""));
        let (name, uses) = head.split_once(':').unwrap_or((head, ""));
        Section { name: name.trim(), uses, text }
    });
    read.collect()
}

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

fn vector(text: &mut String, size: u8, joined: bool) {
    let names = &COMPONENTS[..size.into()];
    let list = |item: &dyn Fn(&str) -> String| names.iter().map(|n| item(n)).collect::<Vec<_>>().join(", ");
    let align = if size == 3 { String::new() } else { format!(" alignas({size} * sizeof(T))") };
    let last = size - 1;
    let select = match size {
        2 => "i == 0 ? x : y",
        3 => "i == 0 ? x : i == 1 ? y : z",
        _ => "i == 0 ? x : i == 1 ? y : i == 2 ? z : w",
    };
    _ = write!(
        text,
        "
template <class T>
struct{align} vec{size} {{
    T {};
    vec{size}() = default;
    __device__ constexpr vec{size}({}) : {} {{}}
    __device__ constexpr explicit vec{size}(T all) : {} {{}}
{}    // i is at most {last}.
    __device__ T& operator[](u32 i) {{ return (&x)[i]; }}
    __device__ constexpr T operator[](u32 i) const {{ return {select}; }}
}};
",
        names.join(", "),
        list(&|n| format!("T {n}")),
        list(&|n| format!("{n}({n})")),
        list(&|n| format!("{n}(all)")),
        if joined { JOINED[usize::from(size == 4)] } else { "" },
    );
}

/// Constructors of three and of four components from vectors and scalars.
const JOINED: [&str; 2] = [
    "    \
    __device__ constexpr vec3(vec2<T> a, T b) : x(a.x), y(a.y), z(b) {}
    __device__ constexpr vec3(T a, vec2<T> b) : x(a), y(b.x), z(b.y) {}
",
    "    \
    __device__ constexpr vec4(vec2<T> a, T b, T c) : x(a.x), y(a.y), z(b), w(c) {}
    __device__ constexpr vec4(T a, vec2<T> b, T c) : x(a), y(b.x), z(b.y), w(c) {}
    __device__ constexpr vec4(T a, T b, vec2<T> c) : x(a), y(b), z(c.x), w(c.y) {}
    __device__ constexpr vec4(vec2<T> a, vec2<T> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
    __device__ constexpr vec4(vec3<T> a, T b) : x(a.x), y(a.y), z(a.z), w(b) {}
    __device__ constexpr vec4(T a, vec3<T> b) : x(a), y(b.x), z(b.y), w(b.z) {}
",
];

const ALIGNED_VEC3: &str = "
// An element of an array, or a column of a matrix: three components in the room of four.
template <class T>
struct alignas(4 * sizeof(T)) aligned_vec3 : vec3<T> {
    aligned_vec3() = default;
    __device__ constexpr aligned_vec3(vec3<T> v) : vec3<T>(v) {}
};
";

const ARRAY: &str = "
template <class T, u32 N>
struct array {
    T elements[N];
    __device__ T& operator[](u32 i) { return elements[i]; }
    __device__ constexpr const T& operator[](u32 i) const { return elements[i]; }
};
";

fn matrix(text: &mut String, columns: u8, rows: u8) {
    let column = if rows == 3 { "aligned_vec3<T>".to_owned() } else { format!("vec{rows}<T>") };
    let list = |item: &dyn Fn(u8) -> String| (0..columns).map(item).collect::<Vec<_>>().join(", ");
    _ = write!(
        text,
        "
template <class T>
struct mat{columns}x{rows} {{
    {column} columns[{columns}];
    mat{columns}x{rows}() = default;
    __device__ constexpr mat{columns}x{rows}({}) : columns{{{}}} {{}}
    __device__ {column}& operator[](u32 i) {{ return columns[i]; }}
    __device__ constexpr const {column}& operator[](u32 i) const {{ return columns[i]; }}
}};
",
        list(&|c| format!("vec{rows}<T> c{c}")),
        list(&|c| format!("c{c}")),
    );
}
