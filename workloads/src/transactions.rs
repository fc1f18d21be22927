//! The stream of transactions of a load, generated on demand from the seed.

use core::fmt;

use alloy_primitives::{Address, Bytes, TxKind, U256};
use revm::context::{TxEnv, transaction::AccessList};

use crate::{
    base::{Base, MAX_VALUE},
    market::Steps,
    per_account::PerAccount,
    rng::{Rng, mix},
};

/// A transfer, before it is encoded as a transaction. Sides are positions in the sorted address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) nonce: u32,
    pub(crate) value: u64,
}

/// Stream of the transfers of a load. Holds four bytes per account, for the nonces; of a large load, of those that sent.
#[derive(Clone)]
pub(crate) struct Transfers<'a> {
    base: &'a Base,
    rng: Rng,
    nonces: PerAccount<u32>,
    remaining: u64,
}

impl<'a> Transfers<'a> {
    pub(crate) const BYTES_PER_ACCOUNT: usize = PerAccount::<u32>::BYTES;

    pub(crate) fn new(base: &'a Base) -> Self {
        Self {
            base,
            // A stream of its own, apart from that of the addresses.
            rng: Rng::new(mix(base.load.seed, 0x7478)),
            nonces: PerAccount::new(base.accounts.len()),
            remaining: base.load.txs,
        }
    }

    pub(crate) const fn remaining(&self) -> u64 {
        self.remaining
    }
}

impl Iterator for Transfers<'_> {
    type Item = Transfer;

    #[inline]
    fn next(&mut self) -> Option<Transfer> {
        self.remaining = self.remaining.checked_sub(1)?;
        let (from, to) = self.base.skew.draw(&mut self.rng);
        let value = 1 + self.rng.below(MAX_VALUE);
        // A load has at most 2^32 - 1 transactions, so a counter cannot wrap.
        let counter = self.nonces.at(from);
        let nonce = *counter;
        *counter += 1;
        Some(Transfer { from, to, nonce, value })
    }
}

/// Encodes a transfer as a call: target, value and calldata, given the receiver and the amount.
pub(crate) type Call = fn(receiver: Address, amount: u64) -> (Address, U256, Bytes);

/// Transactions of a load, in generation order; created by [`Workload::transactions`](crate::Workload::transactions).
///
/// Only the nonce counters are stored, so a stream of any length is cut into blocks without holding it. Every
/// transaction is an EIP-1559 one; each sender's nonces count up from zero.
#[derive(Clone)]
pub struct Transactions<'a>(Source<'a>);

#[derive(Clone)]
enum Source<'a> {
    /// Transfers that differ only in the pair and the amount.
    Transfers {
        transfers: Transfers<'a>,
        gas_limit: u64,
        call: Call,
    },
    Market(Steps<'a>),
}

impl fmt::Debug for Transactions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

impl<'a> Transactions<'a> {
    pub(crate) fn new(base: &'a Base, gas_limit: u64, call: Call) -> Self {
        Self(Source::Transfers { transfers: Transfers::new(base), gas_limit, call })
    }

    pub(crate) const fn of_market(steps: Steps<'a>) -> Self {
        Self(Source::Market(steps))
    }

    /// Appends the next `count` transactions to `out`, fewer at the end. Returns their number.
    pub fn fill(&mut self, out: &mut Vec<TxEnv>, count: usize) -> usize {
        let before = out.len();
        out.extend(self.take(count));
        out.len() - before
    }

    /// Number of remaining transactions.
    pub const fn remaining(&self) -> u64 {
        match &self.0 {
            Source::Transfers { transfers, .. } => transfers.remaining(),
            Source::Market(steps) => steps.remaining(),
        }
    }
}

#[inline]
fn encode(base: &Base, transfer: Transfer, gas_limit: u64, call: Call) -> TxEnv {
    let Base { load, accounts, .. } = base;
    let address = |position: u32| accounts.address(position as usize);
    let (target, value, data) = call(address(transfer.to), transfer.value);
    TxEnv {
        tx_type: 2,
        caller: address(transfer.from),
        gas_limit,
        gas_price: load.fees.max_fee.into(),
        kind: TxKind::Call(target),
        value,
        data,
        nonce: transfer.nonce.into(),
        chain_id: Some(load.chain_id),
        access_list: AccessList::default(),
        gas_priority_fee: Some(load.fees.priority_fee.into()),
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: Vec::new(),
    }
}

impl Iterator for Transactions<'_> {
    type Item = TxEnv;

    #[inline]
    fn next(&mut self) -> Option<TxEnv> {
        match &mut self.0 {
            Source::Transfers { transfers, gas_limit, call } => {
                let transfer = transfers.next()?;
                Some(encode(transfers.base, transfer, *gas_limit, *call))
            }
            Source::Market(steps) => {
                let step = steps.next()?;
                Some(steps.market().encode(&step))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let exact = usize::try_from(self.remaining()).ok();
        (exact.unwrap_or(usize::MAX), exact)
    }
}
