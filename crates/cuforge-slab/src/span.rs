//! What a ring remembers of one grant.

// Flags beside a span's handle: a span is live if it has neither of the first two.
pub(crate) const RELEASED: u64 = 1 << 63;
pub(crate) const STAMPED: u64 = 1 << 62;

/// One grant, with the padding in front of it: from where the span before it ends to its own end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Logical: counts all bytes that ever passed, modulo 2^64.
    pub(crate) end: u64,
    /// The handle of the span's latest grant. Handles ascend, and their place is the remainder by the number of places.
    pub(crate) handle_and_flags: u64,
}
