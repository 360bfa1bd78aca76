//! Malformed PTX: each kind of fault is reported on its own line with a reason that names it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use cuforge_sim::ptx::{Module, Reason};

/// Name, text behind the two header lines (so its first line is line 3), line of the fault, part of the message.
const MALFORMED: &[(&str, &str, u32, &str)] = &[
    (
        "a semicolon is missing at the end of a line",
        ".entry k() {\n  add.s32 %r1, %r2, %r3\n  ret;\n}",
        4,
        "expected `,` or `;` behind an operand, found `ret`",
    ),
    ("a comma is missing", ".entry k() {\n  add.s32 %r1 %r2, %r3;\n}", 4, "found `%r2`"),
    ("an operand is missing", ".entry k() {\n  add.s32 %r1, , %r3;\n}", 4, "expected an operand, found `,`"),
    ("a body is never closed", ".entry k()\n{\n  ret;\n", 4, "this `{` is never closed"),
    ("an inner scope is never closed", ".entry k() {\n  {\n  ret;\n}\n", 3, "this `{` is never closed"),
    ("a bracket is never closed", ".entry k() {\n  ld.u32 %r1, [%rd1+4;\n}", 4, "expected `]` of an address"),
    ("a vector is never closed", ".entry k() {\n  mov.b64 %rd1, {%r1, %r2;\n}", 4, "`}` of a vector"),
    (
        "an address has a register for an offset",
        ".entry k() {\n ld.u32 %r1, [%rd1+%r2];\n}",
        4,
        "a constant offset",
    ),
    ("a type does not exist", ".entry k() {\n  .reg .b33 %r<4>;\n}", 4, "`.b33` is no type"),
    ("a declaration has no type", ".entry k() {\n  .reg %r<4>;\n}", 4, "expected a register's type"),
    ("a declaration has two types", ".entry k() {\n  .reg .b32 .b64 %r;\n}", 4, "the type is already given"),
    ("a range has no count", ".entry k() {\n  .reg .b32 %r<>;\n}", 4, "the count of a range"),
    (
        "a directive does not exist in a body",
        ".entry k() {\n  .regs .b32 %r;\n}",
        4,
        "`.regs` is no directive in a body",
    ),
    (
        "a directive does not exist at module level",
        "\n.entri k() { ret; }",
        4,
        "`.entri` is no directive at module",
    ),
    ("a register stands at module level", "\n.reg .b32 %r;", 4, "`.reg` is no directive at module level"),
    (
        "a hexadecimal number has a wrong digit",
        ".entry k() {\n  mov.u32 %r1, 0x12G4;\n}",
        4,
        "`0x12G4` is no number",
    ),
    ("an octal number has a wrong digit", ".entry k() {\n  mov.u32 %r1, 089;\n}", 4, "octal"),
    ("a float has too few bits", ".entry k() {\n  mov.f32 %f1, 0f3F80;\n}", 4, "eight hexadecimal digits"),
    ("a double has too many bits", ".entry k() {\n  mov.f64 %d, 0d3FF00000000000000;\n}", 4, "sixteen"),
    (
        "a number is too large",
        ".entry k() {\n mov.u64 %r1, 18446744073709551616;\n}",
        4,
        "does not fit 64 bits",
    ),
    ("a constant divides by zero", ".entry k() {\n mov.u32 %r1, 4/0;\n}", 4, "it divides by zero"),
    ("an alignment is no power of two", "\n.shared .align 12 .b8 s[4];", 4, "an alignment cannot be 12"),
    ("a dimension is negative", "\n.shared .b8 s[-4];", 4, "an array dimension cannot be -4"),
    ("a dimension is a float", "\n.shared .b8 s[1.5];", 4, "an integer is needed here"),
    (
        "attributes without end",
        "\n.global .attribute(.a,.b,.c,.d,.e,.f,.g,.h,.i) .u32 x;",
        4,
        "the number of attributes cannot be 9: at most 8",
    ),
    ("a string is never closed", "\n.pragma \"nounroll;\n", 4, "this string is never closed"),
    ("a block comment is never closed", "\n/* a note\n\n", 4, "this block comment is never closed"),
    (
        "a character is none of ptx's",
        ".entry k() {\n  mov.u32 %r1, \u{20ac};\n}",
        4,
        "'\u{20ac}' begins no token",
    ),
    ("a byte is zero", ".entry k() {\n  \0ret;\n}", 4, "'\\0' begins no token"),
    ("a preprocessor line", "\n#include \"x.ptx\"\n", 4, "preprocessor lines are not understood"),
    (
        "a guard has no register",
        ".entry k() {\n  @ , bra L;\n}",
        4,
        "expected a predicate register, found `,`",
    ),
    ("a guard has no instruction", ".entry k() {\n  @%p1 ;\n}", 4, "an instruction behind a guard"),
    (
        "an instruction begins with a register",
        ".entry k() {\n  %r1 = 5;\n}",
        4,
        "expected an instruction, found `%r1`",
    ),
    ("a kernel has no name", "\n.visible .entry (.param .u32 a) { ret; }", 4, "a function's name, found `(`"),
    ("a parameter has no space", ".entry k(\n  .u32 a\n) { ret; }", 4, "a parameter's space"),
    ("a parameter has no name", ".entry k(\n  .param .u32\n) { ret; }", 5, "a parameter's name"),
    (
        "parameters are not separated",
        ".entry k(\n  .param .u32 a .param .u32 b) { ret; }",
        4,
        "`,` or `)` behind a",
    ),
    (
        "a function has no body",
        ".entry k()\n.func g() { ret; }",
        4,
        "expected `{` of a body or `;` of a declaration",
    ),
    ("an initialiser has no value", "\n.global .u32 a = ;", 4, "an initial value"),
    ("an initialiser is never closed", "\n.global .u32 a[2] = {1, 2;", 4, "`,` or `}` of an initialiser"),
    ("a table has no label", ".entry k() {\n .branchtargets A, B;\n}", 4, "a label before this directive"),
    ("a place has no column", ".entry k() {\n .loc 1 5\n ret;\n}", 5, "a column's number"),
    ("a brace too many", ".entry k() { ret; }\n}", 4, "a directive, a function or a variable"),
    (
        "an instruction stands outside a body",
        "\nadd.s32 %r1, %r2, %r3;",
        4,
        "a directive, a function or a variable",
    ),
];

#[test]
fn each_fault_is_named_on_its_line() {
    for (name, body, line, message) in MALFORMED {
        let text = format!(".version 8.0\n.target sm_80\n{body}");
        let error = Module::parse(&text).expect_err(name);
        assert_eq!(error.line(), *line, "{name}: {error}");
        assert!(error.reason().to_string().contains(message), "{name}: {error}");
    }
}

#[test]
fn a_header_that_is_missing_or_wrong_is_named() {
    let cases = [
        ("", 1, "expected `.version` (every module begins with it), found end of text"),
        ("int main() {}", 1, "expected `.version`"),
        ("// only a comment\n\n", 3, "found end of text"),
        (".version 8\n.target sm_80", 1, "a version is two whole numbers"),
        (".version 8.x\n.target sm_80", 1, "is no number"),
        (".version 8.0\n.entry k() { ret; }", 2, "expected `.target` (it follows `.version`)"),
        (".version 8.0\n.target \"sm_80\"", 2, "an architecture"),
        (".version 8.0\n.target sm_80\n.address_size 48", 3, "an address size cannot be 48"),
    ];
    for (text, line, message) in cases {
        let error = Module::parse(text).expect_err(text);
        assert_eq!(error.line(), line, "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn columns_count_bytes_from_one_and_lines_count_through_comments() {
    let text = ".version 8.0\n.target sm_80\n/* \u{e9}\n\n */ .entry k() {\r\n\tadd.s32 %r1, \u{20ac};\n}";
    let error = Module::parse(text).unwrap_err();
    assert_eq!((error.line(), error.column()), (6, 15));
    assert_eq!(error.reason(), &Reason::StrayCharacter('\u{20ac}'));
}

#[test]
fn a_missing_semicolon_is_missed_where_it_should_stand() {
    for body in ["ret\n}\n", "ret\n  mov.u32 %r1, 5;\n}", "ret\n@%p1 bra L;\n}", "ret"] {
        let text = format!(".version 8.0\n.target sm_80\n.entry k() {{\n  {body}");
        let error = Module::parse(&text).unwrap_err();
        assert!(error.to_string().starts_with("line 4, column 6: expected `;`, found "), "{body}: {error}");
    }
}
