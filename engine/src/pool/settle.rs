//! What builders and blocks say of transactions: settled, passed, brought back, expired.

use super::{Account, Accounts, Cause, Fees, Pool, PooledTx, Removed, Settled, lane::SenderId};
use alloy_primitives::{Address, map::HashMap};
use phalanx_memory::prefetch;
use revm::context_interface::result::InvalidTransaction;
use std::sync::Arc;

/// Senders whose memory is asked for together.
const WAVE: usize = 32;

/// Another tip of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The tick: of blocks, seconds, whatever ages are counted in. One below the pool's counts as the pool's.
    pub now: u64,
    /// What gas costs in the block to come.
    pub fees: Fees,
    /// The accounts that may have changed: at least the senders and authorities of the blocks between. An account that is
    /// left out is judged by what was known of it; that can cost executions of transactions that are invalid, no more.
    pub changed: Vec<Address>,
}

impl Pool {
    /// Takes back what was handed out: for each rank what became of its transaction. Tell the outcomes of one batch in one
    /// call; ranks that the pool does not hold are passed over.
    ///
    /// A returned transaction is ready again at its old rank, and with it all later ones of its sender that were handed
    /// out, whatever was said of them: they cannot be in a block without it. An invalid one leaves with all later ones of
    /// its sender. Two kinds of invalid ones are not: a nonce that is too low takes nobody along, one that is too high is
    /// returned.
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
                Settled::Returned | Settled::Invalid(InvalidTransaction::NonceTooHigh { .. }) => {
                    let first = returned.entry(place.sender).or_insert(place.nonce);
                    *first = place.nonce.min(*first);
                }
                Settled::Invalid(reason @ InvalidTransaction::NonceTooLow { .. }) => {
                    let gone = self.edit(place.sender, |queue| (queue.seat(), queue.punch(place.nonce)));
                    if let (seat, Some(tx)) = gone {
                        removed.push(self.let_go(tx, Cause::Invalid(reason), seat));
                    }
                }
                Settled::Invalid(reason) => {
                    self.cut(place.sender, place.nonce, Cause::Invalid(reason), &mut removed);
                }
            }
        }
        for (sender, nonce) in returned {
            self.edit(sender, |queue| queue.take_back(nonce));
        }
        self.evict(&mut removed);
        removed
    }

    /// Returns everything that is handed out: the blocks it was for are given up. O(senders).
    pub fn settle_all_returned(&mut self) -> Vec<Removed> {
        let senders: Vec<SenderId> = self.senders.iter().map(|(id, _)| id).collect();
        for sender in senders {
            self.edit(sender, |queue| queue.take_back(0));
        }
        let mut removed = Vec::new();
        self.evict(&mut removed);
        removed
    }

    /// Follows the chain to a block on top of what it knew: nonces, balances and fees move on, the old expire. Gives what
    /// left.
    ///
    /// # Errors
    /// If `accounts`, the state after the block, fails; then nothing has changed.
    pub fn advance<A: Accounts>(&mut self, tip: &Tip, accounts: &A) -> Result<Vec<Removed>, A::Error> {
        self.retreat(tip, [], accounts)
    }

    /// Follows the chain back, or to another branch: `txs`, those of the blocks that were taken back, return at their old
    /// ranks where the state `accounts` still has a place for them. Their senders need not be among `tip.changed`. Gives
    /// what left, or could not return. Whatever was handed out of a sender whose nonce went back is ready again.
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
        // Sorted, so that nothing depends on how the caller came by them.
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
        Ok(removed)
    }

    /// Asks for the memory that [`Self::follow`] will look at.
    fn look_ahead(&self, addresses: &[Address]) {
        let ids: Vec<SenderId> = addresses.iter().filter_map(|address| self.senders.find(address)).collect();
        ids.iter().for_each(|id| prefetch(&self.senders[*id]));
        ids.iter().for_each(|id| self.senders[*id].prefetch());
        ids.iter().for_each(|id| self.senders[*id].prefetch_first());
    }

    /// Takes note of another state of a sender.
    fn follow(&mut self, address: &Address, account: Account, removed: &mut Vec<Removed>) {
        let Some(id) = self.senders.find(address) else { return };
        let (seat, passed) = self.edit(id, |queue| (queue.seat(), queue.set_account(account)));
        removed.extend(passed.into_iter().map(|tx| self.let_go(tx, Cause::Passed, seat)));
        if account.is_contract
            && let Some(id) = self.senders.find(address)
        {
            self.cut(id, 0, Cause::SenderIsContract, removed);
        }
    }

    /// Lets go of what came too long ago and was not taken. A sender's later ones go with it.
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
