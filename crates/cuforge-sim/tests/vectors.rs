//! Single instructions against what an H200 answered: bits in, bits out.
//!
//! `vectors/record.py` records `vectors/h200.txt` on a device. Exact forms must give the same bits; approximate ones must
//! lie within the bound that is stated here, which covers the hardware's error and ours.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cuforge_core::LaunchGeometry;
use cuforge_sim::{LaunchOptions, Memory, Program, launch, ptx::Module};

/// One instruction with its recorded vectors.
struct Form<'a> {
    template: &'a str,
    results: Vec<u32>,
    operands: Vec<u32>,
    vectors: Vec<(Vec<u64>, Vec<u64>)>,
}

fn parse(text: &str) -> Vec<Form<'_>> {
    let mut forms: Vec<Form> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("form ") {
            // A template may hold a bar itself.
            let mut parts = head.rsplitn(3, " | ");
            let widths =
                |part: Option<&str>| part.unwrap().split_whitespace().map(|w| w.parse().unwrap()).collect();
            let operands = widths(parts.next());
            let results = widths(parts.next());
            forms.push(Form { template: parts.next().unwrap(), results, operands, vectors: Vec::new() });
        } else {
            let numbers =
                |part: &str| part.split_whitespace().map(|n| u64::from_str_radix(n, 16).unwrap()).collect();
            let (operands, results) = line.split_once('=').unwrap();
            forms.last_mut().unwrap().vectors.push((numbers(operands), numbers(results)));
        }
    }
    forms
}

fn register(width: u32, letter: char) -> (String, String) {
    let (ty, prefix) = match width {
        1 => ("pred", 'p'),
        16 => ("b16", 'h'),
        32 => ("b32", 'r'),
        _ => ("b64", 'q'),
    };
    let name = format!("%{prefix}{letter}");
    (format!(".reg .{ty} {name};\n"), name)
}

/// A kernel whose every thread runs the instruction on operands of its own.
fn kernel(form: &Form) -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry form(.param .u64 source, .param .u64 target, .param .u64 scratch) {\n\
         .shared .align 16 .b8 cells[512];\n\
         .reg .b64 %source, %target, %m, %wide; .reg .b32 %row, %s; .reg .pred %spare;\n",
    );
    let letters =
        "de".chars().zip(&form.results).chain("abcf".chars().zip(&form.operands)).collect::<Vec<_>>();
    let mut template = format!("{};", form.template);
    for (letter, width) in &letters {
        let (declaration, name) = register(**width, *letter);
        text.push_str(&declaration);
        template = template.replace(&format!("${letter}"), &name);
    }
    template = template.replace("$m", "%m").replace("$s", "%s").replace("$p", "%spare");
    text.push_str(
        "ld.param.u64 %source, [source]; ld.param.u64 %target, [target]; ld.param.u64 %m, [scratch];\n\
         mov.u32 %row, %ctaid.x; shl.b32 %row, %row, 5; mov.u32 %s, %tid.x; add.u32 %row, %row, %s;\n\
         mad.wide.u32 %source, %row, 32, %source; mad.wide.u32 %target, %row, 16, %target;\n\
         mad.wide.u32 %m, %row, 16, %m; mov.u32 %row, cells; shl.b32 %s, %s, 4; add.u32 %s, %s, %row;\n",
    );
    for (place, (letter, width)) in letters[form.results.len()..].iter().enumerate() {
        let name = register(**width, *letter).1;
        text.push_str(&format!("ld.global.u64 %wide, [%source+{}];\n", place * 8));
        text.push_str(&match width {
            1 => format!("setp.ne.u64 {name}, %wide, 0;\n"),
            64 => format!("mov.b64 {name}, %wide;\n"),
            width => format!("cvt.u{width}.u64 {name}, %wide;\n"),
        });
    }
    text.push_str(&template);
    for (place, (letter, width)) in letters[..form.results.len()].iter().enumerate() {
        let name = register(**width, *letter).1;
        text.push_str(&match width {
            1 => format!("\nselp.u64 %wide, 1, 0, {name};"),
            64 => format!("\nmov.b64 %wide, {name};"),
            width => format!("\ncvt.u64.u{width} %wide, {name};"),
        });
        text.push_str(&format!(" st.global.u64 [%target+{}], %wide;", place * 8));
    }
    text.push_str("\nret;\n}\n");
    text
}

/// What the simulator answers to the vectors of a form.
fn replay(form: &Form) -> Result<Vec<Vec<u64>>, String> {
    let text = kernel(form);
    let module = Module::parse(&text).map_err(|error| format!("{error}: {text}"))?;
    let kernel = Program::load(&module).and_then(|program| program.kernel("form"));
    let kernel = kernel.map_err(|error| error.to_string())?;
    let blocks = form.vectors.len().div_ceil(32);
    let mut memory = Memory::new(1 << 24);
    let [source, target, scratch] =
        [32, 16, 16].map(|bytes| memory.allocate((blocks * 32 * bytes) as u64, 8).unwrap());
    memory.fill(source, (blocks * 32 * 32) as u64, 0).unwrap();
    for (row, (operands, _)) in form.vectors.iter().enumerate() {
        for (place, operand) in operands.iter().enumerate() {
            memory.write(source + (row * 32 + place * 8) as u64, &operand.to_le_bytes()).unwrap();
        }
    }
    let params: Vec<u8> = [source, target, scratch].iter().flat_map(|p| p.to_le_bytes()).collect();
    let geometry = LaunchGeometry { grid: [blocks as u32, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
    let options = LaunchOptions { threads: 1, ..LaunchOptions::default() };
    launch(&kernel, &geometry, &params, &mut memory, &options).map_err(|fault| fault.to_string())?;
    let answer = |row: usize, place: usize| {
        let mut bytes = [0; 8];
        memory.read(target + (row * 16 + place * 8) as u64, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    let results = form.results.len();
    Ok((0..form.vectors.len()).map(|row| (0..results).map(|place| answer(row, place)).collect()).collect())
}

/// How far an approximate form may be from the recorded answer, in units of the last place of its format, or
/// absolutely.
#[derive(Clone, Copy)]
enum Bound {
    Exact,
    Ulps(u64),
    Absolute(f64),
}

fn bound(template: &str) -> Bound {
    let Some((name, rest)) = template.split_once(".approx").or_else(|| template.split_once(".full")) else {
        return Bound::Exact;
    };
    match name {
        "sin" | "cos" => Bound::Absolute(2f64.powf(-20.5)),
        "lg2" => Bound::Absolute(2f64.powi(-22)),
        "tanh" if rest.contains("f32") => Bound::Ulps(1 << 13),
        _ if rest.contains("f64") => Bound::Ulps(1 << 33),
        _ if rest.contains("16") => Bound::Ulps(2),
        _ => Bound::Ulps(2),
    }
}

fn agree(bound: Bound, template: &str, width: u32, got: u64, recorded: u64) -> bool {
    if got == recorded {
        return true;
    }
    let key = |bits: u64, width: u32| {
        let sign = 1u64 << (width - 1);
        let magnitude = (bits & (sign - 1)) as i64;
        if bits & sign != 0 { -magnitude } else { magnitude }
    };
    let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
    match bound {
        Bound::Exact => false,
        Bound::Absolute(most) => {
            let (got, recorded) = (single(got), single(recorded));
            // Beyond magnitude 1 a logarithm's bound is relative.
            (got - recorded).abs() <= most * recorded.abs().max(1.0)
        }
        Bound::Ulps(most) if template.contains("x2 ") => [0, 16].into_iter().all(|shift| {
            let half = |bits: u64| key(bits >> shift & 0xffff, 16);
            half(got).abs_diff(half(recorded)) <= most
        }),
        Bound::Ulps(most) => key(got, width).abs_diff(key(recorded, width)) <= most,
    }
}

fn disagreements(text: &str) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let mut vectors = 0;
    for form in parse(text) {
        let answers = match replay(&form) {
            Ok(answers) => answers,
            Err(error) => {
                wrong.push(format!("{}: {error}", form.template));
                continue;
            }
        };
        let mut shown = 0;
        for ((operands, recorded), got) in form.vectors.iter().zip(&answers) {
            vectors += 1;
            let same = (form.results.iter().zip(got).zip(recorded))
                .all(|((width, got), want)| agree(bound(form.template), form.template, *width, *got, *want));
            if !same {
                shown += 1;
                if shown <= 3 {
                    wrong.push(format!(
                        "{}: {operands:x?} gave {got:x?}, recorded {recorded:x?}",
                        form.template
                    ));
                }
            }
        }
        if shown > 3 {
            wrong.push(format!("{}: {shown} of {} vectors", form.template, answers.len()));
        }
    }
    (vectors, wrong)
}

/// Replays the recording of the repository, or the larger one that `CUFORGE_SIM_VECTORS` names.
#[test]
fn every_recorded_instruction_gives_the_bits_of_the_device() {
    let text = match std::env::var("CUFORGE_SIM_VECTORS") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("vectors/h200.txt").to_owned(),
    };
    let (vectors, wrong) = disagreements(&text);
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    assert!(vectors > 8000, "only {vectors} vectors");
}
