//! A node without a chain: it takes a snapshot that CometBFT offers, and opens the chain behind it.

use crate::{
    chain::AnchorFiles,
    config::NodeConfig,
    error::NodeError,
    snapshot_taker::{SnapshotTaker, is_empty},
    validator::Validator,
};
use crossbeam_channel::Sender;
use phalanx::{
    alloy::primitives::{B256, Bytes},
    api::CommitMeta,
};
use phalanx_abci::{Applied, Joiner, Offer, Offered};

/// Opens the chain of the settings, and everything that serves it.
type Open = Box<dyn FnMut() -> Result<Validator, NodeError> + Send>;

/// A node that joins.
pub(crate) struct Join {
    taker: SnapshotTaker,
    open: Open,
    ended: Sender<NodeError>,
}

impl core::fmt::Debug for Join {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Join").field("taker", &self.taker).finish_non_exhaustive()
    }
}

impl Join {
    /// True if the node of these settings has no chain yet, or only a snapshot from which it has not gone on.
    pub(crate) fn is_due(config: &NodeConfig) -> Result<bool, NodeError> {
        let wants = config.comet().is_some_and(|comet| comet.state_sync);
        let files = AnchorFiles::new(config.store.folder());
        Ok(files.read_joining()?.is_some() || wants && is_empty(&config.store.folder().join("state"))?)
    }

    /// Creates the node as the last process has left it.
    pub(crate) fn new(config: &NodeConfig, open: Open, ended: Sender<NodeError>) -> Result<Self, NodeError> {
        Ok(Self { taker: SnapshotTaker::new(config)?, open, ended })
    }

    fn go_on(&mut self) -> Result<Validator, NodeError> {
        self.taker.settle()?;
        (self.open)()
    }

    fn tell(&self, why: NodeError) {
        tracing::error!(%why, "the node cannot join");
        // An error means that an earlier reason waits.
        let _ = self.ended.try_send(why);
    }
}

impl Joiner for Join {
    type Host = Validator;

    fn joined(&self) -> Option<(u64, B256)> {
        self.taker.joined()
    }

    fn offer(&mut self, offer: &Offer, root: B256) -> Offered {
        let meta = CommitMeta { cursor: offer.height, ..CommitMeta::default() };
        self.taker.offer(offer, root, meta).unwrap_or_else(|why| {
            self.tell(why);
            Offered::Unable
        })
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Applied {
        self.taker.apply(number, chunk).unwrap_or_else(|why| {
            self.tell(why);
            Applied::Unable
        })
    }

    fn failed(&mut self, why: &str) {
        self.tell(NodeError::Setting(format!("the node cannot join the chain: {why}")));
    }

    fn open(&mut self) -> Result<Validator, String> {
        self.go_on().map_err(|why| {
            let words = why.to_string();
            self.tell(why);
            words
        })
    }
}
