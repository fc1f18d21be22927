//! The worker: the only thread that touches the protocol. It takes events, lets the node work, and carries out actions.

use super::{
    Clock, Shared,
    error::ReplicaError,
    keep::Folder,
    machine::{Embedder, Networked, Path, PoolChanges, Step},
    timers::Timers,
};
use crate::{
    client::{Follower, Notice, Reply},
    log::Log,
    peer::{Check, Inputs},
};
use alloy_primitives::Bytes;
use phalanx_adapter::Node;
use phalanx_bft::{Index, To};
use phalanx_engine_api::{ExecOutcome, ExecutionEngine, TxStatus};
use phalanx_host::{Action, Boundary, Change, Frame, Host, HostTimer};
use phalanx_pipeline::BlockMeta;
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Frames of one peer, and transactions of clients, per turn: everything else gets its turn between.
const BATCH: usize = 64;
/// Transactions of the embedder's pool per turn.
const MOST_READY: usize = 256;
/// Records that are not written yet from which on inputs have to wait.
const MOST_BACKLOG: u64 = 8_192;
/// Newest notices that are kept encoded for the clients that follow.
const MOST_NOTICES: usize = 512;
/// Notices that are made anew for clients per turn, at most: each hashes the transactions of its block.
const MOST_MADE: usize = 16;
/// Time for which a replica whose epoch is over answers others, in µs.
const LINGER: u64 = 300_000;
/// Longest sleep, in µs: a bound on the harm of a lost wake-up.
const MOST_SLEEP: u64 = 50_000;

/// The worker of a replica.
pub(super) struct Worker<P: Networked, E> {
    node: Node<E, Host<P>>,
    step: Option<Step>,
    embedder: Box<dyn Embedder>,
    /// Check of clients' transactions, if no batch thread does it.
    check: Option<Check>,
    log: Log<P::Record>,
    clock: Clock,
    shared: Arc<Shared>,
    inputs: Arc<Inputs<P::Msg>>,
    folder: Folder,
    timers: Timers<HostTimer<P::Timer>>,
    followers: Vec<Follower>,
    /// Encoded notices of consecutive heights, and the height of the first.
    notices: VecDeque<Bytes>,
    first_notice: u64,
    committed: u64,
    durable: u64,
    /// Time at which the replica ends, because its epoch is over, and the reason in words.
    leaves: Option<(u64, ReplicaError)>,
}

impl<P: Networked, E: ExecutionEngine> Worker<P, E> {
    pub(super) fn new(
        node: Node<E, Host<P>>,
        (step, embedder): (Option<Step>, Box<dyn Embedder>),
        check: Option<Check>,
        log: Log<P::Record>,
        clock: Clock,
        (shared, inputs): (Arc<Shared>, Arc<Inputs<P::Msg>>),
        folder: Folder,
    ) -> Self {
        let committed = node.engine().status().committed.height;
        Self {
            node,
            step,
            embedder,
            check,
            log,
            clock,
            shared,
            inputs,
            folder,
            timers: Timers::new(),
            followers: Vec::new(),
            notices: VecDeque::new(),
            first_notice: committed + 1,
            committed,
            durable: 0,
            leaves: None,
        }
    }

    /// Works until the replica is stopped or cannot go on.
    pub(super) fn run(mut self) -> Result<(), ReplicaError> {
        let ended = self.work();
        // The pipeline describes conflicts that it finds; the host's have the cause alone.
        if let Err(ReplicaError::Halted(cause)) = &ended {
            self.folder.keep_cause(cause)?;
        }
        if let Err(why) = &ended {
            self.embedder.ended(why);
        }
        ended
    }

    fn work(&mut self) -> Result<(), ReplicaError> {
        // Of a chain that stands still, too.
        self.take_snapshot();
        while !self.shared.stopped.load(Relaxed) {
            if self.turn()? {
                continue;
            }
            let now = self.clock.now();
            let due = [self.timers.next(), self.node.due()].into_iter().flatten().min();
            let due = due.unwrap_or(u64::MAX).min(now + MOST_SLEEP);
            if due > now {
                self.shared.bell.wait(self.clock.at(due));
            }
        }
        Ok(())
    }

    /// Takes what has come, and works it off. Returns true if there was any.
    fn turn(&mut self) -> Result<bool, ReplicaError> {
        if let Some(error) = self.log.failure() {
            return Err(ReplicaError::Write(error));
        }
        self.leave()?;
        let mut active = self.tell_durable();
        if self.log.backlog() < MOST_BACKLOG {
            active |= self.take_frames();
            active |= self.take_txs() | self.follow_pool();
        }
        let now = self.clock.now();
        while let Some(timer) = self.timers.pop(now) {
            self.node.consensus().on_timer(now, timer);
            active = true;
        }
        loop {
            let polled = self.node.poll(self.clock.now());
            let stepped = self.step.as_mut().is_some_and(|step| step());
            let actions = self.node.consensus().take_actions();
            let any = !actions.is_empty();
            for action in actions {
                self.act(action)?;
            }
            if !polled.map_err(ReplicaError::Halted)? && !stepped && !any {
                break;
            }
            active = true;
        }
        active |= self.serve_followers();
        if active {
            self.note_status();
        }
        Ok(active)
    }

    fn tell_durable(&mut self) -> bool {
        let durable = self.log.durable();
        if durable <= self.durable {
            return false;
        }
        self.durable = durable;
        self.node.consensus().durable(self.clock.now(), durable);
        true
    }

    fn take_frames(&mut self) -> bool {
        let mut active = false;
        for _ in 0..BATCH {
            let mut any = false;
            for (peer, queue) in self.inputs.queues.iter().enumerate() {
                let Some(frame) = queue.try_pop() else { continue };
                self.node.consensus().on_frame(self.clock.now(), Index(peer as u16), frame);
                any = true;
            }
            if !any {
                break;
            }
            active = true;
        }
        active
    }

    fn take_txs(&mut self) -> bool {
        let clients = &self.shared.clients;
        let queue = if self.check.is_some() { &clients.raw } else { &clients.checked };
        let txs = queue.try_pop_together((BATCH, usize::MAX));
        let active = !txs.is_empty();
        let admitted = self.check.as_ref().map_or_else(|| vec![true; txs.len()], |check| check(&txs));
        for (tx, _) in txs.into_iter().zip(admitted).filter(|(_, admitted)| *admitted) {
            self.node.consensus().submit(self.clock.now(), tx);
        }
        active
    }

    /// Takes the changes of the embedder's pool.
    fn follow_pool(&mut self) -> bool {
        let PoolChanges { ready, dropped } = self.embedder.changes(MOST_READY);
        let active = !ready.is_empty() || !dropped.is_empty();
        for tx in ready {
            self.node.consensus().offer(self.clock.now(), tx);
        }
        if !dropped.is_empty() {
            self.node.consensus().withdraw(self.clock.now(), &dropped);
        }
        active
    }

    fn act(&mut self, action: Action<P>) -> Result<(), ReplicaError> {
        match action {
            Action::Append(number, record) => {
                self.log.append(number, record);
                self.tell_durable();
            }
            Action::Send(to, frame) => self.send(to, &frame),
            Action::Timer(timer, after) => self.timers.set(timer, self.clock.now().saturating_add(after)),
            Action::Cancel(timer) => self.timers.cancel(timer),
            Action::Committed(meta, outcome) => {
                self.note_block(meta, &outcome);
                self.embedder.committed(meta.height).map_err(ReplicaError::Embedder)?;
                self.take_snapshot();
            }
            // Other clients believe equal notices of f+1 replicas.
            Action::Certified { slot, in_epoch, digest, signature, answers } => {
                let notice = usize::try_from(slot.wrapping_sub(self.first_notice)).ok();
                let notice = notice.and_then(|at| self.notices.get(at));
                let sent = self.shared.clients.awaited.answer(in_epoch, digest, &signature, notice, answers);
                let mut status = self.shared.status.lock();
                status.certificates += 1;
                status.acknowledged += sent;
            }
            Action::Stable(_) => self.compact(),
            Action::Evidence(against, proof) => {
                self.folder.keep_evidence(against, &proof)?;
                self.shared.status.lock().evidence += 1;
            }
            Action::Forged(peer) => {
                self.inputs.shut_out(peer);
                self.shared.status.lock().forgers = self.inputs.forgers();
            }
            Action::Ended(boundary) => self.keep_boundary(*boundary)?,
            Action::Behind(height) => return Err(ReplicaError::Behind { height }),
            Action::Halted(incident) => self.folder.keep_incident(&incident)?,
        }
        Ok(())
    }

    /// Keeps the proof that the epoch is over. Others may need the last votes for a while.
    fn keep_boundary(&mut self, boundary: Boundary) -> Result<(), ReplicaError> {
        self.folder.keep_boundary(&boundary)?;
        let Change { epoch, network } = boundary.change;
        self.leaves =
            Some((self.clock.now() + LINGER, ReplicaError::Ended { epoch, height: boundary.slot(), network }));
        self.shared.clients.boundaries.lock().insert(epoch, boundary);
        Ok(())
    }

    /// Leaves an epoch that is over, also one that others have ended.
    fn leave(&mut self) -> Result<(), ReplicaError> {
        let passed = self.shared.passed.lock().take();
        if let Some(boundary) = passed.filter(|_| self.leaves.is_none()) {
            self.keep_boundary(boundary)?;
        }
        let now = self.clock.now();
        self.leaves.take_if(|(at, _)| *at <= now).map_or(Ok(()), |(_, ended)| Err(ended))
    }

    /// Offers the state of the newest committed block to others, if it is its turn.
    fn take_snapshot(&self) {
        let (host, offers, height) = (self.node.peek(), &self.shared.clients.offers, self.committed);
        if !offers.is_due(height, host.base().slot) {
            return;
        }
        let certificate = self.node.engine().committed_at(height).and_then(|tip| tip.meta.state_certificate);
        // A block that a checkpoint alone certifies has no votes to show: the next one may.
        if let Some(block) = host.certified(height, &certificate.unwrap_or_default()) {
            offers.take(block);
            self.shared.status.lock().snapshots = offers.heights();
        }
    }

    fn send(&self, to: To, frame: &Frame<P::Msg>) {
        if matches!(frame, Frame::WantBlocks(_)) {
            self.shared.status.lock().transfers += 1;
        }
        let body = Bytes::from(alloy_rlp::encode(frame));
        match to {
            To::All => self.shared.outputs.values().for_each(|output| output.push(body.clone())),
            To::One(peer) => {
                if let Some(output) = self.shared.outputs.get(&peer) {
                    output.push(body);
                }
            }
        }
    }

    fn compact(&mut self) {
        if !self.log.is_long() {
            return;
        }
        if let Some((number, records)) = self.node.peek().compacted() {
            self.log.replace(number, records);
            self.shared.status.lock().compactions += 1;
        }
    }

    /// Leader of the protocol, for notices.
    fn leader(&self) -> u16 {
        self.node.peek().protocol().map_or(0, |protocol| protocol.proposer().0)
    }

    /// Way to the decision of a height, as far as the protocol tells.
    fn path(&self, height: u64) -> Option<Path> {
        let host = self.node.peek();
        host.protocol().zip(host.slot_of(height)).and_then(|(protocol, slot)| protocol.path(slot))
    }

    fn note_block(&mut self, meta: BlockMeta, outcome: &ExecOutcome) {
        self.committed = meta.height;
        match self.path(meta.height) {
            Some(Path::Fast) => self.shared.status.lock().fast += 1,
            Some(Path::Slow) => self.shared.status.lock().slow += 1,
            None => {}
        }
        let Some(bytes) = self.notice(meta.height, &outcome.txs) else { return };
        // Heights come in order; a gap would begin anew.
        if self.first_notice + self.notices.len() as u64 != meta.height {
            self.notices.clear();
            self.first_notice = meta.height;
        }
        self.notices.push_back(bytes);
        if self.notices.len() > MOST_NOTICES {
            self.notices.pop_front();
            self.first_notice += 1;
        }
    }

    /// The encoded notice of a retained block.
    fn notice(&self, height: u64, statuses: &[TxStatus]) -> Option<Bytes> {
        let block = self.node.peek().retained(height)?;
        let path = match self.path(height) {
            Some(Path::Fast) => 1,
            Some(Path::Slow) => 2,
            None => 0,
        };
        let notice = Notice::new(&block, statuses, self.leader(), path);
        Some(alloy_rlp::encode(Reply::Block(notice)).into())
    }

    /// Sends followers what they have not got, as far as their queues have room. Returns true if there is more to send.
    fn serve_followers(&mut self) -> bool {
        Follower::merge(&mut self.followers, &mut self.shared.clients.follow.lock());
        let mut followers = core::mem::take(&mut self.followers);
        let (mut made, mut more) = (0, false);
        for follower in &mut followers {
            let end = self.committed.min(follower.next.saturating_add(BATCH as u64 - 1));
            let mut has_room = true;
            while has_room && follower.next <= end && made < MOST_MADE {
                let oldest = self.node.peek().base().slot + 1;
                let at = follower.next.checked_sub(self.first_notice).and_then(|at| usize::try_from(at).ok());
                let (reply, next) = match at.and_then(|at| self.notices.get(at)) {
                    Some(notice) => (notice.clone(), follower.next + 1),
                    None if follower.next < oldest => (alloy_rlp::encode(Reply::Pruned(oldest)).into(), oldest),
                    None => match self.notice(follower.next, &[]) {
                        Some(notice) => {
                            made += 1;
                            (notice, follower.next + 1)
                        }
                        // Committed before this start, and its outcome is not in the log.
                        None => (alloy_rlp::encode(Reply::Pruned(follower.next + 1)).into(), follower.next + 1),
                    },
                };
                has_room = follower.queue.try_push(reply.len(), reply);
                if has_room {
                    follower.next = next;
                }
            }
            // A client without room rings the bell when it has read.
            more |= has_room && follower.next <= self.committed;
        }
        // Another one comes first next time: one with a long way to go keeps no other waiting.
        if !followers.is_empty() {
            followers.rotate_left(1);
        }
        self.followers = followers;
        more
    }

    fn note_status(&self) {
        let host = self.node.peek();
        let mut status = self.shared.status.lock();
        (status.committed, status.decided) = (self.committed, host.decided_slot());
        status.silent = host.is_silent();
        if let Some(protocol) = host.protocol() {
            (status.view, status.leader) = (protocol.highest_view(), protocol.proposer().0);
        }
    }
}
