//! Queue of one sender's transactions: handed out, ready and future, by nonce.

use super::{Account, PooledTx, bid::Bid};
use alloy_primitives::{Address, U256};
use phalanx_memory::prefetch;
use std::{collections::VecDeque, sync::Arc};

/// Number and memory of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of transactions.
    pub txs: usize,
    /// Memory that they take, in bytes, overhead included.
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

/// A transaction in its queue.
#[derive(Debug)]
struct Slot {
    nonce: u64,
    /// The lower of its own prices and those of all before it: its worth is the lowest worth among them, at any base
    /// fee.
    low: Bid,
    tx: Arc<PooledTx>,
}

/// Capacity that a queue keeps, in transactions.
const KEPT: usize = 4;

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
/// No nonce is below `account.nonce`; `account.nonce <= cursor <= end`. From `cursor` to `end` there is no gap.
/// `reserved`, the maximum cost of all ready transactions, is within the balance, unless the handed-out ones alone
/// exceed it. `end` is as high as that allows.
#[derive(Debug)]
pub(super) struct Queue {
    address: Address,
    account: Account,
    txs: VecDeque<Slot>,
    cursor: u64,
    end: u64,
    reserved: U256,
    ready: Load,
    future: Load,
}

/// State of a queue beside its transactions.
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

/// Last transaction of a class, with the lowest bid among itself and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) nonce: u64,
    pub(super) rank: u64,
    pub(super) low: Bid,
}

impl Queue {
    pub(super) fn new(address: Address, Seat { account, cursor }: Seat) -> Self {
        Self {
            address,
            account,
            txs: VecDeque::with_capacity(1),
            cursor,
            end: cursor,
            reserved: U256::ZERO,
            ready: Load::default(),
            future: Load::default(),
        }
    }

    /// Empties the queue and gives it to another sender.
    pub(super) fn reset(&mut self, address: Address, seat: Seat) {
        let mut txs = core::mem::take(&mut self.txs);
        txs.clear();
        *self = Self { txs, ..Self::new(address, seat) };
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
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

    /// Number of transactions, but for one at `nonce`.
    pub(super) fn others(&self, nonce: u64) -> usize {
        self.txs.len() - usize::from(self.place(nonce).is_ok())
    }

    pub(super) fn len(&self) -> usize {
        self.txs.len()
    }

    /// First nonce that is not handed out.
    pub(super) const fn cursor(&self) -> u64 {
        self.cursor
    }

    pub(super) fn get(&self, nonce: u64) -> Option<&Arc<PooledTx>> {
        self.place(nonce).ok().map(|place| &self.txs[place].tx)
    }

    /// Prefetches the first slot.
    pub(super) fn prefetch(&self) {
        self.txs.front().into_iter().for_each(prefetch);
    }

    /// Prefetches the first transaction.
    pub(super) fn prefetch_first(&self) {
        self.txs.front().into_iter().for_each(|slot| prefetch(&*slot.tx));
    }

    /// Index of `nonce`, or where it belongs. O(1) without gaps, O(log n) with them.
    fn place(&self, nonce: u64) -> Result<usize, usize> {
        let Some(first) = self.txs.front() else { return Err(0) };
        let Some(guess) = nonce.checked_sub(first.nonce) else { return Err(0) };
        let guess = usize::try_from(guess).unwrap_or(usize::MAX);
        match self.txs.get(guess) {
            Some(slot) if slot.nonce == nonce => Ok(guess),
            _ => self.txs.binary_search_by_key(&nonce, |slot| slot.nonce),
        }
    }

    /// The transaction at `nonce` if it can be handed out once the earlier ones are.
    pub(super) fn waiting(&self, nonce: u64) -> Option<&Arc<PooledTx>> {
        if (self.cursor..self.end).contains(&nonce) { self.get(nonce) } else { None }
    }

    pub(super) const fn is_ready(&self, nonce: u64) -> bool {
        nonce < self.end
    }

    /// Loads of the ready class, handed out or not, and of the future class.
    pub(super) const fn loads(&self) -> (Load, Load) {
        (self.ready, self.future)
    }

    /// Next transaction to hand out.
    pub(super) fn head(&self) -> Option<&Arc<PooledTx>> {
        self.waiting(self.cursor)
    }

    /// Last ready transaction that is not handed out: it pays only if all before it do.
    pub(super) fn ready_tail(&self) -> Option<Tail> {
        let nonce = self.end.checked_sub(1).filter(|nonce| *nonce >= self.cursor)?;
        self.place(nonce).ok().map(|place| tail(&self.txs[place]))
    }

    /// Last transaction, if it is future.
    pub(super) fn future_tail(&self) -> Option<Tail> {
        self.txs.back().filter(|slot| slot.nonce >= self.end).map(tail)
    }

    /// Inserts a transaction and returns the one that it replaces. O(1) amortised at the end; else linear in the
    /// transactions behind it.
    pub(super) fn insert(&mut self, tx: Arc<PooledTx>) -> Option<Arc<PooledTx>> {
        let (nonce, cost, load) = (tx.nonce(), tx.cost, tx.load());
        let class = if nonce < self.end { &mut self.ready } else { &mut self.future };
        class.add(load);
        let place = self.place(nonce);
        let (Ok(at) | Err(at)) = place;
        let replaced = match place {
            Ok(at) => Some(core::mem::replace(&mut self.txs[at].tx, tx)),
            Err(at) => {
                self.txs.insert(at, Slot { nonce, low: tx.bid, tx });
                None
            }
        };
        if let Some(old) = &replaced {
            let class = if nonce < self.end { &mut self.ready } else { &mut self.future };
            class.sub(old.load());
        }
        self.lower(at);
        if nonce < self.end {
            let old = replaced.as_ref().map_or(U256::ZERO, |old| old.cost);
            self.reserved = self.reserved.saturating_sub(old).saturating_add(cost);
        }
        self.settle_end();
        replaced
    }

    /// Updates the lowest bids from index `from` on, after a change there.
    fn lower(&mut self, from: usize) {
        let mut low = from.checked_sub(1).map(|before| self.txs[before].low);
        for at in from..self.txs.len() {
            let slot = &mut self.txs[at];
            let now = low.map_or(slot.tx.bid, |low| low.min(slot.tx.bid));
            if at > from && slot.low == now {
                // All later bids are unchanged, too.
                return;
            }
            slot.low = now;
            low = Some(now);
        }
    }

    /// Shrinks the buffer after many have left: its capacity is bounded by its length. O(1) amortised.
    fn shed(&mut self) {
        let (room, held) = (self.txs.capacity(), self.txs.len());
        if room > KEPT && room > 4 * held {
            self.txs.shrink_to(2 * held);
        }
    }

    /// Removes all transactions from `nonce` on, in order of nonce.
    pub(super) fn truncate(&mut self, nonce: u64) -> Vec<Arc<PooledTx>> {
        let (Ok(at) | Err(at)) = self.place(nonce);
        let removed: Vec<_> = self.txs.drain(at..).map(|slot| slot.tx).collect();
        self.shed();
        for tx in &removed {
            self.uncount(tx);
        }
        let nonce = nonce.max(self.account.nonce);
        self.end = self.end.min(nonce);
        self.cursor = self.cursor.min(nonce);
        self.settle_end();
        removed
    }

    /// Removes a single transaction and leaves the later ones: its nonce turned out to be used.
    pub(super) fn punch(&mut self, nonce: u64) -> Option<Arc<PooledTx>> {
        let at = self.place(nonce).ok()?;
        let tx = self.txs.remove(at)?.tx;
        self.shed();
        self.lower(at);
        self.uncount(&tx);
        if (self.cursor..self.end).contains(&nonce) {
            self.demote_from(nonce + 1);
            self.end = nonce;
        }
        self.settle_end();
        Some(tx)
    }

    /// Hands out the next `count` transactions.
    pub(super) fn hand_out(&mut self, count: u64) {
        self.cursor = self.cursor.saturating_add(count).min(self.end);
    }

    /// Makes handed-out transactions from `nonce` on ready again. O(transactions returned).
    pub(super) fn requeue(&mut self, nonce: u64) {
        let from = nonce.max(self.account.nonce);
        if from < self.cursor {
            let gap = (from..self.cursor).find(|nonce| self.place(*nonce).is_err());
            self.cursor = from;
            if let Some(gap) = gap {
                self.demote_from(gap);
            }
            self.settle_end();
        }
    }

    /// Sets the account and removes the transactions whose nonces it has passed. If the nonce went back, no
    /// transaction counts as handed out any more.
    pub(super) fn set_account(&mut self, account: Account) -> Vec<Arc<PooledTx>> {
        let (Ok(at) | Err(at)) = self.place(account.nonce);
        let passed: Vec<_> = self.txs.drain(..at).map(|slot| slot.tx).collect();
        for tx in &passed {
            self.uncount(tx);
        }
        if !passed.is_empty() {
            self.shed();
            self.lower(0);
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

    /// Restores the invariant of `end`: lowers it while the ready transactions cost too much, else raises it while
    /// the next fits.
    fn settle_end(&mut self) {
        let balance = self.account.balance;
        while self.reserved > balance && self.end > self.cursor {
            self.demote_from(self.end - 1);
        }
        while let Ok(at) = self.place(self.end) {
            let Slot { tx, .. } = &self.txs[at];
            match self.reserved.checked_add(tx.cost) {
                Some(reserved) if reserved <= balance => self.reserved = reserved,
                _ => break,
            }
            self.future.sub(tx.load());
            self.ready.add(tx.load());
            self.end += 1;
        }
    }

    /// Makes all transactions from `nonce` on future.
    fn demote_from(&mut self, nonce: u64) {
        if nonce < self.end {
            let (Ok(from) | Err(from)) = self.place(nonce);
            for slot in self.txs.range(from..).take_while(|slot| slot.nonce < self.end) {
                self.ready.sub(slot.tx.load());
                self.future.add(slot.tx.load());
                self.reserved = self.reserved.saturating_sub(slot.tx.cost);
            }
            self.end = nonce;
        }
    }

    /// Subtracts a removed transaction from the loads.
    const fn uncount(&mut self, tx: &PooledTx) {
        if tx.nonce() < self.end {
            self.ready.sub(tx.load());
            self.reserved = self.reserved.saturating_sub(tx.cost);
        } else {
            self.future.sub(tx.load());
        }
    }
}

fn tail(slot: &Slot) -> Tail {
    Tail { nonce: slot.nonce, rank: slot.tx.rank(), low: slot.low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::RecoveredTx;
    use alloy_primitives::B256;
    use revm::context::TxEnv;

    fn queue_of(count: u64) -> Queue {
        let account = Account { balance: U256::MAX, ..Account::default() };
        let mut queue = Queue::new(Address::ZERO, Seat::new(account));
        for nonce in 0..count {
            let tx = TxEnv { nonce, gas_limit: 21_000, ..TxEnv::default() };
            let recovered = Arc::new(RecoveredTx::unsigned(B256::from(U256::from(nonce)), tx));
            queue.insert(Arc::new(PooledTx::new(recovered, Default::default(), nonce, 0).expect("it costs little")));
        }
        queue
    }

    #[test]
    fn a_queue_takes_no_more_room_than_it_needs() {
        let is_bounded = |queue: &Queue| queue.txs.capacity() <= KEPT.max(4 * queue.txs.len());
        for left in [0, 1, 5, 300] {
            let mut cut = queue_of(1000);
            cut.truncate(left);
            assert_eq!(cut.txs.len() as u64, left);
            assert!(is_bounded(&cut), "{left} of a thousand hold room for {}", cut.txs.capacity());

            let mut passed = queue_of(1000);
            passed.set_account(Account { nonce: 1000 - left, ..*passed.account() });
            assert_eq!(passed.txs.len() as u64, left);
            assert!(is_bounded(&passed), "{left} of a thousand hold room for {}", passed.txs.capacity());
        }
        let mut punched = queue_of(1000);
        (0..1000).rev().for_each(|nonce| {
            punched.punch(nonce);
            assert!(is_bounded(&punched), "{nonce} of a thousand hold room for {}", punched.txs.capacity());
        });
    }
}
