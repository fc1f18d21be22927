//! Bounds on dry runs: a transaction that may turn out to be invalid does not run dry before the ones that decide it ran.
//!
//! An invalid transaction pays nothing, so a dry run of it is work without pay. A transaction is sure if its sender's nonce
//! and balance, after all earlier transactions at their highest cost, permit it, and nothing else can change them: the sender
//! has no code, and no other transaction holds its authorization. All others are doubtful. They are predicted to touch their
//! sender alone, so that they wait for their predecessors, and escape for almost nothing if they are valid then.

use super::{
    brief::SenderFilter,
    chunk::{BATCH_LEN, Chunk},
};
use crate::{authorities::authorities, forced::ForcedTx, snapshot::Snapshot};
use alloy_primitives::{U256, map::AddressMap};
use revm::context::TxEnv;

/// Bounds on the dry runs of a batch.
#[derive(Clone, Copy)]
pub struct DryRuns<'a> {
    /// Maximum share of the batch's work; above it the batch is declined.
    pub max_share: f64,
    /// Maximum sum of the gas limits of simulated transactions; the others are predicted like doubtful ones. Runs that are
    /// followed for learning may use an eighth of it, at four times the cost.
    pub max_gas: u64,
    /// Returns the transactions that the filter passes of those that run before the batch and have not run on the snapshot,
    /// in their order; the ones that have run are passed over. Called where transactions would run dry.
    pub earlier: &'a (dyn Fn(&SenderFilter) -> Vec<&'a TxEnv> + Sync),
    /// True if the order of different senders may change, and accounts that delegate (EIP-7702) are doubtful senders: any
    /// transaction may empty them.
    pub is_free: bool,
}

impl core::fmt::Debug for DryRuns<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { max_share, max_gas, is_free, .. } = self;
        f.debug_struct("DryRuns")
            .field("max_share", max_share)
            .field("max_gas", max_gas)
            .field("is_free", is_free)
            .finish_non_exhaustive()
    }
}

/// Forecast of a sender: nonce and least balance after the transactions so far.
#[derive(Debug)]
struct Forecast {
    nonce: u64,
    balance: U256,
    is_sure: bool,
}

impl Forecast {
    fn of<S: Snapshot>(snapshot: &S, sender: &alloy_primitives::Address, is_free: bool) -> Self {
        let info = snapshot.basic_ref(*sender).ok().flatten().unwrap_or_default();
        let is_sure = !is_free || snapshot.code_hash(sender).is_none();
        Self { nonce: info.nonce, balance: info.balance, is_sure }
    }

    /// Takes the next transaction of the sender in. Returns true if it is surely valid.
    fn follow(&mut self, tx: &TxEnv) -> bool {
        if ForcedTx::is(tx) {
            // Nothing decides whether it is valid, but its mint and its value move the balance.
            let minted = self.balance.saturating_add(U256::from(ForcedTx::minted(tx)));
            (self.nonce, self.balance) = (self.nonce.saturating_add(1), minted.saturating_sub(tx.value));
            return true;
        }
        let left = most_cost(tx).and_then(|cost| self.balance.checked_sub(cost));
        let is_next = tx.nonce == self.nonce && tx.nonce != u64::MAX;
        match left.filter(|_| self.is_sure && is_next) {
            Some(left) => {
                (self.nonce, self.balance) = (self.nonce + 1, left);
                true
            }
            None => {
                self.is_sure = false;
                false
            }
        }
    }
}

/// Maximum cost of a transaction, in wei; `None` above 2^256.
fn most_cost(tx: &TxEnv) -> Option<U256> {
    const GAS_PER_BLOB: u64 = 1 << 17;
    let blob_gas = (tx.blob_hashes.len() as u64).saturating_mul(GAS_PER_BLOB);
    let gas = U256::from(tx.gas_limit).checked_mul(U256::from(tx.gas_price))?;
    gas.checked_add(U256::from(blob_gas).checked_mul(U256::from(tx.max_fee_per_blob_gas))?)?.checked_add(tx.value)
}

/// Marks the doubtful ones among pending transactions, and those beyond the bound on gas. O(transactions), nothing where none
/// is pending. Transactions that concern no pending sender are told by their short forms and not read.
pub(super) fn doubt<S: Snapshot>(snapshot: &S, txs: &[&TxEnv], chunks: &mut [Chunk], dry: &DryRuns<'_>) {
    let pending = chunks.iter().zip(txs.chunks(BATCH_LEN));
    let pending = pending.flat_map(|(chunk, txs)| chunk.pending.iter().map(|(index, _)| txs[*index].caller));
    let mut senders: AddressMap<Forecast> = AddressMap::default();
    for sender in pending {
        senders.entry(sender).or_insert_with(|| Forecast::of(snapshot, &sender, dry.is_free));
    }
    if senders.is_empty() {
        return;
    }
    let unsure = |senders: &mut AddressMap<Forecast>, tx: &TxEnv, others: bool, own: bool| {
        for authority in authorities(tx).filter(|authority| if *authority == tx.caller { own } else { others }) {
            if let Some(forecast) = senders.get_mut(&authority) {
                forecast.is_sure = false;
            }
        }
    };
    let filter = SenderFilter::new(senders.keys());
    let earlier = (dry.earlier)(&filter);
    let has_authorizations = |tx: &&TxEnv| !tx.authorization_list.is_empty();
    if dry.is_free {
        let own = chunks.iter().zip(txs.chunks(BATCH_LEN)).flat_map(|(chunk, txs)| passed(&filter, chunk, txs));
        earlier
            .iter()
            .copied()
            .chain(own.map(|(_, tx)| tx))
            .filter(has_authorizations)
            .for_each(|tx| unsure(&mut senders, tx, true, false));
    }
    for tx in earlier {
        if let Some(forecast) = senders.get_mut(&tx.caller)
            && tx.nonce >= forecast.nonce
        {
            forecast.follow(tx);
        }
        unsure(&mut senders, tx, true, true);
    }
    let mut left = dry.max_gas;
    for (chunk, txs) in chunks.iter_mut().zip(txs.chunks(BATCH_LEN)) {
        let mut doubtful = core::mem::take(&mut chunk.doubtful);
        doubtful.resize(txs.len(), false);
        let mut pending = chunk.pending.iter().map(|(index, _)| *index).peekable();
        for (index, tx) in passed(&filter, chunk, txs) {
            let is_sure = senders.get_mut(&tx.caller).is_none_or(|forecast| forecast.follow(tx));
            if !tx.authorization_list.is_empty() {
                unsure(&mut senders, tx, true, true);
            }
            if pending.next_if_eq(&index).is_some() {
                let rest = left.checked_sub(tx.gas_limit).filter(|_| is_sure);
                left = rest.unwrap_or(left);
                doubtful[index] = rest.is_none();
            }
        }
        chunk.doubtful = doubtful;
    }
}

/// Transactions of a chunk that the filter passes, with their indices in it.
fn passed<'a>(filter: &SenderFilter, chunk: &Chunk, txs: &[&'a TxEnv]) -> impl Iterator<Item = (usize, &'a TxEnv)> {
    let briefs = chunk.briefs.iter().zip(txs).enumerate();
    briefs.filter(|(_, (brief, _))| filter.passes(**brief)).map(|(index, (_, tx))| (index, *tx))
}

/// Returns true for each of `wanted`, ascending indices into `txs`, that may run dry on `snapshot`: it is the first of its
/// sender, or surely valid whatever the order of the senders. O(transactions).
pub fn may_run_dry<S: Snapshot>(snapshot: &S, txs: &[&TxEnv], wanted: &[usize]) -> Vec<bool> {
    let mut forecasts: AddressMap<(Forecast, bool)> = AddressMap::default();
    for index in wanted {
        let sender = txs[*index].caller;
        forecasts.entry(sender).or_insert_with(|| (Forecast::of(snapshot, &sender, true), true));
    }
    for authority in txs.iter().flat_map(|tx| authorities(tx)) {
        if let Some((forecast, _)) = forecasts.get_mut(&authority) {
            forecast.is_sure = false;
        }
    }
    let mut may = Vec::with_capacity(wanted.len());
    let mut wanted = wanted.iter().peekable();
    for (index, tx) in txs.iter().enumerate() {
        let runs = forecasts.get_mut(&tx.caller).is_some_and(|(forecast, is_first)| {
            let is_sure = forecast.follow(tx);
            core::mem::take(is_first) || is_sure
        });
        if wanted.next_if_eq(&&index).is_some() {
            may.push(runs);
        }
    }
    may
}
