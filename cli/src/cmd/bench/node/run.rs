//! A run against a node: writers, readers, and a client that reads every receipt.

use super::{
    client::{Client, answers, call},
    load::Load,
};
use alloy_primitives::B256;
use anyhow::{anyhow, bail, ensure};
use phalanx_lab::machine::temporary::Temporary;
use phalanx_node::{Node, NodeConfig, Production, RpcConfig, StorePlace};
use serde_json::json;
use std::{
    collections::HashMap,
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

/// Time without a receipt that ends a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
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
    /// From the first request to the last receipt.
    pub(super) took: Duration,
    /// From the sending of each transaction to the reading of its receipt, sorted.
    pub(super) latencies: Vec<Duration>,
    pub(super) blocks: u64,
    /// Transactions that were refused and sent again.
    pub(super) resent: u64,
    /// Times of the readers' requests, sorted.
    pub(super) reads: Vec<Duration>,
    /// Seconds of work by name, as the node counts them.
    pub(super) stages: Vec<(String, f64)>,
}

/// Transactions that were sent, and whose receipts were not read.
#[derive(Debug, Default)]
struct Way {
    state: Mutex<Sent>,
    room: Condvar,
    resent: AtomicU64,
    /// True once all receipts were read, or a thread has failed.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Sent {
    /// Time of sending, until the receipt was read.
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
    let folder = Temporary::new()?;
    let mut config = NodeConfig::new(plan.load.genesis.clone(), StorePlace::Folder(folder.path().to_owned()));
    config.production = plan.production;
    config.gas_limit = Some(plan.load.genesis.gas_limit);
    config.threads = plan.threads;
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    config.rpc = RpcConfig { address: free, ..RpcConfig::default() };
    config.metrics = Some(free);
    let node = Node::start(&config)?;
    let (address, way) = (node.address(), Way::default());
    let begun = Instant::now();
    let watched = thread::scope(|scope| {
        let way = &way;
        let writers: Vec<_> =
            (0..plan.writers as usize).map(|writer| scope.spawn(move || write(plan, address, writer, way))).collect();
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
    let metrics = node.metrics_address().ok_or_else(|| anyhow!("the node has no metrics"))?;
    let stages = stages(&Client::connect(metrics)?.page("/metrics")?);
    node.stop();
    latencies.sort_unstable();
    reads.sort_unstable();
    Ok(Ran { took, latencies, blocks, resent: way.resent.into_inner(), reads, stages })
}

/// Sends a writer's transactions; those that find no room are sent again.
fn write(plan: &Plan<'_>, address: SocketAddr, writer: usize, way: &Way) -> anyhow::Result<()> {
    let mut guard = Guard(way, false);
    let mut client = Client::connect(address)?;
    let own = plan.load.of_writer(writer, plan.writers as usize);
    for batch in own.chunks(plan.batch as usize) {
        let hashes: Vec<B256> = batch.iter().map(|place| plan.load.hashes[*place]).collect();
        let mut left = batch.to_vec();
        if !way.send(&hashes, plan.window as usize) {
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
                if message.contains("txpool is full") || message.contains("nonce too high") {
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
    guard.1 = true;
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

/// Reads the receipts of every block until there are all. Returns the times since the sending of each, and the height.
fn watch(plan: &Plan<'_>, address: SocketAddr, way: &Way) -> anyhow::Result<(Vec<Duration>, u64)> {
    let mut client = Client::connect(address)?;
    let total = plan.load.txs.len();
    let (mut latencies, mut height, mut last) = (Vec::with_capacity(total), 0_u64, Instant::now());
    while latencies.len() < total {
        let receipts = client.ask("eth_getBlockReceipts", &json!([format!("{:#x}", height + 1)]))?;
        let Some(receipts) = receipts.as_array() else {
            ensure!(last.elapsed() < PATIENCE, "no receipt for {} s at block {height}", PATIENCE.as_secs());
            if way.is_over() {
                bail!("a client has failed");
            }
            thread::sleep(PAUSE);
            continue;
        };
        let now = Instant::now();
        let mut sent = way.lock();
        for receipt in receipts {
            let hash: B256 = serde_json::from_value(receipt["transactionHash"].clone())?;
            ensure!(receipt["status"] == "0x1", "transaction {hash} has failed");
            let at = sent.at.remove(&hash).ok_or_else(|| anyhow!("a receipt of {hash}, which was not sent"))?;
            latencies.push(now - at);
            last = now;
        }
        drop(sent);
        way.room.notify_all();
        height += 1;
    }
    Ok((latencies, height))
}

/// Seconds by stage on a page of metrics.
fn stages(page: &str) -> Vec<(String, f64)> {
    let mut stages = Vec::new();
    for line in page.lines() {
        let Some((name, seconds)) =
            line.rsplit_once(' ').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)))
        else {
            continue;
        };
        let label = name.split('"').nth(1).unwrap_or_default();
        if name.starts_with("phalanx_rpc_request_seconds_sum") && label == "eth_sendRawTransaction" {
            stages.push(("admission".to_owned(), seconds));
        } else if name.starts_with("phalanx_producer_block_seconds_sum") {
            stages.push(("blocks".to_owned(), seconds));
        } else if name.starts_with("phalanx_engine_stage_seconds_total") {
            stages.push((format!("engine: {label}"), seconds));
        }
    }
    stages.sort_by(|(name, a), (other, b)| b.total_cmp(a).then_with(|| name.cmp(other)));
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_from_the_metrics() {
        let page = "# HELP x\n\
                    phalanx_rpc_request_seconds_sum{method=\"eth_getBalance\"} 9\n\
                    phalanx_rpc_request_seconds_sum{method=\"eth_sendRawTransaction\"} 1.5\n\
                    phalanx_rpc_request_seconds_count{method=\"eth_sendRawTransaction\"} 7\n\
                    phalanx_producer_block_seconds_sum 0.5\n\
                    phalanx_engine_stage_seconds_total{stage=\"execute\"} 2.25\n";
        let expected = [("engine: execute", 2.25), ("admission", 1.5), ("blocks", 0.5)];
        assert_eq!(stages(page), expected.map(|(name, seconds)| (name.to_owned(), seconds)));
    }
}
