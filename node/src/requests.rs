//! Transactions of the pool that are handed out to a replica, which has them ordered.
//!
//! The pool is the node's, with all its rules. The replica takes from it what can run now, best first and by nonce within a sender, and
//! has it ordered: by its own proposals, or by those of the leader that it forwards to. What is handed out stays in the pool until a
//! block has it. What a block skips, because another block was faster or the gas was used up, is taken again, after a pause that grows.

use crate::{chain::Chain, raw, store::Block};
use parking_lot::Mutex;
use phalanx::{
    alloy::primitives::{B256, Bytes, keccak256, map::B256Map},
    pool::{self, Pool, Refusal},
};
use phalanx_net::{Admission, Doorbell, PoolChanges};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Release},
        },
    },
    time::{Duration, Instant},
};

/// Maximum number of transactions that are handed out: a replica has room for as many of the greatest length. Their gas is that of a block, at
/// most. The others wait in the pool, where dearer ones come first and each can be replaced.
const MOST: usize = 1_024;

/// Pause before a transaction is taken that two blocks have skipped. It doubles with each further one.
const PAUSE: Duration = Duration::from_millis(50);

/// Doublings, at most.
const MOST_DOUBLINGS: u32 = 10;

/// The way from the pool to the replica. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Requests(Arc<Way>);

#[derive(Debug)]
struct Way {
    chain: Arc<Chain>,
    doorbell: Doorbell,
    /// True if the pool may have something that was not taken.
    has_changed: AtomicBool,
    sent: Mutex<Sent>,
}

/// Transactions that the replica has taken.
#[derive(Debug, Default)]
struct Sent {
    /// Gas limits of those without a place in a block.
    waiting: B256Map<u64>,
    /// Sum of these limits.
    gas: u64,
    /// Number of blocks that have skipped a transaction, and the time before which it is not taken again.
    skips: B256Map<(u32, Instant)>,
    /// Time at which one of these can be taken again.
    due: Option<Instant>,
    /// Height of the newest committed block: the pool follows it a moment later, and has its transactions until then.
    height: u64,
    /// Height at which those that are handed out were compared with the pool.
    compared: u64,
}

impl Sent {
    /// Compares with a pool that has followed the newest block.
    fn look(&mut self, pool: &Pool, (most, most_gas): (usize, u64), now: Instant) -> PoolChanges {
        let mut changes = PoolChanges::default();
        if core::mem::replace(&mut self.compared, self.height) < self.height {
            let gone = self.waiting.keys().filter(|hash| pool.get(hash).is_none());
            changes.dropped = gone.copied().collect();
            changes.dropped.iter().for_each(|hash| _ = self.remove(hash));
            self.skips.retain(|hash, _| pool.get(hash).is_some());
        }
        self.due = None;
        // A look at the pool is worth its time for many, and a block makes room for them.
        let room = MOST.saturating_sub(self.waiting.len());
        if room < MOST / 4 {
            return changes;
        }
        // One that gets a transaction with blobs from another does not get its sidecar.
        for tx in pool.ready().filter(|tx| tx.tx().blob_hashes.is_empty()) {
            let (hash, gas) = (*tx.hash(), tx.tx().gas_limit);
            if changes.ready.len() == most.min(room) {
                break;
            }
            if let Some((_, at)) = self.skips.get(&hash).filter(|(_, at)| now < *at) {
                self.due = Some(self.due.map_or(*at, |due| due.min(*at)));
            } else if !self.waiting.contains_key(&hash) {
                let sum = self.gas.saturating_add(gas);
                if sum > most_gas && self.gas > 0 {
                    break;
                }
                self.gas = sum;
                self.waiting.insert(hash, gas);
                changes.ready.push(tx.bytes().clone());
            }
        }
        changes
    }

    /// Notes that a transaction is not handed out any more. Returns true if it was.
    fn remove(&mut self, hash: &B256) -> bool {
        let gas = self.waiting.remove(hash);
        self.gas = self.gas.saturating_sub(gas.unwrap_or_default());
        gas.is_some()
    }

    /// Notes the transactions of a block.
    fn placed(&mut self, executed: impl Iterator<Item = B256>, skipped: impl Iterator<Item = B256>, now: Instant) {
        for hash in executed {
            self.remove(&hash);
            self.skips.remove(&hash);
        }
        for hash in skipped {
            if self.remove(&hash) {
                let (count, at) = self.skips.entry(hash).or_insert((0, now));
                *count = count.saturating_add(1);
                let pauses = count.checked_sub(2).map_or(0, |doublings| 1 << doublings.min(MOST_DOUBLINGS));
                *at = now + PAUSE * pauses;
            }
        }
    }
}

impl Requests {
    pub(crate) fn new(chain: Arc<Chain>) -> Self {
        let (doorbell, has_changed, sent) = (Doorbell::default(), AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Way { chain, doorbell, has_changed, sent }))
    }

    /// Bell of the replica.
    pub(crate) fn doorbell(&self) -> Doorbell {
        self.0.doorbell.clone()
    }

    /// Notifies the replica of new transactions in the pool. Never blocks.
    pub(crate) fn pass(&self) {
        self.0.has_changed.store(true, Release);
        self.0.doorbell.ring();
    }

    /// Offers transactions of another replica, or of its clients, to the pool: those that have come together, in order.
    pub(crate) fn admit(&self, txs: &[Bytes]) -> Vec<Admission> {
        let Way { chain, .. } = &*self.0;
        // Blobs are not ordered. A blob transaction in the pool would change the verdict on the next one of its sender.
        let plain: Vec<&Bytes> = txs.iter().filter(|tx| !raw::is_blob(tx)).collect();
        // If the state of one cannot be read, the others are admitted all the same.
        let one_by_one = |_| plain.iter().map(|tx| chain.service.send(tx)).collect();
        let admitted = chain.service.send_all(&plain).unwrap_or_else(one_by_one);
        let mut any = false;
        let fate = |admission| match admission {
            Ok(pool::Admission::Admitted { tx, .. }) => {
                chain.announce(tx);
                any = true;
                Admission::Pooled
            }
            Ok(pool::Admission::Refused(Refusal::Known)) => Admission::Pooled,
            _ => Admission::Refused,
        };
        let mut admitted = admitted.into_iter().map(fate);
        let of = |tx: &Bytes| if raw::is_blob(tx) { None } else { admitted.next() };
        let fates = txs.iter().map(of).map(|fate| fate.unwrap_or(Admission::Refused)).collect();
        if any {
            self.pass();
        }
        fates
    }

    /// Returns what has changed for the replica: up to `most` transactions that can run now and are not handed out, and those that
    /// were handed out and have left the pool.
    pub(crate) fn changes(&self, most: usize) -> PoolChanges {
        let Way { chain, has_changed, sent, .. } = &*self.0;
        let (sent, now) = (&mut *sent.lock(), Instant::now());
        if !has_changed.swap(false, AcqRel) && sent.due.is_none_or(|due| now < due) {
            return PoolChanges::default();
        }
        let bounds = (most, chain.head().header.gas_limit);
        let changes = chain.service.with_pool(|pool| {
            let follows = pool.now() >= sent.height;
            follows.then(|| sent.look(pool, bounds, now))
        });
        if changes.as_ref().is_none_or(|changes| changes.ready.len() == most) {
            has_changed.store(true, Release);
        }
        changes.unwrap_or_default()
    }

    /// Notes a committed block.
    pub(crate) fn committed(&self, block: &Block) {
        let executed = block.entries.iter().map(|entry| entry.hash);
        let skipped = block.head.skipped.iter().map(|skipped| keccak256(&skipped.bytes));
        let sent = &mut *self.0.sent.lock();
        sent.height = block.height();
        sent.placed(executed, skipped, Instant::now());
        self.0.has_changed.store(true, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_transaction_pauses_longer_with_each_block() {
        let (mut sent, [first, second]) = (Sent::default(), [1, 2].map(B256::repeat_byte));
        let (now, mut pauses) = (Instant::now(), Vec::new());
        for _ in 0..14 {
            (sent.gas, _) = (7, sent.waiting.insert(first, 7));
            sent.placed(core::iter::empty(), [first, second].into_iter(), now);
            assert_eq!((sent.waiting.len(), sent.gas, sent.skips.len()), (0, 0, 1), "only own ones");
            pauses.push((sent.skips[&first].1 - now).as_millis());
        }
        assert_eq!(pauses[..5], [0, 50, 100, 200, 400]);
        assert_eq!(pauses[12..], [51_200; 2]);
        sent.placed([first].into_iter(), core::iter::empty(), now);
        assert!(sent.skips.is_empty());
    }
}
