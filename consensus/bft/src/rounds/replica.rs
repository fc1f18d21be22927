//! State of a replica, and the notes that change it.

use super::block::{Block, Cert, CertKind, Content, Kept, Note, Place};
use crate::core::{Index, ReplicaSet, View};
use alloy_primitives::B256;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of proposals kept per view: an honest leader makes at most two.
pub(super) const PROPOSALS: usize = 4;
/// Maximum number of views ahead of its own that a replica accepts messages for, and a leader proposes in.
pub(super) const AHEAD: u64 = 16;

/// Constants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of replicas.
    pub n: u32,
    /// Maximum number of faulty ones; n is at least 3f+1.
    pub f: u32,
    /// Number of consecutive views of a leader; 1 rotates every view.
    pub term: u64,
    /// Timeout of a view, in µs; it grows while views fail.
    pub timeout_us: u64,
    /// True if leaders propose on blocks that are not notarised yet.
    pub optimistic_proposals: bool,
}

impl Settings {
    /// Number of votes of a quorum: ⌈(n+f+1)/2⌉.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        (self.n + self.f + 1).div_ceil(2) as usize
    }

    /// Leader of a view.
    #[must_use]
    pub const fn leader(&self, view: View) -> Index {
        Index(((view / self.term) % self.n as u64) as u16)
    }
}

/// A block that the leader has to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<C> {
    /// Place of the block.
    pub place: Place,
    /// Block that failed at this place: its content is reused.
    pub again: Option<Arc<Block<C>>>,
}

/// Action that the protocol requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act<C> {
    /// Write to the log, before anything that follows.
    Persist(Kept<C>),
    /// Send to all replicas, itself included.
    Broadcast(Note<C>),
    /// Send to one replica.
    Send(Index, Note<C>),
    /// Call [`Replica::on_timeout`] with this view after this time, in µs.
    Timer(View, u64),
    /// Make a block and hand it to [`Replica::propose`].
    Build(Due<C>),
    /// A block that may be ordered.
    Seen(Arc<Block<C>>),
    /// The own order vote is in the log.
    OrderVoted(B256),
    /// These blocks are ordered, oldest first; the certificate names the last.
    Ordered(Vec<Arc<Block<C>>>, Cert),
}

/// A replica.
#[derive(Clone, Debug)]
pub struct Replica<C> {
    pub(super) me: Index,
    pub(super) settings: Settings,
    pub(super) view: u64,
    pub(super) blocks: BTreeMap<B256, Arc<Block<C>>>,
    pub(super) proposals: BTreeMap<u64, Vec<B256>>,
    pub(super) votes: BTreeMap<(CertKind, u64, B256), ReplicaSet>,
    pub(super) notarised: BTreeMap<u64, B256>,
    pub(super) nullified: BTreeSet<u64>,
    pub(super) voted: BTreeMap<u64, B256>,
    pub(super) order_voted: BTreeMap<u64, B256>,
    pub(super) gave_up: BTreeSet<u64>,
    /// Parents that this replica has proposed on, per view.
    pub(super) proposed: BTreeMap<u64, BTreeSet<B256>>,
    /// Newest ordered block.
    pub(super) ordered: (u64, u64, B256),
    /// Newest order certificate, even if its block is unknown.
    pub(super) last_cert: Option<Cert>,
}

impl<C: Content> Replica<C> {
    /// Restores a replica from its log, on top of an ordered block (view, height, name).
    #[must_use]
    pub fn new(me: Index, settings: Settings, ordered: (u64, u64, B256), log: &[Kept<C>]) -> Self {
        let mut replica = Self {
            me,
            settings,
            view: ordered.0 + 1,
            blocks: BTreeMap::new(),
            proposals: BTreeMap::new(),
            votes: BTreeMap::new(),
            notarised: BTreeMap::from([(ordered.0, ordered.2)]),
            nullified: BTreeSet::new(),
            voted: BTreeMap::new(),
            order_voted: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            proposed: BTreeMap::new(),
            ordered,
            last_cert: None,
        };
        for record in log {
            match record {
                Kept::Voted(block) => {
                    replica.voted.insert(block.place.view, block.id);
                    if block.place.view > ordered.0 {
                        replica.proposals.entry(block.place.view).or_default().push(block.id);
                        replica.blocks.insert(block.id, block.clone());
                    }
                }
                Kept::OrderVoted(view, id) => drop(replica.order_voted.insert(*view, *id)),
                Kept::Nullified(view) => drop(replica.gave_up.insert(*view)),
                Kept::Proposed(view, parent) => {
                    replica.proposed.entry(*view).or_default().insert(*parent);
                }
            }
        }
        replica
    }

    /// Current view.
    #[must_use]
    pub const fn view(&self) -> u64 {
        self.view
    }

    /// View, height and name of the newest ordered block.
    #[must_use]
    pub const fn ordered(&self) -> (u64, u64, B256) {
        self.ordered
    }

    /// True if the replica has sent an order vote for this block.
    #[must_use]
    pub fn has_order_voted(&self, view: u64, id: B256) -> bool {
        self.order_voted.get(&view) == Some(&id)
    }

    /// Enters the first view.
    pub fn start(&mut self, out: &mut Vec<Act<C>>) {
        out.push(Act::Timer(self.view, self.patience()));
        out.extend(self.blocks.values().cloned().map(Act::Seen));
        self.advance(out);
    }

    /// Processes a note.
    pub fn on_message(&mut self, from: Index, msg: &Note<C>, out: &mut Vec<Act<C>>) {
        if u32::from(from.0) >= self.settings.n {
            return;
        }
        // Most votes are one of many and change nothing yet.
        let news = match msg {
            Note::Vote(view, id) => self.count(CertKind::Notarise, *view, *id, from, out),
            Note::OrderVote(view, id) => self.count(CertKind::Order, *view, *id, from, out),
            Note::Nullify(view) => self.count(CertKind::Nullify, *view, B256::ZERO, from, out),
            Note::Proposal(block) => {
                self.learn(block, out);
                true
            }
            Note::Cert(cert) => {
                self.accept(*cert, out);
                true
            }
            Note::WantBlock(id) => {
                if let Some(block) = self.blocks.get(id) {
                    out.push(Act::Send(from, Note::Proposal(block.clone())));
                }
                false
            }
        };
        if news {
            self.advance(out);
        }
    }

    /// Gives a view up after its timeout.
    pub fn on_timeout(&mut self, view: u64, out: &mut Vec<Act<C>>) {
        if view != self.view {
            return;
        }
        if !self.order_voted.contains_key(&view) && self.gave_up.insert(view) {
            out.push(Act::Persist(Kept::Nullified(view)));
        }
        self.resend(out);
        out.push(Act::Timer(view, self.patience()));
    }

    /// True if a block is ordered and some of its ancestors are unknown.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.last_cert.is_some_and(|cert| cert.view > self.ordered.0)
    }

    /// Applies ordered blocks, oldest first, and the certificate of the last.
    pub fn sync(&mut self, blocks: &[Arc<Block<C>>], cert: Cert, out: &mut Vec<Act<C>>) {
        for block in blocks.iter().filter(|block| block.place.view > self.ordered.0) {
            if self.blocks.insert(block.id, block.clone()).is_none() {
                self.proposals.entry(block.place.view).or_default().push(block.id);
            }
        }
        self.accept(cert, out);
        self.advance(out);
    }

    /// Proposes a block that was made because it was [`Due`].
    pub fn propose(&mut self, block: Arc<Block<C>>, out: &mut Vec<Act<C>>) {
        out.push(Act::Persist(Kept::Proposed(block.place.view, block.place.parent)));
        out.push(Act::Broadcast(Note::Proposal(block)));
    }

    /// Repeats all messages since the newest ordered block that peers may have missed, and requests missing blocks.
    pub fn resend(&self, out: &mut Vec<Act<C>>) {
        let after = self.ordered.0;
        if let Some(cert) = self.last_cert {
            out.push(Act::Broadcast(Note::Cert(cert)));
        }
        for ((kind, view, id), signers) in &self.votes {
            if *view > after && signers.len() >= self.settings.quorum() {
                out.push(Act::Broadcast(Note::Cert(Cert { kind: *kind, view: *view, id: *id, signers: *signers })));
            }
        }
        for (view, id) in self.voted.range(after + 1..) {
            if let Some(block) = self.blocks.get(id) {
                out.push(Act::Broadcast(Note::Proposal(block.clone())));
            }
            out.push(Act::Broadcast(Note::Vote(*view, *id)));
        }
        for (view, id) in self.order_voted.range(after + 1..) {
            out.push(Act::Broadcast(Note::OrderVote(*view, *id)));
        }
        for view in self.gave_up.range(after + 1..) {
            out.push(Act::Broadcast(Note::Nullify(*view)));
        }
        for (view, ids) in self.proposals.range(after + 1..) {
            if self.settings.leader(*view) == self.me {
                for block in ids.iter().filter_map(|id| self.blocks.get(id)) {
                    out.push(Act::Broadcast(Note::Proposal(block.clone())));
                }
            }
        }
        for id in self.notarised.values().filter(|id| !self.blocks.contains_key(*id) && **id != self.ordered.2) {
            out.push(Act::Broadcast(Note::WantBlock(*id)));
        }
    }

    /// Keeps a block if it may matter.
    fn learn(&mut self, block: &Arc<Block<C>>, out: &mut Vec<Act<C>>) {
        let proper = block.place.author == self.settings.leader(block.place.view)
            && block.place.parent_view < block.place.view
            && block.place.view > self.ordered.0;
        if !proper || self.blocks.contains_key(&block.id) {
            return;
        }
        let vouched = self.is_vouched(block.id, block.place.view);
        let known = self.proposals.entry(block.place.view).or_default();
        if !vouched && (known.len() == PROPOSALS || block.place.view > self.view + AHEAD) {
            return;
        }
        known.push(block.id);
        self.blocks.insert(block.id, block.clone());
        out.push(Act::Seen(block.clone()));
        if let Some(cert) = self.last_cert {
            self.try_order(cert, out);
        }
    }

    /// True if a quorum has named the block, or a block that builds on it.
    pub(super) fn is_vouched(&self, id: B256, view: View) -> bool {
        let named = |id: B256, view: View| {
            self.notarised.get(&view) == Some(&id) || self.last_cert.is_some_and(|cert| cert.id == id)
        };
        // Views grow from parent to child, so that the walk ends.
        let mut above = vec![(id, view)];
        while let Some((id, view)) = above.pop() {
            if named(id, view) {
                return true;
            }
            let children = self.blocks.values().filter(|child| child.place.parent == id && child.place.view > view);
            above.extend(children.map(|child| (child.id, child.place.view)));
        }
        false
    }

    /// Counts a vote. Returns true if it completes a quorum.
    fn count(&mut self, kind: CertKind, view: u64, id: B256, from: Index, out: &mut Vec<Act<C>>) -> bool {
        if view <= self.ordered.0 || view > self.view + AHEAD * 4 {
            return false;
        }
        let signers = self.votes.entry((kind, view, id)).or_default();
        let complete = signers.insert(from) && signers.len() == self.settings.quorum();
        if complete {
            let cert = Cert { kind, view, id, signers: *signers };
            self.believe(cert, out);
        }
        complete
    }

    /// Accepts a certificate of a peer.
    pub(super) fn accept(&mut self, cert: Cert, out: &mut Vec<Act<C>>) {
        if cert.view <= self.ordered.0 || cert.signers.len() < self.settings.quorum() {
            return;
        }
        let signers = self.votes.entry((cert.kind, cert.view, cert.id)).or_default();
        for signer in cert.signers.iter() {
            signers.insert(signer);
        }
        self.believe(cert, out);
    }

    fn believe(&mut self, cert: Cert, out: &mut Vec<Act<C>>) {
        match cert.kind {
            CertKind::Notarise => drop(self.notarised.entry(cert.view).or_insert(cert.id)),
            CertKind::Nullify => drop(self.nullified.insert(cert.view)),
            CertKind::Order => {
                self.notarised.entry(cert.view).or_insert(cert.id);
                if self.last_cert.is_none_or(|last| last.view < cert.view) {
                    self.last_cert = Some(cert);
                }
                self.try_order(cert, out);
            }
        }
    }

    /// Orders a block once all of its ancestors are known.
    fn try_order(&mut self, cert: Cert, out: &mut Vec<Act<C>>) {
        let Some(block) = self.blocks.get(&cert.id).cloned() else { return };
        if block.place.view <= self.ordered.0 {
            return;
        }
        let mut path = vec![block.clone()];
        let mut at = block.place.parent;
        while at != self.ordered.2 {
            let Some(parent) = self.blocks.get(&at).cloned() else { return };
            at = parent.place.parent;
            path.push(parent);
        }
        path.reverse();
        self.ordered = (block.place.view, block.place.height, block.id);
        out.push(Act::Ordered(path, cert));
        self.forget_old(out);
    }

    fn forget_old(&mut self, out: &mut Vec<Act<C>>) {
        let after = self.ordered.0;
        let keep = self.ordered.2;
        self.blocks.retain(|id, block| block.place.view > after || *id == keep);
        self.proposals.retain(|view, _| *view > after);
        self.votes.retain(|(_, view, _), _| *view > after);
        self.notarised.retain(|view, _| *view >= after);
        self.nullified.retain(|view| *view > after);
        self.voted.retain(|view, _| *view >= after);
        self.order_voted.retain(|view, _| *view >= after);
        self.gave_up.retain(|view| *view > after);
        self.proposed.retain(|view, _| *view > after);
        self.notarised.insert(after, keep);
        if self.view <= after {
            self.enter(after + 1, out);
        }
    }

    pub(super) fn enter(&mut self, view: u64, out: &mut Vec<Act<C>>) {
        self.view = view;
        out.push(Act::Timer(view, self.patience()));
    }

    /// Timeout of the current view: doubles with the views that failed since the last order, up to eightfold.
    fn patience(&self) -> u64 {
        let failed = self.nullified.range(self.ordered.0..).count() as u64;
        self.settings.timeout_us * (1 + failed.min(7))
    }
}
