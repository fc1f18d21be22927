//! Question: how does a chain add a contract of its own that is written in Rust and keeps state?
//!
//! Run it: `cargo run --release -p phalanx --example stateful_precompile`

use phalanx::{
    Engine, Executor, GenesisAccount, Invalid,
    access::Access,
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused, StateKey},
    revm::{
        context::{BlockEnv, TxEnv},
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, TxKind, U256},
    },
};
use std::{error::Error, sync::Arc};

const COUNTERS: Address = Address::repeat_byte(0xc0);

/// Counts the calls of each caller, in the caller's own slot.
#[derive(Debug)]
struct Counters;

fn slot(caller: Address) -> U256 {
    U256::from_be_slice(caller.as_slice())
}

impl Precompile for Counters {
    fn address(&self) -> Address {
        COUNTERS
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        let count = state.storage(COUNTERS, slot(call.caller))? + U256::from(1);
        state.set_storage(COUNTERS, slot(call.caller), count)?;
        Ok(PrecompileOutput::new(1_000, count.to_be_bytes_vec().into(), call.reservoir))
    }

    /// Calls of different callers do not conflict.
    fn accesses(&self, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        Some(vec![(StateKey::Slot(COUNTERS, slot(tx.caller)), Access::Write)])
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let callers: Vec<Address> = (1..=8).map(Address::repeat_byte).collect();
    let calls: Vec<TxEnv> = (0..24)
        .map(|index| TxEnv {
            caller: callers[index % callers.len()],
            nonce: (index / callers.len()) as u64,
            kind: TxKind::Call(COUNTERS),
            data: Bytes::new(),
            gas_limit: 100_000,
            ..Default::default()
        })
        .collect();
    let env = BlockEnv { number: U256::from(1), gas_limit: 30_000_000, ..Default::default() };
    let mut roots = Vec::new();
    for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
        let builder = Engine::builder().with_precompile(Arc::new(Counters)).with_executor(executor).with_threads(2);
        let mut engine = builder.build()?;
        let balance = U256::from(1_000_000);
        engine.genesis(callers.iter().map(|address| GenesisAccount {
            address: *address,
            balance,
            ..Default::default()
        }))?;
        let executed = engine.execute_given(&env, &calls, Invalid::Refuse)?;
        let merkleized = engine.merkleize(executed)?;
        roots.push(merkleized.state_root());
        engine.commit(merkleized)?.write.wait()?;
        let count = engine.state().storage(&COUNTERS, &slot(callers[0]))?;
        println!("{executor:?}: {count} calls of the first caller");
    }
    println!("all executors agree: {}", roots.iter().all(|root| *root == roots[0]));
    Ok(())
}
