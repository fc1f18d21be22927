//! Question: how does a chain with Ethereum's blocks run, from `genesis.json` to the import of a block by a second node?
//!
//! Signed transactions of types 0, 1, 2 and 4 go through a pool into a built block, whose header is completed and checked.
//!
//! Run it: `cargo run --release -p phalanx --example chain`

use phalanx::{
    Budget, Builder, CandidateTx, Engine, Form, Hints, RecoveredBlock, Recovery, Target, Template,
    alloy::{
        consensus::{
            Header, SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy,
            crypto::secp256k1::{recover_signer_unchecked, sign_message},
        },
        eips::{Encodable2718 as _, eip7702::Authorization},
        genesis::Genesis,
        primitives::{Address, B256, Bytes, Signature, TxKind, U256},
    },
    chain::{Attributes, ChainSpec, transactions_root},
    pool::{Admission, Batch, Fees, Pool, PoolConfig, Settled, Tip},
};
use std::{error::Error, sync::Arc};

const CHAIN: u64 = 4242;
const KEY: B256 = B256::repeat_byte(7);
const BOB: Address = Address::repeat_byte(0xb0);

/// A chain on Cancun from its first block and on Prague from 1,000 s on.
fn genesis(alice: Address) -> Result<Genesis, Box<dyn Error>> {
    use phalanx::alloy::eips::{eip2935, eip4788, eip7002, eip7251};
    let code = |code: &Bytes| serde_json::json!({ "balance": "0x0", "nonce": "0x1", "code": code });
    Ok(serde_json::from_value(serde_json::json!({
        "config": {
            "chainId": CHAIN, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
            "londonBlock": 0, "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 1_000
        },
        "timestamp": "0x3d8", "gasLimit": "0x1c9c380", "difficulty": "0x0", "baseFeePerGas": "0x3b9aca00",
        "alloc": {
            format!("{alice:#x}"): { "balance": "0xde0b6b3a7640000" },
            format!("{:#x}", eip4788::BEACON_ROOTS_ADDRESS): code(&eip4788::BEACON_ROOTS_CODE),
            format!("{:#x}", eip2935::HISTORY_STORAGE_ADDRESS): code(&eip2935::HISTORY_STORAGE_CODE),
            format!("{:#x}", eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS):
                code(&eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
            format!("{:#x}", eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS):
                code(&eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
        }
    }))?)
}

fn sign<T: SignableTransaction<Signature>>(tx: T) -> Result<Signed<T>, Box<dyn Error>> {
    let signature = sign_message(KEY, tx.signature_hash())?;
    Ok(tx.into_signed(signature))
}

/// Alice's transactions of a block, as they come from a network.
fn signed(first: u64, delegates: bool) -> Result<Vec<Bytes>, Box<dyn Error>> {
    let (to, value, gas_limit, price, chain_id) = (TxKind::Call(BOB), U256::from(1), 100_000, 2_000_000_000, CHAIN);
    let legacy =
        TxLegacy { chain_id: Some(CHAIN), nonce: first, gas_price: price, gas_limit, to, value, ..Default::default() };
    let listed = TxEip2930 { chain_id, nonce: first + 1, gas_price: price, gas_limit, to, value, ..Default::default() };
    let tipped = TxEip1559 {
        chain_id,
        nonce: first + 2,
        max_fee_per_gas: price,
        max_priority_fee_per_gas: 3,
        gas_limit,
        to,
        value,
        ..Default::default()
    };
    let mut envelopes =
        vec![TxEnvelope::Legacy(sign(legacy)?), TxEnvelope::Eip2930(sign(listed)?), TxEnvelope::Eip1559(sign(tipped)?)];
    if delegates {
        let other = B256::repeat_byte(9);
        let authorization = Authorization { chain_id: U256::from(CHAIN), address: BOB, nonce: 0 };
        let signature = sign_message(other, authorization.signature_hash())?;
        let tx = TxEip7702 {
            chain_id,
            nonce: first + 3,
            max_fee_per_gas: price,
            gas_limit,
            to: BOB,
            authorization_list: vec![authorization.into_signed(signature)],
            ..Default::default()
        };
        envelopes.push(TxEnvelope::Eip7702(sign(tx)?));
    }
    Ok(envelopes.iter().map(|envelope| envelope.encoded_2718().into()).collect())
}

/// A block as nodes send it.
struct Block {
    header: Header,
    txs: Vec<Bytes>,
}

/// Builds the child of `parent` from the pool and commits it.
fn produce(engine: &mut Engine, pool: &mut Pool, parent: &Header) -> Result<Block, Box<dyn Error>> {
    let attributes = Attributes { timestamp: parent.timestamp + 12, ..Attributes::default() };
    let header = engine.chain().child_header(parent, &attributes)?;
    let template = Template { header, ommers: vec![], withdrawals: Some(vec![]) };
    let mut builder = Builder::new(engine);
    let mut job = builder.open(engine, Target::Whole(Box::new(template)), Budget::default(), [])?;
    let taken = pool.take(&Batch::default());
    job.extend(taken.iter().map(|tx| CandidateTx { tx: Arc::clone(tx) as _, rank: tx.rank() }), &|| false)?;
    let built = job.finish();
    pool.settle(built.txs.iter().map(|candidate| (candidate.rank, Settled::Included)));
    let txs: Vec<Bytes> = built.txs.iter().filter_map(|candidate| candidate.tx.bytes().cloned()).collect();
    let mut header = built.header.ok_or("a whole block has a header")?;
    let merkleized = engine.merkleize(built.executed)?;
    merkleized.outcome().write_to(&mut header);
    header.transactions_root = transactions_root(&txs);
    engine.commit(merkleized)?.write.wait()?;
    Ok(Block { header, txs })
}

/// Checks a block in every way, executes it and commits it.
fn import(engine: &mut Engine, recovery: &Recovery, parent: &Header, block: &Block) -> Result<(), Box<dyn Error>> {
    let (chain, Block { header, txs }) = (engine.chain().clone(), block);
    chain.validate_header(header, parent, None)?;
    if transactions_root(txs) != header.transactions_root {
        return Err("the header commits to other transactions".into());
    }
    let recovery = recovery.clone().with_spec(chain.spec(header));
    let recovered = recovery.recover_batch(engine.workers(), Form::Block, txs);
    let txs =
        recovered.into_iter().map(|tx| Ok(tx?.tx().clone())).collect::<Result<Vec<_>, phalanx::RecoverError>>()?;
    let payload = RecoveredBlock { header, txs: &txs, ommers: &[], withdrawals: Some(&[]) };
    let executed = engine.execute_block(&payload, Hints::Predict)?;
    let merkleized = engine.merkleize(executed)?;
    chain.check_outcome(header, &merkleized.outcome())?;
    engine.commit(merkleized)?.write.wait()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let alice = recover_signer_unchecked(&sign_message(KEY, B256::ZERO)?, B256::ZERO)?;
    let genesis = genesis(alice)?;
    let chain = ChainSpec::from_genesis(&genesis)?;
    let mut producer = Engine::builder().with_chain(chain.clone()).with_threads(2).build()?;
    let mut importer = Engine::builder().with_chain(chain.clone()).with_threads(2).build()?;
    let mut parent = producer.begin(&genesis)?;
    assert_eq!(importer.begin(&genesis)?, parent);
    let (mut pool, mut nonce) = (Pool::new(PoolConfig::default()), 0);
    for number in 1..=4 {
        let time = parent.timestamp + 12;
        let spec = chain.spec_at(number, time, true);
        let recovery = Recovery::new(chain.clone(), spec);
        let fees = Fees { base: parent.base_fee_per_gas.unwrap_or_default().into(), blob: 1 };
        pool.advance(&Tip { now: number, fees, changed: vec![alice] }, producer.state())?;
        let txs = signed(nonce, time >= 1_000)?;
        nonce += txs.len() as u64;
        for tx in txs {
            match pool.add(recovery.recover(Form::Pooled, &tx)?, producer.state())? {
                Admission::Admitted { .. } => {}
                Admission::Refused(why) => return Err(why.into()),
            }
        }
        let block = produce(&mut producer, &mut pool, &parent)?;
        import(&mut importer, &recovery, &parent, &block)?;
        let Header { gas_used, state_root, .. } = block.header;
        println!("block {number} on {spec:?}: {} transactions, {gas_used} gas, {state_root}", block.txs.len());
        parent = block.header;
    }
    let balance = importer.state().account(&BOB)?.ok_or("Bob has been paid")?.balance;
    assert_eq!(producer.state().root(), importer.state().root());
    println!("Bob has {balance} wei on both nodes");
    Ok(())
}
