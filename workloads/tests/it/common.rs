//! Stock sequential revm, the oracle of every workload.

use phalanx_workloads::{AccountState, Fees, Genesis, HotSide, ReadError, StateReader, TransferLoad, Workload};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use revm::{
    Context, DatabaseRef, ExecuteCommitEvm, MainBuilder, MainContext,
    context::{BlockEnv, TxEnv, result::ExecutionResult},
    database::{CacheDB, EmptyDB},
    primitives::{Address, U256, hardfork::SpecId},
    state::{AccountInfo, Bytecode},
};
use std::collections::HashMap;

pub(crate) type Db = CacheDB<EmptyDB>;

/// Loads a genesis into revm's own database.
pub(crate) fn database(genesis: Genesis) -> Db {
    let mut db = Db::default();
    for account in genesis.accounts {
        let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..Default::default() };
        if let Some(code) = account.code {
            info = info.with_code(Bytecode::new_raw(code));
        }
        db.insert_account_info(account.address, info);
        for (slot, value) in account.storage {
            db.insert_account_storage(account.address, slot, value).expect("an empty database cannot fail");
        }
    }
    db
}

/// Runs `txs` in order as block 1. Panics on a transaction that revm calls invalid.
pub(crate) fn execute(db: &mut Db, block: BlockEnv, spec: SpecId, txs: &[TxEnv]) -> Vec<ExecutionResult> {
    let mut evm = Context::mainnet()
        .with_db(db)
        .modify_cfg_chained(|cfg| {
            cfg.set_spec_and_mainnet_gas_params(spec);
            if let Some(tx) = txs.first() {
                cfg.chain_id = tx.chain_id.expect("every load has a chain id");
            }
        })
        .with_block(block)
        .build_mainnet();
    let run = |tx: &TxEnv| evm.transact_commit(tx.clone()).unwrap_or_else(|error| panic!("{error} in {tx:?}"));
    txs.iter().map(run).collect()
}

/// Runs the whole stream (in the given order, if any), asserts that every transaction ends as it is built to, and
/// returns the state and the gas.
pub(crate) fn run(workload: &dyn Workload, spec: SpecId, order: Option<Vec<TxEnv>>) -> (Db, u64) {
    let txs = order.unwrap_or_else(|| workload.transactions().collect());
    let mut db = database(workload.genesis());
    let results = execute(&mut db, workload.block_env(1), spec, &txs);
    let mut ledger = workload.ledger();
    for (result, tx) in results.iter().zip(&txs) {
        let noted = if result.is_success() { ledger.record(tx) } else { ledger.record_failed(tx) };
        noted.unwrap_or_else(|error| panic!("{error}: {:?}: {result:?} of {tx:?}", workload.load()));
    }
    (db, results.iter().map(ExecutionResult::tx_gas_used).sum())
}

/// Shuffles the senders uniformly, then takes each sender's next transaction.
pub(crate) fn shuffle_by_sender(txs: Vec<TxEnv>, seed: u64) -> Vec<TxEnv> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut turns: Vec<Address> = txs.iter().map(|tx| tx.caller).collect();
    for last in (1..turns.len()).rev() {
        turns.swap(last, rng.random_range(0..=last));
    }
    let mut queues: HashMap<Address, Vec<TxEnv>> = HashMap::new();
    for tx in txs.into_iter().rev() {
        queues.entry(tx.caller).or_default().push(tx);
    }
    turns.iter().map(|sender| queues.get_mut(sender).and_then(Vec::pop).expect("one turn each")).collect()
}

/// Contention of every shape, among so few accounts that all of them matter.
pub(crate) fn loads() -> Vec<TransferLoad> {
    let mut loads = Vec::new();
    for hot in [HotSide::Sender, HotSide::Receiver, HotSide::Both] {
        for (alpha, gamma) in [(0.0, 1), (0.3, 1), (0.5, 10), (0.99, 3), (1.0, 2)] {
            let seed = loads.len() as u64;
            loads.push(TransferLoad { accounts: 200, txs: 1_500, alpha, gamma, hot, seed, ..Default::default() });
        }
    }
    for exponent in [0.5, 1.0, 4.0] {
        let (zipf, seed) = (Some(exponent), loads.len() as u64);
        loads.push(TransferLoad { accounts: 200, txs: 1_500, zipf, seed, ..Default::default() });
    }
    let fees = Fees { base_fee: 7, priority_fee: 3, max_fee: 10 };
    loads.push(TransferLoad { accounts: 2, txs: 300, fees, chain_id: 31_337, ..Default::default() });
    loads
}

/// Reads a balance from the database.
pub(crate) fn balance(db: &Db, address: Address) -> U256 {
    db.basic_ref(address).expect("a map cannot fail").unwrap_or_default().balance
}

/// A state with one wrong value.
pub(crate) struct Lying<'a> {
    pub(crate) db: &'a Db,
    pub(crate) about: Lie,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    Balance(Address),
    Nonce(Address),
    Slot(Address, U256),
    Failure,
}

impl StateReader for Lying<'_> {
    fn account(&self, address: Address) -> Result<AccountState, ReadError> {
        let mut account = StateReader::account(self.db, address)?;
        match self.about {
            Lie::Balance(victim) if victim == address => account.balance += U256::ONE,
            Lie::Nonce(victim) if victim == address => account.nonce += 1,
            Lie::Failure => return Err("the disk is gone".into()),
            _ => (),
        }
        Ok(account)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let value = StateReader::storage(self.db, address, slot)?;
        Ok(if matches!(self.about, Lie::Slot(at, victim) if (at, victim) == (address, slot)) {
            value - U256::ONE
        } else {
            value
        })
    }
}
