//! `bench`: measurements.

mod compare;
mod sweep;
mod scale;
mod cores;
mod adversary;
mod plan;
mod build;
#[cfg(feature = "node")]
pub(super) mod node;
pub(crate) mod run;
mod schedule;
mod recovery;
mod store;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run one workload through the whole engine
    Run(Box<run::RunCommand>),
    /// Say what memory, disk and time a run takes, before it starts: its flags, and a small run
    Plan(Box<plan::PlanArgs>),
    /// Build blocks from signed bytes and validate them with each artefact: cost of the builder, gain of the validators
    Build(Box<build::BuildArgs>),
    /// Measure framing and DAG alone, without execution (FAFO's ablation)
    Schedule(schedule::ScheduleArgs),
    /// Run one workload over a range of settings, or a figure of FAFO's
    Sweep(Box<sweep::SweepArgs>),
    /// Model more cores than this machine has, from the costs of one thread and the true DAGs. The model is compared with 1,
    /// 2, 4 .. real threads up to --threads
    Scale(Box<scale::ScaleArgs>),
    /// Measure this machine on one core, on two, and so on up to all, beside the model, within a given time
    Cores(cores::CoresArgs),
    /// Compare two results, or variants that run in turns: ratios with intervals
    Compare(Box<compare::CompareArgs>),
    /// Measure what hostile transactions cost, as factors of sequential execution; exits with 3 above a stated bound
    Adversary(adversary::AdversaryArgs),
    /// Measure a node end to end: signed bytes on a socket to durable blocks, with reads beside and the engine alone
    #[cfg(feature = "node")]
    Node(node::NodeBench),
    /// Measure the state store alone: updates of random keys, a root and a write per block
    Store(store::StoreArgs),
    /// Measure recovery of signers alone, side by side in lanes, beside libsecp256k1 on the same signatures
    Recovery(recovery::RecoveryArgs),
}

impl BenchCommand {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Run(args) => args.run(),
            Self::Plan(args) => args.run(),
            Self::Build(args) => args.run(),
            Self::Schedule(args) => args.run(),
            Self::Sweep(args) => args.run(),
            Self::Scale(args) => args.run(),
            Self::Cores(args) => args.run(),
            Self::Compare(args) => args.run(),
            Self::Adversary(args) => args.run(),
            #[cfg(feature = "node")]
            Self::Node(args) => args.run(),
            Self::Store(args) => args.run(),
            Self::Recovery(args) => args.run(),
        }
    }
}
