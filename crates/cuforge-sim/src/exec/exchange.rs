//! Instructions that pass values between the lanes of a warp.

use crate::dataflow::Slot;
use crate::exec::warp::Registers;
use crate::form::{Match, Redux, Reg, Shuffle, ShuffleMode, Vote, VoteMode};
use crate::lanes::{FULL, L32, LANES, Mask, lanes_of};
use crate::memory::POISON_WORD;

/// `shfl`: a lane that reads from one which does not take part gets poison, as its value is undefined.
pub(crate) fn shuffle(regs: &mut Registers, mask: Mask, shuffle: &Shuffle) {
    let (a, b, c) = (regs.get32(shuffle.a), regs.get32(shuffle.b), regs.get32(shuffle.c));
    let members = shuffle.members.map_or([FULL; LANES], |members| *regs.get32(members));
    let mut out: L32 = [0; LANES];
    let (mut valid, mut undefined) = (0, 0);
    let source_undefined = regs.undefined(Reg::Narrow(shuffle.a));
    for lane in lanes_of(mask) {
        let own = lane.cast_signed();
        let by = (b[lane] & 31).cast_signed() as isize;
        let clamp = (c[lane] & 31) as isize;
        let segment = (c[lane] >> 8 & 31) as isize;
        let last = own & segment | clamp & !segment;
        let (from, inside) = match shuffle.mode {
            ShuffleMode::Up => (own - by, own - by >= last),
            ShuffleMode::Down => (own + by, own + by <= last),
            ShuffleMode::Butterfly => (own ^ by, (own ^ by) <= last),
            ShuffleMode::Index => {
                let from = own & segment | by & !segment;
                (from, from <= last)
            }
        };
        let from = if inside { from as usize & 31 } else { lane };
        valid |= u32::from(inside) << lane;
        let there = (mask & members[lane]) >> from & 1 != 0;
        out[lane] = if there { a[from] } else { POISON_WORD };
        undefined |= u32::from(!there || source_undefined >> from & 1 != 0) << lane;
    }
    if let Some(d) = shuffle.d {
        regs.set32(d, &out, mask);
        if let Some(taint) = &mut regs.taint {
            let origin = taint.origin(Slot::Narrow(shuffle.a.0));
            taint.set_from(Slot::Narrow(d.0), mask, undefined, origin);
        }
    }
    if let Some(p) = shuffle.p {
        regs.set_pred(p, valid, mask);
    }
}

/// `vote`
pub(crate) fn vote(regs: &mut Registers, mask: Mask, vote: &Vote) {
    let source = regs.test(vote.source) & mask;
    let members = vote.members.map_or([FULL; LANES], |members| *regs.get32(members));
    let mut ballot: L32 = [0; LANES];
    let mut holds = 0;
    for lane in lanes_of(mask) {
        let group = mask & members[lane];
        let set = source & group;
        ballot[lane] = set;
        let yes = match vote.mode {
            VoteMode::All => set == group,
            VoteMode::Any => set != 0,
            VoteMode::Uniform => set == group || set == 0,
            VoteMode::Ballot => false,
        };
        holds |= u32::from(yes) << lane;
    }
    if let Some(d) = vote.d {
        regs.set32(d, &ballot, mask);
    }
    if let Some(p) = vote.p {
        regs.set_pred(p, holds, mask);
    }
}

/// `match.sync`
pub(crate) fn match_values(regs: &mut Registers, mask: Mask, op: &Match) {
    let a = regs.get(op.a);
    let members = *regs.get32(op.members);
    let mut out: L32 = [0; LANES];
    let mut all = 0;
    for lane in lanes_of(mask) {
        let group = mask & members[lane];
        let same =
            lanes_of(group).filter(|other| a[*other] == a[lane]).fold(0, |same, other| same | 1 << other);
        let whole = same == group;
        all |= u32::from(whole) << lane;
        out[lane] = if op.all && !whole { 0 } else { same };
    }
    regs.set32(op.d, &out, mask);
    if let Some(p) = op.p {
        regs.set_pred(p, all, mask);
    }
}

/// `redux.sync`
pub(crate) fn redux(regs: &mut Registers, mask: Mask, op: &Redux) {
    let a = *regs.get32(op.a);
    let members = *regs.get32(op.members);
    let mut out: L32 = [0; LANES];
    for lane in lanes_of(mask) {
        let group = mask & members[lane];
        out[lane] = lanes_of(group).map(|other| a[other]).reduce(op.f).unwrap_or_default();
    }
    regs.set32(op.d, &out, mask);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Pred, PredSource, R32};

    fn regs(a: impl Fn(usize) -> u32, b: u32, c: u32) -> Registers {
        let narrow = vec![std::array::from_fn(a), [b; LANES], [c; LANES], [0; LANES]];
        Registers { narrow, wide: vec![], preds: vec![0; 2], carry: 0, taint: None }
    }

    fn shuffled(mode: ShuffleMode, b: u32, c: u32, mask: Mask) -> (L32, Mask) {
        let mut regs = regs(|lane| lane as u32 * 10, b, c);
        let op = Shuffle {
            mode,
            d: Some(R32(3)),
            p: Some(Pred(0)),
            a: R32(0),
            b: R32(1),
            c: R32(2),
            members: None,
        };
        shuffle(&mut regs, mask, &op);
        (regs.narrow[3], regs.preds[0])
    }

    #[test]
    fn down_stops_at_the_end_of_the_segment() {
        let (d, p) = shuffled(ShuffleMode::Down, 1, 31, FULL);
        assert_eq!((d[0], d[30], d[31], p), (10, 310, 310, 0x7fff_ffff));
        let (d, p) = shuffled(ShuffleMode::Down, 4, 0x181f, FULL);
        assert_eq!((d[0], d[7], d[8], p), (40, 70, 120, 0x0f0f_0f0f));
    }

    #[test]
    fn up_butterfly_and_index_follow_the_manual() {
        let (d, p) = shuffled(ShuffleMode::Up, 1, 0, FULL);
        assert_eq!((d[0], d[1], d[31], p), (0, 0, 300, 0xffff_fffe));
        let (d, p) = shuffled(ShuffleMode::Butterfly, 1, 31, FULL);
        assert_eq!((d[0], d[1], p), (10, 0, FULL));
        let (d, p) = shuffled(ShuffleMode::Index, 5, 31, FULL);
        assert_eq!((d[0], d[31], p), (50, 50, FULL));
    }

    #[test]
    fn a_lane_that_is_not_there_gives_poison() {
        let (d, _) = shuffled(ShuffleMode::Down, 1, 31, 0b11);
        assert_eq!((d[0], d[1]), (10, POISON_WORD));
    }

    #[test]
    fn votes_and_matches_count_only_members_that_are_there() {
        let mut r = regs(|lane| lane as u32 / 2, 0, 0);
        r.narrow[1] = [0xff; LANES];
        r.preds[1] = 0b1011;
        let source = PredSource { pred: Pred(1), negated: false };
        let ballot = Vote { mode: VoteMode::Ballot, d: Some(R32(3)), p: None, source, members: Some(R32(1)) };
        vote(&mut r, 0xf, &ballot);
        assert_eq!((r.narrow[3][0], r.narrow[3][4]), (0b1011, 0));
        let op = Match { all: false, d: R32(3), p: None, a: Reg::Narrow(R32(0)), members: R32(1) };
        match_values(&mut r, 0xff, &op);
        assert_eq!((r.narrow[3][0], r.narrow[3][5]), (0b11, 0b11_0000));
        redux(&mut r, 0xff, &Redux { f: |a, b| a + b, d: R32(3), a: R32(0), members: R32(1) });
        assert_eq!(r.narrow[3][7], 12);
    }
}
