//! The decoded form of an instruction: what it does to which registers, ready to run on 32 lanes at once.
//!
//! Arithmetic is a function over whole lanes, picked when the kernel is decoded; so the executor knows only how
//! many registers of which width go in and come out, and a new instruction is a new entry in the decoder's tables.

use crate::alu::conversion::Conversion;
pub(crate) use crate::atomic::{Atomic, AtomicKind, PairAtomic};
use crate::gate::{Bulk, ClusterOp, Gate};
use crate::lanes::{L32, L64, Mask};
pub(crate) use crate::place::{
    Access, AddressBase, Load, LoadTarget, Pred, PredSource, R32, R64, Reg, Space, Store, Strength,
};
use crate::tile::Tile;

/// How a comparison is combined with a third predicate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

impl BoolOp {
    /// Lane by lane.
    pub(crate) fn apply(self, a: Mask, b: Mask) -> Mask {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

pub(crate) type Un32 = fn(&L32, &mut L32);
pub(crate) type Un64 = fn(&L64, &mut L64);
pub(crate) type Widen = fn(&L32, &mut L64);
pub(crate) type Shrink = fn(&L64, &mut L32);
pub(crate) type Bin32 = fn(&L32, &L32, &mut L32);
pub(crate) type Bin64 = fn(&L64, &L64, &mut L64);
pub(crate) type Shift64 = fn(&L64, &L32, &mut L64);
pub(crate) type BinWiden = fn(&L32, &L32, &mut L64);
pub(crate) type Tern32 = fn(&L32, &L32, &L32, &mut L32);
pub(crate) type Tern64 = fn(&L64, &L64, &L64, &mut L64);
pub(crate) type TernWiden = fn(&L32, &L32, &L64, &mut L64);
pub(crate) type Field64 = fn(&L64, &L32, &L32, &mut L64);
pub(crate) type Quad32 = fn(&L32, &L32, &L32, &L32, &mut L32);
pub(crate) type Insert64 = fn(&L64, &L64, &L32, &L32, &mut L64);
pub(crate) type Test32 = fn(&L32, &L32) -> Mask;
pub(crate) type Test64 = fn(&L64, &L64) -> Mask;

/// A comparison of two registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    Narrow(Test32, R32, R32),
    Wide(Test64, R64, R64),
}

/// How much of its source a copy takes; the rest is zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopySource {
    Whole,
    /// So many bytes.
    Bytes(R32),
    /// All, unless the predicate holds.
    Unless(PredSource),
}

/// `cp.async`
#[derive(Clone, Debug)]
pub(crate) struct AsyncCopy {
    /// In shared memory.
    pub(crate) target: Access,
    /// In global memory.
    pub(crate) source: Access,
    pub(crate) part: CopySource,
}

/// How `shfl` picks the lane it reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// `shfl.sync`
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    pub(crate) mode: ShuffleMode,
    pub(crate) d: Option<R32>,
    pub(crate) p: Option<Pred>,
    pub(crate) a: R32,
    pub(crate) b: R32,
    pub(crate) c: R32,
    /// Absent for the form without `.sync`.
    pub(crate) members: Option<R32>,
}

/// What `vote.sync` gives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// `vote`
#[derive(Clone, Debug)]
pub(crate) struct Vote {
    pub(crate) mode: VoteMode,
    pub(crate) d: Option<R32>,
    pub(crate) p: Option<Pred>,
    pub(crate) source: PredSource,
    pub(crate) members: Option<R32>,
}

/// `match.sync`
#[derive(Clone, Debug)]
pub(crate) struct Match {
    pub(crate) all: bool,
    pub(crate) d: R32,
    pub(crate) p: Option<Pred>,
    pub(crate) a: Reg,
    pub(crate) members: R32,
}

/// `redux.sync`
#[derive(Clone, Debug)]
pub(crate) struct Redux {
    pub(crate) f: fn(u32, u32) -> u32,
    pub(crate) d: R32,
    pub(crate) a: R32,
    pub(crate) members: R32,
}

/// What a block-wide barrier computes on the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BarrierReduction {
    Popc,
    And,
    Or,
}

/// `bar` and `barrier`
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) id: R32,
    /// Threads that take part; absent means all of the block.
    pub(crate) threads: Option<R32>,
    /// `.aligned`: the whole warp meets at this very instruction.
    pub(crate) aligned: bool,
    /// `.arrive`: does not wait.
    pub(crate) arrive: bool,
    pub(crate) reduction: Option<(BarrierReduction, PredSource)>,
    /// Result of `.and` and `.or`.
    pub(crate) p: Option<Pred>,
    /// Result of `.popc`.
    pub(crate) d: Option<R32>,
}

/// Add or subtract with the carry flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarryUse {
    /// Reads the flag.
    pub(crate) takes: bool,
    /// Writes the flag.
    pub(crate) gives: bool,
    /// Subtracts: the flag is a borrow.
    pub(crate) subtract: bool,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Nop,
    /// A fence of a scope wider than the block.
    Fence,
    Un32(Un32, R32, R32),
    Un64(Un64, R64, R64),
    Widen(Widen, R64, R32),
    Shrink(Shrink, R32, R64),
    Bin32(Bin32, R32, R32, R32),
    Bin64(Bin64, R64, R64, R64),
    Shift64(Shift64, R64, R64, R32),
    BinWiden(BinWiden, R64, R32, R32),
    Tern32(Tern32, R32, R32, R32, R32),
    Tern64(Tern64, R64, R64, R64, R64),
    TernWiden(TernWiden, R64, R32, R32, R64),
    Field64(Field64, R64, R64, R32, R32),
    Quad32(Quad32, R32, [R32; 4]),
    Insert64(Insert64, R64, R64, R64, [R32; 2]),
    /// Any conversion without a function of its own: destination, source, and how.
    Convert(Box<Conversion>, Reg, Reg),
    /// 32-bit add or subtract with carry; `c` of `mad` is folded in by the decoder.
    Carry32(CarryUse, R32, R32, R32),
    Carry64(CarryUse, R64, R64, R64),
    /// `mad{c}.lo/.hi.cc`: the product by the function, then an addition with carry.
    MadCarry32(Bin32, CarryUse, R32, [R32; 3]),
    MadCarry64(Bin64, CarryUse, R64, [R64; 3]),
    /// `setp`: `p = test op c`, `q = !test op c`.
    SetPred {
        test: Test,
        p: Option<Pred>,
        q: Option<Pred>,
        combine: Option<(BoolOp, PredSource)>,
    },
    /// `set`: a value where the (combined) test holds, else 0.
    SetValue {
        test: Test,
        d: R32,
        value: u32,
        combine: Option<(BoolOp, PredSource)>,
    },
    /// Two 16-bit comparisons at once: tests of the low and the high half; predicates or half-word values.
    SetHalves {
        low: Test,
        high: Test,
        out: HalvesOut,
        combine: Option<(BoolOp, PredSource)>,
    },
    Select32(R32, R32, R32, PredSource),
    Select64(R64, R64, R64, PredSource),
    /// `d = c >= 0 ? a : b`, by the mask of a test.
    SelectBy32(Test, R32, R32, R32),
    SelectBy64(Test, R64, R64, R64),
    PredLogic(BoolOp, Pred, PredSource, PredSource),
    PredMove(Pred, PredSource),
    /// Two 32-bit halves of a 64-bit register; absent for `_`.
    Split64(Option<R32>, Option<R32>, R64),
    Join64(R64, R32, R32),
    /// Both halves of 128 bits at once.
    MovePair([R64; 2], [R64; 2]),
    /// `mov.b32 {a, b}, r` in equal parts of 8 or 16 bits.
    SplitParts(u32, Vec<Option<R32>>, Reg),
    JoinParts(u32, Reg, Vec<R32>),
    /// Reads `bytes` of the parameters at a fixed offset.
    LoadParam(u32, Vec<LoadTarget>, u32),
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<Atomic>),
    PairAtomic(Box<PairAtomic>),
    /// Copies bytes within a thread's local memory.
    CopyLocal {
        from: u32,
        to: u32,
        bytes: u32,
    },
    /// `vprintf`: where in local memory its two parameters and its result lie.
    Print {
        format: u32,
        values: u32,
        result: u32,
    },
    /// `__assertfail`: where in local memory its parameters lie.
    AssertFail {
        message: u32,
        file: u32,
        line: u32,
        function: u32,
    },
    /// The access of the whole vector, and the atomics of its elements.
    VectorAtomic(Box<Access>, Vec<Atomic>),
    AsyncCopy(Box<AsyncCopy>),
    /// `cp.async.commit_group`
    CopyCommit,
    /// Waits until at most so many groups are on their way, or no copy at all.
    CopyWait(Option<u32>),
    /// Any instruction on an mbarrier.
    Gate(Box<Gate>),
    Bulk(Box<Bulk>),
    /// `cp.async.bulk.commit_group`
    BulkCommit,
    /// Waits until at most so many bulk groups are on their way.
    BulkWait(u32),
    Cluster(ClusterOp),
    /// To generic from the space, or back.
    CvtaTo(Space, Reg, Reg),
    CvtaFrom(Space, Reg, Reg),
    IsSpace(Space, Pred, Reg),
    Shuffle(Box<Shuffle>),
    Vote(Box<Vote>),
    Match(Box<Match>),
    Redux(Box<Redux>),
    /// A matrix instruction of the whole warp.
    Tile(Box<Tile>),
    ActiveMask(R32),
    /// `elect.sync d|p, members`
    Elect(Option<R32>, Option<Pred>, R32),
    WarpSync(R32),
    Barrier(Box<Barrier>),
    /// `%clock`, `%clock64`, `%globaltimer`: the warp's step count.
    Clock(Reg),
    Branch(usize),
    /// Indirect branch by an index register into a table.
    BranchIndexed(R32, Vec<usize>),
    /// Keeps the return place in the register and jumps.
    Call(R32, usize),
    /// Return of a device function to the place in the register.
    Return(R32),
    Exit,
    Trap,
    /// A form the table does not know; its text.
    Unsupported(Box<str>),
}

/// Where two comparisons at once go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HalvesOut {
    /// One predicate for each half.
    Preds(Pred, Option<Pred>),
    /// A value where the test holds, for each half.
    Value(R32, u32),
}

/// One decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    /// Runs in the lanes where this holds.
    pub(crate) guard: Option<PredSource>,
    /// Line of the PTX text.
    pub(crate) line: u32,
}
