//! Pieces of work that streams do: copies, fills, kernels, marks, waits.

use cuforge_sim::Touch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::codes::{Answer, Code};
use crate::device::Device;
use crate::event::Mark;
use crate::function::Launch;
use crate::machine::Machine;
use crate::order::{self, Clock, Span};
use crate::progress::Progress;
use crate::scene::Scene;
use crate::transfer::{Copy, Fill};

/// How often a waiting stream looks at the word it waits for.
const POLL: Duration = Duration::from_micros(20);

/// A function of the program, with what it is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// `CUhostFn`.
    Host(extern "C" fn(usize), usize),
    /// `CUstreamCallback`, with the stream.
    Callback(extern "C" fn(u64, i32, usize), u64, usize),
}

/// A word that a stream writes or waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) address: u64,
    pub(crate) value: u64,
    /// 4 or 8.
    pub(crate) bytes: usize,
}

/// When a word that is waited for will do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Until {
    /// `(int)(word - value) >= 0`
    AtLeast,
    Equal,
    /// `(word & value) != 0`
    Any,
    /// `~(word | value) != 0`
    Nor,
}

/// A graph that can be replayed.
pub(crate) trait Replay: std::fmt::Debug + Send + Sync {
    /// Does all of it.
    fn replay(&self, scene: Scene<'_>);

    /// What it touches, kernels apart.
    fn spans(&self) -> Vec<Span>;
}

/// A piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Copy(Copy),
    Fill(Fill),
    Kernel(Arc<Launch>),
    Call(Call),
    Write(Word),
    Await(Word, Until),
    /// An event's mark is reached.
    Reach(Arc<Mark>),
    /// An event's mark of another stream, or of this one.
    Wait(Arc<Mark>),
    /// Work of another stream up to that number, and what happens before that.
    After(Arc<Progress>, u64, Clock),
    /// The end of an allocation in stream order.
    Free(u64),
    /// A replay of an executable graph.
    Graph(Arc<dyn Replay>),
}

/// Does a piece of work. A lost device does none but what others wait for; what cannot be done loses it.
pub(crate) fn perform(scene: Scene<'_>, op: Op) {
    match op {
        Op::Reach(mark) => mark.reach(),
        Op::Wait(mark) => mark.wait(),
        Op::After(stream, position, _) => stream.wait_for(position),
        _ if scene.device.lost().is_some() => {}
        op => {
            let done = catch_unwind(AssertUnwindSafe(|| attempt(scene, &op)));
            let failed = match done {
                Ok(Ok(())) => return,
                Ok(Err(code)) => code,
                Err(_) => Code::UNKNOWN,
            };
            // A kernel that faults has said so itself, and the first word stays.
            scene.device.lose(failed, op.words());
        }
    }
}

fn attempt(scene: Scene<'_>, op: &Op) -> Answer {
    let Scene { machine, device, .. } = scene;
    // What was valid when it was queued may have been freed since: then hardware finds no memory there.
    let gone = |_| Code::ILLEGAL_ADDRESS;
    match op {
        Op::Copy(copy) => machine.space.copy(copy).map_err(gone),
        Op::Fill(fill) => machine.space.fill(fill).map_err(gone),
        Op::Kernel(launch) => launch.run(scene),
        Op::Call(Call::Host(function, data)) => {
            function(*data);
            Ok(())
        }
        Op::Call(Call::Callback(function, stream, data)) => {
            function(*stream, 0, *data);
            Ok(())
        }
        Op::Write(word) => {
            machine.space.store(word.address, &word.value.to_le_bytes()[..word.bytes]).map_err(gone)
        }
        Op::Await(word, until) => loop {
            let now = machine.space.load(word.address, word.bytes).map_err(gone)?;
            if until.holds(now, word.value, word.bytes) || device.lost().is_some() {
                break Ok(());
            }
            std::thread::sleep(POLL);
        },
        Op::Free(address) => machine.end_allocation(*address),
        Op::Graph(plan) => {
            plan.replay(scene);
            Ok(())
        }
        Op::Reach(_) | Op::Wait(_) | Op::After(..) => Ok(()),
    }
}

impl Op {
    /// Whether it does not wait for anything, as far as that shows before it begins.
    pub(crate) fn can_begin(&self, machine: &Machine, device: &Device) -> bool {
        match self {
            Self::Wait(mark) => mark.time().is_some(),
            Self::After(stream, position, _) => stream.completed() >= *position,
            Self::Await(word, until) if device.lost().is_none() => {
                let now = machine.space.load(word.address, word.bytes);
                // One without memory behind it ends at once.
                now.map_or(true, |now| until.holds(now, word.value, word.bytes))
            }
            _ => true,
        }
    }

    /// What it touches, as far as that is known before it runs; kernels tell afterwards.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        match self {
            Self::Copy(copy) => order::of_copy(copy, &mut spans),
            Self::Fill(fill) => order::of_fill(fill, &mut spans),
            Self::Write(word) | Self::Await(word, _) => {
                spans.push(order::span(word.address, word.bytes as u64, Touch::Atomic));
            }
            Self::Graph(plan) => return plan.spans(),
            _ => {}
        }
        spans
    }

    /// What it is, in the middle of a sentence.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Copy(_) => "a copy".to_owned(),
            Self::Fill(_) => "a fill".to_owned(),
            Self::Kernel(launch) => format!("the kernel {}", launch.function.kernel.name()),
            Self::Graph(_) => "a graph".to_owned(),
            Self::Write(_) | Self::Await(..) => "a stream's word".to_owned(),
            Self::Call(_) => "a function of the program".to_owned(),
            Self::Reach(_) => "an event".to_owned(),
            Self::Wait(_) | Self::After(..) => "a wait".to_owned(),
            Self::Free(_) => "a free".to_owned(),
        }
    }

    /// What it is, for a person.
    fn words(&self) -> &'static str {
        match self {
            Self::Copy(_) => "a copy found no memory at its address",
            Self::Fill(_) => "a fill found no memory at its address",
            Self::Kernel(_) => "a kernel",
            Self::Call(_) => "a function of the program",
            Self::Write(_) | Self::Await(..) => "a stream's word has no memory at its address",
            Self::Free(_) => "a free found no allocation at its address",
            Self::Graph(_) => "a graph",
            Self::Reach(_) | Self::Wait(_) | Self::After(..) => "a wait",
        }
    }
}

impl Until {
    /// Of the flags of `cuStreamWaitValue`.
    pub(crate) fn of(flags: u32) -> Answer<Self> {
        // Bit 30 asks for a flush of remote writes, of which there are none.
        match flags & !(1 << 30) {
            0 => Ok(Self::AtLeast),
            1 => Ok(Self::Equal),
            2 => Ok(Self::Any),
            3 => Ok(Self::Nor),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn holds(self, now: u64, value: u64, bytes: usize) -> bool {
        match (self, bytes) {
            (Self::AtLeast, 4) => (now as u32).wrapping_sub(value as u32).cast_signed() >= 0,
            (Self::AtLeast, _) => now.wrapping_sub(value).cast_signed() >= 0,
            (Self::Equal, 4) => now as u32 == value as u32,
            (Self::Equal, _) => now == value,
            (Self::Any, _) => now & value != 0,
            (Self::Nor, 4) => !(now as u32 | value as u32) != 0,
            (Self::Nor, _) => !(now | value) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_waited_for_as_cuda_h_says() {
        assert!(Until::AtLeast.holds(5, 5, 4) && Until::AtLeast.holds(0, u64::from(u32::MAX), 4));
        assert!(!Until::AtLeast.holds(0, u64::from(u32::MAX), 8));
        assert!(Until::Equal.holds(7 | 1 << 40, 7, 4) && !Until::Equal.holds(7 | 1 << 40, 7, 8));
        assert!(Until::Any.holds(6, 2, 4) && !Until::Any.holds(6, 1, 4));
        assert!(Until::Nor.holds(0xffff, 0xff_0000, 4));
        assert!(!Until::Nor.holds(0xffff, u64::from(0xffff_0000_u32), 4));
        assert_eq!(Until::of(9).unwrap_err(), Code::INVALID_VALUE);
    }
}
