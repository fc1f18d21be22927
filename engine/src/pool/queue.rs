//! The transactions of one sender.

use super::{
    Account, PooledTx,
    bid::{Bid, Bids},
    lanes::Entry,
};
use alloy_primitives::U256;
use std::{collections::BTreeMap, sync::Arc};

/// Transactions counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub txs: usize,
    /// Bytes of memory, overhead included.
    pub bytes: usize,
}

impl Load {
    pub(super) const fn add(&mut self, other: Self) {
        self.txs += other.txs;
        self.bytes += other.bytes;
    }

    pub(super) const fn sub(&mut self, other: Self) {
        self.txs -= other.txs;
        self.bytes -= other.bytes;
    }
}

/// Transactions of one class, ready or future.
#[derive(Debug, Default)]
struct Class {
    bids: Bids,
    load: Load,
}

impl Class {
    fn add(&mut self, tx: &PooledTx) {
        self.bids.add(tx.nonce(), tx.bid);
        self.load.add(tx.load());
    }

    fn remove(&mut self, tx: &PooledTx) {
        self.bids.remove(tx.nonce(), tx.bid);
        self.load.sub(tx.load());
    }
}

/// A sender's transactions by nonce.
///
/// ```text
///   account.nonce        cursor             end
///        │  handed out     │  to be handed   │  future: behind a gap,
///        ▼  to a builder   ▼  out next       ▼  or not affordable together
///        5  6  7  8        9  10  11  12     13 …  15 …
///        └──────────── ready ──────────┘     └ future ┘
/// ```
///
/// # Invariants
/// No nonce is below `account.nonce`; `account.nonce <= cursor <= end`. From `cursor` to `end` there is no gap, and the most
/// that all ready ones can cost, `reserved`, is within the balance, unless what was handed out exceeds it alone. `end` is as
/// high as that allows.
#[derive(Debug)]
pub(super) struct Queue {
    account: Account,
    txs: BTreeMap<u64, Arc<PooledTx>>,
    cursor: u64,
    end: u64,
    reserved: U256,
    ready: Class,
    future: Class,
}

/// What a queue knows beside its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    account: Account,
    cursor: u64,
}

impl Seat {
    pub(super) const fn new(account: Account) -> Self {
        Self { account, cursor: account.nonce }
    }
}

impl Queue {
    pub(super) fn new(Seat { account, cursor }: Seat) -> Self {
        Self {
            account,
            txs: BTreeMap::new(),
            cursor,
            end: cursor,
            reserved: U256::ZERO,
            ready: Class::default(),
            future: Class::default(),
        }
    }

    pub(super) const fn seat(&self) -> Seat {
        Seat { account: self.account, cursor: self.cursor }
    }

    pub(super) const fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn is_empty(&self) -> bool {
        self.txs.is_empty()
    }

    /// The first nonce that is not handed out.
    pub(super) const fn cursor(&self) -> u64 {
        self.cursor
    }

    pub(super) fn get(&self, nonce: u64) -> Option<&Arc<PooledTx>> {
        self.txs.get(&nonce)
    }

    /// The transaction at `nonce` if it can be handed out once those before it are.
    pub(super) fn waiting(&self, nonce: u64) -> Option<&Arc<PooledTx>> {
        if (self.cursor..self.end).contains(&nonce) { self.txs.get(&nonce) } else { None }
    }

    pub(super) const fn is_ready(&self, nonce: u64) -> bool {
        nonce < self.end
    }

    /// What is ready, handed out or not, and what is not.
    pub(super) const fn loads(&self) -> (Load, Load) {
        (self.ready.load, self.future.load)
    }

    /// The one to be handed out next.
    pub(super) fn head(&self) -> Option<&Arc<PooledTx>> {
        self.waiting(self.cursor)
    }

    /// The last ready one that is not handed out, at the worth of the worst that is ready: it pays only if that does.
    pub(super) fn ready_tail(&self) -> Option<(u64, Entry)> {
        let nonce = self.end.checked_sub(1).filter(|nonce| *nonce >= self.cursor)?;
        Some((nonce, entry(self.ready.bids.lowest()?, self.txs.get(&nonce)?)))
    }

    /// The last one of all, if it is not ready, at the worth of the worst before it.
    pub(super) fn future_tail(&self) -> Option<(u64, Entry)> {
        let (nonce, tx) = self.txs.last_key_value().filter(|(nonce, _)| **nonce >= self.end)?;
        let lowest = self.future.bids.lowest()?;
        Some((*nonce, entry(self.ready.bids.lowest().map_or(lowest, |ready| ready.min(lowest)), tx)))
    }

    /// Puts a transaction in its place, and gives the one that it replaces. O(log n), amortised.
    pub(super) fn insert(&mut self, tx: Arc<PooledTx>) -> Option<Arc<PooledTx>> {
        let (nonce, cost) = (tx.nonce(), tx.cost);
        let class = if nonce < self.end { &mut self.ready } else { &mut self.future };
        // The old one first: both may offer the same tip, zero, and a nonce counts once.
        let replaced = self.txs.remove(&nonce);
        if let Some(old) = &replaced {
            class.remove(old);
        }
        class.add(&tx);
        self.txs.insert(nonce, tx);
        if nonce < self.end {
            let old = replaced.as_ref().map_or(U256::ZERO, |old| old.cost);
            self.reserved = self.reserved.saturating_sub(old).saturating_add(cost);
        }
        self.settle_end();
        replaced
    }

    /// Removes all from `nonce` on, in order of nonce. O(log n) per transaction removed.
    pub(super) fn truncate(&mut self, nonce: u64) -> Vec<Arc<PooledTx>> {
        let removed: Vec<_> = self.txs.split_off(&nonce).into_values().collect();
        for tx in &removed {
            self.uncount(tx);
        }
        let nonce = nonce.max(self.account.nonce);
        self.end = self.end.min(nonce);
        self.cursor = self.cursor.min(nonce);
        self.settle_end();
        removed
    }

    /// Removes one and leaves those behind it: its nonce turned out to be used. O(log n) if it was handed out.
    pub(super) fn punch(&mut self, nonce: u64) -> Option<Arc<PooledTx>> {
        let tx = self.txs.remove(&nonce)?;
        self.uncount(&tx);
        if (self.cursor..self.end).contains(&nonce) {
            self.demote_from(nonce + 1);
            self.end = nonce;
        }
        self.settle_end();
        Some(tx)
    }

    /// Hands out the next `count`.
    pub(super) fn hand_out(&mut self, count: u64) {
        self.cursor = self.cursor.saturating_add(count).min(self.end);
    }

    /// Takes back what was handed out from `nonce` on. O(transactions taken back).
    pub(super) fn take_back(&mut self, nonce: u64) {
        let from = nonce.max(self.account.nonce);
        if from < self.cursor {
            let gap = (from..self.cursor).find(|nonce| !self.txs.contains_key(nonce));
            self.cursor = from;
            if let Some(gap) = gap {
                self.demote_from(gap);
            }
            self.settle_end();
        }
    }

    /// Takes note of another state of the account, and gives the transactions whose nonces it has passed. When the nonce
    /// went back, nothing counts as handed out any more.
    pub(super) fn set_account(&mut self, account: Account) -> Vec<Arc<PooledTx>> {
        let mut passed = Vec::new();
        while let Some(first) = self.txs.first_entry().filter(|first| *first.key() < account.nonce) {
            passed.push(first.remove());
        }
        for tx in &passed {
            self.uncount(tx);
        }
        if account.nonce < self.account.nonce {
            self.demote_from(account.nonce);
            (self.cursor, self.end) = (account.nonce, account.nonce);
        }
        self.cursor = self.cursor.max(account.nonce);
        self.end = self.end.max(self.cursor);
        self.account = account;
        self.settle_end();
        passed
    }

    /// Moves `end` to where it belongs: down while the ready ones cost too much, else up while the next fits.
    fn settle_end(&mut self) {
        let balance = self.account.balance;
        while self.reserved > balance && self.end > self.cursor {
            self.demote_from(self.end - 1);
        }
        while let Some(tx) = self.txs.get(&self.end) {
            match self.reserved.checked_add(tx.cost) {
                Some(reserved) if reserved <= balance => self.reserved = reserved,
                _ => break,
            }
            self.future.remove(tx);
            self.ready.add(tx);
            self.end += 1;
        }
    }

    /// Makes all from `nonce` on future.
    fn demote_from(&mut self, nonce: u64) {
        if nonce < self.end {
            for (_, tx) in self.txs.range(nonce..self.end) {
                self.ready.remove(tx);
                self.future.add(tx);
                self.reserved = self.reserved.saturating_sub(tx.cost);
            }
            self.end = nonce;
        }
    }

    /// Strikes a removed one from the counts.
    fn uncount(&mut self, tx: &PooledTx) {
        if tx.nonce() < self.end {
            self.ready.remove(tx);
            self.reserved = self.reserved.saturating_sub(tx.cost);
        } else {
            self.future.remove(tx);
        }
    }
}

const fn entry(bid: Bid, tail: &PooledTx) -> Entry {
    Entry { bid, bonus: 0, rank: tail.rank() }
}
