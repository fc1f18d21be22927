//! A chain of one node: genesis, blocks, a durable store, a restart, and a proof for a client.
//!
//! `docs/tutorial/one-node-chain.md` quotes the regions between `[name]` and `[/name]`; a test keeps both equal.
//!
//! Run it: `cargo run --release -p phalanx --example one_node_chain -- DIR`

// [use]
use phalanx::{
    BlockLimits, Engine, GenesisAccount, Order, Service, ServiceConfig,
    api::{ExecutionEngine as _, ProofQuery, Prove as _},
    merkle::{Backend, Durability, Params, StoreConfig},
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{Address, TxKind, U256},
    },
    verify_account,
};
use std::{error::Error, path::Path};

const ALICE: Address = Address::repeat_byte(0xa1);
const BOB: Address = Address::repeat_byte(0xb0);
// [/use]

// [open]
/// Opens the chain in `folder`, or begins it there.
fn open(folder: &Path) -> Result<Engine, phalanx::Error> {
    // A block survives a power cut once its handle says so.
    let store = StoreConfig::new(Backend::File(folder.into())).with_durability(Durability::Block);
    let mut engine = Engine::builder().with_threads(2).with_store(store).build()?;
    if engine.state().height().is_none() {
        let balance = U256::from(1_000_000_000);
        let root = engine.genesis([GenesisAccount { address: ALICE, balance, ..Default::default() }])?;
        println!("genesis: {root}");
    }
    Ok(engine)
}
// [/open]

// [payments]
/// Payments of one wei each, with nonces from `first` on.
fn payments(first: u64, count: u64) -> Vec<TxEnv> {
    let pay = |nonce| TxEnv {
        caller: ALICE,
        nonce,
        kind: TxKind::Call(BOB),
        value: U256::from(1),
        gas_limit: 21_000,
        ..Default::default()
    };
    (first..first + count).map(pay).collect()
}
// [/payments]

// [blocks]
/// Orders `txs`, cuts them into blocks of at most ten, and commits block after block.
fn produce(engine: &mut Engine, txs: &[TxEnv]) -> Result<(), phalanx::Error> {
    let limits = BlockLimits { max_txs: 10, max_gas: 36_000_000 };
    let mut planner = engine.plan(txs, Order::Free, limits);
    loop {
        let height = engine.state().height().expect("a genesis") + 1;
        let env = BlockEnv { number: U256::from(height), timestamp: U256::from(12 * height), ..Default::default() };
        let Some(block) = planner.next_block(engine, &env) else { return Ok(()) };
        // [steps]
        let executed = engine.execute(&env, txs, block)?; // on all threads; the state is untouched
        let merkleized = engine.merkleize(executed)?; // the root is known
        let committed = engine.commit(merkleized)?; // the state in memory has moved on
        planner.requeue_escaped(committed.block.left()); // escaped transactions open the next block
        committed.write.wait()?; // written, to what the store promises
        // [/steps]
        println!("block {height}: {} transactions, root {}", committed.block.order().len(), committed.state_root);
    }
}
// [/blocks]

// [prove]
/// Proves Bob's balance to a client that knows the root and nothing else.
fn prove(engine: Engine) -> Result<U256, Box<dyn Error>> {
    let service = Service::open(engine, ServiceConfig::default())?;
    let root = service.status().committed.state_root; // the client has it from consensus
    let proof = service.prove(ProofQuery::Account(BOB))?;
    println!("proof: {} bytes", proof.bytes.len());
    // The client's side needs no engine and no store.
    let account = verify_account(&Params::default(), root, BOB, &proof.bytes)?.ok_or("there is no such account")?;
    Ok(account.balance)
}
// [/prove]

// [main]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "one-node-chain".into());
    let mut engine = open(folder.as_ref())?;
    let nonce = engine.state().account(&ALICE)?.ok_or("genesis has paid Alice")?.nonce;
    produce(&mut engine, &payments(nonce, 25))?;

    let root = engine.state().root();
    drop(engine); // the node stops
    let engine = open(folder.as_ref())?; // and starts again
    assert_eq!(engine.state().root(), root);

    println!("Bob has {} wei", prove(engine)?);
    Ok(())
}
// [/main]
