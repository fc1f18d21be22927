//! Protocols as subjects of the worlds.

use crate::world::{Lie, Subject, Vote, sign};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Domain, Index, Quorums, Signed, Slot, Statement as _, View,
    pbft::{self, Leaving, Pbft, PrePrepare, Report, ViewChange},
    sbft::{self, Sbft},
};

impl Subject for Pbft {
    fn quorums(config: &pbft::Config) -> Quorums {
        config.quorums
    }

    fn domain(config: &pbft::Config) -> Domain {
        config.domain
    }

    fn decision(&self, slot: Slot) -> Option<B256> {
        Self::decision(self, slot)
    }

    fn stable(&self) -> Slot {
        Self::stable(self).slot
    }

    fn decided(&self) -> Slot {
        Self::decided(self)
    }

    fn is_active(&self) -> bool {
        Self::is_active(self)
    }

    fn is_in_flight(&self, digest: B256) -> bool {
        Self::is_in_flight(self, digest)
    }

    fn vote(message: &pbft::Msg) -> Option<Vote> {
        match message {
            pbft::Msg::PrePrepare(p) => Some((0, p.view, p.slot, p.batch.digest())),
            pbft::Msg::Prepare(vote) => Some((1, vote.view, vote.slot, vote.digest)),
            pbft::Msg::Commit(vote) => Some((2, vote.view, vote.slot, vote.digest)),
            _ => None,
        }
    }

    fn locks(record: &pbft::Record, view: View, slot: Slot, digest: Option<B256>) -> bool {
        match record {
            pbft::Record::Prepared(vote) => {
                (vote.slot, vote.view) == (slot, view) && digest.is_none_or(|digest| vote.digest == digest)
            }
            _ => false,
        }
    }

    fn betray(me: Index, message: &pbft::Msg, lie: Lie, domain: Domain) -> Vec<pbft::Msg> {
        let Lie { batch, digest, random } = lie;
        match message {
            pbft::Msg::PrePrepare(p) => vec![pbft::Msg::PrePrepare(PrePrepare { batch, ..p.clone() })],
            pbft::Msg::Prepare(vote) | pbft::Msg::Commit(vote) => {
                let vote = pbft::Vote { digest, ..*vote };
                vec![pbft::Msg::Prepare(vote), pbft::Msg::Commit(vote), message.clone()]
            }
            pbft::Msg::ViewChange(leaving) => {
                let signed = &leaving.change;
                let slots = signed.body.stable.slot + 1..signed.body.stable.slot + 4;
                let view = random[0] % signed.body.view;
                let reports: Vec<Report> = slots.map(|slot| Report { slot, digest, view }).collect();
                let body = ViewChange {
                    prepared: if random[1] % 2 == 0 { reports.clone() } else { Vec::new() },
                    preprepared: reports,
                    ..signed.body.clone()
                };
                let signature = sign(me, &body.signed_bytes(domain));
                let change = Signed { signer: me, signature, body };
                vec![pbft::Msg::ViewChange(Leaving { change, proof: leaving.proof.clone() })]
            }
            pbft::Msg::NewView(signed) => {
                let mut body = signed.body.clone();
                if let Some(choice) = body.choices.first_mut() {
                    *choice = digest;
                }
                let signature = sign(me, &body.signed_bytes(domain));
                vec![pbft::Msg::NewView(Signed { signer: me, signature, body })]
            }
            // Complaints about the present view and the next one, though nothing waits; nothing where something does.
            pbft::Msg::Status(status) => {
                vec![message.clone(), pbft::Msg::Complaint(status.view + random[0] % 2)]
            }
            pbft::Msg::Complaint(view) => vec![pbft::Msg::Complaint(view + 1)],
            _ => vec![message.clone()],
        }
    }
}

impl Subject for Sbft {
    fn quorums(config: &sbft::Config) -> Quorums {
        config.quorums
    }

    fn domain(config: &sbft::Config) -> Domain {
        config.domain
    }

    fn decision(&self, slot: Slot) -> Option<B256> {
        Self::decision(self, slot)
    }

    fn stable(&self) -> Slot {
        Self::stable(self).slot
    }

    fn decided(&self) -> Slot {
        Self::decided(self)
    }

    fn is_active(&self) -> bool {
        Self::is_active(self)
    }

    fn is_in_flight(&self, digest: B256) -> bool {
        Self::is_in_flight(self, digest)
    }

    fn vote(message: &sbft::Msg) -> Option<Vote> {
        let of = |kind, vote: &sbft::Vote| Some((kind, vote.view, vote.slot, vote.digest));
        match message {
            sbft::Msg::PrePrepare(p) => of(0, &p.signed.body.0),
            sbft::Msg::SignShare(share) => of(1, &share.vote),
            sbft::Msg::Commit(share) => of(2, &share.vote),
            sbft::Msg::Prepare(certificate) => of(3, &certificate.vote),
            _ => None,
        }
    }

    fn locks(record: &sbft::Record, view: View, slot: Slot, digest: Option<B256>) -> bool {
        match record {
            sbft::Record::Prepared(certificate) => {
                let vote = certificate.vote;
                (vote.slot, vote.view) == (slot, view) && digest.is_none_or(|digest| vote.digest == digest)
            }
            _ => false,
        }
    }

    fn betray(me: Index, message: &sbft::Msg, lie: Lie, domain: Domain) -> Vec<sbft::Msg> {
        let Lie { batch, digest, random } = lie;
        let junk = Bytes::from_static(b"junk");
        match message {
            sbft::Msg::PrePrepare(p) => {
                let body = sbft::Proposal(sbft::Vote { digest: batch.digest(), ..p.signed.body.0 });
                let signature = sign(me, &body.signed_bytes(domain));
                vec![sbft::Msg::PrePrepare(sbft::PrePrepare { signed: Signed { signer: me, signature, body }, batch })]
            }
            sbft::Msg::SignShare(share) => {
                let vote = sbft::Vote { digest, ..share.vote };
                let other = sbft::SignShare { vote, ..share.clone() };
                let wrong = sbft::SignShare { fast: junk.clone(), slow: junk, ..share.clone() };
                vec![sbft::Msg::SignShare([other, wrong, share.clone()][random[0] as usize % 3].clone())]
            }
            sbft::Msg::Commit(share) => {
                let vote = sbft::Vote { digest, ..share.vote };
                vec![sbft::Msg::Commit(sbft::CommitShare { vote, share: junk }), message.clone()]
            }
            sbft::Msg::Prepare(certificate) => {
                let vote = sbft::Vote { digest, ..certificate.vote };
                vec![sbft::Msg::Prepare(sbft::Certificate { vote, signature: certificate.signature.clone() })]
            }
            sbft::Msg::Decided(decision) => {
                let vote = sbft::Vote { digest, ..decision.vote };
                vec![sbft::Msg::Decided(sbft::Decision { vote, ..decision.clone() })]
            }
            sbft::Msg::SignState(share) => vec![sbft::Msg::SignState(sbft::StateShare { digest, ..share.clone() })],
            sbft::Msg::SignCheckpoint(share) => {
                vec![sbft::Msg::SignCheckpoint(sbft::StateShare { share: junk, ..share.clone() })]
            }
            sbft::Msg::ViewChange(signed) => {
                let first = signed.body.stable.checkpoint.slot + 1;
                let view = random[0] % signed.body.view;
                let accepted = (first..first + 3).map(|slot| sbft::Vote { view, slot, digest }).collect();
                let body = match random[1] % 3 {
                    // A report of less than it knows.
                    0 => sbft::ViewChange { view: signed.body.view, ..sbft::ViewChange::default() },
                    1 => sbft::ViewChange { accepted, ..signed.body.clone() },
                    _ => {
                        sbft::ViewChange { accepted, prepared: Vec::new(), decided: Vec::new(), ..signed.body.clone() }
                    }
                };
                let signature = sign(me, &body.signed_bytes(domain));
                vec![sbft::Msg::ViewChange(Signed { signer: me, signature, body })]
            }
            sbft::Msg::NewView(signed) => {
                // Other view changes to different replicas, and a stale one.
                let mut body = signed.body.clone();
                let at = random[0] as usize % body.changes.len();
                body.changes.remove(at);
                let signature = sign(me, &body.signed_bytes(domain));
                vec![sbft::Msg::NewView(Signed { signer: me, signature, body })]
            }
            // Complaints about the present view and the next one, though nothing waits; nothing where something does.
            sbft::Msg::Status(status) => {
                vec![message.clone(), sbft::Msg::Complaint(status.view + random[0] % 2)]
            }
            sbft::Msg::Complaint(view) => vec![sbft::Msg::Complaint(view + 1)],
            _ => vec![message.clone()],
        }
    }
}
