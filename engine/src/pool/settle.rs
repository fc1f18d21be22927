//! Settlement of batches and blocks: included, returned, passed, expired.

use super::{Account, Accounts, Cause, Fees, Pool, PooledTx, Removed, Settled, lane::SenderId};
use alloy_primitives::{Address, map::HashMap};
use phalanx_memory::prefetch;
use revm::context_interface::result::InvalidTransaction;
use std::sync::Arc;

/// Number of senders whose memory is prefetched together.
const WAVE: usize = 32;

/// New tip of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// Current tick: of blocks, seconds, or any unit that ages are counted in. A lower one than the pool's counts as
    /// the pool's.
    pub now: u64,
    /// Prices of gas in the next block.
    pub fees: Fees,
    /// Accounts whose nonce, balance or code may have changed: those that the access lists of the blocks between change, or at
    /// least their senders, authorities and receivers and the pool's own [delegated](Pool::delegated) senders. A missing account is
    /// judged by its last known state: one that delegates and whose code has moved its nonce is locked out, a transaction that was
    /// paid for meanwhile stays future, and one that can no longer pay is handed out.
    pub changed: Vec<Address>,
}

impl Pool {
    /// Settles handed-out transactions, by rank. Pass the results of one batch in one call; unknown ranks are
    /// ignored.
    ///
    /// A returned transaction is ready again at its old rank. So are its sender's later ones that were handed out,
    /// whatever their result: a block cannot hold them without it. An invalid transaction is removed with its
    /// sender's later ones. Two kinds of invalid ones differ: a nonce that is too low removes only itself, one that
    /// is too high is returned.
    pub fn settle(&mut self, outcomes: impl IntoIterator<Item = (u64, Settled)>) -> Vec<Removed> {
        let mut removed = Vec::new();
        let mut returned: HashMap<SenderId, u64> = HashMap::default();
        for (rank, settled) in outcomes {
            if settled == Settled::Included {
                continue;
            }
            let Some(place) = self.by_rank.get(&rank).copied() else { continue };
            match settled {
                Settled::Included => {}
                // The fork has begun while it was handed out.
                Settled::Returned if !self.has_proofs(place) => {
                    self.cut(place.sender, place.nonce, Cause::Proofs, &mut removed);
                }
                Settled::Returned | Settled::Invalid(InvalidTransaction::NonceTooHigh { .. }) => {
                    let first = returned.entry(place.sender).or_insert(place.nonce);
                    *first = place.nonce.min(*first);
                }
                Settled::Invalid(reason @ InvalidTransaction::NonceTooLow { .. }) => {
                    let gone = self.edit(place.sender, |queue| (queue.seat(), queue.punch(place.nonce)));
                    if let (seat, Some(tx)) = gone {
                        removed.push(self.forget(tx, Cause::Invalid(reason), seat));
                    }
                }
                Settled::Invalid(reason) => {
                    self.cut(place.sender, place.nonce, Cause::Invalid(reason), &mut removed);
                }
            }
        }
        for (sender, nonce) in returned {
            self.edit(sender, |queue| queue.requeue(nonce));
        }
        self.evict(&mut removed);
        self.events.removed(&removed);
        removed
    }

    /// Returns all handed-out transactions: their blocks are abandoned. O(senders).
    pub fn settle_all_returned(&mut self) -> Vec<Removed> {
        let senders: Vec<SenderId> = self.senders.iter().map(|(id, _)| id).collect();
        for sender in senders {
            self.edit(sender, |queue| queue.requeue(0));
        }
        let mut removed = Vec::new();
        self.evict(&mut removed);
        self.events.removed(&removed);
        removed
    }

    /// Advances the pool to a block on top of the last one: nonces, balances and fees are updated, old transactions
    /// expire. Returns the removed ones.
    ///
    /// # Errors
    /// If `accounts`, the state after the block, fails; then nothing has changed.
    pub fn advance<A: Accounts>(&mut self, tip: &Tip, accounts: &A) -> Result<Vec<Removed>, A::Error> {
        self.retreat(tip, [], accounts)
    }

    /// Moves the pool to an earlier block, or to another fork. `txs`, those of the rewound blocks, return at their
    /// old ranks where the state `accounts` has a place for them. Their senders need not be among `tip.changed`.
    /// Handed-out transactions of a sender whose nonce went back are ready again. Returns the removed ones, and those
    /// that could not return.
    ///
    /// # Errors
    /// If `accounts` fails; then nothing has changed.
    pub fn retreat<A: Accounts>(
        &mut self,
        tip: &Tip,
        txs: impl IntoIterator<Item = Arc<PooledTx>>,
        accounts: &A,
    ) -> Result<Vec<Removed>, A::Error> {
        let mut txs: Vec<Arc<PooledTx>> = txs.into_iter().collect();
        txs.sort_unstable_by_key(|tx| tx.rank());
        let known = tip.changed.iter().filter(|address| self.senders.find(address).is_some());
        // Sorted, so that the result does not depend on the caller's order.
        let mut changed: Vec<Address> = known.copied().chain(txs.iter().map(|tx| tx.sender())).collect();
        changed.sort_unstable();
        changed.dedup();
        let read = accounts.accounts(&changed)?;

        let mut removed = Vec::new();
        self.now = self.now.max(tip.now);
        self.set_fees(tip.fees);
        for (changed, read) in changed.chunks(WAVE).zip(read.chunks(WAVE)) {
            self.look_ahead(changed);
            changed.iter().zip(read).for_each(|(address, account)| self.follow(address, *account, &mut removed));
        }
        for tx in txs {
            let Ok(at) = changed.binary_search(&tx.sender()) else { continue };
            removed.extend(self.put_back(tx, read[at]));
        }
        self.expire(&mut removed);
        self.evict(&mut removed);
        self.events.removed(&removed);
        Ok(removed)
    }

    /// Prefetches the memory that [`Self::follow`] reads.
    fn look_ahead(&self, addresses: &[Address]) {
        let ids: Vec<SenderId> = addresses.iter().filter_map(|address| self.senders.find(address)).collect();
        ids.iter().for_each(|id| prefetch(&self.senders[*id]));
        ids.iter().for_each(|id| self.senders[*id].prefetch());
        ids.iter().for_each(|id| self.senders[*id].prefetch_first());
    }

    /// Updates a sender to its new state.
    fn follow(&mut self, address: &Address, account: Account, removed: &mut Vec<Removed>) {
        let Some(id) = self.senders.find(address) else { return };
        let (seat, passed) = self.edit(id, |queue| (queue.seat(), queue.set_account(account)));
        removed.extend(passed.into_iter().map(|tx| self.forget(tx, Cause::Passed, seat)));
        if self.bars(&account)
            && let Some(id) = self.senders.find(address)
        {
            self.cut(id, 0, Cause::SenderIsContract, removed);
        }
        if account.is_delegated
            && let Some(second) = account.nonce.checked_add(1)
            && let Some(id) = self.senders.find(address)
        {
            self.cut(id, second, Cause::SenderDelegates, removed);
        }
    }

    /// Removes transactions that have waited too long and are not handed out. A sender's later ones go with them.
    fn expire(&mut self, removed: &mut Vec<Removed>) {
        let mut from = 0;
        while let Some((rank, place)) = self.by_rank.range(from..).next().map(|(rank, place)| (*rank, *place)) {
            if self.now - place.born.min(self.now) < self.config.max_age {
                return;
            }
            from = rank + 1;
            if place.nonce >= self.senders[place.sender].cursor() {
                self.cut(place.sender, place.nonce, Cause::Expired, removed);
            }
        }
    }
}
