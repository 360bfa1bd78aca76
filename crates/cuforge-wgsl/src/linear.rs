//! The parts of the prelude that are written anew for each shape: what vectors and matrices do beyond components.

use std::fmt::Write as _;

use crate::need::Need;

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

fn list(count: u8, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..usize::from(count)).map(item).collect::<Vec<_>>().join(separator)
}

/// What a need asks of the namespace `wgsl`.
pub(crate) fn function(need: &Need, text: &mut String) {
    // Writing to a string cannot fail.
    _ = match need {
        Need::Swizzle { from, size, picked } => {
            let names: String =
                picked.iter().take((*size).into()).map(|c| COMPONENTS[usize::from(*c)]).collect();
            let parts = list(*size, ", ", |at| format!("v.{}", COMPONENTS[usize::from(picked[at])]));
            writeln!(
                text,
                "template <class T>\n__device__ constexpr vec{size}<T> {names}(vec{from}<T> v) {{ return vec{size}<T>({parts}); }}"
            )
        }
        Need::Select(size) => {
            let parts = list(*size, ", ", |at| {
                let c = COMPONENTS[at];
                format!("condition.{c} ? accept.{c} : reject.{c}")
            });
            writeln!(
                text,
                "template <class T>\n__device__ vec{size}<T> select(vec{size}<T> reject, vec{size}<T> accept, vec{size}<bool> condition) {{\n    \
                 return vec{size}<T>({parts});\n}}"
            )
        }
        Need::Fold { all, size } => {
            let (name, operator) = if *all { ("all", " && ") } else { ("any", " || ") };
            let parts = list(*size, operator, |at| format!("v.{}", COMPONENTS[at]));
            writeln!(text, "__device__ inline bool {name}(vec{size}<bool> v) {{ return {parts}; }}")
        }
        Need::Dot(size) => {
            let mut sum = "mul(a.x, b.x)".to_owned();
            for component in COMPONENTS.iter().take((*size).into()).skip(1) {
                sum = format!("add({sum}, mul(a.{component}, b.{component}))");
            }
            writeln!(
                text,
                "template <class T>\n__device__ T dot(vec{size}<T> a, vec{size}<T> b) {{ return {sum}; }}"
            )
        }
        Need::Lane(size) => {
            let parts = list(*size, ", ", |at| format!("lane(mask, v.{}, from)", COMPONENTS[at]));
            writeln!(
                text,
                "template <class T>\n__device__ vec{size}<T> lane(u32 mask, vec{size}<T> v, u32 from) {{ return vec{size}<T>({parts}); }}"
            )
        }
        Need::MatrixTo { columns, rows } => {
            let parts = list(*columns, ", ", |at| format!("to<R>(m[{at}])"));
            writeln!(
                text,
                "template <class R, class T>\n__device__ mat{columns}x{rows}<R> to(mat{columns}x{rows}<T> m) {{ return mat{columns}x{rows}<R>({parts}); }}"
            )
        }
        Need::Transpose { columns, rows } => {
            let parts = list(*rows, ", ", |row| {
                let column = list(*columns, ", ", |at| format!("m[{at}].{}", COMPONENTS[row]));
                format!("vec{columns}<T>({column})")
            });
            writeln!(
                text,
                "template <class T>\n__device__ mat{rows}x{columns}<T> transpose(mat{columns}x{rows}<T> m) {{\n    return mat{rows}x{columns}<T>({parts});\n}}"
            )
        }
        Need::Determinant(size) => {
            let sum = determinant((0..usize::from(*size)).collect(), 0);
            writeln!(
                text,
                "template <class T>\n__device__ T determinant(mat{size}x{size}<T> m) {{\n    return {sum};\n}}"
            )
        }
        _ => Ok(()),
    };
}

/// Along the rows from `row` on, over the columns left.
fn determinant(columns: Vec<usize>, row: usize) -> String {
    if let [last] = columns[..] {
        return format!("m[{last}].{}", COMPONENTS[row]);
    }
    let mut sum = String::new();
    for (at, column) in columns.iter().enumerate() {
        let rest: Vec<usize> = columns.iter().copied().filter(|c| c != column).collect();
        let sign = match at {
            0 => "",
            at if at % 2 == 1 => " - ",
            _ => " + ",
        };
        let minor = determinant(rest, row + 1);
        let minor = if columns.len() > 2 { format!("({minor})") } else { minor };
        sum.push_str(&format!("{sign}m[{column}].{} * {minor}", COMPONENTS[row]));
    }
    sum
}

/// What a need asks of the operators.
pub(crate) fn operator(need: &Need, text: &mut String) {
    let scaled = |text: &mut String, ty: String, body: String| {
        _ = writeln!(
            text,
            "template <class T>\n__device__ {ty} operator*({ty} a, T b) {{ return {ty}({body}); }}\n\
             template <class T>\n__device__ {ty} operator*(T a, {ty} b) {{ return b * a; }}"
        );
    };
    _ = match need {
        Need::Scale(size) => {
            scaled(
                text,
                format!("vec{size}<T>"),
                list(*size, ", ", |at| format!("wgsl::mul(a.{}, b)", COMPONENTS[at])),
            );
            Ok(())
        }
        Need::MatrixScale { columns, rows } => {
            scaled(
                text,
                format!("mat{columns}x{rows}<T>"),
                list(*columns, ", ", |at| {
                    format!(
                        "vec{rows}<T>({})",
                        list(*rows, ", ", |row| format!("a[{at}].{} * b", COMPONENTS[row]))
                    )
                }),
            );
            Ok(())
        }
        Need::MatrixSum { columns, rows, operator } => {
            let ty = format!("mat{columns}x{rows}<T>");
            let sign = operator.trim_start_matches("operator");
            let parts = list(*columns, ", ", |at| format!("a[{at}] {sign} b[{at}]"));
            writeln!(
                text,
                "template <class T>\n__device__ {ty} {operator}({ty} a, {ty} b) {{ return {ty}({parts}); }}"
            )
        }
        Need::MatrixVector { columns, rows } => {
            let parts = list(*rows, ", ", |row| {
                list(*columns, " + ", |at| format!("m[{at}].{} * v.{}", COMPONENTS[row], COMPONENTS[at]))
            });
            writeln!(
                text,
                "template <class T>\n__device__ vec{rows}<T> operator*(mat{columns}x{rows}<T> m, vec{columns}<T> v) {{\n    return vec{rows}<T>({parts});\n}}"
            )
        }
        Need::VectorMatrix { columns, rows } => {
            let parts = list(*columns, ", ", |at| {
                list(*rows, " + ", |row| format!("v.{} * m[{at}].{}", COMPONENTS[row], COMPONENTS[row]))
            });
            writeln!(
                text,
                "template <class T>\n__device__ vec{columns}<T> operator*(vec{rows}<T> v, mat{columns}x{rows}<T> m) {{\n    return vec{columns}<T>({parts});\n}}"
            )
        }
        Need::MatrixMatrix { columns, rows, right } => {
            let parts = list(*right, ", ", |at| format!("a * vec{columns}<T>(b[{at}])"));
            writeln!(
                text,
                "template <class T>\n__device__ mat{right}x{rows}<T> operator*(mat{columns}x{rows}<T> a, mat{right}x{columns}<T> b) {{\n    \
                 return mat{right}x{rows}<T>({parts});\n}}"
            )
        }
        _ => Ok(()),
    };
}

/// What a need asks of other needs.
pub(crate) fn needs(need: &Need) -> Vec<Need> {
    match *need {
        Need::Swizzle { from, size, .. } => vec![Need::Vector(from), Need::Vector(size)],
        Need::Scale(size) => vec![Need::Vector(size), Need::Section("mul")],
        Need::Dot(size) | Need::Select(size) | Need::Fold { size, .. } => vec![Need::Vector(size)],
        Need::Lane(size) => vec![Need::Vector(size), Need::Section("lane")],
        Need::MatrixScale { columns, rows } | Need::MatrixTo { columns, rows } => {
            vec![Need::Matrix(columns, rows)]
        }
        Need::MatrixSum { columns, rows, .. } => vec![Need::Matrix(columns, rows)],
        Need::MatrixVector { columns, rows } | Need::VectorMatrix { columns, rows } => {
            vec![Need::Matrix(columns, rows), Need::Vector(columns), Need::Vector(rows)]
        }
        Need::MatrixMatrix { columns, rows, right } => vec![
            Need::Matrix(columns, rows),
            Need::Matrix(right, columns),
            Need::Matrix(right, rows),
            Need::MatrixVector { columns, rows },
        ],
        Need::Transpose { columns, rows } => vec![Need::Matrix(columns, rows), Need::Matrix(rows, columns)],
        Need::Determinant(size) => vec![Need::Matrix(size, size)],
        Need::Joined(size) => (2..=size).map(Need::Vector).collect(),
        _ => Vec::new(),
    }
}
