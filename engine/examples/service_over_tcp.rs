//! Question: how does a service run behind a consensus? Here a sequencer sends its order over TCP, and a follower applies it.
//!
//! The wire has one message per block: height, time, and the transactions, each after its length.
//!
//! Run it: `cargo run --release -p phalanx --example service_over_tcp`

use phalanx::{
    Engine, GenesisAccount, Service, ServiceConfig,
    alloy::{
        consensus::{
            SignableTransaction as _, TxEip1559, TxEnvelope,
            crypto::secp256k1::{recover_signer_unchecked, sign_message},
        },
        eips::Encodable2718 as _,
        primitives::{Address, B256, Bytes, TxKind, U256},
    },
    api::{
        BlockEnv, BlockId, Candidate, CommitMeta, EngineEvent, ExecutionEngine as _, Failure, Payload, Priority,
        Ticket, TxPolicy,
    },
};
use std::{
    error::Error,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

const CHAIN: u64 = 1;
const KEY: B256 = B256::repeat_byte(7);
const BLOCKS: u64 = 20;

type Failed = Box<dyn Error + Send + Sync>;

fn service() -> Result<Service, Failed> {
    let mut engine = Engine::builder().with_threads(2).build()?;
    let alice = recover_signer_unchecked(&sign_message(KEY, B256::ZERO)?, B256::ZERO)?;
    let balance = U256::from(10).pow(U256::from(18));
    engine.genesis([GenesisAccount { address: alice, balance, ..Default::default() }])?;
    Ok(Service::open(engine, ServiceConfig::default())?)
}

fn payment(nonce: u64) -> Result<Bytes, Failed> {
    let (to, value) = (TxKind::Call(Address::repeat_byte(0xb0)), U256::from(1));
    let tx =
        TxEip1559 { chain_id: CHAIN, nonce, gas_limit: 21_000, max_fee_per_gas: 9, to, value, ..Default::default() };
    let signature = sign_message(KEY, tx.signature_hash())?;
    Ok(TxEnvelope::Eip1559(tx.into_signed(signature)).encoded_2718().into())
}

/// Executes a block that consensus has ordered, and commits it. Returns the state root.
fn apply(service: &Service, height: u64, timestamp_ms: u64, txs: Vec<Bytes>) -> Result<B256, Failed> {
    let env = BlockEnv { height, timestamp_ms, gas_limit: 30_000_000, base_fee: 7, ..BlockEnv::default() };
    let parent = service.status().committed.exec;
    // Transactions are ordered before they are checked, so invalid ones are skipped.
    let block = Candidate::new(CHAIN, parent, env, TxPolicy::SkipInvalid, Payload::new(txs).into());
    let id = block.id();
    service.submit(Ticket(height), block, Priority::Decided)?;
    let outcome = wait(service, |event| match event {
        EngineEvent::Rooted { outcome, .. } => Some(outcome),
        _ => None,
    })?;
    let meta = CommitMeta { block: BlockId(id.0), cursor: height, ..CommitMeta::default() };
    service.commit(Ticket(height), id, meta)?;
    wait(service, |event| matches!(event, EngineEvent::Committed { .. }).then_some(()))?;
    Ok(outcome.state_root)
}

/// Waits for an event. A node has a waker instead: see `Service::set_waker`.
fn wait<T>(service: &Service, pick: impl Fn(EngineEvent) -> Option<T>) -> Result<T, Failure> {
    let mut events = Vec::new();
    loop {
        service.settle();
        service.poll(64, &mut events);
        for event in events.drain(..) {
            match event {
                EngineEvent::Failed { why, .. } => return Err(why),
                event => {
                    if let Some(found) = pick(event) {
                        return Ok(found);
                    }
                }
            }
        }
    }
}

fn send(stream: &mut TcpStream, height: u64, time: u64, txs: &[Bytes]) -> std::io::Result<()> {
    let mut message = Vec::new();
    for number in [height, time, txs.len() as u64] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    for tx in txs {
        message.extend_from_slice(&(tx.len() as u64).to_be_bytes());
        message.extend_from_slice(tx);
    }
    stream.write_all(&message)
}

fn number(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn receive(stream: &mut TcpStream) -> std::io::Result<(u64, u64, Vec<Bytes>)> {
    let (height, time, count) = (number(stream)?, number(stream)?, number(stream)?.min(10_000));
    let mut txs = Vec::new();
    for _ in 0..count {
        let mut tx = vec![0; number(stream)?.min(1 << 20) as usize];
        stream.read_exact(&mut tx)?;
        txs.push(tx.into());
    }
    Ok((height, time, txs))
}

fn main() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let follower = std::thread::spawn(move || -> Result<B256, Failed> {
        let (service, mut stream) = (service()?, TcpStream::connect(address)?);
        let mut root = B256::ZERO;
        for _ in 0..BLOCKS {
            let (height, time, txs) = receive(&mut stream)?;
            root = apply(&service, height, time, txs)?;
        }
        Ok(root)
    });
    let (sequencer, (mut stream, _)) = (service()?, listener.accept()?);
    let mut root = B256::ZERO;
    for height in 1..=BLOCKS {
        let txs = vec![payment(height - 1)?, Bytes::from_static(b"not a transaction")];
        send(&mut stream, height, height * 1000, &txs)?;
        root = apply(&sequencer, height, height * 1000, txs)?;
    }
    let theirs = follower.join().map_err(|_| "the follower panicked")??;
    assert_eq!(root, theirs);
    println!("{BLOCKS} blocks, the same state on both nodes");
    Ok(())
}
