//! `bench node`: from signed bytes on a socket to durable blocks, with the engine alone beside it.

mod run;
mod served;
mod client;
mod load;
mod alone;
mod written;

pub(in crate::cmd) use written::schema;

use crate::{
    cmd::node::production,
    exit,
    output::{self, Files},
};
use clap::Args;
use load::Load;
use phalanx::RootKind;
use phalanx_lab::{
    config::{choice, threads as checked},
    error::Usage,
};
use phalanx_node::Production;
use run::{Form, Plan};
use std::path::PathBuf;

/// End to end on one machine: a node in a process of its own makes blocks, and clients over loopback TCP send transfers that were
/// signed before.
///
/// Four runs, each on a new chain: transactions in frames of the binary ingress, in batches of JSON-RPC, one by one, and in batches with
/// readers beside. Then the engine executes and commits equal blocks from bytes, without pool, block store and JSON-RPC. Clients and
/// node share the cores; the processor time is the node's alone.
#[derive(Debug, Args)]
pub(crate) struct NodeBench {
    /// Number of transactions of every run
    #[arg(long, value_name = "N", default_value = "20000")]
    txs: u64,
    /// Number of accounts that pay; each transfer is to an account of its own
    #[arg(long, value_name = "N", default_value = "256")]
    payers: u64,
    /// Number of connections that send; each waits for an answer before its next request
    #[arg(long, value_name = "N", default_value = "4")]
    writers: u64,
    /// Number of transactions in a frame, and in a request of the runs with batches
    #[arg(long, value_name = "N", default_value = "100")]
    batch: u64,
    /// Maximum number of transactions that were sent and that no block had yet
    #[arg(long, value_name = "N", default_value = "4000")]
    window: u64,
    /// Number of connections that read balances in the third run
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
        let most = load::most_txs(gas_limit);
        if txs > most {
            let why = "full blocks raise the base fee above every price; raise --gas-limit";
            return Err(Usage(format!("--txs is at most {most} at --gas-limit {gas_limit}: {why}")).into());
        }
        let load = Load::new(txs, payers, gas_limit, root)?;
        let recovery = load.recover()?;
        let form = Form::Json;
        let plan = Plan { form, load: &load, writers, batch, window, readers: 0, production: blocks, threads };
        let plans = [
            ("binary frames", Plan { form: Form::Frames, ..plan }),
            ("batches", plan),
            ("one by one", Plan { batch: 1, ..plan }),
            ("batches beside reads", Plan { readers, ..plan }),
        ];
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
