//! SBFT in worlds.

use super::{Facts, Pace, Verified, Vote, kind};
use crate::liar::Lie;
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Domain, Group, Quorums, Slot, View,
    sbft::{
        Certificate, CommitShare, Config, Decision, FastWait, Msg, NewView, PrePrepare, Proposal, Record, Sbft,
        SignShare, StateShare, ViewChange, Vote as Statement,
    },
};

impl Facts for Sbft {
    of_primary!();

    /// Links of the worlds take a millisecond: no wait is longer than patience.
    fn config(quorums: Quorums, domain: Domain, pace: Pace) -> Config {
        let Pace { interval, timeout, resend } = pace;
        let fast_wait = FastWait { least: 2_000, most: 5_000 };
        let (help, stagger) = (10_000, 1_000);
        Config { interval, timeout, resend, fast_wait, help, stagger, ..Config::new(quorums, domain) }
    }

    fn vote(message: &Msg) -> Option<Vote> {
        let of = |kind, vote: &Statement| Some((kind, vote.view, vote.slot, vote.digest));
        match message {
            Msg::PrePrepare(p) => of(kind::PROPOSAL, &p.signed.body.0),
            Msg::SignShare(share) => of(kind::VOTE, &share.vote),
            Msg::Commit(share) => of(kind::ORDER, &share.vote),
            Msg::Prepare(certificate) => of(kind::CERTIFICATE, &certificate.vote),
            _ => None,
        }
    }

    fn locks(record: &Record, view: View, slot: Slot, digest: Option<B256>) -> bool {
        let Record::Prepared(Certificate { vote, .. }) = record else { return false };
        (vote.slot, vote.view) == (slot, view) && digest.is_none_or(|digest| vote.digest == digest)
    }

    fn gives_up(message: &Msg) -> Option<u64> {
        if let Msg::ViewChange(change) = message { Some(change.body.view) } else { None }
    }

    fn verified(message: &Msg) -> Verified {
        match message {
            Msg::PrePrepare(_) => Verified::Statement,
            Msg::Prepare(_) | Msg::Decided(_) | Msg::Executed(..) | Msg::Stable(_) => Verified::Group,
            _ => Verified::Nothing,
        }
    }

    fn is_fast(record: &Record) -> bool {
        matches!(record, Record::Decided(decision) if decision.group != Group::Slow)
    }

    fn lie(message: &Msg, lie: &Lie) -> Vec<Msg> {
        let Lie { ref batch, digest, random, .. } = *lie;
        let junk = Bytes::from_static(b"junk");
        match message {
            Msg::PrePrepare(p) => {
                let body = Proposal(Statement { digest: batch.digest(), ..p.signed.body.0 });
                vec![Msg::PrePrepare(PrePrepare { signed: lie.signed(body), batch: batch.clone() })]
            }
            Msg::SignShare(share) => {
                let other = SignShare { vote: Statement { digest, ..share.vote }, ..share.clone() };
                let wrong = SignShare { fast: junk.clone(), slow: junk, ..share.clone() };
                vec![Msg::SignShare([other, wrong, share.clone()][random[0] as usize % 3].clone())]
            }
            Msg::Commit(share) => {
                let vote = Statement { digest, ..share.vote };
                vec![Msg::Commit(CommitShare { vote, share: junk }), message.clone()]
            }
            Msg::Prepare(certificate) => {
                let vote = Statement { digest, ..certificate.vote };
                vec![Msg::Prepare(Certificate { vote, signature: certificate.signature.clone() })]
            }
            Msg::Decided(decision) => {
                let vote = Statement { digest, ..decision.vote };
                vec![Msg::Decided(Decision { vote, ..decision.clone() })]
            }
            Msg::SignState(share) => vec![Msg::SignState(StateShare { digest, ..share.clone() })],
            Msg::SignCheckpoint(share) => vec![Msg::SignCheckpoint(StateShare { share: junk, ..share.clone() })],
            Msg::ViewChange(signed) => {
                let first = signed.body.stable.checkpoint.slot + 1;
                let view = random[0] % signed.body.view;
                let accepted = (first..first + 3).map(|slot| Statement { view, slot, digest }).collect();
                let body = match random[1] % 3 {
                    // A report of less than it knows.
                    0 => ViewChange { view: signed.body.view, ..ViewChange::default() },
                    1 => ViewChange { accepted, ..signed.body.clone() },
                    _ => ViewChange { accepted, prepared: Vec::new(), decided: Vec::new(), ..signed.body.clone() },
                };
                vec![Msg::ViewChange(lie.signed(body))]
            }
            Msg::NewView(signed) => {
                // Other view changes to different replicas, and a stale one.
                let NewView { view, mut changes } = signed.body.clone();
                changes.remove(random[0] as usize % changes.len());
                vec![Msg::NewView(lie.signed(NewView { view, changes }))]
            }
            // Complaints about the present view and the next one, though nothing waits; nothing where something does.
            Msg::Status(status) => vec![message.clone(), Msg::Complaint(status.view + random[0] % 2)],
            Msg::Complaint(view) => vec![Msg::Complaint(view + 1)],
            _ => vec![message.clone()],
        }
    }
}
