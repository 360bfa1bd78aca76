//! A transformer's decode step three ways: plain launches, a replayed graph with a slot, and a loop on the device. All
//! three give the same tokens.
//!
//! `cargo run --release -p cuforge --example decode` on a machine with a GPU, 200 tokens, and
//! `cargo xtask sim -- cargo run -p cuforge --example decode -- 4` on any machine, four of them.

mod model;

use cuforge::Session;
use model::{CAPACITY, Decoder};
use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

/// What the sequence begins with.
const PROMPT: [u32; 4] = [17, 404, 42, 7];

/// Tokens to generate unless the first argument says how many.
const WANTED: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().slab_bytes(64 << 20).build()?;
    println!("device       {}", session.device().adapter().name);
    let wanted = env::args().nth(1).map_or(Ok(WANTED), |text| text.parse())?;
    let ways = every_way(&mut session, wanted)?;
    let first = &ways[0].tokens;
    let shown: Vec<String> = first.iter().take(12).map(ToString::to_string).collect();
    println!("tokens       {} ..", shown.join(" "));
    for way in &ways {
        let each = way.time.as_secs_f64() * 1e6 / way.tokens.len() as f64;
        let same = if way.tokens == *first { "same tokens" } else { "OTHER TOKENS" };
        println!("{:12} {each:8.1} us a token, {same}", way.name);
    }
    if ways.iter().any(|way| way.tokens != *first) {
        return Err("the three ways do not agree".into());
    }
    Ok(())
}

/// One way to decode, and what came of it.
#[derive(Debug)]
struct Way {
    /// What it is.
    name: &'static str,
    /// The tokens after the prompt.
    tokens: Vec<u32>,
    /// How long they took.
    time: Duration,
}

/// Decodes `wanted` tokens in each of the three ways.
///
/// # Errors
/// Those of the session.
fn every_way(session: &mut Session, wanted: u32) -> Result<[Way; 3], Box<dyn Error>> {
    let last_of_prompt = PROMPT.len() as u32 - 1;
    let wanted = wanted.min(CAPACITY - PROMPT.len() as u32);
    let mut decoder = Decoder::new(session, last_of_prompt + wanted)?;
    let positions = last_of_prompt..last_of_prompt + wanted;
    // Once before the clock starts: the first launch of a kernel costs more.
    begin(session, &mut decoder)?;
    decoder.step(session.stream())?;

    begin(session, &mut decoder)?;
    let start = Instant::now();
    let mut tokens = Vec::new();
    for position in positions.clone() {
        decoder.place(session.stream(), position)?;
        decoder.step(session.stream())?;
        let mut token = [0; 4];
        session.read(&decoder.picked, &mut token)?;
        tokens.push(u32::from_le_bytes(token));
    }
    let plain = Way { name: "launches", tokens, time: start.elapsed() };

    begin(session, &mut decoder)?;
    let slab = session.slab().clone();
    let mut ring = session.result_ring(4, CAPACITY as usize)?;
    let recording = session.capture(|scope| {
        decoder.place(scope, 0)?;
        scope.mark_scalar::<u32>("position", "position")?;
        decoder.step(scope)?;
        scope.post(&ring, &slab, &decoder.picked)
    })?;
    let mut graph = recording.instantiate()?;
    let slot = graph.scalar_slot::<u32>("position")?;
    graph.upload(session.stream())?;
    session.synchronize()?;
    let start = Instant::now();
    let mut tokens = Vec::new();
    for position in positions {
        graph.set(slot, position)?;
        session.replay(&mut graph)?;
        tokens.push(ring.wait_value()?);
    }
    let replayed = Way { name: "graph", tokens, time: start.elapsed() };

    begin(session, &mut decoder)?;
    let (go, picked) = (decoder.go, decoder.picked);
    let mut looped = session.device_loop(&go, wanted, |body| {
        decoder.step(body)?;
        body.post(&ring, &slab, &picked)?;
        decoder.advance(body)
    })?;
    decoder.place(session.stream(), last_of_prompt)?;
    session.synchronize()?;
    let start = Instant::now();
    looped.run(session.stream())?;
    // They stream in while the loop runs.
    let mut tokens = Vec::new();
    for _ in 0..wanted {
        tokens.push(ring.wait_value()?);
    }
    let time = start.elapsed();
    if looped.iterations(session.stream())? != u64::from(wanted) {
        return Err("the loop ran another number of times".into());
    }
    Ok([plain, replayed, Way { name: "device loop", tokens, time }])
}

/// Puts the prompt's tokens there and runs their steps, but for the last, whose pick is the first that is wanted.
fn begin(session: &mut Session, decoder: &mut Decoder) -> Result<(), Box<dyn Error>> {
    for (position, _) in (0u32..).zip(&PROMPT[1..]) {
        // A step writes the token after it: the prompt goes over what the step before picked.
        let prompt: Vec<u8> = PROMPT.iter().flat_map(|token| token.to_le_bytes()).collect();
        session.write(&decoder.tokens, &prompt)?;
        decoder.place(session.stream(), position)?;
        decoder.step(session.stream())?;
    }
    let prompt: Vec<u8> = PROMPT.iter().flat_map(|token| token.to_le_bytes()).collect();
    session.write(&decoder.tokens, &prompt)?;
    session.synchronize()?;
    Ok(())
}
