//! Memory on a real GPU: copies whole at every size, growth under running kernels, nothing granted while in use.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program, its helpers included")]

mod gpu_support;

use cuforge_core::{Access, Arguments, Element, Extent, Lifetime, Request, SlabAllocator};
use cuforge_launch::{Device, DeviceOptions, Driver, LaunchError, SlabOptions, Stream};
use cuforge_slab::{RegionLayout, RegionSlab, SlabLimits};
use gpu_support::{Counting, PLAIN, Rig, Take, assert_comes_back, side_by_side, unless_sanitized};
use std::time::Instant;

#[global_allocator]
static COUNTING: Counting = Counting;

const SCALAR: Take = Take::Scalar(Element::U32);

/// Sizes and rounds in full: without it a test is short enough for compute-sanitizer.
fn long() -> bool {
    std::env::var_os("CUFORGE_LONG").is_some()
}

fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

#[test]
#[ignore = "needs a GPU"]
fn copies_of_every_size_arrive_whole_in_both_directions() {
    let mut rig = Rig::new(512);
    let slab = rig.slab.clone();
    // Around a segment of the ring, the whole ring, and the chunks of large writes.
    let mut sizes = vec![1, 3, 4096, 524_287, 524_288, 524_289, (4 << 20) - 1, 4 << 20, (32 << 20) + 13];
    sizes.retain(|len| *len <= rig.rounds(u32::MAX, 4 << 20) as usize);
    if long() {
        sizes.extend([(64 << 20) + 13, 300 << 20]);
    }
    let most = sizes.iter().copied().max().unwrap_or(1);
    let target = slab.acquire(&Request::new(most as u64)).unwrap();
    for (salt, len) in (1..).zip(sizes) {
        let bytes = pattern(len, salt);
        slab.write(&mut rig.stream, &target, &bytes).unwrap();
        let mut out = vec![0; len];
        slab.read(&mut rig.stream, &target, &mut out).unwrap();
        assert!(out == bytes, "{len} bytes differ");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn many_small_writes_in_a_row_keep_their_bytes_though_the_ring_turns() {
    let mut rig = Rig::new(256);
    let slab = rig.slab.clone();
    let count = if long() { 2_000 } else { rig.rounds(200, 60) };
    let views: Vec<_> = (0..count).map(|_| slab.acquire(&Request::new(100_000)).unwrap()).collect();
    for (salt, view) in (1u64..).zip(&views) {
        slab.write(&mut rig.stream, view, &pattern(100_000, salt)).unwrap();
    }
    for (salt, view) in (1u64..).zip(&views) {
        let mut out = vec![0; 100_000];
        slab.read(&mut rig.stream, view, &mut out).unwrap();
        assert!(out == pattern(100_000, salt), "view {salt}");
    }
    println!("waits for staging: {}", rig.stream.staging_waits());
}

#[test]
#[ignore = "needs a GPU"]
fn fresh_bytes_are_zero_and_the_slab_grows_under_a_running_kernel_without_moving() {
    let mut rig = Rig::with(64, SlabOptions { reserve_bytes: Some(8 << 30), ..SlabOptions::default() });
    let done = rig.words(1, 0);
    rig.write(&done, &[0u32]);
    let first = rig.words(1 << 20, 0);
    assert!(rig.read::<u32>(&first).iter().all(|word| *word == 0));
    let address = rig.slab.address_of(&first).unwrap();
    let spin = rig.kernel(PLAIN, "spin", 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
    let nanoseconds = u64::from(rig.rounds(300_000_000, 20_000_000)).to_le_bytes();
    let arguments = Arguments { views: &[done], by_value: &nanoseconds };
    let mut bound = spin.bind(&rig.slab, arguments, Extent::Elements(1)).unwrap();
    bound.launch(&mut rig.stream).unwrap();
    let start = Instant::now();
    let more: u64 = if long() { 1 << 30 } else { u64::from(rig.rounds(128 << 20, 16 << 20)) };
    rig.slab.grow(more).unwrap();
    let grown = start.elapsed();
    assert!(!rig.stream.is_idle().unwrap(), "the kernel was waited for: growth took {grown:?}");
    println!("grew by {} MiB in {grown:?} under a running kernel", more >> 20);
    let big = rig.slab.acquire(&Request::new(more)).unwrap();
    assert!(rig.read::<u64>(&big).iter().all(|word| *word == 0));
    assert_eq!(rig.slab.address_of(&first).unwrap(), address);
    assert_eq!(rig.read::<u32>(&done), [1]);
}

#[test]
#[ignore = "needs a GPU"]
fn poison_shows_in_what_nobody_wrote() {
    let mut rig = Rig::with(2, SlabOptions { poison: Some(0xa5), ..SlabOptions::default() });
    let view = rig.words(1000, 0);
    assert!(rig.read::<u32>(&view).iter().all(|word| *word == 0xa5a5_a5a5));
}

/// Words of a transient buffer.
const WORDS: u32 = 16_384;

/// Every round takes a buffer, fills it, has a kernel on another stream check every word of it, and gives it back at once,
/// while both kernels are still to run. Some 32 buffers fit.
fn transients_stay_whole(allocator: Box<dyn SlabAllocator + Send>, device: Device, rounds: u32) {
    let mut rig = Rig::over(device, allocator);
    let wrong = rig.words(1, 1);
    rig.write(&wrong, &[0u32]);
    let fill = rig.kernel(PLAIN, "fill", 256, &[Take::Buffer, SCALAR, SCALAR]);
    let check = rig.kernel(PLAIN, "check", 256, &[Take::Read, Take::Buffer, SCALAR, SCALAR]);
    let mut other = Stream::new(&rig.device).unwrap();
    let (slab, extent) = (rig.slab.clone(), Extent::Elements(u64::from(WORDS)));
    let request = Request::new(u64::from(WORDS) * 4).with_lifetime(Lifetime::Transient);
    let mut waited = 0;
    let rounds = rig.rounds(unless_sanitized(rounds, 300), rounds.min(100));
    for seed in 0..rounds {
        let view = match slab.acquire(&request) {
            Ok(view) => view,
            Err(LaunchError::Refused(_)) => {
                waited += 1;
                slab.acquire_waiting(&mut [&mut rig.stream, &mut other], &request).unwrap()
            }
            Err(error) => panic!("{error}"),
        };
        let view = view.bound_to(0, 0, Access::StorageReadWrite).unwrap();
        let values = [seed.to_le_bytes(), WORDS.to_le_bytes()];
        let by_value = values.as_flattened();
        fill.launch(&mut rig.stream, &slab, Arguments { views: &[view], by_value }, extent).unwrap();
        // Filled on one stream, checked on another.
        other.wait_for(&mut rig.stream).unwrap();
        check.launch(&mut other, &slab, Arguments { views: &[view, wrong], by_value }, extent).unwrap();
        slab.release(view).unwrap();
    }
    other.synchronize().unwrap();
    assert_eq!(rig.read::<u32>(&wrong), [0]);
    println!("{rounds} rounds, {waited} of them waited for memory");
    assert!(waited > 0, "memory never ran short, so nothing was shown");
}

/// The default allocator with a ring of half a slab for transients.
fn regions() -> Box<dyn SlabAllocator + Send> {
    let layout = RegionLayout { transient_bytes: 1 << 20, read_only_bytes: 0 };
    Box::new(RegionSlab::with_layout(2 << 20, layout, SlabLimits::default()).unwrap())
}

#[test]
#[ignore = "needs a GPU"]
fn transient_memory_is_never_granted_while_work_in_flight_uses_it() {
    for allocator in [gpu_support::FirstFit::boxed(2 << 20), regions()] {
        transients_stay_whole(allocator, Device::open(0).unwrap(), 2_000);
    }
}

#[test]
#[ignore = "needs a GPU: soak"]
fn a_million_transients_stay_whole_in_the_default_allocator() {
    transients_stay_whole(regions(), Device::open(0).unwrap(), if long() { 1_000_000 } else { 50_000 });
}

#[test]
#[ignore = "needs a GPU: soak"]
fn a_million_transients_stay_whole_in_a_plain_allocator() {
    let allocator = gpu_support::FirstFit::boxed(2 << 20);
    transients_stay_whole(allocator, Device::open(0).unwrap(), if long() { 1_000_000 } else { 50_000 });
}

#[test]
#[ignore = "needs a GPU"]
fn where_streams_cannot_write_words_events_tell_how_far_they_are() {
    let options = DeviceOptions { seal_by_events: true, ..DeviceOptions::default() };
    let device = Device::open_with(Driver::load().unwrap(), 0, options).unwrap();
    assert!(device.seals_by_events() && !Device::open(0).unwrap().seals_by_events());
    transients_stay_whole(regions(), device.clone(), 2_000);
    let mut rig = Rig::over(device, gpu_support::FirstFit::boxed(8 << 20));
    let slab = rig.slab.clone();
    let views: Vec<_> = (0..60).map(|_| slab.acquire(&Request::new(100_000)).unwrap()).collect();
    for (salt, view) in (1u64..).zip(&views) {
        slab.write(&mut rig.stream, view, &pattern(100_000, salt)).unwrap();
    }
    let tickets: Vec<_> = views.iter().map(|view| slab.read_later(&mut rig.stream, view).unwrap()).collect();
    for (salt, ticket) in (1u64..).zip(tickets) {
        assert!(ticket.wait_vec::<u8>().unwrap() == pattern(100_000, salt), "view {salt}");
    }
    // A kernel that runs is seen as running, and as done afterwards.
    let done = rig.words(1, 0);
    let spin = rig.kernel(PLAIN, "spin", 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
    let nanoseconds = u64::from(rig.rounds(300_000_000, 20_000_000)).to_le_bytes();
    let arguments = Arguments { views: &[done], by_value: &nanoseconds };
    spin.launch(&mut rig.stream, &slab, arguments, Extent::Elements(1)).unwrap();
    let ticket = slab.read_later(&mut rig.stream, &done).unwrap();
    assert!(!ticket.is_done() || !side_by_side());
    ticket.wait_vec::<u32>().unwrap();
    assert!(rig.stream.is_idle().unwrap());
}

#[test]
#[ignore = "needs a GPU"]
fn a_dropped_device_gives_its_slabs_back_while_others_hold_the_context() {
    let held = Device::open(0).unwrap();
    let (before, _) = held.memory_info().unwrap();
    for _ in 0..4 {
        let mut rig = Rig::new(1024);
        let view = rig.words(1, 0);
        rig.write(&view, &[1u32]);
        rig.stream.synchronize().unwrap();
    }
    assert_comes_back(&held, before, 256);
}

#[test]
#[ignore = "needs a GPU"]
fn what_waits_for_kernels_is_freed_by_close_and_the_memory_comes_back() {
    let device = Device::open(0).unwrap();
    let (before, _) = device.memory_info().unwrap();
    for _ in 0..3 {
        let mut rig = Rig::new(1024);
        let view = rig.words(1, 0);
        rig.write(&view, &[1u32]);
        rig.stream.synchronize().unwrap();
        let device = rig.device.clone();
        drop(rig);
        let closed = device.close().unwrap();
        println!("{closed:?}");
        assert!(closed.freed >= 2 && closed.drop_errors == 0);
    }
    assert_comes_back(&device, before, 256);
}

#[test]
#[ignore = "needs a GPU"]
fn cudarc_contexts_and_streams_come_in_and_go_out() {
    let context = cudarc::driver::CudaContext::new(0).unwrap();
    let theirs = context.new_stream().unwrap();
    let device = Device::from_cudarc(&context).unwrap();
    let slab =
        cuforge_launch::Slab::new(&device, gpu_support::FirstFit::boxed(2 << 20), SlabOptions::default())
            .unwrap();
    let mut stream = Stream::from_cudarc(&device, &theirs).unwrap();
    let view = slab.acquire(&Request::new(64)).unwrap();
    slab.write(&mut stream, &view, &[7; 64]).unwrap();
    // cudarc's stream sees what ours wrote.
    theirs.synchronize().unwrap();
    assert_eq!(slab.read_vec::<u8>(&mut stream, &view).unwrap(), [7; 64]);
    let ours = Device::open(0).unwrap();
    let back = ours.to_cudarc().unwrap();
    assert_eq!(back.cu_ctx().cast::<std::ffi::c_void>(), ours.raw_context());
    drop((stream, slab));
    device.close().unwrap();
    drop((device, theirs, context));
    Stream::new(&ours).unwrap().synchronize().unwrap();
}
