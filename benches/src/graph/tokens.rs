//! Token loops: four bytes in, ten kernels, four bytes out.
//!
//! All forms and both rivals run in every round. The kernels have programmatic edges where the device can; a value is
//! the argument of the first kernel (a slot), or a word in mapped memory that the first kernel reads. The result is a word in
//! mapped memory that the last kernel writes and the host polls. Launched ahead, a replay is on the device before its
//! value is known: the first kernel waits for it, so that the launch costs the loop nothing.

use super::raw::Exec;
use super::rig::{Bench, KERNELS_A_TOKEN};
use super::torch::Torch;
use crate::area::Measured;
use crate::figure::{Bar, Figure, Spread};
use crate::rounds::{Side, ratios, together};
use cuforge_core::{Access, BufferView, Element, Request};
use cuforge_launch::{
    BoundLaunch, Graph, LaunchOptions, MappedWords, ParameterBlock, ResultRing, Stream, ValueSlot,
};
use std::error::Error;
use std::hint;
use std::sync::Arc;
use std::time::Instant;

/// Tokens of a sample.
const TOKENS: u32 = 200;

/// How long a replay that was launched ahead waits for its value at most.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The words in mapped memory: a value, a value with its turn above it, a result with its turn above it.
const VALUE: usize = 0;
const VALUE_OF_TURN: usize = 1;
const RESULT: usize = 2;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Graphs whose last kernel tells result and turn in mapped memory.
struct Told {
    words: Arc<MappedWords>,
    by_slot: (Graph, ValueSlot<u32>),
    by_word: Graph,
    waiting: Graph,
    turn: u32,
}

/// The same through the crate's own parameter block and result ring: two kernels more.
struct Ringed {
    stream: Stream,
    block: ParameterBlock,
    ring: ResultRing,
    graph: Graph,
}

impl Bench {
    /// Four bytes in, ten kernels, four bytes out.
    pub(super) fn tokens(&mut self, rounds: usize, torch: Option<&mut Torch>) -> Measured {
        let mut told = Told::new(self)?;
        let mut ringed = Ringed::new(self)?;
        let other = Stream::new(&self.device)?;
        let (raw, raw_stream) = (self.raw, other.raw());
        let theirs: Exec = self.raw.capture(raw_stream, &self.raw_step, KERNELS_A_TOKEN)?;
        let at = self.slab.address_of(&self.word)?;
        let mut pageable = || {
            per_token(|| {
                (0..TOKENS).try_for_each(|token| {
                    check(token, raw.token(theirs, raw_stream, at, token)?, KERNELS_A_TOKEN)
                })
            })
        };
        let order = format!("tokens {TOKENS}");
        let mut samples = {
            let told = std::cell::RefCell::new((&mut told, &mut self.stream));
            let form = |run: fn(&mut Told, &mut Stream) -> Outcome<()>| {
                let told = &told;
                move || {
                    let (told, stream) = &mut *told.borrow_mut();
                    per_token(|| run(told, stream))
                }
            };
            let (mut ahead, mut by_word) = (form(Told::ahead), form(Told::by_word));
            let (mut by_slot, mut through) = (form(Told::by_slot), || per_token(|| ringed.run()));
            let mut sides: Vec<Side<'_>> =
                vec![&mut ahead, &mut by_word, &mut by_slot, &mut through, &mut pageable];
            let mut peer = torch.map(|torch| || torch.ask(&order));
            if let Some(peer) = &mut peer {
                sides.push(peer);
            }
            together(rounds, &mut sides)?.into_iter()
        };
        let mut next = || samples.next().ok_or("a side without samples");
        let forms = [
            ("token loop, launched ahead of its value", next()?),
            ("token loop, value in mapped memory", next()?),
            ("token loop, value by slot", next()?),
            ("token loop through block and ring", next()?),
        ];
        let rivals = [("pageable copies", Some(next()?), 0.5), ("PyTorch's", next().ok(), 0.36)];
        let nanoseconds = |name: &str, samples: &[f64]| -> Outcome<Figure> {
            let spread = Spread::of(samples).ok_or("no samples that are numbers")?;
            Ok(Figure::new(name, "ns", spread, rounds))
        };
        let mut figures = Vec::new();
        for (name, samples) in &forms {
            figures.push(nanoseconds(name, samples)?);
        }
        for (rival, theirs, bar) in rivals {
            let Some(theirs) = theirs else { continue };
            figures.push(nanoseconds(&format!("token loop with {rival}"), &theirs)?);
            for (at, (name, samples)) in forms.iter().enumerate() {
                let figure =
                    Figure::new(format!("{name} / {rival}"), "ratio", ratios(samples, &theirs)?, rounds);
                figures.push(if at == 0 { figure.with_bar(Bar::AtMost(bar)) } else { figure });
            }
        }
        Ok(figures)
    }
}

/// Nanoseconds of a token.
fn per_token(run: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_nanos() as f64 / f64::from(TOKENS))
}

/// Each kernel but those that only bring the value in adds one.
fn check(token: u32, out: u32, additions: usize) -> Outcome<()> {
    if out == token + additions as u32 {
        Ok(())
    } else {
        Err(format!("token {token} came out as {out}").into())
    }
}

fn words_of(bench: &Bench, words: u64) -> Outcome<BufferView> {
    Ok(bench.slab.acquire(&Request::new(4 * words))?.bound_to(0, 0, Access::StorageReadWrite)?)
}

/// Programmatic edges, where the kernels wait for their predecessor.
fn options(kernel: &BoundLaunch) -> LaunchOptions {
    LaunchOptions { programmatic: kernel.pipeline().waits_for_predecessor(), ..LaunchOptions::default() }
}

impl Told {
    fn new(bench: &mut Bench) -> Outcome<Self> {
        let pair = words_of(bench, 2)?;
        bench.slab.fill(&mut bench.stream, &pair, 0)?;
        let words = Arc::new(bench.device.mapped_words(3)?);
        let address = |word: usize| words.device_address() + 8 * word as u64;
        let (scalar, wide) = (("value", Element::U32), Element::U64);
        let mut set =
            bench.kernel("set", &pair, &[scalar, ("n", Element::U32)], &[0, 0, 0, 0, 1, 0, 0, 0])?;
        let mut fetch = bench.kernel("fetch", &pair, &[("from", wide)], &address(VALUE).to_le_bytes())?;
        let values = [address(VALUE_OF_TURN).to_le_bytes(), PATIENCE_NS.to_le_bytes()].concat();
        let mut wait = bench.kernel("await", &pair, &[("from", wide), ("patience", wide)], &values)?;
        let mut middle = bench.increment(&pair)?;
        let mut last = bench.kernel("finish", &pair, &[("report", wide)], &address(RESULT).to_le_bytes())?;
        let options = options(&middle);
        let mut chain = |first: &mut BoundLaunch, slot: bool| -> Outcome<Graph> {
            let recording = bench.stream.capture(|scope| {
                scope.keep(&words)?;
                first.launch(scope)?;
                if slot {
                    scope.mark_scalar::<u32>("value", "value")?;
                }
                (2..KERNELS_A_TOKEN).try_for_each(|_| middle.launch_with(scope, options))?;
                last.launch_with(scope, options)
            })?;
            let mut graph = recording.instantiate()?;
            graph.upload(&mut bench.stream)?;
            Ok(graph)
        };
        let (by_slot, by_word, waiting) =
            (chain(&mut set, true)?, chain(&mut fetch, false)?, chain(&mut wait, false)?);
        let slot = by_slot.scalar_slot::<u32>("value")?;
        bench.stream.synchronize()?;
        Ok(Self { words, by_slot: (by_slot, slot), by_word, waiting, turn: 0 })
    }

    /// Each replay is launched while the one before it runs.
    fn ahead(&mut self, on: &mut Stream) -> Outcome<()> {
        self.waiting.replay(on)?;
        for token in 0..TOKENS {
            let turn = u64::from(self.turn.wrapping_add(1));
            self.words.store(VALUE_OF_TURN, turn << 32 | u64::from(token)).ok_or("no word")?;
            if token + 1 < TOKENS {
                self.waiting.replay(on)?;
            }
            self.result(token)?;
        }
        Ok(())
    }

    fn by_word(&mut self, on: &mut Stream) -> Outcome<()> {
        for token in 0..TOKENS {
            self.words.store(VALUE, u64::from(token)).ok_or("no word")?;
            self.by_word.replay(on)?;
            self.result(token)?;
        }
        Ok(())
    }

    fn by_slot(&mut self, on: &mut Stream) -> Outcome<()> {
        for token in 0..TOKENS {
            let (graph, slot) = &mut self.by_slot;
            graph.set(*slot, token)?;
            graph.replay(on)?;
            self.result(token)?;
        }
        Ok(())
    }

    /// Waits for the last kernel of this turn and checks what it tells.
    fn result(&mut self, token: u32) -> Outcome<()> {
        self.turn = self.turn.wrapping_add(1);
        loop {
            let told = self.words.load(RESULT).ok_or("no word")?;
            if (told >> 32) as u32 == self.turn {
                return check(token, told as u32, KERNELS_A_TOKEN - 1);
            }
            hint::spin_loop();
        }
    }
}

impl Ringed {
    fn new(bench: &mut Bench) -> Outcome<Self> {
        let slab = bench.slab.clone();
        let word = words_of(bench, 1)?;
        let mut block = ParameterBlock::new(&mut bench.stream, &slab, &word)?;
        let ring = ResultRing::new(&mut bench.stream, &slab, 4, 64)?;
        let mut kernel = bench.increment(&word)?;
        let options = options(&kernel);
        let recording = bench.stream.capture(|scope| {
            scope.feed(&mut block)?;
            (0..KERNELS_A_TOKEN).try_for_each(|_| kernel.launch_with(scope, options))?;
            scope.post(&ring, &slab, &word)
        })?;
        let mut graph = recording.instantiate()?;
        graph.upload(&mut bench.stream)?;
        bench.stream.synchronize()?;
        Ok(Self { stream: Stream::new(&bench.device)?, block, ring, graph })
    }

    fn run(&mut self) -> Outcome<()> {
        for token in 0..TOKENS {
            self.block.set(&token)?;
            self.graph.replay(&mut self.stream)?;
            let out: u32 = loop {
                if let Some(found) = self.ring.poll() {
                    break u32::from_le_bytes(found.try_into()?);
                }
                hint::spin_loop();
            };
            check(token, out, KERNELS_A_TOKEN)?;
        }
        Ok(())
    }
}
