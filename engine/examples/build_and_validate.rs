//! A whole block, built on one engine and validated on another, with and without its access list.
//!
//! `docs/how-to/build-blocks.md` and `validate-blocks.md` quote the regions between `[name]` and `[/name]`.
//!
//! Run it: `cargo run --release -p phalanx --example build_and_validate`

use alloy_consensus::Header;
use phalanx::{
    BlockError, Budget, BuildJob, Builder, Built, CandidateTx, Engine, GenesisAccount, Hints, Merkleized,
    RecoveredBlock, Target, Template,
    chain::ChainSpec,
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, TxKind, U256},
    },
};
use std::{
    error::Error,
    time::{Duration, Instant},
};

const SENDERS: u8 = 8;
const GAS_LIMIT: u64 = 30_000_000;

// [engine]
/// An engine of the chain, with its genesis, in memory.
fn engine(chain: &ChainSpec) -> Result<Engine, Box<dyn Error>> {
    let mut engine = Engine::builder().with_chain(chain.clone()).with_threads(2).with_access_lists(true).build()?;
    let balance = U256::from(10).pow(U256::from(18));
    engine.genesis((1..=SENDERS).map(|byte| GenesisAccount {
        address: Address::repeat_byte(byte),
        balance,
        ..Default::default()
    }))?;
    Ok(engine)
}
// [/engine]

fn payment(from: u8, nonce: u64) -> TxEnv {
    TxEnv {
        caller: Address::repeat_byte(from),
        nonce,
        kind: TxKind::Call(Address::repeat_byte(from + 1)),
        value: U256::from(7),
        gas_limit: 21_000,
        gas_price: 1_000_000_000,
        ..Default::default()
    }
}

// [template]
/// Template of the next block: everything that is known before it has transactions.
fn template(parent: &Header) -> Template {
    let header = Header {
        parent_hash: parent.hash_slow(),
        number: parent.number + 1,
        timestamp: parent.timestamp + 12,
        gas_limit: GAS_LIMIT,
        base_fee_per_gas: Some(7),
        beneficiary: Address::repeat_byte(0xbe),
        ..Default::default()
    };
    Template { header, withdrawals: Some(Vec::new()), ..Default::default() }
}
// [/template]

// [build]
/// Builds the best block that the time until `deadline` allows.
fn build(engine: &mut Engine, template: &Template, deadline: Instant) -> Result<Built, BlockError> {
    let mut builder = Builder::new(engine); // a node keeps it: it learns from block to block
    let target = Target::Whole(Box::new(template.clone()));
    let budget = Budget { txs: 10_000, ..Default::default() }; // beside the limits of the block itself
    let mut job: BuildJob<'_> = builder.open(engine, target, budget, [])?;

    let is_over = || Instant::now() >= deadline; // asked before every few transactions, by every worker
    for nonce in 0..3 {
        // A node takes these from its pool. The rank is the order that it wishes for.
        let candidates = (1..=SENDERS).map(|from| CandidateTx::new(payment(from, nonce), u64::from(from)));
        job.extend(candidates, &is_over)?;
        if is_over() {
            break;
        }
    }
    Ok(job.finish())
}
// [/build]

// [validate]
/// Executes a block in its own order and compares the outcome with what its header claims.
fn validate(engine: &mut Engine, block: &RecoveredBlock<'_>, hints: Hints<'_>) -> Result<Merkleized, Box<dyn Error>> {
    let executed = engine.execute_block(block, hints)?; // refused here: the lowest transaction that is not valid
    let header = block.header;
    let merkleized = engine.merkleize(executed)?;
    let info = merkleized.block();
    if info.gas_used() != header.gas_used {
        return Err("the gas used is not the header's".into());
    }
    if info.receipts_root() != Some(header.receipts_root) || info.logs_bloom() != header.logs_bloom {
        return Err("the receipts are not the header's".into());
    }
    if merkleized.state_root() != header.state_root {
        return Err("the state root is not the header's".into());
    }
    Ok(merkleized)
}
// [/validate]

/// A block as it travels.
struct Sent {
    header: Header,
    txs: Vec<TxEnv>,
    access_list: (Bytes, B256),
}

// [seal]
/// Commits a built block on its builder's engine, and gives what the network is sent.
fn commit(engine: &mut Engine, built: Built) -> Result<Sent, Box<dyn Error>> {
    let txs = built.txs.iter().map(|candidate| candidate.tx.env().clone()).collect();
    let mut header = built.header.ok_or("a whole block has a header")?; // gas, bloom and receipts root are filled in
    let committed = {
        let merkleized = engine.merkleize(built.executed)?;
        header.state_root = merkleized.state_root(); // of the kind that the chain reports; by default the twigs'
        engine.commit(merkleized)?
    };
    let list = committed.block.access_list().ok_or("the engine makes access lists")?;
    let access_list = (list.rlp().clone(), list.hash());
    committed.write.wait()?;
    Ok(Sent { header, txs, access_list })
}
// [/seal]

fn main() -> Result<(), Box<dyn Error>> {
    // [chain]
    let chain = ChainSpec::named("Shanghai")?.with_chain_id(1); // or `ChainSpec::from_genesis` of geth's genesis.json
    // [/chain]
    let parent = Header { gas_limit: GAS_LIMIT, base_fee_per_gas: Some(8), ..Default::default() };
    let mut template = template(&parent);
    template.header.withdrawals_root = Some(alloy_consensus::constants::EMPTY_WITHDRAWALS);

    let mut producer = engine(&chain)?;
    let built = build(&mut producer, &template, Instant::now() + Duration::from_millis(200))?;
    println!(
        "built {} transactions, {} dropped, {} waiting",
        built.txs.len(),
        built.dropped.len(),
        built.waiting.len()
    );
    let sent = commit(&mut producer, built)?;

    // [hints]
    chain.validate_header(&sent.header, &parent, None)?; // rules that need no execution; bodies have their own
    let block = RecoveredBlock { header: &sent.header, txs: &sent.txs, ommers: &[], withdrawals: Some(&[]) };
    let (rlp, hash) = &sent.access_list;
    for hints in [Hints::Predict, Hints::None, Hints::AccessList { rlp, hash: *hash }] {
        let mut validator = engine(&chain)?;
        let merkleized = validate(&mut validator, &block, hints)?;
        validator.commit(merkleized)?.write.wait()?;
    }
    // [/hints]

    // [refuse]
    let mut validator = engine(&chain)?;
    let mut txs = sent.txs.clone();
    txs.swap(0, SENDERS.into()); // a sender's second nonce before its first
    let block = RecoveredBlock { txs: &txs, ..block };
    match validator.execute_block(&block, Hints::Predict) {
        Err(BlockError::InvalidTransaction { index, reason }) => println!("refused: transaction {index}: {reason}"),
        other => return Err(format!("a block out of order was not refused: {other:?}").into()),
    }
    // [/refuse]
    Ok(())
}
