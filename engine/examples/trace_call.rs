//! Question: how does a node run a call with a tracer on the state of an older block, while the chain goes on?
//!
//! Run it: `cargo run --release -p phalanx --example trace_call`

use phalanx::{
    Engine, GenesisAccount, Invalid, SnapshotAt,
    revm::{
        Context, InspectEvm as _, Inspector, MainBuilder as _, MainContext as _,
        context::{BlockEnv, TxEnv},
        database::CacheDB,
        interpreter::{Interpreter, interpreter_types::Jumps as _},
        primitives::{Address, Bytes, TxKind, U256},
    },
};
use std::{collections::BTreeMap, error::Error};

const USER: Address = Address::repeat_byte(1);
const COUNTER: Address = Address::repeat_byte(0xcc);

/// Increments slot 0 and returns it.
const CODE: [u8; 14] = [0x5f, 0x54, 0x60, 1, 0x01, 0x80, 0x5f, 0x55, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3];

/// Counts executed instructions.
#[derive(Debug, Default)]
struct Counts(BTreeMap<u8, u32>);

impl<C> Inspector<C> for Counts {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut C) {
        *self.0.entry(interpreter.bytecode.opcode()).or_default() += 1;
    }
}

fn call(nonce: u64) -> TxEnv {
    TxEnv { caller: USER, nonce, kind: TxKind::Call(COUNTER), gas_limit: 100_000, ..Default::default() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut engine = Engine::builder().with_threads(2).build()?;
    let code = Some(Bytes::from_static(&CODE));
    engine.genesis([
        GenesisAccount { address: USER, balance: U256::from(10), ..Default::default() },
        GenesisAccount { address: COUNTER, nonce: 1, code, ..Default::default() },
    ])?;
    for number in 1..=5u64 {
        let env = BlockEnv { number: U256::from(number), gas_limit: 30_000_000, ..Default::default() };
        let executed = engine.execute_given(&env, &[call(number - 1)], Invalid::Refuse)?;
        let merkleized = engine.merkleize(executed)?;
        engine.commit(merkleized)?.write.wait()?;
    }
    // A snapshot does not borrow the engine, so any thread may serve the call.
    for height in [2u64, 5] {
        let state = engine.snapshot(SnapshotAt::Height(height))?;
        let traced = std::thread::spawn(move || {
            let env = BlockEnv { number: U256::from(height + 1), gas_limit: 30_000_000, ..Default::default() };
            let context = Context::mainnet().with_db(CacheDB::new(state)).with_block(env);
            let mut evm = context.build_mainnet_with_inspector(Counts::default());
            let result = evm.inspect_one_tx(call(height)).map_err(|error| error.to_string())?;
            let output = result.output().map(|output| U256::from_be_slice(output));
            Ok::<_, String>((output, evm.inspector.0.values().sum::<u32>()))
        });
        let (output, steps) = traced.join().map_err(|_| "the call panicked")??;
        // The counter counts the block's call and this one.
        assert_eq!(output, Some(U256::from(height + 1)));
        println!("after block {height} the call returns {} in {steps} instructions", height + 1);
    }
    Ok(())
}
