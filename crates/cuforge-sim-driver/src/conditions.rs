//! Conditions of graphs: values in device memory that kernels set and conditional nodes look at.

use parking_lot::Mutex;
use std::collections::HashMap;

use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::machine::Machine;
use crate::space::Owner;
use crate::work::Word;

/// All conditions, by their handles: a condition's handle is where its value lies, so that a kernel sets it by a store.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    known: Mutex<HashMap<u64, Condition>>,
}

#[derive(Clone, Copy, Debug)]
struct Condition {
    /// Its value at the start of each launch, if it is set then.
    default: Option<u32>,
    /// Whether a node has it.
    used: bool,
}

impl Conditions {
    /// A new condition with a value; its handle.
    pub(crate) fn create(
        &self,
        machine: &Machine,
        context: &Context,
        default: u32,
        assign: bool,
    ) -> Answer<u64> {
        let address = machine.allocate(context, 4, Owner::Variable)?;
        machine.space.store(address, &default.to_le_bytes())?;
        self.known.lock().insert(address, Condition { default: assign.then_some(default), used: false });
        Ok(address)
    }

    /// Gives a condition to a node; `INVALID_VALUE` if there is none or another node has it.
    pub(crate) fn give(&self, handle: u64) -> Answer {
        let mut known = self.known.lock();
        let condition = known.get_mut(&handle).filter(|condition| !condition.used);
        condition.ok_or(Code::INVALID_VALUE)?.used = true;
        Ok(())
    }

    /// What a launch writes to it first.
    pub(crate) fn at_launch(&self, handle: u64) -> Option<Word> {
        let default = self.known.lock().get(&handle)?.default?;
        Some(Word { address: handle, value: default.into(), bytes: 4 })
    }
}
