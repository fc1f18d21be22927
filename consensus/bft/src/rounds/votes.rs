//! Signed blocks, votes and certificates of others.

#[cfg(feature = "mutations")]
use super::config::Mutation;
use super::{
    block::{Block, CertKind, Note, Offered},
    message::{Certificate, Msg, Signature, Vote},
    protocol::Rounds,
    replica::{AHEAD, PROPOSALS},
};
use crate::core::{Index, Micros, Out, Outs, Signed};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Encodable;
use std::sync::Arc;

impl Rounds {
    /// Returns true if the block is new, in a place that a block can have, and near enough or vouched for by a quorum.
    pub(super) fn wants_block(&self, block: &Block<Offered>) -> bool {
        let place = block.place;
        let near = place.view <= self.core.view.saturating_add(AHEAD) || self.core.is_vouched(block.id, place.view);
        near && place.view > self.core.ordered().0
            && place.author == self.core.settings.leader(place.view)
            && place.parent_view < place.view
            && place.height <= place.view
            && !self.core.blocks.contains_key(&block.id)
    }

    pub(super) fn on_proposal(&mut self, now: Micros, block: Arc<Block<Offered>>, out: &mut Outs<Self>) {
        let (batch, vouched) = (&block.content.batch, self.core.is_vouched(block.id, block.place.view));
        let latest = (self.config.epoch_ms + now / 1000).saturating_add(self.config.ahead_ms);
        // What a quorum vouches for fits.
        let fits = batch.bytes() <= self.config.batch_bytes && batch.timestamp_ms() <= latest;
        if !vouched && !fits || !self.wants_block(&block) {
            return;
        }
        if self.hold && !vouched {
            let held = self.held.entry(block.place.view).or_default();
            if held.len() < PROPOSALS && held.iter().all(|other| other.id != block.id) {
                held.push(block);
            }
            return;
        }
        #[cfg(feature = "mutations")]
        if self.config.breaks(Mutation::SkipViews) {
            self.core.nullified.extend(block.place.parent_view + 1..block.place.view);
        }
        self.accuse_author(&block, out);
        self.hear(self.me, &Note::Proposal(block), out);
    }

    /// Two blocks on one parent in one view prove that their author is faulty.
    fn accuse_author(&mut self, block: &Block<Offered>, out: &mut Outs<Self>) {
        let same = |other: &&Arc<Block<Offered>>| {
            let (one, two) = (block.place, other.place);
            (one.view, one.parent) == (two.view, two.parent) && other.id != block.id
        };
        if let Some(other) = self.core.blocks.values().find(same).cloned() {
            self.accuse(block.place.author, &other.signed(), &block.signed(), out);
        }
    }

    /// Keeps the proof that a replica is faulty. One is enough.
    pub(super) fn accuse(&mut self, against: Index, one: &impl Encodable, two: &impl Encodable, out: &mut Outs<Self>) {
        if self.accused.insert(against) {
            let proof = Bytes::from([alloy_rlp::encode(one), alloy_rlp::encode(two)].concat());
            out.push(Out::Evidence { against, proof });
        }
    }

    pub(super) fn wants_vote(&self, signed: &Signed<Vote>) -> bool {
        let Vote { kind, view, id } = signed.body;
        let known = self.votes.get(&(kind, view)).and_then(|votes| votes.get(&signed.signer));
        self.is_member(signed.signer)
            && view > self.core.ordered().0
            && view <= self.core.view.saturating_add(AHEAD * 4)
            && (kind != CertKind::Nullify || id == B256::ZERO)
            && match known {
                None => !self.certificates.contains_key(&(kind, view)),
                // A second vote is news as evidence only.
                Some((known, _)) => *known != id && !self.accused.contains(signed.signer),
            }
    }

    /// Counts a vote that [`Rounds::wants_vote`] lets pass.
    pub(super) fn on_vote(&mut self, signed: Signed<Vote>, out: &mut Outs<Self>) {
        let Vote { kind, view, id } = signed.body;
        let known = self.votes.get(&(kind, view)).and_then(|votes| votes.get(&signed.signer));
        if let Some((id, signature)) = known.cloned() {
            let before = Signed { signature, body: Vote { id, ..signed.body }, ..signed.clone() };
            return self.accuse(signed.signer, &before, &signed, out);
        }
        self.accuse_voter(&signed, out);
        let votes = self.votes.entry((kind, view)).or_default();
        votes.insert(signed.signer, (id, signed.signature));
        let equal = || votes.iter().filter(|(_, (of, _))| *of == id);
        if equal().count() == self.core.settings.quorum() {
            let signature =
                |(signer, (_, bytes)): (&Index, &(B256, Bytes))| Signature { signer: *signer, bytes: bytes.clone() };
            let certificate = Certificate { vote: signed.body, signatures: equal().map(signature).collect() };
            self.certificates.entry((kind, view)).or_insert(certificate);
        }
        let note = match kind {
            CertKind::Notarise => Note::Vote(view, id),
            CertKind::Order => Note::OrderVote(view, id),
            CertKind::Nullify => Note::Nullify(view),
        };
        self.hear(signed.signer, &note, out);
    }

    /// An order vote and a nullify of one view prove that their voter is faulty.
    fn accuse_voter(&mut self, signed: &Signed<Vote>, out: &mut Outs<Self>) {
        let kind = match signed.body.kind {
            CertKind::Notarise => return,
            CertKind::Nullify => CertKind::Order,
            CertKind::Order => CertKind::Nullify,
        };
        let view = signed.body.view;
        let other = self.votes.get(&(kind, view)).and_then(|votes| votes.get(&signed.signer)).cloned();
        if let Some((id, signature)) = other {
            let other = Signed { signer: signed.signer, signature, body: Vote { kind, view, id } };
            self.accuse(signed.signer, &other, signed, out);
        }
    }

    /// Sends an own vote and counts it.
    pub(super) fn on_own_vote(&mut self, signed: Signed<Vote>, out: &mut Outs<Self>) {
        Self::send(Msg::Vote(signed.clone()), out);
        if self.wants_vote(&signed) {
            self.on_vote(signed, out);
        }
    }

    pub(super) fn wants_certificate(&self, certificate: &Certificate) -> bool {
        let Vote { kind, view, .. } = certificate.vote;
        view > self.core.ordered().0 && !self.certificates.contains_key(&(kind, view)) && self.is_complete(certificate)
    }

    /// Returns true if a quorum has signed. Whether the signatures are right is known to the host.
    pub(super) fn is_complete(&self, certificate: &Certificate) -> bool {
        let signers = certificate.signers();
        signers.len() == certificate.signatures.len()
            && signers.len() >= self.core.settings.quorum()
            && signers.iter().all(|signer| self.is_member(signer))
    }

    pub(super) fn on_certificate(&mut self, certificate: Certificate, out: &mut Outs<Self>) {
        let cert = certificate.cert();
        self.certificates.insert((cert.kind, cert.view), certificate);
        self.hear(self.me, &Note::Cert(cert), out);
    }
}
