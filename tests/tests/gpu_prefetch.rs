//! Prefetch on a real GPU: both guards hold over many rounds, and without either the results are wrong.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod gpu_support;

use cuforge_core::{Access, Arguments, BufferView, Element, Extent, Request};
use cuforge_launch::{Mailbox, Pipeline, Prefetcher, Stream};
use gpu_support::{Counting, PLAIN, Rig, Take, allocations, pack};
use std::time::Instant;

#[global_allocator]
static COUNTING: Counting = Counting;

const WORDS: u32 = 16 * 1024;
const BYTES: usize = WORDS as usize * 4;
const SCALAR: Take = Take::Scalar(Element::U32);

/// The sequence of `seed`, as the kernels have it.
fn sequence(seed: u32, out: &mut [u8]) {
    let words: &mut [u32] = bytemuck::cast_slice_mut(out);
    for (at, word) in (0u32..).zip(words) {
        *word = seed.wrapping_mul(2_654_435_761).wrapping_add(at);
    }
}

/// Launches the late check of `view` against `seed`.
fn check_late(
    rig: &mut Rig,
    kernel: &Pipeline,
    view: BufferView,
    wrong: BufferView,
    seed: u32,
    nanoseconds: u64,
) {
    let view = view.bound_to(0, 0, Access::StorageRead).unwrap();
    let mut values = pack(&[seed, WORDS]);
    values.extend(nanoseconds.to_le_bytes());
    let arguments = Arguments { views: &[view, wrong], by_value: &values };
    let slab = rig.slab.clone();
    kernel.launch(&mut rig.stream, &slab, arguments, Extent::Elements(u64::from(WORDS))).unwrap();
}

fn late_check(rig: &Rig) -> (Pipeline, BufferView) {
    let takes = [Take::Read, Take::Buffer, SCALAR, SCALAR, Take::Scalar(Element::U64)];
    (rig.kernel(PLAIN, "late_check", 256, &takes), rig.words(1, 1))
}

#[test]
#[ignore = "needs a GPU"]
fn a_guarded_prefetch_is_never_wrong() {
    let rounds = 100_000;
    let mut rig = Rig::new(8);
    let (kernel, wrong) = late_check(&rig);
    let mut prefetcher = Prefetcher::new(&rig.slab, &Request::new(BYTES as u64), 2).unwrap();
    let start = Instant::now();
    for seed in 0..rounds {
        prefetcher.push(BYTES, |bytes| sequence(seed, bytes)).unwrap();
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        check_late(&mut rig, &kernel, lease.view(), wrong, seed, 5_000);
    }
    assert_eq!(rig.read::<u32>(&wrong), [0]);
    println!("{rounds} rounds in {:?}", start.elapsed());
}

#[test]
#[ignore = "needs a GPU"]
fn without_the_guard_of_the_readers_results_are_wrong() {
    let mut rig = Rig::new(8);
    let (kernel, wrong) = late_check(&rig);
    let view = rig.words(u64::from(WORDS), 0);
    let mut copies = Stream::new(&rig.device).unwrap();
    let mut source = Some(rig.device.pinned(BYTES).unwrap());
    let slab = rig.slab.clone();
    for seed in 0..300 {
        let mut bytes = source.take().unwrap();
        sequence(seed, bytes.as_mut_slice());
        // The copy does not wait for the check that still reads the last round's bytes.
        let upload = slab.upload(&mut copies, &view, bytes, BYTES).unwrap();
        rig.stream.wait_for(&mut copies).unwrap();
        check_late(&mut rig, &kernel, view, wrong, seed, 2_000_000);
        source = Some(upload.wait().unwrap());
    }
    let wrong = rig.read::<u32>(&wrong)[0];
    println!("{wrong} words wrong");
    assert!(wrong > 0);
}

#[test]
#[ignore = "needs a GPU"]
fn without_the_guard_of_the_copy_results_are_wrong() {
    let mut rig = Rig::new(8);
    let (kernel, wrong) = late_check(&rig);
    let (view, count) = (rig.words(u64::from(WORDS), 0), rig.words(1, 0));
    let spin = rig.kernel(PLAIN, "spin", 1, &[Take::Buffer, Take::Scalar(Element::U64)]);
    let mut copies = Stream::new(&rig.device).unwrap();
    let mut source = Some(rig.device.pinned(BYTES).unwrap());
    let slab = rig.slab.clone();
    for seed in 0..200 {
        let mut bytes = source.take().unwrap();
        sequence(seed, bytes.as_mut_slice());
        copies.wait_for(&mut rig.stream).unwrap();
        let late = 100_000u64.to_le_bytes();
        let arguments = Arguments { views: &[count], by_value: &late };
        spin.launch(&mut copies, &slab, arguments, Extent::Elements(1)).unwrap();
        let upload = slab.upload(&mut copies, &view, bytes, BYTES).unwrap();
        // The check does not wait for the copy.
        check_late(&mut rig, &kernel, view, wrong, seed, 0);
        source = Some(upload.wait().unwrap());
    }
    let wrong = rig.read::<u32>(&wrong)[0];
    println!("{wrong} words wrong");
    assert!(wrong > 0);
}

#[test]
#[ignore = "needs a GPU"]
fn tickets_and_mailboxes_bring_what_was_there_and_allocate_nothing() {
    let mut rig = Rig::new(8);
    let view = rig.words(u64::from(WORDS), 0);
    let fill = rig.kernel(PLAIN, "fill", 256, &[Take::Buffer, SCALAR, SCALAR]);
    let mut mailbox = Mailbox::new(&rig.device, 4).unwrap();
    let (mut expected, mut got) = (vec![0u8; BYTES], vec![0u8; BYTES]);
    let slab = rig.slab.clone();
    let word = view.slice(0, 4).unwrap();
    let mut round = |rig: &mut Rig, seed: u32| {
        let values = [seed.to_le_bytes(), WORDS.to_le_bytes()];
        let arguments = Arguments { views: &[view], by_value: values.as_flattened() };
        fill.launch(&mut rig.stream, &slab, arguments, Extent::Elements(u64::from(WORDS))).unwrap();
        let ticket = slab.read_later(&mut rig.stream, &view).unwrap();
        slab.post(&mut rig.stream, &word, &mut mailbox).unwrap();
        slab.fill(&mut rig.stream, &view, 0xff).unwrap();
        sequence(seed, &mut expected);
        let first = loop {
            if let Some(bytes) = mailbox.poll() {
                break bytes == &expected[..4];
            }
        };
        ticket.wait_into(&mut got).unwrap();
        assert!(first && got == expected, "round {seed}");
    };
    round(&mut rig, 0);
    let made = allocations(|| (1..1_000).for_each(|seed| round(&mut rig, seed)));
    assert_eq!(made, 0);
}
