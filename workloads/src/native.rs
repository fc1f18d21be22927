//! The workload `native`: transfers of ether.

use alloy_primitives::{Bytes, TxKind, U256};
use revm::context::TxEnv;

use crate::{
    accounts::Accounts,
    base::{Base, TRANSFER_GAS},
    check::{CheckError, StateReader},
    config::{ConfigError, TransferLoad},
    genesis::{Genesis, GenesisAccount, Wanted},
    ledger::{Ledger, Payment},
    transactions::{Transactions, Transfers},
    workload::Workload,
};

/// Transfers of ether between accounts without code: two balances, one nonce and the beneficiary (FAFO's "native").
#[derive(Clone, Debug)]
pub struct Native {
    base: Base,
}

impl Native {
    /// Gas of a transfer to an existing account without code, exact in all hard forks from London to Osaka.
    pub const GAS: u64 = TRANSFER_GAS;

    /// Bytes per account of the load, its genesis, one stream and one ledger together. Beyond 2^22 accounts each takes 24 more
    /// at most: the genesis is made in parts, and stream and ledger hold the accounts that take part.
    pub const BYTES_PER_ACCOUNT: usize = Accounts::BYTES_PER_ACCOUNT
        + Transfers::BYTES_PER_ACCOUNT
        + size_of::<GenesisAccount>()
        + Ledger::BYTES_PER_ACCOUNT;

    /// Derives the accounts of a load, in parallel in the current rayon pool.
    ///
    /// # Errors
    /// [`ConfigError`], before any expensive work except for the coinbase.
    pub fn new(load: TransferLoad) -> Result<Self, ConfigError> {
        Self::with_progress(load, &|_| ())
    }

    /// Like [`Self::new`]; with signatures on, `progress` receives the number of derived keys from time to time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_progress(load: TransferLoad, progress: &(dyn Fn(u64) + Sync)) -> Result<Self, ConfigError> {
        Base::new(load, Self::BYTES_PER_ACCOUNT, Self::GAS, None, progress).map(|base| Self { base })
    }
}

impl Workload for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn load(&self) -> &TransferLoad {
        &self.base.load
    }

    fn accounts(&self) -> &Accounts {
        &self.base.accounts
    }

    fn genesis_part(&self, wanted: &Wanted<'_>) -> Genesis {
        Genesis { accounts: self.base.funded(wanted) }
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::new(&self.base, Self::GAS, |receiver, amount| (receiver, U256::from(amount), Bytes::new()))
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.base, payment)
    }

    fn full_ledger(&self) -> Ledger<'_> {
        Ledger::full(&self.base, payment)
    }

    /// Exact: balance and nonce of every account of the ledger, the beneficiary's reward and the total gas.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        let fees = &self.base.load.fees;
        let expected = ledger.transactions().saturating_mul(Self::GAS);
        if gas_used != expected {
            return Err(CheckError::GasUsed { expected, found: gas_used });
        }
        let fee = u128::from(Self::GAS) * fees.effective();
        for (address, entry) in ledger.entries()? {
            // Wraps only for a ledger of another load, which then differs.
            let left = self.base.funds.wrapping_sub(u128::from(entry.sent) * fee);
            let expected = U256::from(left.wrapping_add_signed(entry.change));
            let account = state.account(address).map_err(CheckError::Read)?;
            entry.check_nonce(address, &account)?;
            if account.balance != expected {
                return Err(CheckError::Balance { address, expected, found: account.balance });
            }
        }
        ledger.check_reward(&self.base.load, gas_used, state)
    }
}

/// Decodes a transaction of this load.
fn payment(tx: &TxEnv) -> Option<Payment> {
    let TxKind::Call(to) = tx.kind else { return None };
    Some(Payment { from: tx.caller, to, amount: u64::try_from(tx.value).ok()? })
}
