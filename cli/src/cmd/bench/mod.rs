//! `bench`: measurements.

mod compare;
mod sweep;
mod scale;
mod build;
pub(crate) mod run;
mod schedule;
mod store;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One workload through the whole engine
    Run(Box<run::RunArgs>),
    /// Blocks built from signed bytes, and validated with each artefact: what producing costs, and what validators save
    Build(Box<build::BuildArgs>),
    /// Framing and DAG alone, without execution (FAFO's ablation)
    Schedule(schedule::ScheduleArgs),
    /// One workload over a range of settings, or a figure of FAFO's
    Sweep(Box<sweep::SweepArgs>),
    /// A model of more cores than there are: the costs of one thread, replayed over the true DAGs. It is compared with 1, 2,
    /// 4 .. real threads up to --threads [default: 2]
    Scale(Box<scale::ScaleArgs>),
    /// Is one faster than the other? Two results, or variants that are run in turns, with intervals
    Compare(Box<compare::CompareArgs>),
    /// The state store alone: updates of random keys, a root and a write per block
    Store(store::StoreArgs),
}

impl BenchCommand {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Run(args) => args.run(),
            Self::Build(args) => args.run(),
            Self::Schedule(args) => args.run(),
            Self::Sweep(args) => args.run(),
            Self::Scale(args) => args.run(),
            Self::Compare(args) => args.run(),
            Self::Store(args) => args.run(),
        }
    }
}
