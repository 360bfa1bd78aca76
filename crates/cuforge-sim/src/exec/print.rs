//! What kernels print: `printf` and failed assertions.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::elements::element;
use crate::exec::known::mark;
use crate::exec::machine::{Machine, space_of, window};
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault};
use crate::form::{Op, Space};
use crate::lanes::{LANES, Mask, lanes_of};
use crate::printf::{Arguments, formatted};

/// Longest string that is read.
const MAX_STRING_BYTES: u64 = 1 << 16;

/// The packed arguments of one thread's call.
struct Packed<'a, 'b> {
    machine: &'a Machine<'b>,
    warp: &'a Warp,
    lane: usize,
    at: u64,
}

impl Arguments for Packed<'_, '_> {
    fn next(&mut self, bytes: usize) -> Option<u64> {
        self.at = self.at.next_multiple_of(bytes as u64);
        let value = self.machine.peek(self.warp, self.lane, self.at, bytes as u32)?;
        self.at += bytes as u64;
        Some(value)
    }

    fn string(&mut self, address: u64) -> Option<Vec<u8>> {
        self.machine.string(self.warp, self.lane, address)
    }
}

impl Machine<'_> {
    /// `vprintf` and `__assertfail`, lane by lane.
    pub(crate) fn print(&mut self, warp: &mut Warp, mask: Mask, op: &Op) -> Result<(), Box<Fault>> {
        for lane in lanes_of(mask) {
            let word = |at: u32, bytes| local(warp, lane, at, bytes);
            match op {
                Op::Print { format, values, result } => {
                    let (format, at) = (word(*format, 8), word(*values, 8));
                    let Some(format) = self.string(warp, lane, format) else {
                        return Err(self.unreadable(warp, lane, format));
                    };
                    let mut packed = Packed { machine: &*self, warp: &*warp, lane, at };
                    let Some((text, taken)) = formatted(&format, &mut packed) else {
                        let at = packed.at;
                        return Err(self.unreadable(warp, lane, at));
                    };
                    self.printed.extend(text);
                    let at = *result as usize;
                    warp.local[at / 4 * LANES + lane] = taken;
                    if !warp.local_known.is_empty() {
                        mark(at, 4, |word, bits| warp.local_known[word * LANES + lane] |= bits);
                    }
                }
                Op::AssertFail { message, file, line, function } => {
                    let strings = [message, file, function].map(|at| {
                        let text = self.string(warp, lane, word(*at, 8)).unwrap_or_default();
                        String::from_utf8_lossy(&text).into_owned()
                    });
                    let ([message, file, function], place) = (strings, self.place(warp, lane));
                    let ([bx, by, bz], [tx, ty, tz]) = (place.block, place.thread);
                    let line = word(*line, 4);
                    let text = format!(
                        "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] \
                         Assertion `{message}` failed.\n"
                    );
                    self.printed.extend(text.into_bytes());
                    return Err(Box::new(Fault::AssertionFailed { place }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[cold]
    fn unreadable(&self, warp: &Warp, lane: usize, address: u64) -> Box<Fault> {
        let space = space_of(address);
        self.out_of_bounds(warp, lane, AccessKind::Read, space, address.wrapping_sub(window(space)), 1)
    }

    /// The string at a generic address, without its end.
    fn string(&self, warp: &Warp, lane: usize, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for at in 0..MAX_STRING_BYTES {
            match self.peek(warp, lane, address.wrapping_add(at), 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Some(text)
    }

    /// Reads up to 8 aligned bytes at a generic address, outside of all checks but bounds.
    fn peek(&self, warp: &Warp, lane: usize, address: u64, bytes: u32) -> Option<u64> {
        let space = space_of(address);
        let inside = address.wrapping_sub(window(space));
        let fits = |len: usize| inside.checked_add(u64::from(bytes)).is_some_and(|end| end <= len as u64 * 4);
        let at = inside as usize;
        match space {
            Space::Global | Space::Generic => {
                let located = self.shot.view.locate(1 << lane, &[address; LANES], bytes, &mut 0).ok()?;
                let allocation = located.allocation(lane);
                let words = self.shot.view.words(allocation);
                let at = address.wrapping_sub(self.shot.view.base(allocation)) as usize;
                Some(element(at, bytes, false, |word| words[word].load(Relaxed)))
            }
            Space::Shared | Space::Cluster => {
                fits(self.bank.words.len()).then(|| element(at, bytes, false, |word| self.bank.words[word]))
            }
            Space::Local => fits(warp.local.len() / LANES).then(|| local(warp, lane, at as u32, bytes)),
            Space::Param => {
                let params = &self.shot.params;
                fits(params.len()).then(|| element(at, bytes, false, |word| params[word]))
            }
        }
    }
}

/// Reads from a lane's local memory.
fn local(warp: &Warp, lane: usize, at: u32, bytes: u32) -> u64 {
    element(at as usize, bytes, false, |word| warp.local[word * LANES + lane])
}
