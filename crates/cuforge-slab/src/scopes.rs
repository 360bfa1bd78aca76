//! The stack of open scopes, with tokens that are never valid twice.

use alloc::vec::Vec;
use cuforge_core::{Misuse, Scope};

const DEPTH_BITS: u32 = 8;

/// Open scopes, innermost last, each with a mark of the allocator's own.
#[derive(Debug)]
pub(crate) struct ScopeStack<M> {
    open: Vec<(Scope, M)>,
    max_depth: u32,
    next_serial: u64,
}

impl<M: Copy> ScopeStack<M> {
    pub(crate) fn new(max_depth: u32) -> Self {
        Self { open: Vec::with_capacity(max_depth as usize), max_depth, next_serial: 0 }
    }

    /// Opens a scope. O(1), no allocation.
    pub(crate) fn push(&mut self, mark: M) -> Result<Scope, Misuse> {
        if !self.has_room() {
            return Err(self.too_deep());
        }
        let depth = self.open.len() as u64;
        let scope = Scope(self.next_serial << DEPTH_BITS | depth);
        self.next_serial += 1;
        self.open.push((scope, mark));
        Ok(scope)
    }

    /// Whether another scope can be opened: the nesting allows it, and tokens are left.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.max_depth as usize && self.next_serial >> (64 - DEPTH_BITS) == 0
    }

    pub(crate) fn too_deep(&self) -> Misuse {
        Misuse::ScopeDepth { max_depth: self.max_depth }
    }

    /// The mark of an open scope. O(1).
    pub(crate) fn mark(&self, scope: Scope) -> Result<M, Misuse> {
        match self.open.get(depth_of(scope)) {
            Some((open, mark)) if *open == scope => Ok(*mark),
            _ if scope.0 >> DEPTH_BITS < self.next_serial => Err(Misuse::StaleScope),
            _ => Err(Misuse::UnknownScope),
        }
    }

    /// Closes an open scope and those inside it.
    pub(crate) fn close(&mut self, scope: Scope) {
        self.open.truncate(depth_of(scope));
    }

    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Scopes open now.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The marks of the scopes from `scope` on inwards.
    pub(crate) fn marks_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut M> {
        self.open.iter_mut().map(|(_, mark)| mark)
    }
}

/// How many scopes were open when `scope` was pushed.
pub(crate) fn depth_of(scope: Scope) -> usize {
    (scope.0 & ((1 << DEPTH_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_works_once_and_dies_with_its_outer_scope() {
        let mut scopes = ScopeStack::new(2);
        let outer = scopes.push(1).unwrap();
        let inner = scopes.push(2).unwrap();
        assert_eq!(scopes.push(3), Err(Misuse::ScopeDepth { max_depth: 2 }));
        scopes.close(outer);
        assert_eq!(scopes.mark(inner), Err(Misuse::StaleScope));
        assert_eq!(scopes.mark(outer), Err(Misuse::StaleScope));
        let again = scopes.push(4).unwrap();
        assert_ne!(again, outer);
        let future = Scope(1 << 40);
        assert_eq!(scopes.mark(future), Err(Misuse::UnknownScope));
        assert_eq!(scopes.mark(again), Ok(4));
    }
}
