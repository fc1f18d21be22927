//! State sync of the scripted CometBFT, as the syncer of CometBFT v0.38 does it (`statesync/syncer.go` of its source).

use super::{Broken, Comet, Link, ask, asked, hash_of, unexpected};
use crate::proto::{
    self, Snapshot, request::Value as Asked, response::Value as Answer,
    response_apply_snapshot_chunk::Result as Applied, response_offer_snapshot::Result as Offered,
};
use alloy_primitives::B256;
use prost::bytes::Bytes;

/// Maximum number of times that an application may ask for all chunks of one snapshot again.
const TRIES: u32 = 8;

/// A node that offers snapshots.
pub struct Peer<'p> {
    /// Name of the node.
    pub name: String,
    /// Snapshots that it offers.
    pub snapshots: Vec<Snapshot>,
    /// Chunk of a height and a format by its number.
    pub chunk: Box<dyn FnMut(u64, u32, u32) -> Bytes + 'p>,
}

impl core::fmt::Debug for Peer<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Peer").field("name", &self.name).field("snapshots", &self.snapshots).finish_non_exhaustive()
    }
}

/// Snapshots that an application offers.
///
/// # Errors
/// [`Broken`].
pub fn snapshots(link: &mut impl Link) -> Result<Vec<Snapshot>, Broken> {
    match ask(link, asked(Asked::ListSnapshots(proto::RequestListSnapshots {})))? {
        Answer::ListSnapshots(list) => Ok(list.snapshots),
        _ => Err(unexpected("ListSnapshots")),
    }
}

/// Chunk of an application; empty if it has none.
///
/// # Errors
/// [`Broken`].
pub fn chunk(link: &mut impl Link, height: u64, format: u32, chunk: u32) -> Result<Bytes, Broken> {
    let load = proto::RequestLoadSnapshotChunk { height, format, chunk };
    match ask(link, asked(Asked::LoadSnapshotChunk(load)))? {
        Answer::LoadSnapshotChunk(loaded) => Ok(loaded.chunk),
        _ => Err(unexpected("LoadSnapshotChunk")),
    }
}

/// End of the chunks of one snapshot.
enum End {
    Whole,
    Rejected,
    Again,
}

impl Comet {
    /// Creates a CometBFT that joins the chain of another one, whose headers its light client verifies.
    #[must_use]
    pub fn joining(chain: &Self) -> Self {
        Self::new(&chain.chain_id, chain.start_ms)
    }

    /// Takes a snapshot of `chain` from the peers, the best one first, and returns its height. Peers that the application
    /// rejects are dropped from the list.
    ///
    /// # Errors
    /// [`Broken`]; `Wrong` if the application accepts no snapshot.
    pub fn sync(&mut self, link: &mut impl Link, chain: &Self, peers: &mut Vec<Peer<'_>>) -> Result<u64, Broken> {
        let mut rejected: Vec<Snapshot> = Vec::new();
        let mut formats: Vec<u32> = Vec::new();
        loop {
            let offered = peers.iter().flat_map(|peer| &peer.snapshots);
            let open = offered.filter(|one| !rejected.contains(one) && !formats.contains(&one.format));
            let Some(best) = open.max_by_key(|one| (one.height, one.format)).cloned() else {
                return Err(Broken::Wrong("no snapshot is accepted".into()));
            };
            // The light client needs the next header: it has the app hash.
            let Some(trusted) = chain.responses.get(&best.height).map(|response| response.app_hash.clone()) else {
                rejected.push(best);
                continue;
            };
            self.step()?;
            let offer = proto::RequestOfferSnapshot { snapshot: Some(best.clone()), app_hash: trusted.clone() };
            let Answer::OfferSnapshot(answer) = ask(link, asked(Asked::OfferSnapshot(offer)))? else {
                return Err(unexpected("OfferSnapshot"));
            };
            match Offered::try_from(answer.result) {
                Ok(Offered::Accept) => {}
                Ok(Offered::RejectFormat) => {
                    formats.push(best.format);
                    continue;
                }
                Ok(Offered::RejectSender) => {
                    peers.retain(|peer| !peer.snapshots.contains(&best));
                    continue;
                }
                Ok(Offered::Reject) => {
                    rejected.push(best);
                    continue;
                }
                _ => return Err(Broken::Wrong("the application aborts state sync at an offer".into())),
            }
            let mut tries = 0;
            let end = loop {
                tries += 1;
                match self.chunks(link, &best, peers)? {
                    End::Again if tries < TRIES => {}
                    end => break end,
                }
            };
            if !matches!(end, End::Whole) {
                rejected.push(best);
                continue;
            }
            self.step()?;
            let Answer::Info(info) = ask(link, asked(Asked::Info(proto::RequestInfo::default())))? else {
                return Err(unexpected("Info"));
            };
            if u64::try_from(info.last_block_height) != Ok(best.height) || info.last_block_app_hash != trusted {
                return Err(Broken::Wrong("the application is at another state than the snapshot's".into()));
            }
            self.step()?;
            self.state = (best.height, hash_of(&trusted));
            self.blocks = chain.blocks.iter().take_while(|block| block.height <= best.height).cloned().collect();
            return Ok(best.height);
        }
    }

    fn chunks(&mut self, link: &mut impl Link, of: &Snapshot, peers: &mut Vec<Peer<'_>>) -> Result<End, Broken> {
        let mut number = 0;
        while number < of.chunks {
            let mut able: Vec<_> = peers.iter_mut().filter(|peer| peer.snapshots.contains(of)).collect();
            if able.is_empty() {
                return Ok(End::Rejected);
            }
            let place = number as usize % able.len();
            let sender = able[place].name.clone();
            let chunk = (able[place].chunk)(of.height, of.format, number);
            self.step()?;
            let apply = proto::RequestApplySnapshotChunk { index: number, chunk, sender };
            let Answer::ApplySnapshotChunk(answer) = ask(link, asked(Asked::ApplySnapshotChunk(apply)))? else {
                return Err(unexpected("ApplySnapshotChunk"));
            };
            peers.retain(|peer| !answer.reject_senders.contains(&peer.name));
            match Applied::try_from(answer.result) {
                Ok(Applied::Accept) => number += 1,
                Ok(Applied::Retry) => number = answer.refetch_chunks.first().copied().unwrap_or(number),
                Ok(Applied::RetrySnapshot) => return Ok(End::Again),
                Ok(Applied::RejectSnapshot) => return Ok(End::Rejected),
                _ => return Err(Broken::Wrong("the application aborts state sync at a chunk".into())),
            }
        }
        Ok(End::Whole)
    }

    /// Executes the blocks of `chain` that this validator has not, as block sync does.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn catch_up(&mut self, link: &mut impl Link, chain: &Self) -> Result<(), Broken> {
        let from = self.state.0;
        for block in chain.blocks.iter().filter(|block| block.height > from) {
            self.step()?;
            if (self.blocks.len() as u64) < block.height {
                self.blocks.push(block.clone());
            }
            self.apply(link, block)?;
        }
        Ok(())
    }

    /// Height and app hash of the saved state.
    pub const fn state(&self) -> (u64, B256) {
        self.state
    }
}
