//! The HotStuff baseline in worlds.

use super::{Facts, Pace, Vote, kind};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Domain, Quorums, Slot, View,
    baseline::{Form, HotStuff, HotStuffConfig, HotStuffMsg},
};

impl Facts for HotStuff {
    fn quorums(config: &HotStuffConfig) -> Quorums {
        config.quorums
    }

    fn domain(_: &HotStuffConfig) -> Domain {
        Domain::default()
    }

    fn config(quorums: Quorums, _: Domain, pace: Pace) -> HotStuffConfig {
        HotStuffConfig {
            quorums,
            form: Form::Plain,
            timeout: pace.timeout,
            doubles: true,
            block_txs: 1,
            block_batches: 1,
            batch_bytes: 1 << 26,
        }
    }

    fn vote(message: &HotStuffMsg) -> Option<Vote> {
        if let HotStuffMsg::Vote(view, digest) = message { Some((kind::VOTE, *view, 0, *digest)) } else { None }
    }

    /// Nothing is durable.
    fn locks(_: &Bytes, _: View, _: Slot, _: Option<B256>) -> bool {
        false
    }

    /// Proposed batches leave the pool.
    fn is_in_flight(&self, _: B256) -> bool {
        false
    }

    fn decided(&self) -> Slot {
        self.height()
    }

    fn stable(&self) -> Slot {
        0
    }

    fn leads(message: &HotStuffMsg) -> bool {
        matches!(message, HotStuffMsg::Propose(..))
    }

    fn gives_up(message: &HotStuffMsg) -> Option<u64> {
        if let HotStuffMsg::Timeout(view, ..) = message { Some(*view) } else { None }
    }

    /// As if its certificates were signed.
    fn signatures(message: &HotStuffMsg, quorums: Quorums) -> u64 {
        let quorum = quorums.available() as u64;
        match message {
            HotStuffMsg::Batch(_) | HotStuffMsg::Want(_) => 0,
            HotStuffMsg::Vote(..) => 1,
            HotStuffMsg::Propose(_, false) | HotStuffMsg::Timeout(..) | HotStuffMsg::Block(_) => 1 + quorum,
            HotStuffMsg::Propose(_, true) => 1 + 2 * quorum,
        }
    }
}
