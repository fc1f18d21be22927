//! The events of a run: requests, jobs, messages, timers and answers, in the order of their times.

use super::{
    Clients, Cut, Fate, Order, Outcome, Setting, Utilisation,
    clients::Population,
    station::Kind,
    work::{Carries, Ends, Job, Leaves, Replica, named},
    zyzzyva::{self, Zyzzyva},
};
use crate::rng::mix;
use phalanx_bft::{
    Base, Batch, Domain, Index, Message as _, Protocol, Quorums, To,
    pbft::{self, Pbft},
};
use phalanx_world::{Facts, Line, Queue};
use std::sync::Arc;

/// Longest virtual time that a run waits for answers, in ns.
const LONGEST: u64 = 600_000_000_000;

/// Requests that arrive together. Clients share machines, and those send them in groups.
const GROUP: u64 = 50;

/// Batches between two checkpoints of PBFT.
const BURST: u64 = 128;

/// The primary of the whole run.
const PRIMARY: usize = 0;

#[derive(Debug)]
enum Event<P: Protocol> {
    /// Requests reach the primary: so many, sent at this time.
    Requests(u64, u64),
    /// A message reaches a node, with its length.
    Arrive(u16, Index, Arc<P::Msg>, u64),
    Done(u16, u16),
    /// Effects whose records are durable now.
    Durable(u16, Vec<Leaves<P>>),
    Timer(u16, P::Timer),
    /// An answer to a batch reaches its clients.
    Answer(u32),
    /// Clients of a batch lose patience, or their second phase ends.
    Patience(u32),
    Confirmed(u32),
    /// The next requests of an open loop.
    Tick,
}

struct World<P: Protocol> {
    setting: Setting,
    quorums: Quorums,
    queue: Queue<Event<P>>,
    replicas: Vec<Replica<P>>,
    /// A line per pair of nodes, if links have a bandwidth of their own.
    links: Vec<Line>,
    population: Population,
    batches: Vec<Batch>,
    messages: u64,
    trace: u64,
}

/// Runs a setting with its protocol.
///
/// # Errors
/// Names what is impossible about it.
pub fn run(setting: &Setting) -> Result<Outcome, &'static str> {
    setting.check()?;
    let quorums = Quorums::new(setting.n, (setting.n - 1) / 3).map_err(|_| "between 4 and 256 replicas")?;
    match setting.order {
        Order::Pbft => {
            let (timeout, resend) = (setting.timeout_ms * 1_000, setting.resend_ms * 1_000);
            let config = pbft::Config { timeout, resend, ..pbft::Config::new(quorums, Domain::default()) };
            run_protocol::<Pbft>(setting, config)
        }
        // Without an order, the protocol is asked nothing.
        Order::Zyzzyva | Order::Nothing => run_protocol::<Zyzzyva>(setting, zyzzyva::Config { quorums }),
    }
}

fn run_protocol<P: Facts>(setting: &Setting, config: P::Config) -> Result<Outcome, &'static str> {
    P::check(&config).map_err(|_| "constants of the protocol out of range")?;
    let mut world = World::<P>::new(*setting, &Arc::new(config));
    let round = match setting.clients {
        Clients::Closed(clients) => clients,
        Clients::Open(_) => 0,
    };
    // Every client is answered at least once, so that queues have the length that they keep. Batches come in bursts, one per
    // checkpoint, and a worker with tasks of all kinds takes them in long waves: many of both are measured.
    let bursts = if round > 0 { BURST * setting.batch } else { 0 };
    let uneven = setting.has_waves() || setting.waits();
    world.run_on(setting.warm_up_ms, if uneven { 2 * round } else { (round * 6 / 5).max(4 * bursts) });
    let began = world.queue.now();
    world.population.begin(began);
    let before: Vec<Vec<u64>> = world.replicas.iter().map(busy).collect();
    let rounds = match (setting.has_waves(), setting.waits()) {
        (true, _) => 20 * round,
        (false, true) => 4 * round,
        (false, false) => (round / 4).max(32 * bursts),
    };
    let completed = world.population.completed + rounds;
    world.run_on(setting.measured_ms, completed);
    Ok(world.outcome(began, &before))
}

/// Working time of every thread: job threads, outputs, inputs.
fn busy<P: Protocol>(replica: &Replica<P>) -> Vec<u64> {
    let lines = replica.outputs.iter().chain(&replica.inputs).map(|line| line.busy_ns);
    replica.threads.iter().map(|thread| thread.busy_ns).chain(lines).collect()
}

impl<P: Facts> World<P> {
    fn new(setting: Setting, config: &Arc<P::Config>) -> Self {
        let quorums = P::quorums(config);
        let n = if setting.order == Order::Nothing { 1 } else { setting.n };
        let mut queue = Queue::new();
        let mut replicas = Vec::new();
        for me in 0..n as u16 {
            let mut out = Vec::new();
            let protocol = P::open(Index(me), Arc::clone(config), Base::default(), &[], &mut out);
            replicas.push(Replica::new(protocol, &setting));
        }
        match setting.clients {
            // Clients begin one after the other, in a time that keeps waves small.
            Clients::Closed(clients) => {
                let groups = clients.div_ceil(GROUP);
                let within = match (setting.waits(), setting.has_waves()) {
                    (true, _) => setting.costs.patience_ns,
                    (false, true) => 1_000_000_000,
                    (false, false) => 100_000_000,
                };
                for group in 0..groups {
                    let (count, at) = (GROUP.min(clients - group * GROUP), group * within / groups);
                    queue.after(at, Event::Requests(count, at));
                }
            }
            Clients::Open(_) => queue.after(0, Event::Tick),
        }
        let mut population = Population::default();
        if let Clients::Closed(clients) = setting.clients {
            population.send(0, clients);
        }
        let links = if setting.costs.link_bandwidth == 0 { 0 } else { n * n };
        Self {
            setting,
            quorums,
            queue,
            replicas,
            links: vec![Line::default(); links],
            population,
            batches: Vec::new(),
            messages: 0,
            trace: 0,
        }
    }

    /// Runs for some time, and on until so many requests are answered.
    fn run_on(&mut self, ms: u64, completed: u64) {
        let mut end = self.queue.now() + ms * 1_000_000;
        let last = end + LONGEST;
        loop {
            while let Some(event) = self.queue.next(end) {
                self.happen(event);
            }
            if self.population.completed >= completed || end >= last {
                return;
            }
            end += 50_000_000;
        }
    }

    const fn note(&mut self, value: u64) {
        self.trace = mix(self.trace ^ value ^ self.queue.now().rotate_left(24));
    }

    const fn is_up(&self, node: usize) -> bool {
        node < self.setting.n - self.setting.down
    }

    /// Time of work on a machine whose polling threads share the cores.
    const fn stretched(&self, ns: u64) -> u64 {
        let Setting { cores, costs, .. } = &self.setting;
        if costs.polling_threads > *cores { (ns * costs.polling_threads).div_ceil(*cores) } else { ns }
    }

    fn happen(&mut self, event: Event<P>) {
        let now = self.queue.now();
        match event {
            Event::Requests(count, sent) => {
                self.note(count);
                self.push(PRIMARY, Kind::ClientInput, now, Job::Requests(count, sent));
            }
            Event::Tick => {
                if let Clients::Open(rate) = self.setting.clients {
                    self.population.send(now, GROUP);
                    self.queue.after(self.setting.costs.latency_ns, Event::Requests(GROUP, now));
                    self.queue.after((GROUP * 1_000_000_000 / rate).max(1), Event::Tick);
                }
            }
            Event::Arrive(to, from, message, bytes) => {
                self.note(message.label() ^ u64::from(to) << 40);
                self.messages += 1;
                let transfer = self.transfer(bytes, self.setting.costs.bandwidth);
                let call = self.stretched(self.setting.costs.system_call_ns);
                let replica = &mut self.replicas[usize::from(to)];
                let here = replica.ingress.serve(now, transfer);
                let ready = replica.inputs[usize::from(from.0) % 2].serve(here, call);
                let kind = match Carries::of::<P>(&message) {
                    Carries::Checkpoint => Kind::Checkpoint,
                    Carries::Batch | Carries::Vote => Kind::Worker,
                };
                self.push(usize::from(to), kind, ready, Job::Message(from, message));
            }
            Event::Done(node, thread) => self.done(usize::from(node), usize::from(thread)),
            Event::Durable(node, leaves) => {
                leaves.into_iter().for_each(|leaves| self.leave(usize::from(node), leaves));
            }
            Event::Timer(node, timer) => self.timer(usize::from(node), timer),
            Event::Answer(batch) => self.answer(batch),
            Event::Patience(batch) => {
                if self.population.oldest(batch).is_some() {
                    // A commit certificate to all and answers of a quorum: a second round trip.
                    self.queue.after(2 * self.setting.costs.latency_ns, Event::Confirmed(batch));
                }
            }
            Event::Confirmed(batch) => self.complete(batch),
        }
    }

    /// Gives a job to a thread.
    fn push(&mut self, node: usize, kind: Kind, ready: u64, job: Job<P>) {
        let replica = &mut self.replicas[node];
        let at = replica.thread(kind, &self.setting);
        replica.threads[at].push(ready, job);
        self.begin(node, at);
    }

    /// Lets a thread take its next job.
    fn begin(&mut self, node: usize, at: usize) {
        let now = self.queue.now();
        let Some((ready, job)) = self.replicas[node].threads[at].next() else { return };
        let mut ends = Ends::default();
        let cost = self.replicas[node].work(&self.setting, now / 1_000, job, &mut ends);
        let cost = self.stretched(cost);
        let done = self.replicas[node].threads[at].begin(now, ready, cost, ends);
        self.queue.after(done - now, Event::Done(node as u16, at as u16));
    }

    fn done(&mut self, node: usize, at: usize) {
        self.note((node as u64) << 8 ^ at as u64);
        if let Some(ends) = self.replicas[node].threads[at].end() {
            self.depart(node, ends);
        }
        if node == PRIMARY {
            self.propose();
        }
        self.begin(node, at);
    }

    /// Lets effects leave, those of the protocol when the log is durable.
    fn depart(&mut self, node: usize, ends: Ends<P>) {
        let (now, persist) = (self.queue.now(), self.setting.costs.persist_ns);
        if persist == 0 {
            ends.leaves.into_iter().for_each(|leaves| self.leave(node, leaves));
            return;
        }
        let disk = &mut self.replicas[node].disk;
        let at = if ends.logs { disk.append(now, persist) } else { disk.last(now, persist) };
        let waits = |leaves: &Leaves<P>| at > now && matches!(leaves, Leaves::Send(..) | Leaves::Execute(..));
        let (late, early): (Vec<_>, Vec<_>) = ends.leaves.into_iter().partition(waits);
        early.into_iter().for_each(|leaves| self.leave(node, leaves));
        if !late.is_empty() {
            self.queue.after(at - now, Event::Durable(node as u16, late));
        }
    }

    /// Proposes what is made.
    fn propose(&mut self) {
        let now = self.queue.now();
        if self.replicas[PRIMARY].made.is_empty() {
            return;
        }
        let mut ends = Ends::default();
        let decided = self.replicas[PRIMARY].propose(&self.setting, now / 1_000, &self.batches, &mut ends);
        self.depart(PRIMARY, ends);
        decided.into_iter().for_each(|job| self.push(PRIMARY, Kind::Worker, now, job));
    }

    fn leave(&mut self, node: usize, leaves: Leaves<P>) {
        let now = self.queue.now();
        match leaves {
            Leaves::Send(To::All, message, bytes) => {
                for to in (0..self.setting.n).filter(|to| *to != node) {
                    self.send(node, to, &message, bytes);
                }
            }
            Leaves::Send(To::One(to), message, bytes) => self.send(node, usize::from(to.0), &message, bytes),
            Leaves::Execute(slot, batch) => self.push(node, Kind::Execute, now, Job::Execute(slot, batch)),
            Leaves::Pool(count, sent) => {
                self.population.pool((count, sent));
                let size = if self.setting.order == Order::Nothing { count } else { self.setting.batch };
                while let Some(batch) = self.population.batch(size) {
                    self.batches.push(named(batch));
                    self.push(PRIMARY, Kind::Batch, now, Job::Make(batch, size));
                }
            }
            Leaves::Made(batch) => self.replicas[node].made.push_back(batch),
            Leaves::Answer(batch) => {
                // Each output thread serves half of the clients, in messages of a bundle.
                let (size, costs) = (self.population.size(batch), self.setting.costs);
                let cost = self.stretched(size.div_ceil(2 * costs.bundle) * costs.system_call_ns);
                let replica = &mut self.replicas[node];
                let sent = replica.outputs[0].serve(now, cost).max(replica.outputs[1].serve(now, cost));
                self.queue.after(sent - now + costs.latency_ns, Event::Answer(batch));
            }
            Leaves::Timer(timer, after) => {
                let watched = self.replicas[node].timers.get(&timer).map_or(u64::MAX, |(_, watched)| *watched);
                let at = now + after;
                self.replicas[node].timers.insert(timer, (at, watched.min(at)));
                if at < watched {
                    self.queue.after(after, Event::Timer(node as u16, timer));
                }
            }
        }
    }

    /// Looks at a timer: it may have been cancelled, or set again for later.
    fn timer(&mut self, node: usize, timer: P::Timer) {
        let now = self.queue.now();
        match self.replicas[node].timers.get_mut(&timer) {
            Some((at, watched)) if *at > now => {
                *watched = *at;
                let after = *at - now;
                self.queue.after(after, Event::Timer(node as u16, timer));
            }
            Some((at, _)) if *at == now => {
                self.replicas[node].timers.remove(&timer);
                self.push(node, Kind::Worker, now, Job::Timer(timer));
            }
            _ => {}
        }
    }

    const fn transfer(&self, bytes: u64, bandwidth: u64) -> u64 {
        bytes * 1_000_000_000 / bandwidth
    }

    fn send(&mut self, from: usize, to: usize, message: &Arc<P::Msg>, bytes: u64) {
        let costs = self.setting.costs;
        let (now, transfer) = (self.queue.now(), self.transfer(bytes, costs.bandwidth));
        let call = self.stretched(costs.system_call_ns);
        let sender = &mut self.replicas[from];
        let handed = sender.outputs[to % 2].serve(now, call);
        let mut left = sender.egress.serve(handed, transfer);
        if let Some(link) = self.links.get_mut(from * self.setting.n + to) {
            left = link.serve(left, bytes * 1_000_000_000 / costs.link_bandwidth);
        }
        if let Some(cut) = self.setting.cut.filter(|cut| cut.separates(left, from, to)) {
            match cut.fate {
                Fate::Lost => return,
                Fate::Held => left = cut.until_ms * 1_000_000,
            }
        }
        if self.is_up(to) {
            let arrive = Event::Arrive(to as u16, Index(from as u16), Arc::clone(message), bytes);
            self.queue.after(left + costs.latency_ns - now, arrive);
        }
    }

    fn answer(&mut self, batch: u32) {
        let answers = self.population.answer(batch);
        let needed = if self.setting.order == Order::Nothing { 1 } else { P::answers(self.quorums) };
        if answers == needed {
            self.complete(batch);
        } else if P::answers_late(self.quorums) == Some(answers)
            && let Some(oldest) = self.population.oldest(batch)
        {
            let patience = (oldest + self.setting.costs.patience_ns).saturating_sub(self.queue.now());
            self.queue.after(patience, Event::Patience(batch));
        }
    }

    /// Clients of a batch are answered, and a closed loop goes on.
    fn complete(&mut self, batch: u32) {
        let now = self.queue.now();
        for (count, _) in self.population.complete(now, batch) {
            if let Clients::Closed(_) = self.setting.clients {
                self.population.send(now, count);
                self.queue.after(self.setting.costs.latency_ns, Event::Requests(count, now));
            }
        }
    }

    fn outcome(mut self, began: u64, before: &[Vec<u64>]) -> Outcome {
        let now = self.queue.now();
        let (tps, latency_s, little) = self.population.measures(now);
        let utilisation = |node: usize| {
            let Some(replica) = self.replicas.get(node) else { return Utilisation::default() };
            let shares = busy(replica);
            let shares =
                shares.iter().zip(&before[node]).map(|(after, before)| (after - before) as f64 / (now - began) as f64);
            let shares: Vec<f64> = shares.collect();
            let threads = replica.threads.len();
            let of = |kind| {
                let shares = replica.threads.iter().zip(&shares).filter(|(thread, _)| thread.kind == kind);
                shares.map(|(_, share)| *share).fold(0.0, f64::max)
            };
            Utilisation {
                input: of(Kind::ClientInput),
                batch: of(Kind::Batch),
                worker: of(Kind::Worker),
                execute: of(Kind::Execute),
                checkpoint: of(Kind::Checkpoint),
                output: shares[threads..threads + 2].iter().copied().fold(0.0, f64::max),
                all: shares.iter().sum(),
            }
        };
        Outcome {
            tps,
            latency_s,
            primary: utilisation(PRIMARY),
            backup: utilisation(PRIMARY + 1),
            little,
            messages: self.messages,
            seconds: now as f64 / 1e9,
            trace: self.trace,
            series: self.population.series,
        }
    }
}

impl Cut {
    /// Returns true if the cut separates two nodes at a time in ns.
    fn separates(&self, at: u64, from: usize, to: usize) -> bool {
        let inside = |node: usize| self.group.contains(Index(node as u16));
        (self.from_ms * 1_000_000..self.until_ms * 1_000_000).contains(&at) && inside(from) != inside(to)
    }
}
