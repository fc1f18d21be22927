//! Question: how does a node answer `eth_call`, `eth_estimateGas` and `eth_createAccessList`, also with overrides?
//!
//! Run it: `cargo run --release -p phalanx --example simulate`

use alloy_consensus::Header;
use phalanx::{
    Engine, GenesisAccount, SnapshotAt,
    chain::ChainSpec,
    revm::{
        context::TxEnv,
        database::CacheDB,
        primitives::{Address, Bytes, TxKind, U256},
        state::AccountInfo,
    },
    simulate::{SimulateError, Simulator},
};
use std::error::Error;

const USER: Address = Address::repeat_byte(1);
const COUNTER: Address = Address::repeat_byte(0xcc);

/// Increments slot 0 and returns it.
const CODE: [u8; 14] = [0x5f, 0x54, 0x60, 1, 0x01, 0x80, 0x5f, 0x55, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3];

fn main() -> Result<(), Box<dyn Error>> {
    let chain = ChainSpec::named("Cancun")?;
    let mut engine = Engine::builder().with_chain(chain).build()?;
    let code = Some(Bytes::from_static(&CODE));
    engine.genesis([
        GenesisAccount { address: USER, balance: U256::from(10), ..Default::default() },
        GenesisAccount {
            address: COUNTER,
            nonce: 1,
            code,
            storage: vec![(U256::ZERO, U256::from(7))],
            ..Default::default()
        },
    ])?;

    // Rules and environment of the block that the call is to be in, and the state that it is to run on: any snapshot.
    let header =
        Header { number: 1, timestamp: 12, gas_limit: 30_000_000, excess_blob_gas: Some(0), ..Default::default() };
    let (rules, env) = engine.rules_of(&header);
    let state = engine.snapshot(SnapshotAt::Committed)?;
    let simulator = Simulator::new(rules.clone(), env.clone(), state.clone());

    let call = TxEnv { caller: USER, kind: TxKind::Call(COUNTER), ..Default::default() };
    let called = simulator.call(&call)?;
    let output = called.result.output().map(|output| U256::from_be_slice(output));
    assert_eq!(output, Some(U256::from(8)));
    println!("the call returns 8 and uses {} gas", called.result.tx_gas_used());

    let gas_limit = simulator.estimate_gas(&call)?;
    assert!(simulator.call(&TxEnv { gas_limit, ..call.clone() })?.result.is_success());
    println!("with {gas_limit} gas it succeeds");

    let listed = simulator.create_access_list(&call)?;
    let slots: usize = listed.access_list.iter().map(|item| item.storage_keys.len()).sum();
    assert_eq!(slots, 1);
    println!("it touches {slots} slot, and uses {} gas with its access list", listed.gas_used);

    // What is refused has a reason.
    let rich = TxEnv { value: U256::from(11), ..call };
    assert!(matches!(simulator.call(&rich), Err(SimulateError::Invalid(_))));

    // A client's overrides lie in a cache over the state.
    let mut overridden = CacheDB::new(state);
    overridden.insert_account_info(USER, AccountInfo::from_balance(U256::from(11)));
    overridden.insert_account_storage(COUNTER, U256::ZERO, U256::from(41))?;
    let simulator = Simulator::new(rules, env, overridden);
    let output = simulator.call(&rich)?.result.into_output().map(|output| U256::from_be_slice(&output));
    assert_eq!(output, Some(U256::from(42)));
    println!("with overrides it returns 42");
    Ok(())
}
