//! Mutants of guards, branches, comparisons and exchanges between lanes.

use super::operator::Operator;
use super::site::Site;

pub(super) fn mutants(site: &mut Site<'_>) {
    guarded(site);
    compared(site);
    exchanged(site);
}

fn guarded(site: &mut Site<'_>) {
    let Some(guard) = &site.instruction.guard else { return };
    if matches!(site.instruction.opcode(), "bra" | "ret" | "exit" | "brx") {
        site.drop_whole(Operator::DropBranch);
    }
    site.replace(Operator::DropGuard, guard.span, "");
    let turned = if guard.negated { format!("@{}", guard.register) } else { format!("@!{}", guard.register) };
    site.replace(Operator::NegateGuard, guard.span, &turned);
}

/// Comparisons: each with its negation, and with what differs from it in the equal case alone.
const COMPARISONS: &[(&str, &str, Option<&str>)] = &[
    ("eq", "ne", None),
    ("ne", "eq", None),
    ("lt", "ge", Some("le")),
    ("le", "gt", Some("lt")),
    ("gt", "le", Some("ge")),
    ("ge", "lt", Some("gt")),
    ("lo", "hs", Some("ls")),
    ("ls", "hi", Some("lo")),
    ("hi", "ls", Some("hs")),
    ("hs", "lo", Some("hi")),
    ("equ", "neu", None),
    ("neu", "equ", None),
    ("ltu", "geu", Some("leu")),
    ("leu", "gtu", Some("ltu")),
    ("gtu", "leu", Some("geu")),
    ("geu", "ltu", Some("gtu")),
    ("num", "nan", None),
    ("nan", "num", None),
];

fn compared(site: &mut Site<'_>) {
    if !matches!(site.instruction.opcode(), "setp" | "set") {
        return;
    }
    let first = site.instruction.mnemonic.modifiers().next().unwrap_or_default();
    let Some((_, negation, boundary)) = COMPARISONS.iter().find(|(name, ..)| *name == first) else { return };
    if let Some(boundary) = boundary {
        site.replace_modifier(Operator::ShiftBoundary, 0, boundary);
    }
    site.replace_modifier(Operator::NegateComparison, 0, negation);
    let joined = site.instruction.mnemonic.modifiers().nth(1);
    match joined {
        Some("and") => site.replace_modifier(Operator::ChangeOperation, 1, "or"),
        Some("or") => site.replace_modifier(Operator::ChangeOperation, 1, "and"),
        _ => {}
    }
}

fn exchanged(site: &mut Site<'_>) {
    let other = |modifier: &str| match (site.instruction.opcode(), modifier) {
        ("shfl", "bfly") => Some("down"),
        ("shfl", "down") => Some("up"),
        ("shfl", "up") => Some("down"),
        ("shfl", "idx") => Some("bfly"),
        ("vote" | "match", "all") if !site.has("match") && site.instruction.opcode() == "vote" => Some("any"),
        ("vote", "any") => Some("all"),
        ("bar" | "barrier", "or") => Some("and"),
        ("bar" | "barrier", "and") => Some("or"),
        _ => None,
    };
    let change =
        site.instruction.mnemonic.modifiers().enumerate().find_map(|(index, m)| Some((index, other(m)?)));
    if let Some((index, modifier)) = change {
        site.replace_modifier(Operator::ChangeExchange, index, modifier);
    }
}
