//! A simulated device: its primary context, the memory in use, and whether it is lost.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::codes::{Answer, Code};

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: usize,
    /// Bytes in use.
    pub(crate) used: Arc<AtomicU64>,
    pub(crate) capacity: u64,
    /// High-water mark of the memory of allocation nodes.
    pub(crate) most_graph_bytes: AtomicU64,
    /// The code that every later call answers; 0 while there is none.
    lost: AtomicI32,
    fault: Mutex<Option<String>>,
}

impl Device {
    pub(crate) fn new(ordinal: usize, capacity: u64) -> Self {
        Self {
            ordinal,
            used: Arc::default(),
            capacity,
            most_graph_bytes: AtomicU64::new(0),
            lost: AtomicI32::new(0),
            fault: Mutex::new(None),
        }
    }

    /// The code that ended the device, if one has.
    pub(crate) fn lost(&self) -> Option<Code> {
        match self.lost.load(Ordering::Acquire) {
            0 => None,
            code => Some(Code(code)),
        }
    }

    /// `Err` of that code.
    pub(crate) fn check(&self) -> Answer {
        self.lost().map_or(Ok(()), Err)
    }

    /// Ends the device for good; the first code stays. What happened goes to standard error, as hardware has nobody
    /// else to tell either.
    pub(crate) fn lose(&self, code: Code, what: &str) {
        if code.0 == 0 {
            return;
        }
        let mut fault = self.fault.lock();
        if self.lost.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            eprintln!("cuforge-sim-driver: device {} is lost, {code:?}: {what}", self.ordinal);
            *fault = Some(what.to_owned());
        }
    }

    /// What ended the device, in words.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// A stable number for it, never the same for two devices.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"cuforge-sim-\0\0\0\0";
        uuid[12..].copy_from_slice(&(self.ordinal as u32).to_be_bytes());
        uuid
    }

    /// Domain, bus and device.
    pub(crate) fn pci(&self) -> String {
        format!("0000:{:02x}:00.0", 1 + self.ordinal)
    }
}
