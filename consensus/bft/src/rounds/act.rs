//! Effects of a host, from the acts that the votes ask for.

#[cfg(feature = "mutations")]
use super::config::Mutation;
use super::{
    block::{Block, Cert, CertKind, Kept, Note, Offered, Place},
    message::{Certificate, Msg, Offer, Vote},
    protocol::{Job, Rounds, Timer},
    record::Record,
    replica::{Act, Due},
};
use crate::core::{Batch, Index, Out, Outs, Signed, Slot, Statement as _, View};
use alloy_primitives::{Address, B256};
use std::{collections::VecDeque, sync::Arc};

impl Rounds {
    /// Hands a verified note to the votes, and performs what follows.
    pub(super) fn hear(&mut self, from: Index, note: &Note<Offered>, out: &mut Outs<Self>) {
        #[cfg(feature = "mutations")]
        if self.config.breaks(Mutation::OrderVoteAfterNullify) {
            self.core.gave_up.clear();
        }
        let mut acts = Vec::new();
        self.core.on_message(from, note, &mut acts);
        self.act(acts, out);
    }

    /// Performs what the votes ask for, in order.
    pub(super) fn act(&mut self, acts: Vec<Act<Offered>>, out: &mut Outs<Self>) {
        #[cfg(feature = "mutations")]
        let mut late = Vec::new();
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Persist(kept) => {
                    if let Kept::Voted(block) = &kept {
                        self.tell(block, out);
                    }
                    if let Kept::OrderVoted(view, _) = &kept {
                        self.keep_certificate(*view, out);
                    }
                    #[cfg(feature = "mutations")]
                    if self.config.breaks(Mutation::VoteBeforeDurable) {
                        late.push(Out::Persist(Record::Voted(kept)));
                        continue;
                    }
                    out.push(Out::Persist(Record::Voted(kept)));
                }
                Act::Broadcast(note) => {
                    // The own block is heard like one of another; own votes are, once they are signed.
                    if let Note::Proposal(_) = &note {
                        let mut more = Vec::new();
                        self.core.on_message(self.me, &note, &mut more);
                        acts.extend(more);
                    }
                    self.say(note, out);
                }
                // Blocks are asked for by Msg::Fetch.
                Act::Send(..) => {}
                Act::Timer(_, patience) => {
                    self.patience = patience;
                    if std::mem::take(&mut self.view_runs) {
                        out.push(Out::Cancel(Timer::View));
                    }
                }
                Act::Build(due) => self.build(due, out),
                Act::Seen(block) => {
                    if self.core.has_order_voted(block.place.view, block.id) {
                        self.tell_order_vote(&block, out);
                    }
                }
                Act::OrderVoted(id) => {
                    if let Some(block) = self.core.blocks.get(&id).cloned() {
                        self.tell_order_vote(&block, out);
                    }
                }
                Act::Ordered(path, cert) => self.ordered(path, cert, out),
            }
        }
        #[cfg(feature = "mutations")]
        out.extend(late);
        self.leave_views(out);
    }

    /// Makes the certificate durable that an order vote in this view follows from.
    fn keep_certificate(&self, view: View, out: &mut Outs<Self>) {
        #[cfg(feature = "mutations")]
        if self.config.breaks(Mutation::ForgetCertificate) {
            return;
        }
        let known = [CertKind::Notarise, CertKind::Order].map(|kind| self.certificates.get(&(kind, view)));
        let known = known.into_iter().flatten().next().cloned();
        out.extend(known.map(|certificate| Out::Persist(Record::Certified(certificate))));
    }

    /// Signs and sends a note of this replica, or repeats it.
    fn say(&mut self, note: Note<Offered>, out: &mut Outs<Self>) {
        let vote = match note {
            Note::Proposal(block) => return Self::send(Msg::Proposal(block), out),
            Note::Cert(Cert { kind, view, .. }) => {
                let known = self.certificates.get(&(kind, view)).cloned();
                return known.into_iter().for_each(|certificate| Self::send(Msg::Certificate(certificate), out));
            }
            Note::WantBlock(id) => return Self::send(Msg::Fetch(id), out),
            Note::Vote(view, id) => Vote { kind: CertKind::Notarise, view, id },
            Note::OrderVote(view, id) => Vote { kind: CertKind::Order, view, id },
            Note::Nullify(view) => Vote { kind: CertKind::Nullify, view, id: B256::ZERO },
        };
        let own = self.votes.get(&(vote.kind, vote.view)).and_then(|votes| votes.get(&self.me));
        if let Some((_, signature)) = own {
            Self::send(Msg::Vote(Signed { signer: self.me, signature: signature.clone(), body: vote }), out);
        } else if !self.jobs.values().any(|job| *job == Job::Vote(vote)) {
            self.sign(Job::Vote(vote), vote.signed_bytes(self.config.domain), out);
        }
    }

    /// Notes a block to make. What failed at its place is proposed again, and if a view fails behind a block that is not ordered,
    /// an empty batch brings the order on though no client may ask for one.
    fn build(&mut self, due: Due<Offered>, out: &mut Outs<Self>) {
        let Place { view, parent, .. } = due.place;
        if self.core.proposed.get(&view).is_some_and(|parents| parents.len() > 1) {
            self.lose(out);
        }
        if let Some(parent) = self.core.blocks.get(&parent).cloned() {
            self.tell(&parent, out);
        }
        let stuck = parent != self.core.ordered().2 && self.core.nullified.contains(&view.saturating_sub(1));
        let filler = || Batch::new(0, Address::ZERO, Vec::new());
        match due.again.as_ref().map(|failed| failed.content.batch.clone()).or_else(|| stuck.then(filler)) {
            Some(batch) => self.offer(due.place, batch, out),
            None => drop(self.due.insert(view, due)),
        }
    }

    /// Proposes a client's batch in the first view that this replica may make a block for.
    pub(super) fn propose(&mut self, batch: Batch, out: &mut Outs<Self>) {
        let fits = !self.hold && batch.bytes() <= self.config.batch_bytes;
        match self.due.first_key_value().map(|(view, _)| *view).filter(|_| fits) {
            Some(view) => {
                let due = self.due.remove(&view);
                due.into_iter().for_each(|due| self.offer(due.place, batch.clone(), out));
            }
            None => out.push(Out::Returned(batch)),
        }
    }

    fn offer(&mut self, place: Place, batch: Batch, out: &mut Outs<Self>) {
        let bytes = Offer::new(&place, &batch).signed_bytes(self.config.domain);
        self.sign(Job::Offer(place, batch), bytes, out);
    }

    /// Sends a block that is signed.
    pub(super) fn on_offered(&mut self, place: Place, content: Offered, out: &mut Outs<Self>) {
        let mut acts = Vec::new();
        self.core.propose(Arc::new(Block::new(place, content)), &mut acts);
        self.act(acts, out);
    }

    /// Tells the host of a block and of its ancestors that are not ordered, oldest first. Returns false if one is unknown.
    fn tell(&mut self, block: &Arc<Block<Offered>>, out: &mut Outs<Self>) -> bool {
        let (_, height, ordered) = self.core.ordered();
        let mut path = Vec::new();
        let mut at = block;
        while at.id != ordered && self.told.get(&at.place.height) != Some(&at.id) {
            path.push(Arc::clone(at));
            // The height of a block that is only seen is unchecked.
            let below = at.place.height.checked_sub(1);
            if at.place.parent == ordered && below == Some(height) {
                break;
            }
            let parent = self.core.blocks.get(&at.place.parent).filter(|parent| parent.place.height > height);
            let Some(parent) = parent.filter(|parent| below == Some(parent.place.height)) else { return false };
            at = parent;
        }
        let first = path.last().map_or(Slot::MAX, |block| block.place.height);
        if self.told.range(first..).next().is_some() {
            // What the host speculated on gives way: what only it had is free to be proposed again.
            self.lost = self.core.view;
            self.told.clear();
            return self.tell(block, out);
        }
        for block in path.into_iter().rev() {
            self.told.insert(block.place.height, block.id);
            let view = block.place.view.max(self.core.view);
            let batch = Some(block.content.batch.clone());
            out.push(Out::Proposed { slot: block.place.height, view, batch });
        }
        true
    }

    /// An order vote belongs to the content that the host was told of last.
    fn tell_order_vote(&mut self, block: &Arc<Block<Offered>>, out: &mut Outs<Self>) {
        if self.tell(block, out) {
            out.push(Out::OrderVoted { slot: block.place.height, view: block.place.view });
        }
    }

    /// Proposals may be lost, except those on the way to the next block.
    fn lose(&mut self, out: &mut Outs<Self>) {
        self.lost = self.core.view;
        self.told.clear();
        let parent = self.core.notarised_parent().and_then(|(_, id)| self.core.blocks.get(&id)).cloned();
        if let Some(parent) = parent {
            self.tell(&parent, out);
        }
    }

    /// Drops what belongs to views that the replica has left. Proposals of a view without a block are lost.
    fn leave_views(&mut self, out: &mut Outs<Self>) {
        let view = self.core.view;
        if view == self.left {
            return;
        }
        let brings_block = view == self.left + 1 && self.core.notarised.contains_key(&self.left);
        self.left = view;
        self.due = self.due.split_off(&view);
        if !brings_block {
            self.lose(out);
        }
    }

    /// Blocks are ordered, oldest first.
    fn ordered(&mut self, path: Vec<Arc<Block<Offered>>>, cert: Cert, out: &mut Outs<Self>) {
        // The certificate is kept when its votes are counted, before the votes ask for this.
        let known = self.certificates.get(&(CertKind::Order, cert.view)).cloned();
        let vote = Vote { kind: CertKind::Order, view: cert.view, id: cert.id };
        let certificate = known.unwrap_or(Certificate { vote, signatures: Vec::new() });
        out.push(Out::Persist(Record::Ordered(path.clone(), certificate.clone())));
        for block in path {
            let slot = block.place.height;
            if slot > self.committed {
                out.push(Out::Decided { slot, batch: Some(block.content.batch.clone()) });
            }
            let certificate = (block.id == cert.id).then(|| certificate.clone());
            self.told = self.told.split_off(&(slot + 1));
            self.history.insert(slot, (block, certificate));
            if let Some(digest) = self.unnamed.remove(&slot) {
                self.on_committed(slot, digest, out);
            }
        }
        self.votes.retain(|(_, view), _| *view > cert.view);
        self.certificates.retain(|(_, view), _| *view >= cert.view);
        self.held.retain(|view, _| *view > cert.view);
        self.jobs.retain(|_, job| !matches!(job, Job::Vote(vote) if vote.view <= cert.view));
        self.try_stable(out);
    }
}
