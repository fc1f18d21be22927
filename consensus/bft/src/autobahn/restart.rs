//! Restart: the log decides the state of a replica after a crash.

use super::{
    certificate::Qc,
    config::Config,
    message::Msg,
    quota::Quota,
    record::Record,
    replica::{Autobahn, Job},
    state::{Checkpoints, Questions, Said, Timers},
    statement::{Ack, Mark, PrepVote, Timeout},
};
use crate::{
    core::{Base, Budgets, Index, Jobs, Out, Outs, ReplicaSet, Slot, To, Want},
    lanes::{Lanes, cut_digest},
};
use std::{collections::BTreeMap, sync::Arc};

impl Autobahn {
    /// The state that a log describes.
    pub(super) fn restored(me: Index, config: Arc<Config>, log: &[Record]) -> Self {
        let lanes = Lanes::new(me, config.quorums, (config.ahead, config.ahead_bytes));
        let quota = Quota::new(config.parallel);
        let mut replica = Self {
            me,
            config,
            lanes,
            slots: BTreeMap::new(),
            done: 0,
            height: 0,
            top: 0,
            plan: Vec::new(),
            questions: Questions::default(),
            checkpoints: Checkpoints::default(),
            timers: Timers::default(),
            jobs: Jobs::default(),
            budgets: Budgets::default(),
            quota,
            accused: ReplicaSet::default(),
            hold: false,
        };
        // Votes on cars are relative to the committed ones: the last checkpoint first.
        let stable = log.iter().filter_map(|record| match record {
            Record::Stable(proof) => proof.first().map(|signed| (signed.body.clone(), proof.clone())),
            _ => None,
        });
        for (body, proof) in stable {
            replica.checkpoints.older = std::mem::replace(&mut replica.checkpoints.stable, body);
            replica.checkpoints.proof = proof;
        }
        let body = replica.checkpoints.stable.clone();
        replica.jump(&body);
        log.iter().for_each(|record| replica.replay(record));
        replica.forget();
        replica
    }

    fn replay(&mut self, record: &Record) {
        match record {
            Record::Car(car) => drop(self.lanes.keep(car.clone())),
            Record::LaneVote(vote) => self.lanes.note_vote(*vote),
            Record::Cut(slot, cut) => drop(self.slot(*slot).cuts.insert(cut_digest(cut), cut.clone())),
            Record::Voted(vote) => {
                let state = self.slot(vote.slot);
                state.seen = true;
                let instance = &mut state.instance;
                instance.restore(vote.view);
                instance.voted = Mark { view: vote.view, digest: vote.digest };
            }
            Record::Acked(qc) => {
                let state = self.slot(qc.slot);
                state.seen = true;
                let instance = &mut state.instance;
                instance.restore(qc.view);
                (instance.acked, instance.locked) = (Some(qc.view), Some(qc.clone()));
            }
            Record::Complained(slot, view) => {
                let instance = &mut self.slot(*slot).instance;
                instance.restore(*view);
                instance.gone = Some(*view);
            }
            Record::Ticket(tc) => {
                let config = Arc::clone(&self.config);
                if let Some((slot, view)) = tc.of(&config) {
                    let instance = &mut self.slot(slot).instance;
                    instance.restore(view + 1);
                    if instance.view == view + 1 {
                        instance.ticket = Some(tc.clone());
                    }
                }
            }
            Record::Committed(qc) => {
                self.top = self.top.max(qc.slot);
                self.slot(qc.slot).instance.committed = Some(qc.clone());
            }
            Record::Announced(signed) => {
                if self.wants_checkpoint(signed) {
                    self.checkpoints.newest.insert(self.me, signed.clone());
                }
            }
            Record::Stable(_) => {}
        }
    }

    /// Tells the host what the log implies, and others that this replica is back. `base` is what the host has executed.
    pub(super) fn resume(&mut self, base: Base, out: &mut Outs<Self>) {
        self.checkpoints.outcomes.insert(base.slot, base.digest);
        if base.slot < self.checkpoints.stable.height {
            out.push(Out::Want(Want::state(self.checkpoints.stable.base(), &self.checkpoints.proof)));
        }
        // Votes and complaints of open slots are made again: signatures are not logged.
        let open: Vec<Slot> = self.slots.range(self.checkpoints.stable.slot + 1..).map(|(slot, _)| *slot).collect();
        for slot in open {
            let instance = &self.slot(slot).instance;
            if instance.committed.is_some() {
                continue;
            }
            let (view, gone, acked) = (instance.view, instance.gone, instance.acked);
            let (voted, locked, ticket) = (instance.voted, instance.locked.clone(), instance.ticket.clone());
            let has_ticket = view == 0 || ticket.is_some();
            if let Some(tc) = ticket {
                self.slot(slot).said.insert(Said::Tc, (To::All, Msg::Tc(tc)));
            }
            if let Some((of, digest)) = voted.get().filter(|(of, _)| *of == view && gone != Some(view)) {
                let vote = PrepVote { slot, view: of, digest };
                // A leader proposes again what it has voted for.
                let cut = self
                    .slot(slot)
                    .cuts
                    .get(&digest)
                    .cloned()
                    .filter(|_| has_ticket && self.config.leader(slot, view) == self.me);
                match cut {
                    Some(cut) => {
                        self.slot(slot).led = Some(view);
                        let proofs = self.proofs(&cut);
                        self.sign(Job::Lead(vote, cut, proofs), out);
                    }
                    None => self.sign(Job::Vote(vote), out),
                }
            }
            if let Some(qc) = locked.as_ref().filter(|qc| acked == Some(view) && qc.view == view && gone != Some(view))
            {
                let ack = Ack { slot, view, digest: qc.digest };
                self.sign(Job::Ack(ack), out);
            }
            if let Some(view) = gone.filter(|gone| *gone == view) {
                let qc = locked.as_ref().map(Qc::mark).unwrap_or_default();
                self.sign(Job::Timeout(Timeout { slot, view, qc, prop: voted }), out);
            }
        }
        // Blocks that the host has executed are not announced again.
        let mut again = Vec::new();
        self.advance(&mut again);
        out.extend(again.into_iter().filter(|effect| match effect {
            Out::Decided { slot, .. } | Out::Proposed { slot, .. } | Out::OrderVoted { slot, .. } => *slot > base.slot,
            _ => true,
        }));
        self.repeat(out);
        self.set_timers(out);
    }

    /// Records that restore this state.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        if !self.checkpoints.proof.is_empty() {
            records.push(Record::Stable(self.checkpoints.proof.clone()));
        }
        records.extend(self.lanes.cars().cloned().map(Record::Car));
        records.extend(self.lanes.own_votes().map(Record::LaneVote));
        for (slot, state) in &self.slots {
            let instance = &state.instance;
            records.extend(state.cuts.values().map(|cut| Record::Cut(*slot, cut.clone())));
            records.extend(instance.ticket.iter().cloned().map(Record::Ticket));
            if let Some((view, digest)) = instance.voted.get() {
                records.push(Record::Voted(PrepVote { slot: *slot, view, digest }));
            }
            records.extend(
                instance.locked.iter().filter(|qc| Some(qc.view) == instance.acked).cloned().map(Record::Acked),
            );
            records.extend(instance.gone.map(|view| Record::Complained(*slot, view)));
            records.extend(instance.committed.iter().cloned().map(Record::Committed));
        }
        records.extend(self.checkpoints.newest.get(&self.me).cloned().map(Record::Announced));
        records
    }
}
