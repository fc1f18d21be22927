//! Facts about a protocol that a machine needs beyond [`Protocol`]: constants, and the work that each message brings.

use super::setting::{Costs, Setting, Variant};
use phalanx_bft::{
    Batch, Domain, Protocol, Quorums,
    pbft::{self, Pbft},
    sbft::{self, FastWait, Paths, Replies, Sbft},
};

/// Longest time of a run without any answer, in µs.
const HOUR: u64 = 3_600_000_000;

/// A protocol that machines can be loaded with.
pub(super) trait Subject: Protocol {
    fn config(setting: &Setting, quorums: Quorums) -> Self::Config;

    /// Time to check a message of this kind, without that of its requests.
    fn check_ns(message: &Self::Msg, costs: &Costs) -> u64;

    /// The batch in a message.
    fn batch(message: &Self::Msg) -> Option<&Batch>;

    /// True for a decision of the fast path.
    fn is_fast(record: &Self::Record) -> bool;
}

impl Subject for Pbft {
    fn config(_: &Setting, quorums: Quorums) -> pbft::Config {
        pbft::Config { timeout: HOUR, resend: HOUR, ..pbft::Config::new(quorums, Domain::default()) }
    }

    fn check_ns(message: &pbft::Msg, costs: &Costs) -> u64 {
        match message {
            pbft::Msg::Prepare(_) | pbft::Msg::Commit(_) | pbft::Msg::Checkpoint(_) => costs.vote_ns,
            _ => costs.rsa_ns.1,
        }
    }

    fn batch(message: &pbft::Msg) -> Option<&Batch> {
        match message {
            pbft::Msg::PrePrepare(proposal) => Some(&proposal.batch),
            _ => None,
        }
    }

    fn is_fast(_: &pbft::Record) -> bool {
        false
    }
}

impl Subject for Sbft {
    fn config(setting: &Setting, quorums: Quorums) -> sbft::Config {
        sbft::Config {
            timeout: HOUR,
            resend: HOUR,
            help: 1_000_000,
            stagger: 100_000,
            fast_wait: FastWait { least: 10_000, most: 500_000 },
            paths: if setting.variant == Variant::Linear { Paths::Linear } else { Paths::Dual },
            all_wait: Some(10_000),
            replies: if setting.variant == Variant::Sbft { Replies::Certificate } else { Replies::Each },
            ..sbft::Config::new(quorums, Domain::default())
        }
    }

    fn check_ns(message: &sbft::Msg, costs: &Costs) -> u64 {
        match message {
            sbft::Msg::PrePrepare(_) => costs.rsa_ns.1,
            sbft::Msg::Prepare(_) | sbft::Msg::Decided(_) | sbft::Msg::Executed(..) | sbft::Msg::Stable(_) => {
                costs.pairing(costs.verify_ns)
            }
            // Shares are checked when they are combined.
            _ => 0,
        }
    }

    fn batch(message: &sbft::Msg) -> Option<&Batch> {
        match message {
            sbft::Msg::PrePrepare(proposal) => Some(&proposal.batch),
            _ => None,
        }
    }

    fn is_fast(record: &sbft::Record) -> bool {
        match record {
            sbft::Record::Decided(decision) => decision.group != phalanx_bft::Group::Slow,
            _ => false,
        }
    }
}
