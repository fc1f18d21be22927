//! A run against a node: writers, readers, and a client that reads every block.

use super::{
    client::Client,
    judge,
    link::{Form, Link},
    load::Load,
    served::{Served, Used},
};
use alloy_primitives::B256;
use anyhow::{anyhow, bail, ensure};
use phalanx_node::Production;
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

/// Time without a transaction that ends a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) form: Form,
    pub(super) load: &'a Load,
    pub(super) writers: u64,
    pub(super) batch: u64,
    pub(super) window: u64,
    /// Transactions per second that all writers send together, whatever the node answers; `None` for as many as it takes.
    pub(super) rate: Option<f64>,
    pub(super) readers: u64,
    pub(super) production: Production,
    pub(super) threads: Option<usize>,
}

/// Figures of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// From the first request to the last transaction in a visible block.
    pub(super) took: Duration,
    /// From the time at which each transaction was due to the reading of its block, sorted.
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

    /// Waits until transactions are due, and notes that time: one that is sent late has waited. Returns false if the run is over.
    fn send_at(&self, hashes: &[B256], due: Instant) -> bool {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.lock().at.extend(hashes.iter().map(|hash| (*hash, due)));
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
        let writers: Vec<_> = (0..plan.writers as usize)
            .map(|writer| scope.spawn(move || write(plan, node, writer, begun, way)))
            .collect();
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
    judge::check(address, blocks, plan.load)?;
    node.stop();
    latencies.sort_unstable();
    reads.sort_unstable();
    Ok(Ran { took, latencies, blocks, resent: way.resent.into_inner(), reads, used })
}

/// Sends a writer's transactions; those that find no room are sent again.
fn write(plan: &Plan<'_>, node: &Served, writer: usize, begun: Instant, way: &Way) -> anyhow::Result<()> {
    let mut guard = Guard(way, false);
    let own = plan.load.of_writer(writer, plan.writers as usize);
    let mut link = Link::connect(plan.form, node)?;
    let (mut batches, mut flying, mut count) = (own.chunks(plan.batch as usize), 0, 0_usize);
    loop {
        match batches.next() {
            Some(batch) => {
                let hashes = plan.load.hashes_of(batch);
                let sent = match plan.rate {
                    Some(rate) => {
                        // Each writer has an equal part of the rate.
                        let due = Duration::from_secs_f64((count * plan.writers as usize) as f64 / rate);
                        way.send_at(&hashes, begun + due)
                    }
                    None => way.send(&hashes, plan.window as usize),
                };
                if !sent {
                    break;
                }
                link.send(plan.load, batch)?;
                (flying, count) = (flying + 1, count + batch.len());
                if flying < link.depth() {
                    continue;
                }
            }
            None if flying == 0 => break,
            None => {}
        }
        let refused = link.receive()?;
        flying -= 1;
        if !refused.is_empty() && !way.is_over() {
            way.resent.fetch_add(refused.len() as u64, Ordering::Relaxed);
            thread::sleep(PAUSE);
            link.send(plan.load, &refused)?;
            flying += 1;
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
