//! Seeds of the simulated driver: one seed gives one order of calls, copies, kernels and events, whatever else the machine does.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{Access, Arguments, Request};
use cuforge_launch::Stream;
use cuforge_tests::sim::Sim;
use launch_support::Rig;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const N: u32 = 256;
const STREAMS: usize = 3;
const NOT_READY: i32 = 600;

/// How busy the machine is while the program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Idle,
    /// Other threads compute.
    Crowded,
    /// The program itself rests between its calls.
    Slow,
}

/// What a program did: its trace without threads, addresses and times, and the floats it ended with.
#[derive(Debug, Eq, PartialEq)]
struct Run {
    trace: Vec<String>,
    floats: Vec<u32>,
}

/// Writes, launches and waits of three streams over the same buffers, some of them in a race; a look at a stream until
/// it is done; and what all of that left behind.
fn run(seed: u64, load: Load) -> Run {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if load == Load::Crowded {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::black_box((0..1000).sum::<u64>());
                    }
                });
            }
        }
        let run = traced(seed, load);
        stop.store(true, Ordering::Relaxed);
        run
    })
}

fn traced(seed: u64, load: Load) -> Run {
    let file = Sim::fresh_path().with_extension("trace");
    let (seed, path) = (seed.to_string(), file.to_str().unwrap().to_owned());
    let sim = Sim::new(&[("CUFORGE_SIM_SEED", &seed), ("CUFORGE_SIM_TRACE", &path)]).unwrap();
    let mut rig = Rig::on(sim, N);
    let query: extern "C" fn(*mut std::ffi::c_void) -> i32 = rig.sim.function("cuStreamQuery").unwrap();
    let mut streams: Vec<Stream> = (0..STREAMS).map(|_| Stream::new(&rig.device).unwrap()).collect();
    let mine = rig.slab.acquire(&Request::new(u64::from(N) * 4)).unwrap();
    let mine = mine.bound_to(0, 0, Access::StorageReadWrite).unwrap();
    for round in 0..6u32 {
        for (at, stream) in streams.iter_mut().enumerate() {
            let (target, a) = if at == 2 { (mine, 2.0f32) } else { (rig.y, 0.5) };
            let host = vec![(round as f32) + at as f32; N as usize];
            rig.slab.write_from(stream, &rig.x, &host).unwrap();
            let values = rig.values(a);
            let arguments = Arguments { views: &[target, rig.x], by_value: &values };
            let extent = rig.extent();
            rig.pipeline.launch(stream, &rig.slab, arguments, extent).unwrap();
            if load == Load::Slow {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        if round % 2 == 0 {
            let (first, rest) = streams.split_at_mut(1);
            first[0].wait_for(&mut rest[0]).unwrap();
        }
    }
    while query(streams[2].raw()) == NOT_READY {}
    streams.iter_mut().for_each(|stream| stream.synchronize().unwrap());
    let mut floats = vec![0f32; N as usize];
    rig.slab.read_into(&mut rig.stream, &rig.y, &mut floats).unwrap();
    let trace = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = |line: &str| {
        if line.starts_with("stream ") {
            return line.to_owned();
        }
        // "thread name(arguments) = answer time us"
        let name = line.split([' ', '(']).find(|word| word.starts_with("cu")).unwrap_or(line);
        let answer = line.rsplit(") = ").next().and_then(|end| end.split(' ').next());
        format!("{name} = {}", answer.unwrap_or_default())
    };
    Run { trace: trace.lines().map(line).collect(), floats: floats.iter().map(|f| f.to_bits()).collect() }
}

#[test]
fn a_seed_gives_the_same_order_of_calls_and_work_whatever_the_load() {
    for seed in [1, 2, 3] {
        let first = run(seed, Load::Idle);
        let work = first.trace.iter().filter(|line| line.starts_with("stream ")).count();
        assert!(work >= 6 * STREAMS * 2, "{work} pieces of work");
        for load in [Load::Idle, Load::Crowded, Load::Slow, Load::Crowded] {
            let again = run(seed, load);
            let differs = first.trace.iter().zip(&again.trace).position(|(one, other)| one != other);
            assert_eq!(
                differs,
                None,
                "seed {seed}, {load:?}: {:?}",
                differs.map(|at| (&first.trace[at], &again.trace[at]))
            );
            assert!(first == again, "seed {seed}, {load:?}");
        }
    }
}

#[test]
fn different_seeds_give_different_orders_and_a_race_different_results() {
    let runs: Vec<Run> = (1..=10).map(|seed| run(seed, Load::Idle)).collect();
    let orders: BTreeSet<_> = runs.iter().map(|run| &run.trace).collect();
    let results: BTreeSet<_> = runs.iter().map(|run| &run.floats).collect();
    assert!(orders.len() >= 9, "{} orders", orders.len());
    assert!(results.len() >= 2, "no seed shows the race");
}
