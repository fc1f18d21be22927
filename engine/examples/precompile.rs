//! A precompiled contract of the chain's own: it counts the calls of each caller in storage.
//!
//! `docs/how-to/add-a-precompile.md` quotes the regions between `[name]` and `[/name]`.
//!
//! Run it: `cargo run --release -p phalanx --example precompile`

use phalanx::{
    BlockLimits, Engine, GenesisAccount, Order,
    access::Access,
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused, StateKey},
    revm::{
        context::{BlockEnv, TxEnv},
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, TxKind, U256},
    },
};
use std::{error::Error, sync::Arc};

/// Above 2^16, below which Ethereum's precompiles are.
const COUNTER: Address = Address::repeat_byte(0xc0);
const CALLERS: u8 = 4;

// [precompile]
/// Counts the calls of each caller, in the slot of the caller's address.
#[derive(Debug)]
struct Counter;

/// Slot of a caller's count.
fn slot(caller: Address) -> U256 {
    caller.into_word().into()
}

impl Precompile for Counter {
    fn address(&self) -> Address {
        COUNTER
    }

    fn call(&self, call: &PrecompileCall<'_>, state: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        if call.is_static || call.target != COUNTER || call.gas_limit < 5_000 {
            return Ok(PrecompileOutput::revert(0, Bytes::new(), call.reservoir));
        }
        let count = state.storage(COUNTER, slot(call.caller))? + U256::ONE;
        state.set_storage(COUNTER, slot(call.caller), count)?;
        Ok(PrecompileOutput::new(5_000, count.to_be_bytes_vec().into(), call.reservoir))
    }

    fn accesses(&self, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        Some(vec![(StateKey::Slot(COUNTER, slot(tx.caller)), Access::Write)])
    }
}
// [/precompile]

// [engine]
/// An engine whose chain has the precompile.
fn engine() -> Result<Engine, phalanx::Error> {
    let mut engine = Engine::builder().with_threads(2).with_precompile(Arc::new(Counter)).build()?;
    let caller = |byte| GenesisAccount {
        address: Address::repeat_byte(byte),
        balance: U256::from(1_000_000_000),
        ..Default::default()
    };
    // The precompile needs no account: one is made with its first word of storage.
    engine.genesis((1..=CALLERS).map(caller))?;
    Ok(engine)
}
// [/engine]

fn main() -> Result<(), Box<dyn Error>> {
    let mut engine = engine()?;
    // [block]
    let call = |caller: u8, nonce| TxEnv {
        caller: Address::repeat_byte(caller),
        nonce,
        kind: TxKind::Call(COUNTER),
        gas_limit: 50_000,
        ..Default::default()
    };
    let txs: Vec<TxEnv> = (0..3).flat_map(|nonce| (1..=CALLERS).map(move |caller| call(caller, nonce))).collect();
    let mut planner = engine.plan(&txs, Order::Free, BlockLimits { max_txs: 100, max_gas: 30_000_000 });
    let env = BlockEnv { number: U256::ONE, ..Default::default() };
    let block = planner.next_block(&engine, &env).ok_or("a block")?;
    let executed = engine.execute(&env, &txs, block)?;
    assert!(executed.block().left().is_empty()); // no call escaped: the declared accesses are true
    let merkleized = engine.merkleize(executed)?;
    engine.commit(merkleized)?.write.wait()?;
    for caller in 1..=CALLERS {
        assert_eq!(engine.state().storage(&COUNTER, &slot(Address::repeat_byte(caller)))?, U256::from(3));
    }
    // [/block]
    println!("{CALLERS} callers counted three calls each");
    Ok(())
}
