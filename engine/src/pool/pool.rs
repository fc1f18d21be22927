use super::{
    Account, Cause, Fees, Load, PoolConfig, PooledTx, Removed,
    lane::{Lane, SenderId},
    outcome::Refusal,
    queue::{Queue, Seat},
    senders::Senders,
    tails::Tails,
};
use alloy_primitives::{B256, map::B256Map};
use revm::primitives::hardfork::SpecId;
use std::{collections::BTreeMap, sync::Arc};

/// Where a transaction stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) sender: SenderId,
    pub(super) nonce: u64,
    pub(super) born: u64,
}

/// Transactions that wait for a block.
///
/// A value without threads, clock or randomness: time comes in as ticks, the state through [`Accounts`](super::Accounts).
/// Every operation takes O(log n) amortised for each transaction that it adds, hands out, moves or removes, beside what it
/// says; one that comes or leaves in front of others of its sender moves those, at most [`PoolConfig::window`].
#[derive(Debug)]
pub struct Pool {
    pub(super) config: PoolConfig,
    /// Ticks; never goes back.
    pub(super) now: u64,
    pub(super) next_rank: u64,
    pub(super) senders: Senders,
    pub(super) by_hash: B256Map<u64>,
    /// Rank is order of arrival, so this is also the order of birth.
    pub(super) by_rank: BTreeMap<u64, Place>,
    pub(super) fees: Fees,
    /// Senders by their next transaction, if the fees admit it.
    pub(super) heads: Lane,
    /// Known while the pool is full, or has been lately.
    tails: Option<Tails>,
    ready: Load,
    future: Load,
}

impl Pool {
    /// An empty pool at tick zero, with fees of zero.
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            now: 0,
            next_rank: 0,
            senders: Senders::default(),
            by_hash: B256Map::default(),
            by_rank: BTreeMap::new(),
            fees: Fees::default(),
            heads: Lane::default(),
            tails: None,
            ready: Load::default(),
            future: Load::default(),
        }
    }

    /// Transactions that could run after those before them, with those that are handed out.
    pub const fn ready_load(&self) -> Load {
        self.ready
    }

    /// Transactions that cannot run yet.
    pub const fn future_load(&self) -> Load {
        self.future
    }

    /// All transactions.
    pub fn len(&self) -> usize {
        self.by_rank.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_rank.is_empty()
    }

    /// The fees that ready transactions are judged by.
    pub const fn fees(&self) -> &Fees {
        &self.fees
    }

    /// A transaction by its hash. O(log n).
    pub fn get(&self, hash: &B256) -> Option<&Arc<PooledTx>> {
        let place = self.by_rank.get(self.by_hash.get(hash)?)?;
        self.senders[place.sender].get(place.nonce)
    }

    /// All transactions in order of arrival. O(log n) each.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PooledTx>> {
        self.by_rank.values().filter_map(|place| self.senders[place.sender].get(place.nonce))
    }

    /// The fork that is in force from now on. What is in the pool stays.
    pub const fn set_spec(&mut self, spec: SpecId) {
        self.config.spec = spec;
    }

    /// Sets what gas costs. O(senders) if it is something else.
    pub(super) fn set_fees(&mut self, fees: Fees) {
        let Self { config, senders, heads, tails, .. } = self;
        if core::mem::replace(&mut self.fees, fees) != fees {
            heads.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.head(config.policy, queue)?))));
            tails.as_mut().into_iter().for_each(|tails| tails.refill(&fees, senders));
        }
    }

    /// Changes a sender's queue and brings everything that depends on it up to date.
    pub(super) fn edit<R>(&mut self, id: SenderId, change: impl FnOnce(&mut Queue) -> R) -> R {
        let queue = &mut self.senders[id];
        let (ready, future) = queue.loads();
        let result = change(queue);
        self.ready.sub(ready);
        self.future.sub(future);
        let (ready, future) = queue.loads();
        self.ready.add(ready);
        self.future.add(future);
        self.list(id);
        if self.senders[id].is_empty() {
            self.senders.close(id);
        }
        result
    }

    /// Brings a sender's places in the orders up to date.
    pub(super) fn list(&mut self, id: SenderId) {
        let Self { config, senders, fees, heads, tails, .. } = self;
        let queue = &senders[id];
        heads.set(id, fees.head(config.policy, queue));
        tails.as_mut().into_iter().for_each(|tails| tails.set(fees, id, queue));
    }

    /// Puts `tx` into its sender's queue, which is made from `seat` if there is none.
    pub(super) fn place(&mut self, tx: Arc<PooledTx>, seat: Seat) -> Option<Removed> {
        let sender = self.senders.open(tx.sender(), seat);
        let (nonce, born) = (tx.nonce(), tx.born());
        let by = *tx.hash();
        self.by_hash.insert(by, tx.rank());
        self.by_rank.insert(tx.rank(), Place { sender, nonce, born });
        let replaced = self.edit(sender, |queue| queue.insert(tx))?;
        Some(self.let_go(replaced, Cause::Replaced { by }, seat))
    }

    /// Removes the transaction at `nonce` for `cause`, and those of its sender behind it, which cannot run without it.
    pub(super) fn cut(&mut self, sender: SenderId, nonce: u64, cause: Cause, removed: &mut Vec<Removed>) {
        let (seat, gone) = self.edit(sender, |queue| (queue.seat(), queue.truncate(nonce)));
        let mut gone = gone.into_iter();
        let Some(first) = gone.next() else { return };
        let hash = *first.hash();
        removed.push(self.let_go(first, cause, seat));
        for tx in gone {
            removed.push(self.let_go(tx, Cause::Follows { hash }, seat));
        }
    }

    /// Strikes a transaction that has left its queue from the indexes.
    pub(super) fn let_go(&mut self, tx: Arc<PooledTx>, cause: Cause, seat: Seat) -> Removed {
        self.by_hash.remove(tx.hash());
        self.by_rank.remove(&tx.rank());
        Removed { tx, cause, seat }
    }

    /// Lets go of what is worth least until both classes are within their limits.
    ///
    /// A transaction is worth no more than any before it of its sender, since it pays only after they did; of all that are
    /// worth least, the one that came last goes. A sender's last transaction thus always goes before the others.
    pub(super) fn evict(&mut self, removed: &mut Vec<Removed>) {
        let exceeds = |load: Load, max: Load| load.txs > max.txs || load.bytes > max.bytes;
        loop {
            let Self { config, senders, fees, tails, ready, future, .. } = self;
            let of_ready = exceeds(*ready, config.max_ready);
            if !of_ready && !exceeds(*future, config.max_future) {
                break;
            }
            let tails = tails.get_or_insert_with(|| Tails::new(fees, senders));
            let tail = if of_ready {
                tails.ready.first().and_then(|id| Some((id, senders[id].ready_tail()?.nonce)))
            } else {
                tails.future.first().and_then(|id| Some((id, senders[id].future_tail()?.nonce)))
            };
            // Without a tail all is handed out; a block will take it away.
            let Some((sender, nonce)) = tail else { return };
            self.cut(sender, nonce, Cause::Evicted, removed);
        }
        // Who goes first is worked out again when it matters again: not before as much has come in as is half full.
        if self.tails.is_some()
            && !exceeds(self.ready, half(self.config.max_ready))
            && !exceeds(self.future, half(self.config.max_future))
        {
            self.tails = None;
        }
    }

    /// Puts a transaction back that was in the pool: at its rank, if its place is free; else gives it back.
    pub(super) fn put_back(&mut self, tx: Arc<PooledTx>, account: Account) -> Option<Removed> {
        let queue = self.senders.get(&tx.sender());
        let seat = queue.map_or_else(|| Seat::new(account), Queue::seat);
        let (nonce, next, window) = (tx.nonce(), account.nonce, self.config.window);
        let cursor = queue.map_or(next, Queue::cursor);
        let there = queue.and_then(|queue| queue.get(nonce)).map(|there| *there.hash());
        let refusal = match there {
            _ if self.by_hash.contains_key(tx.hash()) || self.by_rank.contains_key(&tx.rank()) => Refusal::Known,
            _ if account.is_contract => Refusal::SenderIsContract,
            Some(hash) => Refusal::ReplacementUnderpriced { hash, bump: self.config.bump },
            None if nonce < cursor => Refusal::NonceUsed { nonce, next: cursor },
            None if nonce - next >= window => Refusal::NonceTooFar { nonce, next, window },
            None => {
                self.place(tx, seat);
                return None;
            }
        };
        Some(Removed { tx, cause: Cause::Refused(refusal), seat })
    }
}

const fn half(load: Load) -> Load {
    Load { txs: load.txs / 2, bytes: load.bytes / 2 }
}
