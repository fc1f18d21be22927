//! Admission: checks, replacement, and the evictions that make room.

use super::{
    Account, Accounts, Admission, Pool, PooledTx, Refusal, Removed,
    bid::Bid,
    queue::{Queue, Seat},
};
use crate::recovery::RecoveredTx;
use alloy_primitives::Address;
use phalanx_paralyze::ForcedTx;
use std::sync::Arc;

impl Pool {
    /// Admits a transaction against the last known state, or refuses it and changes nothing.
    ///
    /// Reads the sender from `accounts` if the pool holds none of its transactions.
    ///
    /// # Errors
    /// If `accounts` fails; the transaction may be valid.
    pub fn add<A: Accounts>(&mut self, tx: Arc<RecoveredTx>, accounts: &A) -> Result<Admission, A::Error> {
        if let Err(refusal) = self.check(&tx) {
            return Ok(Admission::Refused(refusal));
        }
        let account = match self.senders.get(&tx.sender()) {
            Some(queue) => *queue.account(),
            None => accounts.account(&tx.sender())?,
        };
        Ok(self.admit(tx, account).unwrap_or_else(Admission::Refused))
    }

    /// Does [`Self::add`] for many, in order. All unknown senders are read in one call, which takes a fraction of the
    /// time where the state is larger than the processor's caches.
    ///
    /// # Errors
    /// If `accounts` fails; then nothing has changed.
    pub fn add_all<A: Accounts>(
        &mut self,
        txs: impl IntoIterator<Item = Arc<RecoveredTx>>,
        accounts: &A,
    ) -> Result<Vec<Admission>, A::Error> {
        let txs: Vec<Arc<RecoveredTx>> = txs.into_iter().collect();
        let account = |tx: &Arc<RecoveredTx>| self.senders.get(&tx.sender()).map(|queue| *queue.account());
        let known: Vec<Option<Account>> = txs.iter().map(account).collect();
        let of_unknown = txs.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<Address> = of_unknown.map(|(tx, _)| tx.sender()).collect();
        let mut read = accounts.accounts(&unknown)?.into_iter();
        let add = |(tx, known): (Arc<RecoveredTx>, Option<Account>)| {
            let account = known.or_else(|| read.next()).unwrap_or_default();
            self.check(&tx).and_then(|()| self.admit(tx, account)).unwrap_or_else(Admission::Refused)
        };
        let admissions: Vec<Admission> = txs.into_iter().zip(known).map(add).collect();
        accounts.announce(admissions.iter().filter_map(Admission::admitted));
        Ok(admissions)
    }

    /// Checks that need no state.
    fn check(&self, tx: &RecoveredTx) -> Result<(), Refusal> {
        let config = &self.config;
        if self.by_hash.contains_key(tx.hash()) {
            return Err(Refusal::Known);
        }
        if ForcedTx::is(tx.tx()) {
            return Err(Refusal::Forced);
        }
        if !tx.has_proofs_of(config.spec) {
            return Err(Refusal::Proofs);
        }
        let (len, max) = (tx.bytes().len().max(tx.tx().data.len()), config.max_tx_bytes);
        if len > max {
            return Err(Refusal::TooLong { len, max });
        }
        let (gas_limit, max) = (tx.tx().gas_limit, config.max_tx_gas);
        if gas_limit > max {
            return Err(Refusal::TooMuchGas { gas_limit, max });
        }
        let least = tx.least_gas(config.spec);
        if gas_limit < least {
            return Err(Refusal::TooLittleGas { gas_limit, least });
        }
        let Bid { cap, tip } = Bid::of(tx.tx());
        if tip > cap {
            return Err(Refusal::TipAboveCap { cap, tip });
        }
        let (min_cap, min_tip) = (config.min_cap, config.min_tip);
        if cap < min_cap || tip < min_tip {
            return Err(Refusal::Underpriced { cap, tip, min_cap, min_tip });
        }
        Ok(())
    }

    fn admit(&mut self, tx: Arc<RecoveredTx>, account: Account) -> Result<Admission, Refusal> {
        let (sender, nonce, next) = (tx.sender(), tx.tx().nonce, account.nonce);
        // The nonce after the last one does not exist (EIP-2681).
        if nonce < next || nonce == u64::MAX {
            return Err(Refusal::NonceUsed { nonce, next });
        }
        if nonce - next >= self.config.window {
            return Err(Refusal::NonceTooFar { nonce, next, window: self.config.window });
        }
        if self.bars(&account) {
            return Err(Refusal::SenderIsContract);
        }
        let extra = self.extra_fee(tx.tx());
        let tx = PooledTx::new(tx, extra, self.next_rank, self.now).ok_or(Refusal::CostOverflow)?;
        if tx.cost > account.balance {
            return Err(Refusal::Funds { cost: tx.cost, balance: account.balance });
        }
        self.check_delegation(tx.tx(), &account)?;
        self.check_place(&tx)?;

        let tx = Arc::new(tx);
        let seat = self.senders.get(&sender).map_or_else(|| Seat::new(account), Queue::seat);
        let mut removed = Vec::from_iter(self.place(Arc::clone(&tx), seat));
        self.evict(&mut removed);
        if !self.by_hash.contains_key(tx.hash()) {
            // The evictions would not have made room: all others return to their places.
            for Removed { tx: other, seat, .. } in removed {
                if other.rank() != tx.rank() {
                    self.place(other, seat);
                }
            }
            return Err(Refusal::Full);
        }
        self.next_rank += 1;
        self.events.admitted(&tx);
        self.events.removed(&removed);
        let is_ready = self.senders.get(&sender).is_some_and(|queue| queue.is_ready(nonce));
        Ok(Admission::Admitted { tx, is_ready, removed })
    }

    /// Checks that the sender's queue has a place for `tx`.
    fn check_place(&self, tx: &PooledTx) -> Result<(), Refusal> {
        let Some(queue) = self.senders.get(&tx.sender()) else { return Ok(()) };
        let there = queue.get(tx.nonce());
        if tx.nonce() < queue.cursor() {
            return Err(match there {
                Some(there) => Refusal::InFlight { hash: *there.hash() },
                None => Refusal::NonceUsed { nonce: tx.nonce(), next: queue.cursor() },
            });
        }
        if let Some(there) = there
            && !self.outbids(tx, there)
        {
            let blobs = !there.tx().blob_hashes.is_empty();
            let bump = if blobs { self.config.blob_bump } else { self.config.bump };
            return Err(Refusal::ReplacementUnderpriced { hash: *there.hash(), bump });
        }
        let (ready, future) = queue.loads();
        let bytes = ready.bytes + future.bytes + tx.load().bytes - there.map_or(0, |there| there.load().bytes);
        let max = self.config.max_sender_bytes;
        if bytes > max {
            return Err(Refusal::SenderFull { bytes, max });
        }
        Ok(())
    }

    /// Returns true if `tx` exceeds `there` by the bump in every price: a replacement pays for the work that it
    /// repeats.
    fn outbids(&self, tx: &PooledTx, there: &PooledTx) -> bool {
        let blobs = !there.tx().blob_hashes.is_empty();
        let bump = if blobs { self.config.blob_bump } else { self.config.bump };
        let enough = |new: u128, old: u128| new >= old.saturating_add(raise(old, bump));
        let blob_price = !blobs || enough(tx.tx().max_fee_per_blob_gas, there.tx().max_fee_per_blob_gas);
        blob_price && enough(tx.bid.cap, there.bid.cap) && enough(tx.bid.tip, there.bid.tip) && tx.bid != there.bid
    }
}

/// Returns `percent` of `price`, rounded up.
fn raise(price: u128, percent: u64) -> u128 {
    price.saturating_mul(u128::from(percent)).div_ceil(100)
}
