//! Capture launches into a graph, replay it with one driver call, and patch a scalar between replays.
//!
//! `cargo run -p cuforge --example capture_and_replay` on a machine with a GPU and NVRTC, and
//! `cargo xtask sim -- cargo run -p cuforge --example capture_and_replay` on any machine.

use std::error::Error;
use std::process::ExitCode;

use cuforge::Session;
use cuforge::core::{
    Access, Arguments, BuildOptions, Element, Extent, KernelSpec, Parameter, Request, Schedule,
};

const STEP: &str = r#"
extern "C" __global__ void step(unsigned *x, unsigned add, unsigned n) {
    unsigned i = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    if (i < n) x[i] = 3 * x[i] + add;
}"#;

const N: u32 = 1000;
const LAUNCHES: u32 = 8;
const REPLAYS: u32 = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("capture_and_replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().slab_bytes(8 << 20).build()?;
    println!("device    {}", session.device().adapter().name);
    let x = Parameter::buffer("x", 0, Element::U32, Access::StorageReadWrite);
    let scalars = ["add", "n"].map(|name| Parameter::scalar(name, Element::U32));
    // SAFETY: the guard keeps every access within the `n` elements of the buffer.
    let step = unsafe { KernelSpec::cuda_c("step", "step", STEP, [vec![x], scalars.to_vec()].concat()) };
    let pipeline = session.prepare(&step, &Schedule::new([128, 1, 1]), &BuildOptions::default())?;

    let view = session.allocate(&Request::new(u64::from(N) * 4))?;
    let view = view.bound_to(0, 0, Access::StorageReadWrite)?;
    session.write(&view, &[0; N as usize * 4])?;
    let by_value = [0u32.to_le_bytes(), N.to_le_bytes()].concat();
    let arguments = Arguments { views: &[view], by_value: &by_value };
    let mut launch = session.bind(&pipeline, arguments, Extent::Elements(N.into()))?;

    // The same launch code as for a stream; inside the closure nothing runs yet.
    let recording = session.capture(|scope| {
        for _ in 0..LAUNCHES {
            launch.launch(scope)?;
            scope.mark_scalar::<u32>("add", "add")?;
        }
        Ok(())
    })?;
    let mut graph = recording.instantiate()?;
    let mut expected = 0u32;
    for add in 1..=REPLAYS {
        graph.set_scalar("add", add)?;
        graph.replay(session.stream())?;
        expected = (0..LAUNCHES).fold(expected, |x, _| x.wrapping_mul(3).wrapping_add(add));
    }
    let got: Vec<u32> = session.read_vec(&view)?;
    let wrong = got.iter().filter(|x| **x != expected).count();
    println!("graph     {} nodes, {REPLAYS} replays, {wrong} of {N} elements wrong", graph.node_count());
    if wrong == 0 { Ok(()) } else { Err("a replay computed something else".into()) }
}
