//! Real and hand-written PTX goes through the parser without loss, and damaged text gives errors, never a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use cuforge_sim::ptx::{Block, Module, Operand, OperandKind, Reason, Span, Statement};
use proptest::prelude::*;

/// Every shipped text with its file name, in name order.
fn shipped() -> Vec<(String, String)> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut found = Vec::new();
    for folder in ["nvrtc", "hand"] {
        for entry in fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "ptx") {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn shipped_text(name: &str) -> String {
    shipped().into_iter().find(|(found, _)| found == name).unwrap().1
}

#[test]
fn every_shipped_text_parses_and_prints_back_byte_for_byte() {
    let texts = shipped();
    assert!(texts.len() >= 33, "{} files", texts.len());
    for (name, text) in texts {
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(module.to_string(), text, "{name}");
        assert!(module.entries().count() > 0, "{name}");
    }
}

/// Instructions in a body by another way than the parser's: statements between semicolons that are no directives.
fn count_by_semicolons(body: &str) -> usize {
    let mut bare = String::new();
    for line in body.lines() {
        let line = line.split("//").next().unwrap();
        if !line.trim_start().starts_with(".loc") {
            bare.push_str(line);
            bare.push(' ');
        }
    }
    let is_instruction = |statement: &str| {
        let mut rest = statement.trim_start_matches([' ', '\t', '{', '}']);
        while let Some((label, behind)) = rest.split_once(':') {
            if !label.trim().chars().all(|c| c.is_ascii_alphanumeric() || "$_".contains(c)) {
                break;
            }
            rest = behind.trim_start_matches([' ', '\t', '{', '}']);
        }
        !rest.is_empty() && !rest.starts_with('.')
    };
    // Braces of vectors stand behind a name, those of scopes do not; both only matter at a statement's start.
    bare.split(';').filter(|statement| is_instruction(statement)).count()
}

#[test]
fn the_tree_of_compiler_output_holds_as_many_instructions_as_its_text() {
    for (name, text) in shipped().into_iter().filter(|(name, _)| name != "forms.ptx") {
        let module = Module::parse(&text).unwrap();
        for function in module.functions() {
            let Some(body) = &function.body else { continue };
            let expected = count_by_semicolons(module.text(body.span));
            assert_eq!(function.instructions().count(), expected, "{name}: {}", function.name);
        }
    }
}

fn check_span(module: &Module, span: Span, within: Span, what: &str) {
    assert!(
        span.start >= within.start && span.end <= within.end && span.start <= span.end,
        "{what}: {span:?}"
    );
    let before = &module.source()[..span.start as usize];
    let line = before.matches('\n').count() as u32 + 1;
    let column = (before.len() - before.rfind('\n').map_or(0, |at| at + 1)) as u32 + 1;
    assert_eq!((span.line, span.column), (line, column), "{what}: {}", module.text(span));
}

fn check_operand(module: &Module, operand: &Operand, within: Span) {
    check_span(module, operand.span, within, "an operand");
    let text = module.text(operand.span);
    match &operand.kind {
        OperandKind::Register { name, component } => {
            let whole = component.as_ref().map_or(name.to_string(), |part| format!("{name}.{part}"));
            assert_eq!(text, whole);
        }
        OperandKind::Immediate(number) => assert_eq!(number.text, text),
        OperandKind::WarpSize => assert_eq!(text, "WARP_SZ"),
        OperandKind::Symbol { name, .. } => assert!(text.starts_with(name.as_str())),
        OperandKind::Sink => assert_eq!(text, "_"),
        OperandKind::Address(address) => {
            assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
            address.coordinates.iter().for_each(|part| check_operand(module, part, operand.span));
            address.offset_span.iter().for_each(|part| check_span(module, *part, operand.span, "an offset"));
        }
        OperandKind::Vector(parts) | OperandKind::List(parts) => {
            parts.iter().for_each(|part| check_operand(module, part, operand.span));
        }
        OperandKind::Pair(first, second) => {
            check_operand(module, first, operand.span);
            check_operand(module, second, operand.span);
        }
        OperandKind::Not(inner) => check_operand(module, inner, operand.span),
        other => panic!("{other:?}"),
    }
}

fn check_block(module: &Module, block: &Block, within: Span) {
    check_span(module, block.span, within, "a scope");
    assert!(module.text(block.span).starts_with('{') && module.text(block.span).ends_with('}'));
    let mut last = block.span.start;
    for statement in &block.statements {
        let span = match statement {
            Statement::Block(inner) => {
                check_block(module, inner, block.span);
                inner.span
            }
            Statement::Label(label) => label.span,
            // Names of one declaration share its beginning.
            Statement::Registers(registers) => {
                Span { start: last.max(registers.span.start), ..registers.span }
            }
            Statement::Variable(variable) => Span { start: last.max(variable.span.start), ..variable.span },
            Statement::Location(location) => location.span,
            Statement::Directive(directive) => directive.span,
            Statement::Targets(table) => table.span,
            Statement::Prototype(prototype) => prototype.span,
            Statement::Instruction(instruction) => {
                check_span(module, instruction.span, block.span, "an instruction");
                check_span(module, instruction.mnemonic.span, instruction.span, "a mnemonic");
                let written: String = module.text(instruction.mnemonic.span).split_whitespace().collect();
                if !written.contains("/*") {
                    assert_eq!(instruction.mnemonic.text, written.as_str());
                }
                assert!(module.text(instruction.span).ends_with(';'));
                for operand in &instruction.operands {
                    check_operand(module, operand, instruction.span);
                }
                instruction.span
            }
            other => panic!("{other:?}"),
        };
        assert!(span.start >= last, "statements in text order");
        last = span.end;
    }
}

#[test]
fn every_node_stands_where_its_span_says() {
    for (_, text) in shipped() {
        let module = Module::parse(&text).unwrap();
        for function in module.functions() {
            let whole = Span { start: 0, end: text.len() as u32, line: 1, column: 1 };
            check_span(&module, function.span, whole, "a function");
            assert_eq!(module.text(function.name_span), function.name.as_str());
            if let Some(body) = &function.body {
                check_block(&module, body, function.span);
            }
        }
    }
}

#[test]
fn a_text_cut_off_anywhere_gives_a_module_or_an_error_within_it() {
    for name in ["forms.ptx", "streaming.12.9.86.sm_75.ieee.ptx", "exchange.13.5.37.sm_100.ieee.ptx"] {
        let text = shipped_text(name);
        let (mut refused, mut taken) = (0, 0);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let part = &text[..end];
            match Module::parse(part) {
                Ok(module) => {
                    assert_eq!(module.source(), part);
                    taken += 1;
                }
                Err(error) => {
                    assert!(
                        error.line() as usize <= part.matches('\n').count() + 1,
                        "{name} at {end}: {error}"
                    );
                    assert!(error.span().end as usize <= end, "{name} at {end}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > taken && taken > 0, "{name}: {refused} refused, {taken} taken");
    }
}

#[test]
fn nesting_without_end_is_refused_before_the_stack_is_spent() {
    let head = ".version 8.0\n.target sm_80\n";
    let deep = |open: &str| open.repeat(200_000);
    let cases = [
        format!("{head}.entry k() {{{}", deep("{")),
        format!("{head}.global .u32 a[1] = {}", deep("{")),
        format!("{head}.entry k() {{ mov.u32 r, {}", deep("(")),
        format!("{head}.entry k() {{ mov.u32 r, {}", deep("-")),
        format!("{head}.entry k() {{ mov.b64 r, {}", deep("{")),
        format!("{head}.entry k() {{ call {}", deep("(")),
        format!("{head}.entry k() {{ tex.2d r, {}", deep("[a,")),
        format!("{head}.entry k() {{ setp p, {}", deep("!")),
        format!("{head}.entry k() {{ setp {}", deep("p|")),
    ];
    for text in cases {
        let error = Module::parse(&text).unwrap_err();
        assert!(matches!(error.reason(), Reason::TooDeep { .. }), "{error}");
    }
}

const VOCABULARY: &[&str] = &[
    ".version",
    "8.0",
    ".target",
    "sm_80",
    ".address_size",
    "64",
    ".visible",
    ".entry",
    ".func",
    "k",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "|",
    "!",
    "@",
    "+",
    "-",
    "*",
    "/",
    "%",
    "?",
    "=",
    "==",
    "<<",
    "_",
    "%r1",
    "%tid.x",
    ".reg",
    ".param",
    ".shared",
    ".global",
    ".const",
    ".b32",
    ".f32",
    ".pred",
    ".v4",
    ".align",
    ".ptr",
    "add",
    "mov",
    "bra",
    "call",
    "ret",
    "$L1",
    "0x1F",
    "0f3F800000",
    "0d3FF0000000000000",
    "1.5",
    "017",
    "1U",
    ".loc",
    ".file",
    "\"text\"",
    ".section",
    ".pragma",
    ".branchtargets",
    ".callprototype",
    ".attribute",
    "generic",
    "WARP_SZ",
    ".s64",
    "// note\n",
    "/* note */",
    "\n",
    "@@DWARF x\n",
    "# 1 \"f\"\n",
    "\u{e9}",
    "\"",
    ".",
    "'",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn token_soup_never_panics_and_what_parses_prints_back(
        words in prop::collection::vec(prop::sample::select(VOCABULARY), 0..60),
        headed in any::<bool>(),
        spaced in any::<bool>(),
    ) {
        let head = if headed { ".version 8.0\n.target sm_80\n.entry k() {\n" } else { "" };
        let text = format!("{head}{}", words.join(if spaced { " " } else { "" }));
        match Module::parse(&text) {
            Ok(module) => prop_assert_eq!(module.source(), text.as_str()),
            Err(error) => {
                prop_assert!(error.span().end as usize <= text.len());
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn any_text_at_all_never_panics(text in "\\PC*|[ -~\n\t]*") {
        if let Ok(module) = Module::parse(&text) {
            prop_assert_eq!(module.source(), text.as_str());
        }
    }

    #[test]
    fn damaged_compiler_output_never_panics(
        file in 0_usize..33,
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(VOCABULARY), 0_usize..12), 1..6),
    ) {
        let texts = shipped();
        let (_, text) = &texts[file % texts.len()];
        let mut damaged = text.clone();
        for (place, word, removed) in damage {
            let boundary = |mut at: usize, text: &str| { while !text.is_char_boundary(at) { at -= 1; } at };
            let start = boundary(place.index(damaged.len()), &damaged);
            let end = boundary((start + removed).min(damaged.len()), &damaged);
            damaged.replace_range(start..end.max(start), word);
        }
        if let Ok(module) = Module::parse(&damaged) {
            prop_assert_eq!(module.source(), damaged.as_str());
        }
    }
}
