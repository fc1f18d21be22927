//! A run: starts the replicas, drives clients and faults, compares everything.

use super::{
    args::NetArgs,
    faults::{self, Fault, Kind, Step, Victim},
    file::{EngineSection, NetworkFile},
    load::Load,
    processes::Process,
    report::Report,
    serial,
};
use crate::{exit, output, ui};
use anyhow::Context as _;
use phalanx_bft::Index;
use phalanx_keys::deal;
use phalanx_lab::{error::Different, error::Usage, machine::temporary::Temporary, ui::Ui};
use phalanx_net::{Audit, Cut, Links, Member, NetConfig, Notice, Reply, Request, VERSION, order_floor};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

/// Chain id of the network.
const CHAIN: u64 = 1;
/// Longest pause of the driver.
const TICK: Duration = Duration::from_millis(2);

impl NetArgs {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        self.check()?;
        let temporary = match &self.dir {
            Some(dir) if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) => {
                return Err(Usage(format!("{} is not empty: --dir needs a new or empty folder", dir.display())).into());
            }
            Some(_) => None,
            None => Some(Temporary::new().context("making a temporary folder")?),
        };
        let dir = temporary.as_ref().map_or_else(|| self.dir.clone().unwrap_or_default(), |of| of.path().to_path_buf());
        let (path, file) = self.write(&dir)?;
        if self.seconds == 0 {
            output::print(&format!("{}\n", path.display()))?;
            return Ok(exit::OK);
        }
        let load = file.engine.load(CHAIN)?;
        let load = Load::new(load, self.tps, self.seconds, self.retry_ms);
        let mut run = Run::start(self, file, path, dir, load)?;
        let ui = ui::open();
        run.drive(&ui)?;
        run.finish()
    }

    /// Writes configuration and keys.
    fn write(&self, dir: &Path) -> anyhow::Result<(PathBuf, NetworkFile)> {
        let delay_us = self.rtt.delays(self.n)?;
        let addresses = free_addresses(2 * self.n)?;
        let member = |index: usize| Member {
            peers: addresses[2 * index],
            clients: addresses[2 * index + 1],
            keys: format!("keys-{index}.json").into(),
            dir: format!("replica-{index}").into(),
        };
        let engine = EngineSection {
            accounts: self.clients.max(2),
            txs: self.most_txs().clamp(1, u32::MAX.into()),
            seed: self.seed,
            threads: 1,
            execution: self.execution(),
        };
        let (fees, coinbase) = {
            let load = phalanx_workloads::TransferLoad::default();
            (load.fees, load.coinbase)
        };
        let network = NetConfig {
            version: VERSION,
            protocol: self.protocol(),
            chain: CHAIN,
            epoch: 0,
            faults: ((self.n - 1) / 3) as u16,
            authentication: self.authentication(),
            durability: self.durability(),
            batch_threads: self.batch_threads,
            batch_txs: self.batch,
            batch_bytes: 1 << 20,
            batch_delay_us: 2_000,
            interval: self.interval,
            timeout_us: self.timeout_ms.saturating_mul(1_000),
            resend_us: 100_000,
            retention: 1 << 14,
            gas_limit: u64::MAX,
            base_fee: fees.base_fee,
            beneficiary: coinbase,
            links: Links {
                delay_us,
                bandwidth: self.mbits.map_or(0, |mbits| mbits * 125_000),
                loss_per_mille: self.loss,
                seed: self.seed,
            },
            replicas: (0..self.n).map(member).collect(),
        };
        network.check().map_err(|error| Usage(error.to_string()))?;
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_be_bytes());
        let keys = deal(self.n, &seed).map_err(|error| Usage(error.to_string()))?;
        for (member, keys) in network.replicas.iter().zip(keys) {
            let path = dir.join(&member.keys);
            fs::write(&path, keys.to_json()).with_context(|| format!("writing {}", path.display()))?;
        }
        let (path, file) = (dir.join("network.json"), NetworkFile { network, engine });
        file.write(&path)?;
        Ok((path, file))
    }
}

/// Channel of the replies, each with its replica's index.
type Replies = (Sender<(usize, Reply)>, Receiver<(usize, Reply)>);

/// Free addresses on loopback. Their ports lie below those of outgoing connections, which could take a replica's own while it is
/// down.
fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    const PORTS: core::ops::Range<u32> = 11_000..32_000;
    // Runs that begin at the same time look in different places.
    let length = PORTS.end - PORTS.start;
    let first = std::process::id().wrapping_mul(331) % length;
    let ports = PORTS.map(|at| PORTS.start + (at + first) % length);
    let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16)));
    let free: Vec<SocketAddr> = addresses.filter(|address| TcpListener::bind(address).is_ok()).take(count).collect();
    anyhow::ensure!(free.len() == count, "there are {} free ports on loopback, and {count} are needed", free.len());
    Ok(free)
}

/// A network under load.
struct Run<'a> {
    args: &'a NetArgs,
    file: NetworkFile,
    config: PathBuf,
    dir: PathBuf,
    load: Load,
    replicas: Vec<Option<Process>>,
    replies: Replies,
    audit: Audit,
    /// Settled blocks in order.
    blocks: Vec<Notice>,
    /// Replica that clients send to.
    leader: usize,
    faults: Vec<Fault>,
    /// Replica that each kill has hit.
    hit: Vec<Option<usize>>,
    /// Cuts that hold now.
    cuts: Vec<usize>,
    happened: Vec<String>,
    start: Instant,
    last_answer: Duration,
    interrupted: bool,
}

impl<'a> Run<'a> {
    fn start(args: &'a NetArgs, file: NetworkFile, config: PathBuf, dir: PathBuf, load: Load) -> anyhow::Result<Self> {
        let quorums = file.network.quorums().map_err(|error| Usage(error.to_string()))?;
        let faults: Vec<Fault> = args.kill.iter().chain(&args.partition).cloned().collect();
        let mut run = Self {
            args,
            file,
            config,
            dir,
            load,
            replicas: (0..args.n).map(|_| None).collect(),
            replies: channel(),
            audit: Audit::new(quorums),
            blocks: Vec::new(),
            leader: 0,
            hit: vec![None; faults.len()],
            faults,
            cuts: Vec::new(),
            happened: Vec::new(),
            start: Instant::now(),
            last_answer: Duration::ZERO,
            interrupted: false,
        };
        for index in 0..args.n {
            run.replicas[index] = Some(run.spawn(index)?);
        }
        while !run.replicas.iter().flatten().all(Process::listens) {
            run.follow()?;
            run.check_alive()?;
            std::thread::sleep(TICK);
        }
        run.happened.clear();
        run.start = Instant::now();
        Ok(run)
    }

    fn spawn(&self, index: usize) -> anyhow::Result<Process> {
        Process::start(&self.config, index, self.dir.join(format!("replica-{index}.stderr")))
    }

    /// Follows replicas that have begun to listen.
    fn follow(&mut self) -> anyhow::Result<()> {
        let mut began = false;
        for (index, process) in self.replicas.iter_mut().enumerate() {
            let Some(process) = process else { continue };
            let (address, from) = (self.file.network.replicas[index].clients, self.audit.next(Index(index as u16)));
            if process.follow((index, address), from, &self.replies.0)? {
                began = true;
                if !self.faults.is_empty() {
                    let now = self.start.elapsed().as_secs_f64();
                    self.happened.push(format!("replica {index} listens at {now:.2} s"));
                }
            }
        }
        if began {
            self.apply_cuts();
        }
        Ok(())
    }

    /// Drives clients and faults until everything is settled, or patience ends.
    fn drive(&mut self, ui: &Ui) -> anyhow::Result<()> {
        let mut steps = faults::steps(&self.faults).into_iter().peekable();
        let length = Duration::from_secs(self.args.seconds);
        let mut end = length + Duration::from_secs(self.args.drain);
        loop {
            let now = self.start.elapsed();
            while let Some((_, step)) = steps.next_if(|(at, _)| *at <= now) {
                self.step(&step)?;
                // Patience begins when the last fault has ended.
                end = end.max(self.start.elapsed() + Duration::from_secs(self.args.drain));
            }
            let due = self.load.take_due(now.as_micros() as u64)?;
            self.send(due);
            let overdue = self.load.take_overdue(now.as_micros() as u64);
            self.send_all(overdue);
            self.listen()?;
            if ui.stopped() {
                self.interrupted = true;
                return Ok(());
            }
            self.check_alive()?;
            self.follow()?;
            let quiet = now > length && steps.peek().is_none();
            if quiet && (self.is_settled() || now > end) {
                return Ok(());
            }
        }
    }

    /// Returns true if every transaction is answered and all replicas have told of every height.
    fn is_settled(&self) -> bool {
        let highest = self.audit.highest();
        self.load.unanswered() == 0
            && self.audit.settled() == highest
            && (0..self.args.n).all(|index| self.audit.next(Index(index as u16)) > highest)
    }

    /// Sends transactions to the replica that leads, by the newest hint.
    fn send(&mut self, txs: Vec<alloy_primitives::Bytes>) {
        if txs.is_empty() {
            return;
        }
        let up = |index: &usize| self.replicas[*index].as_ref().is_some_and(Process::listens);
        let to = Some(self.leader).filter(up).or_else(|| (0..self.args.n).find(up));
        if let Some(process) = to.and_then(|to| self.replicas[to].as_mut()) {
            process.send(&Request::Submit(txs));
        }
    }

    fn send_all(&mut self, txs: Vec<alloy_primitives::Bytes>) {
        if !txs.is_empty() {
            let request = Request::Submit(txs);
            self.replicas.iter_mut().flatten().for_each(|process| process.send(&request));
        }
    }

    /// Takes what replicas have told, and waits for it for a moment.
    fn listen(&mut self) -> anyhow::Result<()> {
        let mut next = self.replies.1.recv_timeout(TICK).ok();
        while let Some((index, reply)) = next {
            if let Reply::Block(notice) = reply {
                self.note(index, notice)?;
            }
            next = self.replies.1.try_recv().ok();
        }
        Ok(())
    }

    fn note(&mut self, index: usize, notice: Notice) -> anyhow::Result<()> {
        let leader = usize::from(notice.leader);
        let settled = self.audit.on_notice(Index(index as u16), notice);
        for block in settled.map_err(|error| Different(error.to_string()))? {
            let now = self.start.elapsed();
            let statuses = block.statuses.unwrap_or_default();
            for (at, hash) in block.notice.txs.iter().enumerate() {
                self.load.on_settled(now.as_micros() as u64, hash, statuses.get(at).copied());
            }
            (self.last_answer, self.leader) = (now, leader.min(self.args.n - 1));
            self.blocks.push(block.notice);
        }
        Ok(())
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        for (index, process) in self.replicas.iter_mut().enumerate() {
            if let Some(why) = process.as_mut().and_then(Process::ended) {
                anyhow::bail!("replica {index}: {why}");
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        let (Step::Begin(number) | Step::End(number)) = *step;
        let (kind, text) = (self.faults[number].kind.clone(), self.faults[number].text.clone());
        let now = self.start.elapsed().as_secs_f64();
        match (step, kind) {
            (Step::Begin(_), Kind::Kill(victim)) => {
                let index = if let Victim::Index(index) = victim { index } else { self.leader };
                if let Some(process) = self.replicas[index].take() {
                    process.kill();
                    self.hit[number] = Some(index);
                    self.happened.push(format!("{text}: kill -9 of replica {index} at {now:.2} s"));
                }
            }
            (Step::End(_), Kind::Kill(_)) => {
                if let Some(index) = self.hit[number].take() {
                    self.replicas[index] = Some(self.spawn(index)?);
                    self.happened.push(format!("{text}: replica {index} started again at {now:.2} s"));
                }
            }
            (Step::Begin(_), Kind::Partition(..)) => {
                self.cuts.push(number);
                self.apply_cuts();
                self.happened.push(format!("{text}: cut at {now:.2} s"));
            }
            (Step::End(_), Kind::Partition(..)) => {
                self.cuts.retain(|cut| *cut != number);
                self.apply_cuts();
                self.happened.push(format!("{text}: whole at {now:.2} s"));
            }
        }
        Ok(())
    }

    /// Tells every replica which links are cut now. Of cuts that overlap, the newest says what becomes of frames.
    fn apply_cuts(&mut self) {
        let cuts: Vec<(&[usize], Cut)> = self
            .cuts
            .iter()
            .filter_map(|number| match &self.faults[*number].kind {
                Kind::Partition(group, cut) => Some((group.as_slice(), *cut)),
                Kind::Kill(_) => None,
            })
            .collect();
        for (index, process) in self.replicas.iter_mut().enumerate() {
            let Some(process) = process else { continue };
            let apart = |other: &usize| cuts.iter().any(|(group, _)| group.contains(other) != group.contains(&index));
            let others: Vec<String> = (0..self.args.n).filter(apart).map(|other| other.to_string()).collect();
            let line = match cuts.last() {
                Some((_, Cut::Holds)) if !others.is_empty() => format!("cut holds {}", others.join(" ")),
                Some((_, Cut::Loses)) if !others.is_empty() => format!("cut loses {}", others.join(" ")),
                _ => "heal".into(),
            };
            process.command(&line);
        }
    }

    /// Stops the replicas, compares with serial execution, and shows the result.
    fn finish(mut self) -> anyhow::Result<u8> {
        let settled = self.is_settled() && self.load.skipped == 0;
        let mut replicas = Vec::new();
        for (index, process) in self.replicas.drain(..).enumerate() {
            let stopped = process.map(Process::stop).transpose().with_context(|| format!("stopping replica {index}"));
            replicas.push(match stopped {
                Ok(status) => status.unwrap_or(Value::Null),
                // The interrupt has reached the replica as well.
                Err(_) if self.interrupted => Value::Null,
                Err(error) => return Err(error),
            });
        }
        let executed = serial::compare(self.load.native(), CHAIN, &self.blocks, &self.load.txs)?;
        let quorums = self.file.network.quorums().map_err(|error| Usage(error.to_string()))?;
        let delays = &self.file.network.links.delay_us;
        let root = self.blocks.last().map_or_else(|| "none".into(), |block| block.state_root.to_string());
        let report = Report {
            blocks: self.blocks.len() as u64,
            executed,
            txs: self.load.latencies_us.len() as u64,
            took_us: self.last_answer.as_micros() as u64,
            floor_us: (!delays.is_empty()).then(|| order_floor(delays, quorums, 0)),
            compared: (0..self.args.n).map(|index| self.audit.compared(Index(index as u16))).collect(),
            state_root: root,
            faults: self.happened,
            replicas,
            settled,
            interrupted: self.interrupted,
        };
        if let Some(path) = &self.args.json {
            output::json(path, &report.json(self.args, &self.load))?;
        }
        if self.args.json.as_deref() != Some(Path::new("-")) {
            output::print(&report.text(self.args, &self.load))?;
        }
        Ok(match (report.interrupted, settled) {
            (true, _) => exit::INTERRUPTED,
            (false, true) => exit::OK,
            (false, false) => exit::EXPECTATION,
        })
    }
}
