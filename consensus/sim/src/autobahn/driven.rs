//! Facts about a protocol that these machines need beyond [`Protocol`].

use super::setting::{Order, Setting};
use phalanx_bft::{
    Batch, Domain, Message as _, Protocol, Quorums,
    autobahn::{self, Autobahn},
    baseline::{Form, HotStuff, HotStuffConfig, HotStuffMsg},
    pbft::{self, Pbft},
    sbft::{self, Sbft},
};

/// A protocol that wide-area machines can run.
pub trait Driven: Protocol {
    /// True if every replica takes its clients' batches itself; otherwise the leader gets them.
    const OWN: bool;

    /// Constants of a run. The setting is checked.
    fn config(setting: &Setting, quorums: Quorums) -> Self::Config;

    /// Batches in a message: data that its receiver takes in.
    fn batches(message: &Self::Msg) -> Vec<&Batch>;

    /// Returns true if only a leader sends the message.
    fn leads(message: &Self::Msg) -> bool;

    /// The tenure that a message gives up: slot and view as one number.
    fn gives_up(message: &Self::Msg) -> Option<u64>;

    /// Signatures in a message.
    fn signatures(message: &Self::Msg, quorums: Quorums) -> u64;
}

impl Driven for Autobahn {
    const OWN: bool = true;

    fn config(setting: &Setting, quorums: Quorums) -> autobahn::Config {
        let batch_bytes = 1 << 26;
        autobahn::Config {
            tips: setting.tips,
            spread: setting.spread,
            fast: setting.fast_ms.map(|ms| ms * 1_000),
            parallel: setting.parallel,
            timeout: setting.timeout_ms * 1_000,
            batch_bytes,
            block_bytes: batch_bytes,
            // Batches are names here: this many stand for 8 MiB.
            sync_bytes: 6_000,
            ahead: 1 << 16,
            resend: setting.resend_ms * 1_000,
            ..autobahn::Config::new(quorums, Domain::default())
        }
    }

    fn batches(message: &autobahn::Msg) -> Vec<&Batch> {
        match message {
            autobahn::Msg::Car(car) => vec![&car.batch],
            autobahn::Msg::Cars(cars) => cars.iter().map(|car| &car.batch).collect(),
            _ => Vec::new(),
        }
    }

    fn leads(message: &autobahn::Msg) -> bool {
        matches!(message, autobahn::Msg::Prepare(_) | autobahn::Msg::Confirm(_))
    }

    fn gives_up(message: &autobahn::Msg) -> Option<u64> {
        let autobahn::Msg::Timeout(complaint) = message else { return None };
        Some(complaint.timeout.body.slot << 16 | complaint.timeout.body.view)
    }

    fn signatures(message: &autobahn::Msg, _: Quorums) -> u64 {
        let mut claims = Vec::new();
        message.claims(Domain::default(), &mut claims);
        claims.len() as u64
    }
}

impl Driven for HotStuff {
    const OWN: bool = true;

    fn config(setting: &Setting, quorums: Quorums) -> HotStuffConfig {
        HotStuffConfig {
            quorums,
            form: if setting.order == Order::BatchedHotStuff { Form::Batched } else { Form::Plain },
            timeout: setting.timeout_ms * 1_000,
            doubles: true,
            // In tens of transactions, as batches are here.
            block_txs: setting.block_batches * setting.batch_txs as usize / 10,
            block_batches: setting.block_batches,
            batch_bytes: 1 << 26,
        }
    }

    fn batches(message: &HotStuffMsg) -> Vec<&Batch> {
        match message {
            HotStuffMsg::Batch(batch) => vec![batch],
            HotStuffMsg::Propose(block, _) | HotStuffMsg::Block(block) => block.batches.iter().collect(),
            _ => Vec::new(),
        }
    }

    fn leads(message: &HotStuffMsg) -> bool {
        matches!(message, HotStuffMsg::Propose(..))
    }

    fn gives_up(message: &HotStuffMsg) -> Option<u64> {
        if let HotStuffMsg::Timeout(view, ..) = message { Some(*view) } else { None }
    }

    /// As if its certificates were signed.
    fn signatures(message: &HotStuffMsg, quorums: Quorums) -> u64 {
        let quorum = quorums.available() as u64;
        match message {
            HotStuffMsg::Batch(_) | HotStuffMsg::Want(_) => 0,
            HotStuffMsg::Vote(..) => 1,
            HotStuffMsg::Propose(_, false) | HotStuffMsg::Timeout(..) | HotStuffMsg::Block(_) => 1 + quorum,
            HotStuffMsg::Propose(_, true) => 1 + 2 * quorum,
        }
    }
}

impl Driven for Pbft {
    const OWN: bool = false;

    fn config(setting: &Setting, quorums: Quorums) -> pbft::Config {
        let timeout = setting.timeout_ms * 1_000;
        pbft::Config { timeout, batch_bytes: 1 << 26, ..pbft::Config::new(quorums, Domain::default()) }
    }

    fn batches(message: &pbft::Msg) -> Vec<&Batch> {
        match message {
            pbft::Msg::PrePrepare(proposal) => vec![&proposal.batch],
            pbft::Msg::Fetched(batch) => vec![batch],
            _ => Vec::new(),
        }
    }

    fn leads(message: &pbft::Msg) -> bool {
        matches!(message, pbft::Msg::PrePrepare(_) | pbft::Msg::NewView(_))
    }

    fn gives_up(message: &pbft::Msg) -> Option<u64> {
        if let pbft::Msg::ViewChange(leaving) = message { Some(leaving.change.body.view) } else { None }
    }

    fn signatures(message: &pbft::Msg, _: Quorums) -> u64 {
        let mut claims = Vec::new();
        message.claims(Domain::default(), &mut claims);
        claims.len() as u64
    }
}

impl Driven for Sbft {
    const OWN: bool = false;

    fn config(setting: &Setting, quorums: Quorums) -> sbft::Config {
        let timeout = setting.timeout_ms * 1_000;
        sbft::Config { timeout, batch_bytes: 1 << 26, ..sbft::Config::new(quorums, Domain::default()) }
    }

    fn batches(message: &sbft::Msg) -> Vec<&Batch> {
        match message {
            sbft::Msg::PrePrepare(proposal) => vec![&proposal.batch],
            sbft::Msg::Fetched(batch) => vec![batch],
            _ => Vec::new(),
        }
    }

    fn leads(message: &sbft::Msg) -> bool {
        matches!(message, sbft::Msg::PrePrepare(_) | sbft::Msg::NewView(_))
    }

    fn gives_up(message: &sbft::Msg) -> Option<u64> {
        if let sbft::Msg::ViewChange(change) = message { Some(change.body.view) } else { None }
    }

    fn signatures(message: &sbft::Msg, _: Quorums) -> u64 {
        let mut claims = Vec::new();
        message.claims(Domain::default(), &mut claims);
        claims.len() as u64
    }
}
