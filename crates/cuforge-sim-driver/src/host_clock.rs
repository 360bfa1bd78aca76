//! What a thread of the program does between two driver calls: nothing, or looking at memory again and again.

use std::time::{Duration, Instant};

/// Processor time after which a thread is taken to poll.
const BUSY: Duration = Duration::from_millis(5);

/// Time after which a thread is taken to poll though it sleeps in between.
const LONG: Duration = Duration::from_millis(500);

/// When a thread left its last driver call, by its own processor time and by the clock.
#[derive(Debug)]
pub(crate) struct HostClock {
    thread: Thread,
    busy: Option<Duration>,
    left: Instant,
}

impl HostClock {
    /// The calling thread leaves a driver call now.
    pub(crate) fn of_this_thread() -> Self {
        let thread = Thread::this();
        Self { busy: thread.busy(), left: Instant::now(), thread }
    }

    /// Whether the thread has been busy, or away, for so long that it is taken to look at memory.
    ///
    /// Its own processor time decides first, as that does not grow with what else the machine does.
    pub(crate) fn is_polling(&self) -> bool {
        let busy = match (self.busy, self.thread.busy()) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= BUSY,
            _ => false,
        };
        busy || self.left.elapsed() >= LONG
    }
}

/// A thread by the number that the system knows it under.
#[derive(Debug)]
struct Thread(#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no clock of others"))] i32);

#[cfg(target_os = "linux")]
impl Thread {
    fn this() -> Self {
        // SAFETY: takes nothing and does not fail.
        Self(unsafe { libc::gettid() })
    }

    /// Its processor time; none once it has ended.
    fn busy(&self) -> Option<Duration> {
        // Linux numbers the clock of a thread so: its inverted number, 4 for a thread and 2 for the scheduler's clock.
        let clock = !self.0 << 3 | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid for a timespec; a number that is no clock is an error.
        let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).ok().filter(|_| answer == 0)?;
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
    }
}

#[cfg(not(target_os = "linux"))]
impl Thread {
    fn this() -> Self {
        Self(0)
    }

    fn busy(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_is_told_from_one_that_sleeps_and_from_one_that_has_ended() {
        let clock = HostClock::of_this_thread();
        assert!(!clock.is_polling());
        std::thread::sleep(Duration::from_millis(30));
        let asleep = (clock.busy, clock.thread.busy());
        if let (Some(before), Some(now)) = asleep {
            assert!(now - before < Duration::from_millis(5), "sleep is not processor time");
            while clock.thread.busy().unwrap() - before < Duration::from_millis(6) {
                std::hint::black_box((0..1000).sum::<u64>());
            }
            assert!(clock.is_polling());
        }
        let ended = std::thread::spawn(HostClock::of_this_thread).join().unwrap();
        assert_eq!(ended.thread.busy(), None);
        std::thread::sleep(LONG);
        assert!(ended.is_polling());
    }
}
