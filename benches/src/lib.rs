//! Benches live in `benches/`; this library holds what several of them share.
