//! Way of an admitted transaction out of the pool: to the source of blocks, or to the pools of other validators.

use crate::{engine_api::Handle, producer::Bell, relay::Relay, requests::Requests, rounds::Rounds, upstream::Upstream};
use phalanx::alloy::primitives::Bytes;

/// Receiver of the transactions that JSON-RPC has put into the pool.
#[derive(Clone, Debug)]
pub(crate) enum Exit {
    /// The producer takes them from the pool.
    Producer(Bell),
    /// CometBFT sends them to the other validators.
    Mempool(Relay),
    /// Blocks that a consensus client wants take them from the pool.
    Client(Handle),
    /// The replica takes them from the pool.
    Replica(Requests),
    /// The node that this one follows gets them instead of the pool.
    Upstream(Upstream),
}

impl Exit {
    /// Passes transactions on, as their senders have encoded them. Never blocks.
    pub(crate) fn pass(&self, txs: &[&Bytes]) {
        match self {
            Self::Producer(_) | Self::Replica(_) if txs.is_empty() => {}
            Self::Producer(bell) => bell.ring(),
            Self::Replica(requests) => requests.pass(),
            // A copy: the bytes may be a part of a long frame, which would stay as long as they wait.
            Self::Mempool(relay) => txs.iter().for_each(|tx| relay.pass(Bytes::copy_from_slice(tx))),
            Self::Client(_) if txs.is_empty() => {}
            Self::Client(handle) => handle.ring(),
            // They never come into the pool.
            Self::Upstream(_) => {}
        }
    }

    /// The rounds of a producer that makes blocks for transactions, if that is the way.
    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        self.bell().and_then(Bell::rounds)
    }

    /// The bell of this node's own producer.
    pub(crate) const fn bell(&self) -> Option<&Bell> {
        match self {
            Self::Producer(bell) => Some(bell),
            Self::Mempool(_) | Self::Client(_) | Self::Replica(_) | Self::Upstream(_) => None,
        }
    }

    /// Way to the thread of the consensus client that drives this node.
    pub(crate) const fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Client(handle) => Some(handle),
            Self::Producer(_) | Self::Mempool(_) | Self::Replica(_) | Self::Upstream(_) => None,
        }
    }

    /// Returns true if blocks may have blobs. One replica that gets a transaction from another does not get its sidecar.
    pub(crate) const fn takes_blobs(&self) -> bool {
        !matches!(self, Self::Replica(_))
    }

    /// The node that takes transactions instead of this one's pool.
    pub(crate) const fn upstream(&self) -> Option<&Upstream> {
        match self {
            Self::Upstream(upstream) => Some(upstream),
            Self::Producer(_) | Self::Mempool(_) | Self::Client(_) | Self::Replica(_) => None,
        }
    }
}
