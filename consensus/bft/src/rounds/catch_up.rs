//! Repetition against loss, and what a replica that was away gets from others.

use super::{
    block::{Block, Cert, CertKind, Note, Offered},
    message::{Certificate, Chain, MOST_BLOCKS, Msg, Status},
    protocol::Rounds,
    replica::Act,
};
use crate::core::{Index, Micros, Out, Outs, SMALL, Slot, To};
use alloy_primitives::B256;
use std::sync::Arc;

/// Length of the batches in one answer to a replica that is behind, in bytes, beyond which no further one is added.
const MOST_BYTES: usize = 4 << 20;

/// Number of views below the current one whose notes are repeated.
const MOST_VIEWS: u64 = 64;

impl Rounds {
    /// Repeats what others may have missed, and asks for what this replica misses.
    pub(super) fn repeat(&mut self, out: &mut Outs<Self>) {
        Self::send(Msg::Status(self.status()), out);
        // While the order goes on, a replica that is behind asks by its status.
        if self.is_waiting() && self.repeated == self.decided() {
            self.resend(out);
        }
        self.repeated = self.decided();
        if let Some(id) = self.missing() {
            Self::send(Msg::Fetch(id), out);
        }
        let own = self.checkpoints.get(&self.me).into_iter().flatten().cloned();
        own.for_each(|signed| Self::send(Msg::Checkpoint(signed), out));
        self.want_state(out);
    }

    /// Repeats notes of the last views. A block comes from its author; others fetch it once it is notarised.
    fn resend(&mut self, out: &mut Outs<Self>) {
        let mut acts = Vec::new();
        self.core.resend(&mut acts);
        let first = self.core.view.saturating_sub(MOST_VIEWS);
        acts.retain(|act| match act {
            Act::Broadcast(Note::Proposal(block)) => block.place.author == self.me && block.place.view >= first,
            Act::Broadcast(Note::Cert(Cert { kind, view, .. })) => *kind == CertKind::Order || *view >= first,
            Act::Broadcast(Note::Vote(view, _) | Note::OrderVote(view, _) | Note::Nullify(view)) => *view >= first,
            _ => true,
        });
        self.act(acts, out);
    }

    /// Name of the newest unknown ancestor of a block that is certain to be ordered.
    fn missing(&self) -> Option<B256> {
        let (view, _, ordered) = self.core.ordered();
        let mut at = self.core.last_cert.filter(|cert| cert.view > view)?.id;
        while let Some(block) = self.core.blocks.get(&at) {
            at = block.place.parent;
        }
        (at != ordered).then_some(at)
    }

    pub(super) fn on_fetch(&mut self, now: Micros, from: Index, id: B256, out: &mut Outs<Self>) {
        let ordered = || self.history.values().map(|(block, _)| block).find(|block| block.id == id);
        if let Some(block) = self.core.blocks.get(&id).or_else(ordered).cloned()
            && self.budgets.spend(from, now, self.config.resend, SMALL + block.content.batch.bytes())
        {
            out.push(Out::Send(To::One(from), Msg::Proposal(block)));
        }
    }

    /// Answers a replica that is behind, as far as its budget goes.
    pub(super) fn on_status(&mut self, now: Micros, from: Index, status: Status, out: &mut Outs<Self>) {
        let mut answers: Vec<(usize, Msg)> = Vec::new();
        if status.stable < self.stable.slot {
            answers.extend(self.proof.iter().map(|signed| (SMALL, Msg::Checkpoint(signed.clone()))));
        }
        if let Some(chain) = self.chain_after(status.decided) {
            let bytes = chain.blocks.iter().map(|block| SMALL + block.content.batch.bytes()).sum::<usize>();
            answers.push((bytes + size(&chain.certificate), Msg::Chain(chain)));
        }
        // A chain that is too long for one answer is fetched block by block, from the block that this one names.
        let newest = self.certificates.iter().rev().find(|((kind, _), _)| *kind == CertKind::Order);
        if let Some((_, certificate)) = newest.filter(|_| status.decided < self.decided()) {
            answers.push((size(certificate), Msg::Certificate(certificate.clone())));
        }
        // Views that it has not left, although a quorum has.
        let left = self
            .certificates
            .iter()
            .filter(|((kind, view), _)| *kind != CertKind::Order && (status.view..self.core.view).contains(view));
        answers.extend(left.map(|(_, certificate)| (size(certificate), Msg::Certificate(certificate.clone()))));
        for (bytes, message) in answers {
            if self.budgets.spend(from, now, self.config.resend, bytes) {
                out.push(Out::Send(To::One(from), message));
            }
        }
    }

    /// Ordered blocks behind a slot, up to one that a certificate names.
    fn chain_after(&self, decided: Slot) -> Option<Chain> {
        let first = decided.checked_add(1)?;
        self.history.get(&first)?;
        let (mut blocks, mut bytes, mut found) = (Vec::new(), 0, None);
        for (block, certificate) in self.history.range(first..).map(|(_, entry)| entry).take(MOST_BLOCKS) {
            bytes += block.content.batch.bytes();
            if bytes > MOST_BYTES && found.is_some() {
                break;
            }
            blocks.push(Arc::clone(block));
            if let Some(certificate) = certificate {
                found = Some((blocks.len(), certificate.clone()));
            }
        }
        let (length, certificate) = found?;
        blocks.truncate(length);
        Some(Chain { blocks, certificate })
    }

    /// The blocks of a chain above the ordered one, `None` if they are not linked to it or the certificate names another block.
    pub(super) fn new_blocks<'a>(&self, chain: &'a Chain) -> Option<&'a [Arc<Block<Offered>>]> {
        let (_, height, mut parent) = self.core.ordered();
        let known = chain.blocks.iter().take_while(|block| block.place.height <= height).count();
        let new = &chain.blocks[known..];
        for block in new {
            if block.place.parent != parent {
                return None;
            }
            parent = block.id;
        }
        let vote = chain.certificate.vote;
        let named = !new.is_empty() && vote.kind == CertKind::Order && vote.id == parent;
        (named && self.is_complete(&chain.certificate)).then_some(new)
    }

    /// Takes ordered blocks: each names its parent, and a quorum vouches for the last.
    pub(super) fn on_chain(&mut self, chain: Chain, out: &mut Outs<Self>) {
        let Some(new) = self.new_blocks(&chain) else { return };
        let (cert, mut acts) = (chain.certificate.cert(), Vec::new());
        self.certificates.insert((CertKind::Order, cert.view), chain.certificate.clone());
        self.core.sync(new, cert, &mut acts);
        self.act(acts, out);
    }
}

/// Size of a certificate in a peer's budget, in bytes.
fn size(certificate: &Certificate) -> usize {
    SMALL + certificate.signatures.iter().map(|signature| signature.bytes.len() + 8).sum::<usize>()
}
