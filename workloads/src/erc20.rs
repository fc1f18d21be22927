//! The workload `erc20`: transfers of one token.

use alloy_primitives::{Bytes, TxKind, U256};
use rayon::prelude::*;
use revm::context::TxEnv;

use crate::{
    accounts::Accounts,
    base::{Base, TOKEN_TRANSFER_GAS, TRANSFER_GAS},
    check::{CheckError, StateReader},
    config::{ConfigError, TransferLoad},
    genesis::{Genesis, GenesisAccount, Wanted},
    ledger::{Ledger, Payment},
    token::PhalanxToken,
    transactions::{Transactions, Transfers},
    workload::Workload,
};

/// Transfers of [`PhalanxToken`]: two balance slots of one contract, the sender's account and the beneficiary (FAFO's
/// "ERC20").
#[derive(Clone, Debug)]
pub struct Erc20 {
    base: Base,
}

impl Erc20 {
    /// Gas limit of a transfer. A transfer uses about 34,450; the margin covers the calldata of any amount and address.
    pub const GAS_LIMIT: u64 = TOKEN_TRANSFER_GAS;

    /// Bytes per account of the load, its genesis, one stream and one ledger together. Beyond 2^22 accounts each takes 24 more
    /// at most: the genesis is made in parts, and stream and ledger hold the accounts that take part.
    pub const BYTES_PER_ACCOUNT: usize = Accounts::BYTES_PER_ACCOUNT
        + Transfers::BYTES_PER_ACCOUNT
        + size_of::<GenesisAccount>()
        + size_of::<(U256, U256)>()
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
        let contract = Some(PhalanxToken::ADDRESS);
        Base::new(load, Self::BYTES_PER_ACCOUNT, Self::GAS_LIMIT, contract, progress).map(|base| Self { base })
    }

    /// Total supply: no transfer mints or burns.
    fn supply(&self) -> U256 {
        U256::from(self.base.tokens) * U256::from(self.base.load.accounts)
    }
}

impl Workload for Erc20 {
    fn name(&self) -> &'static str {
        "erc20"
    }

    fn load(&self) -> &TransferLoad {
        &self.base.load
    }

    fn accounts(&self) -> &Accounts {
        &self.base.accounts
    }

    fn genesis_part(&self, wanted: &Wanted<'_>) -> Genesis {
        let tokens = U256::from(self.base.tokens);
        let mut accounts = self.base.funded(wanted);
        let token = PhalanxToken::ADDRESS;
        let is_wanted = |(slot, _): &(U256, U256)| wanted(&token, Some(slot));
        let mut storage: Vec<_> = PhalanxToken::metadata(self.supply()).into_iter().filter(is_wanted).collect();
        let balances = self.base.accounts.par_addresses().map(|holder| (PhalanxToken::balance_slot(holder), tokens));
        storage.par_extend(balances.filter(is_wanted));
        if wanted(&token, None) || !storage.is_empty() {
            let code = Some(PhalanxToken::runtime());
            accounts.push(GenesisAccount { address: token, nonce: 1, code, storage, ..Default::default() });
        }
        Genesis { accounts }
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::new(&self.base, Self::GAS_LIMIT, |receiver, amount| {
            let data = PhalanxToken::transfer(receiver, U256::from(amount));
            (PhalanxToken::ADDRESS, U256::ZERO, Bytes::copy_from_slice(&data))
        })
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.base, payment)
    }

    fn full_ledger(&self) -> Ledger<'_> {
        Ledger::full(&self.base, payment)
    }

    /// Exact: token balance and nonce of every account of the ledger, the supply, the beneficiary's reward, and, unless the ledger
    /// has a sample, that the senders together paid for `gas_used`. A single sender's fee is bounded, since the gas of a transfer depends on the zero bytes of its
    /// calldata.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        let price = self.base.load.fees.effective();
        let before = U256::from(self.base.funds);
        let mut paid = U256::ZERO;
        for (address, entry) in ledger.entries()? {
            let account = state.account(address).map_err(CheckError::Read)?;
            entry.check_nonce(address, &account)?;

            let cost = |gas: u64| U256::from(u128::from(entry.sent) * u128::from(gas) * price);
            let (least, most) = (before - cost(Self::GAS_LIMIT), before - cost(TRANSFER_GAS));
            if account.balance < least || account.balance > most {
                let found = account.balance;
                return Err(CheckError::BalanceOutside { address, least, most, found });
            }
            paid += before - account.balance;

            let expected = U256::from(self.base.tokens.wrapping_add_signed(entry.change));
            let slot = PhalanxToken::balance_slot(address);
            let found = state.storage(PhalanxToken::ADDRESS, slot).map_err(CheckError::Read)?;
            if found != expected {
                return Err(CheckError::TokenBalance { holder: address, expected, found });
            }
        }
        let expected = U256::from(u128::from(gas_used) * price);
        if ledger.is_whole() && paid != expected {
            return Err(CheckError::FeesPaid { expected, found: paid });
        }
        self.check_contract(state)?;
        ledger.check_reward(&self.base.load, gas_used, state)
    }
}

impl Erc20 {
    /// Checks that the contract holds no ether, created no contract, and kept its supply.
    fn check_contract(&self, state: &dyn StateReader) -> Result<(), CheckError> {
        let address = PhalanxToken::ADDRESS;
        let account = state.account(address).map_err(CheckError::Read)?;
        if !account.balance.is_zero() {
            return Err(CheckError::Balance { address, expected: U256::ZERO, found: account.balance });
        }
        if account.nonce != 1 {
            return Err(CheckError::Nonce { address, expected: 1, found: account.nonce });
        }
        for (slot, expected) in PhalanxToken::metadata(self.supply()) {
            let found = state.storage(address, slot).map_err(CheckError::Read)?;
            if found != expected {
                return Err(CheckError::TokenMetadata { slot, expected, found });
            }
        }
        Ok(())
    }
}

/// Decodes a transaction of this load.
fn payment(tx: &TxEnv) -> Option<Payment> {
    if tx.kind != TxKind::Call(PhalanxToken::ADDRESS) || !tx.value.is_zero() {
        return None;
    }
    let (to, amount) = PhalanxToken::decode_transfer(&tx.data)?;
    Some(Payment { from: tx.caller, to, amount: u64::try_from(amount).ok()? })
}
