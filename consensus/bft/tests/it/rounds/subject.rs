//! The protocol as a subject of the worlds.

use crate::world::{Lie, Subject, Vote, sign};
use alloy_primitives::B256;
use phalanx_bft::{
    Batch, Domain, Index, Quorums, Signed, Slot, Statement as _, View,
    rounds::{self, Block, CertKind, Config, Kept, Msg, Offer, Offered, Record, Rounds},
};

impl Subject for Rounds {
    fn quorums(config: &Config) -> Quorums {
        config.quorums
    }

    fn domain(config: &Config) -> Domain {
        config.domain
    }

    fn decision(&self, slot: Slot) -> Option<B256> {
        Self::decision(self, slot)
    }

    fn stable(&self) -> Slot {
        Self::stable(self)
    }

    fn decided(&self) -> Slot {
        Self::decided(self)
    }

    fn is_active(&self) -> bool {
        true
    }

    fn is_in_flight(&self, digest: B256) -> bool {
        Self::is_in_flight(self, digest)
    }

    /// An order vote and a nullify of one view contradict each other: both are of kind 2.
    fn vote(message: &Msg) -> Option<Vote> {
        let Msg::Vote(signed) = message else { return None };
        let rounds::Vote { kind, view, id } = signed.body;
        Some((if kind == CertKind::Notarise { 1 } else { 2 }, view, 0, id))
    }

    fn locks(record: &Record, view: View, _: Slot, digest: Option<B256>) -> bool {
        match record {
            Record::Voted(Kept::OrderVoted(of, id)) => *of == view && digest.is_none_or(|digest| digest == *id),
            Record::Voted(Kept::Nullified(of)) => *of == view && digest.is_some_and(|digest| digest.is_zero()),
            _ => false,
        }
    }

    fn betray(me: Index, message: &Msg, lie: Lie, domain: Domain) -> Vec<Msg> {
        let Lie { batch, digest, random } = lie;
        match message {
            Msg::Proposal(block) if block.place.author == me => {
                let mut place = block.place;
                match random[1] % 8 {
                    0 => place.height += random[0] % 3,
                    1 => place.parent_view = place.parent_view.saturating_sub(1),
                    2 => place.parent = digest,
                    _ => {}
                }
                let late = Batch::new(u64::MAX, batch.beneficiary(), batch.transactions().to_vec());
                let batch = if random[0] % 8 == 0 { late } else { batch };
                let signature = sign(me, &Offer::new(&place, &batch).signed_bytes(domain));
                vec![Msg::Proposal(Block::new(place, Offered { batch, signature }).into())]
            }
            Msg::Vote(signed) => {
                let voted = |kind, id| {
                    let body = rounds::Vote { kind, id, ..signed.body };
                    Msg::Vote(Signed { signer: me, signature: sign(me, &body.signed_bytes(domain)), body })
                };
                let all = vec![
                    voted(CertKind::Notarise, signed.body.id),
                    voted(CertKind::Order, signed.body.id),
                    voted(CertKind::Nullify, B256::ZERO),
                    voted(CertKind::Order, digest),
                ];
                all.into_iter().skip(random[0] as usize % 3).collect()
            }
            Msg::Certificate(certificate) => {
                let vote = rounds::Vote { id: digest, ..certificate.vote };
                let mut fewer = certificate.clone();
                fewer.signatures.pop();
                vec![Msg::Certificate(rounds::Certificate { vote, ..certificate.clone() }), Msg::Certificate(fewer)]
            }
            Msg::Checkpoint(signed) if signed.signer == me => {
                let body = rounds::Checkpoint { digest, ..signed.body };
                vec![Msg::Checkpoint(Signed { signer: me, signature: sign(me, &body.signed_bytes(domain)), body })]
            }
            Msg::Chain(chain) => {
                let mut other = chain.clone();
                other.blocks.reverse();
                vec![Msg::Chain(other), message.clone()]
            }
            _ => vec![message.clone()],
        }
    }
}
