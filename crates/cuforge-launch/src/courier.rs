//! A thread that submits copies for its stream: the host goes on at once, the copies keep their place in stream order.

use crate::bulk::Bulk;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Something that the courier submits.
pub(crate) trait Letter: Send + Sync {
    /// Submits all of it, through the chunks if it needs them. Called once.
    fn carry(&self, chunks: &mut Option<Bulk>);
    /// Whether all of it has been submitted, or never will be.
    fn is_sent(&self) -> bool;
    /// Waits for that; whether it was submitted without a failure.
    fn wait_sent(&self) -> bool;
}

/// The courier of one stream, started by the first letter. Its thread ends when the stream is gone and the last letter
/// sent; the stream's handle lives as long as its letters.
#[derive(Default)]
pub(crate) struct Courier {
    letters: Option<Sender<Arc<dyn Letter>>>,
}

impl Courier {
    /// Sends letters in order. Where no thread can be had the caller sends it himself.
    pub(crate) fn post(&mut self, letter: &Arc<dyn Letter>) {
        if self.letters.is_none() {
            let (letters, posted) = channel();
            let named = thread::Builder::new().name("cuforge-courier".to_owned());
            match named.spawn(move || serve(&posted)) {
                Ok(_) => self.letters = Some(letters),
                Err(error) => tracing::warn!(%error, "no courier thread: an upload holds its caller"),
            }
        }
        let posted = self.letters.as_ref().is_some_and(|letters| letters.send(letter.clone()).is_ok());
        if !posted {
            self.letters = None;
            letter.carry(&mut None);
        }
    }
}

fn serve(posted: &Receiver<Arc<dyn Letter>>) {
    let mut chunks = None;
    for letter in posted {
        // A source's own code runs here. If it panics its letter fails, and those behind it are carried all the same.
        let carried = catch_unwind(AssertUnwindSafe(|| letter.carry(&mut chunks)));
        if carried.is_err() {
            tracing::error!("the source of an upload panicked");
        }
    }
}
