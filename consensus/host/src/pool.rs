//! Clients' transactions that wait for their place in the order, and the memory of those that have one.

use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_bft::{Index, Slot, View};
use std::collections::{BTreeMap, BTreeSet};

/// Transactions that wait, at most.
const MOST_WAITING: usize = 1 << 20;

/// Length of all transactions that wait, in bytes, at most.
const MOST_BYTES: usize = 256 << 20;

/// State of a known transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Waits, with this number.
    Waiting(u64),
    /// In the decided block of this slot.
    Ordered(Slot),
}

#[derive(Debug)]
struct Entry {
    tx: Bytes,
    /// View of the newest proposal with the transaction.
    proposed: Option<View>,
    /// Replica that forwarded the transaction, `None` for a client's own.
    from: Option<Index>,
}

/// A first-in-first-out pool. A transaction stays until it has its place in the decided prefix, so that a lost proposal loses
/// nothing. Every operation takes O(log n) per transaction.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    entries: BTreeMap<u64, Entry>,
    known: BTreeMap<B256, Known>,
    arrived: u64,
    /// Numbers without a proposal, and of those with one by its view.
    free: BTreeSet<u64>,
    proposed: BTreeMap<View, BTreeSet<u64>>,
    ordered: BTreeMap<Slot, Vec<B256>>,
    bytes: usize,
    /// Number and bytes of the transactions that each peer has forwarded and that wait.
    forwarded: BTreeMap<Index, (usize, usize)>,
}

impl Pool {
    /// Adds a transaction. Returns false if it is known, or the pool is full.
    pub(crate) fn add(&mut self, tx: Bytes) -> bool {
        self.add_from(tx, None)
    }

    /// Adds a transaction that one of `n` replicas forwards. Returns false as [`Pool::add`] does, or if that replica has its share
    /// of the pool: all peers together have half of it.
    pub(crate) fn add_forwarded(&mut self, tx: Bytes, from: Index, n: usize) -> bool {
        let (waiting, bytes) = self.forwarded.get(&from).copied().unwrap_or_default();
        let shares = 2 * n.max(1);
        let full = waiting >= MOST_WAITING / shares || bytes + tx.len() > MOST_BYTES / shares;
        !full && self.add_from(tx, Some(from))
    }

    fn add_from(&mut self, tx: Bytes, from: Option<Index>) -> bool {
        let hash = keccak256(&tx);
        let full = self.entries.len() >= MOST_WAITING || self.bytes + tx.len() > MOST_BYTES;
        if full || self.known.contains_key(&hash) {
            return false;
        }
        if let Some(from) = from {
            let (waiting, bytes) = self.forwarded.entry(from).or_default();
            (*waiting, *bytes) = (*waiting + 1, *bytes + tx.len());
        }
        let number = self.arrived;
        self.arrived += 1;
        self.bytes += tx.len();
        self.known.insert(hash, Known::Waiting(number));
        self.free.insert(number);
        self.entries.insert(number, Entry { tx, proposed: None, from });
        true
    }

    /// Number of the oldest transaction that waits.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(number, _)| *number)
    }

    /// The oldest transactions that wait.
    pub(crate) fn oldest_txs(&self, most: usize) -> Vec<Bytes> {
        self.entries.values().take(most).map(|entry| entry.tx.clone()).collect()
    }

    /// Number of transactions without a proposal.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes up to `most` transactions without a proposal, of up to `bytes` together, oldest first, for one of `view`.
    pub(crate) fn take(&mut self, view: View, most: usize, bytes: usize) -> Vec<Bytes> {
        let (mut taken, mut numbers, mut length) = (Vec::new(), Vec::new(), 0);
        for number in self.free.iter().take(most) {
            let tx = &self.entries[number].tx;
            length += tx.len() + 8;
            if length > bytes && !taken.is_empty() {
                break;
            }
            taken.push(tx.clone());
            numbers.push(*number);
        }
        numbers.into_iter().for_each(|number| self.place(number, Some(view)));
        taken
    }

    /// Notes the transactions of a proposal.
    pub(crate) fn propose(&mut self, view: View, txs: &[Bytes]) {
        for tx in txs {
            if let Some(Known::Waiting(number)) = self.known.get(&keccak256(tx)).copied()
                && self.entries.get(&number).is_some_and(|entry| entry.proposed.is_none_or(|known| known < view))
            {
                self.place(number, Some(view));
            }
        }
    }

    /// Lets the transactions of a proposal that came to nothing be proposed again.
    pub(crate) fn give_back(&mut self, txs: &[Bytes]) {
        for tx in txs {
            if let Some(Known::Waiting(number)) = self.known.get(&keccak256(tx)).copied() {
                self.place(number, None);
            }
        }
    }

    /// Lets proposals of views below this one be proposed again.
    pub(crate) fn enter(&mut self, view: View) {
        let newer = self.proposed.split_off(&view);
        for number in core::mem::replace(&mut self.proposed, newer).into_values().flatten() {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.proposed = None;
                self.free.insert(number);
            }
        }
    }

    fn place(&mut self, number: u64, view: Option<View>) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let before = core::mem::replace(&mut entry.proposed, view);
        self.unlist(number, before);
        match view {
            None => drop(self.free.insert(number)),
            Some(view) => drop(self.proposed.entry(view).or_default().insert(number)),
        }
    }

    fn unlist(&mut self, number: u64, view: Option<View>) {
        match view {
            None => drop(self.free.remove(&number)),
            Some(view) => {
                if let Some(of_view) = self.proposed.get_mut(&view) {
                    of_view.remove(&number);
                    if of_view.is_empty() {
                        self.proposed.remove(&view);
                    }
                }
            }
        }
    }

    /// Notes the transactions of a block of the decided prefix, known or not.
    pub(crate) fn order(&mut self, slot: Slot, txs: &[Bytes]) {
        let mut hashes = Vec::with_capacity(txs.len());
        for tx in txs {
            let hash = keccak256(tx);
            match self.known.insert(hash, Known::Ordered(slot)) {
                // Counted with the block that had it first.
                Some(known @ Known::Ordered(_)) => drop(self.known.insert(hash, known)),
                Some(Known::Waiting(number)) => {
                    self.take_out(number);
                    hashes.push(hash);
                }
                None => hashes.push(hash),
            }
        }
        self.ordered.entry(slot).or_default().extend(hashes);
    }

    /// Removes a transaction that waits. A proposal that has it keeps it.
    pub(crate) fn withdraw(&mut self, hash: &B256) {
        if let Some(Known::Waiting(number)) = self.known.get(hash).copied() {
            self.take_out(number);
            self.known.remove(hash);
        }
    }

    fn take_out(&mut self, number: u64) {
        let Some(entry) = self.entries.remove(&number) else { return };
        self.bytes -= entry.tx.len();
        if let Some((waiting, bytes)) = entry.from.and_then(|from| self.forwarded.get_mut(&from)) {
            (*waiting, *bytes) = (*waiting - 1, *bytes - entry.tx.len());
        }
        self.unlist(number, entry.proposed);
    }

    /// Forgets that a transaction has its place in a block up to this slot, so that it can be added again.
    pub(crate) fn renew(&mut self, tx: &Bytes, committed: Slot) {
        let hash = keccak256(tx);
        if let Some(Known::Ordered(slot)) = self.known.get(&hash).copied()
            && slot <= committed
        {
            self.known.remove(&hash);
            if let Some(hashes) = self.ordered.get_mut(&slot) {
                hashes.retain(|other| *other != hash);
            }
        }
    }

    /// Forgets ordered transactions of slots below this one.
    pub(crate) fn prune(&mut self, below: Slot) {
        let kept = self.ordered.split_off(&below);
        for hash in core::mem::replace(&mut self.ordered, kept).into_values().flatten() {
            self.known.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(number: u64) -> Bytes {
        Bytes::from(number.to_be_bytes().to_vec())
    }

    #[test]
    fn a_transaction_is_proposed_once_per_view_and_ordered_once() {
        let mut pool = Pool::default();
        assert!((0..10).all(|number| pool.add(tx(number))) && !pool.add(tx(3)));
        assert_eq!(pool.take(0, 4, usize::MAX), [tx(0), tx(1), tx(2), tx(3)]);
        assert_eq!(pool.take(0, 2, 9), [tx(4)], "the second would be too long");
        pool.enter(2);
        // A choice of the view change keeps its transactions, the others are free again.
        pool.propose(2, &[tx(0), tx(1)]);
        assert_eq!(pool.take(2, 3, usize::MAX), [tx(2), tx(3), tx(4)]);
        assert_eq!(pool.oldest(), Some(0));
        pool.order(1, &[tx(0), tx(1), tx(77)]);
        assert_eq!((pool.oldest(), pool.free()), (Some(2), 5));
        assert!(!pool.add(tx(1)) && !pool.add(tx(77)), "ordered transactions are known");
        pool.renew(&tx(1), 0);
        assert!(!pool.add(tx(1)), "its block is not committed yet");
        pool.renew(&tx(1), 1);
        assert!(pool.add(tx(1)) && !pool.add(tx(1)), "a block has skipped it");
        pool.order(1, &[tx(1)]);
        pool.give_back(&[tx(3)]);
        assert_eq!(pool.take(2, 1, usize::MAX), [tx(3)]);
        pool.add(tx(88));
        pool.withdraw(&keccak256(tx(88)));
        pool.withdraw(&keccak256(tx(0)));
        assert!(pool.add(tx(88)) && !pool.add(tx(0)), "what is ordered is not withdrawn");
        pool.order(1, &[tx(88)]);
        pool.prune(2);
        assert!(pool.add(tx(77)));
        pool.order(2, &(0..10).map(tx).collect::<Vec<_>>());
        assert_eq!((pool.oldest(), pool.oldest_txs(9)), (Some(13), vec![tx(77)]));
        assert!(pool.proposed.is_empty());
    }

    /// A replica that floods others fills its own share: clients and other replicas keep theirs.
    #[test]
    fn a_peer_has_a_share_of_the_pool() {
        let (mut pool, long) = (Pool::default(), MOST_BYTES / 8);
        let filler = |number: u8, bytes: usize| Bytes::from([vec![number], vec![0; bytes - 1]].concat());
        assert!(pool.add_forwarded(filler(0, long - 1), Index(2), 4));
        assert!(!pool.add_forwarded(tx(1), Index(2), 4), "its share is full");
        assert!(pool.add_forwarded(tx(1), Index(3), 4) && pool.add(tx(2)), "another peer, and a client");
        pool.order(1, &[filler(0, long - 1)]);
        assert!(pool.add_forwarded(tx(3), Index(2), 4), "what is ordered waits no longer");
    }

    #[test]
    fn a_renewed_transaction_belongs_to_its_newer_block() {
        let mut pool = Pool::default();
        pool.order(1, &[tx(1), tx(2)]);
        pool.renew(&tx(1), 1);
        pool.order(5, &[tx(1)]);
        pool.prune(2);
        assert!(!pool.add(tx(1)) && pool.add(tx(2)));
        pool.prune(6);
        assert!(pool.add(tx(1)));
    }

    #[test]
    fn a_transaction_takes_eight_bytes_more_in_a_batch_and_the_newest_view_has_it() {
        let mut pool = Pool::default();
        (0..4).for_each(|number| assert!(pool.add(tx(number))));
        assert_eq!(pool.take(3, 4, 31), [tx(0)], "two have 32 bytes");
        assert_eq!(pool.take(3, 4, 32), [tx(1), tx(2)]);
        pool.propose(2, &[tx(0)]);
        pool.enter(3);
        assert_eq!(pool.free(), 1, "an older proposal takes nothing away");
    }
}
