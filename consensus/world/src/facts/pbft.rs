//! PBFT in worlds.

use super::{Facts, Pace, Verified, Vote, kind};
use crate::liar::Lie;
use alloy_primitives::B256;
use phalanx_bft::{
    Domain, Quorums, Slot, View,
    pbft::{Config, Leaving, Msg, Pbft, PrePrepare, Record, Report, ViewChange, Vote as Statement},
};

impl Facts for Pbft {
    of_primary!();

    fn config(quorums: Quorums, domain: Domain, pace: Pace) -> Config {
        let Pace { interval, timeout, resend } = pace;
        Config { interval, timeout, resend, ..Config::new(quorums, domain) }
    }

    fn vote(message: &Msg) -> Option<Vote> {
        match message {
            Msg::PrePrepare(p) => Some((kind::PROPOSAL, p.view, p.slot, p.batch.digest())),
            Msg::Prepare(vote) => Some((kind::VOTE, vote.view, vote.slot, vote.digest)),
            Msg::Commit(vote) => Some((kind::ORDER, vote.view, vote.slot, vote.digest)),
            _ => None,
        }
    }

    fn locks(record: &Record, view: View, slot: Slot, digest: Option<B256>) -> bool {
        let Record::Prepared(vote) = record else { return false };
        (vote.slot, vote.view) == (slot, view) && digest.is_none_or(|digest| vote.digest == digest)
    }

    fn gives_up(message: &Msg) -> Option<u64> {
        if let Msg::ViewChange(leaving) = message { Some(leaving.change.body.view) } else { None }
    }

    fn verified(message: &Msg) -> Verified {
        match message {
            Msg::Prepare(_) | Msg::Commit(_) | Msg::Checkpoint(_) => Verified::Vote,
            _ => Verified::Statement,
        }
    }

    fn is_checkpoint(message: &Msg) -> bool {
        matches!(message, Msg::Checkpoint(_))
    }

    fn lie(message: &Msg, lie: &Lie) -> Vec<Msg> {
        let Lie { ref batch, digest, random, .. } = *lie;
        match message {
            Msg::PrePrepare(p) => vec![Msg::PrePrepare(PrePrepare { batch: batch.clone(), ..p.clone() })],
            Msg::Prepare(vote) | Msg::Commit(vote) => {
                let vote = Statement { digest, ..*vote };
                vec![Msg::Prepare(vote), Msg::Commit(vote), message.clone()]
            }
            Msg::ViewChange(leaving) => {
                let told = &leaving.change.body;
                let slots = told.stable.slot + 1..told.stable.slot + 4;
                let view = random[0] % told.view;
                let reports: Vec<Report> = slots.map(|slot| Report { slot, digest, view }).collect();
                let body = ViewChange {
                    prepared: if random[1] % 2 == 0 { reports.clone() } else { Vec::new() },
                    preprepared: reports,
                    ..told.clone()
                };
                vec![Msg::ViewChange(Leaving { change: lie.signed(body), proof: leaving.proof.clone() })]
            }
            Msg::NewView(signed) => {
                let mut body = signed.body.clone();
                body.choices.first_mut().into_iter().for_each(|choice| *choice = digest);
                vec![Msg::NewView(lie.signed(body))]
            }
            // Complaints about the present view and the next one, though nothing waits; nothing where something does.
            Msg::Status(status) => vec![message.clone(), Msg::Complaint(status.view + random[0] % 2)],
            Msg::Complaint(view) => vec![Msg::Complaint(view + 1)],
            _ => vec![message.clone()],
        }
    }
}
