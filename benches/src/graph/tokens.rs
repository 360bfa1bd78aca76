//! Token loops: four bytes in, ten kernels, four bytes out.

use super::rig::{Bench, KERNELS_A_TOKEN};
use super::torch::Torch;
use crate::area::Measured;
use crate::figure::{Bar, Figure};
use crate::rounds::{compare, repeat};
use cuforge_core::{Access, BufferView, Element, Request};
use cuforge_launch::{BoundLaunch, Graph, LaunchOptions, ParameterBlock, ResultRing, Stream};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hint;
use std::sync::Arc;
use std::time::Instant;

impl Bench {
    /// Four bytes in, ten kernels, four bytes out.
    pub(super) fn tokens(&mut self, rounds: usize, torch: Option<&mut Torch>) -> Measured {
        const TOKENS: u32 = 200;
        let slab = self.slab.clone();
        let view = |words: u64| -> Result<BufferView, Box<dyn Error>> {
            Ok(slab.acquire(&Request::new(4 * words))?.bound_to(0, 0, Access::StorageReadWrite)?)
        };
        let (word, pair) = (view(1)?, view(2)?);
        slab.fill(&mut self.stream, &pair, 0)?;
        let mut block = ParameterBlock::new(&mut self.stream, &slab, &word)?;
        let mut ring = ResultRing::new(&mut self.stream, &slab, 4, 64)?;
        let mut kernel = self.increment(&word)?;
        let programmatic = kernel.pipeline().waits_for_predecessor();
        let options = LaunchOptions { programmatic, ..LaunchOptions::default() };
        let recording = self.stream.capture(|scope| {
            scope.feed(&mut block)?;
            (0..KERNELS_A_TOKEN).try_for_each(|_| kernel.launch_with(scope, options))?;
            scope.post(&ring, &slab, &word)
        })?;
        let mut through_ring = recording.instantiate()?;
        through_ring.upload(&mut self.stream)?;
        // The value as a slot of the first kernel, or out of mapped memory; the result told there by the last.
        let words = Arc::new(self.device.mapped_words(2)?);
        let at = words.device_address();
        let scalars = [("value", Element::U32), ("n", Element::U32)];
        let mut set = self.kernel("set", &pair, &scalars, &[0, 0, 0, 0, 1, 0, 0, 0])?;
        let mut fetch = self.kernel("fetch", &pair, &[("from", Element::U64)], &at.to_le_bytes())?;
        let mut middle = self.increment(&pair)?;
        let mut last = self.kernel("finish", &pair, &[("report", Element::U64)], &(at + 8).to_le_bytes())?;
        let mut chain = |first: &mut BoundLaunch, slot: bool| -> Result<Graph, Box<dyn Error>> {
            let recording = self.stream.capture(|scope| {
                scope.keep(&words)?;
                first.launch(scope)?;
                if slot {
                    scope.mark_scalar::<u32>("value", "value")?;
                }
                (2..KERNELS_A_TOKEN).try_for_each(|_| middle.launch_with(scope, options))?;
                last.launch_with(scope, options)
            })?;
            let mut graph = recording.instantiate()?;
            graph.upload(&mut self.stream)?;
            Ok(graph)
        };
        let (mut by_slot, mut by_word) = (chain(&mut set, true)?, chain(&mut fetch, false)?);
        let slot = by_slot.scalar_slot::<u32>("value")?;
        self.stream.synchronize()?;
        let other = Stream::new(&self.device)?;
        let (raw, raw_stream) = (self.raw, other.raw());
        let theirs = self.raw.capture(raw_stream, &self.raw_step, KERNELS_A_TOKEN)?;
        let at = self.slab.address_of(&self.word)?;
        let stream = &mut self.stream;
        let per_token = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(TOKENS);
        let turn = Cell::new(0u32);
        // Waits for the last kernel of this turn and checks what it tells.
        let told = |token: u32| -> Result<(), Box<dyn Error>> {
            turn.set(turn.get().wrapping_add(1));
            let out = loop {
                let told = words.load(1).ok_or("no word")?;
                if (told >> 32) as u32 == turn.get() {
                    break told as u32;
                }
                hint::spin_loop();
            };
            if out == token + KERNELS_A_TOKEN as u32 - 1 {
                Ok(())
            } else {
                Err(format!("token {token} came out as {out}").into())
            }
        };
        let stream = RefCell::new(stream);
        let mut ours = || {
            let mut stream = stream.borrow_mut();
            let start = Instant::now();
            for token in 0..TOKENS {
                by_slot.set(slot, token)?;
                by_slot.replay(&mut stream)?;
                told(token)?;
            }
            Ok(per_token(start))
        };
        let mut fetched = || {
            let mut stream = stream.borrow_mut();
            let start = Instant::now();
            for token in 0..TOKENS {
                words.store(0, u64::from(token)).ok_or("no word")?;
                by_word.replay(&mut stream)?;
                told(token)?;
            }
            Ok(per_token(start))
        };
        let second = &mut Stream::new(&self.device)?;
        let mut ringed = || {
            let start = Instant::now();
            for token in 0..TOKENS {
                block.set(&token)?;
                through_ring.replay(second)?;
                let out: u32 = loop {
                    if let Some(found) = ring.poll() {
                        break u32::from_le_bytes(found.try_into()?);
                    }
                    hint::spin_loop();
                };
                if out != token + KERNELS_A_TOKEN as u32 {
                    return Err(format!("token {token} came out as {out}").into());
                }
            }
            Ok(per_token(start))
        };
        let mut pageable = || {
            let start = Instant::now();
            for token in 0..TOKENS {
                let out = raw.token(theirs, raw_stream, at, token)?;
                if out != token + KERNELS_A_TOKEN as u32 {
                    return Err(format!("token {token} came out as {out}").into());
                }
            }
            Ok(per_token(start))
        };
        let mut figures = vec![
            Figure::new("token loop, value by slot", "ns", repeat(rounds, &mut ours)?, rounds),
            Figure::new("token loop, value in mapped memory", "ns", repeat(rounds, &mut fetched)?, rounds),
            Figure::new("token loop through block and ring", "ns", repeat(rounds, &mut ringed)?, rounds),
            Figure::new("token loop with pageable copies", "ns", repeat(rounds, &mut pageable)?, rounds),
        ];
        let spread = compare(rounds, &mut ours, &mut pageable)?;
        let in_words = compare(rounds, &mut fetched, &mut pageable)?;
        figures.push(Figure::new("value in mapped memory / pageable copies", "ratio", in_words, rounds));
        figures.push(
            Figure::new("token loop / pageable copies", "ratio", spread, rounds).with_bar(Bar::AtMost(0.5)),
        );
        if let Some(torch) = torch {
            let order = format!("tokens {TOKENS}");
            figures.push(Figure::new(
                "PyTorch's token loop",
                "ns",
                repeat(rounds, || torch.ask(&order))?,
                rounds,
            ));
            let spread = compare(rounds, &mut ours, || torch.ask(&order))?;
            figures.push(
                Figure::new("token loop / PyTorch's", "ratio", spread, rounds).with_bar(Bar::AtMost(0.36)),
            );
        }
        Ok(figures)
    }
}
