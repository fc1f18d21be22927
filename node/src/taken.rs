//! Snapshots of this node's states for other nodes. Chunks are made when they are asked for, beside the chain.

use crate::chain::{Chain, Metadata};
use parking_lot::Mutex;
use phalanx::{
    Anchor, RootKind,
    alloy::primitives::Bytes,
    api::{ExecId, Offer, TxPolicy},
    merkle::Exporter,
};
use std::{collections::VecDeque, sync::Arc};

/// Format of the chunks: the store's canonical snapshots, version 1, whose bytes are in [`phalanx::merkle::snapshot`].
pub(crate) const FORMAT: u32 = 3;

/// Maximum length of a chunk, in bytes: CometBFT carries messages of 16 MB.
const LONGEST: usize = 15_990_000;

/// Snapshots that other nodes may take. The memory of one is 384 bytes per 2048 positions, and it holds the log of its state.
#[derive(Debug)]
pub(crate) struct Taken {
    every: u64,
    keep: usize,
    all: Mutex<VecDeque<(Offer, Arc<Exporter>)>>,
}

impl Taken {
    /// Takes snapshots every so many heights, and keeps the newest; none of a chain with Ethereum's root. Those that the history still holds are taken at once; a
    /// restart loses older ones.
    pub(crate) fn new(chain: &Chain, every: u64, keep: usize, history: usize) -> Self {
        // Nothing that validators agree on binds such a state's store.
        let every = if chain.spec.root() == RootKind::Ethereum { 0 } else { every };
        let taken = Self { every, keep, all: Mutex::default() };
        if every > u64::try_from(history).unwrap_or(u64::MAX) {
            tracing::warn!(
                every,
                history,
                "snapshots are further apart than the history reaches: a restart loses them"
            );
        }
        let (height, history) = (chain.height(), u64::try_from(history).unwrap_or(u64::MAX));
        if let Some(newest) = height.checked_rem(every).map(|over| height - over) {
            let oldest = height.saturating_sub(history);
            let heights = (0..keep as u64).map_while(|back| newest.checked_sub(back.checked_mul(every)?));
            let mut heights: Vec<u64> = heights.take_while(|at| *at >= oldest && *at > 0).collect();
            heights.reverse();
            heights.into_iter().for_each(|at| drop(taken.take(chain, at)));
        }
        taken
    }

    /// Takes a snapshot where one is asked for, and keeps the newest.
    pub(crate) fn on_demand(keep: usize) -> Self {
        Self { every: 0, keep, all: Mutex::default() }
    }

    /// A block is committed: its state is taken if it is its turn.
    pub(crate) fn committed(&self, chain: &Chain, height: u64) {
        if self.every != 0 && height.is_multiple_of(self.every) {
            // The reason is in the log.
            let _ = self.take(chain, height);
        }
    }

    /// Takes a snapshot of the state after a committed block.
    ///
    /// # Errors
    /// The reason, in words: the chain goes on without it.
    pub(crate) fn take(&self, chain: &Chain, height: u64) -> Result<Offer, String> {
        let taken = offer(chain, height);
        match taken {
            Ok((offer, exporter)) => {
                let mut all = self.all.lock();
                all.push_back((offer.clone(), Arc::new(exporter)));
                let over = all.len().saturating_sub(self.keep);
                all.drain(..over);
                Ok(offer)
            }
            Err(why) => {
                tracing::warn!(why, height, "no snapshot is taken");
                Err(why)
            }
        }
    }

    pub(crate) fn offers(&self) -> Vec<Offer> {
        self.all.lock().iter().map(|(offer, _)| offer.clone()).collect()
    }

    pub(crate) fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes> {
        let exporter = {
            let all = self.all.lock();
            let found = all.iter().find(|(offer, _)| (offer.height, offer.format) == (height, format));
            found.filter(|(offer, _)| number < offer.chunks).map(|(_, exporter)| Arc::clone(exporter))?
        };
        match exporter.chunk(number.into()) {
            Ok(chunk) if chunk.len() <= LONGEST => return Some(chunk.into()),
            Ok(chunk) => {
                tracing::warn!(
                    height,
                    number,
                    bytes = chunk.len(),
                    "a chunk is too long for CometBFT: no more of its snapshot"
                );
            }
            Err(error) => tracing::warn!(%error, height, number, "a chunk is not made: no more of its snapshot"),
        }
        // Without it the snapshot is of no use to any node.
        self.all.lock().retain(|(offer, _)| (offer.height, offer.format) != (height, format));
        None
    }
}

/// Begins a snapshot of the state after a committed block.
fn offer(chain: &Chain, height: u64) -> Result<(Offer, Exporter), String> {
    let block = chain.block(height).map_err(|error| error.to_string())?;
    let block = block.ok_or_else(|| format!("block {height} is not kept"))?;
    let head = &block.head;
    let below =
        height.checked_sub(1).map(|below| chain.head_at(below)).transpose().map_err(|error| error.to_string())?;
    let parent = below.flatten().ok_or_else(|| format!("the parent of block {height} is not kept"))?;
    let anchor = Anchor {
        parent: ExecId(parent.exec),
        header: head.header.clone(),
        timestamp_ms: head.timestamp_ms,
        policy: TxPolicy::SkipInvalid,
        payload: block.payload().digest(),
    };
    let state = chain.state(height).map_err(|error| error.to_string())?;
    let exporter = state.exporter().map_err(|error| error.to_string())?;
    let proof = state.prove_anchored().map_err(|error| error.to_string())?;
    let manifest = exporter.manifest();
    let chunks = u32::try_from(manifest.chunks()).map_err(|_| "the state has too many chunks".to_owned())?;
    let metadata = Metadata::new(manifest, proof, anchor);
    // Other nodes refuse what this check refuses.
    if metadata.check(chain.store.identity(), head.header.state_root).is_none() {
        return Err("its metadata do not show its block: this is a bug".into());
    }
    let metadata = metadata.encode();
    Ok((Offer { height, format: FORMAT, chunks, metadata }, exporter))
}
