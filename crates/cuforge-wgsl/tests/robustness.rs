//! Damaged and unusual texts are emitted or refused, and nothing panics.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_core::{KernelSpec, Schedule};
use cuforge_wgsl::{EmitError, emit};

const TEXT: &str = include_str!("everything.wgsl");

fn tried(text: &str) -> Result<(), EmitError> {
    let mut first = Ok(());
    for entry in ["scalars", "shapes", "flow"] {
        let spec = KernelSpec::wgsl(entry, entry, text.to_owned(), vec![]);
        let result = emit(&spec, &Schedule::new([64, 1, 1])).map(|_| ());
        first = first.and(result);
    }
    first
}

/// Words, numbers and signs, each with the blank behind it.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[test]
fn what_is_right_is_emitted() {
    tried(TEXT).unwrap();
}

#[test]
fn damaged_texts_are_emitted_or_refused() {
    let whole = tokens(TEXT);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let (mut emitted, mut refused) = (0, 0);
    for _ in 0..120 {
        let mut damaged = whole.clone();
        let (at, from) = (random(whole.len()), random(whole.len()));
        match random(4) {
            0 => drop(damaged.remove(at)),
            1 => damaged[at] = whole[from],
            2 => damaged.insert(at, whole[from]),
            _ => damaged.swap(at, from),
        }
        match tried(&damaged.concat()) {
            Ok(()) => emitted += 1,
            Err(_) => refused += 1,
        }
    }
    // Neither is so rare that the other is all that was tried.
    assert!(emitted > 5 && refused > 5, "{emitted} emitted, {refused} refused");
}

#[test]
fn deep_and_long_texts_do_not_exhaust_the_stack() {
    let kernel = |body: &str| {
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n\
             @compute @workgroup_size(64) fn k(@builtin(global_invocation_id) id: vec3<u32>) {{ {body} }}"
        );
        emit(&KernelSpec::wgsl("k", "k", source, vec![]), &Schedule::new([64, 1, 1])).map(|_| ())
    };
    // Six words and signs each.
    let sum = |terms| format!("x[id.y] = {};", vec!["x[id.x]"; terms].join(" + "));
    kernel(&sum(900)).unwrap();
    for deep in [sum(9000), format!("x[0] = {}1u;", "~".repeat(9000)), format!("x[0] = {}", "(".repeat(9000))]
    {
        let error = kernel(&deep).unwrap_err();
        assert!(matches!(error, EmitError::TooDeep { .. }), "{error}");
    }
    kernel(&format!("x[0] = {}1u;", "~".repeat(4000))).unwrap();
    kernel(&format!("x[0] = {}1u{};", "(".repeat(250), ")".repeat(250))).unwrap_or_else(|error| {
        assert!(matches!(error, EmitError::Parse { .. }), "{error}");
    });
    let lets: String = (0..2000).map(|n| format!("let a{n} = x[id.x] + {n}u; x[id.y] = a{n};")).collect();
    kernel(&lets).unwrap();
    let nested = format!("{}x[id.x] = 1u;{}", "if (id.x > 1u) {".repeat(60), "}".repeat(60));
    kernel(&nested).unwrap();
}
