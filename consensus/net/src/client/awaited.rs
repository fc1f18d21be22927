//! Transactions that clients await: each is acknowledged in a single message, by a collector of its block's certificate.

use super::message::{Acknowledgement, Reply};
use crate::queue::Queue;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use phalanx_engine_api::BlockResult;
use phalanx_merkle_proof::{acknowledge, prove_fate};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Transactions that one client awaits, at most. The oldest ones make room: their client takes f+1 equal notices instead.
const MOST_AWAITED: usize = 4_096;

/// Transactions that one client awaits.
#[derive(Debug)]
struct OfClient {
    replies: Arc<Queue<Bytes>>,
    hashes: BTreeSet<B256>,
    /// In the order of arrival; some may have been answered.
    order: VecDeque<B256>,
}

impl OfClient {
    fn add(&mut self, hash: B256) {
        if self.hashes.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > MOST_AWAITED
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }
}

/// Transactions that clients await. Memory is bounded by the number of clients.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Mutex<Vec<OfClient>>);

impl Awaited {
    /// Notes transactions that the client with these replies awaits.
    pub(super) fn add(&self, replies: &Arc<Queue<Bytes>>, hashes: Vec<B256>) {
        let mut clients = self.0.lock();
        clients.retain(|client| !client.replies.is_closed());
        let at = clients.iter().position(|client| Arc::ptr_eq(&client.replies, replies)).unwrap_or_else(|| {
            clients.push(OfClient { replies: Arc::clone(replies), hashes: BTreeSet::new(), order: VecDeque::new() });
            clients.len() - 1
        });
        hashes.into_iter().for_each(|hash| clients[at].add(hash));
    }

    /// Answers what is awaited of a block that has a certificate, if this replica is the one to do so; forgets it otherwise. `notice`
    /// is the encoded notice of the block. Returns the number of acknowledgements that were sent.
    pub(crate) fn answer(
        &self,
        slot: u64,
        digest: B256,
        signature: &[u8],
        notice: Option<&Bytes>,
        answers: bool,
    ) -> u64 {
        let mut clients = self.0.lock();
        clients.retain(|client| !client.replies.is_closed() && !client.hashes.is_empty());
        if clients.is_empty() {
            return 0;
        }
        let Some(Ok(Reply::Block(notice))) = notice.map(|bytes| Reply::decode(&mut &bytes[..])) else { return 0 };
        // A replica certifies the result that it has itself.
        let Some(statuses) = notice.checked_statuses().filter(|_| notice.digest() == digest) else { return 0 };
        let fates = phalanx_engine_api::fates(&notice.txs, &statuses);
        let block = notice.result();
        let mut sent = 0;
        for (place, hash) in (0..).zip(&notice.txs) {
            for client in clients.iter_mut().filter_map(|client| client.hashes.remove(hash).then_some(&*client)) {
                if let Some(bytes) = answers.then(|| message(slot, digest, signature, &block, &fates, place)).flatten()
                {
                    let reply: Bytes =
                        alloy_rlp::encode(Reply::Acknowledged(Acknowledgement { tx: *hash, bytes })).into();
                    // A client that does not read takes f+1 notices later.
                    sent += u64::from(client.replies.try_push(reply.len(), reply));
                }
            }
        }
        sent
    }
}

/// The acknowledgement of the transaction at a place. Signatures that are no points of the curve acknowledge nothing.
fn message(
    slot: u64,
    digest: B256,
    signature: &[u8],
    block: &BlockResult,
    fates: &[(phalanx_merkle_proof::Hash, u8)],
    place: u32,
) -> Option<Bytes> {
    let signature: &[u8; 48] = signature.try_into().ok()?;
    Some(acknowledge(slot, &digest.0, signature, &prove_fate(block, fates, place)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::Notice, queue::Popped};
    use phalanx_engine_api::TxStatus;
    use phalanx_merkle_proof::verify_fate;

    fn notice(txs: Vec<B256>) -> Notice {
        let statuses = vec![TxStatus::Succeeded; txs.len()];
        Notice {
            height: 9,
            block: B256::ZERO,
            timestamp_ms: 0,
            prevrandao: B256::ZERO,
            beneficiary: Default::default(),
            gas_limit: 0,
            base_fee: 0,
            execution: B256::ZERO,
            state_root: B256::repeat_byte(3),
            receipts_root: B256::ZERO,
            transactions_root: phalanx_engine_api::transactions_root(&txs, &statuses),
            gas_used: 0,
            leader: 0,
            path: 0,
            statuses: statuses.iter().map(|status| *status as u8).collect(),
            txs,
        }
    }

    #[test]
    fn what_is_awaited_is_answered_once_and_the_rest_is_forgotten() {
        let (awaited, replies) = (Awaited::default(), Arc::new(Queue::new(usize::MAX, usize::MAX)));
        let hash = B256::repeat_byte;
        awaited.add(&replies, vec![hash(1), hash(2), hash(7)]);
        let told = notice(vec![hash(5), hash(1), hash(2)]);
        let (digest, bytes) = (told.digest(), Bytes::from(alloy_rlp::encode(Reply::Block(told))));
        assert_eq!(awaited.answer(9, B256::ZERO, &[7; 48], Some(&bytes), true), 0, "of another result");
        assert_eq!(awaited.answer(9, digest, &[7; 48], Some(&bytes), true), 2);
        for (tx, place) in [(hash(1), 1), (hash(2), 2)] {
            let Some(Popped::Item(reply)) = Some(replies.pop(None)) else { panic!("a reply") };
            let Ok(Reply::Acknowledged(of)) = Reply::decode(&mut &reply[..]) else { panic!("an acknowledgement") };
            assert_eq!(of.tx, tx);
            let fate = verify_fate(&digest.0, &tx.0, &of.bytes[89..]).expect("a proof");
            assert_eq!((fate.place, fate.count), (place, 3));
        }
        assert_eq!(awaited.answer(9, digest, &[7; 48], Some(&bytes), true), 0, "once");
        let other = notice(vec![hash(7)]);
        let (digest, bytes) = (other.digest(), Bytes::from(alloy_rlp::encode(Reply::Block(other))));
        assert_eq!(awaited.answer(10, digest, &[7; 48], Some(&bytes), false), 0, "another replica answers");
        assert!(awaited.0.lock().iter().all(|client| client.hashes.is_empty()));
    }

    #[test]
    fn a_client_awaits_a_bounded_number() {
        let (awaited, replies) = (Awaited::default(), Arc::new(Queue::new(usize::MAX, usize::MAX)));
        for round in 0..10_u64 {
            let hashes = (0..10_000_u64).map(|at| B256::left_padding_from(&(round * 10_000 + at).to_be_bytes()));
            awaited.add(&replies, hashes.collect());
        }
        {
            let clients = awaited.0.lock();
            assert_eq!(
                (clients.len(), clients[0].hashes.len(), clients[0].order.len()),
                (1, MOST_AWAITED, MOST_AWAITED)
            );
        }
        replies.close();
        awaited.add(&Arc::new(Queue::new(1, 1)), Vec::new());
        assert_eq!(awaited.0.lock().len(), 1, "a client that has ended is forgotten");
    }
}
