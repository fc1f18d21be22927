//! The pool's state and its primitive changes: place, cut, evict, put back. Each keeps indexes, loads and lanes in step.

use super::{
    Account, Cause, Fees, Load, PoolConfig, PooledTx, Removed,
    events::EventLog,
    lane::{Lane, SenderId},
    outcome::Refusal,
    queue::{Queue, Seat},
    senders::Senders,
    tails::Tails,
};
use alloy_primitives::{
    Address, B256,
    map::{AddressMap, B256Map, hash_map::Entry},
};
use phalanx_paralyze::{ChainRules, authorities};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{U256, hardfork::SpecId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Sender and nonce of a transaction, and the tick of its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) sender: SenderId,
    pub(super) nonce: u64,
    pub(super) born: u64,
}

/// Transactions that wait for a block.
///
/// A value without threads, clock or randomness: time comes as ticks, the state through
/// [`Accounts`](super::Accounts). Every operation takes O(log n) amortised per transaction that it adds, hands out,
/// moves or removes, unless it says otherwise. A transaction that comes or leaves in front of others of its sender
/// moves those, at most [`PoolConfig::window`].
#[derive(Debug)]
pub struct Pool {
    pub(super) config: PoolConfig,
    /// Current tick; never decreases.
    pub(super) now: u64,
    pub(super) next_rank: u64,
    pub(super) senders: Senders,
    pub(super) by_hash: B256Map<u64>,
    /// Rank is the order of arrival, so this is also the order of birth.
    pub(super) by_rank: BTreeMap<u64, Place>,
    /// Ranks of the transactions with blobs.
    with_blobs: BTreeSet<u64>,
    pub(super) fees: Fees,
    /// Number of pooled authorizations of each account (EIP-7702).
    pub(super) authorities: AddressMap<u32>,
    /// Senders by their next transaction, if the fees admit it.
    pub(super) heads: Lane,
    /// Senders by eviction order; built when the pool becomes full, dropped when it is half empty.
    tails: Option<Tails>,
    ready: Load,
    future: Load,
    pub(super) events: EventLog,
    /// Rules of the chain beside those of the spec.
    rules: Arc<ChainRules>,
    /// Environment of the next block, for extra fees.
    env: BlockEnv,
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
            with_blobs: BTreeSet::new(),
            fees: Fees::default(),
            authorities: AddressMap::default(),
            heads: Lane::default(),
            tails: None,
            ready: Load::default(),
            future: Load::default(),
            events: EventLog::default(),
            rules: Arc::default(),
            env: BlockEnv::default(),
        }
    }

    /// Sets the chain's own rules: its extra fee is part of a transaction's cost.
    #[must_use]
    pub fn with_rules(mut self, rules: Arc<ChainRules>) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the environment of the next block, by which extra fees are judged. The cost of an admitted transaction stays that of
    /// its admission; the builder judges anew.
    pub const fn set_env(&mut self, env: BlockEnv) {
        self.env = env;
    }

    /// Extra fee of a transaction in the next block, in wei.
    pub(super) fn extra_fee(&self, tx: &TxEnv) -> U256 {
        self.rules.extra_fee(tx, &self.env)
    }

    /// Ready transactions, including those that are handed out.
    pub const fn ready_load(&self) -> Load {
        self.ready
    }

    /// Future transactions: they cannot run yet.
    pub const fn future_load(&self) -> Load {
        self.future
    }

    /// Tick that the pool has advanced to; a service's is the height of a block.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.by_rank.len()
    }

    /// Returns true if the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.by_rank.is_empty()
    }

    /// Fees that ready transactions are judged by.
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

    /// Transactions with blobs in order of arrival. O(log n) each.
    pub fn with_blobs(&self) -> impl Iterator<Item = &Arc<PooledTx>> {
        let places = self.with_blobs.iter().filter_map(|rank| self.by_rank.get(rank));
        places.filter_map(|place| self.senders[place.sender].get(place.nonce))
    }

    /// False if the transaction has blobs with the proofs of another hard fork than the next block's.
    pub(super) fn has_proofs(&self, place: Place) -> bool {
        let tx = self.senders[place.sender].get(place.nonce);
        tx.is_none_or(|tx| tx.recovered().has_proofs_of(self.config.spec))
    }

    /// Sets the hard fork. Admitted transactions stay, but for those that are not handed out and have blobs with the proofs of
    /// another. A sender's later ones go with them. O(blob transactions) where Osaka begins, or is left. Returns the removed ones.
    pub fn set_spec(&mut self, spec: SpecId) -> Vec<Removed> {
        let before = core::mem::replace(&mut self.config.spec, spec);
        let mut removed = Vec::new();
        if before.is_enabled_in(SpecId::OSAKA) == spec.is_enabled_in(SpecId::OSAKA) {
            return removed;
        }
        let waits = |place: Place| place.nonce >= self.senders[place.sender].cursor();
        let is_unfit = |place: &&Place| waits(**place) && !self.has_proofs(**place);
        let with_blobs = self.with_blobs.iter().filter_map(|rank| self.by_rank.get(rank));
        let mut unfit: Vec<Place> = with_blobs.filter(is_unfit).copied().collect();
        // The last of a sender first, so that the place of each is still there.
        unfit.sort_unstable_by_key(|place| core::cmp::Reverse(place.nonce));
        unfit.iter().for_each(|place| self.cut(place.sender, place.nonce, Cause::Proofs, &mut removed));
        self.events.removed(&removed);
        removed
    }

    /// Sets the prices of gas. O(senders) if they change.
    pub(super) fn set_fees(&mut self, fees: Fees) {
        let Self { config, senders, heads, tails, .. } = self;
        if core::mem::replace(&mut self.fees, fees) != fees {
            heads.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.head(config.policy, queue)?))));
            tails.as_mut().into_iter().for_each(|tails| tails.refill(&fees, senders));
        }
    }

    /// True if an account sends no transactions, because it has code (EIP-3607).
    pub(super) fn bars(&self, account: &Account) -> bool {
        account.is_contract && !self.rules.contracts_send()
    }

    /// Removes a transaction, without its sender's later ones. Returns false if it is not here, or handed out.
    pub fn remove(&mut self, hash: &B256) -> bool {
        let place = self.by_hash.get(hash).and_then(|rank| self.by_rank.get(rank)).copied();
        let Some(Place { sender, nonce, .. }) = place else { return false };
        if nonce < self.senders[sender].cursor() {
            return false;
        }
        let (seat, gone) = self.edit(sender, |queue| (queue.seat(), queue.punch(nonce)));
        let removed = gone.map(|tx| self.forget(tx, Cause::Dropped, seat));
        self.events.removed(removed.as_slice());
        removed.is_some()
    }

    /// Changes a sender's queue, and updates loads and lanes.
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

    /// Updates a sender's keys in the lanes.
    pub(super) fn list(&mut self, id: SenderId) {
        let Self { config, senders, fees, heads, tails, .. } = self;
        let queue = &senders[id];
        heads.set(id, fees.head(config.policy, queue));
        tails.as_mut().into_iter().for_each(|tails| tails.set(fees, id, queue));
    }

    /// Checks that accounts which delegate, or would, have one transaction here, their next: whatever moves their balance
    /// makes at most that one invalid.
    pub(super) fn check_delegation(&self, tx: &TxEnv, account: &Account) -> Result<(), Refusal> {
        let is_limited = account.is_delegated || self.authorities.contains_key(&tx.caller);
        let others = |sender: &Address, nonce| self.senders.get(sender).map_or(0, |queue| queue.others(nonce));
        if is_limited && (tx.nonce != account.nonce || others(&tx.caller, tx.nonce) > 0) {
            return Err(Refusal::OneOfDelegated { next: account.nonce });
        }
        for authority in authorities(tx) {
            let most = usize::from(authority != tx.caller);
            let pending = match authority == tx.caller {
                true => others(&authority, tx.nonce),
                false => self.senders.get(&authority).map_or(0, Queue::len),
            };
            if pending > most {
                return Err(Refusal::AuthorityPending { authority });
            }
        }
        Ok(())
    }

    /// Inserts `tx` into its sender's queue, which is created from `seat` if there is none. Returns the replaced
    /// transaction.
    pub(super) fn place(&mut self, tx: Arc<PooledTx>, seat: Seat) -> Option<Removed> {
        let sender = self.senders.open(tx.sender(), seat);
        let (nonce, born) = (tx.nonce(), tx.born());
        let by = *tx.hash();
        self.by_hash.insert(by, tx.rank());
        for authority in authorities(tx.tx()) {
            *self.authorities.entry(authority).or_default() += 1;
        }
        if !tx.tx().blob_hashes.is_empty() {
            self.with_blobs.insert(tx.rank());
        }
        self.by_rank.insert(tx.rank(), Place { sender, nonce, born });
        let replaced = self.edit(sender, |queue| queue.insert(tx))?;
        Some(self.forget(replaced, Cause::Replaced { by }, seat))
    }

    /// Removes the transaction at `nonce` for `cause`, and its sender's later ones, which cannot run without it.
    pub(super) fn cut(&mut self, sender: SenderId, nonce: u64, cause: Cause, removed: &mut Vec<Removed>) {
        let (seat, gone) = self.edit(sender, |queue| (queue.seat(), queue.truncate(nonce)));
        let mut gone = gone.into_iter();
        let Some(first) = gone.next() else { return };
        let hash = *first.hash();
        removed.push(self.forget(first, cause, seat));
        for tx in gone {
            removed.push(self.forget(tx, Cause::Follows { hash }, seat));
        }
    }

    /// Removes a transaction that has left its queue from the indexes.
    pub(super) fn forget(&mut self, tx: Arc<PooledTx>, cause: Cause, seat: Seat) -> Removed {
        self.by_hash.remove(tx.hash());
        self.by_rank.remove(&tx.rank());
        self.with_blobs.remove(&tx.rank());
        for authority in authorities(tx.tx()) {
            if let Entry::Occupied(mut count) = self.authorities.entry(authority) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Removed { tx, cause, seat }
    }

    /// Evicts transactions of the lowest worth until both classes are within their limits.
    ///
    /// A transaction is worth no more than its sender's earlier ones, since it pays only after they did. Among those
    /// of the lowest worth the youngest is evicted. A sender's last transaction thus always goes before its earlier
    /// ones.
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
            // Without a tail all transactions are handed out; a block will remove them.
            let Some((sender, nonce)) = tail else { return };
            self.cut(sender, nonce, Cause::Evicted, removed);
        }
        // The eviction order is dropped while it is not needed, and built again when the pool is full again: not
        // before half of its room was filled, which pays for building it.
        if self.tails.is_some()
            && !exceeds(self.ready, half(self.config.max_ready))
            && !exceeds(self.future, half(self.config.max_future))
        {
            self.tails = None;
        }
    }

    /// Puts a returned transaction back at its rank if its place is free; else returns it with the refusal.
    pub(super) fn put_back(&mut self, tx: Arc<PooledTx>, account: Account) -> Option<Removed> {
        let queue = self.senders.get(&tx.sender());
        let seat = queue.map_or_else(|| Seat::new(account), Queue::seat);
        let (nonce, next, window) = (tx.nonce(), account.nonce, self.config.window);
        let cursor = queue.map_or(next, Queue::cursor);
        let there = queue.and_then(|queue| queue.get(nonce)).map(|there| *there.hash());
        let refusal = match there {
            _ if self.by_hash.contains_key(tx.hash()) || self.by_rank.contains_key(&tx.rank()) => Refusal::Known,
            _ if self.bars(&account) => Refusal::SenderIsContract,
            Some(hash) => Refusal::ReplacementUnderpriced { hash, bump: self.config.bump },
            None if nonce < cursor => Refusal::NonceUsed { nonce, next: cursor },
            None if nonce - next >= window => Refusal::NonceTooFar { nonce, next, window },
            None => match self.check_delegation(tx.tx(), &account) {
                Err(refusal) => refusal,
                Ok(()) => {
                    self.place(tx, seat);
                    return None;
                }
            },
        };
        Some(Removed { tx, cause: Cause::Refused(refusal), seat })
    }
}

const fn half(load: Load) -> Load {
    Load { txs: load.txs / 2, bytes: load.bytes / 2 }
}
