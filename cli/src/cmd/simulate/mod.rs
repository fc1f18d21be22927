//! `simulate`: consensus and pipeline in virtual time, a file for each command.

mod zaptos;
mod compare;
mod autobahn;
mod resilientdb;
mod sbft;
mod table;
mod real;
mod args;
mod evaluation;
mod figures;
mod point;
mod parallel;
mod claim;
mod written;

use crate::ui;
use args::ZaptosArgs;
use clap::Subcommand;
use evaluation::EvaluationArgs;

pub(super) use written::schemas;

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Latency of the Zaptos pipeline, baseline beside optimistic (Figures 5 to 8 of the paper)
    Zaptos(ZaptosArgs),
    /// Throughput of PBFT by the threads of its replicas ("Permissioned Blockchain Through the Looking Glass")
    Resilientdb(EvaluationArgs<phalanx_sim::resilientdb::Figure>),
    /// Throughput and latency of SBFT among hundreds of replicas, from PBFT up ("SBFT: a Scalable and Decentralized Trust
    /// Infrastructure")
    Sbft(sbft::SbftArgs),
    /// Latency and recovery of Autobahn beside HotStuff, in the paper's four regions ("Autobahn: Seamless high speed BFT")
    Autobahn(EvaluationArgs<phalanx_sim::autobahn::Figure>),
    /// Ordering protocols on one load, one topology and one fault
    Compare(compare::CompareArgs),
}

impl SimulateCommand {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Zaptos(args) => zaptos::run(args, &ui::immediate()),
            Self::Resilientdb(args) => args.run(),
            Self::Sbft(args) => args.run(),
            Self::Autobahn(args) => args.run(),
            Self::Compare(args) => args.run(),
        }
    }
}
