//! A memory map at one moment, as data and as JSON.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use cuforge_core::{Ledger, LedgerError, Lifetime, Misuse, Segment, SegmentState, SlabAllocator, Stats};

/// What every byte of a slab is at one moment, and the counters.
///
/// ```
/// use cuforge_core::{Request, SlabAllocator};
/// use cuforge_slab::{Snapshot, TlsfSlab};
///
/// let mut slab = TlsfSlab::new(4096)?;
/// slab.acquire(&Request::new(1024))?;
/// let snapshot = Snapshot::of(&slab)?;
/// assert_eq!(snapshot.segments.len(), 2);
/// assert!(snapshot.to_json().starts_with(r#"{"schema":"cuforge-slab-snapshot/1","capacity_bytes":4096,"#));
/// assert!(snapshot.to_svg("a small slab").starts_with("<svg"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The counters.
    pub stats: Stats,
    /// The capacity in ascending order, without gaps.
    pub segments: Vec<Segment>,
}

impl Snapshot {
    /// The snapshot of an allocator. O(segments); allocates.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] from an allocator that draws no map.
    pub fn of(slab: &dyn SlabAllocator) -> Result<Self, Misuse> {
        let mut segments = Vec::new();
        slab.inspect(&mut |segment| segments.push(segment))?;
        Ok(Self { stats: slab.stats(), segments })
    }

    /// The snapshot of the allocator inside a ledger. O(segments); allocates.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_ledger(ledger: &Ledger) -> Result<Self, LedgerError> {
        let mut segments = Vec::new();
        ledger.inspect(&mut |segment| segments.push(segment))?;
        Ok(Self { stats: ledger.stats(), segments })
    }

    /// One object on one line. `schema` is `cuforge-slab-snapshot/1`; keys are stable under it. O(segments);
    /// allocates.
    pub fn to_json(&self) -> String {
        let mut json = String::from(r#"{"schema":"cuforge-slab-snapshot/1""#);
        let Stats {
            capacity_bytes,
            live_bytes,
            pending_bytes,
            largest_free_bytes,
            peak_bytes,
            live_grants,
            acquired_total,
            refused_total,
        } = self.stats;
        let counters = [
            ("capacity_bytes", capacity_bytes),
            ("live_bytes", live_bytes),
            ("pending_bytes", pending_bytes),
            ("free_bytes", self.stats.free_bytes()),
            ("largest_free_bytes", largest_free_bytes),
            ("peak_bytes", peak_bytes),
            ("live_grants", live_grants),
            ("acquired_total", acquired_total),
            ("refused_total", refused_total),
        ];
        // Writing to a `String` cannot fail.
        for (key, value) in counters {
            let _ = write!(json, r#","{key}":{value}"#);
        }
        json.push_str(r#","segments":["#);
        for (index, segment) in self.segments.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(json, r#"{comma}{{"offset":{},"len":{}"#, segment.offset, segment.len);
            let _ = match segment.state {
                SegmentState::Live { lifetime } => {
                    let lifetime = match lifetime {
                        Lifetime::Resident => "resident",
                        Lifetime::General => "general",
                        Lifetime::Transient => "transient",
                    };
                    write!(json, r#","state":"live","lifetime":"{lifetime}"}}"#)
                }
                SegmentState::Pending { waits_for: Some(stamp) } => {
                    let (queue, epoch) = (stamp.queue.0, stamp.epoch);
                    write!(json, r#","state":"pending","queue":{queue},"epoch":{epoch}}}"#)
                }
                SegmentState::Pending { waits_for: None } => write!(json, r#","state":"pending"}}"#),
                SegmentState::Guard => write!(json, r#","state":"guard"}}"#),
                _ => write!(json, r#","state":"free"}}"#),
            };
        }
        json.push_str("]}");
        json
    }

    /// The memory map as a picture: the capacity in rows from top to bottom, each byte in the colour of its state. A
    /// segment thinner than half a pixel is drawn that wide. `title` stands above it. O(segments + rows);
    /// allocates.
    pub fn to_svg(&self, title: &str) -> String {
        crate::map::draw(&self.stats, &self.segments, title)
    }
}
