//! Three rounds, chained, in worlds.

use super::{Facts, Pace, Vote, kind};
use crate::liar::Lie;
use alloy_primitives::B256;
use phalanx_bft::{
    Batch, Domain, Quorums, Slot, View,
    rounds::{
        Block, CertKind, Certificate, Checkpoint, Config, Kept, Msg, Offer, Offered, Record, Rounds, Vote as Statement,
    },
};

impl Facts for Rounds {
    fn quorums(config: &Config) -> Quorums {
        config.quorums
    }

    fn domain(config: &Config) -> Domain {
        config.domain
    }

    fn config(quorums: Quorums, domain: Domain, pace: Pace) -> Config {
        let Pace { interval, timeout, resend } = pace;
        Config { interval, timeout, resend, ..Config::new(quorums, domain) }
    }

    fn batches(message: &Msg) -> Vec<&Batch> {
        match message {
            Msg::Proposal(block) => vec![&block.content.batch],
            Msg::Chain(chain) => chain.blocks.iter().map(|block| &block.content.batch).collect(),
            _ => Vec::new(),
        }
    }

    /// An order vote and a nullify of one view contradict each other: both are order votes.
    fn vote(message: &Msg) -> Option<Vote> {
        let Msg::Vote(signed) = message else { return None };
        let Statement { kind, view, id } = signed.body;
        Some((if kind == CertKind::Notarise { kind::VOTE } else { kind::ORDER }, view, 0, id))
    }

    fn locks(record: &Record, view: View, _: Slot, digest: Option<B256>) -> bool {
        match record {
            Record::Voted(Kept::OrderVoted(of, id)) => *of == view && digest.is_none_or(|digest| digest == *id),
            Record::Voted(Kept::Nullified(of)) => *of == view && digest.is_some_and(|digest| digest.is_zero()),
            _ => false,
        }
    }

    fn is_in_flight(&self, digest: B256) -> bool {
        Self::is_in_flight(self, digest)
    }

    fn decided(&self) -> Slot {
        Self::decided(self)
    }

    fn stable(&self) -> Slot {
        Self::stable(self)
    }

    fn decision(&self, slot: Slot) -> Option<B256> {
        Self::decision(self, slot)
    }

    fn lie(message: &Msg, lie: &Lie) -> Vec<Msg> {
        let Lie { me, ref batch, digest, random, .. } = *lie;
        match message {
            Msg::Proposal(block) if block.place.author == me => {
                let mut place = block.place;
                match random[1] % 8 {
                    0 => place.height += random[0] % 3,
                    1 => place.parent_view = place.parent_view.saturating_sub(1),
                    2 => place.parent = digest,
                    _ => {}
                }
                let late = || Batch::new(u64::MAX, batch.beneficiary(), batch.transactions().to_vec());
                let batch = if random[0] % 8 == 0 { late() } else { batch.clone() };
                let signature = lie.signed(Offer::new(&place, &batch)).signature;
                vec![Msg::Proposal(Block::new(place, Offered { batch, signature }).into())]
            }
            Msg::Vote(signed) => {
                let voted = |kind, id| Msg::Vote(lie.signed(Statement { kind, id, ..signed.body }));
                let all = vec![
                    voted(CertKind::Notarise, signed.body.id),
                    voted(CertKind::Order, signed.body.id),
                    voted(CertKind::Nullify, B256::ZERO),
                    voted(CertKind::Order, digest),
                ];
                all.into_iter().skip(random[0] as usize % 3).collect()
            }
            Msg::Certificate(certificate) => {
                let vote = Statement { id: digest, ..certificate.vote };
                let mut fewer = certificate.clone();
                fewer.signatures.pop();
                vec![Msg::Certificate(Certificate { vote, ..certificate.clone() }), Msg::Certificate(fewer)]
            }
            Msg::Checkpoint(signed) if signed.signer == me => {
                vec![Msg::Checkpoint(lie.signed(Checkpoint { digest, ..signed.body }))]
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
