//! Snapshots of a replica's states for others: each is offered with the certificate of its block, and cut into chunks on request.

use alloy_primitives::Bytes;
use alloy_rlp::{RlpDecodable, RlpEncodable};
use parking_lot::Mutex;
use phalanx_engine_api::Offer;
use phalanx_host::Certified;
use std::{collections::VecDeque, sync::Arc};

/// Snapshots that are offered, the newest: one that is being fetched outlives the next.
pub(crate) const MOST_OFFERS: usize = 2;
/// Chunks that are made or sent at a time, at most, of as many clients: each takes up to some 16 MB of memory, twice while it is encoded.
const MOST_CHUNKS: usize = 4;
/// Part of the heights between two snapshots that pass after an engine could not take one.
const RETRY_PART: u64 = 8;

/// Snapshots of the engine around a replica. Calls come from several threads.
pub trait Snapshots: Send + Sync {
    /// Begins a snapshot of the state after the newest committed block, and forgets older ones but the last. The worker waits for it.
    ///
    /// # Errors
    /// The reason, in words: there is no snapshot of this block.
    fn take(&self, height: u64) -> Result<Offer, String>;

    /// A chunk of a snapshot; `None` if there is none any more.
    fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes>;
}

/// A snapshot of the state after a block whose result a quorum has signed, as replicas offer it.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Snapshot {
    /// The block, with its certificate.
    pub block: Certified,
    /// Format of the chunks.
    pub format: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Everything else that an engine needs, which the state root binds.
    pub metadata: Bytes,
}

impl Snapshot {
    /// The snapshot as engines name it.
    pub(crate) fn offer(&self) -> Offer {
        let Self { format, chunks, .. } = *self;
        Offer { height: self.block.slot, format, chunks, metadata: self.metadata.clone() }
    }
}

/// Snapshots that a replica offers.
#[derive(Default)]
pub(crate) struct Offers {
    /// `None` for an engine that makes none, and once the replica is stopped.
    source: Mutex<Option<Arc<dyn Snapshots>>>,
    /// Heights between two snapshots; zero for none.
    every: u64,
    all: Mutex<VecDeque<Snapshot>>,
    /// Height of the last state that the engine could not take.
    failed: Mutex<Option<u64>>,
    /// Clients whose chunks are made or sent.
    places: Places,
}

impl core::fmt::Debug for Offers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Offers").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Clients that have a place.
type Places = Arc<Mutex<Vec<u64>>>;

/// Right of a client to one of the chunks that are made or sent at a time.
struct Place(Places, u64);

impl Place {
    fn take(places: &Places, client: u64) -> Option<Self> {
        let mut taken = places.lock();
        let is_free = taken.len() < MOST_CHUNKS && !taken.contains(&client);
        is_free.then(|| {
            taken.push(client);
            Self(Arc::clone(places), client)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().retain(|client| *client != self.1);
    }
}

/// Bytes that hold a place until the last reader has dropped them.
struct Placed(Vec<u8>, #[expect(dead_code, reason = "its drop frees the place")] Place);

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Offers {
    pub(crate) fn new(source: Option<Arc<dyn Snapshots>>, every: u64) -> Self {
        Self { source: Mutex::new(source), every, ..Self::default() }
    }

    /// Drops the engine: a thread of a client may hold the offers for a while.
    pub(crate) fn close(&self) {
        let source = self.source.lock().take();
        drop(source);
    }

    fn source(&self) -> Option<Arc<dyn Snapshots>> {
        self.source.lock().clone()
    }

    /// Returns true if the state of the committed block is to be taken. All replicas take those of common heights, so that chunks can come
    /// from any of them. `base` is the block below the oldest retained one: a snapshot below it leads nowhere.
    pub(crate) fn is_due(&self, committed: u64, base: u64) -> bool {
        if self.source.lock().is_none() || self.every == 0 || committed == 0 {
            return false;
        }
        let pause = (self.every / RETRY_PART).max(1);
        if self.failed.lock().is_some_and(|failed| committed < failed.saturating_add(pause)) {
            return false;
        }
        let newest = self.all.lock().back().map(|newest| newest.block.slot);
        let is_stale = |newest: u64| newest < base || newest.saturating_add(self.every) < committed;
        newest.is_none_or(is_stale) || committed.is_multiple_of(self.every) && newest != Some(committed)
    }

    /// Takes the state of the newest committed block and offers it. An engine that cannot has said why, and a later block is tried.
    pub(crate) fn take(&self, block: Certified) {
        let Some(source) = self.source() else { return };
        let Ok(offer) = source.take(block.slot) else {
            *self.failed.lock() = Some(block.slot);
            return;
        };
        *self.failed.lock() = None;
        let Offer { format, chunks, metadata, .. } = offer;
        let mut all = self.all.lock();
        all.push_back(Snapshot { block, format, chunks, metadata });
        let over = all.len().saturating_sub(MOST_OFFERS);
        all.drain(..over);
    }

    /// The snapshots, oldest first.
    pub(crate) fn all(&self) -> Vec<Snapshot> {
        self.all.lock().iter().cloned().collect()
    }

    /// Heights of the snapshots.
    pub(crate) fn heights(&self) -> Vec<u64> {
        self.all.lock().iter().map(|snapshot| snapshot.block.slot).collect()
    }

    /// A reply to a client with a chunk, as `encode` makes it; an empty chunk if there is none, too many are being sent, or the last one
    /// of this client still is.
    pub(crate) fn reply(
        &self,
        client: u64,
        (height, number): (u64, u32),
        encode: impl FnOnce(Bytes) -> Vec<u8>,
    ) -> Bytes {
        let place = Place::take(&self.places, client);
        match place.and_then(|place| Some((self.chunk(height, number)?, place))) {
            Some((chunk, place)) => Bytes(alloy_primitives::bytes::Bytes::from_owner(Placed(encode(chunk), place))),
            None => encode(Bytes::new()).into(),
        }
    }

    fn chunk(&self, height: u64, number: u32) -> Option<Bytes> {
        let format = {
            let all = self.all.lock();
            let found = all.iter().find(|snapshot| snapshot.block.slot == height && number < snapshot.chunks);
            found.map(|snapshot| snapshot.format)?
        };
        let chunk = self.source()?.chunk(height, format, number);
        if chunk.is_none() {
            self.all.lock().retain(|snapshot| snapshot.block.slot != height);
        }
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};

    /// Chunks are their number; height 9 has none.
    struct Numbers;

    impl Snapshots for Numbers {
        fn take(&self, height: u64) -> Result<Offer, String> {
            let offer = Offer { height, format: 1, chunks: 9, metadata: Bytes::new() };
            if height == 9 { Err("none".into()) } else { Ok(offer) }
        }

        fn chunk(&self, height: u64, _: u32, number: u32) -> Option<Bytes> {
            (height != 12).then(|| vec![number as u8].into())
        }
    }

    fn block(slot: u64) -> Certified {
        let (block, parent, payload) = (B256::ZERO, B256::ZERO, B256::ZERO);
        let (result, certificate) = (Bytes::new(), Bytes::new());
        Certified { slot, block, parent, timestamp_ms: 0, beneficiary: Address::ZERO, payload, result, certificate }
    }

    fn offers() -> Offers {
        Offers::new(Some(Arc::new(Numbers)), 4)
    }

    #[test]
    fn states_of_common_heights_are_taken_and_others_where_they_are_needed() {
        let offers = offers();
        assert!(!offers.is_due(0, 0) && offers.is_due(1, 0), "the first one");
        offers.take(block(1));
        assert_eq!([2, 3, 4, 5].map(|height| offers.is_due(height, 0)), [false, false, true, false]);
        assert!(offers.is_due(3, 2), "the newest one is below what is retained");
        assert!(offers.is_due(6, 0), "that of height 4 was missed");
        offers.take(block(8));
        offers.take(block(9));
        assert_eq!(offers.heights(), [1, 8], "the engine had none of 9");
        assert!(!offers.is_due(9, 9) && offers.is_due(10, 9), "it has to be another block");
        offers.take(block(12));
        assert_eq!(offers.heights(), [8, 12], "the newest two");
        assert!(!offers.is_due(12, 0), "it is there");
        assert!(!Offers::new(Some(Arc::new(Numbers)), 0).is_due(4, 0) && !Offers::new(None, 4).is_due(4, 0));
    }

    #[test]
    fn chunks_that_nobody_reads_take_a_bounded_number_of_places() {
        let offers = offers();
        offers.take(block(8));
        let chunk = |client, number| offers.reply(client, (8, number), |chunk| chunk.to_vec());
        let mut unread: Vec<Bytes> = vec![chunk(0, 0)];
        assert!(chunk(0, 1).is_empty(), "a client has one place");
        // A reply without a chunk has none.
        let empty = chunk(1, 9);
        assert!(empty.is_empty(), "there are nine");
        unread.extend((1..4).map(|client| chunk(client, 3)));
        assert_eq!(unread[3].to_vec(), [3]);
        assert!(chunk(4, 4).is_empty(), "all places are taken");
        unread.pop();
        assert_eq!(chunk(4, 4).to_vec(), [4]);
        offers.take(block(12));
        assert!(offers.reply(5, (12, 0), |chunk| chunk.to_vec()).is_empty());
        assert_eq!(offers.heights(), [8], "a snapshot that lacks a chunk is of no use");
    }

    #[test]
    fn offers_that_are_closed_keep_no_engine() {
        let engine = Arc::new(Numbers);
        let offers = Offers::new(Some(Arc::clone(&engine) as Arc<dyn Snapshots>), 4);
        offers.take(block(8));
        offers.close();
        assert_eq!(Arc::strong_count(&engine), 1);
        assert!(!offers.is_due(12, 0) && offers.reply(0, (8, 0), |chunk| chunk.to_vec()).is_empty());
    }
}
