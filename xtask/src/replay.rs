//! The part of the main job that needs a driver: launches bound once, captured, replayed and patched, each result checked.
//!
//! It runs in a process of its own, so that the simulated driver can stand where that process looks for NVIDIA's.

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::Duration;

use cuforge::Session;
use cuforge_core::{Access, Arguments, BufferView, BuildOptions, Extent, Request};
use cuforge_oracle::corpus::{self, Form};
use serde::{Deserialize, Serialize};

use crate::arguments::Arguments as Words;
use crate::ending::{Ending, Stop};
use crate::process;

/// The hidden verb of the child.
pub(crate) const VERB: &str = "replay";
const USAGE: &str =
    "usage: cargo xtask replay\n\nCaptures and replays a kernel on the first device; prints JSON.";
/// A replay that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Launches there and back in one graph.
const ROUND_TRIPS: u32 = 8;
const REPLAYS: u32 = 4;
const ELEMENTS: u32 = 4099;

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Replayed {
    /// The driver library by its real path.
    pub(crate) driver: String,
    /// Nodes of the graph.
    pub(crate) nodes: usize,
    /// How often it was replayed.
    pub(crate) replays: u32,
    /// How many elements there were.
    pub(crate) elements: u32,
    /// How many of them were not what plain launches make of them.
    pub(crate) wrong: usize,
}

impl Replayed {
    /// In one line.
    pub(crate) fn line(&self) -> String {
        let Self { nodes, replays, elements, wrong, .. } = self;
        format!(
            "{nodes} launches captured, {replays} replays with other values each, \
             {wrong} of {elements} elements differ from plain launches"
        )
    }
}

/// Captures and replays on the device that a child with `variables` set finds.
///
/// # Errors
///
/// What went wrong, in words.
pub(crate) fn ask(variables: &[(String, String)]) -> Result<Replayed, String> {
    let program = env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let mut command = Command::new(program);
    command.arg(VERB).envs(variables.iter().map(|(name, value)| (name, value)));
    let captured = process::capture_group(command, LIMIT).map_err(|error| error.to_string())?;
    if !captured.succeeded() {
        let said = captured.stderr.lines().last().unwrap_or_default().to_owned();
        return Err(if said.is_empty() { captured.ending() } else { said });
    }
    let last = captured.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("its answer: {error}"))
}

/// The child.
pub(crate) fn run(arguments: Words) -> Result<Ending, Stop> {
    arguments.options(USAGE).none()?;
    let replayed = replay().map_err(|error| Stop::failed(format!("capture and replay: {error}")))?;
    let text = serde_json::to_string(&replayed).map_err(|error| Stop::failed(error.to_string()))?;
    println!("{text}");
    Ok(Ending::Good)
}

/// The corpus' first kernel in hand-written PTX, so that no compiler is needed: `y = scale * x + bias`, to and fro between two
/// buffers. Plain launches do the same in two others, and the bits must be equal.
fn replay() -> Result<Replayed, Box<dyn Error>> {
    let affine = corpus::find("affine").ok_or("the corpus has no kernel affine")?;
    let spec = affine.spec(Form::WrittenPtx).ok_or("affine is not there in PTX")?;
    let schedule = affine.schedules(Form::WrittenPtx).into_iter().next().ok_or("affine has no schedule")?;
    let mut session = Session::builder().slab_bytes(8 << 20).build()?;
    let pipeline = session.prepare(&spec, &schedule, &BuildOptions::default())?;
    let extent = Extent::Elements(ELEMENTS.into());
    let (graph_views, plain_views) = (buffers(&mut session)?, buffers(&mut session)?);

    let first = values(0);
    let mut bound = Vec::new();
    for views in &graph_views {
        bound.push(session.bind(&pipeline, Arguments { views, by_value: &first }, extent)?);
    }
    let recording = session.capture(|scope| {
        for _ in 0..ROUND_TRIPS {
            for launch in &mut bound {
                launch.launch(scope)?;
                scope.mark_uniform::<[u8; 16]>("values")?;
            }
        }
        Ok(())
    })?;
    let mut graph = recording.instantiate()?;
    let slot = graph.uniform_slot::<[u8; 16]>("values")?;
    for replay in 0..REPLAYS {
        let values = values(replay);
        graph.set(slot, values)?;
        graph.replay(session.stream())?;
        let slab = session.slab().clone();
        for views in (0..ROUND_TRIPS).flat_map(|_| &plain_views) {
            pipeline.launch(session.stream(), &slab, Arguments { views, by_value: &values }, extent)?;
        }
    }
    // Each pair ends in the buffer that its second launch writes.
    let (replayed, plain) =
        (session.read_vec::<u32>(&graph_views[1][1])?, session.read_vec::<u32>(&plain_views[1][1])?);
    let wrong = replayed.iter().zip(&plain).filter(|(replayed, plain)| replayed != plain).count();
    let driver = session.device().driver().library().display().to_string();
    let nodes = graph.node_count();
    drop((graph, recording, bound));
    session.close()?;
    Ok(Replayed { driver, nodes, replays: REPLAYS, elements: ELEMENTS, wrong })
}

/// Two buffers, bound both ways: from the first into the second, and back.
fn buffers(session: &mut Session) -> Result<[[BufferView; 2]; 2], Box<dyn Error>> {
    let request = Request::new(u64::from(ELEMENTS) * 4);
    let (a, b) = (session.allocate(&request)?, session.allocate(&request)?);
    let start: Vec<u8> = (0..ELEMENTS).flat_map(|i| (i as f32 / 64.0 - 7.0).to_le_bytes()).collect();
    session.write(&a, &start)?;
    session.write(&b, &start)?;
    let bound = |from: &BufferView, to: &BufferView| {
        Ok::<_, Box<dyn Error>>([
            from.bound_to(0, 0, Access::StorageRead)?,
            to.bound_to(0, 1, Access::StorageReadWrite)?,
        ])
    };
    Ok([bound(&a, &b)?, bound(&b, &a)?])
}

/// The uniform block of the kernel: element count, scale and bias, which differ from replay to replay.
fn values(replay: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&u64::from(ELEMENTS).to_le_bytes());
    bytes[8..12].copy_from_slice(&(1.0 - 0.125 * replay as f32).to_le_bytes());
    bytes[12..].copy_from_slice(&(0.5 + replay as f32).to_le_bytes());
    bytes
}
