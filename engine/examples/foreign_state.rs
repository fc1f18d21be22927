//! Question: how does a client with a database of its own execute blocks in parallel, and get the changes in revm's terms?
//!
//! The database here is revm's `CacheDB`. A client gives its own `DatabaseRef`: a snapshot, a provider, a witness.
//!
//! Run it: `cargo run --release -p phalanx --example foreign_state`

use alloy_consensus::Header;
use phalanx::{
    Engine, Hints, RecoveredBlock,
    chain::ChainSpec,
    revm::{
        DatabaseRef as _,
        context::TxEnv,
        database::{CacheDB, EmptyDB, states::plain_account::StorageSlot},
        primitives::{Address, B256, Bytes, TxKind, U256},
        state::{AccountInfo, Bytecode},
    },
};
use std::error::Error;

const COUNTER: Address = Address::repeat_byte(0xcc);
const SENDERS: u8 = 8;

/// Increments slot 0.
const CODE: [u8; 8] = [0x5f, 0x54, 0x60, 1, 0x01, 0x5f, 0x55, 0x00];

/// The client's state before the block.
fn database() -> CacheDB<EmptyDB> {
    let mut database = CacheDB::new(EmptyDB::new());
    for byte in 1..=SENDERS {
        let info = AccountInfo::from_balance(U256::from(10).pow(U256::from(18)));
        database.insert_account_info(Address::repeat_byte(byte), info);
    }
    let code = Bytecode::new_raw(Bytes::from_static(&CODE));
    database.insert_account_info(COUNTER, AccountInfo { nonce: 1, ..AccountInfo::from_bytecode(code) });
    database
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut database = database();
    // The engine needs no store: it holds rules, threads, and what it learns from block to block.
    let chain = ChainSpec::named("Cancun")?;
    let mut engine = Engine::builder().with_chain(chain).with_threads(2).build()?;
    for number in 1..=3u64 {
        let header = Header {
            number,
            timestamp: 12 * number,
            parent_hash: B256::repeat_byte(number as u8),
            gas_limit: 30_000_000,
            base_fee_per_gas: Some(7),
            excess_blob_gas: Some(0),
            blob_gas_used: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            ..Default::default()
        };
        let txs: Vec<_> = (1..=SENDERS)
            .map(|byte| TxEnv {
                caller: Address::repeat_byte(byte),
                nonce: number - 1,
                kind: TxKind::Call(if byte == 1 { COUNTER } else { Address::repeat_byte(byte - 1) }),
                value: U256::from(byte > 1),
                gas_limit: 60_000,
                gas_price: 1_000_000_000,
                ..Default::default()
            })
            .collect();
        let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals: Some(&[]) };
        let executed = engine.execute_on(&database, &payload, Hints::Predict)?;
        let counter = executed.bundle.account(&COUNTER).ok_or("the counter was called")?;
        let slot = counter.storage.get(&U256::ZERO).ok_or("it counted")?;
        assert_eq!(*slot, StorageSlot::new_changed(U256::from(number - 1), U256::from(number)));
        println!(
            "block {number}: {} gas, {} accounts changed, the counter from {} to {}",
            executed.block.gas_used(),
            executed.bundle.state.len(),
            slot.previous_or_original_value,
            slot.present_value
        );
        // The client hashes and stores the changes by its own rules.
        for (address, account) in executed.bundle.state {
            if let Some(info) = account.info {
                database.insert_account_info(address, info);
            }
            for (slot, value) in account.storage {
                database.insert_account_storage(address, slot, value.present_value)?;
            }
        }
    }
    assert_eq!(database.storage_ref(COUNTER, U256::ZERO)?, U256::from(3));
    Ok(())
}
