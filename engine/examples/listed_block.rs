//! Question: what does a program on alloy and revm change to recover signers side by side and to execute on all threads?
//!
//! The program has signed transactions, a `DatabaseRef`, and the block's access list (EIP-7928), as a validator gets it. The time before and
//! after is printed.
//!
//! Run it: `cargo run --release -p phalanx --example listed_block`

use alloy_consensus::{
    Header, SignableTransaction as _, Signed, TxEip1559,
    crypto::secp256k1::{recover_signer, sign_message},
};
use phalanx::{
    BlockError, Engine, Hints, RecoveredBlock,
    chain::ChainSpec,
    eip7928::AccountChanges,
    revm::{
        Context, DatabaseRef as _, ExecuteCommitEvm as _, MainBuilder as _, MainContext as _,
        context::TxEnv,
        database::{CacheDB, EmptyDB},
        primitives::{Address, B256, TxKind, U256, keccak256},
        state::AccountInfo,
    },
};
use phalanx_recovery::alloy::recover_signers;
use std::{error::Error, time::Instant};

const TXS: u64 = 4_000;

type Tx = Signed<TxEip1559>;

/// The block's transactions, and the state before it. Each is a transfer of a sender of its own.
fn world() -> Result<(Vec<Tx>, CacheDB<EmptyDB>), Box<dyn Error>> {
    let (mut txs, mut database) = (Vec::new(), CacheDB::new(EmptyDB::new()));
    for number in 1..=TXS {
        let tx = TxEip1559 {
            chain_id: 1,
            gas_limit: 21_000,
            max_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(Address::from_word(keccak256(number.to_be_bytes()))),
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
    let TxEip1559 { nonce, gas_limit, max_fee_per_gas, to, value, chain_id, .. } = *tx.tx();
    let (chain_id, gas_price) = (Some(chain_id), max_fee_per_gas);
    TxEnv {
        tx_type: 2,
        caller,
        nonce,
        gas_limit,
        gas_price,
        kind: to,
        value,
        chain_id,
        gas_priority_fee: Some(0),
        ..TxEnv::default()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (txs, database) = world()?;
    let header = Header {
        number: 1,
        gas_limit: 21_000 * TXS,
        base_fee_per_gas: Some(7),
        excess_blob_gas: Some(0),
        blob_gas_used: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        ..Default::default()
    };
    let chain = ChainSpec::named("Cancun")?;

    let start = Instant::now();
    let spec = chain.spec(&header);
    let context = Context::mainnet().with_db(CacheDB::new(&database)).with_cfg(chain.cfg(spec, header.timestamp));
    let mut evm = context.with_block(chain.env(&header)).build_mainnet();
    for tx in &txs {
        evm.transact_commit(env(tx, recover_signer(tx.signature(), tx.signature_hash())?))?;
    }
    let before = start.elapsed();

    let list = list(&chain, &header, &txs, &database)?;
    let mut engine = Engine::builder().with_chain(chain).build()?;
    let start = Instant::now();
    // [after]
    let signers = recover_signers(txs.iter().map(|tx| (tx.signature(), tx.signature_hash())));
    let envs =
        txs.iter().zip(signers).map(|(tx, signer)| Ok(env(tx, signer?))).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let block = RecoveredBlock { header: &header, txs: &envs, ommers: &[], withdrawals: Some(&[]) };
    let hints = Hints::AccessList { rlp: &list, hash: keccak256(&list) };
    let executed = engine.execute_on(&database, &block, hints)?; // gas, receipts, and revm's bundle of changes
    // [/after]
    let after = start.elapsed();
    println!("{TXS} transactions: {before:.1?} before, {after:.1?} after");

    let theirs = &evm.ctx.journaled_state.database;
    for (address, account) in &executed.bundle.state {
        let info = account.info.clone().ok_or("no account goes")?;
        let same = theirs.basic_ref(*address)?.ok_or("revm has it")?;
        assert_eq!((info.balance, info.nonce), (same.balance, same.nonce));
    }
    assert_eq!(executed.bundle.state.len(), 2 * TXS as usize);

    // A list that lies makes the block invalid, with the transaction at which it does.
    let mut accounts = Vec::<AccountChanges>::new();
    alloy_rlp::Decodable::decode(&mut &list[..]).map(|list| accounts = list)?;
    let lie = accounts.iter_mut().flat_map(|account| &mut account.balance_changes).next().ok_or("balances change")?;
    lie.post_balance += U256::ONE;
    let lie = alloy_rlp::encode(&accounts);
    match engine.execute_on(&database, &block, Hints::AccessList { rlp: &lie, hash: keccak256(&lie) }) {
        Err(BlockError::AccessList { index, what }) => println!("refused at step {index:?}: {what}"),
        other => return Err(format!("a lie was not refused: {other:?}").into()),
    }
    Ok(())
}

/// The block's access list, as its builder makes it.
fn list(
    chain: &ChainSpec,
    header: &Header,
    txs: &[Tx],
    database: &CacheDB<EmptyDB>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let envs = txs.iter().map(|tx| Ok(env(tx, tx.recover_signer()?))).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let block = RecoveredBlock { header, txs: &envs, ommers: &[], withdrawals: Some(&[]) };
    let mut builder = Engine::builder().with_chain(chain.clone()).with_access_lists(true).build()?;
    let built = builder.execute_on(database, &block, Hints::Predict)?;
    Ok(built.block.access_list().ok_or("lists are on")?.rlp().to_vec())
}
