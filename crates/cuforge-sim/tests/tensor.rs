//! Matrix instructions of a warp against what an H200 answered, bit for bit.
//!
//! `vectors/record_tensor.py` records `vectors/tensor.txt` on a device; inputs are made here as there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use cuforge_core::LaunchGeometry;
use cuforge_sim::{LaunchOptions, Memory, Program, launch, ptx::Module};

/// A kernel body with its inputs and the recorded outputs of each warp.
struct Form<'a> {
    number: u64,
    body: &'a str,
    kinds: Vec<(&'a str, usize)>,
    words: usize,
    outputs: Vec<Vec<u32>>,
}

fn parse(text: &str) -> Vec<Form<'_>> {
    let mut forms: Vec<Form> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("form ") {
            let parts: Vec<&str> = head.split(" | ").collect();
            let [number, body, kinds, words] = parts[..] else { panic!("{head}") };
            let kinds = kinds.split(' ').map(|kind| kind.split_once('*').unwrap());
            forms.push(Form {
                number: number.parse().unwrap(),
                body,
                kinds: kinds.map(|(kind, count)| (kind, count.parse().unwrap())).collect(),
                words: words.parse().unwrap(),
                outputs: Vec::new(),
            });
        } else {
            let words = line.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
            forms.last_mut().unwrap().outputs.push(words);
        }
    }
    forms
}

/// `SplitMix64`, as in the recorder.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Exponent bits, fraction bits and all bits of a float.
fn format(kind: &str) -> Option<(u32, u32, u32)> {
    Some(match kind {
        "f16" => (5, 10, 16),
        "bf16" | "tiny16" => (8, 7, 16),
        "f32" | "tf32" | "tiny32" => (8, 23, 32),
        "f64" => (11, 52, 64),
        "e4m3" => (4, 3, 8),
        "e5m2" => (5, 2, 8),
        _ => return None,
    })
}

fn number(kind: &str, style: u64, r: u64) -> u64 {
    let Some((exponent_bits, fraction_bits, bits)) = format(kind) else { return r & 0xffff_ffff };
    let (bias, most) = ((1u64 << (exponent_bits - 1)) - 1, (1u64 << exponent_bits) - 1);
    let (mut exponent, mut fraction) = (r >> 1 & 0xffff, r >> 17 & ((1 << fraction_bits) - 1));
    match style {
        _ if kind.starts_with("tiny") => exponent %= if bits == 16 { 90 } else { 4 },
        0 => exponent = bias + exponent % 7 - 3,
        1 => {
            let spread = most.min(81);
            exponent = (bias.saturating_sub(spread / 2) + exponent % spread).min(most - 1);
        }
        2 => {
            fraction &= !((1u64 << fraction_bits.saturating_sub(2)) - 1);
            exponent = bias + exponent % 3 - 1;
            if r >> 60 < 6 {
                (exponent, fraction) = (0, 0);
            }
        }
        _ => {
            exponent = if r >> 56 < 3 { most } else { exponent % (bias / 2).max(2) };
            if r >> 56 < 2 {
                fraction = 0;
            }
        }
    }
    (r & 1) << (bits - 1) | exponent << fraction_bits | fraction
}

fn inputs(form: &Form, warp: u64) -> Vec<u8> {
    let mut random = Random(form.number << 32 | warp);
    let mut bytes = Vec::new();
    for (kind, count) in &form.kinds {
        let size = format(kind).map_or(4, |(_, _, bits)| bits as usize / 8);
        for _ in 0..*count {
            bytes.extend(&number(kind, warp % 4, random.next()).to_le_bytes()[..size]);
        }
    }
    bytes
}

fn replay(form: &Form) -> Result<Vec<Vec<u32>>, String> {
    let warps = form.outputs.len();
    let data: Vec<u8> = (0..warps as u64).flat_map(|warp| inputs(form, warp)).collect();
    let (in_bytes, out_bytes) = (data.len() / warps, form.words * 4);
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n\
         .visible .entry form(.param .u64 source, .param .u64 target) {{\n\
         .reg .b64 %in, %out; .reg .b32 %lane4, %warp;\n\
         ld.param.u64 %in, [source]; ld.param.u64 %out, [target]; mov.u32 %warp, %ctaid.x; mov.u32 %lane4, %tid.x;\n\
         shl.b32 %lane4, %lane4, 2; mad.wide.u32 %in, %warp, {in_bytes}, %in; mad.wide.u32 %out, %warp, {out_bytes}, %out;\n\
         {};\nret;\n}}\n",
        form.body
    );
    let module = Module::parse(&text).map_err(|error| format!("{error}"))?;
    let kernel = Program::load(&module).and_then(|program| program.kernel("form"));
    let kernel = kernel.map_err(|error| error.to_string())?;
    let mut memory = Memory::new(1 << 28);
    let source = memory.allocate(data.len() as u64, 256).unwrap();
    let target = memory.allocate((warps * out_bytes) as u64, 256).unwrap();
    memory.write(source, &data).unwrap();
    let params: Vec<u8> = [source, target].iter().flat_map(|address| address.to_le_bytes()).collect();
    let geometry = LaunchGeometry { grid: [warps as u32, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
    launch(&kernel, &geometry, &params, &mut memory, &LaunchOptions::default())
        .map_err(|fault| fault.to_string())?;
    let mut bytes = vec![0; warps * out_bytes];
    memory.read(target, &mut bytes).unwrap();
    let words: Vec<u32> = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    Ok(words.chunks(form.words).map(<[u32]>::to_vec).collect())
}

fn instruction<'a>(form: &'a Form) -> &'a str {
    let named =
        |part: &&str| ["mma.", "wmma.mma", "ldm", "stm", "movm"].iter().any(|name| part.starts_with(name));
    form.body.split("; ").find(named).unwrap_or(form.body)
}

/// Replays the recording of the repository, or the larger one that `CUFORGE_SIM_TENSOR_VECTORS` names.
#[test]
fn every_matrix_instruction_gives_the_bits_of_the_device() {
    let text = match std::env::var("CUFORGE_SIM_TENSOR_VECTORS") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("vectors/tensor.txt").to_owned(),
    };
    let forms = parse(&text);
    assert!(forms.len() >= 87, "only {} forms", forms.len());
    let mut wrong = Vec::new();
    for form in &forms {
        let answers = match replay(form) {
            Ok(answers) => answers,
            Err(error) => {
                wrong.push(format!("{}: {error}", instruction(form)));
                continue;
            }
        };
        for style in 0..4 {
            let warps = (0..form.outputs.len()).filter(|warp| warp % 4 == style);
            let differ = |warp: &usize| answers[*warp] != form.outputs[*warp];
            let Some(warp) = warps.clone().find(differ) else { continue };
            let words = answers[warp].iter().zip(&form.outputs[warp]).enumerate();
            let differing: Vec<_> = words.filter(|(_, (got, want))| got != want).collect();
            let (at, (got, want)) = differing[0];
            wrong.push(format!(
                "{}: style {style}, {} of {} warps; in warp {warp} {} of {} words, word {at} is {got:#x}, recorded {want:#x}",
                instruction(form),
                warps.clone().filter(differ).count(),
                warps.count(),
                differing.len(),
                form.words
            ));
        }
    }
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
}
