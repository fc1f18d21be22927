//! `bench node`: from signed bytes on a socket to durable blocks, with the engine alone beside it.

mod run;
mod link;
mod served;
mod client;
mod load;
mod judge;
mod alone;
mod chain;
mod written;

pub(in crate::cmd) use written::schema;

use crate::{
    cmd::node::production,
    exit,
    output::{self, Files},
};
use clap::Args;
use link::Form;
use load::{Kind, Load};
use phalanx::RootKind;
use phalanx_lab::{
    config::{choice, threads as checked},
    error::Usage,
};
use phalanx_node::Production;
use run::Plan;
use std::path::PathBuf;

/// End to end on one machine: a node in a process of its own makes blocks, and clients over loopback TCP send transfers that were
/// signed before.
///
/// Five runs, each on a new chain, behind one that is thrown away: transactions in frames of the binary ingress, in batches of JSON-RPC, over WebSockets with many
/// requests in flight, one by one, and in batches with readers beside. Behind each run its blocks are executed on sequential revm, and
/// every root is compared. Then the engine executes and commits equal blocks from bytes, without pool, block store and JSON-RPC. Clients
/// and node share the cores; the processor time is the node's alone.
#[derive(Debug, Args)]
pub(crate) struct NodeBench {
    /// Number of transactions of every run
    #[arg(long, value_name = "N", default_value = "20000")]
    txs: u64,
    /// Transfers
    #[arg(long, value_name = "KIND", default_value = "native")]
    workload: Kind,
    /// Number of accounts that pay; each transfer is to an account of its own
    #[arg(long, value_name = "N", default_value = "256")]
    payers: u64,
    /// Number of connections that send
    #[arg(long, value_name = "N", default_value = "4")]
    writers: u64,
    /// Number of transactions in a frame, and in a request of the runs with batches
    #[arg(long, value_name = "N", default_value = "100")]
    batch: u64,
    /// Maximum number of transactions that were sent and that no block had yet
    #[arg(long, value_name = "N", default_value = "4000")]
    window: u64,
    /// Transactions that are sent per second, whatever the node answers; latencies count from the time at which each is due [default:
    /// as many as the node takes, within the window]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Number of connections that read balances in the last run
    #[arg(long, value_name = "N", default_value = "2")]
    readers: u64,
    /// When blocks are made: instant, or a period as 100ms
    #[arg(long, value_name = "WHEN", default_value = "100ms", value_parser = production)]
    blocks: Production,
    /// Gas limit of a block
    #[arg(long, value_name = "GAS", default_value = "420000000")]
    gas_limit: u64,
    /// Worker threads of the engine [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Root that blocks report
    #[arg(long, value_parser = choice::<RootKind>(), default_value = "twigs")]
    root: RootKind,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

impl NodeBench {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let &Self { txs, payers, writers, batch, window, readers, blocks, gas_limit, threads, root, .. } = self;
        let positive = [("txs", txs), ("payers", payers), ("writers", writers), ("batch", batch), ("window", window)];
        if let Some((flag, _)) = positive.iter().find(|(_, number)| *number == 0) {
            return Err(Usage(format!("--{flag} is at least 1")).into());
        }
        if blocks == Production::Off {
            return Err(Usage("--blocks off makes no blocks: name a period, or instant".into()).into());
        }
        checked(threads)?;
        let most = u64::from(phalanx_node::RpcConfig::default().max_batch);
        if batch > most {
            return Err(Usage(format!("--batch is at most {most}, as a node takes by default")).into());
        }
        if self.rate == Some(0) {
            return Err(Usage("--rate is at least 1".into()).into());
        }
        let most = self.workload.most_txs(gas_limit);
        if txs > most {
            let why = "full blocks raise the base fee above every price; raise --gas-limit";
            return Err(Usage(format!("--txs is at most {most} at --gas-limit {gas_limit}: {why}")).into());
        }
        let load = Load::new(self.workload, txs, payers, gas_limit, root)?;
        let recovery = load.recover()?;
        let (form, rate) = (Form::Http, self.rate.map(|rate| rate as f64));
        let plan = Plan { form, load: &load, writers, batch, window, rate, readers: 0, production: blocks, threads };
        let plans = [
            ("binary frames", Plan { form: Form::Frames, ..plan }),
            ("batches", plan),
            ("WebSocket", Plan { form: Form::WebSocket, batch: 1, ..plan }),
            ("one by one", Plan { batch: 1, ..plan }),
            ("batches beside reads", Plan { readers, ..plan }),
        ];
        // Memory that a machine has not used for some time costs more the first time: no run may pay for the others.
        run::run(&plans[0].1)?;
        let mut runs = Vec::new();
        for (name, plan) in plans {
            runs.push((name, plan.batch, run::run(&plan)?));
        }
        let per_block = txs.div_ceil(runs[0].2.blocks.max(1));
        let alone = alone::run(&load, per_block, threads)?;
        let output = written::output(self, &recovery, &runs, &alone);
        output::show(&output, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(exit::OK)
    }
}
