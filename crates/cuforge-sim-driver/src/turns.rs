//! Turns: with a seed streams work one at a time, in an order that the seed picks and that is the same in every run.
//!
//! Streams that run freely meet each other and the host as the machine's load has it. With a seed they do nothing by
//! themselves: at each driver call of the host the seed picks how many pieces of work are done before it, and for each piece
//! whose turn it is among the streams that can go on; while the host waits, turns are given until it has what it waits for.
//! So the order of work against other work and against the host's calls depends on the seed and the calls alone. Work that
//! does not come back, because it waits for the host or for another stream's kernel, is left behind after a while, and a host
//! that looks at memory without calling the driver lets all go on that can: then there is progress, and time decides.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::host_clock::HostClock;

/// How long a turn may take until others get theirs beside it.
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// How often is looked whether work that waits for memory can go on.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// How often is looked whether the host looks at memory.
const WATCH: Duration = Duration::from_millis(2);

/// Most pieces of work that are done before a call.
const MOST_BEFORE_CALL: u64 = 3;

thread_local! {
    /// Whether the thread does the work of a stream.
    static WORKS: Cell<bool> = const { Cell::new(false) };
}

/// What a stream's next piece of work is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// There is none, and there may be some later.
    Nothing,
    /// There is none and never will be.
    Over,
    /// It waits for something.
    Waits,
    /// It can be done.
    Ready,
}

/// One that takes turns.
pub(crate) trait Player: Send + Sync {
    /// A number that no other player has.
    fn number(&self) -> u64;

    /// What its next piece of work is doing.
    fn next(&self) -> Next;

    /// Lets it do one piece of work, after which it calls [`Turns::finished`].
    fn play(&self);
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    seed: u64,
    longest_turn: Duration,
    state: Mutex<State>,
    /// For the thread that gives turns.
    asked: Condvar,
    /// For the host.
    answered: Condvar,
}

#[derive(Default)]
struct State {
    players: Vec<Arc<dyn Player>>,
    /// Turns to give before the host goes on.
    owed: u64,
    /// What host threads wait for.
    goals: Vec<(u64, Arc<dyn Fn() -> bool + Send + Sync>)>,
    next_goal: u64,
    /// Whether all that can go on does.
    free: bool,
    /// Turns and calls so far.
    turns: u64,
    calls: u64,
    /// The player whose turn it is.
    playing: Option<u64>,
    /// Players that have not come back from a turn.
    away: Vec<u64>,
    /// Host threads in a driver call, and what the last one has done since it left one.
    inside: usize,
    host: Option<HostClock>,
    started: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("turns", &self.turns)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// A host thread is in a driver call.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Turns);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        state.host = Some(HostClock::of_this_thread());
        // There may be work now that the host will look for in memory.
        self.0.asked.notify_all();
    }
}

impl Turns {
    /// Turns by a seed; without one (0) there are none.
    pub(crate) fn new(seed: u64) -> Self {
        let (asked, answered) = (Condvar::new(), Condvar::new());
        Self { seed, longest_turn: LONGEST_TURN, state: Mutex::default(), asked, answered }
    }

    /// Whether streams take turns.
    pub(crate) fn are_taken(&self) -> bool {
        self.seed != 0
    }

    /// The calling thread does the work of a stream: what it calls is no call of the host.
    pub(crate) fn this_thread_works(&self) {
        WORKS.set(true);
    }

    /// Takes a player in.
    pub(crate) fn join(&'static self, player: Arc<dyn Player>) -> std::io::Result<()> {
        let mut state = self.state.lock();
        if !state.started {
            std::thread::Builder::new().name("sim-turns".to_owned()).spawn(move || self.conduct())?;
            state.started = true;
        }
        state.players.push(player);
        Ok(())
    }

    /// A host thread calls the driver: as many pieces of work are done before as the seed picks.
    pub(crate) fn call(&self) -> Option<Inside<'_>> {
        if !self.are_taken() || WORKS.get() {
            return None;
        }
        let mut state = self.state.lock();
        state.inside += 1;
        state.calls += 1;
        if state.started {
            // Every other call comes at once.
            let picked = mixed(self.seed, 2 * state.calls);
            if picked & 1 == 0 {
                state.owed += 1 + (picked >> 1) % MOST_BEFORE_CALL;
                self.asked.notify_all();
            }
            while state.owed > 0 || state.free {
                self.answered.wait(&mut state);
            }
        }
        Some(Inside(self))
    }

    /// Gives turns until the host has what it waits for.
    pub(crate) fn wait_until(&self, goal: impl Fn() -> bool + Send + Sync + 'static) {
        if !self.are_taken() || WORKS.get() || goal() {
            return;
        }
        let mut state = self.state.lock();
        let id = state.next_goal;
        state.next_goal += 1;
        state.goals.push((id, Arc::new(goal)));
        self.asked.notify_all();
        while state.goals.iter().any(|(other, _)| *other == id) {
            self.answered.wait(&mut state);
        }
    }

    /// A player has done its piece of work.
    pub(crate) fn finished(&self, player: u64) {
        let mut state = self.state.lock();
        if state.playing == Some(player) {
            state.playing = None;
        }
        state.away.retain(|other| *other != player);
        self.asked.notify_all();
    }

    /// The thread that gives turns.
    fn conduct(&self) {
        let mut state = self.state.lock();
        loop {
            let goals = state.goals.len();
            state.goals.retain(|(_, goal)| !goal());
            if state.goals.len() != goals {
                self.answered.notify_all();
            }
            if state.owed == 0 && state.goals.is_empty() && !state.free {
                self.rest(&mut state);
                continue;
            }
            if self.turn(&mut state) {
                continue;
            }
            // Nothing can go on.
            state.owed = 0;
            state.free = false;
            self.answered.notify_all();
            if !state.goals.is_empty() {
                self.asked.wait_for(&mut state, LOOK_AGAIN);
            }
        }
    }

    /// Waits until turns are asked for, or the host looks at memory that work has yet to change.
    fn rest(&self, state: &mut MutexGuard<'_, State>) {
        if state.players.iter().all(|player| matches!(player.next(), Next::Nothing | Next::Over)) {
            self.asked.wait(state);
            return;
        }
        let asked = !self.asked.wait_for(state, WATCH).timed_out();
        if !asked && state.inside == 0 && state.host.as_ref().is_some_and(HostClock::is_polling) {
            state.free = true;
        }
    }

    /// Gives one turn and waits for its end; false if nobody can take one.
    fn turn(&self, state: &mut MutexGuard<'_, State>) -> bool {
        state.players.retain(|player| player.next() != Next::Over);
        let ready = |player: &&Arc<dyn Player>| {
            !state.away.contains(&player.number()) && player.next() == Next::Ready
        };
        let ready: Vec<&Arc<dyn Player>> = state.players.iter().filter(ready).collect();
        if ready.is_empty() {
            return false;
        }
        let picked = mixed(self.seed, 2 * state.turns + 1) as usize % ready.len();
        let player = Arc::clone(ready[picked]);
        state.turns += 1;
        state.owed = state.owed.saturating_sub(1);
        state.playing = Some(player.number());
        player.play();
        let until = Instant::now() + self.longest_turn;
        while state.playing.is_some() {
            if self.asked.wait_until(state, until).timed_out() && state.playing.take().is_some() {
                state.away.push(player.number());
            }
        }
        if state.owed == 0 {
            self.answered.notify_all();
        }
        true
    }
}

/// A number that a seed and a place pick (the finalizer of splitmix64).
fn mixed(seed: u64, place: u64) -> u64 {
    let mut mixed = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Has so many pieces of work, each of which notes its number; does them when it is told to.
    struct Puppet {
        number: u64,
        left: AtomicU64,
        noted: Arc<Mutex<Vec<u64>>>,
        turns: &'static Turns,
        comes_back: bool,
    }

    impl Player for Puppet {
        fn number(&self) -> u64 {
            self.number
        }
        fn next(&self) -> Next {
            if self.left.load(SeqCst) > 0 { Next::Ready } else { Next::Nothing }
        }
        fn play(&self) {
            self.left.fetch_sub(1, SeqCst);
            let (noted, number, turns) = (Arc::clone(&self.noted), self.number, self.turns);
            if self.comes_back {
                std::thread::spawn(move || {
                    noted.lock().push(number);
                    turns.finished(number);
                });
            }
        }
    }

    /// Calls of the host (0) among pieces of work of three streams.
    fn order(seed: u64) -> Vec<u64> {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new(seed)));
        let noted = Arc::new(Mutex::new(Vec::new()));
        for number in 1..=3 {
            let (left, noted) = (AtomicU64::new(8), Arc::clone(&noted));
            turns.join(Arc::new(Puppet { number, left, noted, turns, comes_back: true })).unwrap();
        }
        for _ in 0..6 {
            let _inside = turns.call();
            noted.lock().push(0);
        }
        let done = Arc::clone(&noted);
        turns.wait_until(move || done.lock().len() == 20);
        let order = noted.lock().clone();
        assert_eq!(order.len(), 20, "no turn is given once the host has what it waits for");
        order
    }

    #[test]
    fn a_seed_gives_the_same_order_each_time_and_another_seed_another() {
        let first = order(7);
        assert!((0..20).all(|_| order(7) == first), "{first:?}");
        assert_ne!(order(8), first);
    }

    #[test]
    fn a_host_that_looks_at_memory_lets_work_of_its_last_call_go_on() {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new(1)));
        let noted = Arc::new(Mutex::new(Vec::new()));
        let puppet =
            Puppet { number: 1, left: AtomicU64::new(0), noted: Arc::clone(&noted), turns, comes_back: true };
        let puppet = Arc::new(puppet);
        turns.join(Arc::clone(&puppet) as _).unwrap();
        // The thread that gives turns has seen that there is nothing to do.
        std::thread::sleep(Duration::from_millis(50));
        let inside = turns.call();
        puppet.left.store(1, SeqCst);
        drop(inside);
        let start = Instant::now();
        while noted.lock().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20), "it never begins");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn one_who_does_not_come_back_keeps_the_others_waiting_for_a_while_only() {
        let waited = (1..=8).map(|seed| {
            let turns = Turns { longest_turn: Duration::from_millis(40), ..Turns::new(seed) };
            let turns: &'static Turns = Box::leak(Box::new(turns));
            let noted = Arc::new(Mutex::new(Vec::new()));
            for (number, comes_back) in [(1, false), (2, true)] {
                let (left, noted) = (AtomicU64::new(1), Arc::clone(&noted));
                turns.join(Arc::new(Puppet { number, left, noted, turns, comes_back })).unwrap();
            }
            let (start, done) = (Instant::now(), Arc::clone(&noted));
            turns.wait_until(move || !done.lock().is_empty());
            assert_eq!(*noted.lock(), [2], "seed {seed}");
            start.elapsed() >= Duration::from_millis(40)
        });
        assert!(waited.collect::<Vec<_>>().contains(&true), "no seed lets the first begin");
    }
}
