//! What each optional feature needs of a driver: all of its functions, asked for before the first is called.

use crate::error::LaunchError;
use crate::ffi::Table;

/// Memory mapped behind reserved addresses, and taken away again.
pub(crate) const VIRTUAL_MEMORY: &[&str] = &[
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemGetAllocationGranularity",
];

/// A kernel as a graph of one node: made, changed, launched, and ended while other streams are captured.
pub(crate) const ONE_NODE_GRAPHS: &[&str] = &[
    "cuThreadExchangeStreamCaptureMode",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphAddKernelNode_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams_v2",
];

/// Captures that end whatever happens, whose graphs are looked at and destroyed.
const CAPTURES: &[&str] = &[
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphDestroy",
];

/// The functions of which a capture needs one of each pair: the newer, and the older that serves without it.
const CAPTURES_BY_EITHER: [[&str; 2]; 2] =
    [["cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo_v2"], ["cuGraphGetEdges_v2", "cuGraphGetEdges"]];

/// Executable graphs that are launched and destroyed.
const REPLAYS: &[&str] = &["cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy"];

/// Conditional nodes with what is in their graphs, put behind what a capture has so far.
const CONDITIONAL_NODES: &[&str] = &[
    "cuGraphConditionalHandleCreate",
    "cuGraphAddNode_v2",
    "cuGraphAddChildGraphNode",
    "cuGraphAddKernelNode_v2",
];

/// The functions of which a node that is added by hand needs one: what follows in the capture depends on it.
const FOLLOW_BY_EITHER: [&str; 2] =
    ["cuStreamUpdateCaptureDependencies_v2", "cuStreamUpdateCaptureDependencies"];

impl Table {
    /// The error of the first that is missing.
    pub(crate) fn need(&self, symbols: &[&str]) -> Result<(), LaunchError> {
        symbols.iter().find_map(|symbol| self.missing(symbol)).map_or(Ok(()), Err)
    }

    fn need_either(&self, [newer, older]: [&str; 2]) -> Result<(), LaunchError> {
        self.missing(older).filter(|_| self.missing(newer).is_some()).map_or(Ok(()), Err)
    }

    /// Whether it has all of them.
    pub(crate) fn has(&self, symbols: &[&str]) -> bool {
        symbols.iter().all(|symbol| self.missing(symbol).is_none())
    }

    /// Whether streams can be captured, so that no capture is begun that cannot be ended.
    pub(crate) fn need_captures(&self) -> Result<(), LaunchError> {
        self.need(CAPTURES)?;
        CAPTURES_BY_EITHER.into_iter().try_for_each(|pair| self.need_either(pair))
    }

    /// Whether graphs can be replayed.
    pub(crate) fn need_replays(&self) -> Result<(), LaunchError> {
        self.need(REPLAYS)
    }

    /// Whether a child graph can be put into a capture.
    pub(crate) fn need_children(&self) -> Result<(), LaunchError> {
        self.need(&["cuGraphAddChildGraphNode"])?;
        self.need_either(FOLLOW_BY_EITHER)
    }

    /// Whether a conditional node can be put into a capture.
    pub(crate) fn need_conditions(&self) -> Result<(), LaunchError> {
        self.need(CONDITIONAL_NODES)?;
        self.need_either(FOLLOW_BY_EITHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_a_list_is_looked_up_in_the_driver() {
        let lists =
            [VIRTUAL_MEMORY, ONE_NODE_GRAPHS, CAPTURES, REPLAYS, CONDITIONAL_NODES, &FOLLOW_BY_EITHER];
        let pairs = CAPTURES_BY_EITHER.iter().flatten();
        for name in lists.into_iter().flatten().chain(pairs) {
            assert!(Table::NAMES.contains(name), "{name}");
        }
    }
}
