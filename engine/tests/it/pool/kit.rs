//! A state in a map, and transactions for it.

use phalanx::{
    RecoveredTx,
    pool::{Account, Accounts, Admission, Fees, Pool, PoolConfig, PooledTx, Refusal, Removed, Tip},
    revm::{
        context::{TxEnv, either::Either},
        context_interface::transaction::{
            Authorization, RecoveredAuthority, RecoveredAuthorization, SignedAuthorization,
        },
        primitives::{Address, B256, U256, keccak256},
    },
};
use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

/// Accounts; an absent one is rich and new.
#[derive(Clone, Debug, Default)]
pub(super) struct World(pub(super) BTreeMap<Address, Account>);

pub(super) const RICH: Account =
    Account { nonce: 0, balance: U256::from_limbs([0, 0, 1, 0]), is_contract: false, is_delegated: false };

impl World {
    pub(super) fn get(&self, address: Address) -> Account {
        self.0.get(&address).copied().unwrap_or(RICH)
    }

    pub(super) fn set_nonce(&mut self, address: Address, nonce: u64) {
        let account = Account { nonce, ..self.get(address) };
        self.0.insert(address, account);
    }
}

impl Accounts for World {
    type Error = Infallible;

    fn account(&self, address: &Address) -> Result<Account, Infallible> {
        Ok(self.get(*address))
    }
}

pub(super) const fn who(number: u8) -> Address {
    Address::with_last_byte(number)
}

/// A transfer of zero; its whole price is the priority fee.
pub(super) fn tx(from: u8, nonce: u64, price: u128) -> TxEnv {
    TxEnv { caller: who(from), nonce, gas_price: price, gas_limit: 21_000, ..Default::default() }
}

/// An authorization of account `from`.
pub(super) const fn authorization(from: u8) -> Either<SignedAuthorization, RecoveredAuthorization> {
    let authorization = Authorization { chain_id: U256::ONE, address: who(200), nonce: 0 };
    Either::Right(RecoveredAuthorization::new_unchecked(authorization, RecoveredAuthority::Valid(who(from))))
}

/// Recovers a transaction with a hash of its own.
pub(super) fn recovered(tx: &TxEnv) -> Arc<RecoveredTx> {
    Arc::new(RecoveredTx::unsigned(hash(tx), tx.clone()))
}

pub(super) fn hash(tx: &TxEnv) -> B256 {
    keccak256(format!("{tx:?}"))
}

pub(super) fn tip(now: u64, base: u128, changed: impl IntoIterator<Item = Address>) -> Tip {
    Tip { now, fees: Fees { base, blob: 1 }, changed: changed.into_iter().collect() }
}

pub(super) fn small(txs: usize, future: usize) -> PoolConfig {
    let mut config = PoolConfig::default();
    (config.max_ready.txs, config.max_future.txs) = (txs, future);
    config
}

pub(super) fn add(pool: &mut Pool, world: &World, tx: TxEnv) -> Result<(Arc<PooledTx>, Vec<Removed>), Refusal> {
    match pool.add(recovered(&tx), world) {
        Ok(Admission::Admitted { tx, removed, .. }) => Ok((tx, removed)),
        Ok(Admission::Refused(refusal)) => Err(refusal),
        Err(never) => match never {},
    }
}

/// Sender and nonce of each transaction that would be handed out, in order.
pub(super) fn order(pool: &Pool) -> Vec<(u8, u64)> {
    pool.ready().map(|tx| (tx.tx().caller.0[19], tx.tx().nonce)).collect()
}
