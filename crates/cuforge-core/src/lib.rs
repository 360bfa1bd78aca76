//! Vocabulary and traits of cuforge: what every other crate speaks, and nothing that runs.
#![no_std]
