//! Facts about a protocol that a machine needs beyond [`Protocol`]: constants, threads of its messages, patience of its clients.

use super::{Setting, zyzzyva};
use phalanx_bft::{
    Domain, Protocol, Quorums,
    pbft::{self, Pbft},
};

/// Part of a message in the load of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// A batch, for the worker.
    Batch,
    /// A vote, for the worker.
    Vote,
    /// A signed statement, for the checkpoint thread.
    Checkpoint,
}

/// A protocol that machines can be loaded with.
pub trait Ordering: Protocol {
    /// Constants of a run. The setting is checked.
    fn config(setting: &Setting, quorums: Quorums) -> Self::Config;

    /// Part of a message in the load of a replica.
    fn carries(message: &Self::Msg) -> Carries;

    /// Equal answers that a client waits for.
    fn answers(quorums: Quorums) -> usize;

    /// Fewer answers, with which a client begins a second phase when it loses patience.
    fn answers_late(quorums: Quorums) -> Option<usize>;
}

impl Ordering for Pbft {
    fn config(setting: &Setting, quorums: Quorums) -> pbft::Config {
        let timeout = setting.timeout_ms * 1_000;
        pbft::Config { timeout, resend: setting.resend_ms * 1_000, ..pbft::Config::new(quorums, Domain::default()) }
    }

    fn carries(message: &pbft::Msg) -> Carries {
        match message {
            pbft::Msg::PrePrepare(_) | pbft::Msg::Fetched(_) => Carries::Batch,
            pbft::Msg::Checkpoint(_) => Carries::Checkpoint,
            _ => Carries::Vote,
        }
    }

    fn answers(quorums: Quorums) -> usize {
        quorums.one_correct()
    }

    fn answers_late(_: Quorums) -> Option<usize> {
        None
    }
}

impl Ordering for zyzzyva::Zyzzyva {
    fn config(_: &Setting, quorums: Quorums) -> zyzzyva::Config {
        zyzzyva::Config { quorums }
    }

    fn carries(_: &zyzzyva::Order) -> Carries {
        Carries::Batch
    }

    fn answers(quorums: Quorums) -> usize {
        quorums.n()
    }

    fn answers_late(quorums: Quorums) -> Option<usize> {
        Some(quorums.quorum())
    }
}
