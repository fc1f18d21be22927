//! Question: what does a program on alloy and revm change to execute a block on all threads, without the engine?
//!
//! The program has signed transactions, a `DatabaseRef`, and the block's access list (EIP-7928), as a validator gets it. Before, it recovers
//! one signer after the other and executes one transaction after the other. The time before and after is printed.
//!
//! Run it: `cargo run --release -p phalanx-parascheduler --features eip7928 --example listed`

use alloy_consensus::{
    SignableTransaction as _, Signed, TxEip1559,
    crypto::secp256k1::{recover_signer, sign_message},
};
use phalanx_parascheduler::{
    Listed, ListedError, Protocol, TxIndex, Workers,
    eip7928::{
        AccountChanges, BalanceChange, BlockAccessIndex, BlockAccessList, NonceChange, SlotChanges, StorageChange,
    },
};
use phalanx_recovery::alloy::recover_signers;
use rayon::prelude::*;
use revm::{
    Context, DatabaseCommit as _, DatabaseRef as _, ExecuteEvm as _, MainBuilder as _, MainContext as _,
    context::{
        BlockEnv, ContextTr as _, TxEnv,
        result::{EVMError, ExecutionResult},
    },
    database::{CacheDB, EmptyDB},
    database_interface::WrapDatabaseRef,
    primitives::{Address, B256, TxKind, U256, hex, keccak256},
    state::{AccountInfo, Bytecode, EvmState},
};
use std::{collections::BTreeMap, error::Error, thread, time::Instant};

const TXS: u64 = 4_000;

type Tx = Signed<TxEip1559>;
type Database = CacheDB<EmptyDB>;

/// Hashes 200 times, and then counts in its slot 0.
const COUNTER: [u8; 29] = hex!("60c85b6020600020600052600190038060025760005460010160005500");

fn main() -> Result<(), Box<dyn Error>> {
    let workers = Workers::new(thread::available_parallelism()?.get())?;
    println!("{TXS} transactions, {} threads", workers.threads());
    compare("transfers", &workers, None)?;
    compare("calls that count in one slot", &workers, Some(Address::repeat_byte(0xc0)))
}

/// Runs a block before and after the change: transfers to many accounts, or calls of a contract.
fn compare(what: &str, workers: &Workers, contract: Option<Address>) -> Result<(), Box<dyn Error>> {
    let (txs, database) = world(contract)?;
    let block = BlockEnv { basefee: 7, gas_limit: 100_000 * TXS, ..BlockEnv::default() };
    let (mut before, mut after) = (database.clone(), database.clone());

    let start = Instant::now();
    let mut envs = Vec::new();
    for tx in &txs {
        envs.push(env(tx, recover_signer(tx.signature(), tx.signature_hash())?));
    }
    let loop_recovered = start.elapsed();
    let receipts = run_loop(&mut before, &block, &envs, |_, _| ())?;
    let loop_took = start.elapsed();
    let list = list(database.clone(), &block, &envs)?;

    let start = Instant::now();
    // [after]
    let recover = |txs: &[Tx]| recover_signers(txs.iter().map(|tx| (tx.signature(), tx.signature_hash())));
    let signers = workers.install(|| txs.par_chunks(128).flat_map_iter(recover).collect::<Result<Vec<_>, _>>())?;
    let recovered = start.elapsed();
    let listed = Listed::new(&list, txs.len())?;
    let outputs = workers.run_listed(
        &listed,
        &Protocol::default(),
        &database,
        |state| Context::mainnet().with_db(WrapDatabaseRef(state)).with_block(block.clone()).build_mainnet(),
        |evm, tx, state| {
            *evm.ctx.db_mut() = WrapDatabaseRef(state);
            let done = evm.transact(env(&txs[tx.index()], signers[tx.index()]))?;
            Ok::<_, EVMError<_>>((done.result, done.state))
        },
    )?;
    after.commit(listed.changes(&database)?);
    // [/after]
    let took = start.elapsed();
    println!("{what}: {loop_took:.1?} before, of which {loop_recovered:.1?} for signers");
    println!("{what}: {took:.1?} after, of which {recovered:.1?} for signers");

    assert_eq!(outputs, receipts);
    for address in list.iter().map(|account| account.address) {
        assert_eq!(after.basic_ref(address)?, before.basic_ref(address)?);
        assert_eq!(after.storage_ref(address, U256::ZERO)?, before.storage_ref(address, U256::ZERO)?);
    }

    // A list that lies is refused, with the lowest transaction at which it does.
    let mut lie = list;
    let lies = lie.iter_mut().flat_map(|account| &mut account.nonce_changes);
    lies.for_each(|change| change.new_nonce += u64::from(change.block_access_index.get() > 2_000));
    let listed = Listed::new(&lie, txs.len())?;
    let run = workers.run_listed(
        &listed,
        &Protocol::default(),
        &database,
        |_| (),
        |(), tx, state| {
            let context = Context::mainnet().with_db(WrapDatabaseRef(state)).with_block(block.clone());
            context.build_mainnet().transact(env(&txs[tx.index()], signers[tx.index()])).map(|done| ((), done.state))
        },
    );
    match run {
        Err(refusal @ ListedError::Departs { tx: TxIndex(2_000), .. }) => println!("{what}: refused, as {refusal}"),
        other => return Err(format!("a lie was not refused: {other:?}").into()),
    }
    Ok(())
}

/// The block's transactions, each of a sender of its own, and the state before it.
fn world(contract: Option<Address>) -> Result<(Vec<Tx>, Database), Box<dyn Error>> {
    let (mut txs, mut database) = (Vec::new(), CacheDB::new(EmptyDB::new()));
    if let Some(contract) = contract {
        let code = Bytecode::new_raw(COUNTER.into());
        database.insert_account_info(contract, AccountInfo { nonce: 1, ..AccountInfo::from_bytecode(code) });
    }
    for number in 1..=TXS {
        let receiver = contract.unwrap_or_else(|| Address::from_word(keccak256(number.to_be_bytes())));
        let tx = TxEip1559 {
            chain_id: 1,
            gas_limit: 100_000,
            max_fee_per_gas: 1_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(receiver),
            value: U256::from(number),
            ..TxEip1559::default()
        };
        let hash = tx.signature_hash();
        let signed = tx.into_signed(sign_message(B256::from(U256::from(number)), hash)?);
        let rich = AccountInfo::from_balance(U256::from(10).pow(U256::from(18)));
        database.insert_account_info(recover_signer(signed.signature(), hash)?, rich);
        txs.push(signed);
    }
    Ok((txs, database))
}

fn env(tx: &Tx, caller: Address) -> TxEnv {
    let TxEip1559 { nonce, gas_limit, max_fee_per_gas, max_priority_fee_per_gas, to, value, chain_id, .. } = *tx.tx();
    TxEnv {
        tx_type: 2,
        caller,
        nonce,
        gas_limit,
        gas_price: max_fee_per_gas,
        gas_priority_fee: Some(max_priority_fee_per_gas),
        kind: to,
        value,
        chain_id: Some(chain_id),
        ..TxEnv::default()
    }
}

/// Executes one transaction after the other.
fn run_loop(
    database: &mut Database,
    block: &BlockEnv,
    txs: &[TxEnv],
    mut see: impl FnMut(BlockAccessIndex, &EvmState),
) -> Result<Vec<ExecutionResult>, Box<dyn Error>> {
    let mut evm = Context::mainnet().with_db(database).with_block(block.clone()).build_mainnet();
    let (mut receipts, mut index) = (Vec::new(), BlockAccessIndex::PRE_EXECUTION);
    for tx in txs {
        let done = evm.transact(tx.clone())?;
        index.increment();
        see(index, &done.state);
        evm.ctx.db_mut().commit(done.state);
        receipts.push(done.result);
    }
    Ok(receipts)
}

/// The block's access list, as its builder makes it. No transaction changes code, nor more than slot 0.
fn list(mut database: Database, block: &BlockEnv, txs: &[TxEnv]) -> Result<BlockAccessList, Box<dyn Error>> {
    let mut list = BTreeMap::new();
    run_loop(&mut database, block, txs, |index, state| {
        for (address, account) in state {
            let changes = list.entry(*address).or_insert_with(|| AccountChanges::new(*address));
            let (before, after) = (account.original_info(), &account.info);
            if before.balance != after.balance {
                changes.balance_changes.push(BalanceChange::new(index, after.balance));
            }
            if before.nonce != after.nonce {
                changes.nonce_changes.push(NonceChange::new(index, after.nonce));
            }
            for (slot, value) in account.storage.iter().filter(|(_, value)| value.is_changed()) {
                if changes.storage_changes.is_empty() {
                    changes.storage_changes.push(SlotChanges::new(*slot, Vec::new()));
                }
                changes.storage_changes[0].changes.push(StorageChange::new(index, value.present_value));
            }
        }
    })?;
    Ok(list.into_values().collect())
}
