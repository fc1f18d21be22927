//! Transfers, signed before anything is timed, and the chain that they are for.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use clap::ValueEnum;
use phalanx::{
    RootKind,
    alloy::genesis::{Genesis, GenesisAccount},
    recover,
    revm::{context::TxEnv, primitives::TxKind},
};
use phalanx_node::{DEV_CHAIN, dev_genesis, set_root};
use phalanx_workloads::{Native, PhalanxToken, TransferLoad, Workload as _};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Gas of a transfer of ether.
const TRANSFER_GAS: u64 = 21_000;

/// Gas limit of a transfer of tokens to an account that has none: it uses some 51,600.
const TOKEN_GAS: u64 = 55_000;

/// Tokens of a payer: more than transfers.
const TOKENS: U256 = U256::from_limbs([0, 1, 0, 0]);

/// Transfers of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Transfers of ether.
    Native,
    /// Transfers of a token.
    Erc20,
    /// Transfers of ether and of the token, in turns.
    Mixed,
}

impl Kind {
    /// True if the transfer at a place is of a token.
    const fn is_token(self, place: u64) -> bool {
        match self {
            Self::Native => false,
            Self::Erc20 => true,
            Self::Mixed => !place.is_multiple_of(2),
        }
    }

    /// Maximum number of transfers whose blocks, as full as they can be, leave the base fee below the transfers' price.
    pub(super) const fn most_txs(self, gas_limit: u64) -> u64 {
        (gas_limit / self.most_gas()).saturating_mul(FULL_BLOCKS)
    }

    /// Maximum gas of a transfer.
    const fn most_gas(self) -> u64 {
        match self {
            Self::Native => TRANSFER_GAS,
            Self::Erc20 | Self::Mixed => TOKEN_GAS,
        }
    }
}

/// Maximum price of a unit of gas, in wei: the highest base fee that a header can hold.
const MAX_FEE: u128 = u64::MAX as u128;

/// Number of full blocks that raise the base fee from the first block's 10^9 wei to no more than [`MAX_FEE`]: each by an eighth.
pub(super) const FULL_BLOCKS: u64 = 200;

/// Maximum number of signatures that the recovery alone is timed with.
const RECOVERED: usize = 4_096;

/// Signed transfers in the order in which an account's nonces must come.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) genesis: Genesis,
    pub(super) payers: Vec<Address>,
    /// Transaction `i` is of payer `i % payers`.
    pub(super) txs: Vec<Bytes>,
    /// Hashes of the transactions.
    pub(super) hashes: Vec<B256>,
}

/// Time of the recovery of signatures on one thread, one by one, with nothing beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovered {
    pub(super) count: usize,
    pub(super) took: Duration,
}

impl Load {
    /// Signs transfers on all cores.
    pub(super) fn new(kind: Kind, txs: u64, payers: u64, gas_limit: u64, root: RootKind) -> anyhow::Result<Self> {
        // A load has two accounts at least.
        let settings = TransferLoad {
            accounts: payers.max(2),
            txs: 1,
            signatures: true,
            chain_id: DEV_CHAIN,
            ..TransferLoad::default()
        };
        let native = Native::new(settings)?;
        let accounts = native.accounts();
        let payers: Vec<Address> = accounts.addresses().take(usize::try_from(payers)?).collect();
        let transfer = |place: u64| {
            let (one, to) = (U256::from(1), Address::from_word(keccak256(place.to_be_bytes())));
            let (gas_limit, to, value, data) = match kind.is_token(place) {
                true => (TOKEN_GAS, PhalanxToken::ADDRESS, U256::ZERO, PhalanxToken::transfer(to, one).into()),
                false => (TRANSFER_GAS, to, one, Bytes::new()),
            };
            TxEnv {
                tx_type: 2,
                caller: payers[(place % payers.len() as u64) as usize],
                nonce: place / payers.len() as u64,
                gas_limit,
                gas_price: MAX_FEE,
                gas_priority_fee: Some(1),
                kind: TxKind::Call(to),
                value,
                data,
                chain_id: Some(DEV_CHAIN),
                ..TxEnv::default()
            }
        };
        let txs = accounts.sign(&(0..txs).map(transfer).collect::<Vec<_>>())?;
        let hashes = txs.iter().map(keccak256).collect();
        let mut genesis = dev_genesis(DEV_CHAIN, &[], U256::ZERO);
        genesis.gas_limit = gas_limit;
        set_root(&mut genesis, root);
        // For all transfers of one payer at the maximum price.
        let balance = U256::from(10).pow(U256::from(40));
        genesis.alloc.extend(payers.iter().map(|payer| (*payer, GenesisAccount::default().with_balance(balance))));
        let supply = TOKENS * U256::from(payers.len());
        let held = payers.iter().map(|payer| (PhalanxToken::balance_slot(*payer), TOKENS));
        let slots =
            PhalanxToken::metadata(supply).into_iter().chain(held).map(|(slot, value)| (slot.into(), value.into()));
        let token = GenesisAccount::default().with_nonce(Some(1)).with_code(Some(PhalanxToken::runtime()));
        genesis.alloc.insert(PhalanxToken::ADDRESS, token.with_storage(Some(slots.collect())));
        Ok(Self { genesis, payers, txs, hashes })
    }

    /// Places of the transactions of one writer of many, in order: all of some payers, of which the first `without` have no part.
    pub(super) fn of_writer(&self, writer: usize, writers: usize, without: usize) -> Vec<usize> {
        let payer = |place: &usize| place % self.payers.len();
        (0..self.txs.len()).filter(|place| payer(place) >= without && payer(place) % writers == writer).collect()
    }

    /// Places of the transactions of the first payer, in order.
    pub(super) fn of_first(&self) -> Vec<usize> {
        (0..self.txs.len()).step_by(self.payers.len()).collect()
    }

    /// Hashes of the transactions at these places.
    pub(super) fn hashes_of(&self, places: &[usize]) -> Vec<B256> {
        places.iter().map(|place| self.hashes[*place]).collect()
    }

    /// Recovers signatures.
    pub(super) fn recover(&self) -> anyhow::Result<Recovered> {
        let txs = &self.txs[..self.txs.len().min(RECOVERED)];
        let begun = Instant::now();
        for tx in txs {
            recover(tx)?;
        }
        Ok(Recovered { count: txs.len(), took: begun.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_blocks_leave_the_base_fee_below_the_price() {
        let load = Load::new(Kind::Native, 1, 1, 30_000_000, RootKind::Twigs).expect("a load");
        let first = load.genesis.base_fee_per_gas.expect("a fee");
        let last = (0..FULL_BLOCKS).fold(first, |fee, _| fee + (fee / 8).max(1));
        assert!(last < MAX_FEE && last + last / 8 > MAX_FEE, "{last}");
        assert_eq!(Kind::Native.most_txs(420_000_000), 4_000_000);
        assert_eq!(Kind::Native.most_txs(20_999), 0, "no transfer fits");
        // What a payer of the most transfers may have to pay is there.
        let needed = U256::from(MAX_FEE) * U256::from(TRANSFER_GAS) * U256::from(Kind::Native.most_txs(420_000_000));
        assert!(load.genesis.alloc[&load.payers[0]].balance > needed);
    }

    #[test]
    fn writers_share_the_transactions_and_keep_the_order_of_nonces() {
        let load = Load::new(Kind::Mixed, 50, 7, 30_000_000, RootKind::Twigs).expect("a load");
        let shares: Vec<_> = (0..3).map(|writer| load.of_writer(writer, 3, 0)).collect();
        let sorted = |mut all: Vec<usize>| {
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(shares.concat()), (0..50).collect::<Vec<_>>());
        let without = (0..3).flat_map(|writer| load.of_writer(writer, 3, 1)).chain(load.of_first());
        assert_eq!(sorted(without.collect()), (0..50).collect::<Vec<_>>());
        let payer = |place: &usize| place % 7;
        assert!(shares[0].iter().all(|place| !shares[1].iter().any(|other| payer(other) == payer(place))));
        assert!(shares.iter().all(|share| share.is_sorted()));
        assert_eq!(load.recover().expect("signed").count, 50);
        // More writers than payers: some have nothing to do.
        assert!(load.of_writer(8, 9, 0).is_empty());
    }
}
