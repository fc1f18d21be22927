//! First record of a log: the network and the replica that it belongs to. Without it, a replica whose folder is another's would vote
//! against what it has said.

use crate::config::NetConfig;
use alloy_primitives::Bytes;
use phalanx_bft::Index;

/// First bytes of the record.
const TAG: &[u8; 8] = b"PHXLOG_1";

/// Owner of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(Bytes);

impl Owner {
    /// The replica of a network; `None` if the network has no name. Logs of such a network have no owner.
    pub(crate) fn new(config: &NetConfig, me: Index) -> Option<Self> {
        let named = !config.instance.is_zero();
        named.then(|| Self([&TAG[..], config.instance.as_slice(), &me.0.to_be_bytes()].concat().into()))
    }

    /// The record.
    pub(crate) fn record(&self) -> Bytes {
        self.0.clone()
    }
}
