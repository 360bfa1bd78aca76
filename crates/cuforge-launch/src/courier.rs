//! A thread that submits copies for its stream: the host goes on at once, the copies keep their place in stream order.

use crate::bulk::Bulk;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

/// Something that the courier submits.
pub(crate) trait Letter: Send + Sync {
    /// Submits all of it, through the chunks if it needs them, and lets go of all that is the device's. Called once.
    fn carry(&self, chunks: &mut Option<Bulk>);
    /// Tells those who wait that all of it has been submitted, or never will be.
    fn tell(&self);
    /// Whether that was told.
    fn is_sent(&self) -> bool;
    /// Waits for that; whether it was submitted without a failure.
    fn wait_sent(&self) -> bool;
}

/// The courier of one stream, started by the first letter. Its thread ends when the stream is gone and the last letter
/// sent.
///
/// Nobody waits for that end, and a process may be over before it. So once the stream is gone and every letter is told as
/// sent, the thread holds nothing of the device: what is freed then is freed by those who know of each other.
#[derive(Default)]
pub(crate) struct Courier {
    letters: Option<Sender<Arc<dyn Letter>>>,
    chunks: Arc<Mutex<Option<Bulk>>>,
}

impl Courier {
    /// Sends letters in order. Where no thread can be had the caller sends it himself.
    pub(crate) fn post(&mut self, letter: &Arc<dyn Letter>) {
        if self.letters.is_none() {
            let (letters, posted) = channel();
            let chunks = self.chunks.clone();
            let named = thread::Builder::new().name("cuforge-courier".to_owned());
            match named.spawn(move || serve(&posted, &chunks)) {
                Ok(_) => self.letters = Some(letters),
                Err(error) => tracing::warn!(%error, "no courier thread: an upload holds its caller"),
            }
        }
        let posted = self.letters.as_ref().is_some_and(|letters| letters.send(letter.clone()).is_ok());
        if !posted {
            self.letters = None;
            carry(&**letter, &self.chunks);
            letter.tell();
        }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.letters = None;
        // Where a letter is being carried the thread finds that there are no more and lets go by itself.
        if let Some(mut chunks) = self.chunks.try_lock() {
            *chunks = None;
        }
    }
}

fn serve(posted: &Receiver<Arc<dyn Letter>>, chunks: &Mutex<Option<Bulk>>) {
    let mut next = posted.recv().ok();
    while let Some(letter) = next {
        carry(&*letter, chunks);
        let more = posted.try_recv();
        if matches!(more, Err(TryRecvError::Disconnected)) {
            *chunks.lock() = None;
        }
        letter.tell();
        drop(letter);
        next = more.or_else(|_| posted.recv()).ok();
    }
}

/// A source's own code runs here. If it panics its letter fails, and those behind it are carried all the same.
fn carry(letter: &dyn Letter, chunks: &Mutex<Option<Bulk>>) {
    let carried = catch_unwind(AssertUnwindSafe(|| letter.carry(&mut chunks.lock())));
    if carried.is_err() {
        tracing::error!("the source of an upload panicked");
    }
}
