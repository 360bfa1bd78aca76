//! Prefetch on a real GPU: both guards hold over many rounds, and without either the results are wrong.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod gpu_support;

use cuforge_core::{Access, Arguments, BufferView, Element, Extent, Request};
use cuforge_launch::{Mailbox, Pipeline, Prefetcher, Stream};
use gpu_support::{Counting, PLAIN, Rig, Take, allocations, pack, side_by_side, unless_sanitized};
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
    values.extend((nanoseconds / u64::from(rig.rounds(1, 20))).to_le_bytes());
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
    guarded(1_000);
}

#[test]
#[ignore = "needs a GPU: soak"]
fn a_guarded_prefetch_is_never_wrong_in_100_000_rounds() {
    guarded(100_000);
}

fn guarded(rounds: u32) {
    let mut rig = Rig::new(8);
    let (kernel, wrong) = late_check(&rig);
    let mut prefetcher = Prefetcher::new(&rig.slab, &Request::new(BYTES as u64), 2).unwrap();
    let start = Instant::now();
    let rounds = rig.rounds(unless_sanitized(rounds, 200), rounds.min(200));
    for seed in 0..rounds {
        prefetcher.push(BYTES, |bytes| sequence(seed, bytes)).unwrap();
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        check_late(&mut rig, &kernel, lease.view(), wrong, seed, 5_000);
    }
    assert_eq!(rig.read::<u32>(&wrong), [0]);
    println!("{rounds} rounds in {:?}", start.elapsed());
}

/// A source that is told apart from any other by its own seed.
fn seeded(seed: u32, bytes: usize) -> Vec<u8> {
    let mut words = vec![0u32; bytes.div_ceil(4)];
    sequence(seed, bytemuck::cast_slice_mut(&mut words));
    bytemuck::cast_slice(&words)[..bytes].to_vec()
}

#[test]
#[ignore = "needs a GPU"]
fn a_prefetch_from_owned_memory_is_never_wrong_and_gives_every_buffer_back() {
    let mut rig = Rig::new(8);
    let (kernel, wrong) = late_check(&rig);
    let mut prefetcher = Prefetcher::new(&rig.slab, &Request::new(BYTES as u64), 3).unwrap();
    let mut sources: Vec<_> = (0..3).map(|seed| Some(seeded(seed, BYTES))).collect();
    let mut tickets = std::collections::VecDeque::new();
    for seed in 0..rig.rounds(unless_sanitized(2_000, 150), 60) {
        let source = match sources.pop().flatten() {
            Some(source) => source,
            None => {
                let ticket: cuforge_launch::OwnedUpload<Vec<u8>> = tickets.pop_front().unwrap();
                ticket.wait().unwrap()
            }
        };
        let mut source = source;
        assert_eq!(source.len(), BYTES);
        sequence(seed, &mut source);
        // Pinned, staged and owned pushes share the buffers.
        if seed % 7 == 3 {
            prefetcher.push(BYTES, |bytes| sequence(seed, bytes)).unwrap();
            sources.push(Some(source));
        } else {
            tickets.push_back(prefetcher.push_owned(source).unwrap());
        }
        let lease = prefetcher.take(&mut rig.stream).unwrap().unwrap();
        check_late(&mut rig, &kernel, lease.view(), wrong, seed, 5_000);
    }
    assert_eq!(rig.read::<u32>(&wrong), [0]);
    let full: Vec<_> = (0..3).map(|_| prefetcher.push_owned(vec![0; 4]).unwrap()).collect();
    let refused = prefetcher.push_owned(vec![7; 9]).unwrap_err();
    assert!(matches!(refused.error, cuforge_launch::LaunchError::PrefetchFull { depth: 3 }));
    assert_eq!(refused.source, [7; 9]);
    for ticket in full {
        assert_eq!(ticket.wait().unwrap(), [0; 4]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn uploads_from_owned_memory_keep_their_place_in_the_stream() {
    let mut rig = Rig::new(128);
    let slab = rig.slab.clone();
    // Over three chunks and a rest, beyond what a chunk holds, and less.
    for bytes in [(40 << 20) + 12, 8 << 20, 100, 0] {
        let view = slab.acquire(&Request::new(bytes.max(4) as u64)).unwrap();
        slab.fill(&mut rig.stream, &view, 0xee).unwrap();
        let first = slab.upload_owned(&mut rig.stream, &view, seeded(1, bytes)).unwrap();
        let second = slab.upload_owned(&mut rig.stream, &view, seeded(2, bytes)).unwrap();
        // Submitted after both, so it sees the second one's bytes behind its own.
        slab.write(&mut rig.stream, &view.slice(0, 4).unwrap(), &[9, 9, 9, 9]).unwrap();
        let ticket = slab.read_later(&mut rig.stream, &view).unwrap();
        let got = ticket.wait_vec::<u8>().unwrap();
        assert!(second.is_done());
        assert!(first.wait().unwrap() == seeded(1, bytes));
        let source = second.wait().unwrap();
        assert!(got[..4] == [9; 4] && got[4..] == source[4.min(bytes)..], "{bytes} bytes");
        slab.release(view).unwrap();
    }
    let view = slab.acquire(&Request::new(64)).unwrap();
    let long = slab.upload_owned(&mut rig.stream, &view, vec![1u8; 65]).unwrap_err();
    assert!(matches!(long.error, cuforge_launch::LaunchError::TooLong { bytes: 65, view_bytes: 64 }));
    // A boxed slice, a shared one, and a stream dropped before its upload is through.
    slab.upload_owned(&mut rig.stream, &view, vec![2u8; 64].into_boxed_slice()).unwrap().wait().unwrap();
    let mut other = Stream::new(&rig.device).unwrap();
    let big = slab.acquire(&Request::new(48 << 20)).unwrap();
    let shared: std::sync::Arc<[u8]> = seeded(5, 48 << 20).into();
    let ticket = slab.upload_owned(&mut other, &big, shared.clone()).unwrap();
    drop(other);
    ticket.wait().unwrap();
    assert!(slab.read_vec::<u8>(&mut rig.stream, &big).unwrap() == *shared);
    let dropped = slab.upload_owned(&mut rig.stream, &big, seeded(6, 48 << 20)).unwrap();
    drop(dropped);
    assert!(slab.read_vec::<u8>(&mut rig.stream, &big).unwrap() == seeded(6, 48 << 20));
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
    for seed in 0..rig.rounds(300, 10) {
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
    assert!(wrong > 0 || !side_by_side());
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
    for seed in 0..rig.rounds(200, 20) {
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
    assert!(wrong > 0 || !side_by_side());
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
    let rounds = rig.rounds(unless_sanitized(1_000, 100), 100);
    let made = allocations(|| (1..rounds).for_each(|seed| round(&mut rig, seed)));
    assert_eq!(made, 0);
}
