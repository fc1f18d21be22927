//! Ways on which transactions come to a node: a run for each, on a new chain.

use super::{
    link::Form,
    load::Load,
    run::{self, Plan, Ran},
};
use clap::ValueEnum;
use phalanx_node::Production;
use std::time::Duration;

/// A run, by the way on which transactions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Frames of the binary ingress
    Frames,
    /// Batches of JSON-RPC
    Batches,
    /// Over WebSockets, with many requests in flight
    Websocket,
    /// One by one over HTTP
    Singly,
    /// Batches beside reads
    Reads,
    /// Receipts as answers
    Receipts,
}

/// Period of blocks of the runs with receipts as answers, but for the one on demand; and least rest behind a receipt of an idle node.
const RECEIPT_PERIOD: Duration = Duration::from_millis(10);

/// Maximum number of receipts that are requested of an idle node.
pub(super) const IDLE_RECEIPTS: u64 = 500;

/// A run that has ended: its name, the number of transactions in a request, its figures.
pub(super) type Named = (&'static str, u64, Ran);

/// Makes the wanted runs, all if none is named, behind one that is thrown away. `few` are the transactions of an idle node.
pub(super) fn run(wanted: &[Way], plan: &Plan<'_>, readers: u64, few: &Load) -> anyhow::Result<Vec<Named>> {
    let frames = Plan { form: Form::Frames, ..*plan };
    let plans = [
        (Way::Frames, "binary frames", frames),
        (Way::Batches, "batches", *plan),
        (Way::Websocket, "WebSocket", Plan { form: Form::WebSocket, batch: 1, ..*plan }),
        (Way::Singly, "one by one", Plan { batch: 1, ..*plan }),
        (Way::Reads, "batches beside reads", Plan { readers, ..*plan }),
    ];
    let is_wanted = |way| wanted.is_empty() || wanted.contains(&way);
    // Memory that a machine has not used for some time costs more the first time: no run may pay for the others.
    run::run(&frames)?;
    let mut runs = Vec::new();
    for (_, name, plan) in plans.iter().filter(|(way, ..)| is_wanted(*way)) {
        runs.push((*name, plan.batch, run::run(plan)?));
    }
    if is_wanted(Way::Receipts) {
        runs.extend(receipts(plan, few)?);
    }
    Ok(runs)
}

/// Receipts as answers: of an idle node, with blocks by period and on demand, and beside batches at half of the rate at which the node
/// takes them.
fn receipts(plan: &Plan<'_>, few: &Load) -> anyhow::Result<[Named; 3]> {
    let plan = Plan { production: Production::Every(RECEIPT_PERIOD), rate: None, ..*plan };
    let rest = Some(RECEIPT_PERIOD);
    let idle = |production| {
        run::run(&Plan { form: Form::Receipts, load: few, writers: 1, batch: 1, rest, production, ..plan }).map(
            |mut ran| {
                ran.receipts = core::mem::take(&mut ran.answers);
                ran
            },
        )
    };
    let [every, demanded] = [idle(plan.production)?, idle(Production::Instant)?];
    let full = run::run(&plan)?;
    let rate = plan.load.txs.len() as f64 / full.took.as_secs_f64() / 2.0;
    let half = run::run(&Plan { rate: Some(rate), has_receipts: true, ..plan })?;
    Ok([("receipts, idle", 1, every), ("receipts, on demand", 1, demanded), ("receipts, half load", plan.batch, half)])
}
