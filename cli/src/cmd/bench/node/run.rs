//! A run against a node: writers, readers, and a client that reads every block.

use super::{
    client::{Client, answers, call},
    load::Load,
    served::{Served, Used},
};
use alloy_primitives::B256;
use anyhow::{anyhow, bail, ensure};
use phalanx_node::{
    IngressAddress, Production,
    ingress::{Code, Verdict, client},
};
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Time after which a refused transaction is sent again, and after which the next block is asked for again.
const PAUSE: Duration = Duration::from_millis(1);

/// Time without a transaction that ends a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of frames of a connection that are not answered.
const FLYING: usize = 4;

/// Form in which transactions are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON-RPC over HTTP.
    Json,
    /// Frames of the binary ingress.
    Frames,
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) form: Form,
    pub(super) load: &'a Load,
    pub(super) writers: u64,
    pub(super) batch: u64,
    pub(super) window: u64,
    pub(super) readers: u64,
    pub(super) production: Production,
    pub(super) threads: Option<usize>,
}

/// Figures of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// From the first request to the last transaction in a visible block.
    pub(super) took: Duration,
    /// From the sending of each transaction to the reading of its block, sorted.
    pub(super) latencies: Vec<Duration>,
    pub(super) blocks: u64,
    /// Transactions that were refused and sent again.
    pub(super) resent: u64,
    /// Times of the readers' requests, sorted.
    pub(super) reads: Vec<Duration>,
    /// Processor time and work of the node.
    pub(super) used: Used,
}

/// Transactions that were sent, and that no block had yet.
#[derive(Debug, Default)]
struct Way {
    state: Mutex<Sent>,
    room: Condvar,
    resent: AtomicU64,
    /// True once all blocks were read, or a thread has failed.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Sent {
    /// Time of sending, until the block was read.
    at: HashMap<B256, Instant>,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, Sent> {
        // A thread that panicked has failed the run.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.room.notify_all();
    }

    /// Waits for room, and notes the time of sending. Returns false if the run is over.
    fn send(&self, hashes: &[B256], window: usize) -> bool {
        let mut sent = self.lock();
        while !self.is_over() && !sent.at.is_empty() && sent.at.len() + hashes.len() > window {
            sent = self.room.wait(sent).unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        sent.at.extend(hashes.iter().map(|hash| (*hash, now)));
        !self.is_over()
    }
}

/// Ends the run if its thread fails.
struct Guard<'a>(&'a Way, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.end();
        }
    }
}

/// Runs a plan on a new chain.
pub(super) fn run(plan: &Plan<'_>) -> anyhow::Result<Ran> {
    let node = Served::start(plan.load, plan.production, plan.threads)?;
    let (address, way) = (node.rpc, Way::default());
    let (before, begun) = (node.used()?, Instant::now());
    let watched = thread::scope(|scope| {
        let (way, node) = (&way, &node);
        let writers: Vec<_> =
            (0..plan.writers as usize).map(|writer| scope.spawn(move || write(plan, node, writer, way))).collect();
        let readers: Vec<_> =
            (0..plan.readers as usize).map(|reader| scope.spawn(move || read(plan, address, reader, way))).collect();
        let watched = watch(plan, address, way).map(|(latencies, blocks)| (begun.elapsed(), latencies, blocks));
        way.end();
        let panicked = |_| anyhow!("a client panicked");
        // The reason for which a writer has failed comes before that of the watcher, which waits for it in vain.
        for writer in writers {
            writer.join().map_err(panicked)??;
        }
        let mut reads = Vec::new();
        for reader in readers {
            reads.extend(reader.join().map_err(panicked)??);
        }
        let (took, latencies, blocks) = watched?;
        anyhow::Ok((took, latencies, blocks, reads))
    });
    let (took, mut latencies, blocks, mut reads) = watched?;
    let used = node.used()?.since(&before);
    check(address, blocks, plan.load)?;
    node.stop();
    latencies.sort_unstable();
    reads.sort_unstable();
    Ok(Ran { took, latencies, blocks, resent: way.resent.into_inner(), reads, used })
}

/// Sends a writer's transactions; those that find no room are sent again.
fn write(plan: &Plan<'_>, node: &Served, writer: usize, way: &Way) -> anyhow::Result<()> {
    let mut guard = Guard(way, false);
    let own = plan.load.of_writer(writer, plan.writers as usize);
    match plan.form {
        Form::Json => write_json(plan, &own, node.rpc, way)?,
        Form::Frames => write_frames(plan, &own, &node.ingress, way)?,
    }
    guard.1 = true;
    Ok(())
}

fn write_json(plan: &Plan<'_>, own: &[usize], address: SocketAddr, way: &Way) -> anyhow::Result<()> {
    let mut client = Client::connect(address)?;
    for batch in own.chunks(plan.batch as usize) {
        let mut left = batch.to_vec();
        if !way.send(&plan.load.hashes_of(batch), plan.window as usize) {
            break;
        }
        while !left.is_empty() && !way.is_over() {
            let calls: Vec<String> = left
                .iter()
                .map(|place| call(*place, "eth_sendRawTransaction", &json!([plan.load.txs[*place]])))
                .collect();
            let body = if plan.batch == 1 { calls.concat() } else { format!("[{}]", calls.join(",")) };
            let mut refused = Vec::new();
            for answer in answers(&client.post(&body)?)? {
                let place = answer["id"].as_u64().and_then(|id| usize::try_from(id).ok());
                let place = place.ok_or_else(|| anyhow!("an answer to no request: {answer}"))?;
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                let again = ["txpool is full", "nonce too high", "retry later"];
                if again.iter().any(|why| message.contains(why)) {
                    refused.push(place);
                } else {
                    ensure!(message.is_empty() || message.contains("already known"), "refused: {message}");
                }
            }
            refused.sort_unstable();
            way.resent.fetch_add(refused.len() as u64, Ordering::Relaxed);
            left = refused;
            if !left.is_empty() {
                thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

fn write_frames(plan: &Plan<'_>, own: &[usize], address: &IngressAddress, way: &Way) -> anyhow::Result<()> {
    let (mut sender, mut receiver) = client::connect(address)?;
    let txs = |batch: &[usize]| batch.iter().map(|place| &plan.load.txs[*place]).collect::<Vec<_>>();
    let mut flying = VecDeque::new();
    let mut batches = own.chunks(plan.batch as usize);
    loop {
        if let Some(batch) = batches.next() {
            if !way.send(&plan.load.hashes_of(batch), plan.window as usize) {
                break;
            }
            sender.send(&txs(batch))?;
            flying.push_back(batch.to_vec());
            if flying.len() < FLYING {
                continue;
            }
        }
        let Some(batch) = flying.pop_front() else { break };
        let verdicts = receiver.receive()?;
        ensure!(verdicts.len() == batch.len(), "{} verdicts on {} transactions", verdicts.len(), batch.len());
        let mut refused = Vec::new();
        for (place, Verdict { code, .. }) in batch.into_iter().zip(verdicts) {
            if code.may_pass_later() {
                refused.push(place);
            } else {
                ensure!(matches!(code, Code::Admitted | Code::Known), "refused: {code:?}");
            }
        }
        if !refused.is_empty() && !way.is_over() {
            way.resent.fetch_add(refused.len() as u64, Ordering::Relaxed);
            thread::sleep(PAUSE);
            sender.send(&txs(&refused))?;
            flying.push_back(refused);
        }
    }
    Ok(())
}

/// Reads balances until the run is over.
fn read(plan: &Plan<'_>, address: SocketAddr, reader: usize, way: &Way) -> anyhow::Result<Vec<Duration>> {
    let mut guard = Guard(way, false);
    let mut client = Client::connect(address)?;
    let (payers, mut times) = (&plan.load.payers, Vec::new());
    while !way.is_over() {
        let payer = payers[(reader + times.len()) % payers.len()];
        let begun = Instant::now();
        client.ask("eth_getBalance", &json!([payer, "latest"]))?;
        times.push(begun.elapsed());
    }
    guard.1 = true;
    Ok(times)
}

/// Reads the hashes of every block until all transactions are there. A visible block has its receipts on disk. Returns the times
/// since the sending of each, and the height.
fn watch(plan: &Plan<'_>, address: SocketAddr, way: &Way) -> anyhow::Result<(Vec<Duration>, u64)> {
    let mut client = Client::connect(address)?;
    let total = plan.load.txs.len();
    let (mut latencies, mut height, mut last) = (Vec::with_capacity(total), 0_u64, Instant::now());
    while latencies.len() < total {
        let block = client.ask("eth_getBlockByNumber", &json!([format!("{:#x}", height + 1), false]))?;
        let Some(txs) = block["transactions"].as_array() else {
            ensure!(last.elapsed() < PATIENCE, "no transaction for {} s at block {height}", PATIENCE.as_secs());
            if way.is_over() {
                bail!("a client has failed");
            }
            thread::sleep(PAUSE);
            continue;
        };
        let now = Instant::now();
        let mut sent = way.lock();
        for hash in txs {
            let hash: B256 = serde_json::from_value(hash.clone())?;
            let at = sent.at.remove(&hash).ok_or_else(|| anyhow!("{hash} is in a block, and was not sent"))?;
            latencies.push(now - at);
            last = now;
        }
        drop(sent);
        way.room.notify_all();
        height += 1;
    }
    Ok((latencies, height))
}

/// Checks that every transaction has succeeded.
fn check(address: SocketAddr, blocks: u64, load: &Load) -> anyhow::Result<()> {
    let (mut client, mut succeeded) = (Client::connect(address)?, 0);
    for height in 1..=blocks {
        let receipts = client.ask("eth_getBlockReceipts", &json!([format!("{height:#x}")]))?;
        let receipts = receipts.as_array().ok_or_else(|| anyhow!("block {height} has no receipts"))?;
        ensure!(
            receipts.iter().all(|receipt| receipt["status"] == "0x1"),
            "a transaction of block {height} has failed"
        );
        succeeded += receipts.len();
    }
    ensure!(succeeded == load.txs.len(), "{succeeded} receipts of {} transactions", load.txs.len());
    Ok(())
}
