//! A run: starts the replicas, drives clients and faults, compares everything.

use super::{
    args::NetArgs,
    deal::{CHAIN, group_key},
    faults::{self, Fault, Kind, Step, Victim},
    file::NetworkFile,
    load::Load,
    processes::Process,
    report::Report,
    sample::Sample,
    serial::{self, Compared},
};
use crate::{exit, output, ui};
use anyhow::Context as _;
use phalanx_bft::Index;
use phalanx_lab::{error::Different, error::Usage, machine::temporary::Temporary, ui::Ui};
use phalanx_net::{Audit, Cut, Notice, ProtocolName, Reply, Request, order_floor};
use phalanx_sim::load::hangover;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

/// Longest pause of the driver.
const TICK: Duration = Duration::from_millis(2);

impl NetArgs {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        self.check()?;
        let temporary = match &self.output.dir {
            Some(dir) if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) => {
                return Err(Usage(format!("{} is not empty: --dir needs a new or empty folder", dir.display())).into());
            }
            Some(_) => None,
            None => Some(Temporary::new().context("making a temporary folder")?),
        };
        let dir = temporary
            .as_ref()
            .map_or_else(|| self.output.dir.clone().unwrap_or_default(), |of| of.path().to_path_buf());
        let (path, file) = self.write(&dir)?;
        if self.load.seconds == 0 {
            output::print(&format!("{}\n", path.display()))?;
            return Ok(exit::OK);
        }
        let load = file.engine()?.load(CHAIN)?;
        let load = Load::new(load, self.load.tps, self.load.seconds, self.load.retry_ms);
        let mut run = Run::start(self, file, path, dir, load)?;
        let ui = ui::open();
        run.drive(&ui)?;
        run.finish()
    }
}

/// Channel of the replies, each with its replica's index.
type Replies = (Sender<(usize, Reply)>, Receiver<(usize, Reply)>);

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
    /// Number of sends, each to the next replica, where every replica proposes.
    turns: usize,
    /// Blocks of each second that the fast path decided, and the slow one.
    paths: BTreeMap<u64, [u64; 2]>,
    sample: Option<Sample>,
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
        let faults: Vec<Fault> = args.faults().cloned().collect();
        let sample = args.acknowledges().then(|| group_key(&dir, &file)).transpose()?;
        let sample = sample.map(|key| Sample::new(CHAIN, file.network.instance, key));
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
            turns: 0,
            paths: BTreeMap::new(),
            sample,
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
        let length = Duration::from_secs(self.args.load.seconds);
        let mut end = length + Duration::from_secs(self.args.load.drain);
        loop {
            let now = self.start.elapsed();
            while let Some((_, step)) = steps.next_if(|(at, _)| *at <= now) {
                self.step(&step)?;
                // Patience begins when the last fault has ended.
                end = end.max(self.start.elapsed() + Duration::from_secs(self.args.load.drain));
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
        let now = self.start.elapsed().as_micros() as u64;
        if let Some(hash) = self.sample.as_mut().and_then(|sample| sample.choose(now, &txs)) {
            let request = Request::Await(vec![hash]);
            self.replicas.iter_mut().flatten().for_each(|process| process.send(&request));
        }
        if self.file.network.protocol != ProtocolName::Autobahn {
            return self.send_to(self.leader, txs);
        }
        // Every replica proposes for its own clients.
        for part in txs.chunks(txs.len().div_ceil(self.args.n)) {
            self.send_to(self.turns % self.args.n, part.to_vec());
            self.turns += 1;
        }
    }

    /// Sends transactions to a replica, or to another one that listens.
    fn send_to(&mut self, wanted: usize, txs: Vec<alloy_primitives::Bytes>) {
        let up = |index: &usize| self.replicas[*index].as_ref().is_some_and(Process::listens);
        let to = Some(wanted).filter(up).or_else(|| (0..self.args.n).find(up));
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
            match (reply, &mut self.sample) {
                (Reply::Block(notice), _) => self.note(index, notice)?,
                (Reply::Pruned(from), _) => self.audit.on_pruned(Index(index as u16), from),
                (Reply::Acknowledged(message), Some(sample)) => {
                    sample.on_message(self.start.elapsed().as_micros() as u64, &message)?;
                }
                _ => {}
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
            if let Some(path) = usize::from(block.notice.path).checked_sub(1).filter(|path| *path < 2) {
                self.paths.entry(now.as_secs()).or_default()[path] += 1;
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
            (Step::Begin(_), Kind::Stop(victim)) => {
                let index = if let Victim::Index(index) = victim { index } else { self.leader };
                if let Some(process) = &self.replicas[index] {
                    process.signal("STOP")?;
                    self.hit[number] = Some(index);
                    self.happened.push(format!("{text}: replica {index} stopped at {now:.2} s"));
                }
            }
            (Step::End(_), Kind::Stop(_)) => {
                if let Some((index, process)) =
                    self.hit[number].take().and_then(|index| Some((index, self.replicas[index].as_ref()?)))
                {
                    process.signal("CONT")?;
                    self.happened.push(format!("{text}: replica {index} resumed at {now:.2} s"));
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
                Kind::Kill(_) | Kind::Stop(_) => None,
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
        let answered = self.is_settled();
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
        let compared = serial::compare(self.load.native(), CHAIN, &self.blocks, &self.load.txs)?;
        let Compared { executed, skipped } = compared;
        // The serial execution decides: statuses in notices are hints.
        self.load.skipped = skipped;
        let settled = answered && skipped == 0;
        let quorums = self.file.network.quorums().map_err(|error| Usage(error.to_string()))?;
        let delays = &self.file.network.links.delay_us;
        let root = self.blocks.last().map_or_else(|| "none".into(), |block| block.state_root.to_string());
        // The fastest of the primaries that there were.
        let views = replicas.iter().filter_map(|status| status["view"].as_u64()).max().unwrap_or(0);
        let primaries = (0..self.args.n).take(usize::try_from(views).unwrap_or(usize::MAX).saturating_add(1));
        let is_known = self.file.network.protocol == ProtocolName::Pbft && !delays.is_empty();
        let floor_us = primaries.filter(|_| is_known).map(|primary| order_floor(delays, quorums, primary)).min();
        let times = |fault: &Fault| {
            let us = |at: Duration| at.as_micros() as u64;
            (us(fault.at), us(fault.at + fault.length))
        };
        let hangovers =
            self.faults.iter().map(|fault| (fault.text.clone(), hangover(&self.load.answers, times(fault)))).collect();
        if let Some(path) = &self.args.output.acknowledgement {
            let message = self.sample.as_ref().and_then(Sample::first);
            output::json(path, message.context("no transaction was acknowledged in a single message")?)?;
        }
        let report = Report {
            blocks: self.blocks.len() as u64,
            executed,
            txs: self.load.latencies_us.len() as u64,
            took_us: self.last_answer.as_micros() as u64,
            paths: self.paths,
            hangovers,
            sample: self.sample,
            floor_us,
            compared: (0..self.args.n).map(|index| self.audit.compared(Index(index as u16))).collect(),
            state_root: root,
            faults: self.happened,
            replicas,
            settled,
            interrupted: self.interrupted,
        };
        if let Some(path) = &self.args.output.json {
            output::json(path, &report.written(self.args, &self.load))?;
        }
        if self.args.output.json.as_deref() != Some(Path::new("-")) {
            output::print(&report.text(self.args, &self.load))?;
        }
        Ok(match (report.interrupted, settled) {
            (true, _) => exit::INTERRUPTED,
            (false, true) => exit::OK,
            (false, false) => exit::EXPECTATION,
        })
    }
}
