//! A run against a node: writers, readers, and a client that reads every block.

use super::{
    client::Client,
    judge,
    link::{Answered, Form, Link},
    load::Load,
    served::{Served, Used},
};
use alloy_primitives::B256;
use anyhow::{anyhow, bail, ensure};
use phalanx_lab::machine::clock;
use phalanx_node::Production;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
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

/// Seed of the lengths of rests.
const REST_SEED: u64 = 1;

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
    /// Time for which a writer rests behind an answer: from one to two of it, so that nothing of the node's own pace decides when the
    /// next transaction comes. `None` for no rest.
    pub(super) rest: Option<Duration>,
    pub(super) readers: u64,
    /// True if a further connection sends the first payer's transactions one by one, and gets their receipts as answers.
    pub(super) has_receipts: bool,
    pub(super) production: Production,
    pub(super) threads: Option<usize>,
}

/// Figures of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// From the first request to the last transaction in a visible block, without those of the connection that gets receipts: what
    /// comes of them behind that end is left out of all figures, since the node has nothing else to do then.
    pub(super) took: Duration,
    /// From the time at which each transaction was due to the reading of its block, sorted.
    pub(super) latencies: Vec<Duration>,
    pub(super) blocks: u64,
    /// Transactions of the writers ÷ the time until the last of their answers, per second.
    pub(super) admitted: f64,
    /// Processor time of this process until the end: clients, and the reading of blocks.
    pub(super) clients: Duration,
    /// Transactions that were refused and sent again.
    pub(super) resent: u64,
    /// From the sending of each request with transactions to its answer, sorted.
    pub(super) answers: Vec<Duration>,
    /// The same of the requests that are answered with receipts, sorted.
    pub(super) receipts: Vec<Duration>,
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
    let writers = plan.writers as usize;
    let share = |writer| plan.load.of_writer(writer, writers, plan.has_receipts.into());
    let shares: Vec<_> = (0..writers).map(share).collect();
    let offered: usize = shares.iter().map(Vec::len).sum();
    let (before, cpu, begun) = (node.used()?, clock::process(), Instant::now());
    let watched = thread::scope(|scope| {
        let (way, node) = (&way, &node);
        let writers: Vec<_> =
            shares.into_iter().map(|own| scope.spawn(move || write(plan, node, own, begun, way))).collect();
        let single = Plan { form: Form::Receipts, batch: 1, rate: None, window: u64::MAX, ..*plan };
        let receipts =
            plan.has_receipts.then(|| scope.spawn(move || write(&single, node, plan.load.of_first(), begun, way)));
        let readers: Vec<_> =
            (0..plan.readers as usize).map(|reader| scope.spawn(move || read(plan, address, reader, way))).collect();
        let watched = watch(plan, node, begun, way);
        way.end();
        let panicked = |_| anyhow!("a client panicked");
        // The reason for which a writer has failed comes before that of the watcher, which waits for it in vain.
        let (mut answers, mut last) = (Vec::new(), begun);
        for writer in writers {
            for (at, time) in writer.join().map_err(panicked)?? {
                answers.push(time);
                last = last.max(at);
            }
        }
        let receipts = receipts.map(|writer| writer.join().map_err(panicked)?).transpose()?.unwrap_or_default();
        let mut reads = Vec::new();
        for reader in readers {
            reads.extend(reader.join().map_err(panicked)??);
        }
        let watched = watched?;
        let is_within = |(at, time): (Instant, Duration)| (at <= begun + watched.took).then_some(time);
        let receipts = receipts.into_iter().filter_map(is_within).collect();
        anyhow::Ok((watched, last - begun, [answers, receipts, reads]))
    });
    let (Watched { took, latencies, blocks, used, clock, height }, until, [answers, receipts, reads]) = watched?;
    let (used, clients) = (used.since(&before), Duration::from_nanos(clock - cpu));
    let admitted = offered as f64 / until.as_secs_f64();
    judge::check(address, height, plan.load)?;
    node.stop();
    let sorted = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times
    };
    let [latencies, answers, receipts, reads] = [latencies, answers, receipts, reads].map(sorted);
    let resent = way.resent.into_inner();
    Ok(Ran { took, latencies, blocks, admitted, clients, resent, answers, receipts, reads, used })
}

/// Sends a writer's transactions; those that find no room are sent again. Returns when each of its requests was answered, and after
/// what time.
fn write(
    plan: &Plan<'_>,
    node: &Served,
    own: Vec<usize>,
    begun: Instant,
    way: &Way,
) -> anyhow::Result<Vec<(Instant, Duration)>> {
    let mut guard = Guard(way, false);
    let mut link = Link::connect(plan.form, node)?;
    let mut rests = ChaCha8Rng::seed_from_u64(REST_SEED);
    let (mut batches, mut count, mut times) = (own.chunks(plan.batch as usize), 0_usize, Vec::new());
    // Times of sending, by the first place of each request.
    let mut flying: HashMap<usize, Instant> = HashMap::new();
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
                flying.insert(batch[0], Instant::now());
                link.send(plan.load, batch)?;
                count += batch.len();
                if flying.len() < link.depth() {
                    continue;
                }
            }
            None if flying.is_empty() => break,
            None => {}
        }
        let Answered { first, refused } = link.receive()?;
        let since = flying.remove(&first).ok_or_else(|| anyhow!("an answer to no request"))?;
        times.push((Instant::now(), since.elapsed()));
        if let Some(rest) = plan.rest {
            thread::sleep(rest.mul_f64(rests.random_range(1.0..2.0)));
        }
        if !refused.is_empty() && !way.is_over() {
            way.resent.fetch_add(refused.len() as u64, Ordering::Relaxed);
            thread::sleep(PAUSE);
            flying.insert(refused[0], Instant::now());
            link.send(plan.load, &refused)?;
        }
    }
    guard.1 = true;
    Ok(times)
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

/// A run as the client sees it that reads every block: the figures of [`Ran`] until its end.
struct Watched {
    took: Duration,
    latencies: Vec<Duration>,
    blocks: u64,
    /// What the node has used since its start.
    used: Used,
    /// Processor time of this process since its start, in nanoseconds.
    clock: u64,
    /// The block with the last of all transactions.
    height: u64,
}

/// Reads the hashes of every block until all transactions are there. A visible block has its receipts on disk.
fn watch(plan: &Plan<'_>, node: &Served, begun: Instant, way: &Way) -> anyhow::Result<Watched> {
    let mut client = Client::connect(node.rpc)?;
    let total = plan.load.txs.len();
    let own = if plan.has_receipts { plan.load.of_first() } else { Vec::new() };
    // Where one account pays for all, there is no other load.
    let own = if own.len() < total { own } else { Vec::new() };
    let own: HashSet<B256> = plan.load.hashes_of(&own).into_iter().collect();
    let (mut seen, mut rest, mut ended) = (0, total - own.len(), None);
    let (mut latencies, mut height, mut last) = (Vec::with_capacity(total), 0_u64, Instant::now());
    while seen < total {
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
            seen += 1;
            rest -= usize::from(!own.contains(&hash));
            if ended.is_none() {
                latencies.push(now - at);
            }
            last = now;
        }
        drop(sent);
        way.room.notify_all();
        height += 1;
        if rest == 0 && ended.is_none() {
            ended = Some((begun.elapsed(), node.used()?, clock::process(), height));
        }
    }
    let (took, used, clock, blocks) = ended.ok_or_else(|| anyhow!("a run without transactions"))?;
    Ok(Watched { took, latencies, blocks, used, clock, height })
}
