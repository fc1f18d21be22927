//! `bench node`: from signed bytes on a socket to durable blocks, with the engine alone beside it.

mod ways;
mod run;
mod link;
mod served;
mod client;
mod load;
mod judge;
mod alone;
mod chain;
mod written;
mod picture;

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
    config::{choice, heading, threads as checked},
    error::Usage,
};
use phalanx_node::Production;
use run::Plan;
use std::path::{Path, PathBuf};
use ways::{IDLE_RECEIPTS, Way};

/// End to end on one machine: a node in a process of its own makes blocks, and clients over loopback TCP send transfers that were
/// signed before.
///
/// Each run is on a new chain, behind one that is thrown away: transactions in frames of the binary ingress, in batches of JSON-RPC, over
/// WebSockets with many requests in flight, one by one, and in batches with readers beside; then receipts as answers, from a node with
/// nothing else to do, of blocks every 10 ms and on demand, each 10 to 20 ms behind the one before, and beside batches at half of their
/// rate. Behind each run its blocks are executed on sequential revm, and every root is compared. Then the engine executes and commits equal
/// blocks from bytes, without pool, block store and JSON-RPC. Clients and node share the cores; the processor time is the node's alone.
#[derive(Debug, Args)]
pub(crate) struct NodeBench {
    /// Number of transactions of every run
    #[arg(long, value_name = "N", default_value = "20000", help_heading = heading::LOAD)]
    txs: u64,
    /// Transfers
    #[arg(long, value_name = "KIND", default_value = "native", help_heading = heading::LOAD)]
    workload: Kind,
    /// Number of accounts that pay; each transfer is to an account of its own
    #[arg(long, value_name = "N", default_value = "256", help_heading = heading::LOAD)]
    payers: u64,
    /// Number of connections that send
    #[arg(long, value_name = "N", default_value = "4", help_heading = heading::LOAD)]
    writers: u64,
    /// Number of transactions in a frame, and in a request of the runs with batches
    #[arg(long, value_name = "N", default_value = "100", help_heading = heading::LOAD)]
    batch: u64,
    /// Maximum number of transactions that were sent and that no block had yet
    #[arg(long, value_name = "N", default_value = "4000", help_heading = heading::LOAD)]
    window: u64,
    /// Transactions that are sent per second, whatever the node answers; latencies count from the time at which each is due [default:
    /// as many as the node takes, within the window]
    #[arg(long, value_name = "N", help_heading = heading::LOAD)]
    rate: Option<u64>,
    /// Runs to make; repeatable, or separated by commas [default: all]
    #[arg(long, value_name = "RUN,..", value_delimiter = ',', help_heading = heading::LOAD)]
    runs: Vec<Way>,
    /// Number of connections that read balances in the run with reads
    #[arg(long, value_name = "N", default_value = "2", help_heading = heading::LOAD)]
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
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
    /// Write a page with latencies by percentile, and with the processor time of the node's threads
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
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
        let plan = Plan {
            form: Form::Http,
            load: &load,
            writers,
            batch,
            window,
            rate: self.rate.map(|rate| rate as f64),
            rest: None,
            readers: 0,
            has_receipts: false,
            production: blocks,
            threads,
        };
        let few = Load::new(self.workload, txs.min(IDLE_RECEIPTS), 1, gas_limit, root)?;
        let runs = ways::run(&self.runs, &plan, readers, &few)?;
        let per_block = txs.div_ceil(runs.first().map_or(1, |(.., ran)| ran.blocks).max(1));
        let alone = alone::run(&load, per_block, threads)?;
        let output = written::output(self, &recovery, &runs, &alone);
        output::show(&output, Files { json: self.json.as_deref(), ..Files::default() })?;
        picture::write(self.report.as_deref(), &output.text, &runs, self.json.as_deref() == Some(Path::new("-")))?;
        Ok(exit::OK)
    }
}
