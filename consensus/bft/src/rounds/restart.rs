//! Restart: the log decides the state of a replica after a crash.

#[cfg(feature = "mutations")]
use super::config::Mutation;
use super::{
    block::{Cert, Kept, Note},
    config::Config,
    message::{Certificate, Checkpoint, Vote},
    protocol::Rounds,
    record::Record,
    replica::Replica,
};
use crate::core::{Base, Budgets, Index, Out, Outs, ReplicaSet};
use std::{collections::BTreeMap, sync::Arc};

impl Rounds {
    /// The state that a log describes, on top of an executed `base`.
    pub(super) fn restored(me: Index, config: Arc<Config>, base: Base, log: &[Record]) -> Self {
        let settings = config.settings();
        let mut replica = Self {
            me,
            config,
            core: Replica::new(me, settings, Default::default(), &[]),
            votes: BTreeMap::new(),
            certificates: BTreeMap::new(),
            history: BTreeMap::new(),
            // Whatever the base, its checkpoint needs a proof before others believe it: peers send one.
            stable: Checkpoint::default(),
            proof: Vec::new(),
            checkpoints: BTreeMap::new(),
            committed: base.slot,
            unnamed: BTreeMap::new(),
            told: BTreeMap::new(),
            due: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: 0,
            accused: ReplicaSet::default(),
            pending: None,
            hold: false,
            held: BTreeMap::new(),
            lost: 0,
            left: 0,
            patience: settings.timeout_us,
            view_runs: false,
            repeated: 0,
            resend_runs: None,
            budgets: Budgets::default(),
        };
        let mut kept = Vec::new();
        for record in log {
            match record {
                Record::Voted(vote) => kept.push(vote.clone()),
                Record::Certified(certificate) => {
                    let Vote { kind, view, .. } = certificate.vote;
                    replica.certificates.insert((kind, view), certificate.clone());
                }
                Record::Ordered(path, certificate) => {
                    for block in path.iter().filter(|block| block.place.height > replica.stable.slot) {
                        let named = (block.id == certificate.vote.id).then(|| certificate.clone());
                        replica.history.insert(block.place.height, (Arc::clone(block), named));
                    }
                }
                Record::Announced(signed) => {
                    let own = replica.checkpoints.entry(me).or_default();
                    if own.last().is_none_or(|last| last.body.slot < signed.body.slot) {
                        own.push(signed.clone());
                    }
                }
                Record::Stable(checkpoint, proof) => {
                    (replica.stable, replica.proof) = (*checkpoint, proof.clone());
                    replica.history = replica.history.split_off(&(checkpoint.slot + 1));
                }
            }
        }
        let stable = replica.stable;
        replica.checkpoints.values_mut().for_each(|own| own.retain(|signed| signed.body.slot > stable.slot));
        replica.checkpoints.retain(|_, own| !own.is_empty());
        let last =
            replica.history.values().next_back().map(|(block, _)| (block.place.view, block.place.height, block.id));
        let ordered = last.unwrap_or((stable.view, stable.slot, stable.id));
        kept.retain(|kept| match kept {
            Kept::Voted(block) => block.place.view > ordered.0,
            Kept::OrderVoted(view, _) | Kept::Nullified(view) | Kept::Proposed(view, _) => *view > ordered.0,
        });
        #[cfg(feature = "mutations")]
        if replica.config.breaks(Mutation::ForgetNullified) {
            kept.retain(|kept| !matches!(kept, Kept::Nullified(_)));
        }
        replica.certificates.retain(|(_, view), _| *view > ordered.0);
        replica.core = Replica::new(me, settings, ordered, &kept);
        (replica.lost, replica.left, replica.repeated) = (replica.core.view, replica.core.view, ordered.1);
        replica
    }

    /// Tells the host what the log implies, and others that this replica is back.
    pub(super) fn resume(&mut self, out: &mut Outs<Self>) {
        for (slot, (block, _)) in self.history.range(self.committed + 1..) {
            out.push(Out::Decided { slot: *slot, batch: Some(block.content.batch.clone()) });
        }
        self.start(out);
        self.repeat(out);
        self.set_timers(out);
    }

    /// Lets the votes begin, with the certificates that are known.
    pub(super) fn start(&mut self, out: &mut Outs<Self>) {
        let mut acts = Vec::new();
        self.core.start(&mut acts);
        self.act(acts, out);
        let known: Vec<Cert> = self.certificates.values().map(Certificate::cert).collect();
        known.into_iter().for_each(|cert| self.hear(self.me, &Note::Cert(cert), out));
    }

    /// Records that restore this state.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        if self.stable.slot > 0 {
            records.push(Record::Stable(self.stable, self.proof.clone()));
        }
        let mut path = Vec::new();
        for (block, certificate) in self.history.values() {
            path.push(Arc::clone(block));
            if let Some(certificate) = certificate {
                records.push(Record::Ordered(std::mem::take(&mut path), certificate.clone()));
            }
        }
        let certified = self.certificates.iter().filter(|((_, view), _)| *view > self.core.ordered().0);
        records.extend(certified.map(|(_, certificate)| Record::Certified(certificate.clone())));
        records.extend(self.kept(self.core.ordered().0).into_iter().map(Record::Voted));
        records.extend(self.checkpoints.get(&self.me).into_iter().flatten().cloned().map(Record::Announced));
        records
    }
}
