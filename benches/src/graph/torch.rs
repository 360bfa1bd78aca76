//! `PyTorch`'s CUDA graphs, in a Python process of their own.

use std::error::Error;

use crate::peers::{Python, python};

/// A running `PyTorch`.
pub(super) struct Torch {
    process: Python,
    version: String,
}

impl Torch {
    /// Starts it, where there is one.
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let mut process = Python::start(python("torch_graph.py"))?;
        let said = process.line()?;
        let version = said.strip_prefix("ready ").ok_or_else(|| said.clone())?.to_owned();
        Ok(Self { process, version })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Nanoseconds of one step of an order that the script knows.
    pub(super) fn ask(&mut self, order: &str) -> Result<f64, Box<dyn Error>> {
        self.process.ask(order)
    }
}
