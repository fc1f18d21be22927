//! Committed blocks and states for any number of readers. A block is visible here once the engine has committed it.

use super::{
    awaited::{Awaited, Awaiting, Placed},
    failure::StateUnread,
    recent::Recent,
    returns::{Missed, Returns},
};
use crate::{
    remote::Remote,
    store::{Block, BlockStore, Entry, Head, StoreError},
};
use parking_lot::RwLock;
use phalanx::{
    Service, StateSnapshot,
    alloy::{consensus::Header, primitives::B256},
    api::ViewAt,
    chain::{Attributes, ChainSpec},
    paralyze::VmConfig,
    pool::PooledTx,
    revm::context::BlockEnv,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::broadcast;

/// Number of blocks after which old segments are pruned.
const PRUNE_EVERY: u64 = 256;

/// Number of new blocks that a subscriber may be behind, before it is closed.
const BEHIND: usize = 256;

/// Maximum number of blocks that are announced as removed when the chain goes back.
const REMOVED: u64 = 256;

/// Number of admitted transactions that a subscriber may be behind, before it is closed.
const TXS_BEHIND: usize = 4096;

/// Free bytes of a disk that cannot be asked.
const UNKNOWN_ROOM: u64 = u64::MAX;

/// Free bytes of the disk of a folder.
pub(super) fn disk_room(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(UNKNOWN_ROOM, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Blocks that are shown as safe and finalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finality {
    /// The newest block is: no block is revoked.
    Newest,
    /// The blocks at these heights, which a consensus client has named; `None` until it has.
    Marked { safe: Option<u64>, finalised: Option<u64> },
}

/// Change of the visible blocks.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// A block has become visible.
    Added(Arc<Block>),
    /// These blocks with logs, oldest first, are on the chain no more.
    Removed(Arc<[Arc<Block>]>),
}

/// A chain: its rules, its blocks, its states.
pub(crate) struct Chain {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Arc<BlockStore>,
    pub(crate) spec: ChainSpec,
    /// Header of the first block.
    pub(crate) genesis: Header,
    /// Chain that this one goes on from.
    pub(crate) remote: Option<Remote>,
    /// Rules with the chain's own precompiles, for any height.
    rules: VmConfig,
    /// The newest visible block.
    head: RwLock<Arc<Head>>,
    finality: RwLock<Finality>,
    recent: Arc<Recent>,
    returns: Returns,
    shown: broadcast::Sender<Shown>,
    awaited: Arc<Awaited>,
    admitted: broadcast::Sender<Arc<PooledTx>>,
    /// Height of the snapshot that the chain was joined with: its block has no body here.
    anchor: Option<u64>,
    /// Folder of state and blocks.
    folder: PathBuf,
    /// Number of older states that are kept.
    history: u64,
}

impl core::fmt::Debug for Chain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Chain").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Chain {
    pub(super) fn new(
        service: Service,
        (store, recent): (Arc<BlockStore>, Arc<Recent>),
        (spec, genesis, remote): (ChainSpec, Header, Option<Remote>),
        rules: VmConfig,
        (head, anchor): (Head, Option<u64>),
        (folder, history): (&Path, u64),
    ) -> Self {
        let (head, finality) = (RwLock::new(Arc::new(head)), RwLock::new(Finality::Newest));
        let (shown, admitted) = (broadcast::Sender::new(BEHIND), broadcast::Sender::new(TXS_BEHIND));
        let (folder, returns, service) = (folder.to_owned(), Returns::default(), Arc::new(service));
        Self {
            service,
            store,
            spec,
            genesis,
            remote,
            rules,
            head,
            finality,
            recent,
            returns,
            shown,
            awaited: Arc::default(),
            admitted,
            anchor,
            folder,
            history,
        }
    }

    /// Free bytes of the disk of the node's folder.
    pub(crate) fn disk_room(&self) -> u64 {
        disk_room(&self.folder)
    }

    /// The newest visible block.
    pub(crate) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.head.read())
    }

    /// Height of the newest visible block.
    pub(crate) fn height(&self) -> u64 {
        self.head.read().header.number
    }

    /// Makes a committed block visible, and announces it. Old ones are pruned from time to time.
    pub(crate) fn publish(&self, height: u64) -> Result<(), StoreError> {
        let missing = || StoreError::Behind { held: format!("no block {height}"), committed: height };
        let block = match self.recent.get(height) {
            Some(block) => block,
            None => Arc::new(self.store.block(height)?.ok_or_else(missing)?),
        };
        *self.head.write() = Arc::new(block.head.clone());
        self.awaited.wake(&block);
        // An error means that there is no subscriber.
        let _ = self.shown.send(Shown::Added(block));
        if height.is_multiple_of(PRUNE_EVERY)
            && let Err(error) = self.store.prune(self.needed(height))
        {
            tracing::warn!(%error, "old blocks are not pruned");
        }
        Ok(())
    }

    /// Height from which on blocks are needed whatever is to be kept: the chain may go back to there.
    fn needed(&self, height: u64) -> u64 {
        let reach = height.saturating_sub(self.history);
        match *self.finality.read() {
            Finality::Newest if self.spec.parameters().development => reach,
            Finality::Newest => u64::MAX,
            Finality::Marked { finalised, .. } => finalised.unwrap_or(reach),
        }
    }

    /// Visible blocks with logs above a height, oldest first: the newest [`REMOVED`] at most. The caller goes back to that height next, and
    /// then calls [`Self::rewound`].
    pub(crate) fn above(&self, height: u64) -> Result<Arc<[Arc<Block>]>, StoreError> {
        let tip = self.height();
        let mut found = Vec::new();
        for height in height.saturating_add(1).max(tip.saturating_sub(REMOVED - 1))..=tip {
            if self.head_at(height)?.is_some_and(|head| !head.header.logs_bloom.is_zero()) {
                found.extend(self.block(height)?);
            }
        }
        Ok(found.into())
    }

    /// Shows an earlier block as the newest: the engine and the store have gone back to it. Subscribers are notified of the logs that are
    /// removed, and of the blocks that follow.
    pub(crate) fn rewound(&self, height: u64, removed: Arc<[Arc<Block>]>) -> Result<(), StoreError> {
        let missing = || StoreError::Behind { held: format!("no block {height}"), committed: height };
        let head = self.store.head(height)?.ok_or_else(missing)?;
        *self.head.write() = Arc::new(head);
        self.returns.add(height, Arc::clone(&removed));
        // An error means that there is no subscriber.
        let _ = self.shown.send(Shown::Removed(removed));
        Ok(())
    }

    /// Number of times that the chain has gone back.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.count()
    }

    /// Returns for a reader that knows of the first `seen` returns, and has read the blocks below `next`.
    pub(crate) fn missed(&self, seen: u64, next: u64) -> Missed {
        self.returns.since(seen, next)
    }

    /// Sets the blocks that are shown as safe and finalised.
    pub(crate) fn mark(&self, finality: Finality) {
        *self.finality.write() = finality;
    }

    /// Height of the safe block, if there is one.
    pub(crate) fn safe(&self) -> Option<u64> {
        match *self.finality.read() {
            Finality::Newest => Some(self.height()),
            Finality::Marked { safe, .. } => safe,
        }
    }

    /// Height of the finalised block, if there is one.
    pub(crate) fn finalised(&self) -> Option<u64> {
        match *self.finality.read() {
            Finality::Newest => Some(self.height()),
            Finality::Marked { finalised, .. } => finalised,
        }
    }

    /// Receives every change of the visible blocks from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Shown> {
        self.shown.subscribe()
    }

    /// Notes a caller that waits for the block of a transaction, which it offers next. `None` if as many wait as may.
    pub(crate) fn await_tx(&self, hash: B256) -> Option<Awaiting> {
        self.awaited.add(hash)
    }

    /// Ends the wait of all callers for transactions: the node stops.
    pub(crate) fn end_waits(&self) {
        self.awaited.end();
    }

    /// Announces a transaction that the pool has admitted. Blocks may take it before the call.
    pub(crate) fn announce(&self, tx: Arc<PooledTx>) {
        // An error means that there is no subscriber.
        let _ = self.admitted.send(tx);
    }

    /// Receives every transaction that the pool admits from now on.
    pub(crate) fn subscribe_admitted(&self) -> broadcast::Receiver<Arc<PooledTx>> {
        self.admitted.subscribe()
    }

    /// Height of the lowest block with a body: above the newest one right after a snapshot.
    pub(crate) fn first(&self) -> Result<u64, StoreError> {
        let first = self.store.first()?;
        Ok(if self.anchor == Some(first) { first + 1 } else { first })
    }

    /// True if there is a block to show at a height, pruned or not.
    fn shows(&self, height: u64) -> bool {
        height <= self.height() && self.anchor != Some(height)
    }

    /// A visible block that is in memory.
    pub(crate) fn recent(&self, height: u64) -> Option<Arc<Block>> {
        self.recent.get(height).filter(|_| self.shows(height))
    }

    /// The visible block with a hash, if it is in memory.
    pub(crate) fn recent_named(&self, hash: &B256) -> Option<Arc<Block>> {
        self.recent.named(hash).filter(|block| self.shows(block.height()))
    }

    /// A visible transaction, if it is in memory.
    pub(crate) fn recent_transaction(&self, hash: &B256) -> Option<Placed> {
        self.recent.transaction(hash).filter(|placed| self.shows(placed.block.height()))
    }

    /// A visible block; `None` above the newest, or if it is pruned.
    pub(crate) fn block(&self, height: u64) -> Result<Option<Arc<Block>>, StoreError> {
        if let Some(block) = self.recent(height) {
            return Ok(Some(block));
        }
        if self.shows(height) { Ok(self.store.block(height)?.map(Arc::new)) } else { Ok(None) }
    }

    /// Head of a visible block.
    pub(crate) fn head_at(&self, height: u64) -> Result<Option<Arc<Head>>, StoreError> {
        let head = self.head();
        if height >= head.header.number {
            return Ok((height == head.header.number).then_some(head));
        }
        if let Some(block) = self.recent.get(height) {
            return Ok(Some(Arc::new(block.head.clone())));
        }
        Ok(self.store.head(height)?.map(Arc::new))
    }

    /// Height of the visible block with a hash.
    pub(crate) fn height_of(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        if let Some(block) = self.recent_named(hash) {
            return Ok(Some(block.height()));
        }
        let Some(height) = self.store.height_of(hash)?.filter(|height| *height <= self.height()) else {
            return Ok(None);
        };
        // The index is not trusted: a damaged one finds nothing, or another block.
        Ok(self.head_at(height)?.filter(|head| head.hash == *hash).map(|_| height))
    }

    /// Height, place and content of a visible transaction.
    pub(crate) fn transaction(&self, hash: &B256) -> Result<Option<(u64, u32, Entry)>, StoreError> {
        if let Some(Placed { block, index }) = self.recent_transaction(hash) {
            return Ok(block.entries.get(index).map(|entry| (block.height(), index as u32, entry.clone())));
        }
        let Some((height, index)) = self.store.place_of(hash)?.filter(|(height, _)| *height <= self.height()) else {
            return Ok(None);
        };
        let entry = self.store.entry(height, index)?;
        Ok(entry.filter(|entry| entry.hash == *hash).map(|entry| (height, index, entry)))
    }

    /// State after a visible block.
    pub(crate) fn state(&self, height: u64) -> Result<StateSnapshot, StateUnread> {
        self.service.snapshot(ViewAt::Height(height)).map_err(|failure| StateUnread::of(height, &failure))
    }

    /// Lowest height whose state is kept.
    pub(crate) fn first_state(&self) -> Result<u64, StateUnread> {
        match self.state(0) {
            Ok(_) => Ok(0),
            Err(StateUnread::Pruned { oldest, .. }) => Ok(oldest),
            Err(other) => Err(other),
        }
    }

    /// Rules and environment of the transactions of a block.
    pub(crate) fn rules(&self, header: &Header) -> (VmConfig, BlockEnv) {
        let cfg = self.spec.cfg(self.spec.spec(header), header.timestamp);
        (self.rules.with_cfg(cfg), self.spec.env(header))
    }

    /// Header of the next block at a time, in seconds, before its transactions. The time is after the parent's.
    pub(crate) fn child(&self, parent: &Head, attributes: &Attributes) -> Result<Header, String> {
        let attributes =
            Attributes { timestamp: attributes.timestamp.max(parent.header.timestamp + 1), ..attributes.clone() };
        self.spec.child_header(&parent.header, &attributes).map_err(|error| error.to_string())
    }
}
