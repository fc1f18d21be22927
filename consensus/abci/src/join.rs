//! State sync: a node without a chain takes a snapshot from others, and then begins with the chain's next block.
//!
//! ```text
//!           offer ─► accepted ─► apply (every chunk) ─► whole
//!  joining ────────────────────────────────────────────────────► first call about a block: the chain is opened
//!           InitChain: the chain is opened at its genesis
//! ```
//!
//! CometBFT has the app hash of an offered height from its light client, and nothing else here is trusted. It asks for the
//! chunks anew after a death, so what a [`Joiner`] has kept is accepted again.

use crate::{
    answers,
    host::Host,
    proto::{self, request::Value as Asked, response::Value as Answer},
};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_engine_api::{Applied, Offer, Offered};
use prost::bytes;

/// Node that has no chain yet. Calls for it wait for each other.
pub trait Joiner: Send + core::fmt::Debug + 'static {
    /// The node once it has a chain.
    type Host: Host;

    /// Height and state root of the whole snapshot that the node has.
    fn joined(&self) -> Option<(u64, B256)>;

    /// A snapshot is offered, whose state must have this root. One that the node has partly or as a whole goes on.
    fn offer(&mut self, offer: &Offer, root: B256) -> Offered;

    /// A chunk of the accepted snapshot has come. The last one makes the snapshot whole.
    fn apply(&mut self, number: u32, chunk: &Bytes) -> Applied;

    /// Opens the chain: after the whole snapshot, or at the genesis without one. Offers do not come any more.
    ///
    /// # Errors
    /// The reason in words: the node ends.
    fn open(&mut self) -> Result<Self::Host, String>;

    /// Joining has ended without a chain, by a panic or an error of [`Self::open`]: no call is answered any more. The node ends.
    fn failed(&mut self, why: &str);
}

/// Answers a call of a node that has no chain. `None` for a call that needs the chain.
pub(crate) fn answer<H: Host>(joiner: &mut dyn Joiner<Host = H>, asked: &Asked) -> Option<Answer> {
    const NOT_YET: &str = "the node is still joining the chain";
    Some(match asked {
        Asked::Echo(echo) => Answer::Echo(proto::ResponseEcho { message: echo.message.clone() }),
        Asked::Flush(_) => Answer::Flush(proto::ResponseFlush {}),
        Asked::Info(_) => {
            let (height, root) = joiner.joined().unwrap_or_default();
            Answer::Info(answers::info(height, &root))
        }
        Asked::CheckTx(_) => Answer::CheckTx(answers::check(Err(NOT_YET.into()))),
        Asked::Query(query) => Answer::Query(answers::query(query.data.clone(), Err(NOT_YET.into()))),
        Asked::ListSnapshots(_) => Answer::ListSnapshots(proto::ResponseListSnapshots::default()),
        Asked::LoadSnapshotChunk(_) => Answer::LoadSnapshotChunk(proto::ResponseLoadSnapshotChunk::default()),
        Asked::OfferSnapshot(offered) => Answer::OfferSnapshot(offer(joiner, offered)),
        Asked::ApplySnapshotChunk(chunk) => Answer::ApplySnapshotChunk(apply(joiner, chunk)),
        Asked::InitChain(_)
        | Asked::PrepareProposal(_)
        | Asked::ProcessProposal(_)
        | Asked::ExtendVote(_)
        | Asked::VerifyVoteExtension(_)
        | Asked::FinalizeBlock(_)
        | Asked::Commit(_) => return None,
    })
}

fn offer<H: Host>(
    joiner: &mut dyn Joiner<Host = H>,
    offered: &proto::RequestOfferSnapshot,
) -> proto::ResponseOfferSnapshot {
    use proto::response_offer_snapshot::Result;
    let root = B256::try_from(&offered.app_hash[..]).ok();
    let offer = offered.snapshot.as_ref().zip(root).map(|(snapshot, root)| {
        let proto::Snapshot { height, format, chunks, ref metadata, ref hash } = *snapshot;
        (Offer { height, format, chunks, metadata: Bytes(metadata.clone()) }, hash, root)
    });
    let result = match offer {
        Some((offer, hash, root)) if *hash == name(&offer) => match joiner.offer(&offer, root) {
            Offered::Accepted => Result::Accept,
            Offered::OtherFormat => Result::RejectFormat,
            Offered::Lie => Result::RejectSender,
            Offered::Unable => Result::Abort,
        },
        _ => Result::RejectSender,
    };
    if result != Result::Accept {
        let height = offered.snapshot.as_ref().map_or(0, |snapshot| snapshot.height);
        tracing::warn!(height, ?result, "an offered snapshot is refused");
    }
    proto::ResponseOfferSnapshot { result: result.into() }
}

fn apply<H: Host>(
    joiner: &mut dyn Joiner<Host = H>,
    chunk: &proto::RequestApplySnapshotChunk,
) -> proto::ResponseApplySnapshotChunk {
    use proto::response_apply_snapshot_chunk::Result;
    let number = chunk.index;
    let (result, bad) = match joiner.apply(number, &Bytes(chunk.chunk.clone())) {
        Applied::Kept => (Result::Accept, false),
        Applied::Bad => (Result::Retry, true),
        Applied::Again => (Result::RetrySnapshot, false),
        Applied::Unable => (Result::Abort, false),
    };
    let mut answer = proto::ResponseApplySnapshotChunk { result: result.into(), ..Default::default() };
    if bad {
        tracing::warn!(number, sender = chunk.sender, "a bad chunk of a snapshot is refused, and its sender with it");
        answer.refetch_chunks.push(number);
        answer.reject_senders.push(chunk.sender.clone());
    }
    answer
}

/// Hash that CometBFT names a snapshot by, with its numbers.
fn name(offer: &Offer) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(keccak256(&offer.metadata).as_slice())
}

/// Answers the calls about snapshots of a node that has a chain.
pub(crate) fn serve(host: &dyn Host, asked: &Asked) -> Option<Answer> {
    Some(match asked {
        Asked::ListSnapshots(_) => {
            let named = |offer: Offer| proto::Snapshot {
                hash: name(&offer),
                height: offer.height,
                format: offer.format,
                chunks: offer.chunks,
                metadata: offer.metadata.0,
            };
            let snapshots = host.snapshots().into_iter().map(named).collect();
            Answer::ListSnapshots(proto::ResponseListSnapshots { snapshots })
        }
        Asked::LoadSnapshotChunk(load) => {
            let chunk = host.chunk(load.height, load.format, load.chunk).unwrap_or_default().0;
            Answer::LoadSnapshotChunk(proto::ResponseLoadSnapshotChunk { chunk })
        }
        Asked::OfferSnapshot(_) => {
            tracing::error!("a snapshot is offered to a node with a chain: start it empty, with state sync");
            let result = proto::response_offer_snapshot::Result::Abort.into();
            Answer::OfferSnapshot(proto::ResponseOfferSnapshot { result })
        }
        Asked::ApplySnapshotChunk(_) => {
            let result = proto::response_apply_snapshot_chunk::Result::Abort.into();
            Answer::ApplySnapshotChunk(proto::ResponseApplySnapshotChunk { result, ..Default::default() })
        }
        _ => return None,
    })
}
