//! The model: a pool that keeps one list and computes everything anew.

use super::kit::World;
use phalanx::{
    RecoveredTx,
    paralyze::authorities,
    pool::{Account, Batch, Cause, Fees, Load, Policy, PoolConfig, Refusal, Settled},
    revm::{
        context::TxEnv,
        context_interface::result::InvalidTransaction,
        primitives::{Address, B256, U256},
    },
};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) tx: Arc<RecoveredTx>,
    pub(super) rank: u64,
    pub(super) born: u64,
}

impl Item {
    fn env(&self) -> &TxEnv {
        self.tx.tx()
    }

    fn cost(&self) -> U256 {
        let tx = self.env();
        let blobs = U256::from(tx.blob_hashes.len() as u128 * (1 << 17)) * U256::from(tx.max_fee_per_blob_gas);
        U256::from(tx.gas_limit) * U256::from(tx.gas_price) + tx.value + blobs
    }

    fn prices(&self) -> (u128, u128) {
        (self.env().gas_price, self.env().gas_priority_fee.unwrap_or(self.env().gas_price))
    }

    fn worth(&self, base: u128) -> i128 {
        let (cap, tip) = self.prices();
        (cap as i128 - base as i128).min(tip as i128)
    }
}

/// Rank of a transaction that left, and the cause.
pub(super) type Gone = (u64, Cause);

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) config: PoolConfig,
    pub(super) fees: Fees,
    pub(super) now: u64,
    next_rank: u64,
    /// Account of each sender below, and its first nonce that is not handed out.
    seats: BTreeMap<Address, (Account, u64)>,
    pub(super) items: BTreeMap<(Address, u64), Item>,
    /// Bytes that the pool adds to each transaction.
    overhead: usize,
}

impl Model {
    pub(super) fn new(config: PoolConfig, overhead: usize) -> Self {
        let (seats, items) = Default::default();
        Self { config, fees: Fees::default(), now: 0, next_rank: 0, seats, items, overhead }
    }

    fn of(&self, sender: Address) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.range((sender, 0)..=(sender, u64::MAX)).map(|(_, item)| item)
    }

    /// First nonce that is not ready.
    fn end(&self, sender: Address) -> u64 {
        let Some((account, cursor)) = self.seats.get(&sender) else { return 0 };
        let given = self.of(sender).filter(|item| item.env().nonce < *cursor);
        let mut cost: U256 = given.fold(U256::ZERO, |sum, item| sum.saturating_add(item.cost()));
        let mut end = *cursor;
        while let Some(item) = self.items.get(&(sender, end)) {
            cost = cost.saturating_add(item.cost());
            if cost > account.balance {
                break;
            }
            end += 1;
        }
        end
    }

    pub(super) fn is_ready(&self, item: &Item) -> bool {
        item.env().nonce < self.end(item.env().caller)
    }

    pub(super) fn load(&self, ready: bool) -> Load {
        let members = self.items.values().filter(|item| self.is_ready(item) == ready);
        members.fold(Load::default(), |sum, item| Load {
            txs: sum.txs + 1,
            bytes: sum.bytes + item.tx.size() + self.overhead,
        })
    }

    fn forget_empty(&mut self) {
        let items = &self.items;
        self.seats.retain(|sender, _| items.range((*sender, 0)..=(*sender, u64::MAX)).next().is_some());
    }

    fn cut(&mut self, sender: Address, nonce: u64, cause: Cause, gone: &mut Vec<Gone>) {
        let end = self.end(sender);
        let keys: Vec<_> = self.items.range((sender, nonce)..=(sender, u64::MAX)).map(|(key, _)| *key).collect();
        let mut first: Option<B256> = None;
        for key in keys {
            let item = self.items.remove(&key).expect("listed");
            let hash = *first.get_or_insert(*item.tx.hash());
            let cause = if hash == *item.tx.hash() { cause.clone() } else { Cause::Follows { hash } };
            gone.push((item.rank, cause));
        }
        assert!(end >= self.end(sender));
        if let Some((account, cursor)) = self.seats.get_mut(&sender) {
            *cursor = (*cursor).min(nonce.max(account.nonce));
        }
        self.forget_empty();
    }

    fn evict(&mut self, gone: &mut Vec<Gone>) {
        loop {
            let over = |load: Load, max: Load| load.txs > max.txs || load.bytes > max.bytes;
            let ready = over(self.load(true), self.config.max_ready);
            if !ready && !over(self.load(false), self.config.max_future) {
                return;
            }
            // The last transaction of every sender in that class, with the lowest worth on the path to it.
            let tails = self.seats.iter().filter_map(|(sender, (_, cursor))| {
                let class = |item: &&Item| !ready || self.is_ready(item);
                let tail = self.of(*sender).rfind(class)?;
                let nonce = tail.env().nonce;
                if nonce < *cursor || (!ready && self.is_ready(tail)) {
                    return None;
                }
                let worth = self.of(*sender).filter(class).map(|item| item.worth(self.fees.base)).min()?;
                Some((worth, Reverse(tail.rank), *sender, nonce))
            });
            let Some((.., sender, nonce)) = tails.min() else { return };
            self.cut(sender, nonce, Cause::Evicted, gone);
        }
    }

    /// Accounts that delegate, or that a pooled transaction would make delegate, have one transaction here: their next.
    fn check_delegation(&self, env: &TxEnv, account: &Account) -> Result<(), Refusal> {
        let others = |sender: Address| {
            let is_same = |item: &&Item| sender == env.caller && item.env().nonce == env.nonce;
            self.of(sender).filter(|item| !is_same(item)).count()
        };
        let would =
            |sender: Address| self.items.values().any(|item| authorities(item.env()).any(|found| found == sender));
        let is_limited = account.is_delegated || would(env.caller);
        if is_limited && (env.nonce != account.nonce || others(env.caller) > 0) {
            return Err(Refusal::OneOfDelegated { next: account.nonce });
        }
        match authorities(env).find(|authority| others(*authority) > usize::from(*authority != env.caller)) {
            Some(authority) => Err(Refusal::AuthorityPending { authority }),
            None => Ok(()),
        }
    }

    pub(super) fn add(&mut self, tx: &Arc<RecoveredTx>, world: &World) -> Result<(u64, bool, Vec<Gone>), Refusal> {
        let before = self.clone();
        let env = tx.tx();
        let (sender, nonce) = (env.caller, env.nonce);
        if self.items.values().any(|item| item.tx.hash() == tx.hash()) {
            return Err(Refusal::Known);
        }
        let item = Item { tx: Arc::clone(tx), rank: self.next_rank, born: self.now };
        let (cap, tip) = item.prices();
        let (min_cap, min_tip) = (self.config.min_cap, self.config.min_tip);
        if cap < min_cap || tip < min_tip {
            return Err(Refusal::Underpriced { cap, tip, min_cap, min_tip });
        }
        let (account, cursor) =
            self.seats.get(&sender).copied().unwrap_or_else(|| (world.get(sender), world.get(sender).nonce));
        let next = account.nonce;
        if nonce < next {
            return Err(Refusal::NonceUsed { nonce, next });
        }
        if nonce >= next + self.config.window {
            return Err(Refusal::NonceTooFar { nonce, next, window: self.config.window });
        }
        if item.cost() > account.balance {
            return Err(Refusal::Funds { cost: item.cost(), balance: account.balance });
        }
        self.check_delegation(env, &account)?;
        let there = self.items.get(&(sender, nonce)).cloned();
        if nonce < cursor {
            return Err(there.map_or(Refusal::NonceUsed { nonce, next: cursor }, |there| Refusal::InFlight {
                hash: *there.tx.hash(),
            }));
        }
        if let Some(there) = &there {
            let blobs = !there.env().blob_hashes.is_empty();
            let bump = if blobs { self.config.blob_bump } else { self.config.bump };
            let enough = |new: u128, old: u128| new * 100 >= old * (100 + u128::from(bump));
            let ((old_cap, old_tip), old_blob) = (there.prices(), there.env().max_fee_per_blob_gas);
            let blob_price = !blobs || enough(env.max_fee_per_blob_gas, old_blob);
            if !enough(cap, old_cap) || !enough(tip, old_tip) || !blob_price || there.prices() == item.prices() {
                return Err(Refusal::ReplacementUnderpriced { hash: *there.tx.hash(), bump });
            }
        }
        let mut gone = Vec::new();
        self.seats.entry(sender).or_insert((account, cursor));
        if let Some(old) = self.items.insert((sender, nonce), item) {
            gone.push((old.rank, Cause::Replaced { by: *tx.hash() }));
        }
        self.evict(&mut gone);
        let Some(item) = self.items.get(&(sender, nonce)) else {
            *self = before;
            return Err(Refusal::Full);
        };
        let is_ready = self.is_ready(item);
        self.next_rank += 1;
        Ok((self.next_rank - 1, is_ready, gone))
    }

    /// Ranks in the order in which they would be handed out.
    pub(super) fn order(&self, max_of_sender: usize) -> Vec<u64> {
        let mut next: BTreeMap<Address, u64> =
            self.seats.iter().map(|(sender, (_, cursor))| (*sender, *cursor)).collect();
        let mut order = Vec::new();
        loop {
            let candidates = next.iter().filter_map(|(sender, nonce)| {
                let item = self.items.get(&(*sender, *nonce)).filter(|item| self.is_ready(item))?;
                let tx = item.env();
                let blobs = tx.blob_hashes.is_empty() || tx.max_fee_per_blob_gas >= self.fees.blob;
                if !blobs || tx.gas_price < self.fees.base || nonce - self.seats[sender].1 >= max_of_sender as u64 {
                    return None;
                }
                let worth = match self.config.policy {
                    Policy::Price { boost } => item.worth(self.fees.base) - i128::from(boost) * i128::from(item.born),
                    Policy::Arrival => 0,
                };
                Some((worth, Reverse(item.rank), *sender))
            });
            let Some((_, Reverse(rank), sender)) = candidates.max() else { return order };
            order.push(rank);
            *next.get_mut(&sender).expect("a candidate") += 1;
        }
    }

    pub(super) fn take(&mut self, batch: &Batch) -> Vec<u64> {
        let mut taken = self.order(batch.max_of_sender);
        taken.truncate(batch.max_txs);
        for rank in &taken {
            let (sender, _) = self.key(*rank).expect("in order");
            self.seats.get_mut(&sender).expect("a sender").1 += 1;
        }
        taken
    }

    fn key(&self, rank: u64) -> Option<(Address, u64)> {
        self.items.iter().find(|(_, item)| item.rank == rank).map(|(key, _)| *key)
    }

    pub(super) fn settle(&mut self, outcomes: &[(u64, Settled)]) -> Vec<Gone> {
        let (mut gone, mut returned) = (Vec::new(), Vec::new());
        for (rank, settled) in outcomes {
            let Some((sender, nonce)) = self.key(*rank) else { continue };
            match settled {
                Settled::Included => {}
                Settled::Returned | Settled::Invalid(InvalidTransaction::NonceTooHigh { .. }) => {
                    returned.push((sender, nonce));
                }
                Settled::Invalid(reason @ InvalidTransaction::NonceTooLow { .. }) => {
                    self.items.remove(&(sender, nonce));
                    gone.push((*rank, Cause::Invalid(reason.clone())));
                    self.forget_empty();
                }
                Settled::Invalid(reason) => self.cut(sender, nonce, Cause::Invalid(reason.clone()), &mut gone),
            }
        }
        for (sender, nonce) in returned {
            if let Some((account, cursor)) = self.seats.get_mut(&sender) {
                *cursor = (*cursor).min(nonce.max(account.nonce));
            }
        }
        self.evict(&mut gone);
        gone
    }

    pub(super) fn settle_all_returned(&mut self) -> Vec<Gone> {
        self.seats.values_mut().for_each(|(account, cursor)| *cursor = account.nonce);
        let mut gone = Vec::new();
        self.evict(&mut gone);
        gone
    }

    pub(super) fn retreat(
        &mut self,
        now: u64,
        fees: Fees,
        changed: &[Address],
        back: &[Item],
        world: &World,
    ) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.now = self.now.max(now);
        self.fees = fees;
        let senders = back.iter().map(|item| item.env().caller);
        let mut changed: Vec<Address> = changed.iter().copied().chain(senders).collect();
        changed.sort_unstable();
        changed.dedup();
        for sender in changed {
            let Some((old, cursor)) = self.seats.get(&sender).copied() else { continue };
            let account = world.get(sender);
            let passed: Vec<_> = self.items.range((sender, 0)..(sender, account.nonce)).map(|(key, _)| *key).collect();
            for key in passed {
                gone.push((self.items.remove(&key).expect("listed").rank, Cause::Passed));
            }
            let cursor = if account.nonce < old.nonce { account.nonce } else { cursor.max(account.nonce) };
            self.seats.insert(sender, (account, cursor));
            self.forget_empty();
            if account.is_delegated {
                self.cut(sender, account.nonce + 1, Cause::SenderDelegates, &mut gone);
            }
        }
        let mut back = back.to_vec();
        back.sort_unstable_by_key(|item| item.rank);
        for item in back {
            let (sender, nonce) = (item.env().caller, item.env().nonce);
            let account = world.get(sender);
            let (_, cursor) = self.seats.get(&sender).copied().unwrap_or((account, account.nonce));
            let (next, window) = (account.nonce, self.config.window);
            let known = self.items.values().any(|other| other.rank == item.rank);
            let there = self.items.get(&(sender, nonce)).map(|there| *there.tx.hash());
            let refusal = match there {
                _ if known => Refusal::Known,
                Some(hash) => Refusal::ReplacementUnderpriced { hash, bump: self.config.bump },
                None if nonce < cursor => Refusal::NonceUsed { nonce, next: cursor },
                None if nonce - next >= window => Refusal::NonceTooFar { nonce, next, window },
                None if self.check_delegation(item.env(), &account).is_err() => {
                    self.check_delegation(item.env(), &account).expect_err("refused")
                }
                None => {
                    self.seats.entry(sender).or_insert((account, account.nonce));
                    self.items.insert((sender, nonce), item);
                    continue;
                }
            };
            gone.push((item.rank, Cause::Refused(refusal)));
        }
        let mut ranks: Vec<u64> = self.items.values().map(|item| item.rank).collect();
        ranks.sort_unstable();
        for rank in ranks {
            let Some((sender, nonce)) = self.key(rank) else { continue };
            let old = self.now - self.items[&(sender, nonce)].born >= self.config.max_age;
            if old && nonce >= self.seats[&sender].1 {
                self.cut(sender, nonce, Cause::Expired, &mut gone);
            }
        }
        self.evict(&mut gone);
        gone
    }
}
